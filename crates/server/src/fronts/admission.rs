//! The terms on which a client is admitted: whether the connection must be encrypted, and which
//! exports the client may use.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use everglade_target::sessions::{AllowList, Caller, TlsMode};

use crate::StartError;
use crate::access::{Gate, Terms};
use crate::config::{Callers, Tls, TlsClients};
use crate::signal::Again;
use crate::tls::Certificates;

/// The terms of one protocol, the same on all reactors.
#[derive(Clone)]
pub struct Admission {
    mode: TlsMode,
    certificates: Option<Arc<Certificates>>,
    allow_list: Arc<dyn AllowList>,
}

impl Admission {
    /// Reads the certificates, if there are to be any.
    ///
    /// # Errors
    /// The certificates cannot be used.
    pub fn open(
        callers: &Callers,
        gate: &Arc<Gate>,
        again: &Again,
    ) -> Result<Admission, StartError> {
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
        let terms = Terms {
            rules: callers.allow.clone(),
            gate: Arc::clone(gate),
        };
        Ok(Admission {
            mode,
            certificates,
            allow_list: Arc::new(terms),
        })
    }

    /// Returns the caller at `address`, or at a Unix socket of this host if there is none, who
    /// connected to our address `local`.
    pub(crate) fn caller(&self, address: Option<IpAddr>, local: Option<SocketAddr>) -> Caller {
        let tls = match (self.mode, address) {
            (TlsMode::Required, None) => TlsMode::Offered,
            (mode, _) => mode,
        };
        Caller {
            address,
            local,
            names: Arc::default(),
            tls,
            host: None,
            allow_list: Some(Arc::clone(&self.allow_list)),
        }
    }

    /// Returns the certificates with which connections are encrypted.
    pub(crate) fn certificates(&self) -> Option<&Arc<Certificates>> {
        self.certificates.as_ref()
    }
}
