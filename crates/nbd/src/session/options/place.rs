//! Where an export is to be opened: a question to the owner of the session, which clients do not notice.
//!
//! It comes when an option that opens an export is there and nothing was done about it, so that a session has neither
//! opened anything nor an answer under way, and can be moved as it is.

use super::super::open_export::OpenExport;
use super::{Cx, Haggling};
use crate::wire::InfoRequest;
use crate::wire::info;
use crate::wire::option::options;

/// What is known about where a session is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum Place {
    /// The owner does not want to be asked, or has answered.
    Settled,
    /// It is to be asked.
    Open,
    /// It was asked, for this export, and the session waits.
    Asked(String),
}

impl Haggling {
    /// The full name of the export that an option is about to open. Nothing if it opens none, and if it will be refused.
    pub(super) fn about_to_open(&self, option: u32, data: &[u8], cx: &Cx<'_>) -> Option<String> {
        let name = match option {
            options::GO => InfoRequest::parse(data)?.name,
            options::EXPORT_NAME => info::export_name(data)?.to_owned(),
            _ => return None,
        };
        if self.demand_tls(option, cx).is_some() {
            return None;
        }
        OpenExport::full_name(&name, cx.target).ok()
    }
}
