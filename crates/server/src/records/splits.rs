//! Jobs that split clones.

use everglade_api::{Job, Moment, Split as SplitReport, SplitState};
use everglade_engine::VolumeId;

use super::course::{Course, Work};
use super::follow::Follow;

/// A split that was begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Splitting {
    /// Its volume, whatever that is called.
    pub id: VolumeId,
    /// How it is doing.
    pub split: SplitReport,
    /// The reason why its aggregate does nothing any more.
    pub failure: Option<String>,
}

/// A split that is followed.
pub(super) struct Split {
    volume: VolumeId,
    /// The state at the last check.
    split: SplitReport,
    /// The amount that had been copied when the job began.
    from: u64,
    course: Course,
}

impl Split {
    /// Its volume, whatever that is called.
    pub(super) fn volume(&self) -> VolumeId {
        self.volume
    }

    fn take_in(&mut self, now: Moment, found: &Splitting) {
        let volume = &found.split.volume;
        let outcome = match (&found.failure, found.split.state) {
            (Some(failure), _) => Some(Err(failure.clone())),
            (None, SplitState::Done) => Some(Ok(())),
            (None, SplitState::Stopped | SplitState::None) => Some(Err(format!(
                "stopped; 'clone split start {volume}' goes on from there"
            ))),
            (None, SplitState::Copying | SplitState::Waiting) => None,
        };
        // The total of a finished job is unknown.
        match outcome {
            Some(Ok(())) => self.split.volume.clone_from(volume),
            _ => self.split = found.split.clone(),
        }
        if let Some(outcome) = outcome {
            self.course.end(now, outcome);
        }
    }
}

impl Follow for Split {
    type Progress = Splitting;
    type Overview = [Splitting];

    fn new(now: Moment, begun: &Splitting) -> Split {
        let mut job = Split {
            volume: begun.id,
            split: begun.split.clone(),
            from: begun.split.done_bytes,
            course: Course::begun(now),
        };
        // The split may be complete already.
        job.take_in(now, begun);
        job
    }

    fn is_of(&self, progress: &Splitting) -> bool {
        self.volume == progress.id
    }

    fn update(&mut self, now: Moment, overview: &[Splitting]) {
        match overview.iter().find(|progress| self.is_of(progress)) {
            Some(found) => self.take_in(now, found),
            None => {
                let text = format!("volume {} was deleted", self.split.volume);
                self.course.end(now, Err(text));
            }
        }
    }

    fn going_on(overview: &[Splitting]) -> impl Iterator<Item = &Splitting> {
        let is_going_on =
            |state: SplitState| matches!(state, SplitState::Copying | SplitState::Waiting);
        overview
            .iter()
            .filter(move |it| it.failure.is_none() && is_going_on(it.split.state))
    }

    fn course(&self) -> &Course {
        &self.course
    }

    fn view(&self, id: u64, now: Moment) -> Job {
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
