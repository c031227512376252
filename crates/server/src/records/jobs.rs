//! Jobs: work that continues after its request was answered, a part in each consistency point. Jobs
//! free the space of deleted objects, split clones ([`super::splits`]), clone LUNs
//! ([`super::clones`]) and repair aggregates ([`super::repairs`]). After a restart the engine
//! continues all of them except repairs, and the first check finds them.
//!
//! The engine knows how much space an aggregate has yet to free, for all deletions together. It
//! serves deletions roughly in their order. So a deletion is done when the aggregate has freed as
//! much as it had to free at the time of the deletion, and certainly when nothing is left to free.
//!
//! Jobs know volumes by their numbers, which a rename does not change.
//!
//! ```text
//! running ──space freed, or all copied──────────▶ done
//!    ├──split stopped, or its volume deleted────▶ failed; copied blocks stay, a start resumes
//!    └──the aggregate failed────────────────────▶ failed; the next start of the daemon resumes
//! ```

use std::collections::BTreeMap;

use everglade_api::{Code, Job, JobState, Moment, Problem};
use everglade_engine::VolumeId;
use everglade_env::lock::{Mutex, MutexGuard};

use super::clones::{CloneOverview, CloneProgress, LunClone};
use super::course::{Course, Work, forget_ended};
use super::follow::Followed;
use super::repairs::{RepairProgress, Repairing};
use super::splits::{Split, Splitting};

/// The space that an aggregate has yet to free.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// Its name.
    pub aggregate: String,
    /// Bytes.
    pub bytes: u64,
    /// The reason why it frees nothing any more.
    pub failure: Option<String>,
    /// The reason why some of it is not freed now, and how to go on.
    pub held: Option<String>,
}

/// See the module's documentation.
pub struct Jobs {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    jobs: BTreeMap<u64, Reclaim>,
    splits: Followed<Split>,
    clones: Followed<LunClone>,
    repairs: Followed<Repairing>,
    /// The number that was given last, to a job of whatever kind.
    next: u64,
    /// Progress, by name of the aggregate.
    progress: BTreeMap<String, Progress>,
}

#[derive(Clone, Default)]
struct Progress {
    /// The pending space at the last check.
    pending: u64,
    /// Given back since the daemon began.
    given_back: u64,
    /// The reason why some of the space waited at the last check.
    held: Option<String>,
}

struct Reclaim {
    kind: &'static str,
    object: String,
    aggregate: String,
    total: u64,
    /// The space that had been freed when the job began.
    from: u64,
    course: Course,
    /// What became of the object, if it was not removed.
    kept: Option<String>,
}

impl Jobs {
    pub(super) fn new() -> Jobs {
        Jobs {
            inner: Mutex::default(),
        }
    }

    /// Begins to follow a deletion that is durable.
    pub fn begin(&self, now: Moment, kind: &'static str, object: &str, pending: &Pending) -> Job {
        let mut inner = self.lock();
        let progress = inner.progress.entry(pending.aggregate.clone()).or_default();
        progress.pending = pending.bytes;
        progress.held.clone_from(&pending.held);
        let now_at = progress.clone();
        let from = now_at.given_back;
        inner.next += 1;
        let id = inner.next;
        let mut reclaim = Reclaim {
            kind,
            object: object.to_owned(),
            aggregate: pending.aggregate.clone(),
            total: pending.bytes,
            from,
            course: Course::begun(now),
            kept: None,
        };
        if pending.bytes == 0 {
            reclaim.course.end(now, Ok(()));
        }
        let job = reclaim.view(id, &now_at, now);
        inner.jobs.insert(id, reclaim);
        inner.forget_old();
        job
    }

