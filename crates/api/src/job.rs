//! `/v1/jobs`: work that continues after its request was answered.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// State of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// Under way.
    Running,
    /// Done.
    Done,
    /// This daemon will not finish the job; the detail has the reason.
    Failed,
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            JobState::Running => "running",
            JobState::Done => "done",
            JobState::Failed => "failed",
        })
    }
}

/// Work that continues after its request was answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Job {
    /// Unique while the daemon runs.
    pub id: u64,
    /// Kind of the job: `snapshot delete`, `lun delete`, `volume delete`, `lun clone`,
    /// `clone split` or `repair`.
    pub kind: String,
    /// Object that the job works on.
    pub object: String,
    /// State of the job.
    pub state: JobState,
    /// The part of the work that is done, in whole percent, rounded down.
    pub percent: u64,
    /// Total work; for deletions, space to free.
    pub total_bytes: u64,
    /// Work done, of `total_bytes`.
    pub done_bytes: u64,
    /// Average rate since the job began.
    pub rate_bytes_per_second: u64,
    /// Seconds until the job ends at this rate; absent while unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eta_seconds: Option<u64>,
    /// Start of the job, RFC 3339 in UTC.
    #[schema(format = DateTime)]
    pub started: String,
    /// End of the job, RFC 3339 in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub ended: Option<String>,
    /// Whether the job can be cancelled. A deletion cannot, because deleted objects stay deleted.
    pub cancellable: bool,
    /// `EVG-NNNN` of the failure, if it has a code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// More in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// `GET /v1/jobs`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Jobs {
    /// Jobs in order of their start. Ended jobs are kept for a while.
    pub jobs: Vec<Job>,
}
