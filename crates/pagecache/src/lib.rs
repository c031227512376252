//! Page cache: clean pages by (aggregate, pvbn, tag), shared by all reactors
//! (docs/design/design.md §4, R-11).
//!
//! The key contains the content's tag, so a reader with a stale pointer misses instead of finding
//! another owner's page, and two owners of one block share one page. Pages here never change; dirty
//! data lives in the overlays of `everglade-engine` until its consistency point commits.
//!
//! ```text
//! key ─▶ shard (of 64, a lock each) ─▶ cell: eight neighbouring blocks ─▶ page
//!                                       ▲ a CLOCK hand sweeps the cells of a shard
//! ```
//!
//! A look-up is paid in cache misses of the processor, and so are an insertion and the departure of
//! a page. So blocks that lie side by side on media, which is how streams are written and read,
//! share a cell: one look-up, one lock and a few cache lines for eight of them. They also leave
//! together, so their memory, if it was one piece when they came, is one piece for who comes next;
//! whoever takes many pages at once sorts them by address and finds such pieces
//! ([`everglade_env::Page::several`]).
//!
//! A *node*, a block that says where others are, outlives several rounds of the hand: it stands for
//! 255 blocks, and a stream of data that is used once would else drive out what every next step
//! needs.
//!
//! The locks are leaf locks: code that holds one enters no affinity, does not suspend, submits no
//! I/O and frees no page. Pages that leave are freed after the lock is released.
//!
//! 1. A shard never takes in a page while it holds more than its share of the capacity. The
//!    capacity may shrink, and grow again, as others need the memory; a shard follows when a page
//!    comes.
//! 2. A page found under a key was inserted under that key: the caller verified its tag.
//! 3. A block has at most one content here, the one that came last: who asks for an older one reads
//!    it again, and hears that it is no more.

mod cell;
mod shard;

use std::sync::atomic::{AtomicUsize, Ordering};

use everglade_env::PageRef;
use everglade_env::lock::{Mutex, MutexGuard};
use everglade_format::{Pvbn, Tag};

use cell::{Cell, CellKey};
use shard::Shard;

const SHARDS: usize = 64;
/// Rounds of the hand that data lasts after its last use, and nodes.
const DATA_ROUNDS: u8 = 1;
const NODE_ROUNDS: u8 = 7;

fn per_shard(pages: usize) -> usize {
    pages.div_ceil(SHARDS).max(1)
}

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

/// A lock that shares no cache line with another.
#[derive(Default)]
#[repr(align(128))]
struct Seat(Mutex<Shard>);

/// The cache. See the crate's documentation.
pub struct PageCache {
    shards: Box<[Seat]>,
    pages_per_shard: AtomicUsize,
}

impl PageCache {
    /// A cache of about `pages` pages (at least one for each shard).
    #[must_use]
    pub fn new(pages: usize) -> Self {
        PageCache {
            shards: (0..SHARDS).map(|_| Seat::default()).collect(),
            pages_per_shard: AtomicUsize::new(per_shard(pages)),
        }
    }

    /// From now on the cache is for about `pages` pages.
    pub fn set_capacity(&self, pages: usize) {
        let pages = per_shard(pages);
        // Often said, seldom changed: the line is everybody's.
        if self.pages_per_shard.load(Ordering::Relaxed) != pages {
            self.pages_per_shard.store(pages, Ordering::Relaxed);
        }
    }

    fn shard(&self, hash: u64) -> MutexGuard<'_, Shard> {
        // Six bits from the middle: the table uses the ends.
        let index = (hash >> 40) as usize % SHARDS;
        self.shards[index].0.lock()
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

    /// Looks for many pages: `found` gets what is here of each, by its place in `keys`. Neighbours
    /// cost one look-up.
    pub fn get_all(&self, keys: &[Key], mut found: impl FnMut(usize, Option<PageRef>)) {
        let mut places = 0..keys.len();
        for keys in keys.chunk_by(|a, b| CellKey::of(a) == CellKey::of(b)) {
            let cell_key = CellKey::of(&keys[0]);
            let hash = cell_key.hash();
            let mut shard = self.shard(hash);
            let mut hits = 0;
            let mut cell = shard.cell_mut(cell_key, hash);
            for (key, place) in keys.iter().zip(&mut places) {
                let page = cell.as_mut().and_then(|cell| cell.touch(key, DATA_ROUNDS));
                hits += u64::from(page.is_some());
                found(place, page.cloned());
            }
            shard.hits += hits;
            shard.misses += keys.len() as u64 - hits;
        }
    }

