//! What people see of the gardener's work ([`crate::home::gardener`]).

use std::sync::Arc;

use crate::pool::space_map::SpaceMap;

/// The state of a gardener's job, for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GardeningState {
    /// Nobody has asked for it since the aggregate was opened.
    #[default]
    Never,
    /// It is under way.
    Running,
    /// It was ended before it had passed everything.
    Stopped,
    /// It has passed everything.
    Done,
}

/// The garden of an aggregate, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GardenInfo {
    /// Gardening is paused: blocks move only out of areas that clients need as a whole.
    pub is_paused: bool,
    /// Segment cleaning that is under way, or the last one.
    pub cleaning: CleaningInfo,
    /// The rebalance that is under way, or the last one.
    pub rebalance: RebalanceInfo,
    /// The LUN that is put in order, or the last one.
    pub layout: LayoutInfo,
    /// The space map.
    pub space_map: SpaceMapInfo,
    /// What was put in order after it was read in order.
    pub after_read: AfterReadInfo,
    /// Blocks that were moved since the aggregate was opened, by all of it.
    pub moved_blocks: u64,
    /// Areas that were emptied since then.
    pub cleaned_areas: u64,
}

/// Write after read since the aggregate was opened, for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AfterReadInfo {
    /// Blocks of LUNs that wait, with holes.
    pub waiting_blocks: u64,
    /// Regions that were put in order.
    pub regions: u64,
    /// Blocks in them.
    pub blocks: u64,
    /// Runs of consecutive blocks in which they lay before.
    pub runs_before: u64,
    /// The same after.
    pub runs_after: u64,
    /// Blocks that were moved.
    pub moved_blocks: u64,
}

/// Segment cleaning, for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CleaningInfo {
    /// The state.
    pub state: GardeningState,
    /// An area is emptied if at least this part of it is free, in percent.
    pub least_free_percent: u8,
    /// Areas that it has passed, emptied or not. Areas of all columns of a parity group that are
    /// filled together count as one.
    pub passed_areas: u64,
    /// All that it has to pass.
    pub total_areas: u64,
    /// Areas that were emptied.
    pub cleaned_areas: u64,
    /// Blocks that were moved.
    pub moved_blocks: u64,
    /// Blocks that stayed where they are: they cannot be read, or what leads to them cannot.
    pub left_blocks: u64,
    /// When it began, in seconds since 1970 UTC.
    pub begun_seconds: u64,
    /// When it ended.
    pub ended_seconds: Option<u64>,
}

/// A rebalance, for people: devices become about equally full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RebalanceInfo {
    /// The state.
    pub state: GardeningState,
    /// Areas that it has surveyed, and all of them. Areas of all columns of a parity group that are
    /// filled together count as one.
    pub surveyed_areas: u64,
    /// All that it surveys.
    pub total_areas: u64,
    /// How full the fullest device was when all was surveyed, in percent.
    pub fullest_percent: u64,
    /// The emptiest one.
    pub emptiest_percent: u64,
    /// Blocks that are to move; 0 until all was surveyed.
    pub total_blocks: u64,
    /// Blocks that were moved.
    pub moved_blocks: u64,
    /// Blocks that stayed where they are: they cannot be read, or what leads to them cannot.
    pub left_blocks: u64,
    /// When it began, in seconds since 1970 UTC.
    pub begun_seconds: u64,
    /// When it ended.
    pub ended_seconds: Option<u64>,
}

/// A part of a LUN, as an estimate found it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LayoutPart {
    /// Blocks in it that the volume has of its own.
    pub blocks: u64,
    /// Runs of consecutive blocks in which they lie.
    pub runs: u64,
    /// Where the first of them is: index of the member in [`crate::AggregateInfo::members`], and
    /// the block of its device.
    pub first: Option<(u32, u64)>,
}

/// The layout of a LUN, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LayoutInfo {
    /// The state.
    pub state: GardeningState,
    /// Name of the volume when it began.
    pub volume: String,
    /// Name of the LUN when it began.
    pub lun: String,
    /// Nothing is moved.
    pub is_estimate: bool,
    /// Pointers that named former places of blocks. They are corrected, except by an estimate.
    pub stale_pointers: u64,
    /// Of an estimate: parts of equal length, in order, the last one perhaps shorter.
    pub parts: Vec<LayoutPart>,
    /// Regions of 255 blocks in a part; 0 if there are no parts.
    pub part_regions: u64,
    /// Regions of 255 blocks that it has passed.
    pub passed_regions: u64,
    /// All that it has to pass.
    pub total_regions: u64,
    /// Blocks in them that the volume has of its own.
    pub blocks: u64,
    /// Runs of consecutive blocks in which they lay before.
    pub runs_before: u64,
    /// The same after.
    pub runs_after: u64,
    /// Blocks that were moved.
    pub moved_blocks: u64,
    /// When it began, in seconds since 1970 UTC.
    pub begun_seconds: u64,
    /// When it ended.
    pub ended_seconds: Option<u64>,
}

/// How far a space map is, and the last one that was finished.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpaceMapInfo {
    /// State of the count.
    pub state: GardeningState,
    /// Areas that were counted. Areas of all columns of a parity group that are filled together
    /// are one.
    pub counted_areas: u64,
    /// All that it counts.
    pub total_areas: u64,
    /// When it began, in seconds since 1970 UTC.
    pub begun_seconds: u64,
    /// The last map that was finished since the aggregate was opened.
    pub last: Option<Arc<SpaceMap>>,
}
