//! All sessions of one protocol on one reactor: moves their bytes, routes completions to them,
//! shares memory among them, and ends them in time.
//!
//! A reactor's turn:
//!
//! 1. [`Sessions::receive`] for every readable socket;
//! 2. let the target work, then [`Sessions::complete`] for every completion of an operation with
//!    this table's [`Owner`];
//! 3. [`Sessions::transmit`] for every id from [`Sessions::next_ready`] and every writable socket
//!    (for which [`Sessions::writable`] comes first). Sending frees room, which may start more
//!    operations, and a session that has more to send than its turn allows is ready again: back to
//!    2 a few times, then look at the sockets before more is sent;
//! 4. [`Sessions::interest`] of the sessions touched: what to wait for. A closed session must be
//!    [detached](Sessions::detach), and its socket dropped. A session that asks [on which
//!    reactor](Interest::home) it should run waits for nothing else. [`Sessions::stay_here`]
//!    keeps it here, and it has other interests then; [`Sessions::release`] here and
//!    [`Sessions::adopt`] there move it to another table;
//! 5. about once a second, [`Sessions::sweep`].

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::sync::Arc;

use everglade_env::Nanos;

use super::caller::Caller;
use super::memory::{CLASSES, Class, Memory, Reservation};
use super::metrics::Metrics;
use super::seats::{Owner, Seats, SessionId};
use super::session::{Common, Session};
use super::streams::{self, Received, Sent};
use super::tally::{ByLun, Ended, Tally};
use crate::{Completion, Target};

/// Time limit of a handshake (docs/reference/conventions.md#nbd), and of sending the last replies
/// to a peer that does not take them.
const PATIENCE: Nanos = 10_000_000_000;

/// A session from which nothing came for so long needs no buffer.
const QUIET: Nanos = 1_000_000_000;

/// The events that the owner of a session's socket should wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest {
    /// Readable: then [`Sessions::receive`].
    pub read: bool,
    /// Writable: then [`Sessions::transmit`].
    pub write: bool,
    /// TLS: then encrypt the stream and call [`Sessions::tls_begun`].
    pub tls: bool,
    /// Nothing, but to be told which reactor is to open its export: [`Session::home_question`].
    pub home: bool,
    /// Nothing any more: drop the socket and [`Sessions::detach`].
    pub closed: bool,
}

/// A session on its way from one table to another. Dropping it ends the session, which has opened
/// no export.
pub struct Moving<S> {
    session: S,
    since: Nanos,
}

/// What people want to know of a session.
#[derive(Clone)]
pub struct Facts {
    /// The name by which its export was opened.
    pub export: String,
    /// UUID of the LUN that this is, or is an image of.
    pub lun: [u8; 16],
    /// The client.
    pub caller: Caller,
    /// Time since it began, or began to end.
    pub age: Nanos,
    /// Time since the client sent something.
    pub silence: Nanos,
    /// Operations in flight.
    pub operations: usize,
    /// Bytes sent to the client.
    pub bytes_sent: u64,
    /// What the client was answered.
    pub tally: Tally,
    /// It is ending.
    pub is_ending: bool,
}

/// The sessions of a reactor.
pub struct Sessions<S: Session> {
    owner: Owner,
    common: Common<S>,
    seats: Seats<Seat<S>>,
    /// The sessions that wait for memory, by class.
    waiting: [VecDeque<SessionId>; CLASSES],
    /// What sessions that have ended were answered.
    ended: Ended,
    /// Reused between polls.
    completions: Vec<Completion>,
}

struct Seat<S> {
    session: S,
    /// Time at which the session began, or began to drain.
    since: Nanos,
    /// `since` is the beginning of draining.
    drains: bool,
    /// Time at which the last bytes came from the peer.
    heard: Nanos,
    /// Time since which data was ready and the client has taken none.
    blocked_since: Option<Nanos>,
    /// The last receive emptied the socket.
    is_drained: bool,
    /// Class of memory in whose queue the session waits.
    waits: Option<Class>,
}

