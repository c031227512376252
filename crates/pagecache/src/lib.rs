//! Page cache: clean pages by (aggregate, pvbn, tag), shared by all reactors (DESIGN §4, R-11).
//!
//! The key contains the content's tag, so a reader with a stale pointer misses instead of finding
//! another owner's page, and two owners of one block share one page. Pages here never change; dirty
//! data lives in the overlays of `everglade-engine` until its consistency point commits.
//!
//! Sixty-four shards, each a hash table over a ring of slots swept by CLOCK. The locks are leaf locks:
//! nothing is entered, suspended or submitted under them.
//!
//! 1. A shard never holds more pages than its share of the capacity.
//! 2. A page found under a key was inserted under that key: the caller verified its tag.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use everglade_env::PageRef;
use everglade_format::{Pvbn, Tag};
use hashbrown::HashTable;

const SHARDS: usize = 64;

/// What a page is found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// The aggregate's number in this process.
    pub aggregate: u32,
    /// Where the block is.
    pub pvbn: Pvbn,
    /// What it holds.
    pub tag: Tag,
}

impl Key {
    fn hash(&self) -> u64 {
        // The tag is a keyed code already; the multiplication spreads neighbours with equal content.
        (self.tag.0
            ^ self.pvbn.0.wrapping_mul(0x9e37_79b9_7f4a_7c15)
            ^ u64::from(self.aggregate) << 56)
            .wrapping_mul(0xff51_afd7_ed55_8ccd)
    }
}

struct Slot {
    key: Key,
    page: PageRef,
    touched: bool,
}

#[derive(Default)]
struct Shard {
    table: HashTable<u32>,
    slots: Vec<Slot>,
    hand: usize,
}

/// The cache. See the crate's documentation.
pub struct PageCache {
    shards: Box<[Mutex<Shard>]>,
    pages_per_shard: usize,
    hits: AtomicU64,
    misses: AtomicU64,
}

impl PageCache {
    /// A cache of about `pages` pages (at least one for each shard).
    #[must_use]
    pub fn new(pages: usize) -> Self {
        PageCache {
            shards: (0..SHARDS).map(|_| Mutex::new(Shard::default())).collect(),
            pages_per_shard: pages.div_ceil(SHARDS).max(1),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    fn shard(&self, hash: u64) -> std::sync::MutexGuard<'_, Shard> {
        // The top six bits; the table uses the others.
        let index = (hash >> 58) as usize;
        self.shards[index]
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The page under `key`, if it is here.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<PageRef> {
        let hash = key.hash();
        let mut shard = self.shard(hash);
        let Shard { table, slots, .. } = &mut *shard;
        let found = table
            .find(hash, |index| slots[*index as usize].key == *key)
            .copied();
        let Some(index) = found else {
            drop(shard);
            self.misses.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        let slot = &mut slots[index as usize];
        slot.touched = true;
        let page = slot.page.clone();
        drop(shard);
        self.hits.fetch_add(1, Ordering::Relaxed);
        Some(page)
    }

    /// Adds a page whose tag was verified. The page under an equal key stays, if there is one.
    pub fn insert(&self, key: Key, page: PageRef) {
        let hash = key.hash();
        let mut evicted = None;
        let mut shard = self.shard(hash);
        let Shard { table, slots, hand } = &mut *shard;
        if table
            .find(hash, |index| slots[*index as usize].key == key)
            .is_some()
        {
            return;
        }
        let slot = Slot {
            key,
            page,
            touched: false,
        };
        let index = if slots.len() < self.pages_per_shard {
            slots.push(slot);
            slots.len() - 1
        } else {
            // Bounded: the first round clears every mark.
            while slots[*hand].touched {
                slots[*hand].touched = false;
                *hand = (*hand + 1) % slots.len();
            }
            let victim = *hand;
            *hand = (*hand + 1) % slots.len();
            let old = slots[victim].key.hash();
            if let Ok(entry) = table.find_entry(old, |index| *index as usize == victim) {
                entry.remove();
            }
            evicted = Some(std::mem::replace(&mut slots[victim], slot));
            victim
        };
        let index = u32::try_from(index).expect("a shard has fewer than 2^32 pages");
        table.insert_unique(hash, index, |index| slots[*index as usize].key.hash());
        drop(shard);
        drop(evicted);
    }

    /// Pages held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shards
            .iter()
            .map(|shard| {
                shard
                    .lock()
                    .unwrap_or_else(std::sync::PoisonError::into_inner)
                    .slots
                    .len()
            })
            .sum()
    }

    /// True if nothing is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Look-ups that found a page, and those that did not, since start.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        (
            self.hits.load(Ordering::Relaxed),
            self.misses.load(Ordering::Relaxed),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everglade_env::Page;

    fn key(n: u64) -> Key {
        Key {
            aggregate: 1,
            pvbn: Pvbn(n),
            tag: Tag(n * 31),
        }
    }

    fn page(n: u64) -> PageRef {
        let mut page = Page::zeroed();
        page[..8].copy_from_slice(&n.to_le_bytes());
        page.freeze()
    }

    #[test]
    fn pages_are_found_by_the_whole_key_only() {
        let cache = PageCache::new(1000);
        cache.insert(key(5), page(5));
        assert_eq!(cache.get(&key(5)).map(|p| p[0]), Some(5));
        assert!(
            cache
                .get(&Key {
                    tag: Tag(1),
                    ..key(5)
                })
                .is_none(),
            "another content"
        );
        assert!(
            cache
                .get(&Key {
                    pvbn: Pvbn(6),
                    ..key(5)
                })
                .is_none(),
            "another place"
        );
        assert!(
            cache
                .get(&Key {
                    aggregate: 2,
                    ..key(5)
                })
                .is_none(),
            "another aggregate"
        );
        assert_eq!(cache.counts(), (1, 3));
    }

    #[test]
    fn the_cache_stays_within_its_capacity_and_never_returns_a_wrong_page() {
        let cache = PageCache::new(256);
        for n in 1..20_000 {
            cache.insert(key(n), page(n));
            for probe in [n, n / 2, n.saturating_sub(3)] {
                if let Some(found) = cache.get(&key(probe)) {
                    assert_eq!(found[..8], probe.to_le_bytes());
                }
            }
        }
        assert!(cache.len() <= 256, "{}", cache.len());
    }

    #[test]
    fn a_touched_page_outlives_an_untouched_one() {
        let cache = PageCache::new(64 * 4);
        cache.insert(key(1), page(1));
        for n in 2..2000 {
            assert!(cache.get(&key(1)).is_some(), "after {n} insertions");
            cache.insert(key(n), page(n));
        }
    }
}
