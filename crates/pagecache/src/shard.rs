//! A shard: a table of cells with a hand that sweeps its places (CLOCK).

use everglade_env::PageRef;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::cell::{Cell, CellKey};
use crate::{Key, NODE_ROUNDS};

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Shard {
    table: HashTable<Cell>,
    pages: usize,
    /// The place of the table that is looked at next for pages to let go.
    hand: usize,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
}

impl Shard {
    pub(crate) fn cell(&self, key: CellKey, hash: u64) -> Option<&Cell> {
        self.table.find(hash, |cell| cell.key == key)
    }

    pub(crate) fn cell_mut(&mut self, key: CellKey, hash: u64) -> Option<&mut Cell> {
        self.table.find_mut(hash, |cell| cell.key == key)
    }

    /// Asks the processor for what a look-up of `key` will touch, without touching it.
    pub(crate) fn prefetch(&self, key: &Key, hash: u64) {
        for bucket in self.table.iter_hash_buckets(hash) {
            if let Some(cell) = self.table.get_bucket(bucket) {
                cell.prefetch_self(key);
            }
        }
    }

    pub(crate) fn pages(&self) -> usize {
        self.pages
    }

    /// Takes in pages of one cell, as many as fit `capacity`, which is at least 1. Pages that have
    /// to go for them are given back, to be dropped where no lock is held.
    pub(crate) fn put(
        &mut self,
        (key, hash): (CellKey, u64),
        pages: impl ExactSizeIterator<Item = (Key, PageRef)>,
        rounds: u8,
        capacity: usize,
    ) -> Vec<PageRef> {
        let mut leaving = Vec::new();
        let wanted = pages.len().min(capacity);
        while self.pages + wanted > capacity && self.evict(&mut leaving) {}
        let entry = self
            .table
            .entry(hash, |cell| cell.key == key, |cell| cell.key.hash());
        let mut cell = match entry {
            Entry::Occupied(known) => known,
            Entry::Vacant(place) => place.insert(Cell::new(key)),
        };
        let mut left = wanted;
        for (key, page) in pages {
            if left == 0 {
                leaving.push(page);
                continue;
            }
            match cell.get_mut().put(&key, page, rounds) {
                Some(old) => leaving.push(old),
                None => {
                    self.pages += 1;
                    left -= 1;
                }
            }
        }
        leaving
    }

    /// Lets pages of one cell go: of the next that has any whose rounds are over. Bounded: every
    /// round of the hand takes one from all. False if there is none.
    fn evict(&mut self, leaving: &mut Vec<PageRef>) -> bool {
        let rounds = usize::from(NODE_ROUNDS) + 1;
        for _ in 0..=rounds * self.table.num_buckets() {
            let place = self.hand;
            self.hand = (place + 1) % self.table.num_buckets();
            let Some(cell) = self.table.get_bucket_mut(place) else {
                continue;
            };
            let before = leaving.len();
            cell.age(leaving);
            if leaving.len() == before {
                continue;
            }
            self.pages -= leaving.len() - before;
            if cell.is_empty()
                && let Ok(entry) = self.table.get_bucket_entry(place)
            {
                let _ = entry.remove();
            }
            return true;
        }
        false
    }
}
