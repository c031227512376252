//! The bounds of a session.

use core::net::SocketAddr;
use std::sync::Arc;

use everglade_target::sessions::Staging;
use everglade_target::sessions::memory::LARGEST_BYTES;
use everglade_target::{OP_BYTES_MAX, reservations};

use crate::Registry;

/// The longest transfer of a command: one operation, so that every command is atomic.
pub const TRANSFER_BYTES_MAX: u32 = OP_BYTES_MAX;
/// The longest data in the message of a command for input and output: longer data costs a message
/// that asks for it, which is nothing beside the data.
pub const IN_CAPSULE_BYTES_MAX: u32 = 64 << 10;
/// The longest data in the message of an admin command, and of Connect (NVMe/TCP "In-Capsule
/// Data").
pub const ADMIN_IN_CAPSULE_BYTES_MAX: u32 = 8 << 10;
/// Entries of a queue for input and output. So many commands that wait for data, and one whose data
/// comes, fit into the least share of the memory that a session has.
pub const ENTRIES_MAX: u16 = 256;
/// Entries of the admin queue.
pub const ADMIN_ENTRIES_MAX: u16 = 128;

/// Bounds of one session, and what it shares with the sessions of other reactors.
#[derive(Clone)]
pub struct Settings {
    /// The controllers of all reactors.
    pub registry: Arc<Registry>,
    /// The reservations of all protocols, which every command respects.
    pub reservations: Arc<reservations::Registry>,
    /// Hosts are offered reservations of their own.
    pub offers_reservations: bool,
    /// Version of the software, for people; cut to 8 characters.
    pub release: &'static str,
    /// Port at which hosts reach subsystems; `None` for the port that a host came to.
    pub port: Option<u16>,
    /// Limit of bytes held for requests. Never below the size of one operation, which would
    /// otherwise never fit.
    pub payload_in_flight_max: u64,
    /// Size of the buffer for everything that is not received in place.
    pub staging_bytes: usize,
    /// Before a queue for input and output opens its LUN, the owner is asked where
    /// ([`Session::home_question`](everglade_target::sessions::Session::home_question)). For owners
    /// with several tables of sessions.
    pub asks_for_home: bool,
}

impl Settings {
    /// The smallest staging that is useful: some commands, and the message of Connect.
    const STAGING_BYTES_MIN: usize = 8 << 10;

    /// Makes the settings of the product.
    #[must_use]
    pub fn new(registry: Arc<Registry>) -> Settings {
        Settings {
            registry,
            reservations: Arc::default(),
            offers_reservations: false,
            release: "0",
            port: None,
            payload_in_flight_max: 64 << 20,
            staging_bytes: 64 << 10,
            asks_for_home: false,
        }
    }

    /// Returns the settings, with invalid values replaced by the nearest valid ones.
    #[must_use]
    pub fn checked(mut self) -> Self {
        self.payload_in_flight_max = self.payload_in_flight_max.max(LARGEST_BYTES);
        self.staging_bytes = self.staging_bytes.max(Self::STAGING_BYTES_MIN);
        self
    }

    /// Returns the size of the staging buffer of a session that may have `allowed` bytes.
    pub(crate) fn staging_bytes(&self, allowed: usize) -> usize {
        Staging::size_within(self.staging_bytes, allowed, Self::STAGING_BYTES_MIN)
    }

    /// Returns the address at which a host that came to `local` reaches subsystems.
    pub(crate) fn address(&self, local: Option<SocketAddr>) -> SocketAddr {
        let mut address = local.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 4420)));
        if let Some(port) = self.port {
            address.set_port(port);
        }
        address
    }
}
