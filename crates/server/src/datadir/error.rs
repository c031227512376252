//! The reasons why a data directory cannot be used. Each message is one line: what was found, what
//! was expected, what to do.

use std::io;
use std::path::{Path, PathBuf};

/// The reasons why a data directory cannot be used, one for each remedy of the operator.
#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    /// A file or device where a directory is needed.
    #[error("{path} is not a directory; expected a directory for data; choose another --data-dir")]
    NotADirectory {
        /// Path of the data directory.
        path: PathBuf,
    },
    /// The directory has files of another program.
    #[error(
        "{path} does not belong to everglade: found {found}; expected a FORMAT file or an empty \
         directory; choose another --data-dir, or move those files away"
    )]
    NotOurs {
        /// Path of the data directory.
        path: PathBuf,
        /// A few of the names, and how many.
        found: String,
    },
    /// Made by a version after this one.
    #[error(
        "{path} has format version {found}; this everglade understands version {supported}; \
         run the newer everglade that made it"
    )]
    Newer {
        /// Path of the data directory.
        path: PathBuf,
        /// Version in the FORMAT file.
        found: u64,
        /// The newest this program knows.
        supported: u64,
    },
    /// One of our files has unexpected contents.
    #[error("{path} is damaged: found {found}; expected {expected}; {advice}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// A description of the damage.
        found: String,
        /// The expected contents.
        expected: &'static str,
        /// The remedy.
        advice: &'static str,
    },
    /// Users other than the owner could change the files that the daemon opens.
    #[error(
        "{path} can be written to by {who} (mode {mode:04o}); expected a directory that only its \
         owner can write to; run 'chmod go-w {path}'"
    )]
    Writable {
        /// Path of the data directory.
        path: PathBuf,
        /// Its mode.
        mode: u32,
        /// Users who can write: the group or everybody.
        who: &'static str,
    },
    /// Another process has it open.
    #[error(
        "{path} is in use by {holder}; expected to be alone; stop that one, or choose another \
         --data-dir"
    )]
    InUse {
        /// Path of the data directory.
        path: PathBuf,
        /// `process N (name)`, or that it is unknown.
        holder: String,
    },
    /// The directory holds no aggregate, and the caller creates none.
    #[error(
        "{path} holds no aggregates; expected a data directory that was served before; check \
         --data-dir, or start 'everglade serve' once"
    )]
    Nothing {
        /// Path of the data directory.
        path: PathBuf,
    },
    /// The system refused.
    #[error("cannot {action} {path}: {source}; check the path, its permissions and free space")]
    Io {
        /// A verb phrase.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

impl DataDirError {
    /// Adds the attempted operation to an error of the system.
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> DataDirError {
        DataDirError::Io {
            action,
            path: path.to_owned(),
            source,
        }
    }
}
