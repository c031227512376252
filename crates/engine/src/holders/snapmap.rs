//! Snapmaps: the active map as a snapshot holds it.

use everglade_env::PageRef;
use everglade_format::{Inode, Layer, Pointer};

use crate::read::load::{LoadCx, Stop};
use crate::read::root::Root;

/// The place of a block of a snapmap.
pub(crate) fn snapmap_pointer(
    cx: &mut LoadCx<'_>,
    map: &Inode,
    block: u64,
) -> Result<Pointer, Stop> {
    snapmap_place(cx, map, 0, block)
}

/// The place of a block of a snapmap, or of one above.
pub(crate) fn snapmap_place(
    cx: &mut LoadCx<'_>,
    map: &Inode,
    level: u8,
    index: u64,
) -> Result<Pointer, Stop> {
    Root::of(map).pointer(cx, Layer::Volume, level, index)
}

/// A block of a snapmap; nothing where the map has a hole or ends.
pub(crate) fn snapmap_block(
    cx: &mut LoadCx<'_>,
    map: &Inode,
    block: u64,
) -> Result<Option<PageRef>, Stop> {
    let pointer = snapmap_pointer(cx, map, block)?;
    match pointer.is_hole() {
        true => Ok(None),
        false => cx.page(pointer).map(Some),
    }
}
