//! The lane: one interface for both methods of I/O.
#![expect(unsafe_code, reason = "passes on the contract of `push`")]

use super::Poller;
use crate::ring::Ring;
use crate::threads::Threads;
use crate::transfer::{RawResult, Transfer};

pub(super) enum Lane {
    Ring(Box<Ring>),
    Threads(Threads),
}

impl Lane {
    /// Makes the calling thread the owner; called once, by the thread that will use the lane.
    pub(super) fn settle(&mut self, poller: &Poller) {
        if let Lane::Ring(ring) = self {
            ring.enable();
            poller
                .watch_lane(&**ring)
                .expect("epoll takes one more descriptor");
        }
    }

    /// Queues or starts a transfer.
    ///
    /// # Safety
    /// File, memory and the array naming it stay as they are until the key has come out of `turn`
    /// or `wait`.
    pub(super) unsafe fn push(&mut self, transfer: Transfer) {
        // SAFETY: passed on.
        unsafe {
            match self {
                Lane::Ring(ring) => ring.push(&transfer),
                Lane::Threads(threads) => threads.push(transfer),
            }
        }
    }

    pub(super) fn has_room(&mut self) -> bool {
        match self {
            Lane::Ring(ring) => ring.has_room(),
            Lane::Threads(_) => true,
        }
    }

    /// Submits everything that was pushed. False if some of it is not yet.
    pub(super) fn submit(&mut self) -> bool {
        match self {
            Lane::Ring(ring) => {
                if ring.has_unsubmitted() {
                    ring.submit();
                }
                !ring.has_unsubmitted()
            }
            Lane::Threads(_) => true,
        }
    }

    pub(super) fn has_completions(&mut self) -> bool {
        match self {
            Lane::Ring(ring) => ring.has_completions(),
            Lane::Threads(threads) => threads.has_completions(),
        }
    }

    /// Submits and collects without waiting.
    pub(super) fn turn(&mut self, done: &mut Vec<(u64, RawResult)>) {
        match self {
            Lane::Ring(ring) => ring.turn(done),
            Lane::Threads(threads) => threads.turn(done),
        }
    }

    /// Waits for an outcome, up to a second. False if this thread cannot wait for this lane.
    pub(super) fn wait(&mut self, done: &mut Vec<(u64, RawResult)>) -> bool {
        match self {
            Lane::Ring(ring) => {
                if !ring.wait() {
                    return false;
                }
                ring.turn(done);
            }
            Lane::Threads(threads) => threads.wait(done),
        }
        true
    }
}
