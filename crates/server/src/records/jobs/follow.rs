//! Splits of clones that are followed. The engine knows how far each is; a job is what somebody remembers of it.

use everglade_api::{Job, JobState, Moment, Split, SplitState};
use everglade_engine::VolumeId;

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
    started: Moment,
    ended: Option<(Moment, Result<(), String>)>,
}

impl Follow {
    pub(super) fn new(now: Moment, begun: &Splitting) -> Follow {
        let mut follow = Follow {
            volume: begun.id,
            split: begun.split.clone(),
            from: begun.split.done_bytes,
            started: now,
            ended: None,
        };
        // It may be done by now.
        follow.look(now, Some(begun));
        follow
    }

    pub(super) fn volume(&self) -> VolumeId {
        self.volume
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.ended.is_none()
    }

    /// Takes note of what became of it; nothing if its volume is not there.
    pub(super) fn look(&mut self, now: Moment, found: Option<&Splitting>) {
        let Some(found) = found else {
            let text = format!("volume {} was deleted", self.split.volume);
            self.ended = Some((now, Err(text)));
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
        self.ended = outcome.map(|outcome| (now, outcome));
    }

    pub(super) fn view(&self, id: u64, now: Moment) -> Job {
        let split = &self.split;
        let waits = split.waits_for.as_ref();
        let waits = waits.map(|what| format!("waits for {what}"));
        let (state, detail, until) = match &self.ended {
            None => (JobState::Running, waits, now),
            Some((when, Ok(()))) => (JobState::Done, None, *when),
            Some((when, Err(failure))) => (JobState::Failed, Some(failure.clone()), *when),
        };
        let is_running = state == JobState::Running;
        let (percent, done) = match state {
            JobState::Done => (100, split.total_bytes),
            _ => (split.percent, split.done_bytes),
        };
        let seconds = until.0.saturating_sub(self.started.0).max(1);
        Job {
            id,
            kind: "clone split".to_owned(),
            object: split.volume.clone(),
            state,
            percent,
            total_bytes: split.total_bytes,
            done_bytes: done,
            rate_bytes_per_second: done.saturating_sub(self.from) / seconds,
            eta_seconds: split.eta_seconds.filter(|_| is_running),
            started: self.started.to_string(),
            ended: self.ended.as_ref().map(|(when, _)| when.to_string()),
            cancellable: is_running,
            detail,
        }
    }
}
