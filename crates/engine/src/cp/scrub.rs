//! Lists the blocks in use that a scrub reads next, with their tags ([`crate::home::scrubbing`]),
//! before the consistency point changes anything.
//!
//! A block of a map that cannot be read is left to those who need it: what it says of blocks is
//! passed over here.

use everglade_format::metafile::ACTIVE_MAP;
use everglade_format::{BITS_PER_BLOCK, Pointer, Pvbn, Tag, Vvbn, bitmap};

use crate::alloc::tags::tag_of;
use crate::cp::stripes::is_held;
use crate::home::aggregate::Home;
use crate::home::sweep::Chunk;
use crate::media::layout::Across;
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
        let (mut lost, mut reconstructed) = (0, 0);
        for (pvbn, tag) in home.scrub.suspects() {
            let known = readable(tag_of(&home.fs, cx, *pvbn));
            if gather.add(known) != Some(Some(Some(*tag))) {
                continue;
            }
            if !home.aggregate.media.is_in_rows(*pvbn) {
                lost += 1;
                continue;
            }
            // What is reconstructed is noted, and written again.
            let pointer = Pointer {
                vvbn: Vvbn(0),
                pvbn: *pvbn,
                tag: *tag,
            };
            match gather.add(cx.on_device(pointer)) {
                Some(Ok(_)) => reconstructed += 1,
                Some(Err(_)) => lost += 1,
                None => {}
            }
        }
        gather.finish()?;
        home.scrub.judge_suspects(lost, reconstructed);
    }
    // Their parity is computed anew, though none of their blocks is written.
    for stripe in home.scrub.parity.take_wrong() {
        let run = home.run.as_mut().expect("under way");
        run.writer.stripes.entry(stripe).or_default();
    }
    home.scrub.begin_batch();
    while let Some(chunk) = home.scrub.next_chunk() {
        let blocks = tagged(home, cx, chunk)?;
        let stripes = stripes(home, cx, chunk)?;
        home.scrub.parity.list(stripes);
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

/// Returns the stripes with a block in use, if the chunk is one of the first column of a parity
/// group: group and number, ascending.
fn stripes(home: &Home, cx: &mut LoadCx<'_>, chunk: Chunk) -> Result<Vec<(usize, u64)>, Stop> {
    let layout = home.aggregate.media.layout();
    let first = layout.across_first(chunk.first, chunk.count);
    let Some(first) = first.filter(|first| first.column == 0) else {
        return Ok(Vec::new());
    };
    let (mut gather, mut stripes) = (Gather::default(), Vec::new());
    for stripe in first.stripe..first.stripe + chunk.count {
        let mut is_used = false;
        for pvbn in layout.pvbns_of(Across { stripe, ..first }) {
            let held = readable(is_held(&home.fs, cx, pvbn));
            is_used |= gather.add(held) == Some(Some(true));
        }
        if is_used {
            stripes.push((first.group, stripe));
        }
    }
    gather.finish()?;
    Ok(stripes)
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
