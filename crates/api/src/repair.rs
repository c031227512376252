//! Repairs: reading all metadata that can be derived, and replacing what is damaged.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Where a repair is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum RepairState {
    /// There was none since the aggregate was opened.
    #[default]
    None,
    /// It reads.
    Running,
    /// It has read everything.
    Done,
    /// It ended before; what was mended stays so.
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
    /// Which aggregate.
    pub aggregate: String,
    /// Where it is.
    pub state: RepairState,
    /// How far it is, 0 to 100.
    pub percent: u64,
    /// Blocks of metadata that it has read.
    pub read_blocks: u64,
    /// Blocks that it will have read at the end; while it runs, an estimate.
    pub total_blocks: u64,
    /// Blocks that were damaged and have been derived from others since it began.
    pub mended_blocks: u64,
    /// Blocks that are damaged and cannot be derived.
    pub damaged_blocks: u64,
    /// Which of them, and what is wrong with each; the first 64.
    pub damaged: Vec<String>,
    /// Why it was stopped, unless somebody asked for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Seconds until it ends, if it goes on as it did; absent if that cannot be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eta_seconds: Option<u64>,
}
