//! Commands of a disk: what they ask, and the answers that need no storage (SPC-4, SBC-3).
//!
//! | file | what |
//! | --- | --- |
//! | [`cdb`] | commands as values |
//! | [`table`] | decodes them, and tells initiators about them |
//! | [`sense`] | why a command failed; errors of the target become sense data in one `match` |
//! | [`mod@unit`] | what a logical unit says about itself |
//! | [`inquiry`], [`capacity`], [`mode`], [`log`], [`opcodes`], [`alua`] | answers |
//! | [`reserve`] | persistent reservations, as parameters |
//! | [`parameters`] | other lists of parameters that initiators send |
//!
//! Logical blocks have 512 bytes, and eight of them are a block of the storage.

pub mod alua;
pub mod capacity;
pub mod cdb;
pub mod inquiry;
pub mod log;
pub mod mode;
pub mod opcodes;
pub mod parameters;
pub mod reserve;
pub mod sense;
pub mod table;
pub mod unit;

pub use cdb::{Command, Range};
pub use sense::Sense;
pub use unit::Unit;

/// Bytes of a logical block.
pub const BLOCK_BYTES: u32 = 512;
/// Logical blocks in a block of the storage, as an exponent of two.
pub const PHYSICAL_EXPONENT: u8 = 3;
/// Most blocks that one command reads or writes: one operation of the target (K-06).
pub const TRANSFER_BLOCKS_MAX: u32 = everglade_target::OP_BYTES_MAX / BLOCK_BYTES;
/// Most blocks that are compared and written at once: 64 KiB (K-03).
pub const COMPARE_BLOCKS_MAX: u32 = (64 << 10) / BLOCK_BYTES;
/// Most blocks of one WRITE SAME, as many as its short form can say: almost 32 MiB. Zeroes cost
/// nothing, other patterns are written.
pub const WRITE_SAME_BLOCKS_MAX: u64 = 0xffff;
/// Most ranges of one UNMAP.
pub const UNMAP_RANGES_MAX: usize = 256;

/// Status of commands (SAM-5 §5.3).
pub mod status {
    /// All is well.
    pub const GOOD: u8 = 0x00;
    /// Sense data says what is wrong.
    pub const CHECK_CONDITION: u8 = 0x02;
    /// Another host has a reservation.
    pub const RESERVATION_CONFLICT: u8 = 0x18;
    /// There is no room for the command now.
    pub const TASK_SET_FULL: u8 = 0x28;
}
