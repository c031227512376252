//! Replacing a small file so that power loss leaves the old one or the new one, whole.
//!
//! write `NAME.new` with the mode of the file → fsync it → rename over `NAME` → fsync the
//! directory.
//!
//! If power fails before the rename is durable, the old file stays, and the next start removes
//! `NAME.new` without reading it. The fsync before the rename is needed because a file system could
//! otherwise make the name durable before the contents.
//!
//! This needs space on the host. A file that must be written on a full host is a
//! [`SmallFile`](super::SmallFile).

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::DataDirError;

/// Suffix of the file being written. Reserved in the data directory.
pub const SUFFIX: &str = ".new";

/// Makes `contents` the file at `path`, with these permissions. Durable when it returns.
///
/// # Errors
/// The system refused; the old file stands.
pub fn replace(path: &Path, contents: &[u8], mode: u32) -> Result<(), DataDirError> {
    let new = leftover(path);
    let written = write_synced(&new, contents, mode)
        .map_err(|error| DataDirError::io("write", &new, error))
        .and_then(|()| {
            fs::rename(&new, path).map_err(|error| DataDirError::io("replace", path, error))
        });
    if written.is_err() {
        // On a full host its space is needed elsewhere. The first error is the one to report.
        let _ = remove_if_present(&new);
    }
    written?;
    match path.parent() {
        Some(parent) => sync_dir(parent),
        None => Ok(()),
    }
}

fn write_synced(path: &Path, contents: &[u8], mode: u32) -> io::Result<()> {
    let mut file = File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(mode)
        .open(path)?;
    // The mode is set whatever the umask is, also if a file of this name existed.
    file.set_permissions(Permissions::from_mode(mode))?;
    file.write_all(contents)?;
    file.sync_all()
}

/// Makes the names in a directory durable.
///
/// # Errors
/// The system refused.
pub fn sync_dir(path: &Path) -> Result<(), DataDirError> {
    // `parent()` of a one-component relative path is the empty path, which means here.
    let path = if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    };
    let sync = || File::open(path)?.sync_all();
    sync().map_err(|error| DataDirError::io("make durable", path, error))
}

/// Removes the file that an interrupted [`replace`] of `path` left.
///
/// # Errors
/// The system refused.
pub fn remove_leftover(path: &Path) -> Result<(), DataDirError> {
    remove_if_present(&leftover(path))
}

/// Removes a file; it is fine if there is none.
///
/// # Errors
/// The system refused.
pub fn remove_if_present(path: &Path) -> Result<(), DataDirError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(DataDirError::io("remove", path, error))
        }
        _ => Ok(()),
    }
}

fn leftover(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(SUFFIX);
    PathBuf::from(name)
}
