//! The table `[nvme]`: where hosts of NVMe/TCP come in, how many, and which LUNs they see. Off
//! unless an address is given.

use std::net::SocketAddr;

use super::{Callers, ConfigError, TcpListen, in_range};

const CONNECTIONS_DEFAULT: u32 = 1024;
const CONNECTIONS_MAX: u32 = 65_536;

/// The NVMe/TCP settings of one source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NvmeSettings {
    /// Address for subsystems, and the discovery service.
    pub tcp: Option<TcpListen>,
    /// Another address, where hosts look for the discovery service. It leads to the same.
    pub discovery_tcp: Option<TcpListen>,
    /// Connections at a time; a host has one for each queue.
    pub connections_max: Option<u32>,
    /// The rules for hosts.
    pub callers: Callers,
}

/// The NVMe/TCP server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nvme {
    /// Address for subsystems, and the discovery service; port 0 lets the kernel choose. `None` if
    /// the protocol is off.
    pub tcp: Option<SocketAddr>,
    /// Address for the discovery service; never without the other.
    pub discovery_tcp: Option<SocketAddr>,
    /// Limit of simultaneous connections; a further connection is closed at once.
    pub connections_max: u32,
    /// The rules for hosts.
    pub callers: Callers,
}

impl NvmeSettings {
    /// Returns the settings of `self`, and those of `lower` where `self` has none.
    #[must_use]
    pub(super) fn over(self, lower: NvmeSettings) -> NvmeSettings {
        NvmeSettings {
            tcp: self.tcp.or(lower.tcp),
            discovery_tcp: self.discovery_tcp.or(lower.discovery_tcp),
            connections_max: self.connections_max.or(lower.connections_max),
            callers: self.callers.over(lower.callers),
        }
    }

    /// Defaults and checks.
    pub(super) fn complete(self) -> Result<Nvme, ConfigError> {
        self.callers.check("nvme")?;
        let at = |said: Option<TcpListen>| match said {
            None | Some(TcpListen::Off) => None,
            Some(TcpListen::At(address)) => Some(address),
        };
        let (tcp, discovery_tcp) = (at(self.tcp), at(self.discovery_tcp));
        if tcp.is_none() && discovery_tcp.is_some() {
            return Err(ConfigError::Incomplete {
                key: "nvme.discovery_tcp",
                needed: "nvme.tcp, the address of what is discovered",
            });
        }
        let connections_max = self.connections_max.unwrap_or(CONNECTIONS_DEFAULT);
        let range = 1..=CONNECTIONS_MAX;
        Ok(Nvme {
            tcp,
            discovery_tcp,
            connections_max: in_range("nvme.connections_max", connections_max, range)?,
            callers: self.callers,
        })
    }
}

impl Nvme {
    /// Returns the same settings without listeners.
    #[must_use]
    pub(super) fn shut(&self) -> Nvme {
        Nvme {
            tcp: None,
            discovery_tcp: None,
            callers: Callers::default(),
            ..*self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(tcp: &str, discovery_tcp: &str) -> NvmeSettings {
        let at = |text: &str| (!text.is_empty()).then(|| text.parse().expect("an address"));
        NvmeSettings {
            tcp: at(tcp),
            discovery_tcp: at(discovery_tcp),
            ..NvmeSettings::default()
        }
    }

    #[test]
    fn it_is_off_unless_an_address_is_given() {
        for off in ["", "off"] {
            let nvme = settings(off, "").complete().expect("good");
            assert_eq!((nvme.tcp, nvme.discovery_tcp), (None, None));
        }
        let nvme = settings(":4420", ":8009").complete().expect("good");
        let ports = [nvme.tcp, nvme.discovery_tcp].map(|at| at.map(|at| at.port()));
        assert_eq!(ports, [Some(4420), Some(8009)]);
    }

    #[test]
    fn there_is_nothing_to_discover_without_the_other_address() {
        let error = settings("", ":8009").complete().expect_err("alone");
        assert!(error.to_string().contains("nvme.tcp"), "{error}");
    }
}