    /// Keeps the page under `key` here for as long as a node, if it is here.
    pub fn hold_node(&self, key: &Key) {
        self.in_cell(key, |cell| _ = cell.touch(key, NODE_ROUNDS));
    }

    /// The node under `key` was replaced: it stays no longer than data, unless somebody looks at it
    /// again. Otherwise every version of a node that consistency points write one after the other
    /// would stay for as long as the one that is needed.
    pub fn release_node(&self, key: &Key) {
        self.in_cell(key, |cell| cell.shorten(key, DATA_ROUNDS));
    }

    /// Does something in the cell of a page, if it is here, under its lock. Not counted as a
    /// look-up.
    fn in_cell(&self, key: &Key, act: impl FnOnce(&mut Cell)) {
        let cell = CellKey::of(key);
        let hash = cell.hash();
        if let Some(cell) = self.shard(hash).cell_mut(cell, hash) {
            act(cell);
        }
    }

    /// Asks the processor for the cells of pages that are looked for in a moment.
    pub fn prefetch_cells(&self, keys: &[Key]) {
        for key in keys {
            let hash = CellKey::of(key).hash();
            self.shard(hash).prefetch(key, hash);
        }
    }

    /// Asks the processor for the pages themselves, where they are here. Not counted as look-ups.
    pub fn prefetch_pages(&self, keys: &[Key]) {
        for key in keys {
            let cell = CellKey::of(key);
            let hash = cell.hash();
            if let Some(cell) = self.shard(hash).cell(cell, hash) {
                cell.prefetch(key);
            }
        }
    }

    fn get_for(&self, key: &Key, rounds: u8) -> Option<PageRef> {
        let cell = CellKey::of(key);
        let hash = cell.hash();
        let mut shard = self.shard(hash);
        let cell = shard.cell_mut(cell, hash);
        let found = cell.and_then(|cell| cell.touch(key, rounds)).cloned();
        match found {
            Some(_) => shard.hits += 1,
            None => shard.misses += 1,
        }
        found
    }

    /// Which of many pages are not under their keys, by their places in `keys`. Asking does not
    /// keep a page here for longer, and is not counted.
    #[must_use]
    pub fn missing(&self, keys: &[Key]) -> Vec<usize> {
        let mut missing = Vec::new();
        let mut places = 0..keys.len();
        for keys in keys.chunk_by(|a, b| CellKey::of(a) == CellKey::of(b)) {
            let cell = CellKey::of(&keys[0]);
            let hash = cell.hash();
            let shard = self.shard(hash);
            let cell = shard.cell(cell, hash);
            for (key, place) in keys.iter().zip(&mut places) {
                if !cell.is_some_and(|cell| cell.contains(key)) {
                    missing.push(place);
                }
            }
        }
        missing
    }

    /// Adds a page whose tag was verified. The page under an equal key stays, if there is one.
    pub fn insert(&self, key: Key, page: PageRef) {
        self.insert_one(key, page, 0);
    }

    /// The same for a node.
    pub fn insert_node(&self, key: Key, page: PageRef) {
        self.insert_one(key, page, NODE_ROUNDS);
    }

    fn insert_one(&self, key: Key, page: PageRef, rounds: u8) {
        self.put(CellKey::of(&key), std::iter::once((key, page)), rounds);
    }

    /// Adds many pages whose tags were verified. Neighbours cost one look-up.
    pub fn insert_all(&self, pages: Vec<(Key, PageRef)>) {
        let mut rest = pages.into_iter();
        while let Some((first, _)) = rest.as_slice().first() {
            let cell = CellKey::of(first);
            let same = |(key, _): &&(Key, PageRef)| CellKey::of(key) == cell;
            let count = rest.as_slice().iter().take_while(same).count();
            self.put(cell, rest.by_ref().take(count), 0);
        }
    }

    /// Adds pages of one cell.
    fn put(&self, cell: CellKey, pages: impl ExactSizeIterator<Item = (Key, PageRef)>, rounds: u8) {
        let hash = cell.hash();
        let capacity = self.pages_per_shard.load(Ordering::Relaxed);
        let leaving = self.shard(hash).put((cell, hash), pages, rounds, capacity);
        // The lock is given back by now.
        drop(leaving);
    }

