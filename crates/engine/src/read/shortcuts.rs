//! Shortcuts: level-1 blocks, remembered by the root that they were reached from.
//!
//! A read walks from its LUN's root to a level-1 block, one look-up of the page cache for each
//! level, and nearly always finds a block that a recent read found. A root's tag is a code of
//! everything below it, so (root, index) names one content for ever: a shortcut never becomes
//! wrong, and need not be invalidated when a consistency point publishes another root. Then the
//! shortcut is merely not found any more.
//!
//! 1. Each reactor has its own table, which needs no lock. The table is direct-mapped: a new
//!    shortcut replaces an old one.
//! 2. The table holds pages that the page cache may have evicted. These are at most [`PLACES`]
//!    pages, which is little beside the share of a reactor, and none if memory is too small for
//!    that.

use everglade_env::{BLOCK_SIZE, PageRef};
use everglade_format::Pointer;

use crate::read::root::Root;

/// Level-1 blocks of one reactor at most; 1 GiB of leaves.
const PLACES: usize = 1024;
/// The part of the memory that they may take, all reactors together.
const MEMORY_SHARE: u64 = 64;

struct Shortcut {
    root: Pointer,
    index: u64,
    block: PageRef,
}

/// See the module's documentation.
pub(crate) struct Shortcuts(Box<[Option<Shortcut>]>);

impl Shortcuts {
    /// For one of `reactors` that share `memory_bytes`.
    pub(crate) fn new(memory_bytes: u64, reactors: usize) -> Shortcuts {
        let pages = memory_bytes / MEMORY_SHARE / BLOCK_SIZE as u64 / reactors as u64;
        let places = usize::try_from(pages).unwrap_or(PLACES).min(PLACES);
        Shortcuts((0..places).map(|_| None).collect())
    }

    fn table_index(&self, root: Root, index: u64) -> Option<usize> {
        let mixed = (index ^ root.pointer.tag.0 << 8).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let count = self.0.len() as u64;
        let place = (mixed >> 32).checked_rem(count)?;
        usize::try_from(place).ok()
    }

    /// The level-1 block that points at leaves `index × 255 …`, if it is known.
    pub(crate) fn find(&self, root: Root, index: u64) -> Option<&PageRef> {
        let known = self.0[self.table_index(root, index)?].as_ref()?;
        (known.root == root.pointer && known.index == index).then_some(&known.block)
    }

    /// Remembers what a walk from `root` came to.
    pub(crate) fn remember(&mut self, root: Root, index: u64, block: &PageRef) {
        if let Some(place) = self.table_index(root, index) {
            self.0[place] = Some(Shortcut {
                root: root.pointer,
                index,
                block: block.clone(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use everglade_env::Page;
    use everglade_format::{Pvbn, Tag, Vvbn};

    use super::*;

    fn root(number: u64) -> Root {
        let pointer = Pointer {
            vvbn: Vvbn(number),
            pvbn: Pvbn(number),
            tag: Tag(number * 77),
        };
        Root { pointer, levels: 2 }
    }

    fn block(byte: u8) -> PageRef {
        Page::copy_of(&[byte; BLOCK_SIZE]).freeze()
    }

    #[test]
    fn a_block_is_found_by_its_root_and_index_only() {
        let mut shortcuts = Shortcuts::new(1 << 30, 2);
        for index in 0..200u8 {
            shortcuts.remember(root(1), index.into(), &block(index));
        }
        let found = |number, index: u64| shortcuts.find(root(number), index).map(|page| page[0]);
        let known = (0..200u64)
            .filter(|index| found(1, *index).is_some())
            .count();
        assert!(known > 150, "{known} of 200 among 1,024 places");
        for index in 0..200 {
            assert!(found(1, index).is_none_or(|byte| u64::from(byte) == index));
            assert_eq!(found(2, index), None, "another root");
        }
        assert_eq!(found(1, 300), None);
    }

    #[test]
    fn where_memory_is_too_small_nothing_is_remembered() {
        let mut shortcuts = Shortcuts::new(1 << 16, 2);
        shortcuts.remember(root(1), 0, &block(1));
        assert!(shortcuts.find(root(1), 0).is_none());
    }
}