    /// Notes a deletion that was done at once, and gives no space back; `kept` says where the
    /// object is.
    pub fn note_kept(
        &self,
        now: Moment,
        kind: &'static str,
        object: &str,
        (aggregate, kept): (&str, String),
    ) -> Job {
        let mut inner = self.lock();
        inner.next += 1;
        let id = inner.next;
        let mut course = Course::begun(now);
        course.end(now, Ok(()));
        let done = Reclaim {
            kind,
            object: object.to_owned(),
            aggregate: aggregate.to_owned(),
            total: 0,
            from: 0,
            course,
            kept: Some(kept),
        };
        let job = done.view(id, &Progress::default(), now);
        inner.jobs.insert(id, done);
        inner.forget_old();
        job
    }

    /// Begins to follow a clone of a LUN, unless it is followed.
    pub fn begin_clone(&self, now: Moment, progress: &CloneProgress) -> Job {
        let inner = &mut *self.lock();
        inner.clones.begin(&mut inner.next, now, progress)
    }

    /// Looks how far clones of LUNs are; returns those that ended just now.
    pub fn advance_clones(&self, now: Moment, overview: &CloneOverview) -> Vec<Job> {
        let inner = &mut *self.lock();
        inner.clones.advance(&mut inner.next, now, overview)
    }

    /// Returns volume and name of the clone of a LUN that a running job makes.
    #[must_use]
    pub fn running_clone(&self, id: u64) -> Option<(VolumeId, String)> {
        let inner = self.lock();
        let (volume, name) = inner.clones.under_way(id)?.names();
        Some((volume, name.to_owned()))
    }

    /// Begins to follow a repair, unless it is followed.
    pub fn begin_repair(&self, now: Moment, progress: &RepairProgress) -> Job {
        let inner = &mut *self.lock();
        inner.repairs.begin(&mut inner.next, now, progress)
    }

    /// Looks how far repairs are; returns the jobs of those that ended just now.
    pub fn advance_repairs(&self, now: Moment, overview: &[RepairProgress]) -> Vec<Job> {
        let inner = &mut *self.lock();
        inner.repairs.advance(&mut inner.next, now, overview)
    }

    /// Returns the aggregate that a running job repairs.
    #[must_use]
    pub fn repair_under_way(&self, id: u64) -> Option<u32> {
        self.lock().repairs.under_way(id).map(Repairing::aggregate)
    }

    /// Updates the jobs that free space; returns those that have just ended.
    pub fn advance(&self, now: Moment, pending: &[Pending]) -> Vec<Job> {
        let mut inner = self.lock();
        let mut ended = Vec::new();
        for found in pending {
            let Some(progress) = inner.progress.get_mut(&found.aggregate) else {
                continue;
            };
            progress.given_back += progress.pending.saturating_sub(found.bytes);
            progress.pending = found.bytes;
            progress.held.clone_from(&found.held);
            let progress = progress.clone();
            let given_back = progress.given_back;
            let here = inner.jobs.iter_mut();
            let running = here.filter(|(_, job)| job.is_running_in(&found.aggregate));
            for (id, job) in running {
                let outcome = match &found.failure {
                    Some(failure) => Err(failure.clone()),
                    None if found.bytes == 0 || given_back - job.from >= job.total => Ok(()),
                    None => continue,
                };
                job.course.end(now, outcome);
                ended.push(job.view(*id, &progress, now));
            }
        }
        inner.forget_old();
        ended
    }

    /// Begins to follow a split, unless it is followed.
    pub fn begin_split(&self, now: Moment, begun: &Splitting) -> Job {
        let inner = &mut *self.lock();
        inner.splits.begin(&mut inner.next, now, begun)
    }

    /// Updates the jobs that split clones; returns those that have just ended.
    pub fn advance_splits(&self, now: Moment, begun: &[Splitting]) -> Vec<Job> {
        let inner = &mut *self.lock();
        inner.splits.advance(&mut inner.next, now, begun)
    }

    /// Returns the volume that a running job splits.
    #[must_use]
    pub fn split_under_way(&self, id: u64) -> Option<VolumeId> {
        self.lock().splits.under_way(id).map(Split::volume)
    }

