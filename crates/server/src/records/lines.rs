//! Numbered records in a file of the folder `log` in the data directory, one JSON object a line.
//!
//! New records are appended and synced. When the file has twice as many lines as records are kept,
//! it is replaced as a whole by the newest half. On a full host the replacement waits, and lines
//! are still appended. Of a file that grew very long, the newest lines are read.
//!
//! A write has three steps, so that a list can be used while the host writes: [`Lines::draft`],
//! [`Draft::write`], which needs no list, and [`Lines::written`]. Only one write may be under way.
//!
//! Behind the last line, space of the host is set aside (`AHEAD`), so that lines can be written on
//! a full host, too. When this space is used up, records are kept in memory until a later
//! [`Lines::write`] succeeds.
//!
//! A line that cannot be read (torn by a power cut, or edited) is skipped. The next write then
//! replaces the file, as soon as the host has space for a second copy.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::FallocateFlags;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::datadir::{DataDirError, atomic, modes};

/// Records of each list that are kept.
pub(super) const KEPT: usize = 4096;
/// Longest line: the longest text of a record, with each character escaped, and its other fields.
pub(super) const LINE_BYTES_MAX: u64 = 8 << 10;
/// Bytes that are read, from the end of the file: they have all records that are kept.
const BYTES_MAX: u64 = KEPT as u64 * LINE_BYTES_MAX;
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
            Ok(tail) => lines.parsed(&tail),
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

    fn parsed(mut self, tail: &Tail) -> Lines<R> {
        let text = String::from_utf8_lossy(&tail.bytes);
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
        if !tail.is_all {
            self.count = self.count.max(2 * KEPT);
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
        let draft = self.draft();
        let outcome = draft.write();
        self.written(&draft, outcome)
    }

    /// Returns the text to be written: all records that are not in the file.
    pub(super) fn draft(&self) -> Draft {
        let is_due = self.is_torn || self.count >= 2 * KEPT;
        let first = self.records.len() - self.unwritten;
        let mut newest: String = self.records.iter().skip(first).map(line).collect();
        if self.is_torn {
            // A torn line must not spoil the next one.
            newest.insert(0, '\n');
        }
        Draft {
            path: self.path.clone(),
            all: is_due.then(|| self.records.iter().map(line).collect()),
            // A file of so many lines grows no longer.
            may_append: self.count < 4 * KEPT,
            newest,
            counts: (self.records.len(), self.unwritten),
            last: self.records.back().map_or(0, R::number),
        }
    }

    /// Notes the outcome of a draft's write. Records may have been added meanwhile.
    pub(super) fn written(
        &mut self,
        draft: &Draft,
        outcome: Result<Written, Unwritten>,
    ) -> Result<(), DataDirError> {
        let (all, newest) = draft.counts;
        match outcome {
            Ok(Written::Replaced) => (self.count, self.is_torn) = (all, false),
            Ok(Written::Appended) => self.count += newest,
            Err(Unwritten { is_torn, error }) => {
                self.is_torn |= is_torn;
                return Err(error);
            }
        }
        let mut newer = self.records.iter().rev();
        self.unwritten = newer
            .position(|it| it.number() <= draft.last)
            .unwrap_or(self.records.len());
        Ok(())
    }
}

/// Text for the file; see [`Lines::draft`].
pub(super) struct Draft {
    path: PathBuf,
    /// All records, if the file is due for replacement.
    all: Option<String>,
    may_append: bool,
    newest: String,
    /// Number of all records, and of the newest.
    counts: (usize, usize),
    /// Number of the last record.
    last: u64,
}

/// How a draft was written.
pub(super) enum Written {
    /// The file has all records of the draft, and nothing else.
    Replaced,
    /// The newest records were appended.
    Appended,
}

impl Draft {
    /// Writes the text, and waits until it is durable.
    pub(super) fn write(&self) -> Result<Written, Unwritten> {
        self.make_folder().map_err(Unwritten::whole)?;
        if let Some(all) = &self.all {
            match atomic::replace(&self.path, all.as_bytes(), modes::FILE_PRIVATE) {
                Ok(()) => return Ok(Written::Replaced),
                Err(error) if !self.may_append => return Err(Unwritten::whole(error)),
                Err(_) => {}
            }
        }
        append(&self.path, self.newest.as_bytes()).map(|()| Written::Appended)
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

/// The reason why a draft was not written.
pub(super) struct Unwritten {
    /// Whether a line is torn or unreadable.
    is_torn: bool,
    error: DataDirError,
}

impl Unwritten {
    /// The file has whole lines.
    fn whole(error: DataDirError) -> Unwritten {
        Unwritten {
            is_torn: false,
            error,
        }
    }
}

/// Appends whole lines, or nothing, and sets space aside for the next ones.
fn append(path: &Path, text: &[u8]) -> Result<(), Unwritten> {
    let failed = |error| DataDirError::io("write", path, error);
    let whole = |error| Unwritten::whole(failed(error));
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
        error: failed(error),
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

/// The newest bytes of a file.
struct Tail {
    /// Whole lines.
    bytes: Vec<u8>,
    /// Whether the file has no older ones.
    is_all: bool,
}

/// Returns the end of the file; nothing if it does not exist.
fn read(path: &Path) -> std::io::Result<Tail> {
    let mut bytes = Vec::new();
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(Tail {
                bytes,
                is_all: true,
            });
        }
        Err(error) => return Err(error),
    };
    let skipped = file.metadata()?.len().saturating_sub(BYTES_MAX);
    file.seek(SeekFrom::Start(skipped))?;
    file.take(BYTES_MAX).read_to_end(&mut bytes)?;
    let is_all = skipped == 0;
    if !is_all {
        // The first line may lack its beginning.
        let begun = bytes.iter().position(|byte| *byte == b'\n');
        bytes.drain(..begun.map_or(bytes.len(), |at| at + 1));
    }
    Ok(Tail { bytes, is_all })
}
