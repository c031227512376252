//! How far a removal is ([`crate::home::removing`]), and what one would leave, for people.

/// A removal of members that is under way, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemovalInfo {
    /// True if all of their areas were looked at.
    pub is_surveyed: bool,
    /// Blocks that were in use on them when all of their areas were looked at; 0 before.
    pub total_blocks: u64,
    /// Blocks that are still in use there.
    pub left_blocks: u64,
    /// Blocks that the last pass could not move, because they cannot be read.
    pub stuck_blocks: u64,
    /// True while there is too little free space on the other members.
    pub waits_for_space: bool,
    /// True while gardening is paused, and so the removal.
    pub is_paused: bool,
    /// When it began, or the aggregate was opened, in seconds since 1970 UTC.
    pub begun_seconds: u64,
}

/// What the removal of a member would leave, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovalPlan {
    /// Indices of the members that would leave together.
    pub members: Vec<u32>,
    /// Blocks of the aggregate now.
    pub total_blocks_before: u64,
    /// The same afterwards.
    pub total_blocks_after: u64,
    /// Blocks kept back afterwards.
    pub reserve_blocks_after: u64,
}
