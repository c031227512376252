//! What the server tells an NBD client before a session: whether the connection must be encrypted,
//! and which exports the client may use.

use std::net::IpAddr;
use std::sync::Arc;

use crate::StartError;
use crate::config::{Nbd, Tls, TlsClients};
use crate::signal::Again;
use crate::tls::Certificates;
use everglade_nbd::{AllowList, Caller, TlsMode};

/// The same for all reactors.
#[derive(Clone)]
pub(crate) struct Door {
    mode: TlsMode,
    certificates: Option<Arc<Certificates>>,
    allow_list: Option<Arc<dyn AllowList>>,
}

impl Door {
    /// Reads the certificates, if there are to be any.
    pub(crate) fn open(nbd: &Nbd, again: &Again) -> Result<Door, StartError> {
        let callers = &nbd.callers;
        let mode = match callers.tls {
            None | Some(Tls::Off) => TlsMode::Off,
            Some(Tls::Offered) => TlsMode::Offered,
            Some(Tls::Required) => TlsMode::Required,
        };
        let certificates = match (&callers.tls_certificates, mode) {
            (Some(folder), TlsMode::Offered | TlsMode::Required) => {
                let is_strict = callers.tls_clients == Some(TlsClients::Certified);
                Some(again.add(Certificates::open(folder, is_strict)?))
            }
            _ => None,
        };
        let rules = &callers.allow;
        let allow_list: Option<Arc<dyn AllowList>> = if rules.is_empty() {
            None
        } else {
            Some(Arc::new(rules.clone()))
        };
        Ok(Door {
            mode,
            certificates,
            allow_list,
        })
    }

    /// Somebody calls from `address`, or over the Unix socket, where nobody else can listen.
    pub(super) fn caller(&self, address: Option<IpAddr>) -> Caller {
        let tls = match (self.mode, address) {
            (TlsMode::Required, None) => TlsMode::Offered,
            (mode, _) => mode,
        };
        Caller {
            address,
            names: Arc::default(),
            tls,
            allow_list: self.allow_list.clone(),
        }
    }

    /// What a connection is encrypted with.
    pub(super) fn certificates(&self) -> Option<&Arc<Certificates>> {
        self.certificates.as_ref()
    }
}
