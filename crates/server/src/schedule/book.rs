//! The book of the schedule: policies, which volume has which, and what was taken for them.
//!
//! It is kept behind [`Shelf`], because its place is a temporary one (docs/decisions/0010): the data directory now,
//! the pool when the pool has room for it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use everglade_api::{Policy, TimeOfDay, Weekday};
use serde::{Deserialize, Serialize};

use super::calendar::Every;
use crate::datadir::atomic;

/// Name of the file.
pub const NAME: &str = "policies.toml";
const VERSION: u64 = 1;
const HEADER: &str =
    "# Written by everglade. Edit only while it is stopped, and keep the last line.";
const END: &str = "# end of policies";
/// Hundreds of volumes with a thousand snapshots each fit.
const BYTES_MAX: u64 = 64 << 20;
/// The policy that is always there.
pub const DEFAULT: &str = "default";

/// All that is written down.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Book {
    version: u64,
    /// Those that somebody made; `default` is not among them.
    #[serde(default, rename = "policy", skip_serializing_if = "Vec::is_empty")]
    made: Vec<Policy>,
    /// By name.
    #[serde(default, rename = "volume", skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) volumes: BTreeMap<String, Entry>,
}

/// A volume that has a policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    /// Its policy.
    pub(super) policy: String,
    /// What the volume is just being renamed to: if the daemon ends before that is written down, the next one looks
    /// which of the names there is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) becomes: Option<String>,
    /// What was done for it.
    #[serde(default, rename = "run", skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) runs: BTreeMap<Every, Run>,
}

/// One schedule of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Run {
    /// The last due time that was seen to, seconds since 1970.
    pub(super) seen: i64,
    /// The name of a snapshot that is about to be taken: if the daemon ends before it is in `taken`, the next one
    /// knows whose it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) taking: Option<Taking>,
    /// What was taken, oldest first. Only a snapshot of this number *and* name is ever deleted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) taken: Vec<Known>,
}

/// A snapshot that is being taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Taking {
    /// Its name.
    pub(super) name: String,
    /// Its number will be larger: what is older and has the name is somebody else's.
    pub(super) after: u64,
    /// What it is taken for.
    pub(super) due: i64,
}

/// A snapshot that a policy took.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Known {
    /// Its number in the volume.
    pub(super) id: u64,
    /// The name it was given. Who renames it takes it out of the policy's hands.
    pub(super) name: String,
}

/// The policy of new volumes: six hours, two days, two weeks.
pub(super) fn usual() -> Policy {
    Policy {
        name: DEFAULT.to_owned(),
        hourly: 6,
        daily: 2,
        weekly: 2,
        at: TimeOfDay::default(),
        weekday: Weekday::Sunday,
        time_zone: "UTC".to_owned(),
        volume_count: 0,
    }
}

impl Book {
    pub(super) fn policy(&self, name: &str) -> Option<Policy> {
        self.policies().into_iter().find(|known| known.name == name)
    }

    /// All, by name, with how many volumes have them.
    pub(super) fn policies(&self) -> Vec<Policy> {
        let mut policies = vec![usual()];
        policies.extend(self.made.iter().cloned());
        for policy in &mut policies {
            let having = self.volumes.values();
            let having = having.filter(|entry| entry.policy == policy.name);
            policy.volume_count = having.count() as u64;
        }
        policies.sort_by(|a, b| a.name.cmp(&b.name));
        policies
    }

    /// A volume has another name now. Nothing of what is known of that name is true any more.
    pub(super) fn rename(&mut self, volume: &str, to: &str) {
        self.volumes.remove(to);
        if let Some(entry) = self.volumes.remove(volume) {
            let entry = Entry {
                becomes: None,
                ..entry
            };
            self.volumes.insert(to.to_owned(), entry);
        }
    }

    pub(super) fn add(&mut self, policy: Policy) {
        self.made.push(policy);
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.made.retain(|known| known.name != name);
    }

