//! `FORMAT`: two lines that name the program of this directory and its version.
//!
//! ```text
//! everglade data directory
//! version 0
//! ```
//!
//! The version covers the layout of this directory, not the bytes in the pool; labels have the
//! version of these. The version is 0 while the layout is not frozen.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use super::{DataDirError, atomic, lock, modes, state};

/// Name of the file.
pub const NAME: &str = "FORMAT";
/// Newest version this program understands.
pub const VERSION: u64 = 0;
const MAGIC: &str = "everglade data directory";
/// Limit in bytes. Both lines fit with the longest number; a longer file is not ours.
const BYTES_MAX: u64 = 256;
/// Names shown when a directory is not ours.
const NAMES_SHOWN: usize = 3;

/// The kind of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recognised {
    /// Empty, except for files of a new file system or of an interrupted first start.
    Blank,
    /// Ours, of a version we understand.
    Ours,
}

/// Recognises `directory` without changing it.
///
/// # Errors
/// The path is not a directory, or the directory is not ours, newer, damaged or unreadable.
pub fn recognise(directory: &Path) -> Result<Recognised, DataDirError> {
    let unreadable = |error| DataDirError::io("read the directory", directory, error);
    if !fs::metadata(directory).map_err(unreadable)?.is_dir() {
        return Err(DataDirError::NotADirectory {
            path: directory.to_owned(),
        });
    }
    if let Some(text) = read(directory)? {
        return understand(directory, &text).map(|()| Recognised::Ours);
    }
    let mut foreign = Vec::new();
    for entry in fs::read_dir(directory).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        if !may_precede(&entry) {
            foreign.push(entry.file_name());
        }
    }
    foreign.sort();
    if foreign.is_empty() {
        return Ok(Recognised::Blank);
    }
    // A first start may have made it ours since; FORMAT comes before everything that is foreign.
    if let Some(text) = read(directory)? {
        return understand(directory, &text).map(|()| Recognised::Ours);
    }
    if foreign.iter().any(|name| name == state::NAME) {
        return Err(DataDirError::Damaged {
            path: directory.join(NAME),
            found: format!("no {NAME} file beside {}", state::NAME),
            expected: "both, as everglade always leaves them",
            advice: "restore the file from a backup, or choose another --data-dir",
        });
    }
    Err(DataDirError::NotOurs {
        path: directory.to_owned(),
        found: listed(&foreign),
    })
}

/// Returns whether an interrupted first start, or `mkfs`, may have left this entry.
fn may_precede(entry: &fs::DirEntry) -> bool {
    let name = entry.file_name();
    let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
    let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
    let new_format = [NAME, atomic::SUFFIX].concat();
    (name == "lost+found" && is_dir)
        || (name == lock::NAME && is_file)
        || (name == new_format.as_str() && is_file)
}

/// Returns `3 entries (a, b, c)` or `70 entries (a, b, c, …)`.
fn listed(names: &[OsString]) -> String {
    let shown: Vec<_> = names
        .iter()
        .take(NAMES_SHOWN)
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    let more = if names.len() > NAMES_SHOWN {
        ", …"
    } else {
        ""
    };
    let entries = if names.len() == 1 { "entry" } else { "entries" };
    format!("{} {entries} ({}{more})", names.len(), shown.join(", "))
}

/// Returns the file's text, or `None` if the file does not exist.
fn read(directory: &Path) -> Result<Option<String>, DataDirError> {
    let path = directory.join(NAME);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(DataDirError::io("read", &path, error)),
    };
    let mut bytes = Vec::new();
    file.take(BYTES_MAX)
        .read_to_end(&mut bytes)
        .map_err(|error| DataDirError::io("read", &path, error))?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

fn understand(directory: &Path, text: &str) -> Result<(), DataDirError> {
    let mut lines = text.lines();
    if lines.next() != Some(MAGIC) {
        let found = format!("a {NAME} file that is not everglade's");
        return Err(DataDirError::NotOurs {
            path: directory.to_owned(),
            found,
        });
    }
    let version = lines.next().and_then(|line| line.strip_prefix("version "));
    let Some(version) = version.and_then(|number| number.parse::<u64>().ok()) else {
        return Err(DataDirError::Damaged {
            path: directory.join(NAME),
            found: "no version in its second line".to_owned(),
            expected: "'version' and a number",
            advice: "restore the file from a backup",
        });
    };
    if version > VERSION {
        let path = directory.to_owned();
        return Err(DataDirError::Newer {
            path,
            found: version,
            supported: VERSION,
        });
    }
    Ok(())
}

/// Makes a blank directory ours.
///
/// # Errors
/// The system refused; the directory is still blank.
pub fn write(directory: &Path) -> Result<(), DataDirError> {
    let text = format!("{MAGIC}\nversion {VERSION}\n");
    let path = directory.join(NAME);
    atomic::replace(&path, text.as_bytes(), modes::FILE_OPEN)
}
