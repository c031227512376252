//! `NBD_OPT_STARTTLS` (proto "TLS support"): everything after its acknowledgement is encrypted.
//!
//! Earlier agreements are dropped, because an attacker on the network may have made them. For the
//! same reason the client must not send anything in clear behind this option: it would be taken for
//! encrypted data.

use everglade_target::sessions::TlsMode;

use super::{Cx, Haggling, Outcome, acknowledge, refuse};
use crate::wire::option::{options, replies};

impl Haggling {
    pub(super) fn start_tls(&mut self, data: &[u8], cx: &Cx<'_>) -> Outcome {
        let refuse = |kind, text| Outcome::Reply(refuse(options::STARTTLS, kind, text));
        if cx.caller.tls == TlsMode::Off {
            return refuse(replies::ERR_UNSUP, "option not supported");
        }
        if self.is_encrypted {
            return refuse(replies::ERR_INVALID, "TLS was negotiated already");
        }
        if !data.is_empty() {
            return refuse(replies::ERR_INVALID, "STARTTLS takes no data");
        }
        if !cx.staging.bytes().is_empty() {
            return Outcome::End(Vec::new());
        }
        *self = Haggling {
            is_encrypted: true,
            client: self.client,
            options_count: self.options_count,
            ..Haggling::new(self.client)
        };
        Outcome::Encrypt(acknowledge(options::STARTTLS))
    }

    /// Returns the refusal of anything else while TLS is to come first.
    pub(super) fn demand_tls(&self, option: u32, cx: &Cx<'_>) -> Option<Outcome> {
        let is_free = matches!(option, options::STARTTLS | options::ABORT);
        if is_free || self.is_encrypted || cx.caller.tls != TlsMode::Required {
            return None;
        }
        if option == options::EXPORT_NAME {
            return Some(Outcome::End(Vec::new()));
        }
        let text = "this server wants TLS first";
        let bytes = refuse(option, replies::ERR_TLS_REQD, text);
        Some(Outcome::Reply(bytes))
    }
}
