//! Blocks that one drive of a mirror had wrong, and another right, are written again on all drives
//! that have them ([`crate::media::copies`]).
//!
//! 1. Only a block of the last consistency point is written, with the content that its tag stands
//!    for. The block may have been freed since it was read.
//! 2. If the maps cannot tell, the block is left alone: the next read of it notes it again.

use everglade_env::PageRef;
use everglade_format::metafile::{ACTIVE_MAP, CONTEXT_MAP, INODE_FILE};
use everglade_format::{BITS_PER_BLOCK, Context, Owner, Pvbn, Tag, bitmap, context};

use crate::alloc::filesystem::FileSystem;
use crate::home::aggregate::Home;
use crate::read::load::{Gather, LoadCx, Stop};

/// Blocks that one consistency point looks at.
const STEP_BLOCKS: usize = 64;

/// Queues the writes of some noted blocks, before the consistency point changes anything.
pub(super) fn step(home: &mut Home, cx: &mut LoadCx<'_>) -> Result<(), Stop> {
    let copies = &home.aggregate.media.copies;
    if !copies.has_notes() {
        return Ok(());
    }
    let mut gather = Gather::default();
    let mut decided: Vec<(Pvbn, Tag, PageRef, bool)> = Vec::new();
    for (pvbn, tag, page) in copies.noted().into_iter().take(STEP_BLOCKS) {
        let is_good = match has_tag(&home.fs, cx, pvbn, tag) {
            Err(Stop::Damaged(_)) => Ok(false),
            is_good => is_good,
        };
        if let Some(is_good) = gather.add(is_good) {
            decided.push((pvbn, tag, page, is_good));
        }
    }
    gather.finish()?;
    let run = home.run.as_mut().expect("under way");
    for (pvbn, tag, page, is_good) in decided {
        copies.forget(pvbn, tag, is_good);
        if is_good {
            run.writer.put(&home.aggregate.media, pvbn, page);
        }
    }
    Ok(())
}

/// True if the block is in use, and holds what this tag stands for.
fn has_tag(fs: &FileSystem, cx: &mut LoadCx<'_>, pvbn: Pvbn, tag: Tag) -> Result<bool, Stop> {
    let (block, bit) = (pvbn.0 / BITS_PER_BLOCK, pvbn.0 % BITS_PER_BLOCK);
    let map = &fs.files[&ACTIVE_MAP];
    if block >= map.inode.block_count() || !bitmap::is_set(map.leaf(cx, block)?.bytes(), bit) {
        return Ok(false);
    }
    let (block, slot) = context::block_and_slot(pvbn);
    let contexts = &fs.files[&CONTEXT_MAP];
    if block >= contexts.inode.block_count() {
        return Ok(false);
    }
    let leaf = contexts.leaf(cx, block)?;
    let Ok(context) = Context::decode_from(leaf.bytes(), slot) else {
        return Ok(false);
    };
    let (level, index) = match context.owner {
        Owner::Container { .. } => return Ok(context.tag == tag),
        Owner::File { level, index } => (level, index),
    };
    // The tag of a block of the aggregate's own files is in its parent.
    let file = match context.file {
        INODE_FILE => Some(&fs.inode_file),
        id => fs.files.get(&id),
    };
    let Some(file) = file else {
        return Ok(false);
    };
    let pointer = file.pointer(cx, level, index)?;
    Ok((pointer.pvbn, pointer.tag) == (pvbn, tag))
}