    /// Ends the jobs of a deleted aggregate, whose space is free; returns them.
    pub fn end_of(&self, now: Moment, aggregate: &str) -> Vec<Job> {
        let mut inner = self.lock();
        let progress = inner.progress.remove(aggregate).unwrap_or_default();
        let mut ended = Vec::new();
        for (id, job) in &mut inner.jobs {
            if job.is_running_in(aggregate) {
                job.course.end(now, Ok(()));
                ended.push(job.view(*id, &progress, now));
            }
        }
        ended
    }

    /// Renames an aggregate in all jobs.
    pub fn rename(&self, aggregate: &str, to: &str) {
        let mut inner = self.lock();
        if let Some(progress) = inner.progress.remove(aggregate) {
            inner.progress.insert(to.to_owned(), progress);
        }
        for job in inner.jobs.values_mut() {
            if job.aggregate == aggregate {
                to.clone_into(&mut job.aggregate);
            }
        }
    }

    /// Returns whether no job of any kind is running.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let inner = self.lock();
        let is_followed =
            inner.splits.is_busy() || inner.clones.is_busy() || inner.repairs.is_busy();
        let mut reclaims = inner.jobs.values();
        !is_followed && reclaims.all(|job| job.course.has_ended())
    }

    /// Returns all jobs, in order of their beginning.
    #[must_use]
    pub fn all(&self, now: Moment) -> Vec<Job> {
        let inner = self.lock();
        let view = |(id, job): (&u64, &Reclaim)| job.view(*id, &inner.progress_of(job), now);
        let mut all: Vec<Job> = inner.jobs.iter().map(view).collect();
        all.extend(inner.splits.all(now));
        all.extend(inner.clones.all(now));
        all.extend(inner.repairs.all(now));
        all.sort_unstable_by_key(|job| job.id);
        all
    }

    /// Returns one job.
    ///
    /// # Errors
    /// The number is unknown, or the job is forgotten.
    pub fn one(&self, now: Moment, id: u64) -> Result<Job, Problem> {
        let inner = self.lock();
        let followed = [
            inner.splits.one(now, id),
            inner.clones.one(now, id),
            inner.repairs.one(now, id),
        ];
        if let Some(job) = followed.into_iter().flatten().next() {
            return Ok(job);
        }
        let found = inner.jobs.get(&id);
        let job = found.ok_or_else(|| Problem::not_found("job", id))?;
        Ok(job.view(id, &inner.progress_of(job), now))
    }

    /// Ends one early.
    ///
    /// # Errors
    /// There is none, it has ended, or its kind cannot be undone.
    pub fn cancel(&self, now: Moment, id: u64) -> Result<Job, Problem> {
        let job = self.one(now, id)?;
        let text = match job.state {
            JobState::Running => format!(
                "job {id} gives back the space of what was deleted, which is gone already; wait \
                for it"
            ),
            JobState::Done | JobState::Failed => format!("job {id} has ended"),
        };
        Err(Problem::new(Code::NotCancellable, text))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }
}

impl Inner {
    /// Returns the progress of a job's aggregate. If the aggregate was deleted, returns the state
    /// in which the job began.
    fn progress_of(&self, job: &Reclaim) -> Progress {
        let progress = self.progress.get(&job.aggregate);
        progress.cloned().unwrap_or_else(|| Progress {
            given_back: job.from,
            ..Progress::default()
        })
    }

    fn forget_old(&mut self) {
        forget_ended(&mut self.jobs, |job| &job.course);
    }
}

impl Reclaim {
    fn is_running_in(&self, aggregate: &str) -> bool {
        !self.course.has_ended() && self.aggregate == aggregate
    }

