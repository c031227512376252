//! The reasons why a configuration cannot be used. Each message is one line: what was found, what
//! was expected, what to do.

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;

use super::SOCKET_PATH_BYTES_MAX;

/// The reason why a configuration cannot be used. The caller treats all alike: it prints the
/// message and exits.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration file {path}: {source}; check its path and permissions")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The file is not TOML.
    #[error("{path}:{line}: not TOML: {message}; correct the file")]
    NotToml {
        /// The file.
        path: PathBuf,
        /// 1-based.
        line: usize,
        /// The error of the parser.
        message: String,
    },
    /// A key that does not exist.
    #[error("{path}:{line}: unknown key '{key}'; {suggestion}")]
    UnknownKey {
        /// The file.
        path: PathBuf,
        /// 1-based.
        line: usize,
        /// Key with its table: `nbd.tpc`.
        key: String,
        /// A sentence with the key that was probably meant.
        suggestion: String,
    },
    /// A value that is not of the key's kind.
    #[error("{path}:{line}: '{key}': {problem}")]
    BadValue {
        /// The file.
        path: PathBuf,
        /// 1-based.
        line: usize,
        /// Key with its table.
        key: String,
        /// Found and expected.
        problem: String,
    },
    /// A value outside its bounds, from any source.
    #[error("{key} is {found}; expected {expected}; change the flag, the environment or the file")]
    OutOfRange {
        /// Key in the file, or the flag if the setting has no key.
        key: Cow<'static, str>,
        /// The value.
        found: String,
        /// The bounds.
        expected: String,
    },
    /// A key that needs another.
    #[error("{key} is set, which needs {needed}; set that too, or leave {key} out")]
    Incomplete {
        /// The key that is set.
        key: &'static str,
        /// The key that is missing.
        needed: &'static str,
    },
    /// Both NBD listeners are off.
    #[error("both nbd.tcp and nbd.unix are off, so no client could connect; leave one of them on")]
    NothingToServe,
    /// Longer than the kernel takes.
    #[error(
        "the socket path {path} has {bytes} bytes; the kernel takes at most \
         {SOCKET_PATH_BYTES_MAX}; choose a shorter {flag} or --data-dir, or {flag} off"
    )]
    SocketPathTooLong {
        /// The flag that changes the setting.
        flag: &'static str,
        /// The path.
        path: PathBuf,
        /// Its length.
        bytes: usize,
    },
    /// The environment names no place for the data directory.
    #[error("no data directory: neither XDG_DATA_HOME nor HOME is set; give --data-dir")]
    NoHome,
    /// A relative path, and the current directory is gone.
    #[error(
        "cannot find the current directory to complete '{path}': {source}; give an absolute path"
    )]
    NoCurrentDir {
        /// The relative path.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}