impl<S: Session> Seat<S> {
    /// Returns whether the peer has kept memory for too long, because it takes no bytes or does not
    /// send the rest of a request.
    fn is_stuck(&self, now: Nanos) -> bool {
        let session = &self.session;
        let takes_nothing = self
            .blocked_since
            .is_some_and(|since| now.saturating_sub(since) > PATIENCE);
        let sends_nothing = session.wants_read()
            && session.holds_payload()
            && now.saturating_sub(self.heard) > PATIENCE;
        session.payload_in_flight() > 0 && (takes_nothing && session.wants_write() || sends_nothing)
    }

    /// Returns whether nothing is in progress and no bytes came for too long.
    fn is_idle(&self, now: Nanos, idle_max: Option<Nanos>) -> bool {
        let session = &self.session;
        let is_waiting = session.waits_for_peer() || session.wants_memory().is_some();
        let is_quiet = session.operations_in_flight() == 0 && !session.wants_write() && !is_waiting;
        let silence = now.saturating_sub(self.heard);
        is_quiet && idle_max.is_some_and(|idle_max| silence > idle_max)
    }
}

impl<S: Session> Sessions<S> {
    /// Makes an empty table. Its sessions together hold at most `memory_bytes` for their peers, or
    /// the needs of the largest request if these are more. A session that finds no memory waits for
    /// its turn. Tokens of the sessions' operations belong to the first owner.
    #[must_use]
    pub fn new(settings: S::Settings, memory_bytes: u64) -> Self {
        Self::of_owner(Owner::default(), settings, memory_bytes)
    }

    /// Makes a table beside other tables of a reactor, with tokens of its own.
    #[must_use]
    pub fn of_owner(owner: Owner, settings: S::Settings, memory_bytes: u64) -> Self {
        Sessions {
            owner,
            common: Common {
                settings,
                metrics: Arc::default(),
                memory: Arc::new(Memory::new(memory_bytes)),
            },
            seats: Seats::default(),
            waiting: Default::default(),
            ended: Ended::default(),
            completions: Vec::new(),
        }
    }

    /// Returns the counters of the sessions.
    #[must_use]
    pub fn metrics(&self) -> &Arc<S::Metrics> {
        &self.common.metrics
    }

    /// Sets the time of the following calls.
    #[inline]
    pub fn tick(&self, now: Nanos) {
        self.common.metrics.sessions().tick(now);
    }

    /// Returns the memory that the sessions hold for their clients.
    #[must_use]
    pub fn memory(&self) -> &Arc<Memory> {
        &self.common.memory
    }

    /// Returns the number of sessions that are not detached.
    #[must_use]
    pub fn len(&self) -> usize {
        self.seats.len()
    }

    /// Returns whether there are no sessions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Begins a session for a new connection of an unknown client; see [`Sessions::attach_caller`].
    pub fn attach(&mut self, now: Nanos) -> Option<SessionId> {
        self.attach_caller(now, Caller::default())
    }

    /// Begins a session for a new connection, with its greeting ready to be sent. `None` if the
    /// table is full.
    pub fn attach_caller(&mut self, now: Nanos, caller: Caller) -> Option<SessionId> {
        let id = self.seats.next_id()?;
        let session = S::begin(id.token_base(self.owner), caller, &self.common);
        self.common.metrics.sessions().began();
        self.seat_session(id, session, now);
        Some(id)
    }

    /// Keeps a session that asked on which reactor to run.
    ///
    /// # Panics
    /// If it did not ask.
    pub fn stay_here(&mut self, id: SessionId, target: &mut dyn Target) {
        self.seats.get_mut(id).session.stay(target);
        self.seats.mark_ready(id);
    }

    /// Releases a session that asked on which reactor to run; its id is no longer used.
    ///
    /// # Panics
    /// If it did not ask.
    pub fn release(&mut self, id: SessionId) -> Moving<S> {
        assert!(
            self.session(id).home_question().is_some(),
            "a session leaves when it asks for its place"
        );
        self.common.metrics.sessions().left();
        let Seat { session, since, .. } = self.vacate(id);
        Moving { session, since }
    }

