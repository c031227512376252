//! Write zeroes, exact to the byte. Whole blocks become holes, or blocks of zeroes if space is to
//! stay allocated.

use std::ops::Range;
use std::slice;

use everglade_env::{Page, PageRef};
use everglade_journal::Action;
use everglade_target::{OP_BYTES_MAX, Op};

use crate::ops::part::{self, Base};
use crate::ops::write::admit;
use crate::ops::{BLOCK, Client, OpCx, RunEnd, discard, leave_all, throttle};
use crate::pool::volume::Lun;
use crate::read::load::Stop;

pub(crate) fn run(cx: &mut OpCx<'_, '_>, client: &mut Client) -> Result<RunEnd, Stop> {
    let Op::WriteZeroes {
        offset,
        length,
        allocate,
        durable,
    } = client.op
    else {
        unreachable!("dispatched by kind")
    };
    let (lun, end) = (client.lun.clone(), offset + length);
    let mut range = client.range();
    if allocate {
        range.end = range.end.min(range.start + u64::from(OP_BYTES_MAX));
    }
    // The range of whole blocks, and the partial blocks at its edges.
    let (from, to) = (range.start.div_ceil(BLOCK), range.end / BLOCK);
    let mut edges = Vec::new();
    let head = range.start..range.end.min(from * BLOCK);
    let tail = head.end.max(to * BLOCK)..range.end;
    edges.extend([head, tail].into_iter().filter(|edge| !edge.is_empty()));

    let mut parts: Vec<(u64, Range<usize>, Base)> = Vec::new();
    for edge in edges {
        let leaf = edge.start / BLOCK;
        let base = part::base(cx, &lun, client.origin, leaf)?;
        if allocate || !matches!(base, Base::Known(None)) {
            let range = as_index(edge.start - leaf * BLOCK)..as_index(edge.end - leaf * BLOCK);
            parts.push((leaf, range, base));
        }
    }
    // All steps that may stop come before the first change, so the operation is atomic.
    let is_change = if allocate {
        let leaves = range.start / BLOCK..range.end.div_ceil(BLOCK);
        throttle(&lun, as_index(leaves.end - leaves.start))?;
        admit(cx, &lun, client.origin, slice::from_ref(&leaves))?;
        write_whole(cx, &lun, from, to);
        true
    } else {
        let present = discard::present(cx, &lun, from, to)?;
        throttle(&lun, parts.len() + present.len())?;
        let leaves: Vec<_> = parts.iter().map(|(leaf, ..)| *leaf..*leaf + 1).collect();
        admit(cx, &lun, client.origin, &leaves)?;
        discard::punch_present(cx, &lun, from, to, &present);
        !present.is_empty() || !parts.is_empty()
    };
    let cp = lun.volume.aggregate.joining();
    // Changes are the same as in the journal: blocks that stay allocated are written, others are
    // punched, to the byte.
    let (first, count) = (
        range.start / BLOCK,
        range.end.div_ceil(BLOCK) - range.start / BLOCK,
    );
    let mut pages = vec![PageRef::zero(); if allocate { as_index(count) } else { 0 }];
    for (leaf, range, base) in parts {
        let (page, is_new) = part::write(cx, &lun, cp, leaf, (Page::zeroed(), range), base);
        if allocate {
            pages[as_index(leaf - first)] = page;
        }
        if is_new {
            client.fragments.push(leaf);
        }
    }
    if is_change {
        let action = match allocate {
            true => Action::Write { pages },
            false => Action::Punch,
        };
        client.log(range.start, range.end - range.start, action);
    }
    // Zeroes over holes join nothing, and there is nothing to wait for.
    client.joined = if is_change { Some(cp) } else { client.joined };
    if range.end == end {
        return Ok(client.changed(durable));
    }
    client.progress = Some(range.end);
    Ok(RunEnd::Again)
}

fn write_whole(cx: &OpCx<'_, '_>, lun: &Lun, from: u64, to: u64) {
    let cp = lun.volume.aggregate.joining();
    let pages = vec![PageRef::zero(); as_index(to.saturating_sub(from))];
    leave_all(cx, lun, cp, from, pages.into_iter());
}

fn as_index(offset: u64) -> usize {
    usize::try_from(offset).expect("at most 4,096")
}
