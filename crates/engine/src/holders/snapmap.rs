//! Snapmaps: the active map as a snapshot holds it.

use everglade_env::PageRef;
use everglade_format::{FileId, Inode, Layer, Pointer};

use crate::read::load::{BlockName, LoadCx, Stop};
use crate::read::root::Root;
use crate::tree::File;
use crate::tree::position::Position;

/// The place of a block of a snapmap.
pub(crate) fn snapmap_pointer(
    cx: &mut LoadCx<'_>,
    volume: Option<FileId>,
    map: &Inode,
    block: u64,
) -> Result<Pointer, Stop> {
    snapmap_place(cx, volume, map, (0, block))
}

/// The place of a block of a snapmap, or of one above.
pub(crate) fn snapmap_place(
    cx: &mut LoadCx<'_>,
    volume: Option<FileId>,
    map: &Inode,
    (level, index): Position,
) -> Result<Pointer, Stop> {
    let found = Root::of(map).pointer(cx, Layer::Volume, level, index);
    match found {
        // A second walk finds the damaged block.
        Err(Stop::Damaged(_)) => {
            let map = File::new(map.clone(), Layer::Volume).of(volume);
            map.pointer(cx, level, index)
        }
        found => found,
    }
}

/// A block of a snapmap; nothing where the map has a hole or ends.
pub(crate) fn snapmap_block(
    cx: &mut LoadCx<'_>,
    volume: Option<FileId>,
    map: &Inode,
    block: u64,
) -> Result<Option<PageRef>, Stop> {
    let pointer = snapmap_pointer(cx, volume, map, block)?;
    if pointer.is_hole() {
        return Ok(None);
    }
    let name = BlockName {
        volume,
        file: map.id,
        level: 0,
        index: block,
    };
    let page = cx.page(pointer).map_err(|stop| stop.at(name, pointer))?;
    Ok(Some(page))
}
