//! One reactor's view of the real world: device operations, sockets, clock, wake-ups.
//!
//! The life of a write: `submit` cuts it at segment boundaries into parts and queues those whose
//! segment is open; for the others a worker opens (or makes) the segment and reports. `poll` or
//! `wait` pushes queued parts into the lane, which is io_uring or threads, and enters the kernel once.
//! A later `poll` takes the outcomes, sends what was short on its way again, and when all parts are
//! done gives the completion to the caller.
//!
//! Nothing here blocks except `wait`. What could block goes to the workers, who put a report into the
//! reactor's channel and ring its bell.
//!
//! At most [`IN_LANE_MAX`] transfers are in the lane, the others wait in `queued`: the kernel's queue
//! of completions never overflows, whatever the caller submits.
//!
//! A `Real` may be made on one thread and used on another; the first `poll` or `wait` settles it. Its
//! drop waits for everything in the lane, because the kernel owns that memory until then.
#![expect(
    unsafe_code,
    reason = "hands memory to the lane; kept in place by `flight`"
)]

mod flight;
mod lane;
mod poller;
mod slots;
mod waker;

pub use poller::{Interest, Ready};
pub(crate) use waker::Waker;

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};

use crate::device::{Budget, Device, Handle, Piece};
use crate::random::Entropy;
use crate::transfer::{Action, Fault, Gather, Outcome, Step};
use crate::world::Shared;
use crate::{BLOCK_SIZE, Completion, DeviceId, DiskError, Nanos, Op, Outside, PageRef};
use flight::{Job, Part, Report};
use lane::Lane;
use poller::{Poller, Woken};
use slots::Slots;

/// Transfers in the kernel at once; half of its room for completions.
const IN_LANE_MAX: usize = 512;
const _: () = assert!(IN_LANE_MAX * 2 <= crate::ring::COMPLETIONS as usize);
/// Pages of one operation: 1 MiB.
const PAGES_MAX: usize = 256;
/// How soon to try again when the kernel had no memory for a submission.
const RETRY: Duration = Duration::from_millis(1);

/// One reactor's handle to the outside; made by [`crate::World::reactor`].
pub struct Real {
    shared: Arc<Shared>,
    poller: Poller,
    lane: Lane,
    settled: bool,
    devices: Vec<Option<Arc<Device>>>,
    jobs: Slots<Job>,
    parts: Slots<Part>,
    /// Parts that may go into the lane, in order.
    queued: VecDeque<u64>,
    in_lane: usize,
    with_workers: usize,
    report_sender: Sender<Report>,
    reports: Receiver<Report>,
    /// Completions for the next `poll`.
    completed: Vec<Completion>,
    /// Kept for its capacity.
    outcomes: Vec<(u64, Outcome)>,
    waker: Arc<Waker>,
    entropy: Entropy,
}

impl Real {
    pub(crate) fn new(shared: Arc<Shared>, waker: Arc<Waker>) -> std::io::Result<Real> {
        let poller = Poller::new(Arc::clone(&waker))?;
        let lane = match shared.ring()? {
            Some(ring) => Lane::Ring(Box::new(ring)),
            None => Lane::Threads(shared.threads(Arc::clone(&waker))?),
        };
        let (report_sender, reports) = crossbeam_channel::unbounded();
        Ok(Real {
            shared,
            poller,
            lane,
            settled: false,
            devices: Vec::new(),
            jobs: Slots::new(),
            parts: Slots::new(),
            queued: VecDeque::new(),
            in_lane: 0,
            with_workers: 0,
            report_sender,
            reports,
            completed: Vec::new(),
            outcomes: Vec::new(),
            waker,
            entropy: Entropy::new(),
        })
    }

    /// Watches a socket; `key` comes back in [`Ready`]. Level-triggered.
    ///
    /// # Errors
    /// The host's, such as too many descriptors watched.
    pub fn register(&self, socket: impl AsFd, interest: Interest, key: u64) -> std::io::Result<()> {
        self.poller.register(socket, interest, key)
    }

    /// Changes what is reported of a watched socket.
    ///
    /// # Errors
    /// The host's; the socket is not watched, for example.
    pub fn modify(&self, socket: impl AsFd, interest: Interest, key: u64) -> std::io::Result<()> {
        self.poller.modify(socket, interest, key)
    }

    /// Stops watching a socket. Closing it does that too, if no duplicate is open.
    ///
    /// # Errors
    /// The host's; the socket is not watched, for example.
    pub fn deregister(&self, socket: impl AsFd) -> std::io::Result<()> {
        self.poller.deregister(socket)
    }

