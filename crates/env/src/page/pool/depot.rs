//! The free pages of all threads, by the chunk they lie in.
//!
//! Pages that are lent one after the other should be neighbours: a transfer of such pages is one
//! piece of memory for the kernel and the device, and a device may take only a few hundred pieces
//! at once. Pages are returned in any order, so each chunk has a bitmap of its free pages. The
//! depot lends the pages of one chunk in ascending order until none is left, and then chooses a
//! chunk with nearly the most free pages. Pages that were written or read together leave the cache
//! at about the same time, so whole chunks become free.
//!
//! Memory that was not used for a while is returned to the kernel ([`Depot::spare`],
//! [`Depot::give_back`]): free pages stay in the depot, but have no memory until they are lent
//! again. A chunk without used pages is returned as a whole, with its header, so that the kernel
//! may use a large page for it next time. If at least half of a chunk is free, its free pages are
//! returned.
//!
//! 1. A bit is set if and only if the page is in the depot.
//! 2. A chunk is in the list of its rank, at the index that it records.
//! 3. A page without memory is in the depot. If a header has no memory, all pages of its chunk are
//!    in the depot, so the header is not read; it is written anew when one of the pages is lent.

use std::ptr::NonNull;

use super::{
    BLOCK_SIZE, CHUNK_BLOCKS, CHUNK_BYTES, Free, HEADER_BLOCKS, Ordering, block_of, forget, header,
    map_aligned,
};

const WORD_BITS: usize = 64;
/// Rank 0: nothing is free. Rank `n`: from `2^(n - 1)` pages on.
const RANKS: usize = (CHUNK_BLOCKS.ilog2() + 1) as usize;

/// Memory is spare if this number of consecutive checks, one a second, found it free.
const LOOKS: usize = 3;
/// Pages kept in the depot, whatever happens: 8 MiB.
const KEPT: usize = 2048;
/// A chunk gives memory back if it has at least this number of free pages.
const GIVING_LEAST: usize = CHUNK_BLOCKS / 2;

/// See the module's documentation.
pub(super) struct Depot {
    chunks: Vec<Chunk>,
    ranks: [Vec<usize>; RANKS],
    /// The chunk that is being lent.
    current: usize,
    /// Pages in the depot that have memory.
    resident: usize,
    /// Least value of `resident` since the last check.
    fewest: usize,
    /// The same for each of the last intervals between two checks, the latest first.
    before: [usize; LOOKS],
    /// The chunk that [`Depot::give_back`] examines next.
    next: usize,
    /// Number of pages lent or returned.
    moves: u64,
}

struct Chunk {
    start: NonNull<u8>,
    free: [u64; CHUNK_BLOCKS / WORD_BITS],
    /// The pages of `free` that have no memory.
    bare: [u64; CHUNK_BLOCKS / WORD_BITS],
    /// The header has no memory.
    is_bare: bool,
    count: usize,
    /// Index in the list of its rank.
    place: usize,
}

// SAFETY: the address of a chunk is not bound to a thread.
unsafe impl Send for Chunk {}

fn rank_of(count: usize) -> usize {
    count.checked_ilog2().map_or(0, |log| log as usize + 1)
}

impl Depot {
    pub(super) const EMPTY: Depot = Depot {
        chunks: Vec::new(),
        ranks: [const { Vec::new() }; RANKS],
        current: 0,
        resident: 0,
        fewest: 0,
        before: [0; LOOKS],
        next: 0,
        moves: 0,
    };

    /// Appends `count` pages, ascending within each chunk. Grows by whole chunks.
    pub(super) fn take(&mut self, count: usize, into: &mut Vec<Free>) {
        let whole = into.len() + count;
        self.moves += 1;
        while into.len() < whole {
            if self.chunks.get(self.current).is_none_or(|it| it.count == 0) {
                let fullest = self.ranks[1..].iter().rev().find_map(|rank| rank.last());
                self.current = match fullest {
                    Some(chunk) => *chunk,
                    None => self.carve(),
                };
            }
            let chunk = &mut self.chunks[self.current];
            let before = chunk.count;
            chunk.dress(self.current);
            let bare = chunk.take(whole - into.len(), into);
            self.resident -= before - chunk.count - bare;
            self.rank(self.current, before);
        }
        self.fewest = self.fewest.min(self.resident);
    }

    /// Takes pages back.
    pub(super) fn give(&mut self, pages: impl IntoIterator<Item = Free>) {
        for Free(page) in pages {
            let index = header(page).cards[0].memo.load(Ordering::Relaxed);
            let index = usize::try_from(index).expect("an index was left there");
            let chunk = &mut self.chunks[index];
            let before = chunk.count;
            chunk.give(block_of(page));
            self.resident += 1;
            self.rank(index, before);
        }
        self.moves += 1;
    }

    /// Pages that were not needed since the last checks. To be asked once a second.
    pub(super) fn spare(&mut self) -> usize {
        self.before.rotate_right(1);
        self.before[0] = self.fewest;
        self.fewest = self.resident;
        let fewest = self.before.iter().min().copied().unwrap_or(0);
        fewest.min(self.resident).saturating_sub(KEPT)
    }

