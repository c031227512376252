//! Jobs that clone LUNs inside their volumes.
//!
//! The engine makes the clone, also across a restart. It knows the progress, and the reason if
//! cloning has failed. The job follows the engine: it is done when the LUN exists, and has failed
//! when the engine says so or does not know the clone any more. A clone that is under way when the
//! daemon starts gets a job, too.

use everglade_api::{Job, Moment};
use everglade_engine::VolumeId;

use super::course::{Course, Work};
use super::follow::Follow;

/// Checks without a sight of a clone after which it counts as lost. Between two checks a clone may
/// be on its way from the list of clones to the list of LUNs.
const UNSEEN_MAX: u32 = 3;

/// The engine's state of the clone of a LUN in a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sight {
    /// The volume.
    pub id: VolumeId,
    /// Its present name.
    pub volume: String,
    /// The LUN that is being made, or was.
    pub name: String,
    /// Bytes of the LUN that are cloned.
    pub done: u64,
    /// The LUN's size.
    pub total: u64,
    /// Seconds until the clone is complete.
    pub eta_seconds: Option<u64>,
    /// The reason why cloning failed.
    pub failed: Option<String>,
}

/// The state of all clones.
#[derive(Clone, Debug, Default)]
pub struct Sights {
    /// The clones that are being made, or that failed last.
    pub clones: Vec<Sight>,
    /// All LUNs, as volume and name.
    pub luns: Vec<(VolumeId, String)>,
}

/// A clone that is followed.
pub(super) struct LunClone {
    id: VolumeId,
    volume: String,
    name: String,
    done: u64,
    /// The amount that had been done when the job began.
    from: u64,
    total: u64,
    eta_seconds: Option<u64>,
    unseen: u32,
    course: Course,
}

impl LunClone {
    /// Its volume, and the LUN that is being made.
    pub(super) fn names(&self) -> (VolumeId, &str) {
        (self.id, &self.name)
    }
}

impl Follow for LunClone {
    type Sight = Sight;
    type Seen = Sights;

    fn new(now: Moment, sight: &Sight) -> LunClone {
        LunClone {
            id: sight.id,
            volume: sight.volume.clone(),
            name: sight.name.clone(),
            done: sight.done,
            from: sight.done,
            total: sight.total,
            eta_seconds: None,
            unseen: 0,
            course: Course::begun(now),
        }
    }

    fn is_of(&self, sight: &Sight) -> bool {
        (self.id, &self.name) == (sight.id, &sight.name)
    }

    fn look(&mut self, now: Moment, sights: &Sights) {
        let mut luns = sights.luns.iter();
        let is_there = luns.any(|(volume, name)| (*volume, name) == (self.id, &self.name));
        let outcome = match sights.clones.iter().find(|sight| self.is_of(sight)) {
            Some(sight) if sight.failed.is_none() => {
                self.volume.clone_from(&sight.volume);
                self.done = sight.done;
                self.total = sight.total;
                self.eta_seconds = sight.eta_seconds;
                self.unseen = 0;
                return;
            }
            _ if is_there => Ok(()),
            Some(sight) => Err(sight.failed.clone().unwrap_or_default()),
            None => {
                self.unseen += 1;
                if self.unseen < UNSEEN_MAX {
                    return;
                }
                Err("the volume was deleted, or the clone with it".to_owned())
            }
        };
        self.course.end(now, outcome);
    }

    fn going_on(sights: &Sights) -> impl Iterator<Item = &Sight> {
        let clones = sights.clones.iter();
        clones.filter(|sight| sight.failed.is_none())
    }

    fn course(&self) -> &Course {
        &self.course
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
    use crate::records::follow::Followed;

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
        let (mut clones, mut next) = (Followed::<LunClone>::default(), 0);
        let job = clones.begin(&mut next, Moment(10), &sight(0, None));
        assert_eq!((job.percent, job.cancellable), (0, true));
        let now = sights(vec![sight(100, None)], &["old"]);
        assert!(clones.advance(&mut next, Moment(11), &now).is_empty());
        assert_eq!(clones.one(Moment(11), 1).map(|job| job.percent), Some(25));
        assert_eq!(clones.all(Moment(11)).count(), 1, "one job for one clone");
        // The clone is on its way from the list of clones to the list of LUNs.
        let gone = sights(vec![], &["old"]);
        assert!(clones.advance(&mut next, Moment(11), &gone).is_empty());
        let there = sights(vec![], &["old", "new"]);
        let ended = clones.advance(&mut next, Moment(12), &there);
        assert_eq!((ended[0].state, ended[0].percent), (JobState::Done, 100));
        assert_eq!((ended[0].cancellable, ended[0].eta_seconds), (false, None));
    }

    #[test]
    fn a_clone_that_failed_or_vanished_says_so() {
        let (mut clones, mut next) = (Followed::<LunClone>::default(), 0);
        clones.begin(&mut next, Moment(10), &sight(0, None));
        let failed = sights(vec![sight(0, Some("full"))], &[]);
        let ended = clones.advance(&mut next, Moment(11), &failed);
        assert_eq!(ended[0].detail.as_deref(), Some("full"));
        clones.begin(&mut next, Moment(10), &sight(0, None));
        let nothing = sights(vec![], &[]);
        let ended: Vec<Job> = (0..UNSEEN_MAX)
            .flat_map(|_| clones.advance(&mut next, Moment(12), &nothing))
            .collect();
        assert_eq!(ended.len(), 1);
        assert_eq!(ended[0].state, JobState::Failed);
        assert!(clones.under_way(2).is_none());
    }

    #[test]
    fn one_that_is_under_way_at_the_start_is_found() {
        let (mut clones, mut next) = (Followed::<LunClone>::default(), 2);
        let failed = sights(vec![sight(7, Some("full"))], &[]);
        clones.advance(&mut next, Moment(1), &failed);
        assert_eq!(clones.all(Moment(1)).count(), 0);
        clones.advance(&mut next, Moment(1), &sights(vec![sight(7, None)], &[]));
        assert_eq!(clones.all(Moment(1)).count(), 1);
        let later = sights(vec![sight(27, None)], &[]);
        assert!(clones.advance(&mut next, Moment(3), &later).is_empty());
        let rate = clones
            .one(Moment(3), 3)
            .map(|job| job.rate_bytes_per_second);
        assert_eq!(rate, Some(10), "what was done before is not its doing");
        let names = clones.under_way(3).map(LunClone::names);
        assert_eq!(names, Some((VOLUME, "new")));
    }

    #[test]
    fn a_clone_is_followed_when_its_volume_gets_another_name() {
        let (mut clones, mut next) = (Followed::<LunClone>::default(), 0);
        clones.begin(&mut next, Moment(1), &sight(7, None));
        let renamed = Sight {
            volume: "w".to_owned(),
            ..sight(9, None)
        };
        let now = sights(vec![renamed], &[]);
        assert!(clones.advance(&mut next, Moment(2), &now).is_empty());
        assert_eq!(clones.all(Moment(2)).count(), 1, "it is the same clone");
        let object = clones.one(Moment(2), 1).map(|job| job.object);
        assert_eq!(object.as_deref(), Some("w/new"));
        let there = sights(vec![], &["new"]);
        let ended = clones.advance(&mut next, Moment(3), &there);
        assert_eq!(ended[0].state, JobState::Done);
    }
}
