//! The course of a job: when it began, its progress, how it ended. All kinds of jobs use it and
//! report it in the same way.

use std::collections::BTreeMap;

use everglade_api::{Job, JobState, Moment};

/// Each list of jobs keeps at most this many ended jobs, so that they are still shown.
pub(super) const ENDED_KEPT: usize = 256;

/// See the module's documentation.
pub(super) struct Course {
    started: Moment,
    ended: Option<(Moment, Result<(), String>)>,
}

/// The work of a job, as its kind sees it now.
pub(super) struct Work {
    /// Kind of the job.
    pub(super) kind: &'static str,
    /// Name of the object that the job changes.
    pub(super) object: String,
    /// Total bytes of the job.
    pub(super) total: u64,
    /// Bytes of it that are done.
    pub(super) done: u64,
    /// Bytes that were done when the job began.
    pub(super) from: u64,
    /// Seconds until it ends, while it is under way.
    pub(super) eta_seconds: Option<u64>,
    /// The reason why it waits, while it is under way.
    pub(super) note: Option<String>,
    /// True if it can be stopped while it is under way.
    pub(super) is_cancellable: bool,
}

/// Returns the progress in whole percent; `None` if there is nothing to do.
pub(crate) fn percent(done: u64, total: u64) -> Option<u64> {
    let percent = (u128::from(done) * 100).checked_div(u128::from(total))?;
    Some(u64::try_from(percent).unwrap_or(100))
}

impl Course {
    pub(super) fn begun(now: Moment) -> Course {
        Course {
            started: now,
            ended: None,
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Ends the job, in success or with the reason of the failure in one line.
    pub(super) fn end(&mut self, now: Moment, outcome: Result<(), String>) {
        self.ended = Some((now, outcome));
    }

    /// Returns the bytes per second, given the bytes done since the job began.
    pub(super) fn rate(&self, now: Moment, bytes: u64) -> u64 {
        let until = self.ended.as_ref().map_or(now, |(when, _)| *when);
        bytes / until.0.saturating_sub(self.started.0).max(1)
    }

    /// Returns the job as of now.
    pub(super) fn view(&self, id: u64, now: Moment, work: Work) -> Job {
        let (state, detail) = match &self.ended {
            None => (JobState::Running, work.note),
            Some((_, Ok(()))) => (JobState::Done, None),
            Some((_, Err(failure))) => (JobState::Failed, Some(failure.clone())),
        };
        let is_running = state == JobState::Running;
        let done = match state {
            JobState::Done => work.total,
            JobState::Running | JobState::Failed => work.done,
        };
        let percent = match state {
            JobState::Done => Some(100),
            _ => percent(done, work.total),
        };
        Job {
            id,
            kind: work.kind.to_owned(),
            object: work.object,
            state,
            percent: percent.unwrap_or(0),
            total_bytes: work.total,
            done_bytes: done,
            rate_bytes_per_second: self.rate(now, done.saturating_sub(work.from)),
            eta_seconds: work.eta_seconds.filter(|_| is_running),
            started: self.started.to_string(),
            ended: self.ended.as_ref().map(|(when, _)| when.to_string()),
            cancellable: work.is_cancellable && is_running,
            code: None,
            detail,
        }
    }
}

/// Forgets the oldest of those that have ended, if they are too many.
pub(super) fn forget_ended<J>(jobs: &mut BTreeMap<u64, J>, course: impl Fn(&J) -> &Course) {
    let ended = jobs.iter().filter(|(_, job)| course(job).has_ended());
    let ended: Vec<u64> = ended.map(|(id, _)| *id).collect();
    for id in ended.iter().take(ended.len().saturating_sub(ENDED_KEPT)) {
        jobs.remove(id);
    }
}
