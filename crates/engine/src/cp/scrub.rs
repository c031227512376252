//! Lists the blocks in use that a scrub reads next, with their tags ([`crate::home::scrubbing`]),
//! before the consistency point changes anything.
//!
//! A block of a map that cannot be read is left to those who need it: what it says of blocks is
//! passed over here.

use everglade_format::metafile::ACTIVE_MAP;
use everglade_format::{BITS_PER_BLOCK, Pvbn, Tag, bitmap};

use crate::alloc::tags::tag_of;
use crate::home::aggregate::Home;
use crate::home::sweep::Chunk;
use crate::pool::aggregate::State;
use crate::read::load::{Gather, LoadCx, Stop};

/// Judges what no drive has right, and lists the next batch, if it is time to.
pub(super) fn step(home: &mut Home, cx: &mut LoadCx<'_>) -> Result<(), Stop> {
    let is_online = home.aggregate.state() == State::Online;
    let is_last = home.run.as_ref().expect("under way").last;
    if !is_online || is_last {
        return Ok(());
    }
    if !home.scrub.suspects().is_empty() {
        let mut gather = Gather::default();
        let mut lost = 0;
        for (pvbn, tag) in home.scrub.suspects() {
            let known = readable(tag_of(&home.fs, cx, *pvbn));
            lost += u64::from(gather.add(known) == Some(Some(Some(*tag))));
        }
        gather.finish()?;
        home.scrub.judge_suspects(lost);
    }
    home.scrub.begin_batch();
    while let Some(chunk) = home.scrub.next_chunk() {
        let blocks = tagged(home, cx, chunk)?;
        home.scrub.list(chunk, blocks);
    }
    home.scrub.end_if_over(home.wall_seconds);
    home.aggregate.set_scrub(home.scrub.info());
    Ok(())
}

/// What cannot be read says nothing.
fn readable<T>(found: Result<T, Stop>) -> Result<Option<T>, Stop> {
    match found {
        Err(Stop::Damaged(_)) => Ok(None),
        found => found.map(Some),
    }
}

/// Returns the blocks of a chunk that are in use, ascending.
fn tagged(home: &Home, cx: &mut LoadCx<'_>, chunk: Chunk) -> Result<Vec<(Pvbn, Tag)>, Stop> {
    let fs = &home.fs;
    let map = &fs.files[&ACTIVE_MAP];
    let block = chunk.first / BITS_PER_BLOCK;
    if block >= map.inode.block_count() {
        return Ok(Vec::new());
    }
    let Some(leaf) = readable(map.leaf(cx, block))? else {
        return Ok(Vec::new());
    };
    let bits = leaf.to_page();
    let first = chunk.first % BITS_PER_BLOCK;
    let in_use = (0..chunk.count).filter(|index| bitmap::is_set(&bits, first + index));
    let in_use = in_use.map(|index| Pvbn(chunk.first + index));
    let (mut gather, mut blocks) = (Gather::default(), Vec::new());
    for pvbn in in_use.filter(|pvbn| pvbn.0 > 0) {
        if let Some(Some(Some(tag))) = gather.add(readable(tag_of(fs, cx, pvbn))) {
            blocks.push((pvbn, tag));
        }
    }
    gather.finish()?;
    Ok(blocks)
}
