//! Write: whole blocks go into the overlay as they are; parts of blocks at the edges are merged
//! ([`part`]).

use std::ops::Range;
use std::slice;

use everglade_format::CpNumber;
use everglade_journal::Action;
use everglade_target::span::parts;
use everglade_target::{Error, Op, WriteSpan};

use crate::ops::part::{self, Base};
use crate::ops::{
    BLOCK, Client, OpCx, Origin, RunEnd, charged_among, committed_pointer, find_in_overlays,
    leave_all, throttle,
};
use crate::pool::overlay::LeafContent;
use crate::pool::space::Class;
use crate::pool::volume::Lun;
use crate::read::load::{Gather, Stop};

pub(crate) fn run(cx: &mut OpCx<'_, '_>, client: &mut Client) -> Result<RunEnd, Stop> {
    let (Op::Write { data, durable } | Op::CompareAndWrite { data, durable, .. }) = &mut client.op
    else {
        unreachable!("dispatched by kind")
    };
    let (lun, durable) = (client.lun.clone(), *durable);
    let first = data.offset / BLOCK;
    let count = data.pages.len();

    // Load phase: the contents, as far as they are in memory, of the blocks that are written in
    // part.
    let edges = load_edges(cx, &lun, client.origin, data)?;
    throttle(&lun, count)?;
    let leaves = first..first + count as u64;
    let cp = admit(cx, &lun, client.origin, slice::from_ref(&leaves))?;

    // Modify.
    let (offset, length) = (data.offset, data.length);
    let mut stored = Vec::with_capacity(count);
    let mut whole = None;
    let parts = parts(offset, length).map(|(_, range)| range);
    let pages = std::mem::take(&mut data.pages);
    for ((leaf, page), (range, edge)) in (first..).zip(pages).zip(parts.zip(edges)) {
        stored.push(match edge {
            None => {
                let page = page.freeze();
                // The page has just arrived, so its bytes are in the processor's cache.
                let _ = everglade_journal::page_code(&lun.volume.aggregate.key, &page);
                whole.get_or_insert(leaf..leaf).end = leaf + 1;
                page
            }
            Some(base) => {
                let (page, is_new) = part::write(cx, &lun, cp, leaf, (page, range), base);
                if is_new {
                    client.fragments.push(leaf);
                }
                page
            }
        });
    }
    // Edges are at the ends, so whole blocks follow each other.
    if let Some(whole) = whole {
        let place = |leaf: u64| usize::try_from(leaf - first).expect("at most 257");
        let pages = stored[place(whole.start)..place(whole.end)].iter();
        leave_all(cx, &lun, cp, whole.start, pages.cloned());
    }
    client.joined = Some(cp);
    client.log(offset, u64::from(length), Action::Write { pages: stored });
    Ok(client.changed(durable))
}

/// For each block of the span that is written in part, its known content.
fn load_edges(
    cx: &mut OpCx<'_, '_>,
    lun: &Lun,
    origin: Origin,
    data: &WriteSpan,
) -> Result<Vec<Option<Base>>, Stop> {
    let first = data.offset / BLOCK;
    let mut edges = Vec::with_capacity(data.pages.len());
    for ((_, range), leaf) in parts(data.offset, data.length).zip(first..) {
        let whole = range.len() as u64 == BLOCK;
        edges.push(match whole {
            true => None,
            false => Some(part::base(cx, lun, origin, leaf)?),
        });
    }
    Ok(edges)
}

/// Admits blocks by class, all or none (docs/design/design.md §8); none of them is in two of the
/// ranges. Returns the consistency point they join. This must be the last step that may stop:
/// otherwise operations could wait for a charge without a change.
pub(crate) fn admit(
    cx: &mut OpCx<'_, '_>,
    lun: &Lun,
    origin: Origin,
    leaves: &[Range<u64>],
) -> Result<CpNumber, Stop> {
    let aggregate = lun.volume.aggregate.clone();
    let cp = aggregate.joining();
    let new = leaves.iter().cloned().map(|leaves| {
        let count = leaves.end - leaves.start;
        count - charged_among(cx, lun, leaves)
    });
    let new = new.sum();
    if matches!(origin, Origin::Replay(_)) {
        aggregate.space.charge_again(new, cp);
        return Ok(cp);
    }
    if new == 0 || aggregate.space.charge(Class::Grow, new, cp) {
        return Ok(cp);
    }
    // Close to full: see whether this only replaces blocks.
    let mut gather = Gather::default();
    let mut replaces = true;
    for leaf in leaves.iter().cloned().flatten() {
        let mapped = match find_in_overlays(cx, lun, leaf) {
            LeafContent::Data(_) | LeafContent::Fragment(_) => Some(true),
            LeafContent::Hole => Some(false),
            LeafContent::Older => match committed_pointer(cx, lun, leaf) {
                // A block above is damaged, so the class is unknown; the write counts as growth,
                // which may wait.
                Err(Stop::Damaged(_) | Stop::Failed(_)) => Some(false),
                pointer => gather.add(pointer).map(|pointer| !pointer.is_hole()),
            },
        };
        replaces &= mapped.unwrap_or(true);
    }
    gather.finish()?;
    if replaces && aggregate.space.charge(Class::Overwrite, new, cp) {
        return Ok(cp);
    }
    if !aggregate.space.may_improve() {
        return Err(Stop::Failed(Error::NoSpace));
    }
    if aggregate.has_changes() || aggregate.space.has_charges() {
        aggregate.want_cp(cp);
    }
    Err(Stop::Space)
}
