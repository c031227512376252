//! One connection of a protocol as a state machine without I/O: what [`Sessions`](super::Sessions)
//! asks of it.
//!
//! A session says where received bytes are to go and which bytes are to be sent, submits operations
//! to the target and takes their completions. Each call does everything that has become possible,
//! so between calls a session waits for exactly the things it says: bytes, room for bytes,
//! operations in flight, TLS, a place, memory.
//!
//! Only the first group of methods is needed. Those of the others have answers for a protocol that
//! does not know what they are about: no TLS in the middle of a connection, any reactor is as good
//! as another, nothing of the network memory is held.

use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;

use everglade_env::Nanos;

use super::caller::Caller;
use super::memory::{Memory, Reservation};
use super::metrics::Metrics;
use super::tally::Tally;
use crate::{Error, Reply, Target, Token};

/// State that the sessions of a table share.
pub struct Common<S: Session> {
    /// Bounds of each.
    pub settings: S::Settings,
    /// Counters of the sessions.
    pub metrics: Arc<S::Metrics>,
    /// Network memory of the sessions.
    pub memory: Arc<Memory>,
}

/// How far the end of a session has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It receives and answers.
    Open,
    /// It receives no more bytes; replies are still sent.
    Draining,
    /// The peer is gone. The session is closed when its operations in flight have ended.
    Abandoned,
    /// Nothing happens any more.
    Closed,
}

