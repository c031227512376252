//! One connection as a state machine.
//!
//! ```text
//! greeting -> client flags -> options -> transmission
//!                  |            |             |        wrong magic, ABORT, DISC, refusal, end of
//!                  +------------+-------------+------> stream, LUN gone, server stopping
//!                                             draining -- no operation in flight,
//!                                                         nothing left to send ----> closed
//! ```
//!
//! The owner moves bytes: it fills the memory of [`Session::receive_buffers`] and reports the
//! number of bytes with [`Session::received`]; it sends the bytes of [`Session::transmit_buffers`]
//! and reports their number with [`Session::transmitted`]; it passes on completions with
//! [`Session::completed`]. Each of these calls does everything that has become possible. So between
//! calls a session waits for nothing but the events that these functions name:
//! [`Session::wants_read`], [`Session::wants_write`], [`Session::wants_tls`],
//! [`Session::home_question`], operations in flight.
//!
//! Invariants:
//!
//! 1. Bytes are interpreted in the order received; a payload byte is copied at most once, and not
//!    at all if it arrives after its slice has begun.
//! 2. Memory is bounded by [`Settings`] and by what sessions of a table have together
//!    (`everglade_target::sessions::memory`): staging, payload in flight, requests in flight (a
//!    request counts until the last byte of its reply was sent). At a bound the session stops
//!    reading (*stalls*) and continues when something was completed or sent, or at its turn for
//!    memory (`Session::resume`).
//! 3. During the handshake, the next option is not processed before all replies were sent.
//! 4. A simple reply carries its error in front of its data, so the reply of a read is queued when
//!    all its slices are known to be good; chunks are queued as slices finish. Replies end in the
//!    order in which requests finish. If a reply that has begun cannot be completed, the session
//!    ends.
//! 5. A session that asks on which reactor it should run has opened no export, and has nothing in
//!    flight or to send.
//! 6. The LUN, and the images that it is compared with, are closed after the last operation in
//!    flight has completed, however the session ends.

mod greeting;
mod home_question;
mod open_export;
mod options;
mod outgoing;
mod serving;
mod settings;
mod terms;
mod transmission;
mod turns;

use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;

use everglade_target::sessions::seats::OWN_BITS;
use everglade_target::sessions::{Allowed, Caller, Ledger, Memory, Staging, State, Tally};
use everglade_target::{Error, LunHandle, Reply, Target, Token};

use crate::SessionMetrics;
use home_question::HomeQuestion;
use open_export::OpenExport;
use options::Haggling;
use outgoing::Outgoing;
pub use settings::{Notes, Settings};
use terms::Terms;
use transmission::{Ended, Transmission};

/// Least remainder of a payload that is received by a call of its own. For fewer bytes, copying
/// twice costs less than a call.
const LONG_PAYLOAD_BYTES: usize = 16 << 10;

/// A connection.
pub struct Session {
    settings: Settings,
    staging: Staging,
    outgoing: Outgoing,
    ledger: Ledger,
    phase: Phase,
    state: State,
    /// A bound was met; staged bytes wait.
    stalled: bool,
    /// The owed data of a reply is not read before the client takes something.
    waits_for_peer: bool,
    bytes_sent: u64,
    /// Added to the tokens of this session's operations.
    token_base: Token,
    metrics: Arc<SessionMetrics>,
    caller: Caller,
    /// Whether the session waits for TLS: all further bytes are encrypted, and the owner has not
    /// begun TLS.
    awaits_tls: bool,
    /// The reactor where the export is to be opened.
    home: HomeQuestion,
}

#[expect(
    clippy::large_enum_variant,
    reason = "a session is in transmission all its life, and a box costs each request a miss"
)]
enum Phase {
    ClientFlags,
    Options(Haggling),
    Transmission(Transmission),
}

/// The result of one step of a phase. Small, because every request is a step.
enum StepEnd {
    /// Something was done; there may be more in the staging buffer.
    Again,
    /// The next message is incomplete.
    NeedBytes,
    /// A bound was met.
    Stalled,
    /// Options are done.
    Haggle(Box<Haggling>),
    /// The owner is to say where this export will be opened; then the same step again.
    AskForHome(Box<str>),
    /// The export is chosen.
    Enter(Box<(OpenExport, Terms)>),
    /// The stream is to be encrypted.
    Encrypt,
    /// The session ends.
    End,
}

