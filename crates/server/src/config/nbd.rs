//! The table `[nbd]`: where NBD clients come in, how many, and on which terms.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::{Callers, ConfigError, TcpListen, UnixListen, in_range, unix_socket};

const CONNECTIONS_DEFAULT: u32 = 1024;
const CONNECTIONS_MAX: u32 = 65_536;

/// The NBD settings of one source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NbdSettings {
    /// NBD over TCP.
    pub tcp: Option<TcpListen>,
    /// NBD over a Unix socket.
    pub unix: Option<UnixListen>,
    /// NBD connections at a time.
    pub connections_max: Option<u32>,
    /// The rules for NBD clients: encryption and exports.
    pub callers: Callers,
}

/// The NBD server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nbd {
    /// TCP address; port 0 lets the kernel choose.
    pub tcp: Option<SocketAddr>,
    /// Absolute, short enough for the kernel.
    pub unix: Option<PathBuf>,
    /// Limit of simultaneous connections; a further connection is closed at once.
    pub connections_max: u32,
    /// The rules for clients: encryption and exports.
    pub callers: Callers,
}

impl NbdSettings {
    /// Returns the settings of `self`, and those of `lower` where `self` has none.
    #[must_use]
    pub(super) fn over(self, lower: NbdSettings) -> NbdSettings {
        NbdSettings {
            tcp: self.tcp.or(lower.tcp),
            unix: self.unix.or(lower.unix),
            connections_max: self.connections_max.or(lower.connections_max),
            callers: self.callers.over(lower.callers),
        }
    }

    /// Defaults and checks.
    pub(super) fn complete(self, data_dir: &Path) -> Result<Nbd, ConfigError> {
        self.callers.check("nbd")?;
        let tcp = match self.tcp.unwrap_or(TcpListen::DEFAULT_NBD) {
            TcpListen::Off => None,
            TcpListen::At(address) => Some(address),
        };
        let unix = unix_socket("--nbd-unix", self.unix, data_dir, "run/nbd.sock")?;
        let connections_max = self.connections_max.unwrap_or(CONNECTIONS_DEFAULT);
        let range = 1..=CONNECTIONS_MAX;
        Ok(Nbd {
            tcp,
            unix,
            connections_max: in_range("nbd.connections_max", connections_max, range)?,
            callers: self.callers,
        })
    }
}

impl Nbd {
    /// Returns the same settings without listeners.
    #[must_use]
    pub(super) fn shut(&self) -> Nbd {
        Nbd {
            tcp: None,
            unix: None,
            callers: Callers::default(),
            ..*self
        }
    }
}
