//! The maps: places for the blocks of the allocation metafiles themselves (E-05, E-08, C-06).
//!
//! Placing a map block takes a number, which sets a bit and writes a context: both may change
//! further map blocks, which need places too. Numbers come from one chunk at a time, so placing
//! ends after a round or two. The *old* places of map blocks are not freed in the map, because such
//! frees could continue along a chain through the whole map. They become leaves of the overflow
//! file, which owns them until the next consistency point. The overflow file's own blocks are new
//! (it was emptied by the drain) and have no old places.
//!
//! Placing ends when every changed block of the three files has a place and the overflow file names
//! every old one.

use everglade_format::metafile::{ACTIVE_MAP, CONTEXT_MAP, OVERFLOW};
use everglade_format::{BLOCK_SIZE, FileId, Layer, Pointer, SPAN};

use crate::alloc::blocks::Purpose;
use crate::alloc::filesystem::FileSystem;
use crate::cp::place::place_physical;
use crate::home::aggregate::Home;
use crate::home::site::Site;
use crate::read::load::{LoadCx, Stop};
use crate::tree::Content;
use crate::tree::position::Position;

/// Blocks placed in one step.
const STEP_BLOCKS: usize = 64;

/// The next map block without a place.
fn next(fs: &FileSystem) -> Option<(FileId, Position)> {
    let maps: &[FileId] = match fs.layer {
        Layer::Aggregate => &[ACTIVE_MAP, CONTEXT_MAP, OVERFLOW],
        Layer::Volume => &[ACTIVE_MAP, OVERFLOW],
    };
    maps.iter().find_map(|id| {
        let position = fs.files[id].unplaced().next()?;
        Some((*id, position))
    })
}

/// Loads the blocks that adding delayed frees changes, so that adding does not stop halfway and
/// lose some. The drain emptied the file, so usually nothing is loaded. A clone, however, begins
/// with its base's entries, and the second image of a consistency point that restores a LUN begins
/// with the entries of the first.
fn prepare_give(fs: &mut FileSystem, cx: &mut LoadCx<'_>) -> Result<(), Stop> {
    let file = fs.file(OVERFLOW);
    let last = file.inode.block_count().saturating_sub(1);
    if file.inode.blocks > 0 {
        file.modify(cx, 1, last / SPAN, Content::Keep)?;
    }
    Ok(())
}

/// Gives an old place to the overflow file.
fn give(fs: &mut FileSystem, cx: &mut LoadCx<'_>, old: Pointer) -> Result<(), Stop> {
    let file = fs.file(OVERFLOW);
    let entry = file.inode.block_count();
    // At least one level, so that entries always sit in a level-1 block.
    file.grow((entry + 1).max(2));
    file.inode.size_bytes = (entry + 1) * BLOCK_SIZE as u64;
    file.modify(cx, 1, entry / SPAN, Content::Keep)?;
    let hole = file.set_leaf(entry, old)?;
    assert!(
        hole.is_hole(),
        "an entry of the overflow file is overwritten"
    );
    Ok(())
}

/// Places some blocks of a volume's maps. True when all have places.
pub(crate) fn volume(site: &mut Site<'_>, cx: &mut LoadCx<'_>) -> Result<bool, Stop> {
    for _ in 0..STEP_BLOCKS {
        if next(&site.volume.fs).is_none() {
            return Ok(true);
        }
        prepare_give(&mut site.volume.fs, cx)?;
        site.ensure(cx, Purpose::Metadata, 1)?;
        let (file, position) =
            next(&site.volume.fs).expect("there was one, and ensuring adds only more");
        let new = site.take(Purpose::Metadata);
        let old = site.file(file).place(position, new);
        cx.replaced(old);
        if !old.is_hole() {
            give(&mut site.volume.fs, cx, old)?;
        }
    }
    Ok(false)
}

/// Places some blocks of the aggregate's maps. True when all have places.
pub(crate) fn aggregate(home: &mut Home, cx: &mut LoadCx<'_>) -> Result<bool, Stop> {
    let fs = &mut home.fs;
    for _ in 0..STEP_BLOCKS {
        if next(fs).is_none() {
            return Ok(true);
        }
        fs.ensure(None, cx, &mut home.host, Purpose::Metadata, 1)?;
        let (file, position) = next(fs).expect("there was one, and ensuring adds only more");
        let new = place_physical(fs, file, position);
        let old = fs.file(file).place(position, new);
        cx.replaced(old);
        if !old.is_hole() {
            give(fs, cx, old)?;
        }
    }
    Ok(false)
}
