//! The history of administrative changes: `log/history.jsonl` in the data directory, one JSON object a line.
//!
//! A line is appended and synced when its change is durable, so the history may lack the last change after a
//! power cut, and never has one that was not made. When the file has twice as many lines as are kept, it is
//! replaced whole by the newest half.
//!
//! A line that cannot be read (torn by a power cut, or edited) is left out, and the next append replaces the
//! file.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use everglade_api::{Change, Moment};

use super::Deed;
use crate::datadir::{DataDirError, atomic};

/// Changes that are kept.
const KEPT: usize = 4096;
/// Longest detail: a request's devices may have long paths.
const DETAIL_CHARS_MAX: usize = 400;
/// Twice what is kept, in the longest lines there are.
const BYTES_MAX: u64 = 16 << 20;

/// See the module's documentation.
pub struct History {
    path: PathBuf,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    changes: VecDeque<Change>,
    /// In the file; more than are kept means that it is due to be replaced.
    lines: usize,
}

impl History {
    pub(super) fn open(data_dir: &Path) -> History {
        let path = data_dir.join("log").join("history.jsonl");
        let inner = read(&path).unwrap_or_else(|error| {
            tracing::warn!("the history of changes cannot be read and begins anew: {error}");
            Inner {
                lines: usize::MAX,
                ..Inner::default()
            }
        });
        History {
            path,
            inner: Mutex::new(inner),
        }
    }

    /// All changes that are kept, oldest first.
    #[must_use]
    pub fn changes(&self) -> Vec<Change> {
        self.lock().changes.iter().cloned().collect()
    }

    /// Adds a change. Durable when it returns.
    pub(super) fn append(&self, now: Moment, who: &str, deed: &Deed) -> Result<(), DataDirError> {
        let mut inner = self.lock();
        let number = inner.changes.back().map_or(1, |last| last.number + 1);
        let change = Change {
            number,
            time: now.to_string(),
            who: who.to_owned(),
            what: deed.what.to_owned(),
            object: deed.object.clone(),
            detail: deed.detail.chars().take(DETAIL_CHARS_MAX).collect(),
        };
        let text = line(&change);
        inner.changes.push_back(change);
        if inner.changes.len() > KEPT {
            inner.changes.pop_front();
        }
        self.make_folder()?;
        if inner.lines >= 2 * KEPT {
            let all: String = inner.changes.iter().map(line).collect();
            atomic::replace(&self.path, all.as_bytes())?;
            inner.lines = inner.changes.len();
            return Ok(());
        }
        let written = File::options()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(&self.path)
            .and_then(|mut file| {
                file.write_all(text.as_bytes())?;
                file.sync_data()
            });
        match written {
            Ok(()) => {
                inner.lines += 1;
                Ok(())
            }
            Err(error) => {
                // Perhaps half a line; the next change writes all that is known.
                inner.lines = usize::MAX;
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
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn line(change: &Change) -> String {
    let text = serde_json::to_string(change).expect("texts and numbers are JSON");
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
        match serde_json::from_str::<Change>(line) {
            Ok(change)
                if inner
                    .changes
                    .back()
                    .is_none_or(|last| last.number < change.number) =>
            {
                inner.changes.push_back(change);
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
        inner.lines = usize::MAX;
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

    fn place() -> tempfile::TempDir {
        tempfile::tempdir().expect("a temporary directory")
    }

    #[test]
    fn a_change_is_there_after_a_restart() {
        let place = place();
        for round in 1..4u64 {
            let history = History::open(place.path());
            history
                .append(Moment(round), "uid 0 (root)", &deed(0))
                .expect("written");
            let numbers: Vec<_> = history
                .changes()
                .iter()
                .map(|change| change.number)
                .collect();
            assert_eq!(numbers, (1..=round).collect::<Vec<_>>());
        }
        let change = &History::open(place.path()).changes()[0];
        assert_eq!(change.time, "1970-01-01T00:00:01Z");
        assert_eq!(
            (change.who.as_str(), change.object.as_str()),
            ("uid 0 (root)", "v0")
        );
    }

    #[test]
    fn a_torn_line_loses_itself_alone() {
        let place = place();
        let history = History::open(place.path());
        for number in 0..3 {
            history
                .append(Moment(1), "who", &deed(number))
                .expect("written");
        }
        let path = place.path().join("log/history.jsonl");
        let bytes = fs::read(&path).expect("read");
        fs::write(&path, &bytes[..bytes.len() - 5]).expect("torn");
        let history = History::open(place.path());
        assert_eq!(history.changes().len(), 2);
        history.append(Moment(2), "who", &deed(9)).expect("written");
        let objects: Vec<_> = History::open(place.path())
            .changes()
            .into_iter()
            .map(|change| change.object)
            .collect();
        assert_eq!(objects, ["v0", "v1", "v9"]);
        fs::write(&path, [0xff; 100]).expect("garbage");
        assert!(History::open(place.path()).changes().is_empty());
    }

    #[test]
    fn it_is_bounded_in_memory_and_on_disk() {
        let place = place();
        let history = History::open(place.path());
        {
            let mut inner = history.lock();
            inner.changes = (1..=KEPT as u64)
                .map(|number| Change {
                    number,
                    time: String::new(),
                    who: String::new(),
                    what: String::new(),
                    object: String::new(),
                    detail: String::new(),
                })
                .collect();
            inner.lines = 2 * KEPT;
        }
        history.append(Moment(1), "who", &deed(1)).expect("written");
        assert_eq!(history.changes().len(), KEPT);
        let again = History::open(place.path());
        assert_eq!(again.changes(), history.changes());
        assert_eq!(again.lock().lines, KEPT);
        assert_eq!(
            again.changes().last().map(|last| last.number),
            Some(KEPT as u64 + 1)
        );
    }
}
