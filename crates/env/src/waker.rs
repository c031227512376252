//! Waking a reactor from any thread, with a system call only if it sleeps.
//!
//! awake --`doze`--> asleep --`wake` (writes the eventfd)--> notified --`rouse`--> awake
//! awake --`wake` (no call)--> notified --`doze` fails, the wait does not sleep--> awake
//!
//! A sender first makes its message visible, and then changes the state (`wake`). The reactor first
//! changes the state back (`rouse`), and then looks for messages. So either the look after the next
//! `rouse` sees the message, or the `wake` happens after that `rouse` and ends the next sleep. A
//! write that arrives late, when something else ended the sleep, costs one empty wake-up.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU8, Ordering};

use rustix::event::{EventfdFlags, eventfd};

const AWAKE: u8 = 0;
const ASLEEP: u8 = 1;
const NOTIFIED: u8 = 2;

/// The bell of one reactor.
pub(crate) struct Waker {
    state: AtomicU8,
    event: OwnedFd,
}

impl Waker {
    pub(crate) fn new() -> std::io::Result<Waker> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Waker {
            state: AtomicU8::new(AWAKE),
            event,
        })
    }

    /// Ends the current or the next sleep.
    pub(crate) fn wake(&self) {
        if self.state.swap(NOTIFIED, Ordering::AcqRel) == ASLEEP {
            // Any number will do. It fails only if the counter is full, which is readable too.
            let _ = rustix::io::write(&self.event, &[1; 8]);
        }
    }

    /// Prepares for sleep. Returns false if a `wake` came already: then the reactor must not sleep.
    pub(super) fn doze(&self) -> bool {
        self.state
            .compare_exchange(AWAKE, ASLEEP, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// Ends a sleep, before the reactor reads messages. Returns whether there was a `wake`: then it
    /// must read them.
    pub(super) fn rouse(&self) -> bool {
        self.state.swap(AWAKE, Ordering::AcqRel) == NOTIFIED
    }

    /// Empties the eventfd, so that it is not readable any more.
    pub(super) fn clear(&self) {
        let mut count = [0; 8];
        // The read fails only if the counter is zero already.
        let _ = rustix::io::read(&self.event, &mut count);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}
