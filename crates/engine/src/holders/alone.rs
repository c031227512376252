//! Blocks that one image holds alone.

use everglade_format::{BLOCK_SIZE, Block, SnapshotId, bitmap};

use crate::holders::count;
use crate::holders::fold::maps_of;
use crate::holders::history::Node;
use crate::holders::images::Images;
use crate::read::load::{LoadCx, Stop};

/// Blocks that only the snapshot held before the LUN gained them.
pub(crate) fn alone_with(
    images: Images<'_>,
    cx: &mut LoadCx<'_>,
    target: SnapshotId,
    block: u64,
) -> Result<Box<Block>, Stop> {
    let node = Node::Snapshot(target);
    let mut alone = Box::new([0; BLOCK_SIZE]);
    for (history, (from, to)) in images.snapshots.histories(block) {
        let mut near = history.neighbours(node);
        near.retain(|near| *near != Node::Active);
        let wanted = near.iter().copied().chain([node]);
        let maps = maps_of(images, cx, wanted, block)?;
        let mut part = count::alone(&maps, node, &near);
        bitmap::keep_range(&mut part, from, to);
        bitmap::unite(&mut alone, &part);
    }
    Ok(alone)
}
