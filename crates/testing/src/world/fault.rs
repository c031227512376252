//! What can go wrong with a device while the power stays on, and the proof that it did.
//!
//! Every fault has a rate (one in so many operations, zero for never), a seeded die, and a counter. A
//! run that claims to have survived a fault must show that its counter is not zero.

use std::ops::Range;

/// Rates of the faults of one device. The default has none. Rates are "one in n", zero is never.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Only operations that touch these blocks are hit; `None` is the whole device.
    pub blocks: Option<Range<u64>>,
    /// A read fails with EIO.
    pub read_error: u32,
    /// A write fails with EIO; none, some or all of it happened.
    pub write_error: u32,
    /// A flush fails with EIO; nothing became durable by it.
    pub flush_error: u32,
    /// A write reports success and happened in part.
    pub torn_write: u32,
    /// A write reports success and never happened.
    pub lost_write: u32,
    /// A write reports success and happened somewhere else.
    pub misdirected_write: u32,
    /// A bit of a block being read has flipped on the medium, and stays flipped.
    pub bit_flip: u32,
    /// A read returns what a block held before its last write.
    pub stale_read: u32,
    /// An allocation, or a write to blocks without space, finds the host full.
    pub no_space: u32,
    /// Everything takes this many times as long. Zero and one change nothing.
    pub slow: u64,
}

/// How often each fault happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts {
    /// Reads that failed, by the die or because the block was bad.
    pub read_errors: u64,
    /// Writes that failed.
    pub write_errors: u64,
    /// Flushes that failed.
    pub flush_errors: u64,
    /// Writes that happened in part and said nothing.
    pub torn_writes: u64,
    /// Writes that did not happen and said nothing.
    pub lost_writes: u64,
    /// Writes that went elsewhere and said nothing.
    pub misdirected_writes: u64,
    /// Bits flipped, by the die or by hand.
    pub bit_flips: u64,
    /// Blocks returned as they were before.
    pub stale_reads: u64,
    /// Operations refused because the host was full, by the die or by its capacity.
    pub no_space: u64,
    /// Operations slowed down.
    pub slowed: u64,
    /// Operations that found the device gone.
    pub gone: u64,
    /// Operations beyond the end of the device. Not a fault of the device: a bug, or a damaged label.
    pub out_of_range: u64,
}

impl Faults {
    /// True if an operation on `range` is among those that may be hit.
    pub(super) fn concern(&self, range: &Range<u64>) -> bool {
        self.blocks
            .as_ref()
            .is_none_or(|hit| hit.start < range.end && range.start < hit.end)
    }
}
