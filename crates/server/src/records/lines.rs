//! Numbered records in a file of the folder `log` in the data directory, one JSON object a line.
//!
//! New records are appended and synced. When the file has twice as many lines as records are kept,
//! it is replaced as a whole by the newest half. On a full host the replacement waits, and lines
//! are still appended.
//!
//! Behind the last line, space of the host is set aside (`AHEAD`), so that lines can be written on
//! a full host, too. When this space is used up, records are kept in memory until a later
//! [`Lines::write`] succeeds.
//!
//! A line that cannot be read (torn by a power cut, or edited) is skipped. The next write then
//! replaces the file, as soon as the host has space for a second copy.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::FallocateFlags;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::datadir::{DataDirError, atomic, modes};

/// Records of each list that are kept.
pub(super) const KEPT: usize = 4096;
/// Limit of the bytes that are read: twice the kept number of lines, if all have the maximum
/// length.
const BYTES_MAX: u64 = 16 << 20;
/// Space that is set aside behind the last line: hundreds of records.
pub(super) const AHEAD: u64 = 128 << 10;

/// A record of a list.
pub(super) trait Record: Serialize + DeserializeOwned {
    /// The number of the record: larger than those of all earlier ones.
    fn number(&self) -> u64;
}

/// See the module's documentation.
pub(super) struct Lines<R> {
    path: PathBuf,
    /// The newest records, oldest first.
    pub(super) records: VecDeque<R>,
    /// Lines in the file. With more than are kept, the file is due for replacement.
    pub(super) count: usize,
    /// Whether the file has a torn or unreadable line. Then the file is due for replacement.
    pub(super) is_torn: bool,
    /// Number of the newest records that are not in the file.
    pub(super) unwritten: usize,
}

impl<R: Record> Lines<R> {
    /// Reads the file of this name. An unreadable file is begun anew, and the log says so; `what`
    /// names the records there.
    pub(super) fn open(data_dir: &Path, name: &str, what: &str) -> Lines<R> {
        let path = data_dir.join("log").join(name);
        let lines = Lines {
            path: path.clone(),
            records: VecDeque::new(),
            count: 0,
            is_torn: false,
            unwritten: 0,
        };
        let lines = match read(&path) {
            Ok(bytes) => lines.parsed(&bytes),
            Err(error) => {
                tracing::warn!("{what} cannot be read and begins anew: {error}");
                Lines {
                    is_torn: true,
                    ..lines
                }
            }
        };
        if let Ok(file) = File::options().write(true).open(&path) {
            set_aside(&file);
        }
        lines
    }

    fn parsed(mut self, bytes: &[u8]) -> Lines<R> {
        let text = String::from_utf8_lossy(bytes);
        let is_whole = text.is_empty() || text.ends_with('\n');
        let mut lost = usize::from(!is_whole);
        for line in text.lines() {
            self.count += 1;
            let last = self.records.back().map_or(0, R::number);
            match serde_json::from_str::<R>(line) {
                Ok(record) if record.number() > last => self.records.push_back(record),
                _ => lost += 1,
            }
        }
        while self.records.len() > KEPT {
            self.records.pop_front();
        }
        if lost > 0 {
            tracing::warn!(
                "{} has a line that cannot be read; it is left out",
                self.path.display()
            );
            self.is_torn = true;
        }
        self
    }

    /// Returns the number for the next record.
    pub(super) fn next(&self) -> u64 {
        self.records.back().map_or(1, |last| last.number() + 1)
    }

    /// Adds a record, which is not in the file yet.
    pub(super) fn push(&mut self, record: R) {
        self.records.push_back(record);
        self.unwritten += 1;
        if self.records.len() > KEPT {
            self.records.pop_front();
            self.unwritten = self.unwritten.min(KEPT);
        }
    }

    /// Writes all records that are not in the file.
    pub(super) fn write(&mut self) -> Result<(), DataDirError> {
        self.make_folder()?;
        if self.is_torn || self.count >= 2 * KEPT {
            let all: String = self.records.iter().map(line).collect();
            match atomic::replace(&self.path, all.as_bytes(), modes::FILE_PRIVATE) {
                Ok(()) => {
                    self.count = self.records.len();
                    (self.is_torn, self.unwritten) = (false, 0);
                    return Ok(());
                }
                // Twice as long as it should be is as long as can be read.
                Err(error) if self.count >= 4 * KEPT => return Err(error),
                Err(_) => {}
            }
        }
        let first = self.records.len() - self.unwritten;
        let mut text: String = self.records.iter().skip(first).map(line).collect();
        if self.is_torn {
            // A torn line must not spoil the next one.
            text.insert(0, '\n');
        }
        match append(&self.path, text.as_bytes()) {
            Ok(()) => {
                self.count += self.unwritten;
                self.unwritten = 0;
                Ok(())
            }
            Err(Unwritten { is_torn, error }) => {
                self.is_torn |= is_torn;
                Err(DataDirError::io("write", &self.path, error))
            }
        }
    }

    fn make_folder(&self) -> Result<(), DataDirError> {
        let folder = self.path.parent().expect("a file in a folder");
        if folder.is_dir() {
            return Ok(());
        }
        fs::DirBuilder::new()
            .mode(0o700)
            .create(folder)
            .map_err(|error| DataDirError::io("create the directory", folder, error))
    }
}

/// The reason why lines were not appended.
struct Unwritten {
    /// Whether a line is torn or unreadable.
    is_torn: bool,
    error: std::io::Error,
}

/// Appends whole lines, or nothing, and sets space aside for the next ones.
fn append(path: &Path, text: &[u8]) -> Result<(), Unwritten> {
    let whole = |error| Unwritten {
        is_torn: false,
        error,
    };
    let file = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(modes::FILE_PRIVATE)
        .open(path)
        .map_err(whole)?;
    let before = file.metadata().map_err(whole)?.len();
    let written = file.write_all_at(text, before);
    let written = written.and_then(|()| file.sync_data());
    let written = written.map_err(|error| Unwritten {
        is_torn: file.set_len(before).is_err(),
        error,
    });
    set_aside(&file);
    written
}

/// Asks the host for space behind the last line, unless half of it is left. The host may refuse.
fn set_aside(file: &File) {
    let Ok(metadata) = file.metadata() else {
        return;
    };
    let length = metadata.len();
    if metadata.blocks() * 512 < length + AHEAD / 2 {
        let _ = rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, length, AHEAD);
    }
}

fn line<R: Serialize>(record: &R) -> String {
    let text = serde_json::to_string(record).expect("texts and numbers are JSON");
    format!("{text}\n")
}

/// Returns the bytes of the file; none if it does not exist.
fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match File::open(path) {
        Ok(file) => file.take(BYTES_MAX).read_to_end(&mut bytes)?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => 0,
        Err(error) => return Err(error),
    };
    Ok(bytes)
}
