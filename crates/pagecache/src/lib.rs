//! Page cache: clean pages by (aggregate, pvbn, tag), shared by all reactors (DESIGN §4, R-11).
//!
//! The key contains the content's tag, so a reader with a stale pointer misses instead of finding
//! another owner's page, and two owners of one block share one page. Pages here never change; dirty
//! data lives in the overlays of `everglade-engine` until its consistency point commits.
//!
//! Sixty-four shards, each a hash table whose places a CLOCK hand sweeps. A *node*, a block that says where
//! others are, outlives several of its rounds: it stands for 255 blocks, and a stream of data that is used once
//! would else drive out what every next step needs. The entry is in the table itself,
//! 32 bytes that never straddle two cache lines, because a look-up is paid in cache misses: the control bytes,
//! the entry, and the count of the page's holders. The locks are leaf locks: nothing is entered, suspended or
//! submitted under them.
//!
//! 1. A shard never holds more pages than its share of the capacity.
//! 2. A page found under a key was inserted under that key: the caller verified its tag.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use everglade_env::PageRef;
use everglade_format::{Pvbn, Tag};
use hashbrown::HashTable;

const SHARDS: usize = 64;
/// Rounds of the hand that data lasts after its last use, and nodes.
const DATA_ROUNDS: u8 = 1;
const NODE_ROUNDS: u8 = 7;

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

#[repr(align(32))]
struct Slot {
    pvbn: Pvbn,
    tag: Tag,
    aggregate: u32,
    /// Rounds of the hand it lasts yet.
    rounds: u8,
    page: PageRef,
}

impl Slot {
    fn key(&self) -> Key {
        Key {
            aggregate: self.aggregate,
            pvbn: self.pvbn,
            tag: self.tag,
        }
    }
}

const _: () = assert!(size_of::<Slot>() == 32);

#[derive(Default)]
struct Shard {
    table: HashTable<Slot>,
    /// The place of the table that is looked at next for a page to let go.
    hand: usize,
}

impl Shard {
    /// Lets one page go: the next whose rounds are over. Bounded: every round of the hand takes one from all.
    fn evict(&mut self) -> Option<Slot> {
        let rounds = usize::from(NODE_ROUNDS) + 1;
        for _ in 0..=rounds * self.table.num_buckets() {
            let place = self.hand;
            self.hand = (place + 1) % self.table.num_buckets();
            match self.table.get_bucket_mut(place) {
                Some(slot) if slot.rounds > 0 => slot.rounds -= 1,
                Some(_) => {
                    let entry = self.table.get_bucket_entry(place).ok()?;
                    return Some(entry.remove().0);
                }
                None => {}
            }
        }
        None
    }
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
        self.get_for(key, DATA_ROUNDS)
    }

    /// The same for a node.
    #[must_use]
    pub fn get_node(&self, key: &Key) -> Option<PageRef> {
        self.get_for(key, NODE_ROUNDS)
    }

    /// Keeps the page under `key` here for as long as a node, if it is here.
    pub fn hold_node(&self, key: &Key) {
        let hash = key.hash();
        let mut shard = self.shard(hash);
        if let Some(slot) = shard.table.find_mut(hash, |slot| slot.key() == *key) {
            slot.rounds = NODE_ROUNDS;
        }
    }

    fn get_for(&self, key: &Key, rounds: u8) -> Option<PageRef> {
        let hash = key.hash();
        let mut shard = self.shard(hash);
        let Some(slot) = shard.table.find_mut(hash, |slot| slot.key() == *key) else {
            drop(shard);
            self.misses.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        slot.rounds = slot.rounds.max(rounds);
        let page = slot.page.clone();
        drop(shard);
        self.hits.fetch_add(1, Ordering::Relaxed);
        Some(page)
    }

    /// True if a page is under `key`. Asking does not keep it here for longer, and is not counted.
    #[must_use]
    pub fn contains(&self, key: &Key) -> bool {
        let hash = key.hash();
        let shard = self.shard(hash);
        shard.table.find(hash, |slot| slot.key() == *key).is_some()
    }

    /// Adds a page whose tag was verified. The page under an equal key stays, if there is one.
    pub fn insert(&self, key: Key, page: PageRef) {
        self.insert_for(key, page, 0);
    }

    /// The same for a node.
    pub fn insert_node(&self, key: Key, page: PageRef) {
        self.insert_for(key, page, NODE_ROUNDS);
    }

    fn insert_for(&self, key: Key, page: PageRef, rounds: u8) {
        let hash = key.hash();
        let mut shard = self.shard(hash);
        if shard.table.find(hash, |slot| slot.key() == key).is_some() {
            return;
        }
        let is_full = shard.table.len() >= self.pages_per_shard;
        let evicted = is_full.then(|| shard.evict()).flatten();
        let slot = Slot {
            pvbn: key.pvbn,
            tag: key.tag,
            aggregate: key.aggregate,
            rounds,
            page,
        };
        shard
            .table
            .insert_unique(hash, slot, |slot| slot.key().hash());
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
                    .table
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
    fn a_node_outlives_a_stream_of_data() {
        let cache = PageCache::new(64 * 16);
        cache.insert_node(key(1), page(1));
        cache.insert(key(2), page(2));
        cache.hold_node(&key(2));
        for n in 3..4000 {
            cache.insert(key(n), page(n));
        }
        assert!(cache.contains(&key(1)) && cache.contains(&key(2)));
        for n in 4000..40_000 {
            cache.insert(key(n), page(n));
        }
        assert!(!cache.contains(&key(1)), "but not for ever");
        assert!(cache.len() <= 64 * 16);
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
