//! What the queues of one controller share.

use core::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Ordering};

use everglade_env::lock::Mutex;

use super::subsystem::Subsystem;
use crate::wire::log_page::Work;

/// Queues for input and output that a controller offers. Each is one connection.
pub(crate) const QUEUES_MAX: u16 = 64;

/// Who a controller is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Host {
    pub(crate) nqn: String,
    pub(crate) id: [u8; 16],
    /// Where its admin queue came from; its other queues come from there, too.
    pub(crate) address: Option<IpAddr>,
}

const DISABLED: u8 = 0;
const READY: u8 = 1;
const ENDED: u8 = 2;

/// See the module's documentation.
pub(crate) struct Controller {
    id: u16,
    subsystem: Subsystem,
    host: Host,
    /// `DISABLED`, `READY` or `ENDED`.
    state: AtomicU8,
    /// Counts the times at which the controller was disabled: queues of an earlier time are over.
    epoch: AtomicU32,
    /// A command has come since the admin queue's session looked.
    is_heard: AtomicBool,
    /// The host turned the write cache off: every write is durable.
    writes_through: AtomicBool,
    /// Held while a queue comes or goes, and when its work is added.
    queues: Mutex<Queues>,
}

#[derive(Default)]
struct Queues {
    /// One bit for each queue for input and output that is connected.
    connected: u128,
    /// Operations under way, of each queue whose connection has not ended.
    operations: Vec<Arc<AtomicUsize>>,
    work: Work,
}

impl Controller {
    pub(super) fn new(id: u16, subsystem: Subsystem, host: Host) -> Controller {
        Controller {
            id,
            subsystem,
            host,
            state: AtomicU8::new(DISABLED),
            epoch: AtomicU32::new(0),
            is_heard: AtomicBool::new(true),
            writes_through: AtomicBool::new(false),
            queues: Mutex::default(),
        }
    }

    pub(crate) fn id(&self) -> u16 {
        self.id
    }

    pub(crate) fn subsystem(&self) -> &Subsystem {
        &self.subsystem
    }

    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    /// Enables or disables the controller, unless it has ended.
    pub(crate) fn set_ready(&self, is_ready: bool) {
        let (from, to) = match is_ready {
            true => (DISABLED, READY),
            false => (READY, DISABLED),
        };
        let order = Ordering::AcqRel;
        let mut queues = self.queues.lock();
        let changed = self
            .state
            .compare_exchange(from, to, order, Ordering::Acquire);
        if changed.is_ok() && !is_ready {
            self.epoch.fetch_add(1, Ordering::AcqRel);
            queues.connected = 0;
        }
    }

    /// Ends the controller. Its sessions notice with their next command, or within a second.
    pub(crate) fn end(&self) {
        self.state.store(ENDED, Ordering::Release);
    }

    #[inline]
    pub(crate) fn is_ended(&self) -> bool {
        self.state.load(Ordering::Acquire) == ENDED
    }

    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        self.state.load(Ordering::Acquire) == READY
    }

    pub(crate) fn epoch(&self) -> u32 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Notes that the host is there. Mostly a load of a line that nobody writes.
    #[inline]
    pub(crate) fn hear(&self) {
        if !self.is_heard.load(Ordering::Relaxed) {
            self.is_heard.store(true, Ordering::Relaxed);
        }
    }

    /// Returns whether the host was heard since the last call.
    pub(crate) fn was_heard(&self) -> bool {
        self.is_heard.swap(false, Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn writes_through(&self) -> bool {
        self.writes_through.load(Ordering::Relaxed)
    }

    pub(crate) fn set_writes_through(&self, writes_through: bool) {
        self.writes_through.store(writes_through, Ordering::Relaxed);
    }

    /// Joins a queue to the controller; returns where the queue says how many operations it has
    /// under way. `None` if the queue is connected already, or if the controller was disabled since
    /// it had this epoch.
    pub(crate) fn join(&self, queue: u16, epoch: u32) -> Option<Arc<AtomicUsize>> {
        let bit = 1_u128 << queue;
        let mut queues = self.queues.lock();
        let is_free = queues.connected & bit == 0 && self.epoch() == epoch;
        is_free.then(|| {
            queues.connected |= bit;
            let operations = Arc::default();
            queues.operations.push(Arc::clone(&operations));
            operations
        })
    }

    /// Notes that the connection of a queue has ended, which joined in this epoch.
    pub(crate) fn leave(&self, queue: u16, epoch: u32, operations: &Arc<AtomicUsize>) {
        let mut queues = self.queues.lock();
        queues.operations.retain(|it| !Arc::ptr_eq(it, operations));
        if self.epoch() == epoch {
            queues.connected &= !(1 << queue);
        }
    }

    /// Returns whether operations of a queue are under way.
    pub(crate) fn is_busy(&self) -> bool {
        let queues = self.queues.lock();
        queues
            .operations
            .iter()
            .any(|it| it.load(Ordering::Acquire) > 0)
    }

    /// Adds what a queue has done.
    pub(crate) fn add_work(&self, work: &Work) {
        let sum = &mut self.queues.lock().work;
        sum.reads += work.reads;
        sum.bytes_read += work.bytes_read;
        sum.writes += work.writes;
        sum.bytes_written += work.bytes_written;
        sum.media_errors += work.media_errors;
    }

    pub(crate) fn work(&self) -> Work {
        self.queues.lock().work
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn controller() -> Controller {
        Controller::new(1, Subsystem::discovery(), Host::default())
    }

    #[test]
    fn a_controller_that_has_ended_stays_ended() {
        let controller = controller();
        controller.set_ready(true);
        assert!(controller.is_ready());
        controller.set_ready(false);
        assert_eq!((controller.is_ready(), controller.epoch()), (false, 1));
        controller.set_ready(false);
        assert_eq!(controller.epoch(), 1, "it was disabled already");
        controller.end();
        controller.set_ready(true);
        assert!(controller.is_ended() && !controller.is_ready());
    }

    #[test]
    fn a_queue_is_connected_once() {
        let controller = controller();
        let join = |queue, epoch| controller.join(queue, epoch);
        let operations = join(QUEUES_MAX, 0).expect("it is free");
        assert!(join(QUEUES_MAX, 0).is_none() && join(1, 0).is_some());
        operations.store(1, Ordering::Release);
        assert!(controller.is_busy());
        controller.leave(QUEUES_MAX, 0, &operations);
        assert!(!controller.is_busy());
        assert!(join(QUEUES_MAX, 0).is_some());
        controller.set_ready(true);
        controller.set_ready(false);
        assert!(join(2, 0).is_none(), "of the time before it was disabled");
        assert!(join(1, 1).is_some(), "the queues of that time are over");
        controller.leave(1, 0, &operations);
        assert!(join(1, 1).is_none(), "a late end changes nothing");
    }
}