    /// Returns the number of pages lent or returned.
    pub(super) fn moves(&self) -> u64 {
        self.moves
    }

    /// Gives memory of one chunk back to the kernel. Between two calls the caller can release the
    /// depot's lock. Returns the number of pages given back, or `None` after the last chunk.
    pub(super) fn give_back(&mut self) -> Option<usize> {
        while self.next < self.chunks.len() {
            let index = self.next;
            self.next += 1;
            let chunk = &mut self.chunks[index];
            if index == self.current || chunk.count < GIVING_LEAST {
                continue;
            }
            let given = chunk.give_back();
            if given > 0 {
                self.resident -= given;
                self.fewest = self.fewest.min(self.resident);
                return Some(given);
            }
        }
        self.next = 0;
        None
    }

    /// Puts a chunk into the list of its rank after its count has changed.
    fn rank(&mut self, index: usize, before: usize) {
        let (from, to) = (rank_of(before), rank_of(self.chunks[index].count));
        if from == to {
            return;
        }
        let place = self.chunks[index].place;
        self.ranks[from].swap_remove(place);
        if let Some(moved) = self.ranks[from].get(place) {
            self.chunks[*moved].place = place;
        }
        self.chunks[index].place = self.ranks[to].len();
        self.ranks[to].push(index);
    }

    /// Maps one more chunk.
    fn carve(&mut self) -> usize {
        let start = map_aligned();
        let index = self.chunks.len();
        let memo = index as u64;
        header(start.cast()).cards[0]
            .memo
            .store(memo, Ordering::Relaxed);
        let mut chunk = Chunk {
            start,
            free: [0; CHUNK_BLOCKS / WORD_BITS],
            bare: [0; CHUNK_BLOCKS / WORD_BITS],
            is_bare: false,
            count: 0,
            place: self.ranks[0].len(),
        };
        (HEADER_BLOCKS..CHUNK_BLOCKS).for_each(|block| chunk.give(block));
        self.resident += chunk.count;
        self.ranks[0].push(index);
        self.chunks.push(chunk);
        self.rank(index, 0);
        index
    }
}

impl Chunk {
    /// Prepares the header of chunk `index`, whose pages are about to be lent.
    fn dress(&mut self, index: usize) {
        if self.is_bare {
            self.is_bare = false;
            let memo = index as u64;
            let card = &header(self.start.cast()).cards[0];
            card.memo.store(memo, Ordering::Relaxed);
        }
    }

    /// Returns how many of the pages had no memory.
    fn take(&mut self, most: usize, into: &mut Vec<Free>) -> usize {
        let mut bare = 0;
        let whole = into.len() + most;
        for (word, bits) in self.free.iter_mut().enumerate() {
            while *bits != 0 && into.len() < whole {
                let block = word * WORD_BITS + bits.trailing_zeros() as usize;
                let lent = *bits & bits.wrapping_neg();
                *bits ^= lent;
                bare += usize::from(self.bare[word] & lent != 0);
                self.bare[word] &= !lent;
                self.count -= 1;
                let offset = block * BLOCK_SIZE;
                assert!(offset < CHUNK_BYTES, "a chunk has {CHUNK_BLOCKS} blocks");
                // SAFETY: within the chunk, which is never unmapped.
                into.push(Free(unsafe { self.start.add(offset) }.cast()));
            }
        }
        bare
    }

    /// Returns free memory to the kernel. Returns how many pages.
    fn give_back(&mut self) -> usize {
        if self.count == CHUNK_BLOCKS - HEADER_BLOCKS {
            let bare: u32 = self.bare.iter().map(|word| word.count_ones()).sum();
            let given = self.count - bare as usize;
            if given > 0 && forget(self.start, 0..CHUNK_BLOCKS) {
                self.bare = self.free;
                self.is_bare = true;
                return given;
            }
            return 0;
        }
        let mut given = 0;
        let mut block = HEADER_BLOCKS;
        while block < CHUNK_BLOCKS {
            let first = block;
            while block < CHUNK_BLOCKS && self.has_spare(block) {
                block += 1;
            }
            if block > first && forget(self.start, first..block) {
                (first..block)
                    .for_each(|block| self.bare[block / WORD_BITS] |= 1 << (block % WORD_BITS));
                given += block - first;
            }
            block += 1;
        }
        given
    }

    /// Returns whether the block is free and has memory.
    fn has_spare(&self, block: usize) -> bool {
        let (word, bit) = (block / WORD_BITS, 1 << (block % WORD_BITS));
        (self.free[word] & !self.bare[word]) & bit != 0
    }

    fn give(&mut self, block: usize) {
        let bit = 1 << (block % WORD_BITS);
        let word = &mut self.free[block / WORD_BITS];
        assert!(*word & bit == 0, "a page was given back twice");
        *word |= bit;
        self.count += 1;
    }
}
