//! The last scrub of an aggregate, as it is in the aggregate's part of the book: when the next one
//! is due, and where one goes on that a restart has ended.

use serde::{Deserialize, Serialize};

/// How far a scrub is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Stage {
    /// There was none yet.
    #[default]
    None,
    /// It is under way, or goes on after the next start.
    Running,
    /// Somebody has let it wait.
    Paused,
    /// It has ended.
    Done,
}

/// See the module's documentation. Times are in seconds since 1970 UTC.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scrubbed {
    pub(crate) stage: Stage,
    /// When it began; if there was none, when the aggregate was seen first.
    pub(crate) begun: u64,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ended: Option<u64>,
    /// Block numbers up to which everything was read.
    #[serde(default)]
    pub(crate) read_blocks: u64,
    /// All block numbers of the aggregate.
    #[serde(default)]
    pub(crate) total_blocks: u64,
    /// Copies of blocks that were read.
    #[serde(default)]
    pub(crate) read_copies: u64,
    /// Blocks that were wrong on one drive, and right on another.
    #[serde(default)]
    pub(crate) wrong_blocks: u64,
    /// Blocks that no drive had right.
    #[serde(default)]
    pub(crate) lost_blocks: u64,
    /// The number of the aggregate.
    #[serde(skip)]
    pub(crate) home: Option<u32>,
}
