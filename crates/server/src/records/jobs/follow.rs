//! Splits of clones that are followed. The engine knows how far each is; a job is what somebody remembers of it.

use everglade_api::{Job, Moment, Split, SplitState};
use everglade_engine::VolumeId;

use crate::records::course::{Course, Work};

/// A split that was begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Splitting {
    /// Its volume, whatever that is called.
    pub id: VolumeId,
    /// How it is doing.
    pub split: Split,
    /// Why its aggregate does nothing any more.
    pub failure: Option<String>,
}

impl Splitting {
    /// True if it goes on by itself.
    pub(super) fn is_going_on(&self) -> bool {
        let state = self.split.state;
        self.failure.is_none() && matches!(state, SplitState::Copying | SplitState::Waiting)
    }
}

/// A split that is followed.
pub(super) struct Follow {
    volume: VolumeId,
    /// As it was looked at last.
    split: Split,
    /// What had been copied when it began.
    from: u64,
    course: Course,
}

impl Follow {
    pub(super) fn new(now: Moment, begun: &Splitting) -> Follow {
        let mut follow = Follow {
            volume: begun.id,
            split: begun.split.clone(),
            from: begun.split.done_bytes,
            course: Course::begun(now),
        };
        // It may be done by now.
        follow.look(now, Some(begun));
        follow
    }

    pub(super) fn volume(&self) -> VolumeId {
        self.volume
    }

    pub(super) fn course(&self) -> &Course {
        &self.course
    }

    pub(super) fn is_under_way(&self) -> bool {
        !self.course.has_ended()
    }

    /// Takes note of what became of it; nothing if its volume is not there.
    pub(super) fn look(&mut self, now: Moment, found: Option<&Splitting>) {
        let Some(found) = found else {
            let text = format!("volume {} was deleted", self.split.volume);
            self.course.end(now, Err(text));
            return;
        };
        let volume = &found.split.volume;
        let outcome = match (&found.failure, found.split.state) {
            (Some(failure), _) => Some(Err(failure.clone())),
            (None, SplitState::Done) => Some(Ok(())),
            (None, SplitState::Stopped | SplitState::None) => Some(Err(format!(
                "stopped; 'clone split start {volume}' goes on from there"
            ))),
            (None, SplitState::Copying | SplitState::Waiting) => None,
        };
        // Of one that is done nobody knows how much there was.
        match outcome {
            Some(Ok(())) => self.split.volume.clone_from(volume),
            _ => self.split = found.split.clone(),
        }
        if let Some(outcome) = outcome {
            self.course.end(now, outcome);
        }
    }

    pub(super) fn view(&self, id: u64, now: Moment) -> Job {
        let split = &self.split;
        let waits = split.waits_for.as_ref();
        let work = Work {
            kind: "clone split",
            object: split.volume.clone(),
            total: split.total_bytes,
            done: split.done_bytes,
            from: self.from,
            eta_seconds: split.eta_seconds,
            note: waits.map(|what| format!("waits for {what}")),
            is_cancellable: true,
        };
        self.course.view(id, now, work)
    }
}
