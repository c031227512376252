//! Prefetching memory for reads that arrive together.
//!
//! A read of a cached block follows four addresses, each stored at the one before: the pointer in
//! its level-1 block, the cell of the page cache, the card of the page, its contents. Nearly all of
//! them are cold, and a client with many requests under way sends them in batches. So the reactor
//! prefetches the first lines of all reads of a batch, then all second lines, and so on. The whole
//! batch waits for memory about as long as one read alone.
//!
//! 1. Prefetching changes only the processor's caches. No page stays cached longer or is counted,
//!    and the read itself repeats all look-ups. So prefetching may use committed roots without a
//!    permit and ignore overlays.
//! 2. Reads of several blocks are not prefetched: their blocks are looked up together, and the
//!    processor recognises the order.

use everglade_env::{BLOCK_SIZE, Outside, prefetch};
use everglade_format::{Indirect, Layer, SPAN};
use everglade_pagecache::Key;

use crate::reactor::{Core, OpenLun};
use crate::read::load;

const BLOCK: u64 = BLOCK_SIZE as u64;

impl<O: Outside> Core<O> {
    /// Reads, (offset, length) in bytes, that will be submitted in a moment.
    pub(super) fn prefetch(&mut self, handle: u64, reads: &[(u64, u32)]) {
        let Some(OpenLun { lun, .. }) = self.luns.get(&handle) else {
            return;
        };
        let root = lun.root();
        let is_one = |(offset, length): &(u64, u32)| offset % BLOCK + u64::from(*length) <= BLOCK;
        let leaves = reads.iter().filter(|read| is_one(read));
        let leaves = leaves.map(|(offset, _)| offset / BLOCK);
        let mut known = Vec::with_capacity(reads.len());
        known.extend(leaves.filter_map(|leaf| {
            let block = self.shortcuts.find(root, leaf / SPAN)?;
            prefetch(Indirect(block).slot_address(leaf % SPAN));
            Some((block, leaf % SPAN))
        }));
        // Each step is done for all before the next.
        let aggregate = &lun.volume.aggregate;
        let mut keys: Vec<Key> = Vec::with_capacity(known.len());
        keys.extend(known.iter().filter_map(|(block, slot)| {
            let pointer = Indirect(block).pointer(*slot, Layer::Volume).ok()?;
            pointer
                .has_block()
                .then(|| load::key(aggregate.id, pointer))
        }));
        self.shared.cache.prefetch_cells(&keys);
        self.shared.cache.prefetch_pages(&keys);
    }
}