    /// Starts what was submitted, then sleeps until a socket is ready, a completion can be polled,
    /// somebody wakes this reactor, or `timeout` is over (`None`: for ever; zero: just look).
    /// Appends the sockets that are ready. May return early for no reason.
    pub fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<Ready>) {
        self.settle();
        self.push_queued();
        let all_on_their_way = self.lane.submit();
        let mut longest = timeout;
        if self.has_something_to_poll() {
            longest = Some(Duration::ZERO);
        } else if !all_on_their_way {
            longest = Some(timeout.map_or(RETRY, |timeout| timeout.min(RETRY)));
        }
        let started = Instant::now();
        let before = ready.len();
        let mut left = longest;
        // A signal of the ring may be for what was polled already; then sleep on.
        while self.poller.wait(left, ready) == Woken::ByLane
            && ready.len() == before
            && !self.has_something_to_poll()
        {
            left = longest.map(|longest| longest.saturating_sub(started.elapsed()));
        }
    }

    /// Operations submitted whose completions have not been polled.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.jobs.len() + self.completed.len()
    }

    fn has_something_to_poll(&mut self) -> bool {
        !self.completed.is_empty() || !self.reports.is_empty() || self.lane.has_completions()
    }

    fn settle(&mut self) {
        if !self.settled {
            self.lane.settle(&self.poller);
            self.settled = true;
        }
    }

    fn device(&mut self, id: DeviceId) -> Option<Arc<Device>> {
        let index = id.0 as usize;
        if index >= self.devices.len() {
            self.devices = self.shared.devices();
        }
        let device = self.devices.get(index)?.as_ref()?;
        (!device.is_closed()).then(|| Arc::clone(device))
    }

    fn complete(&mut self, token: u64, result: Result<(), DiskError>, pages: Vec<crate::Page>) {
        self.completed.push(Completion {
            token,
            result,
            pages,
        });
    }

    // Starting.

    fn start(&mut self, device: Arc<Device>, op: Op, token: u64) {
        let job = Job {
            token,
            device: Arc::clone(&device),
            pages: Vec::new(),
            frozen: Vec::new(),
            // One for this function, so that the job cannot end while its parts are being started.
            parts_left: 1,
            error: None,
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
                for piece in device.pieces(offset, length) {
                    self.start_on_worker(job, &device, piece, Device::allocate);
                }
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

    fn start_read(&mut self, job: u64, device: &Arc<Device>, offset: u64, pages: Vec<crate::Page>) {
        let bytes = checked_length(device, offset, pages.len());
        self.jobs.get(job).pages = pages;
        let mut page = 0;
        for piece in device.pieces(offset, bytes) {
            let count = pages_of(piece.bytes);
            let handle = device.segment(piece.segment).handle(self.shared.budget());
            let absent = handle.is_none() && !device.segment(piece.segment).exists();
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
            let handle = device.segment(piece.segment).handle(self.shared.budget());
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

    /// Has a worker do all there is to do on a piece: reserve, punch, sync.
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
            // Nobody listens any more if the reactor has ended; then nobody waits either.
            let _ = sender.send(task());
            waker.wake();
        });
    }

    // Going on.

    fn push_queued(&mut self) {
        while self.in_lane < IN_LANE_MAX
            && self.lane.has_room()
            && let Some(&key) = self.queued.front()
        {
            self.queued.pop_front();
            let part = self.parts.get(key);
            let handle = part
                .handle
                .as_ref()
                .expect("a queued part has its segment open");
            let transfer = part
                .gather
                .transfer(part.action, handle, part.piece.offset, key);
            // SAFETY: the part keeps file and array, the job keeps the pages, and neither touches
            // them before the outcome is back; `drop` waits for that too.
            unsafe { self.lane.push(transfer) };
            self.in_lane += 1;
        }
    }

    fn take_reports(&mut self) {
        while self.with_workers > 0
            && let Ok(report) = self.reports.try_recv()
        {
            self.with_workers -= 1;
            match report {
                Report::Opened(part, Ok(Some(handle))) => {
                    self.parts.get(part).handle = Some(handle);
                    self.queued.push_back(part);
                }
                Report::Opened(part, Ok(None)) => self.read_absent(part),
                Report::Opened(part, Err(error)) | Report::Done(part, Err(error)) => {
                    self.finish(part, Err(error));
                }
                Report::Done(part, Ok(())) => self.finish(part, Ok(())),
            }
        }
    }

    fn read_absent(&mut self, key: u64) {
        let part = self.parts.get(key);
        assert_eq!(
            part.action,
            Action::Read,
            "only a read leaves a segment absent"
        );
        let (job, first, count) = (part.job, part.page, pages_of(part.piece.bytes));
        for page in &mut self.jobs.get(job).pages[first..first + count] {
            page.fill(0);
        }
        self.finish(key, Ok(()));
    }

    fn take_outcomes(&mut self) {
        let mut outcomes = std::mem::take(&mut self.outcomes);
        self.lane.turn(&mut outcomes);
        for (key, outcome) in outcomes.drain(..) {
            self.in_lane -= 1;
            self.take_outcome(key, outcome);
        }
        self.outcomes = outcomes;
    }

    fn take_outcome(&mut self, key: u64, outcome: Outcome) {
        let part = self.parts.get(key);
        match Step::of(outcome, part.piece.bytes) {
            Step::Repeat => self.queued.push_back(key),
            Step::Rest(bytes) => {
                part.gather
                    .advance(usize::try_from(bytes).expect("at most 1 MiB"));
                part.piece.offset += bytes;
                part.piece.bytes -= bytes;
                self.queued.push_back(key);
            }
            Step::Done => self.transferred(key, Ok(())),
            Step::Failed(fault) => self.transferred(key, Err(fault)),
        }
    }

    /// A transfer is over: notes what that means for flushes.
    fn transferred(&mut self, key: u64, result: Result<(), Fault>) {
        let part = self.parts.get(key);
        let (segment, action, written) = (part.piece.segment, part.action, part.written);
        let job = part.job;
        let device = &self.jobs.get(job).device;
        let result = match action {
            Action::Sync => device.synced(segment, written, result),
            Action::Write if result.is_ok() => {
                device.segment(segment).soil();
                Ok(())
            }
            _ => result.map_err(Fault::disk_error),
        };
        self.finish(key, result);
    }

    fn finish(&mut self, part: u64, result: Result<(), DiskError>) {
        let part = self.parts.remove(part);
        self.part_done(part.job, result);
    }

    fn part_done(&mut self, key: u64, result: Result<(), DiskError>) {
        let job = self.jobs.get(key);
        job.error = job.error.or(result.err());
        job.parts_left -= 1;
        if job.parts_left == 0 {
            let job = self.jobs.remove(key);
            self.complete(job.token, job.error.map_or(Ok(()), Err), job.pages);
        }
    }

    /// Waits for everything the lane has.
    fn drain(&mut self) {
        let mut outcomes = std::mem::take(&mut self.outcomes);
        while self.in_lane > 0 {
            if !self.lane.wait(&mut outcomes) {
                // Dropped on a thread that is not the ring's: it cannot collect completions. The
                // kernel goes on writing into this memory, so nobody may ever have it again.
                std::mem::forget(std::mem::replace(&mut self.jobs, Slots::new()));
                std::mem::forget(std::mem::replace(&mut self.parts, Slots::new()));
                return;
            }
            self.in_lane -= outcomes.drain(..).count();
        }
    }
}