    /// Adopts a session from another table, and opens its export here. `None` if the table is full.
    pub fn adopt(
        &mut self,
        now: Nanos,
        moving: Moving<S>,
        target: &mut dyn Target,
    ) -> Option<SessionId> {
        let Moving { mut session, since } = moving;
        let id = self.seats.next_id()?;
        session.moved(id.token_base(self.owner), &self.common);
        self.common.metrics.sessions().came();
        self.seat_session(id, session, now);
        // The time limit of the handshake is not restarted.
        self.seats.get_mut(id).since = since;
        self.stay_here(id, target);
        Some(id)
    }

    fn seat_session(&mut self, id: SessionId, session: S, now: Nanos) {
        let seat = Seat {
            session,
            since: now,
            drains: false,
            heard: now,
            blocked_since: None,
            is_drained: false,
            waits: None,
        };
        self.seats.seat(id, seat);
        self.common.memory.share_among(self.len() as u64);
        self.seats.mark_ready(id);
    }

    fn vacate(&mut self, id: SessionId) -> Seat<S> {
        let seat = self.seats.vacate(id);
        if let Some(class) = seat.waits {
            self.waiting[class as usize].retain(|other| *other != id);
            self.common.memory.end_wait(class);
        }
        self.common.memory.share_among(self.len() as u64);
        seat
    }

    /// Forgets a closed session.
    ///
    /// # Panics
    /// If it is not closed.
    pub fn detach(&mut self, id: SessionId) {
        assert!(
            self.session(id).is_closed(),
            "a session is detached after it closed"
        );
        let session = &self.seats.get(id).session;
        if let Some((_, lun)) = session.opened() {
            self.ended.add(*lun, &session.tally());
        }
        let chose_an_export = !self.session(id).is_in_handshake();
        self.common.metrics.sessions().ended(chose_an_export);
        drop(self.vacate(id));
    }

    /// Returns the session.
    ///
    /// # Panics
    /// If it was detached.
    #[must_use]
    pub fn session(&self, id: SessionId) -> &S {
        &self.seats.get(id).session
    }

    /// Returns the events to wait for.
    #[must_use]
    pub fn interest(&self, id: SessionId) -> Interest {
        let session = self.session(id);
        Interest {
            read: session.wants_read(),
            write: session.wants_write() || session.waits_for_peer(),
            tls: session.wants_tls(),
            home: session.home_question().is_some(),
            closed: session.is_closed(),
        }
    }

    /// Receives the bytes of `stream`, and starts the operations that they request.
    pub fn receive(
        &mut self,
        id: SessionId,
        stream: &mut impl Read,
        target: &mut dyn Target,
    ) -> Received {
        let now = self.common.metrics.sessions().now();
        let seat = self.seats.get_mut(id);
        seat.heard = seat.heard.max(now);
        let received = streams::receive(&mut seat.session, stream, target);
        seat.is_drained = received == Received::Blocked;
        if seat.is_drained && self.common.memory.is_pressed() {
            self.yield_memory(id, target);
        }
        let interest = self.interest(id);
        if interest.write || interest.closed {
            self.seats.mark_ready(id);
        }
        self.share_memory(id, target);
        received
    }

    /// Sends the session's data, as far as `stream` takes it and the turn allows. If there is more,
    /// the session is ready again, behind the others.
    pub fn transmit(&mut self, id: SessionId, stream: &mut impl Write, target: &mut dyn Target) {
        let now = self.common.metrics.sessions().now();
        let seat = self.seats.get_mut(id);
        let before = seat.session.bytes_sent();
        match streams::transmit(&mut seat.session, stream, target) {
            // The rest must be read again first, and for that the session waits until the peer
            // takes more.
            Sent::All if seat.session.waits_for_peer() => {
                if self.common.memory.is_pressed() {
                    self.yield_memory(id, target);
                }
            }
            Sent::All => seat.blocked_since = None,
            Sent::More => {
                seat.blocked_since = None;
                self.seats.mark_ready(id);
            }
            Sent::Blocked => {
                if seat.session.bytes_sent() != before || seat.blocked_since.is_none() {
                    seat.blocked_since = Some(now);
                }
                if self.common.memory.is_pressed() {
                    self.yield_memory(id, target);
                }
            }
        }
        self.share_memory(id, target);
    }