    /// Pages held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.all(Shard::pages).sum()
    }

    /// True if nothing is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Look-ups that found a page, and those that did not, since start.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        let counts = self.all(|shard| (shard.hits, shard.misses));
        counts.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    fn all<T>(&self, what: impl Fn(&Shard) -> T) -> impl Iterator<Item = T> {
        let locks = self.shards.iter().map(|seat| seat.0.lock());
        locks.map(move |lock| what(&lock))
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

    fn contains(cache: &PageCache, key: &Key) -> bool {
        cache.missing(std::slice::from_ref(key)).is_empty()
    }

    fn page(n: u64) -> PageRef {
        let mut page = Page::zeroed();
        page[..8].copy_from_slice(&n.to_le_bytes());
        page.freeze()
    }

    #[test]
    fn a_node_that_was_replaced_leaves_before_those_that_were_not() {
        let cache = PageCache::new(64 * SHARDS);
        let nodes = 32 * SHARDS as u64;
        for n in 0..nodes {
            cache.insert_node(key(n * 8), page(n));
        }
        (0..nodes)
            .step_by(2)
            .for_each(|n| cache.release_node(&key(n * 8)));
        assert!(contains(&cache, &key(0)), "it is still found");
        for n in 0..128 * SHARDS as u64 {
            cache.insert(key((1 << 20) + n * 8), page(n));
        }
        let here = |first| {
            (first..nodes)
                .step_by(2)
                .filter(|n| contains(&cache, &key(n * 8)))
        };
        let (released, kept) = (here(0).count() as u64, here(1).count() as u64);
        assert!(kept > nodes / 2 * 9 / 10, "{kept}");
        assert!(released < nodes / 2 / 2, "{released}");
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
    fn many_are_found_as_each_of_them_would_be() {
        let cache = PageCache::new(4096);
        let keys: Vec<Key> = (5..100).chain(300..310).chain([7, 2000]).map(key).collect();
        let inserted = |place: usize| !place.is_multiple_of(3);
        let some = (0..keys.len()).filter(|place| inserted(*place));
        cache.insert_all(
            some.map(|place| (keys[place], page(keys[place].pvbn.0)))
                .collect(),
        );
        let expected: Vec<Option<u64>> = keys
            .iter()
            .map(|key| contains(&cache, key).then_some(key.pvbn.0))
            .collect();
        assert!(expected.iter().any(Option::is_none) && expected.iter().any(Option::is_some));
        let mut found = Vec::new();
        cache.get_all(&keys, |place, page| {
            assert_eq!(place, found.len(), "each is told of once, in order");
            let number = |page: PageRef| u64::from_le_bytes(page[..8].try_into().expect("eight"));
            found.push(page.map(number));
        });
        assert_eq!(found, expected);
        let absent = (0..keys.len()).filter(|place| expected[*place].is_none());
        assert_eq!(cache.missing(&keys), absent.collect::<Vec<_>>());
        let hits = expected.iter().flatten().count() as u64;
        assert_eq!(cache.counts(), (hits, keys.len() as u64 - hits));
    }

    #[test]
    fn a_block_has_the_content_that_came_last() {
        let cache = PageCache::new(1000);
        let newer = Key {
            tag: Tag(999),
            ..key(5)
        };
        cache.insert(key(5), page(1));
        cache.insert(newer, page(2));
        assert!(cache.get(&key(5)).is_none());
        assert_eq!(cache.get(&newer).map(|page| page[0]), Some(2));
        assert_eq!(cache.len(), 1);
        cache.insert(newer, page(3));
        assert_eq!(
            cache.get(&newer).map(|page| page[0]),
            Some(2),
            "the first of equals"
        );
    }

    #[test]
    fn the_smallest_cache_holds_one_page_of_a_cell() {
        let cache = PageCache::new(1);
        cache.insert_all((0..8).map(|n| (key(n), page(n))).collect());
        assert_eq!(cache.len(), 1);
        cache.insert(key(3), page(3));
        assert!(cache.len() <= 1);
    }

    #[test]
    fn neighbours_leave_together() {
        let cache = PageCache::new(64 * 64);
        for n in 0..64 * 64 * 2 {
            cache.insert(key(n), page(n));
        }
        let left = |group: u64| {
            (0..8)
                .filter(|n| contains(&cache, &key(group * 8 + n)))
                .count()
        };
        let groups: Vec<usize> = (0..64 * 16).map(left).collect();
        assert!(
            groups.iter().all(|left| *left == 0 || *left == 8),
            "{groups:?}"
        );
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
        assert!(contains(&cache, &key(1)) && contains(&cache, &key(2)));
        for n in 4000..40_000 {
            cache.insert(key(n), page(n));
        }
        assert!(!contains(&cache, &key(1)), "but not for ever");
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
