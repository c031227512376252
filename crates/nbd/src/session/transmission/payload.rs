//! The payload of a write on its way into pages.
//!
//! ```text
//! waits for bytes or memory --open()--> a slice is filled --take_full()--> submitted, next waits
//!                    ^                        |
//!                    +------ yield_slice() ---+  submits whole blocks, and returns the rest
//! ```
//!
//! Pages are allocated for one slice at a time, so a header that announces 32 MiB costs the memory
//! of one slice. While other sessions wait for memory, pages are allocated only for bytes that have
//! arrived, and a slice of a long request is cut short if no more bytes arrive.

use everglade_env::BLOCK_SIZE;
use everglade_target::WriteSpan;
use everglade_target::sessions::memory::{Class, page_bytes};
use everglade_target::span::{self, page_index};

use super::Slices;

const BLOCK: u64 = BLOCK_SIZE as u64;

/// A write being received.
pub(in crate::session) struct Payload {
    request_id: usize,
    durable: bool,
    class: Class,
    /// The slice being filled, if it has pages.
    slice: Option<WriteSpan>,
    /// Bytes of it that are filled.
    filled: u32,
    /// Slices after the one being filled.
    rest: Slices,
}

/// The parts of a slice that releases its memory.
pub(in crate::session) struct Yielded {
    /// Whole blocks, to be submitted.
    pub(in crate::session) data: Option<WriteSpan>,
    /// Bytes received behind the last whole block, less than a block.
    pub(in crate::session) left: Vec<u8>,
    /// Memory of the pages that are not submitted.
    pub(in crate::session) freed: u64,
}

impl Payload {
    /// Makes a payload without pages yet. `slices` must not be empty.
    pub(super) fn new(request_id: usize, slices: Slices, class: Class, durable: bool) -> Self {
        assert!(
            !slices.is_empty(),
            "a write without payload has nothing to receive"
        );
        Payload {
            request_id,
            durable,
            class,
            slice: None,
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

    pub(super) fn class(&self) -> Class {
        self.class
    }

    /// Returns whether the request is one operation.
    pub(super) fn is_whole(&self) -> bool {
        self.rest.is_whole()
    }

    /// Returns whether there are pages to receive into.
    pub(in crate::session) fn is_open(&self) -> bool {
        self.slice.is_some()
    }

    /// Returns the memory that the next slice will take.
    pub(super) fn next_bytes(&self, unit: u32) -> u64 {
        let (offset, length) = self.rest.peek(unit).expect("more to receive");
        page_bytes(offset, length)
    }

    /// Makes pages for the next slice.
    pub(super) fn open(&mut self, unit: u32) {
        assert!(self.slice.is_none(), "one slice is filled at a time");
        self.slice = self
            .rest
            .take(unit)
            .map(|(offset, length)| WriteSpan::to_receive(offset, length));
        self.filled = 0;
    }

    /// Returns whether all slices were taken.
    pub(super) fn is_complete(&self) -> bool {
        self.slice.is_none() && self.rest.is_empty()
    }

    /// Returns whether there are slices after the one being filled.
    pub(in crate::session) fn more_slices(&self) -> bool {
        !self.rest.is_empty()
    }

    /// Returns the memory of the current slice still to be filled, in order.
    pub(in crate::session) fn unfilled(&mut self) -> impl Iterator<Item = &mut [u8]> {
        let filled = self.filled;
        let slice = self.slice.iter_mut();
        slice.flat_map(move |slice| slice.slices_mut_from(filled))
    }

    /// Counts those of `bytes` received bytes that were received into this slice.
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

    /// Returns the current slice if it is full.
    pub(super) fn take_full(&mut self) -> Option<WriteSpan> {
        if self.missing() > 0 {
            return None;
        }
        self.slice.take()
    }

    /// Releases memory that waits for bytes. Returns `None` if there is no slice, or if the slice
    /// has more than a block and its request is one operation.
    pub(in crate::session) fn yield_slice(&mut self) -> Option<Yielded> {
        let whole_blocks_are_enough = !self.is_whole();
        let mut slice = self
            .slice
            .take_if(|_| whole_blocks_are_enough || u64::from(self.filled) < BLOCK)?;
        let filled_to = slice.offset + u64::from(self.filled);
        let cut = match self.rest.is_whole() {
            true => slice.offset,
            false => slice.offset.max(filled_to - filled_to % BLOCK),
        };
        let stays = u32::try_from(cut - slice.offset).expect("within a slice");
        let left = span::parts(cut, u32::try_from(filled_to - cut).expect("within a block"));
        let first = page_index(slice.offset, cut);
        let left = left.flat_map(|(page, range)| slice.pages[first + page][range].to_vec());
        let left: Vec<u8> = left.collect();
        self.rest.put_back(slice.length - stays);
        self.filled = 0;
        let tail = slice.pages.split_off(if stays == 0 { 0 } else { first });
        slice.length = stays;
        Some(Yielded {
            data: (stays > 0).then_some(slice),
            left,
            freed: tail.len() as u64 * BLOCK,
        })
    }

    /// Returns the memory of the present pages.
    pub(super) fn held(&self) -> u64 {
        self.slice
            .as_ref()
            .map_or(0, |slice| page_bytes(slice.offset, slice.length))
    }

    fn missing(&self) -> u32 {
        self.slice
            .as_ref()
            .map_or(0, |slice| slice.length - self.filled)
    }
}
