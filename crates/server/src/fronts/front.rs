//! The traits of a protocol that the data plane uses.
//!
//! | trait | there is one | asked |
//! | --- | --- | --- |
//! | [`Protocol`] | per protocol of the daemon | at the start: doors, callers, settings |
//! | [`Front`] | per protocol and reactor | in every turn: its sessions |
//!
//! The plane owns the sockets and the order of a turn; a front owns the sessions. Both know a
//! session by its number. A turn of a connection is one call of a front, which moves bytes both
//! ways between socket and session, and says what to wait for.
//!
//! [`Front`] is implemented once, for [`Sessions`] of any protocol. So a protocol that implements
//! [`Session`] has its turns, its part of the network memory, its time limits, its moves between
//! reactors and its counters without a line here.

use std::any::Any;
use std::io::Write as _;
use std::ops::AddAssign;
use std::sync::Arc;

use everglade_env::Nanos;
use everglade_target::sessions::{
    self, ByLun, Caller, Facts, Interest, Memory, MemorySnapshot, Metrics, Owner, Received,
    Session, SessionId, Sessions, Snapshot,
};
use everglade_target::{Completion, Export, Target};

use super::socket::Socket;
use crate::StartError;
use crate::config::Callers;
use crate::datadir::{Address, Endpoints};

/// A configured protocol, the same for all reactors. Making one opens nothing.
pub trait Protocol: Send + Sync {
    /// Its table in the configuration, and the word for it in names of metrics: `nbd`.
    fn name(&self) -> &'static str;

    /// Returns the title for people: `NBD`.
    fn title(&self) -> &'static str;

    /// Returns the endpoints of the protocol, including those without a listener.
    fn doors(&self) -> Vec<Door>;

    /// Clients at a time; one more is closed at once. 0 if the protocol is off.
    fn connections_max(&self) -> u32;

    /// Returns the rules for clients.
    fn callers(&self) -> &Callers;

    /// Returns whether somebody checks who connects, besides encryption.
    fn knows_its_callers(&self) -> bool {
        !self.callers().allow.is_empty()
    }

    /// Reads the files that the settings name. Called before the first [`Protocol::front`].
    ///
    /// # Errors
    /// A file cannot be used.
    fn open(&self) -> Result<(), StartError> {
        Ok(())
    }

    /// Its sessions of one reactor, none yet, with tokens of `owner`. Together they hold at most
    /// `memory_bytes` for their peers.
    fn front(&self, owner: Owner, memory_bytes: u64) -> Box<dyn Front>;

    /// Returns commands for a person to try on the running daemon; empty if none would work. None
    /// of them writes to an export that may hold data.
    fn commands(&self, endpoints: &Endpoints, exports: &[Export], contents: Contents) -> String {
        let _ = (endpoints, exports, contents);
        String::new()
    }
}

/// The data in the exports, which decides what a person may try without a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// This start made the exports, so they are empty.
    New,
    /// The exports may hold data.
    Kept,
}

/// A door as it is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Door {
    /// Key in `endpoints.json`: `nbd_tcp`. The ready line leaves out the suffix `_tcp`.
    pub name: &'static str,
    /// The flag that sets the address, for messages.
    pub flag: &'static str,
    /// `None` if it is shut.
    pub at: Option<Address>,
}

impl Door {
    /// Returns the descriptors that an open endpoint uses. The name of a Unix socket is kept beside
    /// the accepting socket.
    #[must_use]
    pub fn descriptors(&self) -> usize {
        match self.at {
            None => 0,
            Some(Address::Tcp(_)) => 1,
            Some(Address::Unix(_)) => 2,
        }
    }
}

/// The sessions of one protocol on one reactor. See [`Sessions`] for the methods.
pub trait Front: Send {
    /// Sets the time of the following calls.
    fn tick(&self, now: Nanos);

    /// Begins a session for a new connection. `None` if there are too many.
    fn attach(&mut self, now: Nanos, caller: Caller) -> Option<SessionId>;

    /// Receives the bytes that the socket has.
    fn receive(&mut self, session: SessionId, socket: &mut Socket, target: &mut dyn Target)
    -> Turn;

    /// Sends the bytes that the session has. `takes_again` says that the socket has become
    /// writable.
    fn transmit(
        &mut self,
        session: SessionId,
        socket: &mut Socket,
        takes_again: bool,
        target: &mut dyn Target,
    ) -> Interest;

    /// Returns the events that the session waits for.
    fn interest(&self, session: SessionId) -> Interest;

    /// Notes that the connection is encrypted from here on.
    fn tls_begun(&mut self, session: SessionId);

    /// The export that a session is about to open, if it asks where.
    fn home_question(&self, session: SessionId) -> Option<&str>;

    /// A session that asked stays here.
    fn stay_here(&mut self, session: SessionId, target: &mut dyn Target);

    /// Releases a session that asked for its place, for the front of its protocol on another
    /// reactor.
    fn release(&mut self, session: SessionId) -> Moving;

    /// Adopts a session from another reactor. `None` if there are too many.
    fn adopt(&mut self, now: Nanos, moving: Moving, target: &mut dyn Target) -> Option<SessionId>;

    /// Forgets a closed session.
    fn detach(&mut self, session: SessionId);

    /// Abandons a session whose socket is broken.
    fn abandon(&mut self, session: SessionId, target: &mut dyn Target);

