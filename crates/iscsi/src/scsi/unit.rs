//! What a logical unit says about itself.

use super::BLOCK_BYTES;

/// The facts about a logical unit that its answers are made of.
#[derive(Clone, Debug)]
pub struct Unit {
    /// Name of the target.
    pub target_name: String,
    /// Name of the export.
    pub export: String,
    /// UUID of the LUN that it is, or is an image of.
    pub lun_uuid: [u8; 16],
    /// Writes are refused.
    pub read_only: bool,
    /// NAA identifier, format 6.
    pub naa: [u8; 16],
    /// Serial number.
    pub serial: String,
    /// Size in bytes.
    pub size_bytes: u64,
}

/// Number of our port, relative to the target.
pub const RELATIVE_PORT: u16 = 1;

impl Unit {
    /// Returns the number of blocks.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.size_bytes / u64::from(BLOCK_BYTES)
    }
}

/// Cuts an answer to the room that the initiator has for it.
#[must_use]
pub fn within(mut answer: Vec<u8>, room: u32) -> Vec<u8> {
    answer.truncate(room as usize);
    answer
}

#[cfg(test)]
pub(super) fn example() -> Unit {
    Unit {
        target_name: "iqn.2026-11.dev.everglade:vol0.lun0".to_owned(),
        export: "vol0/lun0".to_owned(),
        lun_uuid: [1; 16],
        read_only: false,
        naa: [0x60, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        serial: "0123456789".to_owned(),
        size_bytes: 1 << 30,
    }
}