    fn encode(&self) -> Result<String, String> {
        let book = Book {
            version: VERSION,
            ..self.clone()
        };
        let text = toml::to_string(&book).map_err(|error| error.to_string())?;
        Ok(format!("{HEADER}\n{text}{END}\n"))
    }

    fn decode(text: &str) -> Result<Book, String> {
        if !text.trim_end().ends_with(END) {
            return Err(format!(
                "it does not end with '{END}', so it may be cut short"
            ));
        }
        let book: Book = toml::from_str(text).map_err(|error| error.message().to_owned())?;
        if book.version != VERSION {
            return Err(format!(
                "it has version {}; expected {VERSION}",
                book.version
            ));
        }
        Ok(book)
    }
}

/// Where the book is kept.
pub(super) trait Shelf: Send {
    /// The book, an empty one if there is none.
    ///
    /// # Errors
    /// One line: why what is there cannot be read.
    fn read(&self) -> Result<Book, String>;

    /// Replaces it, durably.
    ///
    /// # Errors
    /// One line. The old one stands.
    fn write(&self, book: &Book) -> Result<(), String>;

    /// Puts aside what cannot be read; says where.
    fn put_aside(&self) -> String;
}

/// A file of the data directory.
pub(super) struct DataDirShelf(PathBuf);

impl DataDirShelf {
    pub(super) fn new(data_dir: &Path) -> DataDirShelf {
        DataDirShelf(data_dir.join(NAME))
    }
}

impl Shelf for DataDirShelf {
    fn read(&self) -> Result<Book, String> {
        let unreadable = |error: io::Error| error.to_string();
        match fs::metadata(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Book::default()),
            Err(error) => return Err(unreadable(error)),
            Ok(metadata) if metadata.len() > BYTES_MAX => {
                return Err(format!("it is longer than {BYTES_MAX} bytes"));
            }
            Ok(_) => {}
        }
        Book::decode(&fs::read_to_string(&self.0).map_err(unreadable)?)
    }

    fn write(&self, book: &Book) -> Result<(), String> {
        atomic::replace(&self.0, book.encode()?.as_bytes()).map_err(|error| error.to_string())
    }

    fn put_aside(&self) -> String {
        let aside = self.0.with_extension("toml.unreadable");
        match fs::rename(&self.0, &aside) {
            Ok(()) => format!("it is kept as {}", aside.display()),
            Err(error) => format!("it cannot be put aside: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_what_was_torn_is_not() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let shelf = DataDirShelf::new(place.path());
        assert_eq!(shelf.read(), Ok(Book::default()));
        let mut book = Book {
            version: VERSION,
            ..Book::default()
        };
        let policy = Policy {
            name: "p".to_owned(),
            time_zone: "Europe/Berlin".to_owned(),
            ..usual()
        };
        book.add(policy);
        let known = Known {
            id: 7,
            name: "daily.2026-11-22_0000".to_owned(),
        };
        let run = Run {
            seen: 5,
            taking: Some(Taking {
                name: "daily.2026-11-23_0000".to_owned(),
                after: 7,
                due: 6,
            }),
            taken: vec![known],
        };
        let entry = Entry {
            policy: "p".to_owned(),
            becomes: Some("w".to_owned()),
            runs: [(Every::Daily, run)].into(),
        };
        book.volumes.insert("v".to_owned(), entry);
        shelf.write(&book).expect("written");
        assert_eq!(shelf.read(), Ok(book.clone()));
        let text = fs::read_to_string(place.path().join(NAME)).expect("read");
        let torn = &text[..text.len() / 2];
        let unknown = text.replace("policy = \"p\"", "polciy = \"p\"");
        let newer = text.replace("version = 1", "version = 2");
        for bad in [torn, &unknown, &newer] {
            fs::write(place.path().join(NAME), bad).expect("write");
            assert!(shelf.read().is_err(), "{bad}");
        }
        assert!(shelf.put_aside().contains("unreadable"));
        assert_eq!(shelf.read(), Ok(Book::default()));
    }
}