    /// Returns the approximate number of sessions that [`Sessions::next_ready`] would return now.
    #[must_use]
    pub fn ready_count(&self) -> usize {
        self.seats.ready_count()
    }

    /// Notes that the stream is encrypted from here on.
    pub fn tls_begun(&mut self, id: SessionId) {
        self.seats.get_mut(id).session.tls_begun();
    }

    /// Abandons a session whose socket is broken.
    pub fn abandon(&mut self, id: SessionId, target: &mut dyn Target) {
        self.seats.get_mut(id).session.abandon(target);
        self.seats.mark_ready(id);
        self.share_memory(id, target);
    }

    /// Takes all completions from `target` and returns how many there were. For a target that
    /// serves only these sessions; otherwise see [`Sessions::complete`].
    pub fn poll(&mut self, target: &mut dyn Target) -> usize {
        let mut completions = std::mem::take(&mut self.completions);
        target.poll(&mut completions);
        let count = completions.len();
        completions
            .drain(..)
            .for_each(|completion| self.complete(completion, target));
        self.completions = completions;
        count
    }

    /// Routes one completion.
    ///
    /// # Panics
    /// If its token belongs to no session here.
    pub fn complete(&mut self, completion: Completion, target: &mut dyn Target) {
        let Completion { token, result } = completion;
        let id = SessionId::of_token(token);
        self.seats
            .get_mut(id)
            .session
            .completed(token, result, target);
        self.seats.mark_ready(id);
        self.share_memory(id, target);
    }

    // ---- memory ----

    /// Notes that the stream accepts bytes again. Called before [`Sessions::transmit`] when the
    /// socket has become writable, because data that a reply owes is not read before.
    pub fn writable(&mut self, id: SessionId, target: &mut dyn Target) {
        self.seats.get_mut(id).session.peer_may_take(target);
        self.share_memory(id, target);
    }

    /// Shares memory after an event of a session, which may wait for memory now, or may have freed
    /// some.
    fn share_memory(&mut self, id: SessionId, target: &mut dyn Target) {
        let seat = self.seats.get_mut(id);
        if seat.waits.is_none() && seat.session.wants_memory().is_some() {
            self.enqueue(id, target);
        }
        if self.common.memory.is_pressed() {
            self.serve_queues(target);
        }
    }

    /// Queues a session for memory. The first session that waits makes the others release memory
    /// that they can take again.
    fn enqueue(&mut self, id: SessionId, target: &mut dyn Target) {
        let is_first = !self.common.memory.is_pressed();
        let seat = self.seats.get_mut(id);
        let Some(Reservation { class, .. }) = seat.session.wants_memory() else {
            return;
        };
        seat.waits = Some(class);
        self.waiting[class as usize].push_back(id);
        self.common.memory.begin_wait(class);
        if is_first {
            self.yield_all(target);
        }
    }

    fn yield_all(&mut self, target: &mut dyn Target) {
        for id in self.ids() {
            self.yield_memory(id, target);
        }
    }

    fn yield_memory(&mut self, id: SessionId, target: &mut dyn Target) {
        let seat = self.seats.get_mut(id);
        let (takes_nothing, sends_nothing) = (seat.blocked_since.is_some(), seat.is_drained);
        seat.session
            .yield_memory(takes_nothing, sends_nothing, target);
    }

    /// Gives waiting sessions their turns in order of arrival, while the memory that the first
    /// needs is free.
    fn serve_queues(&mut self, target: &mut dyn Target) {
        // A session that is served may free memory for another queue, or join that queue.
        while self.serve_each_queue(target) {}
    }

