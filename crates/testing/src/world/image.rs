//! The content of a medium: a sparse map from block to page, cheap to fork.
//!
//! Forking shares everything; writing to a fork copies one chunk and the table of chunks. So a
//! power cut can be tried in thousands of ways from one base. Each block carries the *version* of
//! the write that put it there (a number that grows over the world), so that an older write made
//! durable late never covers a newer one that already is.

use std::collections::BTreeMap;
use std::sync::Arc;

use everglade_env::PageRef;

/// Blocks per chunk. Small enough that copying one costs little, large enough for a short table.
const CHUNK: u64 = 64;

#[derive(Clone)]
struct Slot {
    version: u64,
    page: PageRef,
}

type Chunk = BTreeMap<u64, Slot>;

/// A sparse, versioned array of blocks. Blocks never written read as zeroes.
#[derive(Clone, Default)]
pub struct Image {
    chunks: Arc<BTreeMap<u64, Arc<Chunk>>>,
}

impl Image {
    /// The page at `block`, if it was ever written.
    #[must_use]
    pub fn get(&self, block: u64) -> Option<&PageRef> {
        self.slot(block).map(|slot| &slot.page)
    }

    /// The page at `block`, zeroes if it was never written.
    #[must_use]
    pub fn read(&self, block: u64) -> PageRef {
        self.get(block).cloned().unwrap_or_else(PageRef::zero)
    }

    /// Version of the write that put `block` there, zero if none did.
    #[must_use]
    pub fn version(&self, block: u64) -> u64 {
        self.slot(block).map_or(0, |slot| slot.version)
    }

    /// Puts `page` at `block` unless the block has a newer version.
    pub fn put(&mut self, block: u64, version: u64, page: PageRef) {
        if self.version(block) <= version {
            let chunks = Arc::make_mut(&mut self.chunks);
            let chunk = Arc::make_mut(chunks.entry(block / CHUNK).or_default());
            chunk.insert(block, Slot { version, page });
        }
    }

    /// Forgets what `range` held before `version`; it reads as zeroes.
    pub fn remove(&mut self, range: std::ops::Range<u64>, version: u64) {
        let old: Vec<u64> = self
            .blocks_in(range)
            .filter(|(_, slot)| slot.version <= version)
            .map(|(block, _)| block)
            .collect();
        for block in old {
            let chunks = Arc::make_mut(&mut self.chunks);
            let chunk = Arc::make_mut(chunks.get_mut(&(block / CHUNK)).expect("just listed"));
            chunk.remove(&block);
        }
    }

    /// Returns all written blocks, in order.
    pub fn blocks(&self) -> impl Iterator<Item = (u64, &PageRef)> {
        self.chunks
            .values()
            .flat_map(|chunk| chunk.iter().map(|(&block, slot)| (block, &slot.page)))
    }

    fn blocks_in(&self, range: std::ops::Range<u64>) -> impl Iterator<Item = (u64, &Slot)> {
        let chunks = range.start / CHUNK..range.end.div_ceil(CHUNK);
        self.chunks.range(chunks).flat_map(move |(_, chunk)| {
            chunk
                .range(range.start..range.end)
                .map(|(&block, slot)| (block, slot))
        })
    }

    fn slot(&self, block: u64) -> Option<&Slot> {
        self.chunks.get(&(block / CHUNK))?.get(&block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everglade_env::Page;

    fn page(byte: u8) -> PageRef {
        let mut page = Page::zeroed();
        page.fill(byte);
        page.freeze()
    }

    #[test]
    fn a_fork_and_its_origin_do_not_see_each_other() {
        let mut image = Image::default();
        image.put(5, 1, page(1));
        let mut fork = image.clone();
        fork.put(5, 2, page(2));
        fork.put(6, 3, page(3));
        image.put(7, 4, page(4));
        assert_eq!(
            (image.read(5)[0], image.read(6)[0], image.read(7)[0]),
            (1, 0, 4)
        );
        assert_eq!(
            (fork.read(5)[0], fork.read(6)[0], fork.read(7)[0]),
            (2, 3, 0)
        );
    }

    #[test]
    fn an_older_version_never_covers_a_newer_one() {
        let mut image = Image::default();
        image.put(1, 10, page(10));
        image.put(1, 9, page(9));
        image.remove(0..4, 9);
        assert_eq!(image.read(1)[0], 10);
        image.remove(0..4, 11);
        assert_eq!(image.read(1)[0], 0);
    }
}
