//! Splits: a clone on its way to blocks of its own.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How a split is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SplitState {
    /// It never began, or the volume was never a clone.
    None,
    /// What the clone shares with its base is being copied.
    Copying,
    /// It goes on by itself; `waits_for` says when.
    Waiting,
    /// It was stopped, and goes on from there when it is started.
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
    /// Which volume.
    pub volume: String,
    /// Of a clone, the snapshot that it began as: `volume@snapshot`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clone_of: Option<String>,
    /// How it is doing.
    pub state: SplitState,
    /// What it waits for: `space` in the aggregate, or `another split` there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// How far it is, 0 to 100.
    pub percent: u64,
    /// What is to be copied, and so what the split takes from the aggregate; 0 if the volume is no
    /// clone.
    pub total_bytes: u64,
    /// What was copied of that, about.
    pub done_bytes: u64,
    /// Seconds until it ends, if it goes on as it did; absent if that cannot be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eta_seconds: Option<u64>,
}