impl Outside for Real {
    fn submit(&mut self, op: Op, token: u64) {
        let id = match &op {
            Op::Read { device, .. }
            | Op::Write { device, .. }
            | Op::Flush { device }
            | Op::Allocate { device, .. }
            | Op::Punch { device, .. } => *device,
        };
        match self.device(id) {
            Some(device) => self.start(device, op, token),
            None => {
                let pages = if let Op::Read { pages, .. } = op {
                    pages
                } else {
                    Vec::new()
                };
                self.complete(token, Err(DiskError::Gone), pages);
            }
        }
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        self.settle();
        self.take_reports();
        self.push_queued();
        self.take_outcomes();
        done.append(&mut self.completed);
    }

    fn now(&self) -> Nanos {
        self.shared.clock().now()
    }

    fn wall_seconds(&self) -> u64 {
        self.shared.clock().wall_seconds()
    }

    fn random(&mut self) -> u64 {
        self.entropy.draw()
    }

    fn wake(&self, reactor: usize) {
        self.shared.wake(reactor);
    }

    fn host_free_bytes(&self, device: DeviceId) -> Option<u64> {
        match self.devices.get(device.0 as usize) {
            Some(known) => known.as_ref()?.host_free_bytes(),
            None => self.shared.device(device)?.host_free_bytes(),
        }
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        self.drain();
    }
}

fn checked_length(device: &Device, offset: u64, pages: usize) -> u64 {
    assert!(pages <= PAGES_MAX, "an operation is at most 1 MiB");
    let bytes = (pages * BLOCK_SIZE) as u64;
    device.assert_range(offset, bytes);
    bytes
}

fn pages_of(bytes: u64) -> usize {
    usize::try_from(bytes).expect("an operation is at most 1 MiB") / BLOCK_SIZE
}
