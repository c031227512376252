//! The payload of a write on its way into pages.
//!
//! Pages are made for one slice at a time, when its first byte is expected: a header that promises
//! 32 MiB costs no more than one slice until they arrive.

use everglade_env::{BLOCK_SIZE, Page};
use everglade_target::{WriteSpan, span};

use super::super::position::page_index;
use super::Slices;

/// A write being received.
pub(in crate::session) struct Payload {
    request_id: usize,
    durable: bool,
    /// The slice being filled; `None` only when all are complete.
    slice: Option<WriteSpan>,
    /// Bytes of it that are filled.
    filled: u32,
    /// The slices after it.
    rest: Slices,
}

impl Payload {
    /// `slices` must not be empty.
    pub(super) fn new(request_id: usize, mut slices: Slices, durable: bool) -> Self {
        let slice = slices.next().map(empty_span);
        assert!(
            slice.is_some(),
            "a write without payload has nothing to receive"
        );
        Payload {
            request_id,
            durable,
            slice,
            filled: 0,
            rest: slices,
        }
    }

    pub(super) fn request_id(&self) -> usize {
        self.request_id
    }

    pub(super) fn durable(&self) -> bool {
        self.durable
    }

    /// All slices were taken.
    pub(super) fn is_complete(&self) -> bool {
        self.slice.is_none()
    }

    /// There are slices after the one being filled.
    pub(in crate::session) fn more_slices(&self) -> bool {
        self.rest.clone().next().is_some()
    }

    /// The memory of the current slice still to be filled, in order.
    pub(in crate::session) fn unfilled(&mut self) -> impl Iterator<Item = &mut [u8]> {
        let filled = self.filled;
        self.slice.iter_mut().flat_map(move |slice| {
            let start = slice.offset + u64::from(filled);
            let first_page = page_index(slice.offset, start);
            let parts = span::parts(start, slice.length - filled);
            slice
                .pages
                .iter_mut()
                .skip(first_page)
                .zip(parts)
                .map(|(page, (_, range))| {
                    let page: &mut [u8] = &mut page[..];
                    &mut page[range]
                })
        })
    }

    /// Of `bytes` received bytes, counts those that were received into this slice.
    pub(in crate::session) fn filled_in_place(&mut self, bytes: usize) -> usize {
        let missing = self.missing();
        let here = u32::try_from(bytes).unwrap_or(u32::MAX).min(missing);
        self.filled += here;
        here as usize
    }

    /// Copies the front of `bytes` into this slice; returns how many fitted.
    pub(super) fn fill_from(&mut self, bytes: &[u8]) -> usize {
        let mut rest = bytes;
        for piece in self.unfilled() {
            let count = piece.len().min(rest.len());
            let (now, later) = rest.split_at(count);
            piece[..count].copy_from_slice(now);
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        self.filled_in_place(bytes.len() - rest.len())
    }

    /// The current slice if it is full; the next one takes its place.
    pub(super) fn take_full(&mut self) -> Option<WriteSpan> {
        if self.missing() > 0 {
            return None;
        }
        let next = self.rest.next().map(empty_span);
        self.filled = 0;
        std::mem::replace(&mut self.slice, next)
    }

    fn missing(&self) -> u32 {
        self.slice
            .as_ref()
            .map_or(0, |slice| slice.length - self.filled)
    }
}

/// A span to receive into. Pages that will be received whole are not cleared first: no span leaves
/// here before it is full. Pages at the edges are, because parts of them stay as they are.
fn empty_span((offset, length): (u64, u32)) -> WriteSpan {
    let mut pages = Page::several(span::parts(offset, length).count());
    for (page, (_, range)) in pages.iter_mut().zip(span::parts(offset, length)) {
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