    fn view(&self, id: u64, progress: &Progress, now: Moment) -> Job {
        let done = progress.given_back.saturating_sub(self.from);
        let done = done.min(self.total);
        let rate = self.course.rate(now, done);
        let work = Work {
            kind: self.kind,
            object: self.object.clone(),
            total: self.total,
            done,
            from: 0,
            eta_seconds: (rate > 0).then(|| (self.total - done).div_ceil(rate)),
            note: progress.held.clone(),
            is_cancellable: false,
        };
        let job = self.course.view(id, now, work);
        Job {
            detail: self.kept.clone().or(job.detail),
            ..job
        }
    }
}

#[cfg(test)]
mod tests {
    use everglade_api::{Split, SplitState};

    use super::*;
    use crate::records::course::ENDED_KEPT;

    fn pending(bytes: u64) -> Pending {
        Pending {
            aggregate: "a".to_owned(),
            bytes,
            failure: None,
            held: None,
        }
    }

    #[test]
    fn a_deletion_that_a_paused_scan_holds_says_so_until_it_goes_on() {
        let jobs = Jobs::new();
        let held = Pending {
            held: Some("the scan of volume v is paused".to_owned()),
            ..pending(1000)
        };
        let job = jobs.begin(Moment(1), "snapshot delete", "v@s", &held);
        let note = Some("the scan of volume v is paused");
        assert_eq!((job.detail.as_deref(), job.percent), (note, 0));
        assert!(jobs.advance(Moment(2), &[held]).is_empty());
        assert_eq!(jobs.all(Moment(2))[0].detail.as_deref(), note);
        assert!(jobs.advance(Moment(3), &[pending(500)]).is_empty());
        assert_eq!(jobs.one(Moment(3), 1).map(|job| job.detail), Ok(None));
        let ended = jobs.advance(Moment(4), &[pending(0)]);
        assert_eq!((ended[0].state, &ended[0].detail), (JobState::Done, &None));
    }

    #[test]
    fn a_deletion_is_done_when_its_space_is_back() {
        let jobs = Jobs::new();
        let job = jobs.begin(Moment(10), "lun delete", "v/l", &pending(1000));
        assert_eq!((job.id, job.percent, job.state), (1, 0, JobState::Running));
        assert!(jobs.advance(Moment(12), &[pending(750)]).is_empty());
        let job = jobs.one(Moment(12), 1).expect("it is there");
        assert_eq!((job.percent, job.done_bytes), (25, 250));
        assert_eq!((job.rate_bytes_per_second, job.eta_seconds), (125, Some(6)));
        let ended = jobs.advance(Moment(14), &[pending(0)]);
        assert_eq!((ended[0].percent, ended[0].state), (100, JobState::Done));
        assert_eq!(ended[0].eta_seconds, None);
        assert!(
            jobs.advance(Moment(15), &[pending(0)]).is_empty(),
            "it ends once"
        );
        assert!(jobs.is_idle());
    }

    #[test]
    fn an_earlier_deletion_does_not_wait_for_a_later_one() {
        let jobs = Jobs::new();
        jobs.begin(Moment(1), "lun delete", "v/a", &pending(100));
        assert!(jobs.advance(Moment(2), &[pending(40)]).is_empty());
        jobs.begin(Moment(3), "lun delete", "v/b", &pending(540));
        let ended = jobs.advance(Moment(4), &[pending(480)]);
        assert_eq!(ended.iter().map(|job| job.id).collect::<Vec<_>>(), [1]);
        assert_eq!(jobs.one(Moment(4), 2).map(|job| job.percent), Ok(11));
    }

    #[test]
    fn nothing_to_give_back_is_done_at_once_and_nothing_can_be_cancelled() {
        let jobs = Jobs::new();
        let job = jobs.begin(Moment(1), "lun delete", "v/a", &pending(0));
        assert_eq!((job.state, job.percent), (JobState::Done, 100));
        jobs.begin(Moment(1), "lun delete", "v/b", &pending(1));
        for id in [1, 2] {
            let problem = jobs.cancel(Moment(2), id).expect_err("never");
            assert_eq!(problem.code, Code::NotCancellable);
        }
        assert_eq!(
            jobs.cancel(Moment(2), 7).expect_err("none").code,
            Code::NotFound
        );
    }

