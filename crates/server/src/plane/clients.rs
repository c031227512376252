//! The clients of one reactor: their connections, and the fronts that speak with them.
//!
//! A connection is a socket here and a session in the front of its protocol; each knows the other
//! by a number. A turn of a connection is one call of the front, which answers what to wait for
//! ([`Clients::settle`]): the socket, TLS, a place, or nothing any more.

use std::sync::Arc;

use everglade_engine::{Core, Engine};
use everglade_env::reactor::{Interest, Ready, Real};
use everglade_env::{Nanos, Outside};
use everglade_target::Completion;
use everglade_target::sessions::{self, ByLun, Owner, SessionId};
use slab::Slab;

use super::control::{Arrival, Described, Plane};
use crate::fronts::socket::Socket;
use crate::fronts::{Admission, FRONTS_MAX, Front, Protocol};

/// See the module's documentation.
pub(super) struct Clients {
    reactor: usize,
    engine: Engine,
    plane: Arc<Plane>,
    sides: Vec<Side>,
    connections: Slab<Connection>,
    /// Connections with more to read than was taken.
    again: Vec<usize>,
    is_stopping: bool,
}

/// The sessions of one protocol.
struct Side {
    front: Box<dyn Front>,
    admission: Admission,
    /// The protocol, for people.
    title: &'static str,
    /// Index of the connection, by place of its session. Entries of ended sessions are not read.
    connections: Vec<usize>,
}

/// A socket with its session.
struct Connection {
    socket: Socket,
    /// Number of its protocol.
    front: usize,
    session: SessionId,
    /// The interest that the poller has for the socket.
    interest: Interest,
    /// The client has named its export.
    is_settled: bool,
}

impl Clients {
    /// Makes an empty set. `memory_bytes` is for requests and replies of all clients of this
    /// reactor.
    pub(super) fn new(
        reactor: usize,
        engine: &Engine,
        plane: Arc<Plane>,
        protocols: (&[Box<dyn Protocol>], &[Admission]),
        memory_bytes: u64,
    ) -> Clients {
        let (protocols, admissions) = protocols;
        assert!(protocols.len() <= FRONTS_MAX, "an owner of tokens each");
        // A protocol that is off needs no memory.
        let are_on = protocols.iter().filter(|it| it.connections_max() > 0);
        let share = memory_bytes / (are_on.count().max(1) as u64);
        let sides = protocols.iter().zip(admissions).enumerate();
        let sides = sides.map(|(number, (protocol, admission))| {
            let front = protocol.front(Owner::new(number), share);
            plane.add_counters(protocol.name(), front.counters());
            Side {
                front,
                admission: admission.clone(),
                title: protocol.title(),
                connections: Vec::new(),
            }
        });
        Clients {
            reactor,
            engine: engine.clone(),
            sides: sides.collect(),
            plane,
            connections: Slab::new(),
            again: Vec::new(),
            is_stopping: false,
        }
    }

    /// Sets the time of the following calls.
    pub(super) fn tick(&self, now: Nanos) {
        self.sides.iter().for_each(|side| side.front.tick(now));
    }

    /// Returns whether there are no sessions.
    pub(super) fn is_empty(&self) -> bool {
        self.sides.iter().all(|side| side.front.is_empty())
    }

    /// Returns whether a connection has more to read than was taken.
    pub(super) fn has_more(&self) -> bool {
        !self.again.is_empty()
    }

    /// Adds a new connection, or a session that comes from another reactor.
    pub(super) fn attach(&mut self, arrival: Arrival, core: &mut Core<Real>) {
        let now = core.outside().now();
        let Arrival {
            mut socket,
            front,
            session: moving,
        } = arrival;
        let is_settled = moving.is_some();
        if self.is_stopping {
            return self
                .plane
                .forget_connection(self.reactor, front, is_settled);
        }
        let side = &mut self.sides[front];
        let session = match moving {
            Some(moving) => side.front.adopt(now, moving, core),
            None => {
                let caller = side
                    .admission
                    .caller(socket.address, socket.local_address());
                socket.names = Arc::clone(&caller.names);
                side.front.attach(now, caller)
            }
        };
        let Some(session) = session else {
            return self
                .plane
                .forget_connection(self.reactor, front, is_settled);
        };
        let interest = Interest::BOTH;
        let index = self.connections.insert(Connection {
            socket,
            front,
            session,
            interest,
            is_settled,
        });
        side.seat(session, index);
        let socket = &self.connections[index].socket;
        if let Err(error) = core.outside().register(socket, interest, index as u64) {
            tracing::warn!("a connection cannot be watched: {error}");
            side.front.abandon(session, core);
        }
        if self.connections[index].socket.may_hold_more() {
            self.again.push(index);
        }
        let wanted = self.sides[front].front.interest(session);
        self.settle(index, wanted, core);
    }

