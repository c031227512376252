//! One connection as a state machine. A session has one connection (`MaxConnections=1`), so the two
//! are the same here; a host with several paths has several sessions.
//!
//! ```text
//! login --+--> discovery: texts
//!         +--> full feature phase: commands of one LUN
//!                |        logout, refusal, protocol error, end of stream, LUN gone,
//!                |        replaced by another session of the host, server stopping
//!                v
//!             draining -- no operation in flight, nothing left to send --> closed
//! ```
//!
//! | file | what |
//! | --- | --- |
//! | `handshake` | the login phase joined to the target |
//! | `discovery` | discovery sessions |
//! | `full` | the full feature phase |
//! | `text` | text requests |
//! | `stream`, `segment`, `payload` | bytes on their way in |
//! | `link`, `outgoing` | messages on their way out, with their numbers |
//! | `serving` | a session as the table of sessions sees it |
//!
//! The owner moves bytes and passes on completions. Each call does everything that has become
//! possible, so between calls a session waits for nothing but bytes, room for bytes, operations,
//! its place, memory, or the clock ([`Session::tick`]).
//!
//! Invariants:
//!
//! 1. Messages are interpreted in the order received. Data of writes goes to its pages, copied at
//!    most once.
//! 2. Memory is bounded by [`Settings`] and by what sessions of a table have together. At a bound
//!    the session stops reading (*stalls*) and continues when something was completed or sent, or
//!    at its turn for memory.
//! 3. A session that asks on which reactor it should run, or waits for another session of its host
//!    to end, has nothing open, in flight or to send.
//! 4. The LUN is closed, and the seat is given up, after the last operation in flight has
//!    completed, however the session ends.

mod discovery;
mod full;
mod handshake;
mod link;
mod outgoing;
mod payload;
mod segment;
mod serving;
mod stream;
mod text;

use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;

use everglade_env::Nanos;
use everglade_target::sessions::memory::Reservation;
use everglade_target::sessions::seats::OWN_BITS;
use everglade_target::sessions::{Caller, Ledger, Memory, Staging, State, Tally};
use everglade_target::{Error, LunHandle, Reply, Target, Token};

use crate::login::Parameters;
use crate::metrics::SessionMetrics;
use crate::settings::Settings;
use crate::wire::digest::DIGEST_BYTES;
use crate::wire::header::{BHS_BYTES, NO_TAG};
use crate::wire::response::Response;
use discovery::Discovery;
use full::{Cx, Full, Goes};
use handshake::Handshake;
use link::Link;
use outgoing::Data;
use segment::Segment;

/// Least remainder of data that is received by a call of its own. For fewer bytes, copying twice
/// costs less than a call.
const LONG_PAYLOAD_BYTES: usize = 16 << 10;
/// Tag of our pings.
const PING_TAG: u32 = 1;

/// A connection.
pub struct Session {
    settings: Settings,
    metrics: Arc<SessionMetrics>,
    caller: Caller,
    /// Added to the tokens of this session's operations.
    token_base: Token,
    ledger: Ledger,
    staging: Staging,
    /// A message whose data is being received.
    segment: Option<Segment>,
    link: Link,
    parameters: Parameters,
    phase: Phase,
    state: State,
    /// A bound was met; staged bytes wait.
    stalled: bool,
    bytes_sent: u64,
    /// When the last bytes came, and when we asked for a sign of life.
    heard: Nanos,
    pinged: Option<Nanos>,
}

enum Phase {
    Login(Box<Handshake>),
    Discovery(Box<Discovery>),
    Full(Box<Full>),
}

impl Session {
    /// Makes a session for a new connection. The session shares its memory with no other.
    ///
    /// # Panics
    /// If the low 32 bits of `token_base` are not zero.
    #[must_use]
    pub fn new(token_base: Token, settings: Settings, metrics: &Arc<SessionMetrics>) -> Self {
        let memory = Arc::new(Memory::new(2 * settings.payload_in_flight_max));
        Self::within(token_base, settings, metrics, &memory)
    }

    pub(crate) fn within(
        token_base: Token,
        settings: Settings,
        metrics: &Arc<SessionMetrics>,
        memory: &Arc<Memory>,
    ) -> Self {
        assert_token_base(token_base);
        let settings = settings.checked();
        let now = metrics.now();
        Session {
            ledger: Ledger::new(Arc::clone(memory), settings.payload_in_flight_max),
            metrics: Arc::clone(metrics),
            caller: Caller::default(),
            token_base,
            staging: Staging::default(),
            segment: None,
            link: Link::default(),
            parameters: Parameters::default(),
            phase: Phase::Login(Box::new(Handshake::new(settings.asks_for_home))),
            state: State::Open,
            stalled: false,
            bytes_sent: 0,
            heard: now,
            pinged: None,
            settings,
        }
    }

