//! Splits: a clone on its way to blocks of its own.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// State of a split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SplitState {
    /// The split never began, or the volume was never a clone.
    None,
    /// The split is copying blocks that the clone shares with its base.
    Copying,
    /// The split continues by itself; `waits_for` has the condition.
    Waiting,
    /// The split was stopped, and continues from there when it is started.
    Stopped,
    /// The volume is no clone any more.
    Done,
}

impl fmt::Display for SplitState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            SplitState::None => "none",
            SplitState::Copying => "copying",
            SplitState::Waiting => "waiting",
            SplitState::Stopped => "stopped",
            SplitState::Done => "done",
        })
    }
}

/// `GET /v1/volumes/{v}/split`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Split {
    /// Name of the volume.
    pub volume: String,
    /// Snapshot that the clone began as: `volume@snapshot`; absent if the volume is no clone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clone_of: Option<String>,
    /// State of the split.
    pub state: SplitState,
    /// Condition that the split waits for: `space` in the aggregate, or `another split` there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// Progress, 0 to 100.
    pub percent: u64,
    /// Total to copy, which is the space that the split needs in the aggregate; 0 if the volume is
    /// no clone.
    pub total_bytes: u64,
    /// Estimated part of the total that is copied.
    pub done_bytes: u64,
    /// Seconds until the split ends at its present rate; absent while unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eta_seconds: Option<u64>,
}
