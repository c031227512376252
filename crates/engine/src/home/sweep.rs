//! A sweep over the blocks of some extents, in chunks of neighbours.
//!
//! A chunk has its bits in one block of the active map, because areas have. The position is in
//! memory only. Extents are only ever added at the end, so a number of blocks that are done says
//! later, too, where the sweep was.

use everglade_format::Extent;

/// Blocks of a chunk: 1 MiB, the longest device operation.
pub(crate) const CHUNK_BLOCKS: u64 = 256;

/// See the module's documentation.
#[derive(Clone, Default)]
pub(crate) struct Sweep {
    extents: Vec<Extent>,
    /// The next extent, and blocks of it that are done.
    next: (usize, u64),
    /// Blocks that are done.
    passed: u64,
}

/// Neighbours in one extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// First number.
    pub(crate) first: u64,
    pub(crate) count: u64,
    /// First block on the device.
    pub(crate) dbn: u64,
}

impl Sweep {
    pub(crate) fn of(extents: Vec<Extent>) -> Sweep {
        Sweep {
            extents,
            ..Sweep::default()
        }
    }

    /// Returns the next chunk; `None` at the end.
    pub(crate) fn next_chunk(&self) -> Option<Chunk> {
        self.next_chunk_of(CHUNK_BLOCKS)
    }

    /// Returns the next chunk of at most so many blocks, a part of [`CHUNK_BLOCKS`]; `None` at the
    /// end.
    fn next_chunk_of(&self, blocks: u64) -> Option<Chunk> {
        let (extent, done) = self.next;
        let extent = self.extents.get(extent)?;
        let first = extent.base + done;
        let count = blocks - first % blocks;
        Some(Chunk {
            first,
            count: count.min(extent.length - done),
            dbn: extent.first_dbn.0 + done,
        })
    }

    /// Returns the next `count` chunks of at most `blocks` blocks each; at the end, those that are
    /// left.
    pub(crate) fn next_chunks(&self, count: usize, blocks: u64) -> Vec<Chunk> {
        let mut ahead = self.clone();
        let mut chunks = Vec::new();
        while chunks.len() < count
            && let Some(chunk) = ahead.next_chunk_of(blocks)
        {
            chunks.push(chunk);
            ahead.advance(chunk);
        }
        chunks
    }

    /// The next chunk is done.
    pub(crate) fn advance(&mut self, chunk: Chunk) {
        self.passed += chunk.count;
        let (extent, done) = &mut self.next;
        *done += chunk.count;
        if *done >= self.extents[*extent].length {
            (*extent, *done) = (*extent + 1, 0);
        }
    }

    /// Passes over chunks until so many blocks are done, or fewer if a chunk would be cut.
    pub(crate) fn skip(&mut self, blocks: u64) {
        while let Some(chunk) = self.next_chunk() {
            if self.passed + chunk.count > blocks {
                return;
            }
            self.advance(chunk);
        }
    }

    /// True at the end.
    pub(crate) fn is_over(&self) -> bool {
        self.next.0 >= self.extents.len()
    }

    /// Blocks that are done, and all of them.
    pub(crate) fn progress(&self) -> (u64, u64) {
        let all = self.extents.iter().map(|extent| extent.length).sum();
        (self.passed, all)
    }
}

#[cfg(test)]
mod tests {
    use everglade_format::Dbn;

    use super::*;

    #[test]
    fn a_sweep_passes_each_block_once() {
        let extent = |base, length, first| Extent {
            base,
            length,
            group: 0,
            column: 0,
            member: 0,
            first_dbn: Dbn(first),
        };
        let mut sweep = Sweep::of(vec![extent(0, 512, 300), extent(2048, 256, 1000)]);
        let mut passed = Vec::new();
        while let Some(chunk) = sweep.next_chunk() {
            assert!(!sweep.is_over());
            passed.push((chunk.first, chunk.count, chunk.dbn));
            sweep.advance(chunk);
        }
        assert_eq!(passed, [(0, 256, 300), (256, 256, 556), (2048, 256, 1000)]);
        assert_eq!((sweep.is_over(), sweep.progress()), (true, (768, 768)));
        assert!(Sweep::default().is_over());
        let mut later = Sweep::of(sweep.extents.clone());
        later.skip(600);
        assert_eq!(later.next_chunk().map(|chunk| chunk.first), Some(2048));
        assert_eq!(later.progress(), (512, 768));
        later.skip(u64::MAX);
        assert!(later.is_over());
    }
}