    const VOLUME: VolumeId = VolumeId {
        aggregate: 1,
        volume: 64,
    };

    fn splitting(volume: &str, state: SplitState, percent: u64) -> Splitting {
        Splitting {
            id: VOLUME,
            split: Split {
                volume: volume.to_owned(),
                clone_of: None,
                state,
                waits_for: (state == SplitState::Waiting).then(|| "space".to_owned()),
                percent,
                total_bytes: 1000,
                done_bytes: percent * 10,
                eta_seconds: None,
            },
            failure: None,
        }
    }

    #[test]
    fn a_split_is_followed_until_it_is_done() {
        let jobs = Jobs::new();
        let job = jobs.begin_split(Moment(10), &splitting("c", SplitState::Copying, 10));
        assert_eq!((job.id, job.percent, job.cancellable), (1, 10, true));
        let waiting = splitting("c", SplitState::Waiting, 30);
        assert!(jobs.advance_splits(Moment(12), &[waiting]).is_empty());
        let job = jobs.one(Moment(12), 1).expect("it is there");
        assert_eq!((job.percent, job.rate_bytes_per_second), (30, 100));
        assert_eq!(job.detail.as_deref(), Some("waits for space"));
        assert_eq!(jobs.split_under_way(1), Some(VOLUME));
        let mut done = splitting("c", SplitState::Done, 100);
        done.split.total_bytes = 0;
        let ended = jobs.advance_splits(Moment(14), &[done]);
        assert_eq!((ended[0].percent, ended[0].state), (100, JobState::Done));
        assert_eq!(ended[0].total_bytes, 1000);
        assert!(jobs.is_idle() && jobs.split_under_way(1).is_none());
        let problem = jobs.cancel(Moment(15), 1).expect_err("it has ended");
        assert_eq!(problem.code, Code::NotCancellable);
    }

    fn progress(name: &str) -> CloneProgress {
        CloneProgress {
            id: VOLUME,
            volume: "v".to_owned(),
            name: name.to_owned(),
            done: 0,
            total: 400,
            eta_seconds: None,
            failed: None,
            code: None,
        }
    }

    #[test]
    fn a_lun_that_is_being_cloned_is_one_job_under_way() {
        let jobs = Jobs::new();
        assert!(jobs.is_idle());
        jobs.begin_clone(Moment(1), &progress("new"));
        assert!(!jobs.is_idle());
        // Somebody looked between the change and its answer.
        jobs.begin_clone(Moment(1), &progress("new"));
        assert_eq!(jobs.all(Moment(1)).len(), 1, "one job for one clone");
        let there = CloneOverview {
            clones: Vec::new(),
            luns: vec![(VOLUME, "new".to_owned())],
        };
        assert_eq!(jobs.advance_clones(Moment(2), &there).len(), 1);
        assert!(jobs.is_idle());
    }

    #[test]
    fn a_split_that_is_stopped_ends_its_job_and_one_that_goes_on_has_another() {
        let jobs = Jobs::new();
        let copying = splitting("c", SplitState::Copying, 10);
        jobs.begin_split(Moment(1), &copying);
        jobs.begin_split(Moment(1), &copying);
        assert_eq!(jobs.all(Moment(1)).len(), 1, "one job for one split");
        let stopped = splitting("c", SplitState::Stopped, 20);
        let ended = jobs.advance_splits(Moment(2), std::slice::from_ref(&stopped));
        let detail = ended[0].detail.clone().unwrap_or_default();
        assert_eq!(ended[0].state, JobState::Failed);
        assert!(detail.contains("clone split start c"), "{detail}");
        assert!(jobs.advance_splits(Moment(3), &[stopped]).is_empty());
        // Another caller, or an earlier daemon, began the split.
        assert!(jobs.advance_splits(Moment(4), &[copying]).is_empty());
        assert_eq!(jobs.split_under_way(2), Some(VOLUME));
        let ended = jobs.advance_splits(Moment(5), &[]);
        let detail = ended[0].detail.clone().unwrap_or_default();
        assert!(detail.contains("deleted"), "{detail}");
    }