/// The state that the steps of all phases use.
struct Cx<'a> {
    settings: &'a Settings,
    staging: &'a mut Staging,
    outgoing: &'a mut Outgoing,
    ledger: &'a mut Ledger,
    target: &'a mut dyn Target,
    token_base: Token,
    metrics: &'a SessionMetrics,
    caller: &'a Caller,
    /// The owner wants to know of the export before it is opened, and has not been asked.
    may_ask_for_home: bool,
}

impl Session {
    /// Makes a session for a new connection, with the greeting ready to be sent. The session shares
    /// its memory with no other.
    ///
    /// # Panics
    /// If the low 32 bits of `token_base` are not zero.
    #[must_use]
    pub fn new(token_base: Token, settings: Settings, metrics: &Arc<SessionMetrics>) -> Self {
        // Other classes have almost half of a budget, so the total is twice the payload of long
        // requests.
        let memory = Memory::new(2 * settings.payload_in_flight_max);
        Self::within(token_base, settings, metrics, &Arc::new(memory))
    }

    /// Makes a session for a new connection, with the greeting ready to be sent, in the table's
    /// memory.
    ///
    /// # Panics
    /// If the low 32 bits of `token_base` are not zero.
    #[must_use]
    pub(crate) fn within(
        token_base: Token,
        settings: Settings,
        metrics: &Arc<SessionMetrics>,
        memory: &Arc<Memory>,
    ) -> Self {
        assert_token_base(token_base);
        let settings = settings.checked();
        let mut outgoing = Outgoing::default();
        greeting::greet(&mut outgoing);
        let home = match settings.asks_for_home {
            true => HomeQuestion::Unasked,
            false => HomeQuestion::Settled,
        };
        Session {
            staging: Staging::default(),
            ledger: Ledger::new(Arc::clone(memory), settings.payload_in_flight_max),
            settings,
            outgoing,
            phase: Phase::ClientFlags,
            state: State::Open,
            stalled: false,
            waits_for_peer: false,
            bytes_sent: 0,
            token_base,
            metrics: Arc::clone(metrics),
            caller: Caller::default(),
            awaits_tls: false,
            home,
        }
    }

    /// Sets the client of the session.
    #[must_use]
    pub fn with_caller(mut self, caller: Caller) -> Self {
        self.caller = caller;
        self
    }

    /// Returns whether the owner must encrypt the stream from here on, and then call
    /// [`Session::tls_begun`]. The acknowledgement of TLS is sent. No bytes are received before.
    #[must_use]
    pub fn wants_tls(&self) -> bool {
        self.awaits_tls && self.state == State::Open && self.outgoing.is_empty()
    }

    /// Notes that received and sent bytes pass through TLS from now on.
    ///
    /// # Panics
    /// If the session did not ask for TLS.
    pub fn tls_begun(&mut self) {
        assert!(self.wants_tls(), "TLS begins when the session asks for it");
        self.awaits_tls = false;
    }

