//! What administrators read instead of what is recorded or counted: bytes for blocks, and the kinds
//! of devices of the interface for those of the data directory.

use everglade_api::DeviceKind;
use everglade_env::BLOCK_SIZE;

/// Returns the bytes of this number of blocks.
pub(super) fn bytes(blocks: u64) -> u64 {
    blocks.saturating_mul(BLOCK_SIZE as u64)
}

/// Returns the kind of a recorded device.
pub(super) fn kind_of(kind: crate::datadir::DeviceKind) -> DeviceKind {
    use crate::datadir::DeviceKind as Recorded;
    match kind {
        Recorded::Directory => DeviceKind::Directory,
        Recorded::File => DeviceKind::File,
        Recorded::Block => DeviceKind::Block,
    }
}
