//! `run/endpoints.json`: the addresses of the running daemon, for scripts and for our own client.
//!
//! The file is written after the sockets are open, and removed at a clean stop and at every start.
//! So it exists only while a daemon is ready, or after a daemon was killed. Its space is kept while
//! it is absent ([`SmallFile`]), so that a start on a full host can write it.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::{DataDirError, SmallFile, modes};

const NAME: &str = "endpoints.json";

/// A place where something listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A TCP address; port 0 lets the kernel choose.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => address.fmt(f),
            Address::Unix(path) => path.display().fmt(f),
        }
    }
}

/// A door for clients of a protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Its name in the file.
    pub name: &'static str,
    /// The address, with the port that was chosen. `None` without a listener.
    pub at: Option<Address>,
    /// Whether the listener requires encryption.
    pub is_tls_required: bool,
}

/// The addresses of the running daemon. `None` where that door is shut.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Endpoints {
    /// Endpoints of protocols, including those without a listener.
    pub doors: Vec<Endpoint>,
    /// REST over a Unix socket.
    pub api_unix: Option<PathBuf>,
    /// REST over TCP.
    pub api_tcp: Option<SocketAddr>,
    /// Metrics and health.
    pub metrics: Option<SocketAddr>,
}

impl Endpoints {
    /// Returns the endpoint of this name.
    #[must_use]
    pub fn door(&self, name: &str) -> Option<&Endpoint> {
        self.doors.iter().find(|door| door.name == name)
    }

    /// Returns the contents as JSON; `pid` tells a waiting script which daemon it has found.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        let mut value = json!({
            "schema_version": 1,
            "pid": std::process::id(),
            "api_tcp": self.api_tcp.map(|address| address.to_string()),
            "metrics": self.metrics.map(|address| address.to_string()),
            "api_unix": self.api_unix.as_ref().map(|path| path.to_string_lossy()),
        });
        for door in &self.doors {
            value[door.name] = json!(door.at.as_ref().map(ToString::to_string));
        }
        value
    }

    pub(super) fn write(&self, run_dir: &Path) -> Result<(), DataDirError> {
        file(run_dir).replace(format!("{:#}\n", self.json()).as_bytes())
    }
}

/// Returns the file in the folder `run`.
pub(super) fn file(run_dir: &Path) -> SmallFile {
    SmallFile::new(run_dir.join(NAME), modes::FILE_OPEN)
}
