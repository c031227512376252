//! Faults of devices and power, and the proof that they happened.
//!
//! Every fault has a rate (one in so many operations, zero for never), a seeded die, and two
//! counters: how often it *fired*, and how often it was *met*: the code under test received the
//! consequence. For a loud fault, which answers with an error or takes long, both are the same. A
//! silent fault changes a block: it fires then, and is met when a read of that block returns bytes
//! that differ from those written. A run that claims to have survived a fault must show that it was
//! met.

use std::fmt;
use std::ops::Range;

use crate::counts::counts;

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// A read fails with EIO, by the die or because the block is bad.
    ReadError,
    /// A write fails with EIO; none, some or all of it happened.
    WriteError,
    /// A flush fails with EIO; nothing became durable by it.
    FlushError,
    /// The host has no space, by the die or because it is full.
    NoSpace,
    /// An operation takes many times as long.
    Slow,
    /// An operation finds the device gone.
    Vanished,
    /// Completions overtake each other.
    Reordered,
    /// A write reports success and happened in part.
    Torn,
    /// A write reports success and never happened.
    Lost,
    /// A write reports success and happened somewhere else.
    Misdirected,
    /// A bit flips on the medium, and stays flipped.
    MediaFlip,
    /// A bit flips in a page between hand-over and device: the flipped page is written.
    FlipWriting,
    /// A bit flips in a page between device and hand-over; another read finds it whole.
    FlipReading,
    /// A read returns what a block held before its last write.
    StaleRead,
    /// A flush reports success and made nothing durable.
    LostFlush,
    /// A device returns with its content of some time ago.
    StaleDevice,
    /// A power cut takes changes away that were not flushed.
    CutDropped,
    /// A power cut leaves a change in part.
    CutTorn,
}

impl Fault {
    /// All faults.
    pub const ALL: [Fault; 18] = [
        Fault::ReadError,
        Fault::WriteError,
        Fault::FlushError,
        Fault::NoSpace,
        Fault::Slow,
        Fault::Vanished,
        Fault::Reordered,
        Fault::Torn,
        Fault::Lost,
        Fault::Misdirected,
        Fault::MediaFlip,
        Fault::FlipWriting,
        Fault::FlipReading,
        Fault::StaleRead,
        Fault::LostFlush,
        Fault::StaleDevice,
        Fault::CutDropped,
        Fault::CutTorn,
    ];

    /// True if the fault causes no error when it happens.
    #[must_use]
    pub fn is_silent(self) -> bool {
        self >= Fault::Torn
    }

    /// Its name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Fault::ReadError => "read_error",
            Fault::WriteError => "write_error",
            Fault::FlushError => "flush_error",
            Fault::NoSpace => "no_space",
            Fault::Slow => "slow",
            Fault::Vanished => "vanished",
            Fault::Reordered => "reordered",
            Fault::Torn => "torn_write",
            Fault::Lost => "lost_write",
            Fault::Misdirected => "misdirected_write",
            Fault::MediaFlip => "media_bit_flip",
            Fault::FlipWriting => "memory_flip_write",
            Fault::FlipReading => "memory_flip_read",
            Fault::StaleRead => "stale_read",
            Fault::LostFlush => "lost_flush",
            Fault::StaleDevice => "stale_device",
            Fault::CutDropped => "cut_dropped",
            Fault::CutTorn => "cut_torn",
        }
    }
}

counts! {
    /// A number for each fault.
    PerFault of Fault
}

impl PerFault {
    /// Their sum.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

/// Rates of the faults of one device. The default has none. Rates are "one in n", zero is never.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Blocks that faults hit; `None` is the whole device.
    pub blocks: Option<Range<u64>>,
    /// See [`Fault::ReadError`].
    pub read_error: u32,
    /// See [`Fault::WriteError`].
    pub write_error: u32,
    /// See [`Fault::FlushError`].
    pub flush_error: u32,
    /// An allocation or a punch fails with EIO, and may have happened; counted as
    /// [`Fault::WriteError`].
    pub space_error: u32,
    /// See [`Fault::Torn`].
    pub torn_write: u32,
    /// See [`Fault::Lost`].
    pub lost_write: u32,
    /// See [`Fault::Misdirected`].
    pub misdirected_write: u32,
    /// See [`Fault::MediaFlip`]; one in `bit_flip` reads.
    pub bit_flip: u32,
    /// See [`Fault::FlipWriting`].
    pub flip_writing: u32,
    /// See [`Fault::FlipReading`].
    pub flip_reading: u32,
    /// See [`Fault::StaleRead`]; one in `stale_read` blocks read.
    pub stale_read: u32,
    /// See [`Fault::LostFlush`].
    pub lost_flush: u32,
    /// An allocation, or a write to blocks without space, finds the host full.
    pub no_space: u32,
    /// Factor on the duration of all operations. Zero and one change nothing.
    pub slow: u64,
}

impl Faults {
    /// A device that takes nothing any more, and can be read.
    #[must_use]
    pub fn no_writes() -> Faults {
        Faults {
            write_error: 1,
            flush_error: 1,
            space_error: 1,
            ..Faults::default()
        }
    }

    /// Returns only this fault, one in `rate`. Faults without a rate on devices change nothing.
    #[must_use]
    pub fn only(fault: Fault, rate: u32) -> Faults {
        let mut faults = Faults::default();
        let place = match fault {
            Fault::ReadError => &mut faults.read_error,
            Fault::WriteError => &mut faults.write_error,
            Fault::FlushError => &mut faults.flush_error,
            Fault::NoSpace => &mut faults.no_space,
            Fault::Torn => &mut faults.torn_write,
            Fault::Lost => &mut faults.lost_write,
            Fault::Misdirected => &mut faults.misdirected_write,
            Fault::MediaFlip => &mut faults.bit_flip,
            Fault::FlipWriting => &mut faults.flip_writing,
            Fault::FlipReading => &mut faults.flip_reading,
            Fault::StaleRead => &mut faults.stale_read,
            Fault::LostFlush => &mut faults.lost_flush,
            Fault::Slow => {
                faults.slow = u64::from(rate);
                return faults;
            }
            _ => return faults,
        };
        *place = rate;
        faults
    }

    /// True if an operation on `range` is among those that may be hit.
    pub(super) fn concern(&self, range: &Range<u64>) -> bool {
        self.blocks
            .as_ref()
            .is_none_or(|hit| hit.start < range.end && range.start < hit.end)
    }
}

/// The number of times that each fault happened, and was met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts {
    /// Times each fault happened.
    pub fired: PerFault,
    /// Times each fault became visible to the code under test, for example as an error or as wrong
    /// content.
    pub met: PerFault,
    /// Operations beyond the end of the device. Not a fault of the device: a bug, or a damaged
    /// label.
    pub out_of_range: u64,
}

impl FaultCounts {
    /// A fault that shows at once.
    pub(super) fn loud(&mut self, fault: Fault) {
        self.fired[fault] += 1;
        self.met[fault] += 1;
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_is_listed_where_its_number_says() {
        for (place, fault) in Fault::ALL.into_iter().enumerate() {
            assert_eq!(fault as usize, place, "{fault}");
        }
    }
}
