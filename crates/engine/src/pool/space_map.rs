//! The space map of an aggregate: which of its areas are how full, and how whole its free space is
//! (H-01).

/// Free runs of about the same length: from a power of two to below the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FreeRuns {
    /// Runs of neighbouring free blocks of one device.
    pub runs: u64,
    /// Blocks in them.
    pub blocks: u64,
}

/// The areas of one extent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtentMap {
    /// Index of its member in [`crate::AggregateInfo::members`].
    pub member: u32,
    /// Block of the device at which it begins.
    pub first_dbn: u64,
    /// Blocks in use of each area, in order; `None` if that cannot be read.
    pub used: Vec<Option<u32>>,
}

/// Stripes of parity groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StripesMap {
    /// Stripes in which a data block is free.
    pub free: u64,
    /// Those of them in which all data blocks are free: they are written without reading.
    pub whole: u64,
}

/// See the module's documentation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpaceMap {
    /// When the last area was counted, in seconds since 1970 UTC.
    pub counted_seconds: u64,
    /// Blocks of an area.
    pub area_blocks: u64,
    /// All extents with areas, in the order of block numbers.
    pub extents: Vec<ExtentMap>,
    /// Free runs by their length: index *n* has those with at least 2ⁿ blocks and fewer than 2ⁿ⁺¹.
    pub free_runs: Vec<FreeRuns>,
    /// Stripes; `None` without parity groups.
    pub stripes: Option<StripesMap>,
}
