//! The history of administrative changes: `log/history.jsonl` in the data directory, one JSON
//! object a line.
//!
//! A line is appended and synced when its change is durable, so after a power cut the history may
//! lack the last change, but it never has a change that was not made. A line also has the
//! idempotency key of its request, if there was one, so that a repetition after a restart is
//! recognised. When the file has twice as many lines as are kept, it is replaced as a whole by the
//! newest half. On a full host the replacement waits, and lines are still appended.
//!
//! Behind the last line, space of the host is set aside (`AHEAD`), so that lines can be written on
//! a full host, too. When this space is used up, lines are kept in memory and written with the next
//! change, or once a second (`History::settle`). A change is made even if its line cannot be
//! written.
//!
//! A line that cannot be read (torn by a power cut, or edited) is skipped. The next append then
//! replaces the file, as soon as the host has space for a second copy.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use everglade_api::{Change, Moment};
use everglade_env::lock::{Mutex, MutexGuard};
use rustix::fs::FallocateFlags;
use serde::{Deserialize, Serialize};

use super::Deed;
use crate::datadir::{DataDirError, atomic, modes};

/// Changes that are kept.
const KEPT: usize = 4096;
/// Longest detail: a request's devices may have long paths.
const DETAIL_CHARS_MAX: usize = 400;
/// Twice the kept number of lines, if all have the maximum length.
const BYTES_MAX: u64 = 16 << 20;
/// Space that is set aside behind the last line: hundreds of changes.
const AHEAD: u64 = 128 << 10;

/// See the module's documentation.
pub struct History {
    path: PathBuf,
    inner: Mutex<Inner>,
}

/// One line of the file: a change, with the data that only the daemon needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The change, as callers see it.
    #[serde(flatten)]
    pub change: Change,
    /// The idempotency key of the request, if it had one.
    #[serde(default, flatten, skip_serializing_if = "Option::is_none")]
    pub keyed: Option<Keyed>,
}

/// The idempotency key of a request (decision 0030).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keyed {
    /// The key as the client sent it.
    pub key: String,
    /// A hash of the request that the key stands for.
    pub request: String,
}

#[derive(Default)]
struct Inner {
    changes: VecDeque<Kept>,
    /// Lines in the file. With more than are kept, the file is due for replacement.
    lines: usize,
    /// Whether the file has a torn or unreadable line. Then the file is due for replacement.
    is_torn: bool,
    /// The newest changes, which are not in the file.
    unwritten: usize,
}

impl History {
    pub(super) fn open(data_dir: &Path) -> History {
        let path = data_dir.join("log").join("history.jsonl");
        let inner = read(&path).unwrap_or_else(|error| {
            tracing::warn!("the history of changes cannot be read and begins anew: {error}");
            Inner {
                is_torn: true,
                ..Inner::default()
            }
        });
        if let Ok(file) = File::options().write(true).open(&path) {
            set_aside(&file);
        }
        History {
            path,
            inner: Mutex::new(inner),
        }
    }

    /// Returns all changes that are kept, oldest first.
    #[must_use]
    pub fn changes(&self) -> Vec<Change> {
        let inner = self.lock();
        let changes = inner.changes.iter().map(|kept| &kept.change);
        changes.cloned().collect()
    }

    /// Returns all changes that are kept, oldest first, with their keys.
    #[must_use]
    pub fn kept(&self) -> Vec<Kept> {
        self.lock().changes.iter().cloned().collect()
    }

    /// Changes that are not in the file, because the host had no space or refused otherwise.
    #[must_use]
    pub fn unwritten(&self) -> usize {
        self.lock().unwritten
    }

    /// Writes the lines that could not be written before. Costs nothing if there are none.
    pub(super) fn settle(&self) {
        let mut inner = self.lock();
        if inner.unwritten > 0 && self.write(&mut inner).is_ok() {
            tracing::info!("the history of changes is written again");
        }
    }

    /// Adds a change and returns it. The change is durable if no error is returned; otherwise it
    /// stays in memory until it can be written.
    pub(super) fn append(
        &self,
        now: Moment,
        who: &str,
        deed: &Deed,
        keyed: Option<Keyed>,
    ) -> (Change, Result<(), DataDirError>) {
        let mut inner = self.lock();
        let last = inner.changes.back();
        let number = last.map_or(1, |last| last.change.number + 1);
        let change = Change {
            number,
            time: now.to_string(),
            who: who.to_owned(),
            what: deed.what.to_owned(),
            object: deed.object.clone(),
            detail: deed.detail.chars().take(DETAIL_CHARS_MAX).collect(),
        };
        inner.changes.push_back(Kept {
            change: change.clone(),
            keyed,
        });
        inner.unwritten += 1;
        if inner.changes.len() > KEPT {
            inner.changes.pop_front();
            inner.unwritten = inner.unwritten.min(KEPT);
        }
        let written = self.write(&mut inner);
        (change, written)
    }

