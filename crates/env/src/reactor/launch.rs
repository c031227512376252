//! Starting operations: an operation is cut into parts, and the segment of each part is found or
//! opened.

use std::sync::Arc;

use super::Real;
use super::flight::{Job, Part, Report};
use crate::action::Action;
use crate::device::{Begun, Budget, Device, Handle, Piece};
use crate::transfer::Gather;
use crate::{BLOCK_SIZE, DiskError, Op, Page, PageRef};

/// Pages of one operation: 1 MiB.
const PAGES_MAX: usize = 256;

impl Real {
    pub(super) fn start(&mut self, device: Arc<Device>, op: Op, token: u64) {
        let job = Job {
            token,
            device: Arc::clone(&device),
            pages: Vec::new(),
            frozen: Vec::new(),
            // One count is for this function, so that the job cannot end while its parts are being
            // started.
            parts_left: 1,
            error: None,
            begun: Begun::of(&op, self.shared.clock().now()),
        };
        let job = self.jobs.insert(job);
        match op {
            Op::Read { offset, pages, .. } => self.start_read(job, &device, offset, pages),
            Op::Write {
                offset,
                pages,
                durable,
                ..
            } => {
                self.start_write(job, &device, offset, pages, durable);
            }
            Op::Flush { .. } => self.start_flush(job, &device),
            Op::Allocate { offset, length, .. } => {
                device.assert_range(offset, length);
                // One worker does the whole allocation: if the host refuses a part, the whole is
                // freed again.
                let first = device.pieces(offset, length).next();
                let first = first.expect("a range has at least one piece");
                self.start_on_worker(job, &device, first, move |device, _, budget| {
                    device.allocate(offset, length, budget)
                });
            }
            Op::Punch { offset, length, .. } => {
                device.assert_range(offset, length);
                for piece in device.pieces(offset, length) {
                    self.start_on_worker(job, &device, piece, Device::punch);
                }
            }
        }
        self.part_done(job, Ok(()));
    }

    fn start_read(&mut self, job: u64, device: &Arc<Device>, offset: u64, pages: Vec<Page>) {
        let bytes = checked_length(device, offset, pages.len());
        self.jobs.get(job).pages = pages;
        let mut page = 0;
        for piece in device.pieces(offset, bytes) {
            let count = pages_of(piece.bytes);
            let handle = device.segment(piece.segment).handle(self.shared.budget());
            let segment = device.segment(piece.segment);
            let absent = handle.is_none() && !segment.exists() && !segment.is_lost();
            let range = &mut self.jobs.get(job).pages[page..page + count];
            if absent {
                range.iter_mut().for_each(|page| page.fill(0));
            } else {
                let gather = Gather::of_pages(range);
                self.start_part(job, device, Action::Read, piece, page, gather, handle);
            }
            page += count;
        }
    }

    fn start_write(
        &mut self,
        job: u64,
        device: &Arc<Device>,
        offset: u64,
        pages: Vec<PageRef>,
        durable: bool,
    ) {
        let bytes = checked_length(device, offset, pages.len());
        self.jobs.get(job).frozen = pages;
        let action = if durable {
            Action::WriteDurable
        } else {
            Action::Write
        };
        let mut page = 0;
        for piece in device.pieces(offset, bytes) {
            let count = pages_of(piece.bytes);
            let segment = device.segment(piece.segment);
            // Opening a lost segment for a write is what fails.
            let handle = segment.handle_to_write(self.shared.budget());
            let gather = Gather::of_frozen(&self.jobs.get(job).frozen[page..page + count]);
            self.start_part(job, device, action, piece, page, gather, handle);
            page += count;
        }
    }

    fn start_flush(&mut self, job: u64, device: &Arc<Device>) {
        if let Err(error) = device.flushable() {
            self.jobs.get(job).error = Some(error);
            return;
        }
        for (segment, written) in device.soiled() {
            let piece = Piece {
                segment,
                offset: 0,
                bytes: 0,
            };
            match device.segment(segment).handle(self.shared.budget()) {
                Some(handle) => {
                    let part = Part {
                        handle: Some(handle),
                        written,
                        ..Part::without_pages(job, piece)
                    };
                    self.enlist(device, part);
                }
                // The worker syncs it too, so that a flush of more segments than may be open does
                // not open them all at once.
                None => self.start_on_worker(job, device, piece, move |device, piece, budget| {
                    device.sync_segment(piece.segment, written, budget)
                }),
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "they are the fields of a part")]
    fn start_part(
        &mut self,
        job: u64,
        device: &Arc<Device>,
        action: Action,
        piece: Piece,
        page: usize,
        gather: Gather,
        handle: Option<Handle>,
    ) {
        self.enlist(
            device,
            Part {
                job,
                action,
                piece,
                page,
                gather,
                handle,
                written: 0,
            },
        );
    }

    /// Queues a part, or has its segment opened first.
    fn enlist(&mut self, device: &Arc<Device>, part: Part) {
        self.jobs.get(part.job).parts_left += 1;
        let open = part.handle.is_some();
        let (segment, create) = (part.piece.segment, part.action != Action::Read);
        let part = self.parts.insert(part);
        if open {
            self.queued.push_back(part);
            return;
        }
        let device = Arc::clone(device);
        let budget = Arc::clone(self.shared.budget());
        self.ask_worker(move || {
            Report::Opened(part, device.open_segment(segment, create, &budget))
        });
    }

    /// Starts the reservation, punch or sync of a piece on a worker.
    fn start_on_worker(
        &mut self,
        job: u64,
        device: &Arc<Device>,
        piece: Piece,
        call: impl FnOnce(&Arc<Device>, Piece, &Budget) -> Result<(), DiskError> + Send + 'static,
    ) {
        self.jobs.get(job).parts_left += 1;
        let part = self.parts.insert(Part::without_pages(job, piece));
        let device = Arc::clone(device);
        let budget = Arc::clone(self.shared.budget());
        self.ask_worker(move || Report::Done(part, call(&device, piece, &budget)));
    }

    fn ask_worker(&mut self, task: impl FnOnce() -> Report + Send + 'static) {
        self.with_workers += 1;
        let sender = self.report_sender.clone();
        let waker = Arc::clone(&self.waker);
        self.shared.workers().run(move || {
            // If the reactor has ended, no operation waits for the report.
            let _ = sender.send(task());
            waker.wake();
        });
    }
}

fn checked_length(device: &Device, offset: u64, pages: usize) -> u64 {
    assert!(pages <= PAGES_MAX, "an operation is at most 1 MiB");
    let bytes = (pages * BLOCK_SIZE) as u64;
    device.assert_range(offset, bytes);
    bytes
}

/// Pages of a piece that has pages.
pub(super) fn pages_of(bytes: u64) -> usize {
    usize::try_from(bytes).expect("an operation is at most 1 MiB") / BLOCK_SIZE
}
