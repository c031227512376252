//! The gate: accepts clients of all protocols, and pauses when there are too many.
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

use super::control::Plane;
use crate::fronts::socket::Socket;
use crate::fronts::{Listeners, Protocol};
use crate::seldom::Seldom;

/// The doors have the keys from here on; connections have those below.
const DOORS_FROM: u64 = 1 << 62;
/// The first pause after the host refused a descriptor; each one is twice as long, up to the last.
const PAUSE_MIN: Nanos = 50_000_000;
const PAUSE_MAX: Nanos = 1_000_000_000;
/// Between two lines of a kind in the log.
const LINE_EVERY: Duration = Duration::from_secs(60);

/// The gate: accepts clients at the doors of all protocols.
pub(crate) struct Gate {
    listeners: Option<Listeners>,
    /// Configured limits of connections, by protocol.
    connections_max: Vec<u32>,
    /// Connections that the limit of open files allows.
    connections_possible: u32,
    paused: Option<Pause>,
    /// Duration of the next pause for lack of descriptors.
    next_pause: Nanos,
    next_reactor: usize,
    pauses_told: Seldom,
    refusals_told: Seldom,
}

/// The condition that ends a pause, besides the end of a connection.
#[derive(Clone, Copy)]
struct Pause {
    until: Option<Nanos>,
}

impl Gate {
    /// Makes a gate without doors. `connections_possible` is the number of connections of all
    /// protocols together that the limit of open files allows.
    pub(crate) fn new(protocols: &[Box<dyn Protocol>], connections_possible: u32) -> Gate {
        let connections_max = protocols.iter().map(|protocol| protocol.connections_max());
        let connections_max: Vec<u32> = connections_max.collect();
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

    /// Stops accepting clients.
    pub(crate) fn close(&mut self) {
        self.listeners = None;
        self.paused = None;
    }

    /// Returns when a pause ends by itself.
    pub(crate) fn deadline(&self) -> Option<Nanos> {
        self.paused?.until
    }

    /// Takes the listeners: clients are accepted from now on.
    pub(crate) fn listen(&mut self, listeners: Listeners, outside: &Real) {
        let watch = || -> io::Result<()> {
            for (door, key) in listeners.open().iter().zip(DOORS_FROM..) {
                door.begin()?;
                outside.register(door, Interest::READ, key)?;
            }
            Ok(())
        };
        if let Err(error) = watch() {
            tracing::error!("the sockets cannot be watched, so no client is accepted: {error}");
        }
        self.listeners = Some(listeners);
    }

    /// Returns whether this key belongs to a door.
    pub(crate) fn is_door(key: u64) -> bool {
        key >= DOORS_FROM
    }

    /// Accepts the next client that waits at a door, if the limits permit it, and returns it with
    /// the number of its protocol.
    pub(crate) fn next(
        &mut self,
        key: u64,
        plane: &Plane,
        outside: &Real,
    ) -> Option<(usize, Socket)> {
        loop {
            if self.paused.is_some() {
                return None;
            }
            if self.is_lowered() && self.is_full(plane) {
                self.pause_when_full(plane, outside);
                return None;
            }
            match self.accept(key)? {
                Ok(arrived) => {
                    self.next_pause = PAUSE_MIN;
                    return Some(arrived);
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

    /// Returns the reactor that is to have a new connection of a protocol; `None` if there are as
    /// many as are configured.
    pub(crate) fn choose(&mut self, front: usize, plane: &Plane, homes: &[usize]) -> Option<usize> {
        let (most, from) = (self.connections_max[front], self.next_reactor);
        let Some(reactor) = plane.placement.admit(front, most, from, homes) else {
            if self.refusals_told.due().is_some() {
                tracing::warn!("a connection was refused: {most} are open already");
            }
            return None;
        };
        self.next_reactor = (reactor + 1) % plane.reactors();
        Some(reactor)
    }

    /// Ends a pause whose reason may be over. Called in each turn.
    pub(crate) fn open_if_due(&mut self, plane: &Plane, outside: &Real) {
        let Some(pause) = self.paused else {
            return;
        };
        let is_due = match pause.until {
            Some(until) => outside.now() >= until,
            None => !self.is_full(plane),
        };
        if is_due {
            self.paused = None;
            plane.placement.open_gate();
            self.watch(outside, Interest::READ);
        }
    }

    /// Pauses if all descriptors for connections are used.
    fn pause_when_full(&mut self, plane: &Plane, outside: &Real) {
        if self.pauses_told.due().is_some() {
            tracing::warn!(
                "{} connections are open, as many as the limit of open files allows; others wait",
                self.connections_possible
            );
        }
        self.pause(Pause { until: None }, plane, outside);
    }

    /// Pauses because the host refuses a descriptor below the limit.
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
        plane.placement.shut_gate();
        self.watch(outside, Interest::NONE);
    }

    /// Returns true if the limit of open files allows fewer connections than are configured.
    fn is_lowered(&self) -> bool {
        let configured = self.connections_max.iter().copied();
        self.connections_possible < configured.fold(0, u32::saturating_add)
    }

    /// Returns whether the limit of open files is reached.
    fn is_full(&self, plane: &Plane) -> bool {
        plane.placement.connections() >= self.connections_possible
    }

    fn accept(&self, key: u64) -> Option<io::Result<(usize, Socket)>> {
        let index = usize::try_from(key - DOORS_FROM).expect("keys are numbers of doors");
        let door = self.listeners.as_ref()?.open().get(index)?;
        Some(door.accept().map(|socket| (door.front, socket)))
    }

    /// Watches the doors, or no longer does.
    fn watch(&self, outside: &Real, interest: Interest) {
        let listeners = self.listeners.iter();
        let doors = listeners.flat_map(Listeners::open);
        for (door, key) in doors.zip(DOORS_FROM..) {
            if let Err(error) = outside.modify(door, interest, key) {
                let title = door.title;
                tracing::error!("the sockets of {title} cannot be watched: {error}");
            }
        }
    }
}

/// Returns whether there is no descriptor, or no memory, for a connection: the listener stays
/// readable.
fn is_shortage(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let shortages = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    let is_one = |errno: i32| shortages.iter().any(|one| one.raw_os_error() == errno);
    error.raw_os_error().is_some_and(is_one)
}
