//! All sessions of one reactor: gives them numbers, routes completions to them by token, and ends
//! them in time.
//!
//! A token is: 4 bits zero (for the owner of several protocols to tell them apart), 12 bits
//! generation and 16 bits index of the session, 32 bits for the session's own use. An index is
//! reused only after its session is closed, which happens after all its operations have completed;
//! the generation turns a routing mistake into a failed assertion instead of a wrong answer.
//!
//! A reactor's turn:
//!
//! 1. [`Sessions::receive`] for every readable socket;
//! 2. let the target work, then [`Sessions::poll`];
//! 3. [`Sessions::transmit`] for every id from [`Sessions::next_ready`] and every writable socket
//!    (for which [`Sessions::writable`] comes first). Sending frees room, which may start more
//!    operations, and a session that has more to send than its turn allows is ready again: back to
//!    2 a few times, then look at the sockets before more is sent;
//! 4. [`Sessions::interest`] of the sessions touched: what to wait for. A closed session must be
//!    [detached](Sessions::detach), and its socket dropped. A session that asks [on which
//!    reactor](Interest::place) it should run waits for nothing else. [`Sessions::place_here`]
//!    keeps it here, and it has other interests then; [`Sessions::release`] here and
//!    [`Sessions::adopt`] there move it to another table;
//! 5. about once a second, [`Sessions::sweep`].

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::sync::Arc;

use everglade_env::Nanos;
use everglade_target::{Completion, Target, Token};

use crate::memory::{CLASSES, Class, Held, Memory};
use crate::server::{self, Received, Sent};
use crate::{Caller, Session, SessionMetrics, Settings};

/// A handshake must be over after this time (docs/reference/conventions.md#nbd), and so must the
/// sending of last replies to a peer that does not take them.
const PATIENCE: Nanos = 10_000_000_000;

/// A session from which nothing came for so long needs no buffer.
const QUIET: Nanos = 1_000_000_000;

const INDEX_BITS: u32 = 16;
const GENERATION_MASK: u32 = 0xfff;
const INDEX_MASK: u32 = (1 << INDEX_BITS) - 1;
const SESSIONS_MAX: usize = 1 << INDEX_BITS;

/// Names a session of one table; never reused while it could be confused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SessionId(u32);

/// The events that the owner of a session's socket should wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest {
    /// Readable: then [`Sessions::receive`].
    pub read: bool,
    /// Writable: then [`Sessions::transmit`].
    pub write: bool,
    /// TLS: then encrypt the stream and call [`Sessions::tls_begun`].
    pub tls: bool,
    /// Nothing, but to be told which reactor is to open its export: [`Session::wants_place`].
    pub place: bool,
    /// Nothing any more: drop the socket and [`Sessions::detach`].
    pub closed: bool,
}

/// A session on its way from one table to another. Dropping it ends it; it has opened nothing.
pub struct Moving {
    session: Session,
    since: Nanos,
}

/// The sessions of a reactor.
pub struct Sessions {
    settings: Settings,
    memory: Arc<Memory>,
    /// The sessions that wait for memory, by class.
    waiting: [VecDeque<SessionId>; CLASSES],
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// First come, first served, so that a busy session cannot keep another waiting.
    ready: VecDeque<SessionId>,
    /// Reused between polls.
    completions: Vec<Completion>,
    metrics: Arc<SessionMetrics>,
}

#[derive(Default)]
struct Slot {
    generation: u32,
    seat: Option<Seat>,
}

struct Seat {
    session: Session,
    /// When the session began, or began to drain.
    since: Nanos,
    /// `since` is the beginning of draining.
    drains: bool,
    /// When something came from the peer last.
    heard: Nanos,
    /// Already in the list of ready sessions.
    ready: bool,
    /// Since this time, data was ready and the client has taken none of it.
    blocked_since: Option<Nanos>,
    /// The last receive emptied the socket.
    is_drained: bool,
    /// In the queue for memory of this class.
    waits: Option<Class>,
}

impl Seat {
    /// The peer has kept memory for too long by taking nothing, or by not sending the rest of a
    /// request.
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

    /// Nothing is under way, and nothing came for too long.
    fn is_idle(&self, now: Nanos, idle_max: Option<Nanos>) -> bool {
        let session = &self.session;
        let is_waiting = session.waits_for_peer() || session.wants_memory().is_some();
        let is_quiet = session.operations_in_flight() == 0 && !session.wants_write() && !is_waiting;
        let silence = now.saturating_sub(self.heard);
        is_quiet && idle_max.is_some_and(|idle_max| silence > idle_max)
    }
}

