//! Reservations of other hosts, which keep the client out ([`everglade_target::reservations`]).
//!
//! NBD has no reservations, so its clients are hosts that never register: they may do what the kind
//! of the reservation leaves to everybody. A flush is always carried out, because it changes
//! nothing.

use std::sync::Arc;

use everglade_target::reservations::{Access, Host, Reservations};
use everglade_target::sessions::Caller;

use super::super::settings::Notes;
use crate::wire::Command;

/// Identity of all clients. No host of another protocol has it: theirs are longer.
const NBD: &[u8] = b"nbd";

/// See the module's documentation.
pub(super) struct Fence {
    export: String,
    reservations: Option<Arc<Reservations>>,
    host: Host,
    /// The log has a line about this session.
    is_told: bool,
}

impl Fence {
    /// Text of a refusal.
    pub(super) const TEXT: &'static str = "another host has reserved the export";

    /// The name by which the export was opened.
    pub(super) fn export(&self) -> &str {
        &self.export
    }

    pub(super) fn new(export: &str, reservations: Option<Arc<Reservations>>) -> Fence {
        Fence {
            export: export.to_owned(),
            reservations,
            host: Host::new(NBD),
            is_told: false,
        }
    }

    /// Returns whether reservations leave a command to everybody.
    #[inline]
    pub(super) fn admits(&self, command: Command) -> bool {
        let Some(reservations) = &self.reservations else {
            return true;
        };
        match command {
            Command::Read | Command::Cache | Command::BlockStatus => {
                reservations.may(&self.host, Access::Read)
            }
            Command::Write | Command::Trim | Command::WriteZeroes => {
                reservations.may(&self.host, Access::Write)
            }
            Command::Flush | Command::Disconnect => true,
        }
    }

    /// Tells the operator that the client is kept out, once for each session.
    pub(super) fn tell(&mut self, notes: Option<&Notes>, caller: &Caller) {
        if std::mem::replace(&mut self.is_told, true) {
            return;
        }
        if let Some(notes) = notes {
            let export = &self.export;
            let client = match caller.address {
                Some(address) => address.to_string(),
                None => "this machine".to_owned(),
            };
            notes(&format!(
                "{export}: an NBD client of {client} is kept out: a host of iSCSI or NVMe/TCP has \
                reserved the LUN"
            ));
        }
    }
}
