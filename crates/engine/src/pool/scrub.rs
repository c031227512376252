//! What people see of a scrub ([`crate::home::scrubbing`]).

/// The state of a scrub, for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScrubState {
    /// None was under way since the aggregate was opened.
    #[default]
    Never,
    /// It is under way.
    Running,
    /// It waits until it is started again.
    Paused,
    /// All blocks were read.
    Done,
}

/// A scrub, for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubInfo {
    /// The state.
    pub state: ScrubState,
    /// Block numbers that it has passed, used or not.
    pub passed_blocks: u64,
    /// All that it has to pass.
    pub total_blocks: u64,
    /// Block numbers up to which everything was read: where it can go on after a restart.
    pub read_blocks: u64,
    /// Copies of blocks that were read.
    pub read_copies: u64,
    /// Blocks that were wrong or unreadable on one drive, and right on another.
    pub wrong_blocks: u64,
    /// Blocks that no drive has right.
    pub lost_blocks: u64,
    /// When it began, in seconds since 1970 UTC.
    pub begun_seconds: u64,
    /// When it went on the last time.
    pub resumed_seconds: u64,
    /// Block numbers that it had passed then.
    pub resumed_blocks: u64,
    /// When it ended.
    pub ended_seconds: Option<u64>,
}