impl SessionId {
    fn index(self) -> usize {
        (self.0 & INDEX_MASK) as usize
    }

    fn generation(self) -> u32 {
        self.0 >> INDEX_BITS
    }

    fn of_token(token: Token) -> Self {
        SessionId(u32::try_from(token >> Session::TOKEN_BITS).expect("32 bits remain"))
    }

    fn token_base(self) -> Token {
        u64::from(self.0) << Session::TOKEN_BITS
    }
}

impl Sessions {
    /// No sessions yet. Together they hold at most `memory_bytes` for their peers, or the least
    /// with which any request can be carried out; who finds none waits for its turn.
    #[must_use]
    pub fn new(settings: Settings, memory_bytes: u64) -> Self {
        Sessions {
            settings: settings.checked(),
            memory: Arc::new(Memory::new(memory_bytes)),
            waiting: Default::default(),
            slots: Vec::new(),
            free: Vec::new(),
            ready: VecDeque::new(),
            completions: Vec::new(),
            metrics: Arc::default(),
        }
    }

    /// The counters of the sessions. To be told the time with [`SessionMetrics::tick`].
    #[must_use]
    pub fn metrics(&self) -> &Arc<SessionMetrics> {
        &self.metrics
    }

    /// The memory that the sessions hold for their clients.
    #[must_use]
    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// Number of sessions that are not detached.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// There are no sessions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A new connection of an unknown client; see [`Sessions::attach_caller`].
    pub fn attach(&mut self, now: Nanos) -> Option<SessionId> {
        self.attach_caller(now, Caller::default())
    }

    /// A new connection; it has its greeting ready to be sent. `None` if the table is full.
    pub fn attach_caller(&mut self, now: Nanos, caller: Caller) -> Option<SessionId> {
        let id = self.take_id()?;
        let session = Session::within(id.token_base(), self.settings, &self.metrics, &self.memory);
        let session = session.with_caller(caller);
        self.metrics.session_began();
        self.seat_session(id, session, now);
        Some(id)
    }

    /// A session that asked on which reactor to run stays here.
    ///
    /// # Panics
    /// If it did not ask.
    pub fn place_here(&mut self, id: SessionId, target: &mut dyn Target) {
        self.seat_mut(id).session.placed(target);
        self.mark_ready(id);
    }

    /// A session that asked on which reactor to run leaves this table; its id is no longer used.
    ///
    /// # Panics
    /// If it did not ask.
    pub fn release(&mut self, id: SessionId) -> Moving {
        assert!(
            self.session(id).wants_place().is_some(),
            "a session leaves when it asks for its place"
        );
        self.metrics.session_left();
        let Seat { session, since, .. } = self.vacate(id);
        Moving { session, since }
    }

    /// A session comes from another table, and opens its export here. `None` if the table is full.
    pub fn adopt(
        &mut self,
        now: Nanos,
        moving: Moving,
        target: &mut dyn Target,
    ) -> Option<SessionId> {
        let Moving { mut session, since } = moving;
        let id = self.take_id()?;
        session.moved(id.token_base(), &self.metrics, &self.memory);
        self.metrics.session_came();
        self.seat_session(id, session, now);
        // The time limit of the handshake is not restarted.
        self.seat_mut(id).since = since;
        self.place_here(id, target);
        Some(id)
    }