/// See the module's documentation.
pub trait Session: Sized + Send + 'static {
    /// Bounds of a session, the same for all sessions of a table.
    type Settings: Send;
    /// Counters of the sessions of a table.
    type Metrics: Metrics;

    /// Begins a session for a new connection, with the server's greeting ready to be sent. Tokens
    /// of its operations are `token_base` plus a number below 2³².
    fn begin(token_base: Token, caller: Caller, common: &Common<Self>) -> Self;

    /// Sets the buffers into which the next bytes should be received, in order, and returns how
    /// many of `buffers` are set: at least one, unless the session does not want to read.
    fn receive_buffers<'a>(&'a mut self, buffers: &mut [IoSliceMut<'a>]) -> usize;

    /// Takes `bytes` bytes that were received into the buffers named last.
    fn received(&mut self, bytes: usize, target: &mut dyn Target);

    /// Notes that the peer sends no more. Its requests are still answered.
    fn received_end(&mut self, target: &mut dyn Target);

    /// Names the bytes to send next, in order, and returns how many of `buffers` were set.
    fn transmit_buffers<'a>(&'a self, buffers: &mut [IoSlice<'a>]) -> usize;

    /// Notes that the first `bytes` bytes of the buffers named last were sent.
    fn transmitted(&mut self, bytes: usize, target: &mut dyn Target);

    /// Bytes sent since the session began.
    fn bytes_sent(&self) -> u64;

    /// Returns what the client was answered since the session began.
    fn tally(&self) -> Tally;

    /// Takes the completion of an operation of this session.
    fn completed(&mut self, token: Token, result: Result<Reply, Error>, target: &mut dyn Target);

    /// Returns whether there is room for bytes from the peer. Otherwise the socket is not read now.
    fn wants_read(&self) -> bool;

    /// Returns whether there are bytes for the peer.
    fn wants_write(&self) -> bool;

    /// Operations submitted to the target and not completed.
    fn operations_in_flight(&self) -> usize;

    /// Returns whether the client has not chosen an export yet; it has ten seconds for that.
    fn is_in_handshake(&self) -> bool;

    /// Returns whether the session is ending, and waits for operations in flight or for its peer to
    /// take replies.
    fn is_draining(&self) -> bool;

    /// Returns whether the session has ended: nothing is in flight or open, the connection may be
    /// dropped.
    fn is_closed(&self) -> bool;

    /// Ends the session at the server's will, as if the peer had disconnected.
    fn stop(&mut self, target: &mut dyn Target);

    /// Ends the session because its stream is broken.
    fn abandon(&mut self, target: &mut dyn Target);

    // ---- ends by time and by deletion ----

    /// Returns the time after which an idle session is ended; `None` for no limit.
    fn idle_max(settings: &Self::Settings) -> Option<Nanos> {
        let _ = settings;
        None
    }

    /// Returns whether the only LUN of the session is gone. A session that reaches many LUNs tells
    /// its client about each of them instead.
    fn has_lost_its_lun(&self, target: &dyn Target) -> bool {
        let _ = target;
        false
    }

    /// Returns the client; `None` if nobody wants to know.
    fn caller(&self) -> Option<&Caller> {
        None
    }

    /// Returns the only export that the session has open: the name it was opened by, and the UUID
    /// of the LUN that it is, or is an image of.
    fn opened(&self) -> Option<(&str, &[u8; 16])> {
        None
    }

    /// Returns whether the client may not use its export any more.
    fn is_locked_out(&self) -> bool {
        let (Some(caller), Some((export, lun))) = (self.caller(), self.opened()) else {
            return false;
        };
        !caller.allows(export, lun)
    }

    /// Does what has become due: timers, and what other sessions left to be seen. Called about once
    /// a second. Returns whether anything changed.
    fn tick(&mut self, now: Nanos, target: &mut dyn Target) -> bool {
        let _ = (now, target);
        false
    }

    /// Releases the receive buffer, because nothing has arrived for a second.
    fn rest(&mut self) {}

    // ---- TLS that begins in the middle of a connection ----

    /// Returns whether the stream must be encrypted from here on, which [`Session::tls_begun`]
    /// reports. No bytes are received before.
    fn wants_tls(&self) -> bool {
        false
    }

    /// Notes that received and sent bytes pass through TLS from now on.
    fn tls_begun(&mut self) {
        panic!("a session that never wants TLS is told that it began");
    }

    // ---- the reactor that serves a session (decision 0023) ----

    /// The export that the client is about to open, and nothing else: [`Session::stay`] is to be
    /// called, perhaps after the session was moved to another table. Nothing is received before. A
    /// session that reaches many LUNs has none to name and stays where it was accepted.
    fn home_question(&self) -> Option<&str> {
        None
    }

    /// The session is where its export is to be opened.
    fn stay(&mut self, target: &mut dyn Target) {
        let _ = target;
        panic!("a session that never asks for its place is told it");
    }

    /// Moves the session to another table. It has nothing open, in flight or to send.
    fn moved(&mut self, token_base: Token, common: &Common<Self>) {
        let _ = (token_base, common);
        panic!("a session moves when it asks for its place");
    }

    // ---- network memory (decision 0028) ----

    /// The memory that the session waits for, if it waits for memory.
    fn wants_memory(&self) -> Option<Reservation> {
        None
    }

    /// Gives the session its turn to take memory.
    fn resume(&mut self, target: &mut dyn Target) {
        let _ = target;
    }

    /// Releases memory that can be taken again, because others wait. `takes_nothing` means that the
    /// client does not receive, `sends_nothing` that it does not send.
    fn yield_memory(&mut self, takes_nothing: bool, sends_nothing: bool, target: &mut dyn Target) {
        let _ = (takes_nothing, sends_nothing, target);
    }

    /// Bytes held for requests and replies: received, being read, or waiting to be sent.
    fn payload_in_flight(&self) -> u64 {
        0
    }

    /// Returns whether the peer is expected to send the rest of a request for which memory is held.
    fn holds_payload(&self) -> bool {
        false
    }

    /// Returns whether the session will have bytes once the peer can take some: data that a reply
    /// owes is not read before.
    fn waits_for_peer(&self) -> bool {
        false
    }

    /// Notes that the peer may take bytes again.
    fn peer_may_take(&mut self, target: &mut dyn Target) {
        let _ = target;
    }
}
