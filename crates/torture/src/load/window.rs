//! The requests of one connection that are in flight, and the bound on their number.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::client::Command;

/// A request in flight.
pub(super) struct Pending {
    pub(super) command: Command,
    pub(super) first: u64,
    /// In bytes.
    pub(super) length: u32,
    pub(super) fua: bool,
    /// What the history calls it: a version, or a tick.
    pub(super) ticket: u64,
}

impl Pending {
    pub(super) fn reply_bytes(&self) -> u32 {
        if self.command == Command::Read {
            self.length
        } else {
            0
        }
    }
}

pub(super) struct Window {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    in_flight: BTreeMap<u64, Pending>,
    size: usize,
    next_cookie: u64,
    /// No more requests.
    closed: bool,
}

impl Window {
    pub(super) fn new(size: usize) -> Window {
        assert!(size > 0, "a window of nothing");
        Window {
            state: Mutex::new(State {
                in_flight: BTreeMap::new(),
                size,
                next_cookie: 1,
                closed: false,
            }),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For the sender. False when it should end.
    pub(super) fn wait_for_room(&self) -> bool {
        let full = |state: &mut State| !state.closed && state.in_flight.len() >= state.size;
        let state = self.changed.wait_while(self.lock(), full);
        !state.unwrap_or_else(PoisonError::into_inner).closed
    }

    /// For the receiver. False when everything has been answered and nothing will follow.
    pub(super) fn wait_for_work(&self) -> bool {
        let idle = |state: &mut State| !state.closed && state.in_flight.is_empty();
        let state = self.changed.wait_while(self.lock(), idle);
        let state = state.unwrap_or_else(PoisonError::into_inner);
        !state.in_flight.is_empty()
    }

    /// A request is about to be sent: its cookie.
    pub(super) fn enter(&self, pending: Pending) -> u64 {
        let mut state = self.lock();
        let cookie = state.next_cookie;
        state.next_cookie += 1;
        state.in_flight.insert(cookie, pending);
        self.changed.notify_all();
        cookie
    }

    /// Its reply has begun; `None` if there is no such request.
    pub(super) fn leave(&self, cookie: u64) -> Option<Pending> {
        let pending = self.lock().in_flight.remove(&cookie);
        self.changed.notify_all();
        pending
    }

    /// Nothing is sent any more.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// The connection has ended: how many were never answered.
    pub(super) fn end(&self) -> u64 {
        let mut state = self.lock();
        state.closed = true;
        self.changed.notify_all();
        std::mem::take(&mut state.in_flight).len() as u64
    }
}