    #[test]
    fn a_split_goes_on_when_its_volume_gets_another_name() {
        let jobs = Jobs::new();
        jobs.begin_split(Moment(1), &splitting("c", SplitState::Copying, 10));
        let renamed = splitting("d", SplitState::Copying, 20);
        assert!(jobs.advance_splits(Moment(2), &[renamed]).is_empty());
        let all = jobs.all(Moment(2));
        assert_eq!(all.len(), 1, "it is the same split: {all:?}");
        assert_eq!((all[0].object.as_str(), all[0].percent), ("d", 20));
        let ended = jobs.advance_splits(Moment(3), &[splitting("e", SplitState::Done, 100)]);
        assert_eq!(
            (ended[0].object.as_str(), ended[0].state),
            ("e", JobState::Done)
        );
        // Another volume that has the name now is another volume.
        let other = Splitting {
            id: VolumeId {
                volume: 65,
                ..VOLUME
            },
            ..splitting("e", SplitState::Copying, 5)
        };
        jobs.begin_split(Moment(4), &splitting("c", SplitState::Copying, 10));
        let ended = jobs.advance_splits(Moment(5), &[other]);
        assert_eq!((ended[0].id, ended[0].state), (2, JobState::Failed));
        assert_eq!(
            jobs.one(Moment(5), 3).map(|job| job.object),
            Ok("e".to_owned())
        );
    }

    #[test]
    fn a_failed_aggregate_fails_its_jobs() {
        let jobs = Jobs::new();
        jobs.begin(Moment(1), "volume delete", "v", &pending(10));
        let failed = Pending {
            failure: Some("gone".to_owned()),
            ..pending(10)
        };
        let ended = jobs.advance(Moment(2), &[failed]);
        assert_eq!(ended[0].state, JobState::Failed);
        assert_eq!(ended[0].detail.as_deref(), Some("gone"));
    }

    #[test]
    fn a_deleted_aggregate_ends_its_jobs_and_one_of_the_same_name_begins_anew() {
        let jobs = Jobs::new();
        jobs.begin(Moment(1), "volume delete", "v", &pending(10));
        let ended = jobs.end_of(Moment(2), "a");
        assert_eq!((ended[0].state, ended[0].percent), (JobState::Done, 100));
        assert!(jobs.is_idle());
        jobs.begin(Moment(3), "volume delete", "v", &pending(10));
        assert!(jobs.advance(Moment(4), &[pending(5)]).is_empty());
        assert_eq!(jobs.one(Moment(4), 2).map(|job| job.percent), Ok(50));
    }

    #[test]
    fn a_job_goes_on_when_its_aggregate_gets_another_name() {
        let jobs = Jobs::new();
        jobs.begin(Moment(1), "volume delete", "v", &pending(10));
        jobs.advance(Moment(2), &[pending(8)]);
        jobs.rename("a", "b");
        let later = Pending {
            aggregate: "b".to_owned(),
            ..pending(5)
        };
        assert!(
            jobs.advance(Moment(3), std::slice::from_ref(&later))
                .is_empty()
        );
        assert_eq!(jobs.one(Moment(3), 1).map(|job| job.percent), Ok(50));
        let ended = jobs.advance(Moment(4), &[Pending { bytes: 0, ..later }]);
        assert_eq!(ended[0].state, JobState::Done);
    }

    #[test]
    fn ended_jobs_are_forgotten_one_day() {
        let jobs = Jobs::new();
        for _ in 0..ENDED_KEPT + 10 {
            jobs.begin(Moment(1), "lun delete", "v/a", &pending(0));
        }
        assert_eq!(jobs.all(Moment(1)).len(), ENDED_KEPT);
        assert!(jobs.one(Moment(1), 1).is_err());
    }
}
