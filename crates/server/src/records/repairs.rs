//! Jobs that repair aggregates. The engine knows the progress of each repair; the job shows it to
//! administrators.
//!
//! running ──all was read, and nothing is left damaged──▶ done
//!    ├──all was read, and something cannot be derived──▶ failed
//!    ├──it was stopped──▶ failed
//!    └──the aggregate failed or went──▶ failed

use everglade_api::{Job, Moment, Repair, RepairState, counted};
use everglade_env::BLOCK_SIZE;

use super::course::{Course, Work};
use super::follow::Follow;

const BLOCK: u64 = BLOCK_SIZE as u64;

/// The engine's state of the last repair of an aggregate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepairProgress {
    /// The aggregate's number, whatever it is called.
    pub id: u32,
    /// State and progress of the repair.
    pub repair: Repair,
    /// The reason why the aggregate cannot be changed any more.
    pub failure: Option<String>,
}

/// A repair that is followed.
pub(super) struct Repairing {
    aggregate: u32,
    /// The state at the last check.
    repair: Repair,
    course: Course,
}

impl Repairing {
    /// Returns the aggregate's number.
    pub(super) fn aggregate(&self) -> u32 {
        self.aggregate
    }

    fn take_in(&mut self, now: Moment, found: &RepairProgress) {
        self.repair = found.repair.clone();
        let name = &self.repair.aggregate;
        let outcome = match (&found.failure, found.repair.state) {
            (Some(failure), _) => Err(failure.clone()),
            (None, RepairState::Running) => return,
            (None, RepairState::Done) if self.repair.damaged_blocks == 0 => Ok(()),
            (None, RepairState::Done) => Err(format!(
                "damaged, and cannot be derived: {}; 'status' says what to do",
                counted(self.repair.damaged_blocks, "block")
            )),
            (None, RepairState::Stopped | RepairState::None) => {
                let reason = self.repair.reason.as_ref();
                let because = reason.map_or(String::new(), |reason| format!(": {reason}"));
                Err(format!(
                    "stopped{because}; 'repair {name}' begins again, and what was mended stays so"
                ))
            }
        };
        self.course.end(now, outcome);
    }
}

impl Follow for Repairing {
    type Progress = RepairProgress;
    type Overview = [RepairProgress];

    fn new(now: Moment, progress: &RepairProgress) -> Repairing {
        let mut job = Repairing {
            aggregate: progress.id,
            repair: progress.repair.clone(),
            course: Course::begun(now),
        };
        // It may be done by now.
        job.take_in(now, progress);
        job
    }

    fn is_of(&self, progress: &RepairProgress) -> bool {
        self.aggregate == progress.id
    }

    fn update(&mut self, now: Moment, overview: &[RepairProgress]) {
        match overview.iter().find(|progress| self.is_of(progress)) {
            Some(found) => self.take_in(now, found),
            None => {
                let text = format!("aggregate {} was deleted", self.repair.aggregate);
                self.course.end(now, Err(text));
            }
        }
    }

    fn going_on(overview: &[RepairProgress]) -> impl Iterator<Item = &RepairProgress> {
        let is_running = |progress: &&RepairProgress| progress.repair.state == RepairState::Running;
        overview
            .iter()
            .filter(|progress| progress.failure.is_none())
            .filter(is_running)
    }

    fn course(&self) -> &Course {
        &self.course
    }

    fn view(&self, id: u64, now: Moment) -> Job {
        let repair = &self.repair;
        let work = Work {
            kind: "repair",
            object: repair.aggregate.clone(),
            total: repair.total_blocks.saturating_mul(BLOCK),
            done: repair.read_blocks.saturating_mul(BLOCK),
            from: 0,
            eta_seconds: repair.eta_seconds,
            note: None,
            is_cancellable: true,
        };
        self.course.view(id, now, work)
    }
}

#[cfg(test)]
mod tests {
    use everglade_api::JobState;

    use super::*;
    use crate::records::follow::Followed;

    fn progress(state: RepairState, read: u64) -> RepairProgress {
        RepairProgress {
            id: 3,
            repair: Repair {
                aggregate: "a".to_owned(),
                state,
                read_blocks: read,
                total_blocks: 100,
                ..Repair::default()
            },
            failure: None,
        }
    }

    #[test]
    fn a_repair_is_followed_until_everything_was_read() {
        let (mut repairs, mut next) = (Followed::<Repairing>::default(), 0);
        let running = progress(RepairState::Running, 25);
        let job = repairs.begin(&mut next, Moment(1), &running);
        assert_eq!((job.percent, job.cancellable), (25, true));
        assert_eq!(repairs.under_way(1).map(Repairing::aggregate), Some(3));
        assert!(repairs.advance(&mut next, Moment(2), &[running]).is_empty());
        assert_eq!(repairs.all(Moment(2)).count(), 1, "one job for one repair");
        let done = progress(RepairState::Done, 100);
        let ended = repairs.advance(&mut next, Moment(9), &[done]);
        assert_eq!((ended[0].percent, ended[0].state), (100, JobState::Done));
        assert!(!repairs.is_busy());
        repairs.advance(&mut next, Moment(10), &[progress(RepairState::Running, 1)]);
        assert_eq!(repairs.under_way(2).map(Repairing::aggregate), Some(3));
    }

    #[test]
    fn what_cannot_be_derived_fails_the_job_and_so_does_a_stop() {
        let (mut repairs, mut next) = (Followed::<Repairing>::default(), 0);
        let changes: [fn(&mut RepairProgress); 3] = [
            |it| it.repair.damaged_blocks = 2,
            |it| it.repair.state = RepairState::Stopped,
            |it| it.failure = Some("it broke".to_owned()),
        ];
        for (case, change) in changes.into_iter().enumerate() {
            repairs.begin(&mut next, Moment(1), &progress(RepairState::Running, 1));
            let mut later = progress(RepairState::Done, 100);
            change(&mut later);
            let ended = repairs.advance(&mut next, Moment(2), &[later]);
            assert_eq!(ended[0].state, JobState::Failed, "{case}");
        }
        repairs.begin(&mut next, Moment(1), &progress(RepairState::Running, 1));
        let ended = repairs.advance(&mut next, Moment(2), &[]);
        let detail = ended[0].detail.clone().unwrap_or_default();
        assert!(detail.contains("deleted"), "{detail}");
    }
}
