//! Pages: 4 KiB of memory aligned to 4 KiB, the unit of caching and of device and network I/O.
//!
//! A [`Page`] is unique and writable; [`Page::freeze`] turns it into a [`PageRef`], which is shared
//! and never changes. A page under I/O is always frozen (writes) or owned by the device (reads), so
//! a copy is never torn by construction.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use crate::BLOCK_SIZE;

#[repr(align(4096))]
struct Aligned([u8; BLOCK_SIZE]);

/// A writable page with one owner.
pub struct Page(Arc<Box<Aligned>>);

/// A shared page whose contents no longer change.
#[derive(Clone)]
pub struct PageRef(Arc<Box<Aligned>>);

impl Page {
    /// A page of zeroes.
    #[must_use]
    pub fn zeroed() -> Self {
        Page(Arc::new(Box::new(Aligned([0; BLOCK_SIZE]))))
    }

    /// A page holding a copy of `bytes`.
    #[must_use]
    pub fn copy_of(bytes: &[u8; BLOCK_SIZE]) -> Self {
        let mut page = Page::zeroed();
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
    /// The shared page of zeroes.
    #[must_use]
    pub fn zero() -> PageRef {
        static ZERO: std::sync::LazyLock<PageRef> = std::sync::LazyLock::new(|| Page::zeroed().freeze());
        ZERO.clone()
    }

    /// True if both name the same memory.
    #[must_use]
    pub fn same_memory(a: &PageRef, b: &PageRef) -> bool {
        Arc::ptr_eq(&a.0, &b.0)
    }

    /// Writable again, without a copy if nobody else holds it.
    #[must_use]
    pub fn thaw(self) -> Page {
        match Arc::try_unwrap(self.0) {
            Ok(memory) => Page(Arc::new(memory)),
            Err(shared) => Page::copy_of(&shared.0),
        }
    }
}

impl Deref for Page {
    type Target = [u8; BLOCK_SIZE];
    fn deref(&self) -> &Self::Target {
        &self.0.0
    }
}

impl DerefMut for Page {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut Arc::get_mut(&mut self.0).expect("a Page has one owner").0
    }
}

impl Deref for PageRef {
    type Target = [u8; BLOCK_SIZE];
    fn deref(&self) -> &Self::Target {
        &self.0.0
    }
}

impl std::fmt::Debug for Page {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Page({:p})", self.0)
    }
}

impl std::fmt::Debug for PageRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PageRef({:p})", self.0)
    }
}
