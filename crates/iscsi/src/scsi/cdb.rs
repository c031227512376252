//! Commands as values, and what they mean for data, reservations and unit attentions. Bytes become
//! commands in [`table`](super::table).

use super::BLOCK_BYTES;
use everglade_target::reservations::Access;

/// A command block. Shorter commands are followed by zeroes.
pub type Cdb = [u8; 16];

/// A range of logical blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// First block.
    pub lba: u64,
    /// Number of blocks, perhaps 0.
    pub blocks: u64,
}

/// What VERIFY compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// Nothing: the blocks must be readable.
    Readable,
    /// The blocks with as many blocks of data.
    Blocks,
    /// Every block with one block of data.
    Same,
}

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// READ.
    Read(Range),
    /// WRITE.
    Write {
        /// Where.
        range: Range,
        /// Only durable data counts.
        durable: bool,
    },
    /// WRITE AND VERIFY: data is durable, and read back.
    WriteAndVerify {
        /// Where.
        range: Range,
        /// Compare, do not only read.
        compares: bool,
    },
    /// VERIFY.
    Verify {
        /// Where.
        range: Range,
        /// How.
        check: Check,
    },
    /// WRITE SAME.
    WriteSame {
        /// Where; 0 blocks mean all to the end.
        range: Range,
        /// Free the space if the data is zero.
        unmaps: bool,
        /// There is no data: zeroes.
        no_data: bool,
    },
    /// UNMAP.
    Unmap {
        /// Bytes of parameters.
        bytes: u32,
    },
    /// COMPARE AND WRITE.
    CompareAndWrite {
        /// Where.
        range: Range,
        /// Only durable data counts.
        durable: bool,
    },
    /// ORWRITE.
    OrWrite {
        /// Where.
        range: Range,
        /// Only durable data counts.
        durable: bool,
    },
    /// SYNCHRONIZE CACHE.
    Flush(Range),
    /// PRE-FETCH.
    Prefetch(Range),
    /// GET LBA STATUS.
    LbaStatus {
        /// First block.
        lba: u64,
        /// Room for the answer.
        room: u32,
    },
    /// INQUIRY.
    Inquiry {
        /// The page of vital product data, or none for standard data.
        page: Option<u8>,
        /// Room for the answer.
        room: u32,
    },
    /// READ CAPACITY (10).
    ReadCapacity10,
    /// READ CAPACITY (16).
    ReadCapacity16 {
        /// Room for the answer.
        room: u32,
    },
    /// REPORT LUNS.
    ReportLuns {
        /// Which.
        select: u8,
        /// Room for the answer.
        room: u32,
    },
    /// TEST UNIT READY.
    TestUnitReady,
    /// REQUEST SENSE.
    RequestSense {
        /// In the format with descriptors.
        has_descriptors: bool,
        /// Room for the answer.
        room: u32,
    },
    /// MODE SENSE.
    ModeSense(ModeSense),
    /// MODE SELECT.
    ModeSelect {
        /// The header is the long one.
        is_long: bool,
        /// Save the pages.
        saves: bool,
        /// Bytes of parameters.
        bytes: u32,
    },
    /// LOG SENSE.
    LogSense {
        /// Page.
        page: u8,
        /// Subpage.
        subpage: u8,
        /// Room for the answer.
        room: u32,
    },
    /// REPORT SUPPORTED OPERATION CODES.
    ReportOpcodes {
        /// Which: all, one without service action, one with, one of either kind.
        options: u8,
        /// With time limits.
        has_timeouts: bool,
        /// Operation code.
        opcode: u8,
        /// Service action.
        action: u16,
        /// Room for the answer.
        room: u32,
    },
    /// REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS.
    ReportTaskManagement {
        /// The long answer.
        is_long: bool,
        /// Room for the answer.
        room: u32,
    },
    /// REPORT TARGET PORT GROUPS.
    ReportPortGroups {
        /// With the extended header.
        is_extended: bool,
        /// Room for the answer.
        room: u32,
    },
    /// START STOP UNIT, which has nothing to start.
    StartStop,
    /// PREVENT ALLOW MEDIUM REMOVAL of a medium that cannot be removed.
    PreventAllow {
        /// Prevent.
        prevents: bool,
    },
    /// PERSISTENT RESERVE IN.
    ReserveIn {
        /// Service action.
        action: u8,
        /// Room for the answer.
        room: u32,
    },
    /// PERSISTENT RESERVE OUT.
    ReserveOut {
        /// Service action.
        action: u8,
        /// Scope, 4 bits.
        scope: u8,
        /// Type, 4 bits.
        kind: u8,
        /// Bytes of parameters.
        bytes: u32,
    },
}

