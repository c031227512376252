//! Jobs that clone LUNs inside their volumes.
//!
//! The engine makes the clone, also over a restart; it knows how far it is, and why it ended without one. The job
//! follows: it is done when the LUN is there, and failed when the engine says so or knows nothing of it any more. One
//! that the daemon finds under way when it starts gets a job too.

use std::collections::BTreeMap;

use everglade_api::{Job, Moment};
use everglade_engine::VolumeId;

use super::course::{Course, Work, forget_ended};

/// How often nothing may be seen of a clone before it counts as lost: between two looks it may be on the way from
/// being made to being there.
const UNSEEN_MAX: u32 = 3;

/// What the engine says of a volume's clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sight {
    /// The volume.
    pub id: VolumeId,
    /// What that is called now.
    pub volume: String,
    /// The LUN that is being made, or was.
    pub name: String,
    /// How far it is, in bytes of the LUN.
    pub done: u64,
    /// The LUN's size.
    pub total: u64,
    /// Seconds until it is there.
    pub eta_seconds: Option<u64>,
    /// Why it ended without a clone.
    pub failed: Option<String>,
}

/// What can be seen of all clones.
#[derive(Clone, Debug, Default)]
pub struct Sights {
    /// Those that are being made, or failed last.
    pub clones: Vec<Sight>,
    /// All LUNs: their volumes and names.
    pub luns: Vec<(VolumeId, String)>,
}

/// See the module's documentation.
#[derive(Default)]
pub(super) struct Clones {
    jobs: BTreeMap<u64, Clone>,
}

struct Clone {
    id: VolumeId,
    volume: String,
    name: String,
    done: u64,
    /// What had been done when it began.
    from: u64,
    total: u64,
    eta_seconds: Option<u64>,
    unseen: u32,
    course: Course,
}

impl Clones {
    /// Begins to follow one.
    pub(super) fn begin(&mut self, id: u64, now: Moment, sight: &Sight) -> Job {
        let job = Clone {
            id: sight.id,
            volume: sight.volume.clone(),
            name: sight.name.clone(),
            done: sight.done,
            from: sight.done,
            total: sight.total,
            eta_seconds: None,
            unseen: 0,
            course: Course::begun(now),
        };
        let view = job.view(id, now);
        self.jobs.insert(id, job);
        forget_ended(&mut self.jobs, |job| &job.course);
        view
    }

    /// Looks how far they are. Returns those that ended just now.
    pub(super) fn advance(&mut self, now: Moment, sights: &Sights) -> Vec<Job> {
        let mut ended = Vec::new();
        for (id, job) in &mut self.jobs {
            if job.is_running() && job.look(now, sights) {
                ended.push(job.view(*id, now));
            }
        }
        ended
    }

    /// Clones under way that no job follows.
    pub(super) fn unknown<'s>(&self, sights: &'s Sights) -> Vec<&'s Sight> {
        let is_known = |sight: &Sight| {
            let mut running = self.jobs.values().filter(|job| job.is_running());
            running.any(|job| job.is_of(sight))
        };
        let clones = sights.clones.iter();
        clones
            .filter(|sight| sight.failed.is_none() && !is_known(sight))
            .collect()
    }

    /// The volume and the name of one that is under way.
    pub(super) fn running(&self, id: u64) -> Option<(VolumeId, String)> {
        let job = self.jobs.get(&id).filter(|job| job.is_running())?;
        Some((job.id, job.name.clone()))
    }

    /// True if one is under way.
    pub(super) fn is_busy(&self) -> bool {
        self.jobs.values().any(Clone::is_running)
    }

    /// The job that follows it, if one does.
    pub(super) fn find(&self, now: Moment, sight: &Sight) -> Option<Job> {
        let mut running = self.jobs.iter().filter(|(_, job)| job.is_running());
        let (id, job) = running.find(|(_, job)| job.is_of(sight))?;
        Some(job.view(*id, now))
    }

    pub(super) fn one(&self, now: Moment, id: u64) -> Option<Job> {
        self.jobs.get(&id).map(|job| job.view(id, now))
    }

    pub(super) fn all(&self, now: Moment) -> impl Iterator<Item = Job> {
        self.jobs.iter().map(move |(id, job)| job.view(*id, now))
    }
}

impl Clone {
    fn is_running(&self) -> bool {
        !self.course.has_ended()
    }

    fn is_of(&self, sight: &Sight) -> bool {
        (self.id, &self.name) == (sight.id, &sight.name)
    }

