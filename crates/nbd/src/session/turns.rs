//! Turns: a session waits for memory, continues at its turn, and frees memory that other sessions
//! wait for.

use everglade_target::Target;
use everglade_target::sessions::memory::Reservation;

use super::transmission::Transmission;
use super::{Cx, Phase, Session, State};

impl Session {
    /// Gives the session its turn to take memory.
    pub(crate) fn resume(&mut self, target: &mut dyn Target) {
        self.go_on(target);
        self.settle(target);
    }

    /// Notes that the peer may take bytes again.
    pub(crate) fn peer_may_take(&mut self, target: &mut dyn Target) {
        if self.waits_for_peer {
            self.waits_for_peer = false;
            self.resume(target);
        }
    }

    /// Returns whether the session will have bytes once the peer can take some.
    pub(crate) fn waits_for_peer(&self) -> bool {
        self.waits_for_peer && matches!(self.state, State::Open | State::Draining)
    }

    /// Steps that failed for lack of memory are tried again.
    pub(super) fn go_on(&mut self, target: &mut dyn Target) {
        if self.stalled {
            return self.advance(target);
        }
        if !matches!(self.state, State::Open | State::Draining) {
            return;
        }
        if self.outgoing.owes() || self.has_more_to_read() {
            let may_refill = !self.waits_for_peer;
            self.with_transmission(target, |transmission, cx| {
                cx.ledger.begin();
                if may_refill {
                    transmission.refill(cx);
                }
                transmission.read_on(cx);
            });
        }
    }

    pub(super) fn has_more_to_read(&self) -> bool {
        match &self.phase {
            Phase::Transmission(transmission) => transmission.has_more_to_read(),
            _ => false,
        }
    }

    /// Releases memory that can be taken again, because others wait. `takes_nothing` means that the
    /// client does not receive, `sends_nothing` that it does not send.
    pub(crate) fn yield_memory(
        &mut self,
        takes_nothing: bool,
        sends_nothing: bool,
        target: &mut dyn Target,
    ) {
        if takes_nothing {
            let released = self.outgoing.yield_memory();
            self.ledger.give_all(released);
            self.waits_for_peer = !self.outgoing.is_empty() && !self.outgoing.is_ready();
        }
        let may_cut = sends_nothing && self.state == State::Open;
        self.with_transmission(target, |transmission, cx| {
            transmission.yield_kept(cx.ledger);
            if may_cut {
                transmission.yield_incoming(cx);
            }
        });
    }

    /// Releases the receive buffer while nothing arrives from the peer.
    pub(crate) fn rest(&mut self) {
        self.staging.resize(0);
    }

    /// The memory that the session waits for, if it waits for memory.
    pub(crate) fn wants_memory(&self) -> Option<Reservation> {
        let is_alive = matches!(self.state, State::Open | State::Draining);
        self.ledger.wants().filter(|_| is_alive)
    }

    /// Returns whether the peer is expected to send the rest of a request for which memory is held.
    pub(crate) fn holds_payload(&self) -> bool {
        match &self.phase {
            Phase::Transmission(transmission) => transmission.holds_payload(),
            _ => false,
        }
    }

    pub(super) fn with_transmission(
        &mut self,
        target: &mut dyn Target,
        work: impl FnOnce(&mut Transmission, &mut Cx<'_>),
    ) {
        let Phase::Transmission(transmission) = &mut self.phase else {
            return;
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
            may_ask_for_home: false,
        };
        work(transmission, &mut cx);
    }
}
