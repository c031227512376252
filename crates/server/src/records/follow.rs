//! Jobs that follow background work of the engine. The engine knows the progress, and continues the
//! work without a job, too.
//!
//! A job begins when an administrator requests the work, or when a regular check finds work that no
//! job follows, because an earlier daemon began it. The job ends when a check finds the work ended.

use std::collections::BTreeMap;

use everglade_api::{Job, Moment};

use super::course::{Course, forget_ended};

/// A job of one kind of work.
pub(super) trait Follow: Sized {
    /// The engine's state of one piece of work.
    type Progress: 'static;
    /// All that one check reads.
    type Overview: ?Sized;

    /// Begins to follow this.
    fn new(now: Moment, progress: &Self::Progress) -> Self;

    /// True if this is what the job follows.
    fn is_of(&self, progress: &Self::Progress) -> bool;

    /// Takes in how far it is, or how it ended.
    fn update(&mut self, now: Moment, overview: &Self::Overview);

    /// The work that is under way.
    fn going_on(overview: &Self::Overview) -> impl Iterator<Item = &Self::Progress>;

    fn course(&self) -> &Course;

    /// The job, as of the last check.
    fn view(&self, id: u64, now: Moment) -> Job;

    fn is_running(&self) -> bool {
        !self.course().has_ended()
    }
}

/// The jobs of one kind, by their numbers.
pub(super) struct Followed<F>(BTreeMap<u64, F>);

impl<F> Default for Followed<F> {
    fn default() -> Self {
        Followed(BTreeMap::new())
    }
}

impl<F: Follow> Followed<F> {
    /// Begins to follow this, under the next number, unless it is followed.
    pub(super) fn begin(&mut self, next: &mut u64, now: Moment, progress: &F::Progress) -> Job {
        let mut known = self.running().filter(|(_, job)| job.is_of(progress));
        if let Some((id, job)) = known.next() {
            return job.view(*id, now);
        }
        drop(known);
        *next += 1;
        let job = F::new(now, progress);
        let view = job.view(*next, now);
        self.0.insert(*next, job);
        forget_ended(&mut self.0, F::course);
        view
    }

    /// Updates the progress of all jobs, and begins jobs for work that no job follows. Returns
    /// those that ended just now.
    pub(super) fn advance(
        &mut self,
        next: &mut u64,
        now: Moment,
        overview: &F::Overview,
    ) -> Vec<Job> {
        let mut ended = Vec::new();
        for (id, job) in self.0.iter_mut().filter(|(_, job)| job.is_running()) {
            job.update(now, overview);
            if !job.is_running() {
                ended.push(job.view(*id, now));
            }
        }
        for progress in F::going_on(overview) {
            self.begin(next, now, progress);
        }
        ended
    }

    /// Returns the running job with this number.
    pub(super) fn under_way(&self, id: u64) -> Option<&F> {
        self.0.get(&id).filter(|job| job.is_running())
    }

    /// Returns whether a job is running.
    pub(super) fn is_busy(&self) -> bool {
        self.running().next().is_some()
    }

    pub(super) fn one(&self, now: Moment, id: u64) -> Option<Job> {
        self.0.get(&id).map(|job| job.view(id, now))
    }

    pub(super) fn all(&self, now: Moment) -> impl Iterator<Item = Job> {
        self.0.iter().map(move |(id, job)| job.view(*id, now))
    }

    fn running(&self) -> impl Iterator<Item = (&u64, &F)> {
        self.0.iter().filter(|(_, job)| job.is_running())
    }
}