    /// Handles an event of a socket.
    pub(super) fn handle(&mut self, event: &Ready, core: &mut Core<Real>) {
        let index = usize::try_from(event.key).expect("keys are places of the slab");
        // An earlier event of the same wait may have closed the connection.
        let Some(session) = self.session(index) else {
            return;
        };
        if event.readable || event.hangup {
            self.receive(index, core);
        }
        let takes_again = event.writable || event.hangup;
        if takes_again && self.session(index) == Some(session) {
            self.transmit(index, true, core);
        }
    }

    /// Reads on where the last turn ended.
    pub(super) fn receive_again(&mut self, core: &mut Core<Real>) {
        for index in std::mem::take(&mut self.again) {
            self.receive(index, core);
        }
    }

    /// Passes the completion of an operation to its session.
    pub(super) fn complete(&mut self, completion: Completion, core: &mut Core<Real>) {
        let owner = Owner::of(completion.token).number();
        self.sides[owner].front.complete(completion, core);
    }

    /// Gives each session that is ready a turn. True if there were any. Those that are ready again
    /// wait for the next round.
    pub(super) fn serve_ready(&mut self, core: &mut Core<Real>) -> bool {
        let mut progress = false;
        for front in 0..self.sides.len() {
            for _ in 0..self.sides[front].front.ready_count() {
                let Some(session) = self.sides[front].front.next_ready() else {
                    break;
                };
                progress = true;
                if let Some(index) = self.find(front, session) {
                    self.transmit(index, false, core);
                }
            }
        }
        progress
    }

    /// Ends sessions whose time is over. True if any is ready then.
    pub(super) fn sweep(&mut self, now: Nanos, core: &mut Core<Real>) -> bool {
        let mut is_any_ready = false;
        for side in &mut self.sides {
            side.front.sweep(now, core);
            is_any_ready |= side.front.ready_count() > 0;
        }
        is_any_ready
    }

    /// Returns what the clients of each LUN were answered, over all protocols.
    pub(super) fn tallies(&mut self) -> ByLun {
        let mut all = ByLun::new();
        for side in &mut self.sides {
            for (lun, tally) in side.front.tallies() {
                all.entry(lun).or_default().add_all(&tally);
            }
        }
        all
    }

    /// Describes the sessions that have an export open.
    pub(super) fn describe(&self, now: Nanos) -> Vec<Described> {
        let of = |side: &Side| {
            let reactor = self.reactor;
            let protocol = side.title;
            let described = side
                .front
                .facts(now)
                .into_iter()
                .map(move |facts| Described {
                    reactor,
                    protocol,
                    facts,
                });
            described.collect::<Vec<_>>()
        };
        self.sides.iter().flat_map(of).collect()
    }

    /// Ends the sessions after their operations in flight. New clients are not accepted.
    pub(super) fn stop(&mut self, core: &mut Core<Real>) {
        self.is_stopping = true;
        for side in &mut self.sides {
            side.front.stop(core);
        }
    }

    /// Abandons all sessions that are left, because they took too long to end.
    pub(super) fn abandon_all(&mut self, core: &mut Core<Real>) {
        for side in &mut self.sides {
            for session in side.front.ids() {
                side.front.abandon(session, core);
            }
        }
    }

    fn session(&self, index: usize) -> Option<(usize, SessionId)> {
        let connection = self.connections.get(index)?;
        Some((connection.front, connection.session))
    }

    fn find(&self, front: usize, session: SessionId) -> Option<usize> {
        let index = *self.sides[front].connections.get(session.index())?;
        (self.session(index) == Some((front, session))).then_some(index)
    }

