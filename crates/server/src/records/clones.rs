//! Jobs that clone LUNs inside their volumes.
//!
//! The engine makes the clone, also across a restart. It knows the progress, and the reason if
//! cloning has failed. The job follows the engine: it is done when the LUN exists, and has failed
//! when the engine says so or does not know the clone any more. A clone that is under way when the
//! daemon starts gets a job, too.

use everglade_api::{Code, Job, Moment};
use everglade_engine::VolumeId;

use super::course::{Course, Work};
use super::follow::Follow;

/// How often nothing may be seen of a clone before it counts as lost: between two checks it may be
/// on the way from being made to being there.
const UNSEEN_MAX: u32 = 3;

/// The engine's state of the clone of a LUN in a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloneProgress {
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
    /// The code of this reason, if it has one.
    pub code: Option<Code>,
}

/// The state of all clones.
#[derive(Clone, Debug, Default)]
pub struct CloneOverview {
    /// The clones that are being made, or that failed last.
    pub clones: Vec<CloneProgress>,
    /// All LUNs: their volumes and names.
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
    /// The code of the failure, if it has one.
    code: Option<Code>,
    course: Course,
}

impl LunClone {
    /// Its volume, and the LUN that is being made.
    pub(super) fn names(&self) -> (VolumeId, &str) {
        (self.id, &self.name)
    }
}

impl Follow for LunClone {
    type Progress = CloneProgress;
    type Overview = CloneOverview;

    fn new(now: Moment, progress: &CloneProgress) -> LunClone {
        LunClone {
            id: progress.id,
            volume: progress.volume.clone(),
            name: progress.name.clone(),
            done: progress.done,
            from: progress.done,
            total: progress.total,
            eta_seconds: None,
            unseen: 0,
            code: None,
            course: Course::begun(now),
        }
    }

    fn is_of(&self, progress: &CloneProgress) -> bool {
        (self.id, &self.name) == (progress.id, &progress.name)
    }

    fn update(&mut self, now: Moment, overview: &CloneOverview) {
        let mut luns = overview.luns.iter();
        let is_there = luns.any(|(volume, name)| (*volume, name) == (self.id, &self.name));
        let outcome = match overview.clones.iter().find(|progress| self.is_of(progress)) {
            Some(progress) if progress.failed.is_none() => {
                self.volume.clone_from(&progress.volume);
                self.done = progress.done;
                self.total = progress.total;
                self.eta_seconds = progress.eta_seconds;
                self.unseen = 0;
                return;
            }
            _ if is_there => Ok(()),
            Some(progress) => {
                self.code = progress.code;
                Err(progress.failed.clone().unwrap_or_default())
            }
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

    fn going_on(overview: &CloneOverview) -> impl Iterator<Item = &CloneProgress> {
        let clones = overview.clones.iter();
        clones.filter(|progress| progress.failed.is_none())
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
        Job {
            code: self.code.map(|code| code.to_string()),
            ..self.course.view(id, now, work)
        }
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

    fn progress(done: u64, failed: Option<&str>) -> CloneProgress {
        CloneProgress {
            id: VOLUME,
            volume: "v".to_owned(),
            name: "new".to_owned(),
            done,
            total: 400,
            eta_seconds: Some(3),
            failed: failed.map(str::to_owned),
            code: failed.map(|_| Code::NoSpace),
        }
    }

    fn overview(clones: Vec<CloneProgress>, luns: &[&str]) -> CloneOverview {
        let luns = luns.iter().map(|lun| (VOLUME, (*lun).to_owned()));
        let luns = luns.collect();
        CloneOverview { clones, luns }
    }

    #[test]
    fn a_clone_is_done_when_the_lun_is_there() {
        let (mut clones, mut next) = (Followed::<LunClone>::default(), 0);
        let job = clones.begin(&mut next, Moment(10), &progress(0, None));
        assert_eq!((job.percent, job.cancellable), (0, true));
        let now = overview(vec![progress(100, None)], &["old"]);
        assert!(clones.advance(&mut next, Moment(11), &now).is_empty());
        assert_eq!(clones.one(Moment(11), 1).map(|job| job.percent), Some(25));
        assert_eq!(clones.all(Moment(11)).count(), 1, "one job for one clone");
        // On its way from being made to being there.
        let gone = overview(vec![], &["old"]);
        assert!(clones.advance(&mut next, Moment(11), &gone).is_empty());
        let there = overview(vec![], &["old", "new"]);
        let ended = clones.advance(&mut next, Moment(12), &there);
        assert_eq!((ended[0].state, ended[0].percent), (JobState::Done, 100));
        assert_eq!((ended[0].cancellable, ended[0].eta_seconds), (false, None));
    }

    #[test]
    fn a_clone_that_failed_or_vanished_says_so() {
        let (mut clones, mut next) = (Followed::<LunClone>::default(), 0);
        clones.begin(&mut next, Moment(10), &progress(0, None));
        let failed = overview(vec![progress(0, Some("full"))], &[]);
        let ended = clones.advance(&mut next, Moment(11), &failed);
        assert_eq!(ended[0].detail.as_deref(), Some("full"));
        assert_eq!(ended[0].code.as_deref(), Some("EVG-3001"));
        clones.begin(&mut next, Moment(10), &progress(0, None));
        let nothing = overview(vec![], &[]);
        let ended: Vec<Job> = (0..UNSEEN_MAX)
            .flat_map(|_| clones.advance(&mut next, Moment(12), &nothing))
            .collect();
        assert_eq!(ended.len(), 1);
        assert_eq!((ended[0].state, &ended[0].code), (JobState::Failed, &None));
        assert!(clones.under_way(2).is_none());
    }

    #[test]
    fn one_that_is_under_way_at_the_start_is_found() {
        let (mut clones, mut next) = (Followed::<LunClone>::default(), 2);
        let failed = overview(vec![progress(7, Some("full"))], &[]);
        clones.advance(&mut next, Moment(1), &failed);
        assert_eq!(clones.all(Moment(1)).count(), 0);
        clones.advance(
            &mut next,
            Moment(1),
            &overview(vec![progress(7, None)], &[]),
        );
        assert_eq!(clones.all(Moment(1)).count(), 1);
        let later = overview(vec![progress(27, None)], &[]);
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
        clones.begin(&mut next, Moment(1), &progress(7, None));
        let renamed = CloneProgress {
            volume: "w".to_owned(),
            ..progress(9, None)
        };
        let now = overview(vec![renamed], &[]);
        assert!(clones.advance(&mut next, Moment(2), &now).is_empty());
        assert_eq!(clones.all(Moment(2)).count(), 1, "it is the same clone");
        let object = clones.one(Moment(2), 1).map(|job| job.object);
        assert_eq!(object.as_deref(), Some("w/new"));
        let there = overview(vec![], &["new"]);
        let ended = clones.advance(&mut next, Moment(3), &there);
        assert_eq!(ended[0].state, JobState::Done);
    }
}
