//! The tag of a block that the last consistency point uses: what the block's content must be.
//!
//! | block of | its tag is in |
//! | --- | --- |
//! | a volume | the context map |
//! | a file of the aggregate | the block above it in the file, or the inode |

use everglade_format::metafile::{ACTIVE_MAP, CONTEXT_MAP, INODE_FILE};
use everglade_format::{BITS_PER_BLOCK, Context, Owner, Pvbn, Tag, bitmap, context};

use crate::alloc::filesystem::FileSystem;
use crate::read::load::{LoadCx, Stop};

/// Returns the tag of a block; `None` if the block is free, or the maps do not say.
///
/// To be asked before a consistency point gives blocks new places: until then the maps say what
/// the last one uses.
pub(crate) fn tag_of(
    fs: &FileSystem,
    cx: &mut LoadCx<'_>,
    pvbn: Pvbn,
) -> Result<Option<Tag>, Stop> {
    let (block, bit) = (pvbn.0 / BITS_PER_BLOCK, pvbn.0 % BITS_PER_BLOCK);
    let map = &fs.files[&ACTIVE_MAP];
    if block >= map.inode.block_count() || !bitmap::is_set(map.leaf(cx, block)?.bytes(), bit) {
        return Ok(None);
    }
    recorded_tag(fs, cx, pvbn)
}

/// Returns the tag of a block that is in use, or was freed in the consistency point under way;
/// `None` if the maps do not say it.
pub(crate) fn recorded_tag(
    fs: &FileSystem,
    cx: &mut LoadCx<'_>,
    pvbn: Pvbn,
) -> Result<Option<Tag>, Stop> {
    let Some(context) = context_of(fs, cx, pvbn)? else {
        return Ok(None);
    };
    let (level, index) = match context.owner {
        Owner::Container { .. } => return Ok(Some(context.tag)),
        Owner::File { level, index } => (level, index),
    };
    let file = match context.file {
        INODE_FILE => Some(&fs.inode_file),
        id => fs.files.get(&id),
    };
    let Some(file) = file else {
        return Ok(None);
    };
    let pointer = file.pointer(cx, level, index)?;
    Ok((pointer.pvbn == pvbn).then_some(pointer.tag))
}

/// Returns what the context map says of a block; `None` if it says nothing.
pub(crate) fn context_of(
    fs: &FileSystem,
    cx: &mut LoadCx<'_>,
    pvbn: Pvbn,
) -> Result<Option<Context>, Stop> {
    let (block, slot) = context::block_and_slot(pvbn);
    let contexts = &fs.files[&CONTEXT_MAP];
    if block >= contexts.inode.block_count() {
        return Ok(None);
    }
    let leaf = contexts.leaf(cx, block)?;
    Ok(Context::decode_from(leaf.bytes(), slot).ok())
}
