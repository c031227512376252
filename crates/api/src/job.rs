//! `/v1/jobs`: work that goes on after its request was answered.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How a job is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// Under way.
    Running,
    /// Done.
    Done,
    /// It will not be finished by this daemon; the detail says why.
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

/// Work that goes on after its request was answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Job {
    /// Unique while the daemon runs.
    pub id: u64,
    /// What it does: `snapshot delete`, `lun delete`, `volume delete`, `lun clone`, `clone split`
    /// or `repair`.
    pub kind: String,
    /// To what.
    pub object: String,
    /// How it is doing.
    pub state: JobState,
    /// The part of the work that is done, in whole percent, rounded down.
    pub percent: u64,
    /// How much there is to do; for deletions, space to give back.
    pub total_bytes: u64,
    /// How many of `total_bytes` are done.
    pub done_bytes: u64,
    /// How fast it goes, on average since it began.
    pub rate_bytes_per_second: u64,
    /// When it will be done if it goes on like this; absent while nobody can know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eta_seconds: Option<u64>,
    /// When it began, RFC 3339 in UTC.
    pub started: String,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// Whether it can be cancelled. What was deleted stays deleted, so a deletion cannot.
    pub cancellable: bool,
    /// More in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// `GET /v1/jobs`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Jobs {
    /// In order of their beginning. Ended ones are kept for a while.
    pub jobs: Vec<Job>,
}
