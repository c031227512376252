//! Scrubs: every block in use is read from every drive, and compared with what was written.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// State of a scrub.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ScrubState {
    /// There was none.
    #[default]
    None,
    /// It is reading.
    Running,
    /// It waits until it is started again.
    Paused,
    /// It has read everything.
    Done,
}

impl fmt::Display for ScrubState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            ScrubState::None => "none",
            ScrubState::Running => "running",
            ScrubState::Paused => "paused",
            ScrubState::Done => "done",
        })
    }
}

/// `GET /v1/aggregates/{a}/scrub`: the last scrub of an aggregate, or the one under way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Scrub {
    /// Name of the aggregate.
    pub aggregate: String,
    /// State of the scrub.
    pub state: ScrubState,
    /// Bytes that it has passed, whether in use or not.
    pub passed_bytes: u64,
    /// All that it has to pass.
    pub total_bytes: u64,
    /// The same in whole percent.
    pub percent: u64,
    /// Copies of blocks that it has read.
    pub read_copy_count: u64,
    /// Blocks that were wrong or unreadable on one drive, and right on another, which are written
    /// again.
    pub wrong_block_count: u64,
    /// Blocks that no drive has right.
    pub lost_block_count: u64,
    /// When it began; absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<String>,
    /// When it ended; absent until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// When the next one begins by itself; absent while one is under way or paused, and if none
    /// does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Bytes passed in a second, on the average since it began, or went on.
    pub bytes_per_second: u64,
    /// Seconds until it ends, if it goes on like this; absent while that is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eta_seconds: Option<u64>,
}
