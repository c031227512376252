//! A shelf of pages for unit tests: committed blocks that a load context finds in memory.

use everglade_env::{BLOCK_SIZE, Page};
use everglade_format::indirect::BlockKind;
use everglade_format::{FileId, Header, IndirectMut, Layer, Pointer, Pvbn, Tag, Vvbn};
use everglade_pagecache::PageCache;

use crate::read::load::{LoadCx, Missing, Pinned, key};
use crate::read::redirects::Redirects;

/// See the module's documentation.
pub(crate) struct Shelf {
    cache: PageCache,
    redirects: Redirects,
    pinned: Pinned,
    next: u64,
}

impl Shelf {
    pub(crate) fn new() -> Shelf {
        Shelf {
            cache: PageCache::new(1024),
            redirects: Redirects::default(),
            pinned: Pinned::default(),
            next: 1000,
        }
    }

    /// Stores a block where no other is.
    pub(crate) fn put(&mut self, page: Page) -> Pointer {
        let pointer = self.vacant();
        self.cache.insert_node(key(0, pointer), page.freeze());
        pointer
    }

    /// A pointer to a block that is not in memory.
    pub(crate) fn vacant(&mut self) -> Pointer {
        self.next += 1;
        Pointer {
            vvbn: Vvbn(self.next),
            pvbn: Pvbn(self.next),
            tag: Tag(self.next * 77),
        }
    }

    /// Stores a block whose bytes are all the same.
    pub(crate) fn put_bytes(&mut self, byte: u8) -> Pointer {
        self.put(Page::copy_of(&[byte; BLOCK_SIZE]))
    }

    /// Stores an indirect block with some of its slots set.
    pub(crate) fn put_indirect(
        &mut self,
        file: FileId,
        (level, index): (u8, u32),
        slots: &[(u64, Pointer)],
    ) -> Pointer {
        let mut page = Page::copy_of(&[0; BLOCK_SIZE]);
        let header = Header {
            kind: BlockKind::indirect(Layer::Volume),
            level,
            cp: everglade_format::CpNumber(1),
            file,
            index,
        };
        header.encode(&mut page);
        for (slot, pointer) in slots {
            IndirectMut(&mut page).set(*slot, Layer::Volume, *pointer);
        }
        self.put(page)
    }

    /// Makes this block unreadable.
    pub(crate) fn damage(&mut self, pointer: Pointer) {
        let missing = Missing::Damaged {
            reason: "the test damaged it".to_owned(),
            content: None,
        };
        self.pinned.insert(pointer, Err(missing));
    }

    /// Runs a load phase. Returns its outcome and the pointers it asked for.
    pub(crate) fn load<R>(&self, run: impl FnOnce(&mut LoadCx<'_>) -> R) -> (R, Vec<Pointer>) {
        let mut wants = Vec::new();
        let outcome = run(&mut LoadCx {
            aggregate: 0,
            redirects: &self.redirects,
            volume: None,
            cache: &self.cache,
            pinned: &self.pinned,
            wants: &mut wants,
        });
        (outcome, wants)
    }
}
