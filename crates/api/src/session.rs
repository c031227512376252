//! Sessions: who uses which LUN at the moment.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Work;

/// A connection of a client that has a LUN open, or an image of one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Session {
    /// `volume/lun`, as the LUN is called now, or `volume/lun@snapshot`.
    pub lun: String,
    /// `NBD`, `iSCSI` or `NVMe/TCP`.
    pub protocol: String,
    /// Address that the client comes from, or `local` for the Unix socket.
    pub client: String,
    /// What the client is called: its IQN, its NQN, or the first name in its certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Seconds since the session began.
    pub age_seconds: u64,
    /// Seconds since the client sent something.
    pub idle_seconds: u64,
    /// Operations in flight.
    pub operation_count: u64,
    /// Bytes sent to the client.
    pub sent_bytes: u64,
    /// Reads that were answered since the session began.
    #[serde(default)]
    pub read_count: u64,
    /// Bytes of these reads.
    #[serde(default)]
    pub read_bytes: u64,
    /// Time that these reads took together.
    #[serde(default)]
    pub read_us: u64,
    /// Writes that were answered since the session began.
    #[serde(default)]
    pub write_count: u64,
    /// Bytes of these writes.
    #[serde(default)]
    pub written_bytes: u64,
    /// Time that these writes took together.
    #[serde(default)]
    pub write_us: u64,
    /// Number of the reactor that serves it.
    pub reactor: u64,
}

impl Session {
    /// Returns what the client was answered since the session began.
    #[must_use]
    pub fn work(&self) -> Work {
        Work {
            counts: [self.read_count, self.write_count],
            bytes: [self.read_bytes, self.written_bytes],
            us: [self.read_us, self.write_us],
        }
    }
}

/// `GET /v1/sessions`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Sessions {
    /// Sessions, by LUN.
    pub sessions: Vec<Session>,
}