    fn take_id(&mut self) -> Option<SessionId> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.slots.len() == SESSIONS_MAX => return None,
            None => {
                self.slots.push(Slot::default());
                u32::try_from(self.slots.len() - 1).expect("the table is bounded")
            }
        };
        let generation = self.slots[index as usize].generation;
        Some(SessionId(generation << INDEX_BITS | index))
    }

    fn seat_session(&mut self, id: SessionId, session: Session, now: Nanos) {
        self.slots[id.index()].seat = Some(Seat {
            session,
            since: now,
            drains: false,
            heard: now,
            ready: false,
            blocked_since: None,
            is_drained: false,
            waits: None,
        });
        self.memory.share_among(self.len() as u64);
        self.mark_ready(id);
    }

    fn vacate(&mut self, id: SessionId) -> Seat {
        let slot = &mut self.slots[id.index()];
        let seat = slot.seat.take().expect("the session was detached");
        slot.generation = (slot.generation + 1) & GENERATION_MASK;
        self.free.push(id.0 & INDEX_MASK);
        if let Some(class) = seat.waits {
            self.waiting[class as usize].retain(|other| *other != id);
            self.memory.end_wait(class);
        }
        self.memory.share_among(self.len() as u64);
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
        self.metrics
            .session_ended(!self.session(id).is_in_handshake());
        drop(self.vacate(id));
    }

    /// The session.
    ///
    /// # Panics
    /// If it was detached.
    #[must_use]
    pub fn session(&self, id: SessionId) -> &Session {
        &self.seat(id).session
    }

    /// The events to wait for.
    #[must_use]
    pub fn interest(&self, id: SessionId) -> Interest {
        let session = self.session(id);
        Interest {
            read: session.wants_read(),
            write: session.wants_write() || session.waits_for_peer(),
            tls: session.wants_tls(),
            place: session.wants_place().is_some(),
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
        let now = self.metrics.now();
        let seat = self.seat_mut(id);
        seat.heard = seat.heard.max(now);
        let received = server::receive(&mut seat.session, stream, target);
        seat.is_drained = received == Received::Blocked;
        if seat.is_drained && self.memory.is_pressed() {
            self.yield_memory(id, target);
        }
        let interest = self.interest(id);
        if interest.write || interest.closed {
            self.mark_ready(id);
        }
        self.share_memory(id, target);
        received
    }

    /// Sends the session's data, as far as `stream` takes it and the turn allows. If there is more,
    /// the session is ready again, behind the others.
    pub fn transmit(&mut self, id: SessionId, stream: &mut impl Write, target: &mut dyn Target) {
        let now = self.metrics.now();
        let seat = self.seat_mut(id);
        let before = seat.session.bytes_sent();
        match server::transmit(&mut seat.session, stream, target) {
            // The rest must be read again first, and for that the session waits until the peer
            // takes more.
            Sent::All if seat.session.waits_for_peer() => {
                if self.memory.is_pressed() {
                    self.yield_memory(id, target);
                }
            }
            Sent::All => seat.blocked_since = None,
            Sent::More => {
                seat.blocked_since = None;
                self.mark_ready(id);
            }
            Sent::Blocked => {
                if seat.session.bytes_sent() != before || seat.blocked_since.is_none() {
                    seat.blocked_since = Some(now);
                }
                if self.memory.is_pressed() {
                    self.yield_memory(id, target);
                }
            }
        }
        self.share_memory(id, target);
    }

    /// How many sessions [`Sessions::next_ready`] would return now, about.
    #[must_use]
    pub fn ready_count(&self) -> usize {
        self.ready.len()
    }

    /// The stream is encrypted from here on.
    pub fn tls_begun(&mut self, id: SessionId) {
        self.seat_mut(id).session.tls_begun();
    }

    /// The socket is broken.
    pub fn abandon(&mut self, id: SessionId, target: &mut dyn Target) {
        self.seat_mut(id).session.abandon(target);
        self.mark_ready(id);
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
        self.seat_mut(id).session.completed(token, result, target);
        self.mark_ready(id);
        self.share_memory(id, target);
    }

    // ---- memory ----

    /// The stream takes bytes again. To be called before [`Sessions::transmit`] when the socket has
    /// become writable: what a reply owes is not read before.
    pub fn writable(&mut self, id: SessionId, target: &mut dyn Target) {
        self.seat_mut(id).session.peer_may_take(target);
        self.share_memory(id, target);
    }

    /// Something happened to a session: it may wait for memory now, or others need not wait any
    /// more.
    fn share_memory(&mut self, id: SessionId, target: &mut dyn Target) {
        let seat = self.seat_mut(id);
        if seat.waits.is_none() && seat.session.wants_memory().is_some() {
            self.enqueue(id, target);
        }
        if self.memory.is_pressed() {
            self.serve_queues(target);
        }
    }

    /// A session waits for memory. The first session that waits makes the others release memory
    /// that they can do without.
    fn enqueue(&mut self, id: SessionId, target: &mut dyn Target) {
        let is_first = !self.memory.is_pressed();
        let seat = self.seat_mut(id);
        let Some(Held { class, .. }) = seat.session.wants_memory() else {
            return;
        };
        seat.waits = Some(class);
        self.waiting[class as usize].push_back(id);
        self.memory.begin_wait(class);
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
        let seat = self.seat_mut(id);
        let (takes_nothing, sends_nothing) = (seat.blocked_since.is_some(), seat.is_drained);
        seat.session
            .yield_memory(takes_nothing, sends_nothing, target);
    }

    /// Gives sessions that wait their turn, first come, first served, while what the first wants is
    /// free.
    fn serve_queues(&mut self, target: &mut dyn Target) {
        // A session that is served may free memory for another queue, or join that queue.
        while self.serve_each_queue(target) {}
    }

    /// Each session that waits has at most one turn. True if a session took memory or stopped
    /// waiting.
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
                    wants.class != class || self.memory.fits(wants.bytes, class)
                });
                if !is_served {
                    break;
                }
                self.waiting[class as usize].pop_front();
                self.memory.end_wait(class);
                self.memory.set_turn(true);
                let seat = self.seat_mut(id);
                seat.waits = None;
                seat.session.resume(target);
                // The turn is over once the session took its memory.
                progress |= !self.memory.is_turn();
                self.memory.set_turn(false);
                self.mark_ready(id);
                match self.session(id).wants_memory() {
                    Some(_) => self.enqueue(id, target),
                    None => progress = true,
                }
            }
        }
        progress
    }

    /// A session that may have bytes to send, may have closed, or may want to read again. Each is
    /// returned once, until something else happens to it.
    pub fn next_ready(&mut self) -> Option<SessionId> {
        while let Some(id) = self.ready.pop_front() {
            let slot = &mut self.slots[id.index()];
            if slot.generation == id.generation()
                && let Some(seat) = &mut slot.seat
            {
                seat.ready = false;
                return Some(id);
            }
        }
        None
    }

    /// Ends sessions that take too long to choose an export or to take their last replies, those
    /// whose LUN is gone, those that are idle for longer than is allowed, and, while others wait
    /// for memory, those whose peers keep some and do not move. They become ready.
    pub fn sweep(&mut self, now: Nanos, target: &mut dyn Target) {
        let idle_max = self.settings.idle_max;
        let is_pressed = self.memory.is_pressed();
        for id in self.ids() {
            let seat = self.seat_mut(id);
            let late = now.saturating_sub(seat.since) > PATIENCE;
            let is_stuck = is_pressed && seat.is_stuck(now);
            let is_quiet = now.saturating_sub(seat.heard) > QUIET;
            let session = &mut seat.session;
            if is_quiet {
                session.rest();
            }
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
                self.memory.note_stalled();
            } else if session
                .lun()
                .is_some_and(|lun| target.size_bytes(lun).is_none())
                || seat.is_idle(now, idle_max)
            {
                seat.session.stop(target);
            }
            let Interest { write, closed, .. } = self.interest(id);
            if write || closed {
                self.mark_ready(id);
            }
        }
        if self.memory.is_pressed() {
            self.serve_queues(target);
        }
    }

    /// The server stops: every session finishes what is in flight, sends its replies and closes.
    pub fn stop(&mut self, target: &mut dyn Target) {
        for id in self.ids() {
            self.seat_mut(id).session.stop(target);
            self.mark_ready(id);
        }
    }

    /// All sessions.
    #[must_use]
    pub fn ids(&self) -> Vec<SessionId> {
        let seats = self
            .slots
            .iter()
            .zip(0u32..)
            .filter(|(slot, _)| slot.seat.is_some());
        seats
            .map(|(slot, index)| SessionId(slot.generation << INDEX_BITS | index))
            .collect()
    }

    fn mark_ready(&mut self, id: SessionId) {
        let seat = self.seat_mut(id);
        if !seat.ready {
            seat.ready = true;
            self.ready.push_back(id);
        }
    }

    fn seat(&self, id: SessionId) -> &Seat {
        let slot = &self.slots[id.index()];
        assert_eq!(slot.generation, id.generation(), "the session was detached");
        slot.seat.as_ref().expect("the session was detached")
    }

    fn seat_mut(&mut self, id: SessionId) -> &mut Seat {
        let slot = &mut self.slots[id.index()];
        assert_eq!(slot.generation, id.generation(), "the session was detached");
        slot.seat.as_mut().expect("the session was detached")
    }
}
