//! `run/endpoints.json`: the addresses of the running daemon, for scripts and for our own client.
//!
//! The file is written after the sockets are open, and removed at a clean stop and at every start.
//! So it exists only while a daemon is ready, or after a daemon was killed. Its space is kept while
//! it is absent ([`SmallFile`]), so that a start on a full host can write it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::{DataDirError, SmallFile, modes};

const NAME: &str = "endpoints.json";
/// The addresses of the running daemon. `None` where that door is shut.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Endpoints {
    /// NBD over TCP, with the port that was picked.
    pub nbd_tcp: Option<SocketAddr>,
    /// Whether that takes encrypted connections only.
    pub nbd_tls_required: bool,
    /// NBD over a Unix socket.
    pub nbd_unix: Option<PathBuf>,
    /// REST over a Unix socket.
    pub api_unix: Option<PathBuf>,
    /// REST over TCP.
    pub api_tcp: Option<SocketAddr>,
    /// Metrics and health.
    pub metrics: Option<SocketAddr>,
}

impl Endpoints {
    /// As JSON of the conventions; `pid` tells a waiting script whom it found.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        json!({
            "schema_version": 1,
            "pid": std::process::id(),
            "nbd_tcp": self.nbd_tcp.map(|address| address.to_string()),
            "nbd_unix": self.nbd_unix.as_ref().map(|path| path.to_string_lossy()),
            "api_tcp": self.api_tcp.map(|address| address.to_string()),
            "metrics": self.metrics.map(|address| address.to_string()),
            "api_unix": self.api_unix.as_ref().map(|path| path.to_string_lossy()),
        })
    }

    pub(super) fn write(&self, run_dir: &Path) -> Result<(), DataDirError> {
        file(run_dir).replace(format!("{:#}\n", self.json()).as_bytes())
    }
}

/// The file in the folder `run`.
pub(super) fn file(run_dir: &Path) -> SmallFile {
    SmallFile::new(run_dir.join(NAME), modes::FILE_OPEN)
}