    /// Passes the completion of an operation to its session.
    fn complete(&mut self, completion: Completion, target: &mut dyn Target);

    /// Returns a session that may have bytes to send, may have closed, or may want to read again.
    fn next_ready(&mut self) -> Option<SessionId>;

    /// Returns the approximate number of sessions that are ready.
    fn ready_count(&self) -> usize;

    /// Ends sessions whose time is over.
    fn sweep(&mut self, now: Nanos, target: &mut dyn Target);

    /// Stops the front: all sessions end.
    fn stop(&mut self, target: &mut dyn Target);

    /// Returns all sessions.
    fn ids(&self) -> Vec<SessionId>;

    /// Describes the sessions that have an export open.
    fn facts(&self, now: Nanos) -> Vec<Facts>;

    /// Returns what the clients of each LUN were answered.
    fn tallies(&mut self) -> ByLun;

    /// Returns whether there are no sessions.
    fn is_empty(&self) -> bool;

    /// Returns the counters, for other threads.
    fn counters(&self) -> Arc<dyn Counted>;
}

/// A session on its way to another reactor. Only a front of the same protocol can take it apart.
pub type Moving = Box<dyn Any + Send>;

/// The result of a turn of reading.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// Whether there may be more to read, after the turns of other sessions.
    pub has_more: bool,
    /// Events that the session waits for.
    pub interest: Interest,
}

/// Counters of one front, read from any thread.
pub trait Counted: Send + Sync {
    /// Returns the values of the counters.
    fn counts(&self) -> Counts;
}

/// Counters of a protocol's sessions, and the memory they use. Values of reactors are summed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Counters of the sessions.
    pub sessions: Snapshot,
    /// Network memory that the sessions use.
    pub memory: MemorySnapshot,
}

impl AddAssign<&Counts> for Counts {
    fn add_assign(&mut self, other: &Counts) {
        self.sessions += &other.sessions;
        self.memory += other.memory;
    }
}

struct Counters<M> {
    metrics: Arc<M>,
    memory: Arc<Memory>,
}

impl<M: Metrics> Counted for Counters<M> {
    fn counts(&self) -> Counts {
        Counts {
            sessions: self.metrics.snapshot(),
            memory: MemorySnapshot::from(&*self.memory),
        }
    }
}

impl<S: Session> Front for Sessions<S> {
    fn tick(&self, now: Nanos) {
        self.tick(now);
    }

    fn attach(&mut self, now: Nanos, caller: Caller) -> Option<SessionId> {
        self.attach_caller(now, caller)
    }

    fn receive(
        &mut self,
        session: SessionId,
        socket: &mut Socket,
        target: &mut dyn Target,
    ) -> Turn {
        let received = self.receive(session, socket, target);
        Turn {
            has_more: received == Received::More,
            interest: self.interest(session),
        }
    }

    fn transmit(
        &mut self,
        session: SessionId,
        socket: &mut Socket,
        takes_again: bool,
        target: &mut dyn Target,
    ) -> Interest {
        if takes_again {
            self.writable(session, target);
        }
        socket.may_hold(self.memory().buffer_bytes());
        self.transmit(session, socket, target);
        // Sends encrypted bytes that wait; the next read reports an error.
        let _ = socket.flush();
        self.interest(session)
    }

    fn interest(&self, session: SessionId) -> Interest {
        self.interest(session)
    }

    fn tls_begun(&mut self, session: SessionId) {
        self.tls_begun(session);
    }

    fn home_question(&self, session: SessionId) -> Option<&str> {
        self.session(session).home_question()
    }

    fn stay_here(&mut self, session: SessionId, target: &mut dyn Target) {
        self.stay_here(session, target);
    }

    fn release(&mut self, session: SessionId) -> Moving {
        Box::new(self.release(session))
    }

    fn adopt(&mut self, now: Nanos, moving: Moving, target: &mut dyn Target) -> Option<SessionId> {
        let moving = moving.downcast::<sessions::Moving<S>>();
        let moving = moving.expect("a session moves between fronts of its protocol");
        self.adopt(now, *moving, target)
    }

    fn detach(&mut self, session: SessionId) {
        self.detach(session);
    }

    fn abandon(&mut self, session: SessionId, target: &mut dyn Target) {
        self.abandon(session, target);
    }

    fn complete(&mut self, completion: Completion, target: &mut dyn Target) {
        self.complete(completion, target);
    }

    fn next_ready(&mut self) -> Option<SessionId> {
        self.next_ready()
    }

    fn ready_count(&self) -> usize {
        self.ready_count()
    }

    fn sweep(&mut self, now: Nanos, target: &mut dyn Target) {
        self.sweep(now, target);
    }

    fn stop(&mut self, target: &mut dyn Target) {
        self.stop(target);
    }

    fn ids(&self) -> Vec<SessionId> {
        self.ids()
    }

    fn facts(&self, now: Nanos) -> Vec<Facts> {
        self.facts(now)
    }

    fn tallies(&mut self) -> ByLun {
        self.tallies()
    }

    fn is_empty(&self) -> bool {
        self.is_empty()
    }

    fn counters(&self) -> Arc<dyn Counted> {
        Arc::new(Counters {
            metrics: Arc::clone(self.metrics()),
            memory: Arc::clone(self.memory()),
        })
    }
}
