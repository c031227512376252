//! NVMe/TCP as a front: its endpoints, its settings, and commands for a person to try.
//!
//! It has two doors, and both lead to the same: subsystems and the discovery service. The second is
//! there because hosts look for the discovery service at its own port.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;

use everglade_nvme_tcp::wire::nqn;
use everglade_nvme_tcp::{Registry, Sessions, Settings};
use everglade_target::Export;
use everglade_target::reservations;
use everglade_target::sessions::Owner;

use super::doors::reachable;
use super::front::{Contents, Door, Front, Protocol};
use crate::config::{self, Callers};
use crate::datadir::{Address, Endpoints, Uuid};

/// Names of its doors.
const TCP: &str = "nvme_tcp";
const DISCOVERY: &str = "nvme_discovery_tcp";

/// NVMe/TCP as it is configured.
pub struct NvmeTcp {
    config: config::Nvme,
    /// A host's connections may be on several reactors.
    registry: Arc<Registry>,
    /// Hosts of all protocols share these.
    reservations: Arc<reservations::Registry>,
}

impl NvmeTcp {
    /// Opens nothing.
    #[must_use]
    pub fn new(config: &config::Nvme, reservations: &Arc<reservations::Registry>) -> NvmeTcp {
        NvmeTcp {
            config: config.clone(),
            registry: Arc::default(),
            reservations: Arc::clone(reservations),
        }
    }
}

impl Protocol for NvmeTcp {
    fn name(&self) -> &'static str {
        "nvme"
    }

    fn title(&self) -> &'static str {
        "NVMe/TCP"
    }

    fn doors(&self) -> Vec<Door> {
        let door = |name, flag, at: SocketAddr| Door {
            name,
            flag,
            at: Some(Address::Tcp(at)),
        };
        let subsystems = self.config.tcp.map(|at| door(TCP, "--nvme-tcp", at));
        let discovery = self.config.discovery_tcp;
        let discovery = discovery.map(|at| door(DISCOVERY, "--nvme-discovery-tcp", at));
        subsystems.into_iter().chain(discovery).collect()
    }

    fn connections_max(&self) -> u32 {
        match self.config.tcp {
            Some(_) => self.config.connections_max,
            None => 0,
        }
    }

    fn callers(&self) -> &Callers {
        &self.config.callers
    }

    fn front(&self, owner: Owner, memory_bytes: u64) -> Box<dyn Front> {
        // A port that the kernel chose is not known here; then hosts reach subsystems where they
        // came in.
        let port = self
            .config
            .tcp
            .map(|at| at.port())
            .filter(|port| *port != 0);
        let settings = Settings {
            release: env!("CARGO_PKG_VERSION"),
            port,
            asks_for_home: true,
            reservations: Arc::clone(&self.reservations),
            offers_reservations: true,
            ..Settings::new(Arc::clone(&self.registry))
        };
        Box::new(Sessions::of_owner(owner, settings, memory_bytes))
    }

    fn commands(&self, endpoints: &Endpoints, exports: &[Export], _: Contents) -> String {
        commands(endpoints, exports)
    }
}

/// Returns the name of the subsystem of the LUN with this name and UUID, if hosts can reach it.
#[must_use]
pub fn subsystem(endpoints: &Endpoints, lun: &str, uuid: &str) -> Option<String> {
    endpoints.door(TCP)?.at.as_ref()?;
    let uuid: Uuid = uuid.parse().ok()?;
    nqn::of_lun(lun, &uuid.0)
}

/// Returns the exact commands to find and to attach the first export. None of them writes.
fn commands(endpoints: &Endpoints, exports: &[Export]) -> String {
    let mut text = String::new();
    let at = endpoints.door(TCP).and_then(|door| door.at.as_ref());
    let Some(Address::Tcp(address)) = at else {
        return text;
    };
    let named = exports
        .iter()
        .find_map(|it| Some((it, nqn::of_lun(&it.name, &it.uuid)?)));
    let Some((export, subsystem)) = named else {
        return text;
    };
    let address = reachable(*address);
    let to = format!("-t tcp -a {} -s {}", address.ip(), address.port());
    // Writing to a String cannot fail.
    let _ = writeln!(text, "\n{} over NVMe/TCP, as root:\n", export.name);
    for line in [
        "modprobe nvme-tcp".to_owned(),
        format!("nvme discover {to}"),
        format!("nvme connect {to} -n {subsystem}"),
    ] {
        let _ = writeln!(text, "  {line}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datadir::Endpoint;

    #[test]
    fn commands_name_the_address_and_the_subsystem() {
        let export = Export {
            name: "vol0/lun.0".to_owned(),
            uuid: [1; 16],
            lun_uuid: [1; 16],
            size_bytes: 1 << 20,
            read_only: false,
        };
        let door = Endpoint {
            name: TCP,
            at: Some(Address::Tcp("0.0.0.0:4420".parse().expect("an address"))),
            is_tls_required: false,
        };
        let endpoints = Endpoints {
            doors: vec![door],
            ..Endpoints::default()
        };
        let text = commands(&endpoints, std::slice::from_ref(&export));
        let lines: Vec<&str> = text.lines().filter(|it| it.starts_with("  ")).collect();
        let expected = [
            "  modprobe nvme-tcp",
            "  nvme discover -t tcp -a 127.0.0.1 -s 4420",
            "  nvme connect -t tcp -a 127.0.0.1 -s 4420 -n \
            nqn.2026-11.dev.everglade:vol0.lun..0:01010101",
        ];
        assert_eq!(lines, expected);
        assert_eq!(commands(&endpoints, &[]), "");
        assert_eq!(commands(&Endpoints::default(), &[export]), "");
    }

    #[test]
    fn it_has_no_doors_and_no_connections_while_it_is_off() {
        let config = config::Nvme {
            tcp: None,
            discovery_tcp: None,
            connections_max: 7,
            callers: Callers::default(),
        };
        let off = NvmeTcp::new(&config, &Arc::default());
        assert!(off.doors().is_empty());
        assert_eq!(off.connections_max(), 0);
        let config = config::Nvme {
            tcp: "127.0.0.1:0".parse().ok(),
            discovery_tcp: "127.0.0.1:0".parse().ok(),
            ..config
        };
        let on = NvmeTcp::new(&config, &Arc::default());
        let doors = on.doors();
        let names: Vec<&str> = doors.iter().map(|door| door.name).collect();
        assert_eq!((names, on.connections_max()), (vec![TCP, DISCOVERY], 7));
    }
}
