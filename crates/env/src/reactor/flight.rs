//! Operations in flight: *jobs* (operations as submitted) and their *parts* (one for each segment).
//!
//! part: waiting for a worker to open its segment --> queued --> in the lane --> done
//!                                                      ^--rest of a short transfer--|
//!
//! A job completes when its last part is done. Until then its pages stay in the job, and the array
//! that names them stays in the part, so memory that the kernel uses does not move (see `ring`).

use std::sync::Arc;

use crate::action::Action;
use crate::device::{Begun, Device, Handle, Piece};
use crate::transfer::Gather;
use crate::{DiskError, Page, PageRef};

pub(super) struct Job {
    pub(super) token: u64,
    pub(super) device: Arc<Device>,
    /// The pages that a read fills; the completion returns them.
    pub(super) pages: Vec<Page>,
    /// The pages that a write writes; held until it is done.
    pub(super) frozen: Vec<PageRef>,
    pub(super) parts_left: usize,
    /// The first error of any part.
    pub(super) error: Option<DiskError>,
    /// What is counted when it is done.
    pub(super) begun: Option<Begun>,
}

pub(super) struct Part {
    /// Key of the job.
    pub(super) job: u64,
    pub(super) action: Action,
    /// The remaining work.
    pub(super) piece: Piece,
    /// Index in the job of the first page, for a read.
    pub(super) page: usize,
    /// The addresses of the pages; empty for a sync.
    pub(super) gather: Gather,
    /// The open segment; the descriptor stays open while this is here.
    pub(super) handle: Option<Handle>,
    /// For a sync: the value of the segment's `written` when the flush was submitted.
    pub(super) written: u64,
}

impl Part {
    /// Makes a part that moves no data.
    pub(super) fn without_pages(job: u64, piece: Piece) -> Part {
        let gather = Gather::default();
        Part {
            job,
            action: Action::Sync,
            piece,
            page: 0,
            gather,
            handle: None,
            written: 0,
        }
    }

    /// Turns a part whose data is written into the sync that makes the data durable.
    pub(super) fn turn_into_sync(&mut self, written: u64) {
        self.action = Action::Sync;
        self.gather = Gather::default();
        self.piece.bytes = 0;
        self.written = written;
    }
}

/// The report of a worker about a part.
pub(super) enum Report {
    /// The segment is open, or absent, or cannot be opened.
    Opened(u64, Result<Option<Handle>, DiskError>),
    /// The part is done: reserved, punched or synced.
    Done(u64, Result<(), DiskError>),
}
