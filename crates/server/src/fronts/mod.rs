//! Fronts: the protocols that the daemon speaks with clients (decision 0036).
//!
//! A protocol is a crate with a sans-I/O [`Session`](everglade_target::sessions::Session), a file
//! here that implements [`Protocol`], and a line of [`all`]. What is the same for every protocol is
//! in the other files:
//!
//! | file | what |
//! | --- | --- |
//! | [`front`] | what the plane asks of a protocol |
//! | [`doors`] | the sockets where clients come in |
//! | [`admission`] | on which terms: encryption, certificates, allow-list |
//! | `secrets` | secrets of initiators |
//! | [`socket`] | a client's socket, plain or encrypted |

pub mod admission;
pub mod doors;
mod encryption;
pub mod front;
pub mod iscsi;
pub mod nbd;
pub mod nvme_tcp;
mod secrets;
pub mod socket;

pub use admission::Admission;
pub use doors::Listeners;
pub use front::{Contents, Counts, Door, Front, Protocol};

use std::sync::Arc;

use everglade_target::reservations::Registry;
use everglade_target::sessions::Owner;

use crate::Config;
use crate::descriptors::Clients;

/// Owners of tokens that are left to fronts; the last is the plane's own.
pub const FRONTS_MAX: usize = Owner::COUNT - 1;

/// Returns every protocol that is on, as configured.
#[must_use]
pub fn all(config: &Config) -> Vec<Box<dyn Protocol>> {
    sharing(config, &Arc::default())
}

/// Returns every protocol that is on. Hosts of all of them see these reservations.
#[must_use]
pub fn sharing(config: &Config, reservations: &Arc<Registry>) -> Vec<Box<dyn Protocol>> {
    let mut all: Vec<Box<dyn Protocol>> = vec![Box::new(nbd::Nbd::new(&config.nbd, reservations))];
    if config.iscsi.tcp.is_some() {
        all.push(Box::new(iscsi::Iscsi::new(&config.iscsi, reservations)));
    }
    if config.nvme.tcp.is_some() {
        let front = nvme_tcp::NvmeTcp::new(&config.nvme, reservations);
        all.push(Box::new(front));
    }
    all
}

/// Descriptors that clients of all protocols may need.
#[must_use]
pub fn clients(protocols: &[Box<dyn Protocol>]) -> Clients {
    let doors = protocols.iter().flat_map(|protocol| protocol.doors());
    let connections = protocols.iter().map(|protocol| protocol.connections_max());
    Clients {
        listeners: doors.map(|door| door.descriptors()).sum(),
        connections_max: connections.fold(0, u32::saturating_add),
    }
}