    /// Sets the client of the session.
    #[must_use]
    pub fn with_caller(mut self, caller: Caller) -> Self {
        self.caller = caller;
        self
    }

    /// The export the client is about to open: the owner is to call [`Session::stay`], perhaps
    /// after the session was moved to another table. Nothing is received before.
    #[must_use]
    pub fn home_question(&self) -> Option<&str> {
        match &self.phase {
            Phase::Login(handshake) if self.state == State::Open => handshake.home_question(),
            _ => None,
        }
    }

    /// Continues on the reactor where the export is to be opened.
    ///
    /// # Panics
    /// If the session did not ask for that.
    pub fn stay(&mut self, target: &mut dyn Target) {
        assert!(
            self.home_question().is_some(),
            "a session is placed when it asks for it"
        );
        self.resume_login(target);
        self.advance(target);
    }

    /// Moves the session to another table.
    pub(crate) fn moved(
        &mut self,
        token_base: Token,
        metrics: &Arc<SessionMetrics>,
        memory: &Arc<Memory>,
    ) {
        assert!(
            self.home_question().is_some() && self.link.outgoing.is_empty(),
            "a session moves when it has nothing that stays behind"
        );
        assert_token_base(token_base);
        self.token_base = token_base;
        self.metrics = Arc::clone(metrics);
        self.ledger.move_to(memory);
    }

    /// Sets the buffers into which the next bytes should be received, in order, and returns how
    /// many of `buffers` are set: at least one, unless the session does not want to read.
    pub fn receive_buffers<'a>(&'a mut self, buffers: &mut [IoSliceMut<'a>]) -> usize {
        if !self.wants_read() {
            return 0;
        }
        let is_in_handshake = self.is_in_handshake();
        let mut count = 0;
        let mut staged = usize::MAX;
        if let Some(segment) = &self.segment
            && let Some((id, at, length)) = segment.in_place()
            && let Phase::Full(full) = &mut self.phase
        {
            for piece in full.payload_mut(id).pieces_mut(at, length) {
                if count == buffers.len() {
                    return count;
                }
                buffers[count] = IoSliceMut::new(piece);
                count += 1;
            }
            // Another long message probably follows. Only its header is received here: further
            // bytes would be copied once more on their way into pages.
            if length as usize >= LONG_PAYLOAD_BYTES {
                let dropped = (segment.left() - length) as usize;
                staged = dropped + segment.tail_bytes() + BHS_BYTES + DIGEST_BYTES;
            }
        }
        if count < buffers.len() {
            let allowed = self.ledger.memory().staging_bytes();
            let bytes = self.settings.staging_bytes(allowed, is_in_handshake);
            self.staging.resize(bytes);
            let free = self.staging.free();
            let room = free.len().min(staged);
            buffers[count] = IoSliceMut::new(&mut free[..room]);
            count += 1;
        }
        count
    }

    /// Takes `bytes` bytes that were received into the buffers named last.
    ///
    /// # Panics
    /// If these are more than there was room for.
    pub fn received(&mut self, bytes: usize, target: &mut dyn Target) {
        assert!(self.wants_read(), "received while not reading");
        self.heard = self.metrics.now();
        self.pinged = None;
        let mut direct = 0;
        if let Some(segment) = &mut self.segment
            && let Some((id, at, length)) = segment.in_place()
            && let Phase::Full(full) = &mut self.phase
        {
            let here = u32::try_from(bytes).unwrap_or(u32::MAX).min(length);
            if let Some(sum) = &mut segment.sum {
                let pieces = full.payload_mut(id).pieces(at, here);
                pieces.for_each(|piece| sum.add(piece));
            }
            segment.filled += here;
            direct = here as usize;
        }
        self.staging.filled(bytes - direct);
        self.advance(target);
    }

    /// Notes that the peer sends no more. Its requests are still answered.
    pub fn received_end(&mut self, target: &mut dyn Target) {
        self.drain(target);
        self.settle(target);
    }

    /// Ends the session at the server's will.
    pub fn stop(&mut self, target: &mut dyn Target) {
        if self.state == State::Open && matches!(self.phase, Phase::Full(_)) {
            // All connections of the session will be dropped; connect again after two seconds, and
            // nothing is kept until then (RFC 7143 §11.9).
            let event = Response::Async {
                event: 3,
                parameters: [0, 2, 0],
            };
            self.link.send(&event, Data::None);
        }
        self.drain(target);
        self.settle(target);
    }

