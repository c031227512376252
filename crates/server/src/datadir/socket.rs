//! Socket files that a killed daemon left behind.
//!
//! Under the lock no other daemon listens on a socket of this data directory. But a configured path
//! may belong to another program. So a socket is removed only if no program answers on it, and a
//! file that is not a socket is never removed.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use super::DataDirError;

/// Removes the socket at `path` if no program listens on it. A missing file is no error.
///
/// # Errors
/// The path is not a socket, a program listens on it, or the system refused.
pub fn unlink_stale(path: &Path) -> Result<(), DataDirError> {
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(DataDirError::io("look at the socket", path, error)),
    };
    if !metadata.file_type().is_socket() {
        return Err(DataDirError::Damaged {
            path: path.to_owned(),
            found: "something that is not a socket".to_owned(),
            expected: "a socket or nothing",
            advice: "move it away, or choose another path",
        });
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(DataDirError::InUse {
            path: path.to_owned(),
            holder: "another server, which answers on this socket".to_owned(),
        }),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(|error| DataDirError::io("remove", path, error))
        }
        Err(error) => Err(DataDirError::io("connect to the socket", path, error)),
    }
}