    /// The export the client is about to open: the owner is to call [`Session::stay`], perhaps
    /// after the session was moved to another table. Nothing is received before.
    #[must_use]
    pub fn home_question(&self) -> Option<&str> {
        match &self.home {
            HomeQuestion::Asked(export) if self.state == State::Open => Some(export),
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
        self.home = HomeQuestion::Settled;
        self.advance(target);
    }

    /// Moves the session to another table.
    ///
    /// # Panics
    /// If the session did not ask for its place, or as [`Session::new`].
    pub(crate) fn moved(
        &mut self,
        token_base: Token,
        metrics: &Arc<SessionMetrics>,
        memory: &Arc<Memory>,
    ) {
        assert!(
            self.home_question().is_some() && self.is_in_handshake() && self.outgoing.is_empty(),
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
        if let Phase::Transmission(transmission) = &mut self.phase
            && let header_bytes = transmission.header_bytes()
            && let Some(payload) = transmission.payload()
        {
            let more_slices = payload.is_open() && payload.more_slices();
            let mut unfilled = 0;
            for piece in payload.unfilled() {
                if count == buffers.len() {
                    return count;
                }
                unfilled += piece.len();
                buffers[count] = IoSliceMut::new(piece);
                count += 1;
            }
            // The next bytes belong into pages that do not exist yet.
            if more_slices {
                return count;
            }
            // Another long payload probably follows. Only its header is received here: further
            // bytes would be copied once more on their way into pages.
            if unfilled >= LONG_PAYLOAD_BYTES {
                staged = header_bytes;
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
        let direct = match &mut self.phase {
            Phase::Transmission(transmission) => match transmission.payload() {
                Some(payload) => payload.filled_in_place(bytes),
                None => 0,
            },
            _ => 0,
        };
        self.staging.filled(bytes - direct);
        self.advance(target);
    }

    /// Notes that the peer sends no more. Its requests are still answered.
    pub fn received_end(&mut self, target: &mut dyn Target) {
        self.drain();
        self.settle(target);
    }

    /// Ends the session at the server's will, as if the peer had disconnected.
    pub fn stop(&mut self, target: &mut dyn Target) {
        self.drain();
        self.settle(target);
    }

    /// Ends the session because its stream is broken.
    pub fn abandon(&mut self, target: &mut dyn Target) {
        self.drain();
        if self.state == State::Draining {
            self.state = State::Abandoned;
            let released = self.outgoing.clear();
            self.ledger.give_all(released);
            if let Phase::Transmission(transmission) = &mut self.phase {
                transmission.forget_replies();
                transmission.yield_kept(&mut self.ledger);
            }
        }
        self.settle(target);
    }

    /// Names the bytes to send next, in order, and returns how many of `buffers` were set.
    pub fn transmit_buffers<'a>(&'a self, buffers: &mut [IoSlice<'a>]) -> usize {
        if self.wants_write() {
            self.outgoing.gather(buffers)
        } else {
            0
        }
    }

    /// Notes that the first `bytes` bytes of the buffers named last were sent.
    ///
    /// # Panics
    /// If these are more than were to be sent.
    pub fn transmitted(&mut self, bytes: usize, target: &mut dyn Target) {
        self.bytes_sent += bytes as u64;
        let released = self.outgoing.transmitted(bytes);
        self.ledger.give_all(released);
        self.waits_for_peer = false;
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
            .expect("a token of this session");
        let Phase::Transmission(transmission) = &mut self.phase else {
            panic!("an operation completed before transmission began");
        };
        // The LUN was deleted, or its aggregate failed: acknowledged and unflushed data may be
        // lost, and a client must not notice this on a connection that stays open
        // (docs/design/design.md §5).
        let gone = result.is_err() && target.size_bytes(transmission.lun()).is_none();
        let gone = gone || matches!(result, Err(Error::Gone));
        let outgoing = if self.state == State::Abandoned {
            None
        } else {
            Some(&mut self.outgoing)
        };
        let ended = transmission.completed(low, result, outgoing, &mut self.ledger, &self.metrics);
        if gone {
            self.drain();
        }
        if ended == Ended::ReplyBroken {
            self.abandon(target);
        }
        self.go_on(target);
        self.settle(target);
    }

    /// Returns whether there is room for bytes from the peer. Otherwise the socket must not be read
    /// now.
    #[must_use]
    pub fn wants_read(&self) -> bool {
        let is_asking = matches!(self.home, HomeQuestion::Asked(_));
        self.state == State::Open && !self.stalled && !self.awaits_tls && !is_asking
    }

    /// Returns whether there are bytes for the peer.
    #[must_use]
    pub fn wants_write(&self) -> bool {
        matches!(self.state, State::Open | State::Draining) && self.outgoing.is_ready()
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

    /// Returns whether no export has been chosen yet.
    #[must_use]
    pub fn is_in_handshake(&self) -> bool {
        !matches!(self.phase, Phase::Transmission(_))
    }

    /// Returns the LUN being served.
    #[must_use]
    pub fn lun(&self) -> Option<LunHandle> {
        match &self.phase {
            Phase::Transmission(transmission) => Some(transmission.lun()),
            _ => None,
        }
    }

    pub(crate) fn caller(&self) -> &Caller {
        &self.caller
    }

    pub(crate) fn opened(&self) -> Option<(&str, &[u8; 16])> {
        match &self.phase {
            Phase::Transmission(transmission) => Some(transmission.opened()),
            _ => None,
        }
    }

    /// Bytes sent since the session began.
    pub(crate) fn bytes_sent(&self) -> u64 {
        self.bytes_sent
    }

    /// What the client was answered.
    #[must_use]
    pub fn tally(&self) -> Tally {
        match &self.phase {
            Phase::Transmission(transmission) => transmission.tally(),
            _ => Tally::default(),
        }
    }

    /// Operations submitted to the target and not completed.
    #[must_use]
    pub fn operations_in_flight(&self) -> usize {
        match &self.phase {
            Phase::Transmission(transmission) => transmission.operations_in_flight(),
            _ => 0,
        }
    }

    /// Bytes held for requests and replies: received, being read, or waiting to be sent.
    #[must_use]
    pub fn payload_in_flight(&self) -> u64 {
        self.ledger.held()
    }

    /// Interprets staged bytes until some are missing, a bound is met or the session ends.
    fn advance(&mut self, target: &mut dyn Target) {
        self.stalled = false;
        self.ledger.begin();
        while self.state == State::Open {
            // Before a client chooses an export, it sees only the exports that it may use.
            let mut allowed;
            let target: &mut dyn Target = if self.is_in_handshake() {
                allowed = Allowed {
                    target: &mut *target,
                    caller: &self.caller,
                };
                &mut allowed
            } else {
                &mut *target
            };
            let mut cx = Cx {
                settings: &self.settings,
                staging: &mut self.staging,
                outgoing: &mut self.outgoing,
                ledger: &mut self.ledger,
                target,
                token_base: self.token_base,
                metrics: &self.metrics,
                caller: &self.caller,
                may_ask_for_home: self.home != HomeQuestion::Settled,
            };
            let step = match &mut self.phase {
                Phase::ClientFlags => greeting::read_client_flags(&mut cx),
                Phase::Options(haggling) => haggling.step(&mut cx),
                Phase::Transmission(transmission) => transmission.step(&mut cx),
            };
            match step {
                StepEnd::Again => {}
                StepEnd::NeedBytes => break,
                StepEnd::Stalled => {
                    self.stalled = true;
                    break;
                }
                StepEnd::AskForHome(export) => {
                    self.home = HomeQuestion::Asked(export);
                    break;
                }
                StepEnd::Haggle(haggling) => self.phase = Phase::Options(*haggling),
                StepEnd::Enter(entered) => {
                    let (export, terms) = *entered;
                    let reservations = self.settings.reservations.as_ref();
                    let reservations = reservations.map(|all| all.lun(&export.export.uuid));
                    let transmission = Transmission::new(&export, terms, reservations);
                    self.phase = Phase::Transmission(transmission);
                }
                StepEnd::Encrypt => {
                    self.awaits_tls = true;
                    break;
                }
                StepEnd::End => self.drain(),
            }
        }
        if self.outgoing.owes() && !self.waits_for_peer {
            self.with_transmission(target, |transmission, cx| transmission.refill(cx));
        }
        self.settle(target);
    }

    /// Stops receiving. A write whose payload is incomplete is forgotten.
    fn drain(&mut self) {
        if self.state != State::Open {
            return;
        }
        self.state = State::Draining;
        self.stalled = false;
        self.staging = Staging::default();
        self.ledger.begin();
        if let Phase::Transmission(transmission) = &mut self.phase {
            transmission.forget_incoming(&mut self.ledger);
        }
    }

    /// Closes a draining session that has nothing left to wait for.
    fn settle(&mut self, target: &mut dyn Target) {
        let is_idle = self.operations_in_flight() == 0 && !self.has_more_to_read();
        let done = is_idle && self.outgoing.is_empty();
        if !self.is_draining() || !done {
            return;
        }
        self.state = State::Closed;
        if let Phase::Transmission(transmission) = &self.phase {
            target.close(transmission.lun());
            transmission.images().for_each(|image| target.close(image));
        }
    }
}

fn assert_token_base(token_base: Token) {
    assert!(
        token_base.trailing_zeros() >= OWN_BITS,
        "the session's own part of its tokens is free"
    );
}
