//! Jobs that repair aggregates. The engine knows how far each is; a job is what somebody remembers of it.
//!
//! running ──all was read, and nothing is left damaged──▶ done
//!    ├──all was read, and something cannot be derived──▶ failed
//!    ├──it was stopped──▶ failed
//!    └──the aggregate failed or went──▶ failed

use std::collections::BTreeMap;

use everglade_api::{Job, Moment, Repair, RepairState};

use super::course::{Course, Work, forget_ended};

/// Bytes of a block.
const BLOCK: u64 = 4096;

/// What the engine says of the last repair of an aggregate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sight {
    /// The aggregate's number, whatever it is called.
    pub id: u32,
    /// How it is doing.
    pub repair: Repair,
    /// Why the aggregate cannot be changed any more.
    pub failure: Option<String>,
}

impl Sight {
    /// True if it goes on by itself.
    fn is_going_on(&self) -> bool {
        self.failure.is_none() && self.repair.state == RepairState::Running
    }
}

/// See the module's documentation.
#[derive(Default)]
pub(super) struct Repairs {
    jobs: BTreeMap<u64, Follow>,
}

struct Follow {
    aggregate: u32,
    /// As it was looked at last.
    repair: Repair,
    course: Course,
}

impl Repairs {
    /// Begins to follow one, under this number.
    pub(super) fn begin(&mut self, id: u64, now: Moment, sight: &Sight) -> Job {
        let mut follow = Follow {
            aggregate: sight.id,
            repair: sight.repair.clone(),
            course: Course::begun(now),
        };
        // It may be done by now.
        follow.look(now, Some(sight));
        let job = follow.view(id, now);
        self.jobs.insert(id, follow);
        forget_ended(&mut self.jobs, |job| &job.course);
        job
    }

    /// The job that follows it, if one does.
    pub(super) fn find(&self, now: Moment, sight: &Sight) -> Option<Job> {
        let mut running = self.running().filter(|(_, it)| it.aggregate == sight.id);
        running.next().map(|(id, it)| it.view(*id, now))
    }

    /// Looks how far they are; returns those that ended just now.
    pub(super) fn advance(&mut self, now: Moment, sights: &[Sight]) -> Vec<Job> {
        let mut ended = Vec::new();
        for (id, follow) in &mut self.jobs {
            if !follow.course.has_ended() {
                follow.look(now, sights.iter().find(|it| it.id == follow.aggregate));
                if follow.course.has_ended() {
                    ended.push(follow.view(*id, now));
                }
            }
        }
        ended
    }

    /// Those that go on and that no job follows.
    pub(super) fn unknown<'s>(&self, sights: &'s [Sight]) -> Vec<&'s Sight> {
        let is_known = |sight: &Sight| self.running().any(|(_, it)| it.aggregate == sight.id);
        let going_on = sights.iter().filter(|sight| sight.is_going_on());
        going_on.filter(|sight| !is_known(sight)).collect()
    }

    /// The aggregate that a job repairs, if it is under way.
    pub(super) fn under_way(&self, id: u64) -> Option<u32> {
        let follow = self.jobs.get(&id).filter(|it| !it.course.has_ended())?;
        Some(follow.aggregate)
    }

    /// True if one is under way.
    pub(super) fn is_busy(&self) -> bool {
        self.running().next().is_some()
    }

    pub(super) fn one(&self, now: Moment, id: u64) -> Option<Job> {
        self.jobs.get(&id).map(|it| it.view(id, now))
    }

    pub(super) fn all(&self, now: Moment) -> impl Iterator<Item = Job> {
        self.jobs.iter().map(move |(id, it)| it.view(*id, now))
    }

    fn running(&self) -> impl Iterator<Item = (&u64, &Follow)> {
        self.jobs.iter().filter(|(_, it)| !it.course.has_ended())
    }
}

impl Follow {
    fn look(&mut self, now: Moment, found: Option<&Sight>) {
        let Some(found) = found else {
            let text = format!("aggregate {} was deleted", self.repair.aggregate);
            return self.course.end(now, Err(text));
        };
        self.repair = found.repair.clone();
        let name = &self.repair.aggregate;
        let outcome = match (&found.failure, found.repair.state) {
            (Some(failure), _) => Err(failure.clone()),
            (None, RepairState::Running) => return,
            (None, RepairState::Done) if self.repair.damaged_blocks == 0 => Ok(()),
            (None, RepairState::Done) => Err(format!(
                "{} blocks are damaged and cannot be derived; 'status' says what to do",
                self.repair.damaged_blocks
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

    fn sight(state: RepairState, read: u64) -> Sight {
        Sight {
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
        let mut repairs = Repairs::default();
        let job = repairs.begin(1, Moment(1), &sight(RepairState::Running, 25));
        assert_eq!((job.percent, job.cancellable), (25, true));
        assert_eq!(repairs.under_way(1), Some(3));
        assert!(
            repairs
                .unknown(&[sight(RepairState::Running, 25)])
                .is_empty()
        );
        let ended = repairs.advance(Moment(9), &[sight(RepairState::Done, 100)]);
        assert_eq!((ended[0].percent, ended[0].state), (100, JobState::Done));
        assert!(!repairs.is_busy());
        assert_eq!(repairs.unknown(&[sight(RepairState::Running, 1)]).len(), 1);
    }

    #[test]
    fn what_cannot_be_derived_fails_the_job_and_so_does_a_stop() {
        let mut repairs = Repairs::default();
        for (id, change) in [
            (
                1,
                Box::new(|it: &mut Sight| it.repair.damaged_blocks = 2) as Box<dyn Fn(&mut Sight)>,
            ),
            (
                2,
                Box::new(|it: &mut Sight| it.repair.state = RepairState::Stopped),
            ),
            (
                3,
                Box::new(|it: &mut Sight| it.failure = Some("it broke".to_owned())),
            ),
        ] {
            repairs.begin(id, Moment(1), &sight(RepairState::Running, 1));
            let mut later = sight(RepairState::Done, 100);
            change(&mut later);
            let ended = repairs.advance(Moment(2), &[later]);
            assert_eq!(ended[0].state, JobState::Failed, "{id}");
        }
        repairs.begin(4, Moment(1), &sight(RepairState::Running, 1));
        let ended = repairs.advance(Moment(2), &[]);
        let detail = ended[0].detail.clone().unwrap_or_default();
        assert!(detail.contains("deleted"), "{detail}");
    }
}
