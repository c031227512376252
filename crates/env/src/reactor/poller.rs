//! The one place where a reactor waits: sockets, disk completions, wake-ups and timers.
//!
//! A reactor waits in epoll, for its sockets and its bell, level-triggered (an event that was not
//! handled is reported again), and for the eventfd of its ring. The owner of a socket reads and
//! writes it with plain non-blocking calls.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use crate::waker::Waker;

/// Keys that sockets cannot have.
const KEY_WAKER: u64 = u64::MAX;
const KEY_LANE: u64 = u64::MAX - 1;
/// Events taken per wait; further events are taken by the next wait.
const EVENTS: usize = 256;

/// The events to report for a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest {
    /// Report when there is something to read, or the peer has finished sending.
    pub readable: bool,
    /// Report when there is room to write.
    pub writable: bool,
}

impl Interest {
    /// Reading only.
    pub const READ: Interest = Interest {
        readable: true,
        writable: false,
    };
    /// Writing only.
    pub const WRITE: Interest = Interest {
        readable: false,
        writable: true,
    };
    /// Reading and writing.
    pub const BOTH: Interest = Interest {
        readable: true,
        writable: true,
    };
    /// Neither reading nor writing; a broken connection is still reported until it is deregistered.
    pub const NONE: Interest = Interest {
        readable: false,
        writable: false,
    };

    fn flags(self) -> epoll::EventFlags {
        let mut flags = epoll::EventFlags::empty();
        if self.readable {
            flags |= epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
        }
        if self.writable {
            flags |= epoll::EventFlags::OUT;
        }
        flags
    }
}

/// A socket with something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Key given at the registration.
    pub key: u64,
    /// A read would not block.
    pub readable: bool,
    /// A write would not block.
    pub writable: bool,
    /// The peer has finished sending, or the connection is broken. Bytes that it sent before can
    /// still be read: read until there are none left.
    pub hangup: bool,
}

/// The events that ended a sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Woken {
    /// Only the ring.
    ByLane,
    /// A socket, a bell, a signal or the end of the time.
    Otherwise,
}

/// An epoll instance and the bell that it watches.
pub(super) struct Poller {
    epoll: OwnedFd,
    waker: Arc<Waker>,
}

impl Poller {
    pub(super) fn new(waker: Arc<Waker>) -> std::io::Result<Poller> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let key = epoll::EventData::new_u64(KEY_WAKER);
        epoll::add(&epoll, &*waker, key, epoll::EventFlags::IN)?;
        Ok(Poller { epoll, waker })
    }

    /// Lets completions of the ring end a sleep, once per signal.
    pub(super) fn watch_lane(&self, ring: impl AsFd) -> std::io::Result<()> {
        let key = epoll::EventData::new_u64(KEY_LANE);
        Ok(epoll::add(
            &self.epoll,
            ring,
            key,
            epoll::EventFlags::IN | epoll::EventFlags::ET,
        )?)
    }

    pub(super) fn register(
        &self,
        socket: impl AsFd,
        interest: Interest,
        key: u64,
    ) -> std::io::Result<()> {
        assert!(key < KEY_LANE, "the largest keys are ours");
        let key = epoll::EventData::new_u64(key);
        Ok(epoll::add(&self.epoll, socket, key, interest.flags())?)
    }

    pub(super) fn modify(
        &self,
        socket: impl AsFd,
        interest: Interest,
        key: u64,
    ) -> std::io::Result<()> {
        assert!(key < KEY_LANE, "the largest keys are ours");
        let key = epoll::EventData::new_u64(key);
        Ok(epoll::modify(&self.epoll, socket, key, interest.flags())?)
    }

    pub(super) fn deregister(&self, socket: impl AsFd) -> std::io::Result<()> {
        Ok(epoll::delete(&self.epoll, socket)?)
    }

    /// Sleeps until something happens or the time is over, and appends the sockets that are ready.
    pub(super) fn wait(&self, timeout: Option<Duration>, ready: &mut Vec<Ready>) -> Woken {
        let timeout = if self.waker.doze() {
            timeout
        } else {
            Some(Duration::ZERO)
        };
        // A time too long to be told is as good as for ever.
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let mut room = [MaybeUninit::<epoll::Event>::uninit(); EVENTS];
        let result = epoll::wait(&self.epoll, &mut room, timeout.as_ref());
        let notified = self.waker.rouse();
        let events: &[epoll::Event] = match result {
            Ok((events, _)) => events,
            Err(Errno::INTR) => &[],
            Err(errno) => panic!("epoll refuses to wait: {errno}"),
        };
        let mut lane_only = !notified && !events.is_empty();
        for &epoll::Event { flags, data } in events {
            lane_only &= data.u64() == KEY_LANE;
            match data.u64() {
                KEY_WAKER => self.waker.clear(),
                // Found by the poll that follows.
                KEY_LANE => {}
                key => ready.push(Ready {
                    key,
                    readable: flags.intersects(epoll::EventFlags::IN),
                    writable: flags.intersects(epoll::EventFlags::OUT),
                    hangup: flags.intersects(
                        epoll::EventFlags::RDHUP | epoll::EventFlags::HUP | epoll::EventFlags::ERR,
                    ),
                }),
            }
        }
        if lane_only {
            Woken::ByLane
        } else {
            Woken::Otherwise
        }
    }
}
