//! The gate: accepts NBD clients, and pauses when there are too many.
//!
//! ```text
//! open --too many connections, or no descriptor--> paused
//! paused --a connection ended, or the pause is over--> open
//! ```
//!
//! 1. A paused gate does not accept from its sockets. Clients wait in the kernel's queue, which
//!    costs no CPU time, and are accepted when the gate opens again.
//! 2. If the limit of open files allows fewer connections than are configured, a further connection
//!    *waits*, because there may be room soon. A connection beyond the configured number is
//!    *closed* at once, as the reference says.
//! 3. Messages that a client can cause at will are logged at most once a minute.

use std::io;
use std::time::Duration;

use everglade_env::reactor::{Interest, Real};
use everglade_env::{Nanos, Outside};

use super::connection::Socket;
use super::control::Plane;
use crate::listen::Listeners;
use crate::seldom::Seldom;

/// Keys of the listeners; connections have the others.
pub(super) const KEY_TCP: u64 = 1 << 62;
pub(super) const KEY_UNIX: u64 = (1 << 62) + 1;
/// The first pause after the host refused a descriptor; each one is twice as long, up to the last.
const PAUSE_MIN: Nanos = 50_000_000;
const PAUSE_MAX: Nanos = 1_000_000_000;
/// Between two lines of a kind in the log.
const LINE_EVERY: Duration = Duration::from_secs(60);

/// Where clients come in.
pub(super) struct Gate {
    listeners: Option<Listeners>,
    /// As configured.
    connections_max: u32,
    /// What the limit of open files allows.
    connections_possible: u32,
    paused: Option<Pause>,
    /// How long the next pause without descriptors is.
    next_pause: Nanos,
    next_reactor: usize,
    pauses_told: Seldom,
    refusals_told: Seldom,
}

/// What ends a pause, beside the end of a connection.
#[derive(Clone, Copy)]
struct Pause {
    until: Option<Nanos>,
}

impl Gate {
    pub(super) fn new(connections_max: u32, connections_possible: u32) -> Gate {
        Gate {
            listeners: None,
            connections_max,
            connections_possible,
            paused: None,
            next_pause: PAUSE_MIN,
            next_reactor: 0,
            pauses_told: Seldom::new(LINE_EVERY),
            refusals_told: Seldom::new(LINE_EVERY),
        }
    }

    /// Nobody comes in any more.
    pub(super) fn close(&mut self) {
        self.listeners = None;
        self.paused = None;
    }

    /// When a pause ends by itself.
    pub(super) fn deadline(&self) -> Option<Nanos> {
        self.paused?.until
    }

    /// Takes the listeners: clients are accepted from now on.
    pub(super) fn listen(&mut self, listeners: Listeners, outside: &Real) {
        let watch = || -> io::Result<()> {
            if let Some(tcp) = &listeners.nbd_tcp {
                tcp.set_nonblocking(true)?;
                outside.register(tcp, Interest::READ, KEY_TCP)?;
            }
            if let Some(unix) = &listeners.nbd_unix {
                unix.set_nonblocking(true)?;
                outside.register(unix, Interest::READ, KEY_UNIX)?;
            }
            Ok(())
        };
        if let Err(error) = watch() {
            tracing::error!("the sockets cannot be watched, so no client is accepted: {error}");
        }
        self.listeners = Some(listeners);
    }

    /// The next client that waits at a listener, if there is one and it may come in.
    pub(super) fn next(&mut self, key: u64, plane: &Plane, outside: &Real) -> Option<Socket> {
        loop {
            if self.paused.is_some() {
                return None;
            }
            let is_lowered = self.connections_possible < self.connections_max;
            if is_lowered && plane.is_full(self.connections_possible) {
                self.pause_when_full(plane, outside);
                return None;
            }
            match self.accept(key)? {
                Ok(socket) => {
                    self.next_pause = PAUSE_MIN;
                    return Some(socket);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                Err(error) if is_shortage(&error) => {
                    self.pause_for_shortage(&error, plane, outside);
                    return None;
                }
                // The connection was gone before it was taken.
                Err(error) => tracing::debug!("accepting a connection failed: {error}"),
            }
        }
    }

    /// The reactor that is to have a new connection; `None` if there are as many as are configured.
    pub(super) fn choose(&mut self, plane: &Plane, homes: &[usize]) -> Option<usize> {
        let most = self.connections_max;
        let Some(reactor) = plane.admit(most, self.next_reactor, homes) else {
            if self.refusals_told.due().is_some() {
                tracing::warn!("a connection was refused: {most} are open already");
            }
            return None;
        };
        self.next_reactor = (reactor + 1) % plane.reactors();
        Some(reactor)
    }

    /// Ends a pause whose reason may be over. Called in each turn.
    pub(super) fn open_if_due(&mut self, plane: &Plane, outside: &Real) {
        let Some(pause) = self.paused else {
            return;
        };
        let is_due = match pause.until {
            Some(until) => outside.now() >= until,
            None => !plane.is_full(self.connections_possible),
        };
        if is_due {
            self.paused = None;
            plane.open_gate();
            self.watch(outside, Interest::READ);
        }
    }

    /// As many connections are open as there are descriptors for.
    fn pause_when_full(&mut self, plane: &Plane, outside: &Real) {
        if self.pauses_told.due().is_some() {
            tracing::warn!(
                "{} connections are open, as many as the limit of open files allows; others wait",
                self.connections_possible
            );
        }
        self.pause(Pause { until: None }, plane, outside);
    }

    /// The host gives no descriptor, although there should be one.
    fn pause_for_shortage(&mut self, error: &io::Error, plane: &Plane, outside: &Real) {
        if self.pauses_told.due().is_some() {
            tracing::warn!("no connection can be accepted for now: {error}; clients wait");
        }
        let until = Some(outside.now() + self.next_pause);
        self.next_pause = (self.next_pause * 2).min(PAUSE_MAX);
        self.pause(Pause { until }, plane, outside);
    }

    fn pause(&mut self, pause: Pause, plane: &Plane, outside: &Real) {
        self.paused = Some(pause);
        plane.shut_gate();
        self.watch(outside, Interest::NONE);
    }

    fn accept(&self, key: u64) -> Option<io::Result<Socket>> {
        let listeners = self.listeners.as_ref()?;
        if key == KEY_TCP {
            let listener = listeners.nbd_tcp.as_ref()?;
            let accepted = listener.accept();
            return Some(accepted.and_then(|(stream, from)| Socket::tcp(stream, from)));
        }
        let listener = listeners.nbd_unix.as_ref()?;
        Some(
            listener
                .accept()
                .and_then(|(stream, _)| Socket::unix(stream)),
        )
    }

    /// Watches the sockets, or no longer does.
    fn watch(&self, outside: &Real, interest: Interest) {
        let modify = |listeners: &Listeners| -> io::Result<()> {
            if let Some(tcp) = &listeners.nbd_tcp {
                outside.modify(tcp, interest, KEY_TCP)?;
            }
            if let Some(unix) = &listeners.nbd_unix {
                outside.modify(unix, interest, KEY_UNIX)?;
            }
            Ok(())
        };
        if let Some(Err(error)) = self.listeners.as_ref().map(modify) {
            tracing::error!("the sockets of NBD cannot be watched: {error}");
        }
    }
}

/// True if there is no descriptor, or no memory, for a connection: the listener stays readable.
fn is_shortage(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let shortages = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    let is_one = |errno: i32| shortages.iter().any(|one| one.raw_os_error() == errno);
    error.raw_os_error().is_some_and(is_one)
}
