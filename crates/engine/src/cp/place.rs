//! Placing a block of the aggregate that changed.

use everglade_format::{FileId, Owner, Pointer};

use crate::alloc::blocks::Purpose;
use crate::alloc::filesystem::FileSystem;
use crate::tree::position::Position;

/// A new place for a block of an aggregate file, its owner recorded.
pub(crate) fn place_physical(
    fs: &mut FileSystem,
    file: FileId,
    (level, index): Position,
) -> Pointer {
    let pvbn = fs.take_physical(Purpose::Metadata, (file, Owner::File { level, index }));
    Pointer {
        pvbn,
        ..Pointer::HOLE
    }
}
