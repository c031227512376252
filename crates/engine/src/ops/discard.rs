//! Discard: blocks inside the range become holes, all together up to 1 MiB, else one file stripe at
//! a time.
//!
//! A discard is a release: it is always admitted, also in a full aggregate
//! (docs/design/design.md §8). A whole region costs one overlay entry. A region without blocks, in
//! overlays and in the tree, costs nothing.

use everglade_format::{Layer, SPAN};
use everglade_journal::Action;
use everglade_target::Op;

use crate::ops::{BLOCK, Client, OpCx, RunEnd, count_dirty, is_mentioned, leave, throttle};
use crate::pool::overlay::Change;
use crate::pool::volume::{Lun, STRIPE_BLOCKS};
use crate::read::load::Stop;

pub(crate) fn run(cx: &mut OpCx<'_, '_>, client: &mut Client) -> Result<RunEnd, Stop> {
    let Op::Discard {
        offset,
        length,
        durable,
    } = client.op
    else {
        unreachable!("dispatched by kind")
    };
    let (lun, range, end) = (client.lun.clone(), client.range(), offset + length);
    let (from, to) = (range.start.div_ceil(BLOCK), range.end / BLOCK);
    if punch(cx, &lun, from, to)? {
        client.joined = Some(lun.volume.aggregate.joining());
        client.log(from * BLOCK, (to - from) * BLOCK, Action::Punch);
    }
    if range.end < end && lun.volume.is_clean() {
        // Only the tree is left to examine: continue at its next block.
        let region = (range.end / BLOCK).div_ceil(SPAN);
        let next = match lun.root().next_mapped(cx.load, Layer::Volume, 1, region) {
            // A damaged block on the way: the blocks below it are examined region by region.
            Err(Stop::Damaged(_) | Stop::Failed(_)) => Some(region),
            next => next?,
        };
        let next = next.map_or(end, |region| end.min(region * SPAN * BLOCK));
        client.progress = Some(next.max(range.end));
        if next < end {
            return Ok(RunEnd::Again);
        }
        return Ok(client.changed(durable));
    }
    if range.end == end {
        return Ok(client.changed(durable));
    }
    client.progress = Some(range.end);
    Ok(RunEnd::Again)
}

/// Punches leaves `from..to`, which lie in the stripes held. True if anything changed.
fn punch(cx: &mut OpCx<'_, '_>, lun: &Lun, from: u64, to: u64) -> Result<bool, Stop> {
    let present = present(cx, lun, from, to)?;
    throttle(lun, present.len())?;
    punch_present(cx, lun, from, to, &present);
    Ok(!present.is_empty())
}

/// Load phase: returns the regions of leaves `from..to` that have any blocks.
pub(crate) fn present(
    cx: &mut OpCx<'_, '_>,
    lun: &Lun,
    from: u64,
    to: u64,
) -> Result<Vec<u64>, Stop> {
    if from >= to {
        return Ok(Vec::new());
    }
    let (first, last) = (from / SPAN, (to - 1) / SPAN);
    let mut gather = crate::read::load::Gather::default();
    let mut present = Vec::new();
    for region in first..=last {
        let there = if is_mentioned(cx, lun, region) {
            Some(true)
        } else {
            let pointer = lun.root().pointer(cx.load, Layer::Volume, 1, region);
            match pointer {
                // A damaged block above: there may be something, and the cleaner decides what
                // becomes of it.
                Err(Stop::Damaged(_) | Stop::Failed(_)) => Some(true),
                pointer => gather.add(pointer).map(|pointer| !pointer.is_hole()),
            }
        };
        if there == Some(true) {
            present.push(region);
        }
    }
    gather.finish()?;
    Ok(present)
}

/// Modify phase.
pub(crate) fn punch_present(cx: &OpCx<'_, '_>, lun: &Lun, from: u64, to: u64, present: &[u64]) {
    let cp = lun.volume.aggregate.joining();
    for region in present {
        let (start, end) = (from.max(region * SPAN), to.min((region + 1) * SPAN));
        if end - start == SPAN {
            let index = lun.volume.stripe_index(lun.file, start / STRIPE_BLOCKS);
            let mut state = lun.volume.stripes[index].get(cx.permit);
            let growth = state.active.punch_region(lun.file, *region);
            drop(state);
            count_dirty(lun, index, cp, growth.pages);
        } else {
            for leaf in start..end {
                leave(cx, lun, cp, leaf, Change::Punched);
            }
        }
    }
}