    fn receive(&mut self, index: usize, core: &mut Core<Real>) {
        let Some(connection) = self.connections.get_mut(index) else {
            return;
        };
        let front = &mut self.sides[connection.front].front;
        let turn = front.receive(connection.session, &mut connection.socket, core);
        if turn.has_more {
            self.again.push(index);
        }
        self.settle(index, turn.interest, core);
    }

    fn transmit(&mut self, index: usize, takes_again: bool, core: &mut Core<Real>) {
        let connection = &mut self.connections[index];
        let front = &mut self.sides[connection.front].front;
        let (session, socket) = (connection.session, &mut connection.socket);
        let wanted = front.transmit(session, socket, takes_again, core);
        self.settle(index, wanted, core);
    }

    /// Registers with the poller what a session waits for. Closes an ended session, and moves a
    /// session that belongs on another reactor.
    fn settle(&mut self, index: usize, wanted: sessions::Interest, core: &mut Core<Real>) {
        let Some((front, session)) = self.session(index) else {
            return;
        };
        let mut wanted = wanted;
        if wanted.tls {
            self.encrypt(index, core);
            wanted = self.sides[front].front.interest(session);
        }
        if wanted.home {
            if self.move_or_stay(index, core) {
                return;
            }
            wanted = self.sides[front].front.interest(session);
        }
        if wanted.closed {
            self.sides[front].front.detach(session);
            let mut connection = self.connections.remove(index);
            connection.socket.close();
            let _ = core.outside().deregister(&connection.socket);
            let is_settled = connection.is_settled;
            return self
                .plane
                .forget_connection(self.reactor, front, is_settled);
        }
        let connection = &mut self.connections[index];
        let interest = Interest {
            readable: wanted.read,
            writable: wanted.write || connection.socket.wants_write(),
        };
        // The poller sees the socket only, not bytes that were received but not consumed.
        let begins = wanted.read && !connection.interest.readable;
        if begins && connection.socket.may_hold_more() {
            self.again.push(index);
        }
        if connection.interest != interest {
            connection.interest = interest;
            let socket = &connection.socket;
            if let Err(error) = core.outside().modify(socket, interest, index as u64) {
                tracing::warn!("a connection cannot be watched: {error}");
            }
        }
    }

    /// Encrypts all that the session sends from here on.
    fn encrypt(&mut self, index: usize, core: &mut Core<Real>) {
        let connection = &mut self.connections[index];
        let side = &mut self.sides[connection.front];
        let certificates = side.admission.certificates().expect("TLS was offered");
        match connection.socket.encrypt(&certificates.now()) {
            Ok(()) => side.front.tls_begun(connection.session),
            Err(error) => {
                tracing::warn!("a connection cannot be encrypted: {error}");
                side.front.abandon(connection.session, core);
            }
        }
    }

    /// A session is about to open an export: here, or on another reactor than the one where that is
    /// at home (decision 0023). True if it has left.
    fn move_or_stay(&mut self, index: usize, core: &mut Core<Real>) -> bool {
        let connection = &mut self.connections[index];
        let (number, session) = (connection.front, connection.session);
        let front = &mut self.sides[number].front;
        let export = front.home_question(session);
        let home = export.and_then(|export| self.engine.home_reactor_of(export));
        let (here, homes) = (self.reactor, self.engine.homes());
        let placement = &self.plane.placement;
        let reactor = placement.choose_reactor(here, home == Some(here), &homes);
        if reactor == here {
            connection.is_settled = true;
            front.stay_here(session, core);
            return false;
        }
        let moving = front.release(session);
        let Connection { socket, .. } = self.connections.remove(index);
        if let Err(error) = core.outside().deregister(&socket) {
            // If it moved, two reactors would watch the socket.
            tracing::warn!("a connection cannot be moved: {error}");
            self.plane.forget_connection(reactor, number, true);
            return true;
        }
        let arrival = Arrival {
            socket,
            front: number,
            session: Some(moving),
        };
        self.plane.give(reactor, arrival);
        true
    }
}

impl Side {
    fn seat(&mut self, session: SessionId, connection: usize) {
        let place = session.index();
        if self.connections.len() <= place {
            self.connections.resize(place + 1, usize::MAX);
        }
        self.connections[place] = connection;
    }
}