    /// Writes all changes that are not in the file.
    fn write(&self, inner: &mut Inner) -> Result<(), DataDirError> {
        self.make_folder()?;
        if inner.is_torn || inner.lines >= 2 * KEPT {
            let all: String = inner.changes.iter().map(line).collect();
            match atomic::replace(&self.path, all.as_bytes(), modes::FILE_PRIVATE) {
                Ok(()) => {
                    inner.lines = inner.changes.len();
                    (inner.is_torn, inner.unwritten) = (false, 0);
                    return Ok(());
                }
                // Twice as long as it should be is as long as can be read.
                Err(error) if inner.lines >= 4 * KEPT => return Err(error),
                Err(_) => {}
            }
        }
        let first = inner.changes.len() - inner.unwritten;
        let mut text: String = inner.changes.iter().skip(first).map(line).collect();
        if inner.is_torn {
            // A torn line must not spoil the next one.
            text.insert(0, '\n');
        }
        match append(&self.path, text.as_bytes()) {
            Ok(()) => {
                inner.lines += inner.unwritten;
                inner.unwritten = 0;
                Ok(())
            }
            Err(Unwritten { is_torn, error }) => {
                inner.is_torn |= is_torn;
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

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
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

fn line(kept: &Kept) -> String {
    let text = serde_json::to_string(kept).expect("texts and numbers are JSON");
    format!("{text}\n")
}

fn read(path: &Path) -> std::io::Result<Inner> {
    let mut bytes = Vec::new();
    match File::open(path) {
        Ok(file) => file.take(BYTES_MAX).read_to_end(&mut bytes)?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Inner::default()),
        Err(error) => return Err(error),
    };
    let mut inner = Inner::default();
    let text = String::from_utf8_lossy(&bytes);
    let is_whole = text.is_empty() || text.ends_with('\n');
    let mut lost = usize::from(!is_whole);
    for line in text.lines() {
        inner.lines += 1;
        match serde_json::from_str::<Kept>(line) {
            Ok(kept)
                if inner
                    .changes
                    .back()
                    .is_none_or(|last| last.change.number < kept.change.number) =>
            {
                inner.changes.push_back(kept);
            }
            _ => lost += 1,
        }
    }
    while inner.changes.len() > KEPT {
        inner.changes.pop_front();
    }
    if lost > 0 {
        tracing::warn!(
            "{} has a line that cannot be read; it is left out",
            path.display()
        );
        inner.is_torn = true;
    }
    Ok(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deed(number: usize) -> Deed {
        Deed {
            what: "volume create",
            object: format!("v{number}"),
            detail: "sync standard".to_owned(),
        }
    }

    fn append(history: &History, now: Moment, who: &str, deed: &Deed) {
        let (_, written) = history.append(now, who, deed, None);
        written.expect("written");
    }

    #[test]
    fn a_key_is_there_after_a_restart_and_is_nobody_elses_business() {
        let folder = temp_dir();
        let keyed = Keyed {
            key: "k".to_owned(),
            request: "r".to_owned(),
        };
        let history = History::open(folder.path());
        let (change, written) = history.append(Moment(1), "who", &deed(1), Some(keyed.clone()));
        written.expect("written");
        append(&history, Moment(2), "who", &deed(2));
        let kept = History::open(folder.path()).kept();
        assert_eq!(kept, history.kept());
        assert_eq!(kept[0].keyed, Some(keyed));
        assert_eq!(kept[1].keyed, None);
        assert_eq!(history.changes()[0], change);
    }

    fn temp_dir() -> tempfile::TempDir {
        tempfile::tempdir().expect("a temporary directory")
    }

    #[test]
    fn a_change_is_there_after_a_restart() {
        let folder = temp_dir();
        for round in 1..4u64 {
            let history = History::open(folder.path());
            append(&history, Moment(round), "uid 0 (root)", &deed(0));
            let numbers: Vec<_> = history
                .changes()
                .iter()
                .map(|change| change.number)
                .collect();
            assert_eq!(numbers, (1..=round).collect::<Vec<_>>());
        }
        let change = &History::open(folder.path()).changes()[0];
        assert_eq!(change.time, "1970-01-01T00:00:01Z");
        assert_eq!(
            (change.who.as_str(), change.object.as_str()),
            ("uid 0 (root)", "v0")
        );
    }

    #[test]
    fn a_torn_line_loses_itself_alone() {
        let folder = temp_dir();
        let history = History::open(folder.path());
        for number in 0..3 {
            append(&history, Moment(1), "who", &deed(number));
        }
        let path = folder.path().join("log/history.jsonl");
        let bytes = fs::read(&path).expect("read");
        fs::write(&path, &bytes[..bytes.len() - 5]).expect("torn");
        let history = History::open(folder.path());
        assert_eq!(history.changes().len(), 2);
        append(&history, Moment(2), "who", &deed(9));
        let objects: Vec<_> = History::open(folder.path())
            .changes()
            .into_iter()
            .map(|change| change.object)
            .collect();
        assert_eq!(objects, ["v0", "v1", "v9"]);
        fs::write(&path, [0xff; 100]).expect("garbage");
        assert!(History::open(folder.path()).changes().is_empty());
    }

    #[test]
    fn a_change_that_cannot_be_written_is_kept_and_written_later() {
        let folder = temp_dir();
        let history = History::open(folder.path());
        append(&history, Moment(1), "who", &deed(0));
        let path = folder.path().join("log/history.jsonl");
        let aside = folder.path().join("aside");
        fs::rename(&path, &aside).expect("moved");
        // Lines cannot be written into a folder.
        fs::create_dir(&path).expect("made");
        for number in 1..4 {
            let (_, refused) = history.append(Moment(1), "who", &deed(number), None);
            assert!(refused.is_err());
        }
        assert_eq!((history.unwritten(), history.changes().len()), (3, 4));
        history.settle();
        assert_eq!(history.unwritten(), 3);
        fs::remove_dir(&path).expect("removed");
        fs::rename(&aside, &path).expect("moved");
        history.settle();
        assert_eq!(history.unwritten(), 0);
        assert_eq!(History::open(folder.path()).changes(), history.changes());
    }

    #[test]
    fn half_a_line_does_not_spoil_the_next_when_the_file_cannot_be_replaced() {
        let folder = temp_dir();
        let history = History::open(folder.path());
        append(&history, Moment(1), "who", &deed(0));
        let path = folder.path().join("log/history.jsonl");
        let mut text = fs::read_to_string(&path).expect("read");
        text.push_str("{\"number\":2,\"ti");
        fs::write(&path, text).expect("torn");
        let history = History::open(folder.path());
        // Its replacement would have this name.
        let new = folder.path().join("log/history.jsonl.new");
        fs::create_dir(&new).expect("made");
        append(&history, Moment(1), "who", &deed(1));
        let again = History::open(folder.path());
        assert_eq!(again.changes(), history.changes());
        fs::remove_dir(&new).expect("removed");
        append(&again, Moment(1), "who", &deed(2));
        assert!(!again.lock().is_torn);
        assert_eq!(History::open(folder.path()).changes().len(), 3);
    }

    #[test]
    fn space_is_set_aside_for_the_next_changes() {
        let folder = temp_dir();
        let history = History::open(folder.path());
        append(&history, Moment(1), "who", &deed(0));
        let metadata = fs::metadata(folder.path().join("log/history.jsonl")).expect("there");
        assert!(
            metadata.blocks() * 512 >= metadata.len() + AHEAD / 2,
            "{} blocks",
            metadata.blocks()
        );
    }

    #[test]
    fn it_is_bounded_in_memory_and_on_disk() {
        let folder = temp_dir();
        let history = History::open(folder.path());
        {
            let mut inner = history.lock();
            inner.changes = (1..=KEPT as u64)
                .map(|number| Kept {
                    change: Change {
                        number,
                        time: String::new(),
                        who: String::new(),
                        what: String::new(),
                        object: String::new(),
                        detail: String::new(),
                    },
                    keyed: None,
                })
                .collect();
            inner.lines = 2 * KEPT;
        }
        append(&history, Moment(1), "who", &deed(1));
        assert_eq!(history.changes().len(), KEPT);
        let again = History::open(folder.path());
        assert_eq!(again.changes(), history.changes());
        assert_eq!(again.lock().lines, KEPT);
        assert_eq!(
            again.changes().last().map(|last| last.number),
            Some(KEPT as u64 + 1)
        );
    }
}