    /// True if it ended.
    fn look(&mut self, now: Moment, sights: &Sights) -> bool {
        let mut luns = sights.luns.iter();
        let is_there = luns.any(|(volume, name)| (*volume, name) == (self.id, &self.name));
        let outcome = match sights.clones.iter().find(|sight| self.is_of(sight)) {
            Some(sight) if sight.failed.is_none() => {
                self.volume.clone_from(&sight.volume);
                self.done = sight.done;
                self.total = sight.total;
                self.eta_seconds = sight.eta_seconds;
                self.unseen = 0;
                return false;
            }
            _ if is_there => Ok(()),
            Some(sight) => Err(sight.failed.clone().unwrap_or_default()),
            None => {
                self.unseen += 1;
                if self.unseen < UNSEEN_MAX {
                    return false;
                }
                Err("the volume was deleted, or the clone with it".to_owned())
            }
        };
        self.course.end(now, outcome);
        true
    }

    fn view(&self, id: u64, now: Moment) -> Job {
        let work = Work {
            kind: "lun clone",
            object: format!("{}/{}", self.volume, self.name),
            total: self.total,
            done: self.done.min(self.total),
            from: self.from,
            eta_seconds: self.eta_seconds,
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

    const VOLUME: VolumeId = VolumeId {
        aggregate: 1,
        volume: 64,
    };

    fn sight(done: u64, failed: Option<&str>) -> Sight {
        Sight {
            id: VOLUME,
            volume: "v".to_owned(),
            name: "new".to_owned(),
            done,
            total: 400,
            eta_seconds: Some(3),
            failed: failed.map(str::to_owned),
        }
    }

    fn sights(clones: Vec<Sight>, luns: &[&str]) -> Sights {
        let luns = luns.iter().map(|lun| (VOLUME, (*lun).to_owned()));
        let luns = luns.collect();
        Sights { clones, luns }
    }

    #[test]
    fn a_clone_is_done_when_the_lun_is_there() {
        let mut clones = Clones::default();
        let job = clones.begin(1, Moment(10), &sight(0, None));
        assert_eq!((job.percent, job.cancellable), (0, true));
        let now = sights(vec![sight(100, None)], &["old"]);
        assert!(clones.advance(Moment(11), &now).is_empty());
        assert_eq!(clones.one(Moment(11), 1).map(|job| job.percent), Some(25));
        assert!(clones.unknown(&now).is_empty());
        // On its way from being made to being there.
        assert!(
            clones
                .advance(Moment(11), &sights(vec![], &["old"]))
                .is_empty()
        );
        let ended = clones.advance(Moment(12), &sights(vec![], &["old", "new"]));
        assert_eq!((ended[0].state, ended[0].percent), (JobState::Done, 100));
        assert_eq!((ended[0].cancellable, ended[0].eta_seconds), (false, None));
    }

    #[test]
    fn a_clone_that_failed_or_vanished_says_so() {
        let mut clones = Clones::default();
        clones.begin(1, Moment(10), &sight(0, None));
        let ended = clones.advance(Moment(11), &sights(vec![sight(0, Some("full"))], &[]));
        assert_eq!(ended[0].detail.as_deref(), Some("full"));
        clones.begin(2, Moment(10), &sight(0, None));
        let nothing = sights(vec![], &[]);
        let ended: Vec<Job> = (0..UNSEEN_MAX)
            .flat_map(|_| clones.advance(Moment(12), &nothing))
            .collect();
        assert_eq!(ended.len(), 1);
        assert_eq!(ended[0].state, JobState::Failed);
        assert_eq!(clones.running(2), None);
    }

    #[test]
    fn one_that_is_under_way_at_the_start_is_found() {
        let mut clones = Clones::default();
        let now = sights(vec![sight(7, None)], &[]);
        assert_eq!(clones.unknown(&now).len(), 1);
        assert!(
            clones
                .unknown(&sights(vec![sight(7, Some("full"))], &[]))
                .is_empty()
        );
        clones.begin(3, Moment(1), &sight(7, None));
        assert!(
            clones
                .advance(Moment(3), &sights(vec![sight(27, None)], &[]))
                .is_empty()
        );
        let rate = clones
            .one(Moment(3), 3)
            .map(|job| job.rate_bytes_per_second);
        assert_eq!(rate, Some(10), "what was done before is not its doing");
        assert_eq!(clones.running(3), Some((VOLUME, "new".to_owned())));
    }

    #[test]
    fn a_clone_is_followed_when_its_volume_gets_another_name() {
        let mut clones = Clones::default();
        clones.begin(1, Moment(1), &sight(7, None));
        let renamed = Sight {
            volume: "w".to_owned(),
            ..sight(9, None)
        };
        let now = sights(vec![renamed], &[]);
        assert!(clones.unknown(&now).is_empty(), "it is the same clone");
        assert!(clones.advance(Moment(2), &now).is_empty());
        let object = clones.one(Moment(2), 1).map(|job| job.object);
        assert_eq!(object.as_deref(), Some("w/new"));
        let ended = clones.advance(Moment(3), &sights(vec![], &["new"]));
        assert_eq!(ended[0].state, JobState::Done);
    }
}