/// MODE SENSE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModeSense {
    /// The header is the long one.
    pub is_long: bool,
    /// Leave the description of blocks out.
    pub no_blocks: bool,
    /// Which values: current, changeable, default, saved.
    pub control: u8,
    /// Page; 3f for all.
    pub page: u8,
    /// Subpage; ff for all.
    pub subpage: u8,
    /// Room for the answer.
    pub room: u32,
}

impl Command {
    /// Bytes of data that the command takes.
    #[must_use]
    pub fn bytes_out(&self) -> u64 {
        let block = u64::from(BLOCK_BYTES);
        match self {
            Command::Write { range, .. }
            | Command::WriteAndVerify { range, .. }
            | Command::OrWrite { range, .. }
            | Command::Verify {
                range,
                check: Check::Blocks,
            } => range.blocks * block,
            Command::CompareAndWrite { range, .. } => 2 * range.blocks * block,
            Command::Verify {
                range,
                check: Check::Same,
            } => range.blocks.min(1) * block,
            Command::WriteSame { no_data, .. } => u64::from(!no_data) * block,
            Command::Unmap { bytes }
            | Command::ModeSelect { bytes, .. }
            | Command::ReserveOut { bytes, .. } => u64::from(*bytes),
            _ => 0,
        }
    }

    /// Returns the blocks that the command is about, if it is about some.
    #[must_use]
    pub fn range(&self) -> Option<Range> {
        match self {
            Command::Read(range)
            | Command::Write { range, .. }
            | Command::WriteAndVerify { range, .. }
            | Command::Verify { range, .. }
            | Command::WriteSame { range, .. }
            | Command::CompareAndWrite { range, .. }
            | Command::OrWrite { range, .. }
            | Command::Flush(range)
            | Command::Prefetch(range) => Some(*range),
            _ => None,
        }
    }

    /// Returns what reservations think of the command (SPC-4 table 68, SBC-3 table 13); `None` if
    /// it is allowed in any case.
    #[must_use]
    pub fn access(&self) -> Option<Access> {
        match self {
            Command::Read(_)
            | Command::Verify { .. }
            | Command::Prefetch(_)
            | Command::LbaStatus { .. }
            | Command::ModeSense(_) => Some(Access::Read),
            Command::Write { .. }
            | Command::WriteAndVerify { .. }
            | Command::WriteSame { .. }
            | Command::Unmap { .. }
            | Command::CompareAndWrite { .. }
            | Command::OrWrite { .. }
            | Command::Flush(_)
            | Command::ModeSelect { .. }
            | Command::StartStop
            | Command::PreventAllow { prevents: true } => Some(Access::Write),
            _ => None,
        }
    }

    /// Returns whether the command changes data.
    #[must_use]
    pub fn writes(&self) -> bool {
        matches!(
            self,
            Command::Write { .. }
                | Command::WriteAndVerify { .. }
                | Command::WriteSame { .. }
                | Command::Unmap { .. }
                | Command::CompareAndWrite { .. }
                | Command::OrWrite { .. }
        )
    }

    /// Returns whether the command is answered although a unit attention waits (SPC-4 §5.14).
    #[must_use]
    pub fn ignores_attention(&self) -> bool {
        matches!(
            self,
            Command::Inquiry { .. } | Command::ReportLuns { .. } | Command::RequestSense { .. }
        )
    }
}
