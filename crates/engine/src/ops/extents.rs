//! Extents: what of a range takes space, as overlays and the committed tree know it; no leaf is loaded.
//!
//! Looks at one file stripe at a time and answers with what it found there; behind its end, where nobody
//! has changed anything, it goes on to the next level-1 block there is. So a thin LUN is told in few
//! answers however large it is, and no answer costs more than eight level-1 blocks.

use everglade_format::{Indirect, Layer, SPAN};
use everglade_target::{Allocation, Extents, Op, Reply};

use crate::load::{Gather, Stop};
use crate::ops::{BLOCK, Client, OpCx, Outcome, find_in_overlays};
use crate::volume::overlay::Found;
use crate::volume::{Lun, STRIPE_BLOCKS};

pub(crate) fn run(cx: &mut OpCx<'_, '_>, client: &Client) -> Result<Outcome, Stop> {
    let Op::Extents {
        offset,
        length,
        count_max,
    } = client.op
    else {
        unreachable!("dispatched by kind")
    };
    let (lun, range, end) = (&client.lun, client.range(), offset + length);
    let leaves = look(cx, lun, range.start / BLOCK, range.end.div_ceil(BLOCK))?;
    let mut extents = Extents::new();
    let mut at = range.start;
    for (leaf, allocation) in (range.start / BLOCK..).zip(leaves) {
        let until = range.end.min((leaf + 1) * BLOCK);
        if !extents.push(until - at, allocation, count_max) {
            return Ok(Outcome::Done(Reply::Extents(extents.into_vec())));
        }
        at = until;
    }
    if at < end && lun.volume.is_clean() {
        let region = (at / BLOCK).div_ceil(SPAN);
        let next = lun.root().next_mapped(cx.load, Layer::Volume, 1, region)?;
        let next = next.map_or(end, |region| end.min(region * SPAN * BLOCK));
        extents.push(next.saturating_sub(at), Allocation::Hole, count_max);
    }
    Ok(Outcome::Done(Reply::Extents(extents.into_vec())))
}

/// Leaves `from..to`, which lie in the stripes held.
fn look(cx: &mut OpCx<'_, '_>, lun: &Lun, from: u64, to: u64) -> Result<Vec<Allocation>, Stop> {
    let mut leaves = Vec::with_capacity(usize::try_from(to - from).expect("one or two stripes"));
    let mut gather = Gather::default();
    for region in from / SPAN..=(to - 1) / SPAN {
        let (start, end) = (from.max(region * SPAN), to.min((region + 1) * SPAN));
        let is_mentioned = is_mentioned(cx, lun, region);
        // As for reads, the root is looked up after the overlays.
        let level1 = lun.root().level1(cx.load, Layer::Volume, region);
        let Some(level1) = gather.add(level1) else {
            continue;
        };
        for leaf in start..end {
            let newer = if is_mentioned {
                find_in_overlays(cx, lun, leaf)
            } else {
                Found::Older
            };
            let is_data = match (newer, &level1) {
                (Found::Data(_) | Found::Fragment(_), _) => true,
                (Found::Hole, _) | (Found::Older, None) => false,
                (Found::Older, Some(block)) => !Indirect(block)
                    .pointer(leaf % SPAN, Layer::Volume)?
                    .is_hole(),
            };
            leaves.push(if is_data {
                Allocation::Data
            } else {
                Allocation::Hole
            });
        }
    }
    gather.finish()?;
    Ok(leaves)
}

fn is_mentioned(cx: &OpCx<'_, '_>, lun: &Lun, region: u64) -> bool {
    let volume = &lun.volume;
    let index = volume.stripe_index(lun.file, region * SPAN / STRIPE_BLOCKS);
    let state = volume.stripes[index].get(cx.permit);
    let is_in = |overlay: &crate::volume::overlay::Overlay| overlay.mentions(lun.file, region);
    is_in(&state.active) || state.frozen.as_ref().is_some_and(|frozen| is_in(frozen))
}
