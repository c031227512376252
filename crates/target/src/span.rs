//! Byte ranges over pages: how data crosses between protocols and storage without being copied.
//!
//! A span covers `length` bytes of a LUN from `offset`. Its pages line up with the LUN's blocks:
//! page `i` stands for block `offset / 4096 + i`, and a byte sits in its page where it sits in its
//! block. So a protocol that receives a payload into a [`WriteSpan`] hands whole blocks over as
//! they are, and only the edges of an unaligned write need merging.

use everglade_env::{BLOCK_SIZE, Page, PageRef};

const BLOCK: u64 = BLOCK_SIZE as u64;

/// Bytes to write. Bytes of the first and last page outside the range are ignored.
#[derive(Debug)]
pub struct WriteSpan {
    /// First byte on the LUN.
    pub offset: u64,
    /// Bytes, at least 1.
    pub length: u32,
    /// One page per block touched.
    pub pages: Vec<Page>,
}

/// Bytes that were read. Bytes of the first and last page outside the range must not be shown.
#[derive(Debug)]
pub struct ReadSpan {
    /// First byte on the LUN.
    pub offset: u64,
    /// Bytes, at least 1.
    pub length: u32,
    /// One page per block touched.
    pub pages: Vec<PageRef>,
}

/// Returns the number of blocks touched by `length` bytes from `offset`.
#[must_use]
pub fn block_count(offset: u64, length: u64) -> u64 {
    if length == 0 {
        0
    } else {
        (offset + length - 1) / BLOCK - offset / BLOCK + 1
    }
}

/// Returns the parts of a span, page by page: (page index, byte range inside the page).
pub fn parts(offset: u64, length: u32) -> impl Iterator<Item = (usize, std::ops::Range<usize>)> {
    let end = offset + u64::from(length);
    let first = offset / BLOCK;
    (0..block_count(offset, u64::from(length))).map(move |i| {
        let base = (first + i) * BLOCK;
        let from = offset.max(base) - base;
        let to = end.min(base + BLOCK) - base;
        // All three are at most 4,096 or a count of pages in memory.
        #[expect(clippy::cast_possible_truncation, reason = "bounded by the block size")]
        (i as usize, from as usize..to as usize)
    })
}

/// Returns the index of the page that holds the byte at `position` of the LUN, in a span that
/// begins at `start`.
///
/// # Panics
/// If the position is before the start, or beyond what fits in memory.
#[must_use]
pub fn page_index(start: u64, position: u64) -> usize {
    usize::try_from(position / BLOCK - start / BLOCK).expect("a span is in memory")
}

impl WriteSpan {
    /// Makes a span to receive into. Pages that will be received whole are not cleared first, so
    /// the span must be filled before anybody sees it. Pages at the edges are cleared, because
    /// parts of them stay as they are.
    #[must_use]
    pub fn to_receive(offset: u64, length: u32) -> Self {
        let mut pages = Page::several(parts(offset, length).count());
        for (page, (_, range)) in pages.iter_mut().zip(parts(offset, length)) {
            if range.len() < BLOCK_SIZE {
                page.fill(0);
            }
        }
        WriteSpan {
            offset,
            length,
            pages,
        }
    }

    /// Makes a span of zeroes to be filled by the caller.
    #[must_use]
    pub fn zeroed(offset: u64, length: u32) -> Self {
        let pages = (0..block_count(offset, u64::from(length)))
            .map(|_| Page::zeroed())
            .collect();
        WriteSpan {
            offset,
            length,
            pages,
        }
    }

    /// Makes a span with a copy of `bytes`.
    #[must_use]
    pub fn copy_of(offset: u64, bytes: &[u8]) -> Self {
        let length = u32::try_from(bytes.len()).expect("a span is at most 1 MiB");
        let mut span = Self::zeroed(offset, length);
        let mut rest = bytes;
        for (page, range) in parts(offset, length) {
            let (now, later) = rest.split_at(range.len());
            span.pages[page][range].copy_from_slice(now);
            rest = later;
        }
        span
    }

    /// Returns the place of the first byte that differs from what `block(n)` returns for the n-th
    /// block touched, counted from the beginning of the range; `None` if all bytes are the same.
    /// Blocks that return nothing are zeroes.
    #[must_use]
    pub fn first_difference<'p>(
        &self,
        mut block: impl FnMut(usize) -> Option<&'p [u8]>,
    ) -> Option<u32> {
        let mut before = 0;
        for (index, range) in parts(self.offset, self.length) {
            let own = &self.pages[index][range.clone()];
            let place = match block(index) {
                Some(other) if own == &other[range.clone()] => None,
                Some(other) => own.iter().zip(&other[range]).position(|(a, b)| a != b),
                None => own.iter().position(|byte| *byte != 0),
            };
            if let Some(place) = place {
                let place = before + place;
                return Some(u32::try_from(place).expect("within a span"));
            }
            before += own.len();
        }
        None
    }

    /// Returns the pieces of memory from byte `start` of the span on, to receive into, in order.
    ///
    /// # Panics
    /// If the span is shorter.
    pub fn slices_mut_from(&mut self, start: u32) -> impl Iterator<Item = &mut [u8]> {
        let from = self.offset + u64::from(start);
        let first = page_index(self.offset, from);
        let parts = parts(from, self.length - start);
        let pages = self.pages.iter_mut().skip(first);
        pages.zip(parts).map(|(page, (_, range))| {
            let page: &mut [u8] = &mut page[..];
            &mut page[range]
        })
    }

    /// Returns the pieces of memory of `length` bytes from byte `start` of the span on, in order.
    ///
    /// # Panics
    /// If the span is shorter.
    pub fn slices_from(&self, start: u32, length: u32) -> impl Iterator<Item = &[u8]> {
        let from = self.offset + u64::from(start);
        let first = page_index(self.offset, from);
        parts(from, length).map(move |(page, range)| &self.pages[first + page][range])
    }
}

impl ReadSpan {
    /// Returns the pieces of memory to send, in order.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        self.slices_from(0)
    }

    /// Returns the pieces of memory from byte `start` of the span on, in order.
    ///
    /// # Panics
    /// If the span is shorter.
    pub fn slices_from(&self, start: u32) -> impl Iterator<Item = &[u8]> {
        let from = self.offset + u64::from(start);
        let first = page_index(self.offset, from);
        let parts = parts(from, self.length - start);
        parts.map(move |(page, range)| &self.pages[first + page][range])
    }

    /// Returns the bytes in one piece (a copy).
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        self.slices().fold(
            Vec::with_capacity(self.length as usize),
            |mut all, piece| {
                all.extend_from_slice(piece);
                all
            },
        )
    }
}
