//! Loads everything that is needed before a block of the active map changes, and folds.
//!
//! **Fold** (F-05). If a block of the active map has the vvbn of the parent snapshot's map block,
//! the two are the same block, because vvbns are written once. It is about to change for the first
//! time, so its bits are added to the summary map; afterwards the snapshot does not depend on the
//! active map. Snapshots that are no ancestors of the active image are folded by a scan. Until the
//! scan has passed a block, any change of that block folds these snapshots first (F-06 on demand).

use everglade_env::{Page, PageRef};
use everglade_format::planted::{self, Bug};
use everglade_format::{BITS_PER_BLOCK, BLOCK_SIZE, Block, SnapshotId, bitmap};

use crate::holders::count::{self, Maps};
use crate::holders::held::Held;
use crate::holders::history::{History, Node};
use crate::holders::images::Images;
use crate::holders::snapmap::{snapmap_block, snapmap_pointer};
use crate::read::load::{Gather, LoadCx, Stop};
use crate::tree::{Content, File};

/// Loads what block `block` of the volume's active map needs to know, and folds.
pub(crate) fn load(
    images: Images<'_>,
    summary: &mut File,
    cx: &mut LoadCx<'_>,
    block: u64,
) -> Result<Held, Stop> {
    let summary = fold(images, summary, cx, block)?;
    let (mut near, mut only) = (Box::new([0; BLOCK_SIZE]), Vec::new());
    for (history, bits) in images.snapshots.histories(block) {
        let (part, parts) = neighbours(images, cx, &history, block, bits)?;
        bitmap::unite(&mut near, &part);
        only.extend(parts);
    }
    Ok(Held {
        summary,
        near: Page::copy_of(&near).freeze(),
        only,
    })
}

type Neighbours = (Box<Block>, Vec<(SnapshotId, PageRef)>);

/// Blocks that neighbours of the active image hold, and those that each of them holds alone, in a
/// range.
fn neighbours(
    images: Images<'_>,
    cx: &mut LoadCx<'_>,
    history: &History,
    block: u64,
    (from, to): (u64, u64),
) -> Result<Neighbours, Stop> {
    let nodes = history.neighbours(Node::Active);
    let beside: Vec<(Node, Vec<Node>)> = nodes
        .iter()
        .map(|node| {
            let mut others = history.neighbours(*node);
            others.retain(|other| *other != Node::Active);
            (*node, others)
        })
        .collect();
    let wanted = beside
        .iter()
        .flat_map(|(node, others)| others.iter().chain([node]));
    let maps = maps_of(images, cx, wanted.copied(), block)?;
    let mut near = Box::new([0; BLOCK_SIZE]);
    let mut only = Vec::new();
    for (node, others) in beside {
        bitmap::unite(&mut near, &count::alone(&maps, node, &[]));
        let mut own = count::alone(&maps, node, &others);
        bitmap::keep_range(&mut own, from, to);
        if let Node::Snapshot(id) = node
            && bitmap::ones(&own).next().is_some()
        {
            only.push((id, Page::copy_of(&own).freeze()));
        }
    }
    bitmap::keep_range(&mut near, from, to);
    Ok((near, only))
}

/// Map blocks of these nodes, snapshots and the active image alike.
pub(crate) fn maps_of(
    images: Images<'_>,
    cx: &mut LoadCx<'_>,
    nodes: impl Iterator<Item = Node>,
    block: u64,
) -> Result<Maps, Stop> {
    let mut gather = Gather::default();
    let mut maps = Maps::new();
    for node in nodes {
        if maps.contains_key(&node) {
            continue;
        }
        let found = match node {
            Node::Snapshot(id) => {
                let map = &images.snapshots.get(id).active_map;
                snapmap_block(cx, images.volume, map, block)
            }
            Node::Active => images.active_bits(cx, block).map(Some),
        };
        maps.extend(gather.add(found).map(|page| (node, page)));
    }
    gather.finish()?;
    Ok(maps)
}

/// Makes invariant 1 of [`crate::snapshot`] true for whatever is done next to block `block` of the
/// active map. Returns the summary map's block.
fn fold(
    images: Images<'_>,
    summary: &mut File,
    cx: &mut LoadCx<'_>,
    block: u64,
) -> Result<PageRef, Stop> {
    let snapshots = images.snapshots;
    let place = images.map_place(cx, block)?;
    let mut gather = Gather::default();
    let mut bits = Box::new([0; BLOCK_SIZE]);
    for (id, from) in snapshots.ancestors(block) {
        let map = &snapshots.get(id).active_map;
        let Some(pointer) = gather.add(snapmap_pointer(cx, images.volume, map, block)) else {
            continue;
        };
        let is_same = pointer.vvbn == place.vvbn && !planted::is(Bug::FoldSkipped);
        if pointer.is_hole() || !is_same {
            continue;
        }
        if let Some(page) = gather.add(cx.page(pointer)) {
            let mut part = Box::new(*page);
            bitmap::keep_range(&mut part, from, BITS_PER_BLOCK);
            bitmap::unite(&mut bits, &part);
        }
    }
    for record in snapshots.all().filter(|record| record.is_unfolded) {
        let map = gather.add(snapmap_block(cx, images.volume, &record.active_map, block));
        if let Some(page) = map.flatten() {
            bitmap::unite(&mut bits, &page);
        }
    }
    gather.finish()?;
    unite_summary(summary, cx, block, &bits)
}

/// Sets bits of the summary map. Returns its block as it is then.
pub(crate) fn unite_summary(
    summary: &mut File,
    cx: &mut LoadCx<'_>,
    block: u64,
    bits: &Block,
) -> Result<PageRef, Stop> {
    let known = summary.leaf(cx, block)?;
    if bitmap::is_within(bits, known.bytes()) {
        return Ok(known.to_page());
    }
    // At least one level, so that the file can shrink like any deleted one.
    summary.grow((block + 1).max(2));
    let page = summary.modify(cx, 0, block, Content::Keep)?;
    bitmap::unite(page, bits);
    Ok(Page::copy_of(page).freeze())
}
