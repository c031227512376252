//! The history of administrative changes: `log/history.jsonl` in the data directory (`lines`).
//!
//! A line is appended and synced when its change is durable, so after a power cut the history may
//! lack the last change, but it never has a change that was not made. A line also has the
//! idempotency key of its request, if there was one, so that a repetition after a restart is
//! recognised.
//!
//! A change is made even if its line cannot be written. Then the line is written with the next
//! change, or once a second (`History::settle`).

use std::path::Path;

use everglade_api::{Change, Moment};
use everglade_env::lock::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};

use super::Deed;
use super::lines::{Lines, Record};
use crate::datadir::DataDirError;

/// Longest detail: a request's devices may have long paths.
const DETAIL_CHARS_MAX: usize = 400;

/// See the module's documentation.
pub struct History(Mutex<Lines<Kept>>);

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

impl Record for Kept {
    fn number(&self) -> u64 {
        self.change.number
    }
}

impl History {
    pub(super) fn open(data_dir: &Path) -> History {
        let lines = Lines::open(data_dir, "history.jsonl", "the history of changes");
        History(Mutex::new(lines))
    }

    /// Returns all changes that are kept, oldest first.
    #[must_use]
    pub fn changes(&self) -> Vec<Change> {
        let lines = self.lock();
        let changes = lines.records.iter().map(|kept| &kept.change);
        changes.cloned().collect()
    }

    /// Returns all changes that are kept, oldest first, with their keys.
    #[must_use]
    pub fn kept(&self) -> Vec<Kept> {
        self.lock().records.iter().cloned().collect()
    }

    /// Changes that are not in the file, because the host had no space or refused otherwise.
    #[must_use]
    pub fn unwritten(&self) -> usize {
        self.lock().unwritten
    }

    /// Writes the lines that could not be written before. Costs nothing if there are none.
    pub(super) fn settle(&self) {
        let mut lines = self.lock();
        if lines.unwritten > 0 && lines.write().is_ok() {
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
        let mut lines = self.lock();
        let change = Change {
            number: lines.next(),
            time: now.to_string(),
            who: who.to_owned(),
            what: deed.what.to_owned(),
            object: deed.object.clone(),
            detail: deed.detail.chars().take(DETAIL_CHARS_MAX).collect(),
        };
        lines.push(Kept {
            change: change.clone(),
            keyed,
        });
        let written = lines.write();
        (change, written)
    }

    fn lock(&self) -> MutexGuard<'_, Lines<Kept>> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    use super::super::lines::{AHEAD, KEPT};
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
            let mut lines = history.lock();
            lines.records = (1..=KEPT as u64)
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
            lines.count = 2 * KEPT;
        }
        append(&history, Moment(1), "who", &deed(1));
        assert_eq!(history.changes().len(), KEPT);
        let again = History::open(folder.path());
        assert_eq!(again.changes(), history.changes());
        assert_eq!(again.lock().count, KEPT);
        assert_eq!(
            again.changes().last().map(|last| last.number),
            Some(KEPT as u64 + 1)
        );
    }
}
