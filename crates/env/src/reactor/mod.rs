//! One reactor's view of the real world: device operations, sockets, clock, wake-ups.
//!
//! The life of a write: `submit` (`launch`) cuts it at segment boundaries into parts and queues
//! those whose segment is open; for the others a worker opens (or makes) the segment and reports.
//! `poll` or `wait` pushes queued parts into the lane, which is io_uring or threads, and enters the
//! kernel once. A later `poll` (`landing`) takes the outcomes, submits the rest of short transfers
//! again, and returns the completion when all parts are done.
//!
//! Nothing here blocks except `wait`. Calls that could block go to the workers, which put a report
//! into the reactor's channel and ring its bell.
//!
//! At most `IN_LANE_MAX` transfers are in the lane, the others wait in `queued`: so the kernel's
//! queue of completions never overflows.
//!
//! A `Real` may be made on one thread and used on another; the first `poll` or `wait` fixes the
//! thread. Its drop waits for everything in the lane, because the kernel owns that memory until
//! then. If a device hangs, the drop does not wait for ever, and leaves the memory to the kernel.

mod flight;
mod landing;
mod lane;
mod launch;
mod poller;
mod slice;
mod slots;

pub use poller::{Interest, Ready};

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};

use crate::device::Device;
use crate::random::Entropy;
use crate::shared::Shared;
use crate::transfer::RawResult;
use crate::waker::Waker;
use crate::{Completion, DeviceId, DiskError, Nanos, Op, Outside, Page};
use flight::{Job, Part, Report};
use lane::Lane;
use poller::{Poller, Woken};
use slots::Slots;

/// Transfers in the kernel at once; half of its room for completions.
const IN_LANE_MAX: usize = 512;
const _: () = assert!(IN_LANE_MAX * 2 <= crate::ring::COMPLETIONS as usize);
/// Delay before a retry when the kernel had no memory for a submission.
const RETRY: Duration = Duration::from_millis(1);

/// One reactor's handle to the outside; made by [`crate::World::reactor`].
pub struct Real {
    index: usize,
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
    outcomes: Vec<(u64, RawResult)>,
    waker: Arc<Waker>,
    entropy: Entropy,
}

impl Real {
    pub(crate) fn new(
        index: usize,
        shared: Arc<Shared>,
        waker: Arc<Waker>,
    ) -> std::io::Result<Real> {
        let poller = Poller::new(Arc::clone(&waker))?;
        let lane = match shared.ring()? {
            Some(ring) => Lane::Ring(Box::new(ring)),
            None => Lane::Threads(shared.threads(Arc::clone(&waker))?),
        };
        let (report_sender, reports) = crossbeam_channel::unbounded();
        Ok(Real {
            index,
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

    /// Watches a socket; [`Ready`] has its `key`. Level-triggered.
    ///
    /// # Errors
    /// The host's error, for example too many descriptors watched.
    pub fn register(&self, socket: impl AsFd, interest: Interest, key: u64) -> std::io::Result<()> {
        self.poller.register(socket, interest, key)
    }

    /// Changes the events that are reported for a watched socket.
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

    /// Starts submitted operations, then sleeps until a socket is ready, a completion can be
    /// polled, another thread wakes this reactor, or `timeout` is over (`None`: no limit; zero: no
    /// sleep). Appends the sockets that are ready. May return early for no reason.
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
        // A signal of the ring may be for completions that were polled already; then the sleep
        // continues.
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
            slice::ask_for_short_turns();
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

    fn complete(&mut self, token: u64, result: Result<(), DiskError>, pages: Vec<Page>) {
        self.completed.push(Completion {
            token,
            result,
            pages,
        });
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

    fn thread_cpu(&self) -> Nanos {
        self.shared.clock().thread_cpu()
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
        self.shared.give_back(self.index);
    }
}
