//! Repairs: reading all metadata that can be derived, and replacing what is damaged.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// State of a repair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum RepairState {
    /// No repair has run since the aggregate was opened.
    #[default]
    None,
    /// The repair is reading.
    Running,
    /// The repair has read everything.
    Done,
    /// The repair ended early. Blocks that it has repaired stay repaired.
    Stopped,
}

impl fmt::Display for RepairState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            RepairState::None => "none",
            RepairState::Running => "running",
            RepairState::Done => "done",
            RepairState::Stopped => "stopped",
        })
    }
}

/// `GET /v1/aggregates/{a}/repair`: the last repair since the aggregate was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Repair {
    /// Name of the aggregate.
    pub aggregate: String,
    /// State of the repair.
    pub state: RepairState,
    /// Progress, 0 to 100.
    pub percent: u64,
    /// Blocks of metadata that it has read.
    pub read_blocks: u64,
    /// Blocks that it will have read at the end; while it runs, an estimate.
    pub total_blocks: u64,
    /// Blocks that were damaged and have been derived from others since it began.
    pub mended_blocks: u64,
    /// Blocks that are damaged and cannot be derived.
    pub damaged_blocks: u64,
    /// Descriptions of the damaged blocks; the first 64.
    pub damaged: Vec<String>,
    /// The reason why the repair stopped, unless a caller requested it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Seconds until the repair ends at its present rate; absent while unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eta_seconds: Option<u64>,
}