    /// Ends the session because its stream is broken.
    pub fn abandon(&mut self, target: &mut dyn Target) {
        self.drain(target);
        if self.state == State::Draining {
            self.state = State::Abandoned;
        }
        self.settle(target);
    }

    /// Names the bytes to send next, in order, and returns how many of `buffers` were set.
    pub fn transmit_buffers<'a>(&'a self, buffers: &mut [IoSlice<'a>]) -> usize {
        match self.wants_write() {
            true => self.link.outgoing.gather(buffers),
            false => 0,
        }
    }

    /// Notes that the first `bytes` bytes of the buffers named last were sent.
    ///
    /// # Panics
    /// If these are more than were to be sent.
    pub fn transmitted(&mut self, bytes: usize, target: &mut dyn Target) {
        self.bytes_sent += bytes as u64;
        let released = self.link.outgoing.transmitted(bytes);
        self.ledger.give_all(released);
        self.go_on(target);
        self.settle(target);
    }

    /// Takes the completion of an operation of this session.
    ///
    /// # Panics
    /// If `token` is not one of its operations in flight: the target broke its contract.
    pub fn completed(
        &mut self,
        token: Token,
        result: Result<Reply, Error>,
        target: &mut dyn Target,
    ) {
        let low = token
            .checked_sub(self.token_base)
            .and_then(|low| usize::try_from(low).ok())
            .expect("a token of this session");
        let lun = self.lun().expect("operations need a LUN");
        // Acknowledged and unflushed data may be lost with the LUN, and a host must not notice this
        // on a session that goes on (docs/design/design.md §5).
        let is_gone = result.is_err() && target.size_bytes(lun).is_none();
        let is_gone = is_gone || matches!(result, Err(Error::Gone));
        let is_abandoned = self.state == State::Abandoned;
        let goes = self.with_full(target, |full, cx| {
            full.completed(low, result, is_abandoned, cx)
        });
        if is_gone || goes == Some(Goes::ToItsEnd) {
            self.drain(target);
        }
        self.go_on(target);
        self.settle(target);
    }

    /// Returns whether there is room for bytes from the peer. Otherwise the socket must not be read
    /// now.
    #[must_use]
    pub fn wants_read(&self) -> bool {
        let is_waiting = matches!(&self.phase, Phase::Login(handshake) if handshake.is_waiting());
        self.state == State::Open && !self.stalled && !is_waiting
    }

    /// Returns whether there are bytes for the peer.
    #[must_use]
    pub fn wants_write(&self) -> bool {
        matches!(self.state, State::Open | State::Draining) && !self.link.outgoing.is_empty()
    }

