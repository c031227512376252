//! The reasons why a device could not be opened, one for each remedy of the operator.

use std::path::{Path, PathBuf};

/// A refusal; nothing was changed on the device.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another server, or another user on the host, has the device.
    #[error("{path} is in use by another process")]
    Busy {
        /// Path of the device.
        path: PathBuf,
    },
    /// The path does not exist.
    #[error("{path} does not exist")]
    Missing {
        /// Path of the device.
        path: PathBuf,
    },
    /// A device was to be created where something is already.
    #[error("{path} already holds {found}")]
    Occupied {
        /// Path of the device.
        path: PathBuf,
        /// A description of the object found.
        found: String,
    },
    /// The path exists, but has another kind than expected.
    #[error("{path}: expected {expected}, found {found}")]
    Unexpected {
        /// Path of the device or file.
        path: PathBuf,
        /// The expected kind.
        expected: String,
        /// A description of the object found.
        found: String,
    },
    /// The host reports an error.
    #[error("cannot {verb} {path}: {source}")]
    Host {
        /// The operation that failed.
        verb: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// The error of the host.
        source: std::io::Error,
    },
}

impl OpenError {
    /// Wraps an error of the host. A missing file has its own variant.
    pub(super) fn host(
        verb: &'static str,
        path: &Path,
        source: impl Into<std::io::Error>,
    ) -> OpenError {
        let (source, path) = (source.into(), path.to_path_buf());
        match source.kind() {
            std::io::ErrorKind::NotFound => OpenError::Missing { path },
            std::io::ErrorKind::ResourceBusy => OpenError::Busy { path },
            _ => OpenError::Host { verb, path, source },
        }
    }

    pub(super) fn unexpected(
        path: &Path,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> OpenError {
        OpenError::Unexpected {
            path: path.to_path_buf(),
            expected: expected.into(),
            found: found.into(),
        }
    }
}
