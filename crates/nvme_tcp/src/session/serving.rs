//! A session as the table of sessions sees it ([`everglade_target::sessions`]).

use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;

use everglade_env::Nanos;
use everglade_target::sessions::memory::Reservation;
use everglade_target::sessions::seats::OWN_BITS;
use everglade_target::sessions::{self, Caller, Common, Tally};
use everglade_target::{Error, Reply, Target, Token};

use super::connect::HomeQuestion;
use super::{Phase, Session, Settings, State};
use crate::SessionMetrics;

impl sessions::Session for Session {
    type Settings = Settings;
    type Metrics = SessionMetrics;

    fn begin(token_base: Token, caller: Caller, common: &Common<Self>) -> Self {
        Session::within(token_base, caller, common)
    }

    #[inline]
    fn receive_buffers<'a>(&'a mut self, buffers: &mut [IoSliceMut<'a>]) -> usize {
        match self.may_read() {
            true => self.name_receive_buffers(buffers),
            false => 0,
        }
    }

    #[inline]
    fn received(&mut self, bytes: usize, target: &mut dyn Target) {
        self.take_received(bytes, target);
    }

    fn received_end(&mut self, target: &mut dyn Target) {
        self.drain();
        self.settle(target);
    }

    #[inline]
    fn transmit_buffers<'a>(&'a self, buffers: &mut [IoSlice<'a>]) -> usize {
        self.name_transmit_buffers(buffers)
    }

    #[inline]
    fn transmitted(&mut self, bytes: usize, target: &mut dyn Target) {
        self.note_sent(bytes, target);
    }

    #[inline]
    fn bytes_sent(&self) -> u64 {
        self.bytes_sent
    }

    fn tally(&self) -> Tally {
        match &self.phase {
            Phase::Queue(queue) => queue.tally,
            _ => Tally::default(),
        }
    }

    #[inline]
    fn completed(&mut self, token: Token, result: Result<Reply, Error>, target: &mut dyn Target) {
        self.complete(token, result, target);
    }

    #[inline]
    fn wants_read(&self) -> bool {
        self.may_read()
    }

    #[inline]
    fn wants_write(&self) -> bool {
        self.wants_to_send()
    }

    #[inline]
    fn operations_in_flight(&self) -> usize {
        self.requests.operations()
    }

    #[inline]
    fn is_in_handshake(&self) -> bool {
        !matches!(self.phase, Phase::Queue(_))
    }

    #[inline]
    fn is_draining(&self) -> bool {
        matches!(self.state, State::Draining | State::Abandoned)
    }

    #[inline]
    fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    fn stop(&mut self, target: &mut dyn Target) {
        self.drain();
        self.settle(target);
    }

    fn abandon(&mut self, target: &mut dyn Target) {
        self.forget_peer();
        self.settle(target);
    }

    fn has_lost_its_lun(&self, target: &dyn Target) -> bool {
        let Phase::Queue(queue) = &self.phase else {
            return false;
        };
        // A host of several namespaces is told about each of them.
        let mut namespaces = queue.namespaces();
        let (first, second) = (namespaces.next(), namespaces.next());
        second.is_none() && first.is_some_and(|only| target.size_bytes(only.lun).is_none())
    }

    fn caller(&self) -> Option<&Caller> {
        Some(&self.caller)
    }

    fn opened(&self) -> Option<(&str, &[u8; 16])> {
        let Phase::Queue(queue) = &self.phase else {
            return None;
        };
        let export = &queue.namespaces().next()?.export;
        Some((&export.name, &export.lun_uuid))
    }

    fn rest(&mut self) {
        self.release_staging();
    }

    fn tick(&mut self, now: Nanos, target: &mut dyn Target) -> bool {
        self.look_around(now, target)
    }

    fn home_question(&self) -> Option<&str> {
        match &self.home {
            HomeQuestion::Asked(export) if self.state == State::Open => Some(export),
            _ => None,
        }
    }

    fn stay(&mut self, target: &mut dyn Target) {
        assert!(
            self.home_question().is_some(),
            "a session is placed when it asks for it"
        );
        self.home = HomeQuestion::Settled;
        self.advance(target);
    }

    fn moved(&mut self, token_base: Token, common: &Common<Self>) {
        assert!(
            self.home_question().is_some() && self.outgoing.is_empty(),
            "a session moves when it has nothing that stays behind"
        );
        assert!(
            token_base.trailing_zeros() >= OWN_BITS,
            "the session's own part of its tokens is free"
        );
        self.token_base = token_base;
        self.metrics = Arc::clone(&common.metrics);
        self.ledger.move_to(&common.memory);
    }

    #[inline]
    fn wants_memory(&self) -> Option<Reservation> {
        self.memory_wanted()
    }

    fn resume(&mut self, target: &mut dyn Target) {
        self.go_on(target);
        self.settle(target);
    }

    #[inline]
    fn payload_in_flight(&self) -> u64 {
        self.ledger.held()
    }

    fn holds_payload(&self) -> bool {
        self.holds_incomplete_data()
    }
}
