//! The table `[iscsi]`: where iSCSI initiators come in, how many, and on which terms.
//!
//! iSCSI is off unless an address is configured (decision 0042).

use std::net::SocketAddr;
use std::path::PathBuf;

use super::{Callers, ConfigError, TcpListen, in_range, place};

const CONNECTIONS_DEFAULT: u32 = 1024;
const CONNECTIONS_MAX: u32 = 65_536;

/// The iSCSI settings of one source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IscsiSettings {
    /// iSCSI over TCP.
    pub tcp: Option<TcpListen>,
    /// Connections at a time.
    pub connections_max: Option<u32>,
    /// File of the secrets of CHAP.
    pub secrets: Option<PathBuf>,
    /// The rules for initiators: exports, idle connections.
    pub callers: Callers,
}

/// The iSCSI server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Iscsi {
    /// TCP address; port 0 lets the kernel choose. `None`: iSCSI is off.
    pub tcp: Option<SocketAddr>,
    /// Limit of simultaneous connections; a further connection is closed at once.
    pub connections_max: u32,
    /// File of the secrets of CHAP, absolute. `None`: nobody has to prove who they are.
    pub secrets: Option<PathBuf>,
    /// The rules for initiators.
    pub callers: Callers,
}

impl IscsiSettings {
    /// Returns the settings of `self`, and those of `lower` where `self` has none.
    #[must_use]
    pub(super) fn over(self, lower: IscsiSettings) -> IscsiSettings {
        IscsiSettings {
            tcp: self.tcp.or(lower.tcp),
            connections_max: self.connections_max.or(lower.connections_max),
            secrets: self.secrets.or(lower.secrets),
            callers: self.callers.over(lower.callers),
        }
    }

    /// Defaults and checks.
    pub(super) fn complete(self) -> Result<Iscsi, ConfigError> {
        let tcp = match self.tcp {
            None | Some(TcpListen::Off) => None,
            Some(TcpListen::At(address)) => Some(address),
        };
        let connections_max = self.connections_max.unwrap_or(CONNECTIONS_DEFAULT);
        let range = 1..=CONNECTIONS_MAX;
        Ok(Iscsi {
            tcp,
            connections_max: in_range("iscsi.connections_max", connections_max, range)?,
            secrets: self.secrets.map(place::absolute).transpose()?,
            callers: self.callers,
        })
    }
}

impl Iscsi {
    /// Returns the same settings without a listener.
    #[must_use]
    pub(super) fn shut(&self) -> Iscsi {
        Iscsi {
            tcp: None,
            secrets: None,
            callers: Callers::default(),
            ..*self
        }
    }
}
