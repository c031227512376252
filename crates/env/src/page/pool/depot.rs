//! The pages that nobody holds, of all threads, by the chunk they lie in.
//!
//! Pages that are lent one after the other should be neighbours: a transfer of theirs is then one piece of memory
//! to the kernel and to the device, which may take only a few hundred pieces at once. Pages come back
//! in any order, so each chunk has a bitmap of what is free in it, and lending goes through one chunk, ascending,
//! until it is empty, then on to one that has about the most. What was written or read together leaves the
//! cache at about the same time: chunks become free as they were lent.
//!
//! 1. A bit is set if and only if the page is in the depot.
//! 2. A chunk is in the list of its rank, at its place.

use std::ptr::NonNull;

use super::{
    BLOCK_SIZE, CHUNK_BLOCKS, CHUNK_BYTES, Free, HEADER_BLOCKS, Ordering, block_of, header,
    map_aligned,
};

const WORD_BITS: usize = 64;
/// Rank 0: nothing is free. Rank `n`: from `2^(n - 1)` pages on.
const RANKS: usize = (CHUNK_BLOCKS.ilog2() + 1) as usize;

/// See the module's documentation.
pub(super) struct Depot {
    chunks: Vec<Chunk>,
    ranks: [Vec<usize>; RANKS],
    /// The chunk that is being lent.
    current: usize,
}

struct Chunk {
    start: NonNull<u8>,
    free: [u64; CHUNK_BLOCKS / WORD_BITS],
    count: usize,
    /// In the list of its rank.
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
    };

    /// Appends `count` pages, ascending within each chunk. Grows by whole chunks.
    pub(super) fn take(&mut self, count: usize, into: &mut Vec<Free>) {
        let whole = into.len() + count;
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
            chunk.take(whole - into.len(), into);
            self.rank(self.current, before);
        }
    }

    /// Takes pages back.
    pub(super) fn give(&mut self, pages: impl IntoIterator<Item = Free>) {
        for Free(page) in pages {
            let index = header(page).cards[0].note.load(Ordering::Relaxed);
            let index = usize::try_from(index).expect("an index was left there");
            let chunk = &mut self.chunks[index];
            let before = chunk.count;
            chunk.give(block_of(page));
            self.rank(index, before);
        }
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
        let note = index as u64;
        header(start.cast()).cards[0]
            .note
            .store(note, Ordering::Relaxed);
        let mut chunk = Chunk {
            start,
            free: [0; CHUNK_BLOCKS / WORD_BITS],
            count: 0,
            place: self.ranks[0].len(),
        };
        (HEADER_BLOCKS..CHUNK_BLOCKS).for_each(|block| chunk.give(block));
        self.ranks[0].push(index);
        self.chunks.push(chunk);
        self.rank(index, 0);
        index
    }
}

impl Chunk {
    fn take(&mut self, most: usize, into: &mut Vec<Free>) {
        let whole = into.len() + most;
        for (word, bits) in self.free.iter_mut().enumerate() {
            while *bits != 0 && into.len() < whole {
                let block = word * WORD_BITS + bits.trailing_zeros() as usize;
                *bits &= *bits - 1;
                self.count -= 1;
                let offset = block * BLOCK_SIZE;
                assert!(offset < CHUNK_BYTES, "a chunk has {CHUNK_BLOCKS} blocks");
                // SAFETY: within the chunk, which is never unmapped.
                into.push(Free(unsafe { self.start.add(offset) }.cast()));
            }
        }
    }

    fn give(&mut self, block: usize) {
        let bit = 1 << (block % WORD_BITS);
        let word = &mut self.free[block / WORD_BITS];
        assert!(*word & bit == 0, "a page was given back twice");
        *word |= bit;
        self.count += 1;
    }
}