    /// Gives each waiting session at most one turn. Returns whether a session took memory or
    /// stopped waiting.
    fn serve_each_queue(&mut self, target: &mut dyn Target) -> bool {
        let mut progress = false;
        for class in [Class::Again, Class::Small, Class::Large] {
            // A session that wants more afterwards is queued behind the others.
            for _ in 0..self.waiting[class as usize].len() {
                let Some(id) = self.waiting[class as usize].front().copied() else {
                    break;
                };
                let wants = self.session(id).wants_memory();
                let is_served = wants.is_none_or(|wants| {
                    wants.class != class || self.common.memory.fits(wants.bytes, class)
                });
                if !is_served {
                    break;
                }
                self.waiting[class as usize].pop_front();
                self.common.memory.end_wait(class);
                self.common.memory.set_turn(true);
                let seat = self.seats.get_mut(id);
                seat.waits = None;
                seat.session.resume(target);
                // The turn is over once the session took its memory.
                progress |= !self.common.memory.is_turn();
                self.common.memory.set_turn(false);
                self.seats.mark_ready(id);
                match self.session(id).wants_memory() {
                    Some(_) => self.enqueue(id, target),
                    None => progress = true,
                }
            }
        }
        progress
    }

    /// Returns a session that may have bytes to send, may have closed, or may want to read again.
    /// Each session is returned once for each change.
    pub fn next_ready(&mut self) -> Option<SessionId> {
        self.seats.next_ready()
    }

    /// Ends sessions that take too long to choose an export or to take their last replies, those
    /// whose LUN is gone, those that are idle for longer than is allowed, and, while others wait
    /// for memory, those whose peers keep some and do not move. They become ready.
    pub fn sweep(&mut self, now: Nanos, target: &mut dyn Target) {
        let idle_max = S::idle_max(&self.common.settings);
        let is_pressed = self.common.memory.is_pressed();
        for id in self.ids() {
            let seat = self.seats.get_mut(id);
            let late = now.saturating_sub(seat.since) > PATIENCE;
            let is_stuck = is_pressed && seat.is_stuck(now);
            let is_quiet = now.saturating_sub(seat.heard) > QUIET;
            let session = &mut seat.session;
            if is_quiet {
                session.rest();
            }
            let has_changed = session.tick(now, target);
            if session.is_draining() {
                if !seat.drains {
                    seat.drains = true;
                    seat.since = now;
                } else if late {
                    session.abandon(target);
                }
            } else if session.is_in_handshake() {
                if late {
                    session.abandon(target);
                }
            } else if is_stuck {
                session.abandon(target);
                self.common.memory.note_stalled();
            } else if session.has_lost_its_lun(target)
                || session.is_locked_out()
                || seat.is_idle(now, idle_max)
            {
                seat.session.stop(target);
            }
            let Interest { write, closed, .. } = self.interest(id);
            if write || closed || has_changed {
                self.seats.mark_ready(id);
            }
            if has_changed {
                self.share_memory(id, target);
            }
        }
        if self.common.memory.is_pressed() {
            self.serve_queues(target);
        }
    }

    /// Stops the table: every session finishes its operations in flight, sends its replies and
    /// closes.
    pub fn stop(&mut self, target: &mut dyn Target) {
        for id in self.ids() {
            self.seats.get_mut(id).session.stop(target);
            self.seats.mark_ready(id);
        }
    }

    /// Returns all sessions.
    #[must_use]
    pub fn ids(&self) -> Vec<SessionId> {
        self.seats.ids()
    }

    /// Returns what the clients of each LUN were answered since the table was made.
    pub fn tallies(&mut self) -> ByLun {
        let ids = self.seats.ids().into_iter();
        let living = ids.filter_map(|id| {
            let session = &self.seats.get(id).session;
            let (_, lun) = session.opened()?;
            Some((*lun, session.tally()))
        });
        self.ended.with(living)
    }

    /// Describes the sessions that have an export open, for people.
    #[must_use]
    pub fn facts(&self, now: Nanos) -> Vec<Facts> {
        let facts = |id: SessionId| {
            let seat = self.seats.get(id);
            let session = &seat.session;
            let (caller, (export, lun)) = (session.caller()?, session.opened()?);
            Some(Facts {
                export: export.to_owned(),
                lun: *lun,
                caller: caller.clone(),
                age: now.saturating_sub(seat.since),
                silence: now.saturating_sub(seat.heard),
                operations: session.operations_in_flight(),
                bytes_sent: session.bytes_sent(),
                tally: session.tally(),
                is_ending: session.is_draining(),
            })
        };
        self.seats.ids().into_iter().filter_map(facts).collect()
    }
}
