//! Extents: which parts of a range take space, by overlays and committed tree; no leaf is loaded.
//! Changes: which parts of a range are stored in other blocks than in an earlier image. This is the
//! same walk through two trees.
//!
//! The walk visits one file stripe at a time, like other long operations. After a stripe without
//! changes in memory it continues at the next existing level-1 block, so a thin LUN costs little
//! whatever its size. The answer ends when it has as many extents as the client wants, or after a
//! bounded number of stripes.

use everglade_env::PageRef;
use everglade_format::{Indirect, Layer, Pointer, SPAN};
use everglade_target::{Allocation, Extents, Op, Reply};

use crate::ops::{BLOCK, Client, OpCx, RunEnd, find_in_overlays, is_mentioned};
use crate::pool::overlay::LeafContent;
use crate::pool::volume::Lun;
use crate::read::load::{Gather, Stop};
use crate::read::root::Root;

/// Stripes that are examined for one answer: 8 GiB of data, or of LUN with changes that no
/// consistency point has written yet.
const STRIPES_MAX: u32 = 1024;

/// The extents that were found so far.
#[derive(Default)]
pub(crate) struct Survey {
    extents: Extents,
    stripes: u32,
}

/// The image that changes are since. Beyond its end it reads as zeroes, even if blocks of a shrunk
/// LUN are still in its tree: a snapshot may have been taken before they were freed.
#[derive(Clone, Copy)]
struct Earlier {
    root: Root,
    block_count: u64,
}

impl Earlier {
    fn of(lun: &Lun) -> Earlier {
        Earlier {
            root: lun.root(),
            block_count: lun.size_bytes().div_ceil(BLOCK),
        }
    }

    /// The first region from `region` on that may differ in a newer image.
    fn next_different(
        self,
        root: Root,
        cx: &mut OpCx<'_, '_>,
        region: u64,
    ) -> Result<Option<u64>, Stop> {
        // From this level-1 block on, some or all blocks are beyond the end.
        let last = self.block_count / SPAN;
        if region > last {
            return root.next_mapped(cx.load, Layer::Volume, 1, region);
        }
        let found = root.next_different(self.root, cx.load, Layer::Volume, 1, region)?;
        Ok(Some(found.map_or(last, |found| found.min(last))))
    }

    /// The level-1 block of a region, if any of it is not beyond the end.
    fn level1(self, cx: &mut OpCx<'_, '_>, region: u64) -> Result<Option<PageRef>, Stop> {
        match region * SPAN < self.block_count {
            true => self.root.level1(cx.load, Layer::Volume, region),
            false => Ok(None),
        }
    }

    fn pointer_in(self, block: Option<&PageRef>, leaf: u64) -> Result<Pointer, Stop> {
        match leaf < self.block_count {
            true => pointer_in(block, leaf),
            false => Ok(Pointer::HOLE),
        }
    }
}

pub(crate) fn run(cx: &mut OpCx<'_, '_>, client: &mut Client) -> Result<RunEnd, Stop> {
    let (Op::Extents {
        offset,
        length,
        count_max,
    }
    | Op::Changes {
        offset,
        length,
        count_max,
        ..
    }) = client.op
    else {
        unreachable!("dispatched by kind")
    };
    let (lun, range, end) = (client.lun.clone(), client.range(), offset + length);
    let since = client.since.as_deref().map(Earlier::of);
    let (from, to) = (range.start / BLOCK, range.end.div_ceil(BLOCK));
    let leaves = survey_range(cx, &lun, since, (from, to))?;
    let mut next = range.end;
    let is_committed = lun.snapshot.is_some() || lun.volume.is_clean();
    if next < end && is_committed {
        let region = (next / BLOCK).div_ceil(SPAN);
        let root = lun.root();
        let mapped = match since {
            None => root.next_mapped(cx.load, Layer::Volume, 1, region)?,
            Some(since) => since.next_different(root, cx, region)?,
        };
        let mapped = mapped.map_or(end, |region| end.min(region * SPAN * BLOCK));
        next = next.max(mapped);
    }

    // No step stops from here on, so an extent is recorded only once.
    let Survey { extents, stripes } = &mut client.survey;
    let mut at = range.start;
    let mut is_full = false;
    for (leaf, allocation) in (range.start / BLOCK..).zip(leaves) {
        let until = range.end.min((leaf + 1) * BLOCK);
        is_full = is_full || !extents.push(until - at, allocation, count_max);
        at = until;
    }
    is_full = is_full || !extents.push(next - range.end, Allocation::Hole, count_max);
    *stripes += 1;
    if is_full || next == end || *stripes == STRIPES_MAX {
        let extents = std::mem::take(extents).into_vec();
        return Ok(RunEnd::Done(Reply::Extents(extents)));
    }
    client.progress = Some(next);
    Ok(RunEnd::Again)
}

/// Leaves `from..to`, which lie in the stripes held. Compared with an earlier image, those that
/// differ are data.
fn survey_range(
    cx: &mut OpCx<'_, '_>,
    lun: &Lun,
    since: Option<Earlier>,
    (from, to): (u64, u64),
) -> Result<Vec<Allocation>, Stop> {
    let mut leaves = Vec::with_capacity(usize::try_from(to - from).expect("one or two stripes"));
    let mut gather = Gather::default();
    for region in from / SPAN..=(to - 1) / SPAN {
        let (start, end) = (from.max(region * SPAN), to.min((region + 1) * SPAN));
        let is_mentioned = is_mentioned(cx, lun, region);
        // As for reads, the root is read after the overlays.
        let level1 = lun.root().level1(cx.load, Layer::Volume, region);
        let before = since.map(|since| since.level1(cx, region));
        let (level1, before) = (gather.add(level1), before.map(|before| gather.add(before)));
        let (Some(level1), None | Some(Some(_))) = (level1, &before) else {
            continue;
        };
        let before = before.flatten();
        for leaf in start..end {
            let newer = if is_mentioned {
                find_in_overlays(cx, lun, leaf)
            } else {
                LeafContent::Older
            };
            let old = match (&since, &before) {
                (Some(since), Some(block)) => Some(since.pointer_in(block.as_ref(), leaf)?),
                _ => None,
            };
            let is_data = match (newer, old) {
                (LeafContent::Data(_) | LeafContent::Fragment(_), _) => true,
                (LeafContent::Hole, None) => false,
                (LeafContent::Hole, Some(old)) => !old.is_hole(),
                (LeafContent::Older, None) => !pointer_in(level1.as_ref(), leaf)?.is_hole(),
                (LeafContent::Older, Some(old)) => {
                    let now = pointer_in(level1.as_ref(), leaf)?;
                    now.vvbn != old.vvbn || now.is_lost()
                }
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

/// The pointer to a leaf in its level-1 block, if there is one.
fn pointer_in(block: Option<&PageRef>, leaf: u64) -> Result<Pointer, Stop> {
    match block {
        None => Ok(Pointer::HOLE),
        Some(block) => Ok(Indirect(block).pointer(leaf % SPAN, Layer::Volume)?),
    }
}
