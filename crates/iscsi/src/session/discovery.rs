//! Discovery sessions: an initiator asks which targets there are, and leaves (RFC 7143 §4.3).

use everglade_env::Nanos;
use everglade_target::Target;

use super::full::{Admission, Goes, answer_text, reject, reject_message};
use super::link::Order;
use super::outgoing::Data;
use super::segment::Dest;
use super::text::{self, Exchange};
use super::{Phase, Session};
use crate::wire::header::{Header, NO_TAG};
use crate::wire::request::Logout;
use crate::wire::response::Response;
use crate::wire::{Bhs, Request};

/// Answers that may wait for the initiator to take them.
const ANSWERS_MAX: usize = 16;

/// The state of a discovery session.
pub(super) struct Discovery {
    pub(super) text: Exchange,
    pub(super) began: Nanos,
}

impl Session {
    /// A discovery session takes texts, pings and a logout.
    pub(super) fn admit_discovery(&mut self, bhs: &Bhs, header: &Header) -> Admission {
        let cmd_sn = match Request::parse(bhs) {
            Some(Request::NopOut(nop)) => nop.cmd_sn,
            Some(Request::Text(text)) => text.cmd_sn,
            Some(Request::Logout(logout)) => logout.cmd_sn,
            _ => {
                reject_message(bhs, reject::PROTOCOL_ERROR, &mut self.link);
                return Admission::End;
            }
        };
        if header.data_bytes as usize > text::TEXT_BYTES_MAX {
            return Admission::End;
        }
        if self.link.outgoing.answers() >= ANSWERS_MAX {
            return Admission::Stall;
        }
        if !header.is_immediate {
            match self.link.order(cmd_sn) {
                Order::Next => self.link.advance(),
                Order::Outside => return Admission::Receive(Dest::Skip),
                Order::Gap => return Admission::End,
            }
        }
        self.link.open_window(self.settings.commands_max);
        Admission::Receive(Dest::collect(header.data_bytes))
    }

    pub(super) fn discovery_received(
        &mut self,
        bhs: &Bhs,
        dest: Dest,
        is_intact: bool,
        target: &mut dyn Target,
    ) -> Goes {
        let Dest::Collect { bytes, .. } = dest else {
            return Goes::On;
        };
        if !is_intact {
            reject_message(bhs, reject::DATA_DIGEST, &mut self.link);
            return Goes::On;
        }
        match Request::parse(bhs) {
            Some(Request::Text(asked)) => {
                self.with_phase(target, |phase, cx| {
                    let Phase::Discovery(discovery) = phase else {
                        return;
                    };
                    if !answer_text(&mut discovery.text, None, &asked, &bytes, cx) {
                        reject_message(bhs, reject::PROTOCOL_ERROR, cx.link);
                    }
                });
                Goes::On
            }
            Some(Request::Logout(Logout { itt, .. })) => {
                let answer = Response::Logout { itt, response: 0 };
                self.link.send(&answer, Data::None);
                Goes::ToItsEnd
            }
            Some(Request::NopOut(nop)) if nop.itt != NO_TAG => {
                let answer = Response::NopIn {
                    lun: 0,
                    itt: nop.itt,
                    ttt: NO_TAG,
                };
                self.link.send(&answer, Data::Bytes(bytes));
                Goes::On
            }
            _ => Goes::On,
        }
    }
}
