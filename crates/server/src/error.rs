//! The reasons why serving did not end cleanly, one for each exit code
//! (docs/reference/conventions.md#exit-codes).

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::config::ConfigError;
use crate::datadir::DataDirError;
use crate::tls::TlsError;

/// The reasons why the daemon did not start. Nothing that clients stored was changed.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The data directory cannot be used.
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    /// Encryption is configured and not possible.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A TCP address cannot be listened on.
    #[error(
        "cannot listen on {address}: {source}; expected a free local address; stop the process \
         that has it, or choose another with {flag} (':0' picks a free port, 'off' does without)"
    )]
    Tcp {
        /// Configured address.
        address: SocketAddr,
        /// The error of the system.
        source: io::Error,
        /// The flag that changes the setting.
        flag: &'static str,
    },
    /// The tokens cannot be used.
    #[error("{0}")]
    Tokens(String),
    /// The file of the secrets of iSCSI.
    #[error("{0}")]
    Secrets(String),
    /// A Unix socket cannot be listened on.
    #[error(
        "cannot listen on {path}: {source}; expected an existing, writable directory; choose \
         another with {flag} ('off' does without)"
    )]
    Unix {
        /// Configured path.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
        /// The flag that changes the setting.
        flag: &'static str,
    },
    /// The limit of open files leaves nothing to serve with.
    #[error(
        "the limit of open files of this process is {limit}; this configuration needs at least \
         {needed}; raise it with LimitNOFILE= of the unit or 'ulimit -n {needed}', or ask for \
         fewer --reactors"
    )]
    Descriptors {
        /// The hard limit, or the soft one if that cannot be raised.
        limit: usize,
        /// The least that is enough.
        needed: usize,
    },
    /// The system refused something every start needs.
    #[error("cannot {action}: {source}; check the limits of the system and of this process")]
    System {
        /// A verb phrase.
        action: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// The engine cannot open or create an aggregate: a missing, foreign, stale or damaged device,
    /// no space on the host, or a way of doing I/O that this kernel forbids.
    #[error("{0}")]
    Engine(String),
}

impl StartError {
    /// Converts a refusal of the engine, or of the system on its behalf.
    pub(crate) fn engine(error: impl std::fmt::Display) -> StartError {
        StartError::Engine(error.to_string())
    }
}

/// The reason why serving ended.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// An error before the ready line.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The failure came while serving: unflushed data may be lost, flushed data is safe.
    #[error("stopped by a failure: {0}; see the log above, then start again to recover")]
    Failed(String),
}
