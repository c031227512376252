//! A block of a summary map, from the maps of the snapshots.
//!
//! The old content cannot be derived exactly: a snapshot's bits are added only when the active map
//! is about to change there ([`crate::holders::held`]). But a block with all bits that it may have
//! is always right: blocks that a snapshot holds, blocks of the snapmaps that a delete scan reads,
//! and entries of the release file that the scan has not reached.

use std::collections::BTreeSet;

use everglade_env::Page;
use everglade_format::snapshot::State;
use everglade_format::volume::Scan;
use everglade_format::{BITS_PER_BLOCK, BLOCK_SIZE, FileId, Layer, bitmap, release};

use super::survey::Walk;
use super::view::View;
use crate::holders::snapmap::snapmap_block;
use crate::read::load::{Gather, LoadCx, Stop};

/// See the module's documentation.
pub(super) struct Summary {
    volume: FileId,
    block: u64,
    /// Maps of victims that are yet to be walked; nothing until they are known.
    victims: Option<Vec<Walk>>,
    /// Their blocks, as far as they lie in the range.
    protected: BTreeSet<u64>,
}

impl Summary {
    pub(super) fn new(volume: FileId, block: u64) -> Summary {
        Summary {
            volume,
            block,
            victims: None,
            protected: BTreeSet::new(),
        }
    }

    /// Runs the next step. Returns the block when the work is done.
    pub(super) fn step(
        &mut self,
        view: &View<'_>,
        cx: &mut LoadCx<'_>,
    ) -> Result<Option<Page>, Stop> {
        let superblock = view.superblock(cx, self.volume)?;
        let snapshots = view.snapshots(cx, &superblock)?;
        let scan = snapshots.roots.scan;
        let Some(victims) = &mut self.victims else {
            let victims = snapshots.all().filter(|record| record.is_in_pass);
            let walk = |map| Walk::new(map, Layer::Volume, Some(self.volume));
            self.victims = Some(victims.map(|it| walk(it.active_map.clone())).collect());
            return Ok(None);
        };
        let first = self.block * BITS_PER_BLOCK;
        if let Some(walk) = victims.last_mut() {
            let protected = &mut self.protected;
            let is_done = walk.step(cx, None, &mut |_, _, pointer| {
                let vvbn = pointer.vvbn.0;
                if (first..first + BITS_PER_BLOCK).contains(&vvbn) {
                    protected.insert(vvbn - first);
                }
            })?;
            if is_done {
                victims.pop();
            }
            return Ok(None);
        }
        let mut bits = Box::new([0; BLOCK_SIZE]);
        let mut gather = Gather::default();
        for record in snapshots.all().filter(|it| it.state != State::Gone) {
            let map = snapmap_block(cx, Some(self.volume), &record.active_map, self.block);
            let Some(Some(page)) = gather.add(map) else {
                continue;
            };
            let mut held = Box::new(*page);
            if let (Scan::Delete { next }, true) = (scan, record.is_in_pass) {
                // Below the scan's position the snapshot holds no blocks any more.
                let from = next.saturating_sub(first).min(BITS_PER_BLOCK);
                bitmap::keep_range(&mut held, from, BITS_PER_BLOCK);
            }
            bitmap::unite(&mut bits, &held);
        }
        if let Some(file) = snapshots.roots.release {
            let next = match scan {
                Scan::Release { next } => next,
                _ => 0,
            };
            let file = view.file(cx, file)?;
            let per_block = release::RELEASES_PER_BLOCK as u64;
            for leaf in next / per_block..file.inode.block_count() {
                let Some(page) = gather.add(file.leaf(cx, leaf)) else {
                    continue;
                };
                let entries = (leaf * per_block..).zip(release::decode(page.bytes())?);
                let left = entries.filter(|(entry, _)| *entry >= next);
                let here = left.filter_map(|(_, vvbn)| vvbn.checked_sub(first));
                here.filter(|bit| *bit < BITS_PER_BLOCK)
                    .for_each(|bit| _ = bitmap::set(&mut bits, bit));
            }
        }
        gather.finish()?;
        for bit in &self.protected {
            bitmap::set(&mut bits, *bit);
        }
        Ok(Some(Page::copy_of(&bits)))
    }
}
