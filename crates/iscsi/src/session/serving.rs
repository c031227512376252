//! A session as the table of sessions sees it ([`everglade_target::sessions`]).

use std::io::{IoSlice, IoSliceMut};

use everglade_env::Nanos;
use everglade_target::sessions::memory::Reservation;
use everglade_target::sessions::{self, Caller, Common, Tally};
use everglade_target::{Error, Reply, Target, Token};

use super::{Phase, Session};
use crate::metrics::SessionMetrics;
use crate::settings::Settings;

impl sessions::Session for Session {
    type Settings = Settings;
    type Metrics = SessionMetrics;

    fn begin(token_base: Token, caller: Caller, common: &Common<Self>) -> Self {
        let settings = common.settings.clone();
        Session::within(token_base, settings, &common.metrics, &common.memory).with_caller(caller)
    }

    #[inline]
    fn receive_buffers<'a>(&'a mut self, buffers: &mut [IoSliceMut<'a>]) -> usize {
        self.receive_buffers(buffers)
    }

    #[inline]
    fn received(&mut self, bytes: usize, target: &mut dyn Target) {
        self.received(bytes, target);
    }

    fn received_end(&mut self, target: &mut dyn Target) {
        self.received_end(target);
    }

    #[inline]
    fn transmit_buffers<'a>(&'a self, buffers: &mut [IoSlice<'a>]) -> usize {
        self.transmit_buffers(buffers)
    }

    #[inline]
    fn transmitted(&mut self, bytes: usize, target: &mut dyn Target) {
        self.transmitted(bytes, target);
    }

    #[inline]
    fn bytes_sent(&self) -> u64 {
        self.bytes_sent
    }

    fn tally(&self) -> Tally {
        self.tally()
    }

    #[inline]
    fn completed(&mut self, token: Token, result: Result<Reply, Error>, target: &mut dyn Target) {
        self.completed(token, result, target);
    }

    #[inline]
    fn wants_read(&self) -> bool {
        self.wants_read()
    }

    #[inline]
    fn wants_write(&self) -> bool {
        self.wants_write()
    }

    #[inline]
    fn operations_in_flight(&self) -> usize {
        self.operations_in_flight()
    }

    #[inline]
    fn is_in_handshake(&self) -> bool {
        self.is_in_handshake()
    }

    #[inline]
    fn is_draining(&self) -> bool {
        self.is_draining()
    }

    #[inline]
    fn is_closed(&self) -> bool {
        self.is_closed()
    }

    fn stop(&mut self, target: &mut dyn Target) {
        self.stop(target);
    }

    fn abandon(&mut self, target: &mut dyn Target) {
        self.abandon(target);
    }

    fn idle_max(settings: &Settings) -> Option<Nanos> {
        settings.idle_max
    }

    fn has_lost_its_lun(&self, target: &dyn Target) -> bool {
        self.lun()
            .is_some_and(|lun| target.size_bytes(lun).is_none())
    }

    fn caller(&self) -> Option<&Caller> {
        Some(&self.caller)
    }

    fn opened(&self) -> Option<(&str, &[u8; 16])> {
        match &self.phase {
            Phase::Full(full) => Some(full.opened()),
            _ => None,
        }
    }

    fn rest(&mut self) {
        self.staging.resize(0);
    }

    fn tick(&mut self, now: Nanos, target: &mut dyn Target) -> bool {
        self.tick(now, target)
    }

    #[inline]
    fn home_question(&self) -> Option<&str> {
        self.home_question()
    }

    fn stay(&mut self, target: &mut dyn Target) {
        self.stay(target);
    }

    fn moved(&mut self, token_base: Token, common: &Common<Self>) {
        self.moved(token_base, &common.metrics, &common.memory);
    }

    #[inline]
    fn wants_memory(&self) -> Option<Reservation> {
        self.wants_memory()
    }

    fn resume(&mut self, target: &mut dyn Target) {
        self.resume(target);
    }

    #[inline]
    fn payload_in_flight(&self) -> u64 {
        self.ledger.held()
    }

    fn holds_payload(&self) -> bool {
        match &self.phase {
            Phase::Full(full) => full.holds_payload(),
            _ => false,
        }
    }
}
