//! Pages: 4 KiB of memory aligned to 4 KiB, the unit of caching and of device and network I/O
//! (O-13).
//!
//! A [`Page`] is unique and writable; [`Page::freeze`] turns it into a [`PageRef`], which is shared
//! and never changes. A page under I/O is always frozen (writes) or owned by the device (reads), so
//! a copy is never torn by construction.
//!
//! Both are one pointer wide and cost no allocation of their own: `pool` lends the memory and keeps
//! the number of holders beside it.

pub(crate) mod pool;
#[cfg(test)]
mod tests;

use std::ops::{Deref, DerefMut};
use std::sync::LazyLock;

use crate::BLOCK_SIZE;
use pool::Memory;

/// Least number of pages for which a search for neighbours in the depot of all threads pays.
const RUN_LEAST: usize = 8;

/// Cache lines of a page that [`PageRef::prefetch`] asks for.
const PREFETCHED_LINES: usize = 24;

/// A writable page with one owner.
///
/// Invariant: no other holder has the memory (asserted wherever a page is made from shared memory).
pub struct Page(Memory);

/// A shared page whose contents no longer change.
#[derive(Clone)]
pub struct PageRef(Memory);

impl Page {
    /// Takes a page and fills it with zeroes.
    #[must_use]
    pub fn zeroed() -> Self {
        let mut page = Page::for_read();
        page.fill(0);
        page
    }

    /// Takes a page to be overwritten whole, as by a device read. The page has the bytes of its
    /// last owner, so it must be filled before a client sees it.
    #[must_use]
    pub fn for_read() -> Self {
        Page(Memory::take())
    }

    /// Pages to be overwritten whole, in ascending order of their addresses: pages that were freed
    /// together are often neighbours, and a transfer of neighbours needs one piece of memory.
    #[must_use]
    pub fn several(count: usize) -> Vec<Page> {
        if count < RUN_LEAST {
            let mut pages: Vec<Page> = (0..count).map(|_| Page::for_read()).collect();
            pages.sort_unstable_by_key(|page| page.0.address().addr());
            return pages;
        }
        let mut pages: Vec<Page> = Memory::take_run(count).into_iter().map(Page).collect();
        pages.sort_unstable_by_key(|page| page.0.address().addr());
        pages
    }

    /// Makes a page with a copy of `bytes`.
    #[must_use]
    pub fn copy_of(bytes: &[u8; BLOCK_SIZE]) -> Self {
        let mut page = Page::for_read();
        page.copy_from_slice(bytes);
        page
    }

    /// Gives up the right to write. No copy.
    #[must_use]
    pub fn freeze(self) -> PageRef {
        PageRef(self.0)
    }
}

impl PageRef {
    /// Returns the shared page of zeroes.
    #[must_use]
    pub fn zero() -> PageRef {
        static ZERO: LazyLock<PageRef> = LazyLock::new(|| Page::zeroed().freeze());
        ZERO.clone()
    }

    /// Returns whether both refer to the same memory.
    #[must_use]
    pub fn same_memory(a: &PageRef, b: &PageRef) -> bool {
        a.0.address() == b.0.address()
    }

    /// What `author` noted about the contents with [`PageRef::leave_memo`]; `None` if another
    /// author left a memo before.
    #[must_use]
    pub fn memo(&self, author: u32) -> Option<u64> {
        self.0.memo(author)
    }

    /// Remembers a number that follows from the contents and is dear to compute, such as their code
    /// under a key (`author` stands for that). It stays until the memory is written again. One page
    /// has one memo, the first; the page of zeroes has none, because all its users share it.
    ///
    /// # Panics
    /// If `author` is 0 or 1.
    pub fn leave_memo(&self, author: u32, memo: u64) {
        if !PageRef::same_memory(self, &PageRef::zero()) {
            self.0.leave_memo(author, memo);
        }
    }

    /// Prefetches the memory that the next user of this page touches: the count of its holders, and
    /// the beginning of its contents. From there on the processor sees that they are read in order.
    #[inline]
    pub fn prefetch(&self) {
        self.0.prefetch(PREFETCHED_LINES);
    }

    /// Makes the page writable again, without a copy if there is no other holder.
    #[must_use]
    pub fn thaw(mut self) -> Page {
        if self.0.is_unique() {
            self.0.wipe_note();
            Page(self.0)
        } else {
            Page::copy_of(&self)
        }
    }
}

/// Pages in use in the whole process. Exact when no page changes hands meanwhile.
#[must_use]
pub fn pages_in_use() -> usize {
    pool::pages_in_use()
}

impl Deref for Page {
    type Target = [u8; BLOCK_SIZE];
    fn deref(&self) -> &Self::Target {
        self.0.bytes()
    }
}

impl DerefMut for Page {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.0.bytes_mut()
    }
}

impl Deref for PageRef {
    type Target = [u8; BLOCK_SIZE];
    fn deref(&self) -> &Self::Target {
        self.0.bytes()
    }
}

impl std::fmt::Debug for Page {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Page({:p})", self.0.address())
    }
}

impl std::fmt::Debug for PageRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PageRef({:p})", self.0.address())
    }
}