    /// Returns whether the session has ended: nothing is in flight, the LUN is closed, the
    /// connection may be dropped.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// Returns whether the session is ending, and waits for operations in flight or for its peer to
    /// take replies.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        matches!(self.state, State::Draining | State::Abandoned)
    }

    /// Returns whether the login has not ended yet.
    #[must_use]
    pub fn is_in_handshake(&self) -> bool {
        matches!(self.phase, Phase::Login(_))
    }

    /// Returns the LUN being served.
    #[must_use]
    pub fn lun(&self) -> Option<LunHandle> {
        match &self.phase {
            Phase::Full(full) => Some(full.lun()),
            _ => None,
        }
    }

    /// What the initiator was answered.
    #[must_use]
    pub fn tally(&self) -> Tally {
        match &self.phase {
            Phase::Full(full) => full.tally(),
            _ => Tally::default(),
        }
    }

    /// Operations submitted to the target and not completed.
    #[must_use]
    pub fn operations_in_flight(&self) -> usize {
        match &self.phase {
            Phase::Full(full) => full.operations_in_flight(),
            _ => 0,
        }
    }

    /// Bytes held for commands: received, being read, or waiting to be sent.
    #[must_use]
    pub fn payload_in_flight(&self) -> u64 {
        self.ledger.held()
    }

    /// Does what has become due. Called about once a second. Returns whether anything changed.
    pub fn tick(&mut self, now: Nanos, target: &mut dyn Target) -> bool {
        if self.state != State::Open {
            return false;
        }
        let quiet = now.saturating_sub(self.heard);
        match &mut self.phase {
            Phase::Login(handshake) if handshake.waits_for_seat() => {
                self.resume_login(target);
                self.advance(target);
                true
            }
            Phase::Login(_) => false,
            Phase::Discovery(discovery) => {
                let is_over = now.saturating_sub(discovery.began) > self.settings.discovery_max;
                if is_over {
                    self.stop(target);
                }
                is_over
            }
            Phase::Full(full) if full.is_replaced() => {
                self.note("another session of the same host takes its place");
                // Nobody reads what is left to be said.
                self.abandon(target);
                true
            }
            Phase::Full(_) => {
                let changed = self.with_full(target, |full, cx| full.tick(now, cx));
                if self.stalled {
                    // An answer may lie in the socket, which is not read.
                    self.pinged = None;
                    return changed == Some(true);
                }
                let is_silent = self
                    .pinged
                    .is_some_and(|pinged| now.saturating_sub(pinged) > self.settings.silence_max);
                if is_silent {
                    self.note("the host does not answer");
                    self.abandon(target);
                    return true;
                }
                if quiet <= self.settings.ping_after || self.pinged.is_some() {
                    return changed == Some(true);
                }
                self.pinged = Some(now);
                let ping = Response::NopIn {
                    lun: 0,
                    itt: NO_TAG,
                    ttt: PING_TAG,
                };
                self.link.send(&ping, Data::None);
                true
            }
        }
    }

    /// Gives the session its turn to take memory.
    pub(crate) fn resume(&mut self, target: &mut dyn Target) {
        self.go_on(target);
        self.settle(target);
    }

    /// The memory that the session waits for, if it waits for memory.
    pub(crate) fn wants_memory(&self) -> Option<Reservation> {
        self.ledger.wants().filter(|_| self.state == State::Open)
    }

    /// Steps that failed for lack of memory or room are tried again.
    fn go_on(&mut self, target: &mut dyn Target) {
        if self.state != State::Open {
            return;
        }
        self.ledger.begin();
        self.with_full(target, |full, cx| full.go_on(cx));
        if self.stalled {
            self.advance(target);
        }
    }

    fn with_full<T>(
        &mut self,
        target: &mut dyn Target,
        work: impl FnOnce(&mut Full, &mut Cx<'_>) -> T,
    ) -> Option<T> {
        self.with_phase(target, |phase, cx| match phase {
            Phase::Full(full) => Some(work(full, cx)),
            Phase::Login(_) | Phase::Discovery(_) => None,
        })
    }

    /// Calls `work` with the phase, and with all else that a phase uses.
    fn with_phase<T>(
        &mut self,
        target: &mut dyn Target,
        work: impl FnOnce(&mut Phase, &mut Cx<'_>) -> T,
    ) -> T {
        let mut cx = Cx {
            settings: &self.settings,
            link: &mut self.link,
            ledger: &mut self.ledger,
            parameters: &mut self.parameters,
            metrics: &self.metrics,
            caller: &self.caller,
            target,
            token_base: self.token_base,
        };
        work(&mut self.phase, &mut cx)
    }

    /// Stops receiving. Commands whose data is incomplete are forgotten.
    fn drain(&mut self, target: &mut dyn Target) {
        if self.state != State::Open {
            return;
        }
        self.state = State::Draining;
        self.stalled = false;
        self.staging = Staging::default();
        self.segment = None;
        self.ledger.begin();
        self.with_full(target, |full, cx| full.forget_incoming(cx));
    }

    /// Closes a draining session that has nothing left to wait for.
    fn settle(&mut self, target: &mut dyn Target) {
        if self.state == State::Abandoned {
            // Answers that became due since then have nobody to go to.
            let released = self.link.outgoing.clear();
            self.ledger.give_all(released);
        }
        let is_done = self.operations_in_flight() == 0 && self.link.outgoing.is_empty();
        if !self.is_draining() || !is_done {
            return;
        }
        self.state = State::Closed;
        if let Some(lun) = self.lun() {
            target.close(lun);
        }
        // The seat is free when nothing of the session can happen any more. Whether the session
        // chose an export is still to be told.
        if let Phase::Full(full) = &mut self.phase {
            full.leave();
        }
    }

    /// Writes a line to the log, with the host's name.
    fn note(&self, text: &str) {
        if let Some(notes) = &self.settings.notes {
            let address = self.caller.address;
            let address = address.map_or("this host".to_owned(), |address| address.to_string());
            let name = match &self.phase {
                Phase::Full(full) => Some(full.initiator()),
                Phase::Login(handshake) => handshake.initiator(),
                Phase::Discovery(_) => None,
            };
            let name = name.map_or(String::new(), |name| format!(" ({name})"));
            notes(&format!("iSCSI, {address}{name}: {text}"));
        }
    }
}

fn assert_token_base(token_base: Token) {
    assert!(
        token_base.trailing_zeros() >= OWN_BITS,
        "the session's own part of its tokens is free"
    );
}
