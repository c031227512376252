//! The data behind a header, on its way to where it belongs.

use crate::wire::Bhs;
use crate::wire::digest::Sum;
use crate::wire::header::padding;

/// Where data goes.
#[derive(Debug)]
pub(super) enum Dest {
    /// Nowhere.
    Skip,
    /// Into a text or a ping; what is longer than `keep` is dropped.
    Collect { bytes: Vec<u8>, keep: usize },
    /// To the place `at` of a task's data. What is behind `keep` bytes is dropped.
    Task {
        id: usize,
        at: u32,
        keep: u32,
        /// Bytes of the message's data.
        length: u32,
    },
}

impl Dest {
    /// Keeps the first bytes of the data.
    pub(super) fn collect(keep: u32) -> Dest {
        Dest::Collect {
            bytes: Vec::new(),
            keep: keep as usize,
        }
    }
}

/// A message whose data is being received.
pub(super) struct Segment {
    pub(super) bhs: Bhs,
    pub(super) dest: Dest,
    /// Bytes of data.
    pub(super) length: u32,
    /// Bytes that were received.
    pub(super) filled: u32,
    /// The digest so far, if data has one.
    pub(super) sum: Option<Sum>,
}

impl Segment {
    pub(super) fn left(&self) -> u32 {
        self.length - self.filled
    }

    /// Bytes behind the data: padding, and a digest.
    pub(super) fn tail_bytes(&self) -> usize {
        let digest = if self.sum.is_some() { 4 } else { 0 };
        padding(self.length) as usize + digest
    }

    /// Returns the part of the task's data that is still to be received in place.
    pub(super) fn in_place(&self) -> Option<(usize, u32, u32)> {
        match &self.dest {
            Dest::Task { id, at, keep, .. } if self.filled < *keep => {
                Some((*id, at + self.filled, keep - self.filled))
            }
            _ => None,
        }
    }
}
