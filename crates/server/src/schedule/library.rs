//! The library: keeps the book of the schedule in parts, one in each aggregate, with the entries
//! that the aggregate's volumes need (decision 0017). An aggregate that moves to another daemon
//! takes its part along, and adds it to the book there.
//!
//! ```text
//! aggregate online ─▶ its part read ─▶ merged into the book
//! changes of the book ─▶ parts that differ written
//! ```
//!
//! 1. A part is written when it differs from the stored part, and only if the stored part was read
//!    before.
//! 2. A policy that no volume has is in the part of the first aggregate whose part is understood.
//! 3. An aggregate that is not online keeps the part that it has. Changes of its part are written
//!    when the aggregate is online again in this daemon. After a restart the daemon finds such
//!    differences again, as after any crash.
//! 4. An old file in the data directory that has the book is read at the start, and renamed when
//!    all of its entries are in parts. Until then it has only the entries that are in no part: an
//!    entry that was removed from a part must not return from the file. If a part and the file
//!    disagree about a volume, the part counts.
//! 5. A part that is not understood, perhaps of a newer daemon, stays until an administrator
//!    requests a change of it. Then its text is kept in the data directory. The daemon itself never
//!    replaces such a part.
//! 6. A part that could not be read because a device did not answer is never replaced: changes of
//!    it are refused until a restart has read it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use everglade_engine::Unreadable;

use super::book::Book;
use crate::datadir::{atomic, modes};

/// Name of the file that once was the book.
pub const NAME: &str = "policies.toml";
/// Limit in bytes. The old file had up to hundreds of volumes with a thousand snapshots each.
const BYTES_MAX: u64 = 64 << 20;

/// The store of the parts.
pub(crate) trait Shelf: Send {
    /// Numbers of the aggregates that can be asked now, the oldest first.
    fn online(&self) -> Vec<u32>;

    /// Returns the name of an aggregate.
    fn name(&self, aggregate: u32) -> String;

    /// Returns the part of one aggregate; empty if it has none.
    ///
    /// # Errors
    /// The part cannot be read.
    fn read(&self, aggregate: u32) -> Result<String, Unreadable>;

    /// Replaces the part of one aggregate, durably.
    ///
    /// # Errors
    /// The old part stays, unless the error says that the outcome is unknown.
    fn write(&self, aggregate: u32, text: &str) -> Result<(), Unwritten>;

    /// Returns the aggregate that has a volume.
    fn home(&self, volume: &str) -> Option<u32>;
}

/// The reasons why the book was not written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unwritten {
    /// The reason, in one line.
    pub(crate) text: String,
    /// Whether some parts may have been written.
    pub(crate) is_unknown: bool,
}

impl From<String> for Unwritten {
    fn from(text: String) -> Unwritten {
        Unwritten {
            text,
            is_unknown: false,
        }
    }
}

impl fmt::Display for Unwritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// See the module's documentation.
pub(super) struct Library {
    shelf: Box<dyn Shelf>,
    data_dir: PathBuf,
    /// The stored texts of the parts that were read.
    written: BTreeMap<u32, String>,
    /// The parts that were read, but not understood.
    foreign: BTreeSet<u32>,
    /// The parts that were not read, because a device did not answer.
    unanswered: BTreeSet<u32>,
    /// The aggregates that have their part of the book.
    settled: BTreeSet<u32>,
    /// The file that once was the book, while it is needed.
    former: Option<Former>,
}

/// The origin of a change that is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// An administrator requested the change.
    ByPeople,
    /// The daemon found something out.
    ByNobody,
}

/// The file that once was the book.
struct Former {
    path: PathBuf,
    /// Text of the part.
    text: String,
}

impl Library {
    /// Opens the library. Returns it with the entries that the old file of the data directory still
    /// has, or with the reason why that file cannot be read.
    pub(super) fn open(shelf: Box<dyn Shelf>, data_dir: &Path) -> (Library, Book, Option<String>) {
        let path = data_dir.join(NAME);
        let (book, former, lost) = match read_former(&path) {
            Ok(None) => (Book::default(), None, None),
            Ok(Some((book, text))) => (book, Some(Former { path, text }), None),
            Err(problem) => {
                let aside = put_aside(&path, "unreadable");
                let text = format!("{NAME} cannot be read: {problem}; {aside}");
                (Book::default(), None, Some(text))
            }
        };
        let library = Library {
            shelf,
            data_dir: data_dir.to_owned(),
            written: BTreeMap::new(),
            foreign: BTreeSet::new(),
            unanswered: BTreeSet::new(),
            settled: BTreeSet::new(),
            former,
        };
        (library, book, lost)
    }

    /// Returns whether no aggregate can have come online since the last check.
    pub(super) fn is_up_to_date(&self) -> bool {
        let online = self.shelf.online();
        self.former.is_none() && online.iter().all(|it| self.written.contains_key(it))
    }

    /// Adds the parts of aggregates that came online. Returns a notice for people about each: its
    /// name, and one line.
    pub(super) fn load_new_parts(&mut self, book: &mut Book) -> Vec<(String, String)> {
        let mut told = Vec::new();
        for aggregate in self.shelf.online() {
            if self.written.contains_key(&aggregate) {
                continue;
            }
            let name = self.shelf.name(aggregate);
            let text = self.shelf.read(aggregate);
            let part = match &text {
                Ok(text) => Book::decode(text),
                Err(Unreadable::Damaged(reason)) => Err(reason.clone()),
                Err(Unreadable::Unanswered(reason)) => {
                    let text = format!(
                        "its snapshot policies could not be read: {reason}; they are still there, \
                        but its volumes have none until the daemon is restarted"
                    );
                    told.push((name, text));
                    self.foreign.insert(aggregate);
                    self.unanswered.insert(aggregate);
                    self.written.insert(aggregate, String::new());
                    continue;
                }
            };
            match part {
                Ok(part) => {
                    let renamed = book.merge(aggregate, &name, part);
                    if !renamed.is_empty() {
                        let text = format!(
                            "policies or hosts of other meaning have the same names here: {}",
                            renamed.join(", ")
                        );
                        told.push((name, text));
                    }
                }
                Err(problem) => {
                    let text = format!(
                        "its snapshot policies cannot be read: {problem}; they stay as they are, \
                        for the version of everglade that wrote them, until policies of its \
                        volumes are set, and then {} has them",
                        self.aside(aggregate).display()
                    );
                    told.push((name, text));
                    self.foreign.insert(aggregate);
                }
            }
            self.written.insert(aggregate, text.unwrap_or_default());
        }
        for (volume, entry) in &mut book.volumes {
            let home = entry.home.or_else(|| self.shelf.home(volume));
            // The entries of a volume in the former book stay there while the part is not
            // understood.
            entry.home = home.filter(|home| !self.foreign.contains(home));
        }
        told
    }

    /// Returns whether an aggregate of this name has a part that was not read.
    pub(super) fn is_unanswered(&self, name: &str) -> bool {
        self.is_among(&self.unanswered, name)
    }

    /// Returns whether an aggregate has a volume of this name; `None` if it cannot be read now.
    pub(super) fn has(&self, aggregate: u32, volume: &str) -> Option<bool> {
        let is_online = self.is_online(aggregate);
        is_online.then(|| self.shelf.home(volume) == Some(aggregate))
    }

    fn is_online(&self, aggregate: u32) -> bool {
        self.shelf.online().contains(&aggregate)
    }

    /// Returns the reason why a volume's policy cannot be changed until a restart, if there is one.
    pub(super) fn refusal(&self, volume: &str) -> Option<String> {
        self.refusal_in(self.shelf.home(volume)?)
    }

    /// Returns the reason why no policy of an aggregate's volumes can be changed, if there is one.
    pub(super) fn refusal_in(&self, home: u32) -> Option<String> {
        let is_unanswered = self.unanswered.contains(&home);
        is_unanswered.then(|| self.not_replaced(home))
    }

    /// Says that a part stays because it was not read.
    fn not_replaced(&self, aggregate: u32) -> String {
        format!(
            "the snapshot policies of aggregate {} could not be read, and a change would replace \
            them; see that its devices answer, restart the daemon, and try again",
            self.shelf.name(aggregate)
        )
    }

    /// Returns whether an aggregate has a part that is not understood.
    pub(super) fn is_foreign(&self, aggregate: u32) -> bool {
        self.foreign.contains(&aggregate)
    }

    /// Returns whether an aggregate of this name has a part that is not understood.
    pub(super) fn has_foreign(&self, name: &str) -> bool {
        self.is_among(&self.foreign, name)
    }

    /// Returns whether one of these aggregates has this name.
    fn is_among(&self, these: &BTreeSet<u32>, name: &str) -> bool {
        these.iter().any(|it| self.shelf.name(*it) == name)
    }

    /// Returns the file that keeps the text of a part that was not understood and is replaced.
    fn aside(&self, aggregate: u32) -> PathBuf {
        let name = self.shelf.name(aggregate);
        let path = |ending: String| self.data_dir.join(format!("policies-{name}{ending}"));
        let more = (2..).map(|number: u32| format!(".{number}.unreadable"));
        let mut paths = [".unreadable".to_owned()].into_iter().chain(more).map(path);
        let free = paths.find(|path| !path.exists());
        free.expect("there are more numbers than files")
    }

    /// Returns whether the entry of a volume can be written now.
    pub(super) fn can_write(&self, volume: &str) -> bool {
        let home = self.shelf.home(volume);
        home.is_some_and(|home| self.is_online(home))
    }

    /// Drops a deleted aggregate with these volumes.
    pub(super) fn leave(&mut self, aggregate: u32, book: &mut Book) -> Vec<String> {
        self.written.remove(&aggregate);
        self.settled.remove(&aggregate);
        self.foreign.remove(&aggregate);
        self.unanswered.remove(&aggregate);
        let of_it = book.volumes.iter();
        let of_it = of_it.filter(|(_, entry)| entry.home == Some(aggregate));
        let gone: Vec<String> = of_it.map(|(volume, _)| volume.clone()).collect();
        book.volumes
            .retain(|_, entry| entry.home != Some(aggregate));
        book.reservations
            .retain(|_, reserved| reserved.home != Some(aggregate));
        book.limits
            .retain(|_, limited| limited.home != Some(aggregate));
        book.comments
            .retain(|_, commented| commented.home != Some(aggregate));
        book.scrubs.retain(|it| it.home != Some(aggregate));
        book.access.leave(aggregate);
        gone
    }

    /// Returns whether an aggregate is online and its part is as the book says, after a write.
    pub(super) fn has_written(&self, aggregate: u32) -> bool {
        self.is_online(aggregate) && self.settled.contains(&aggregate)
    }

    /// Returns the aggregate of a volume.
    pub(super) fn home(&self, volume: &str) -> Option<u32> {
        self.shelf.home(volume)
    }

    /// Writes every part that differs from the stored one.
    ///
    /// # Errors
    /// The error says whether some parts may have been written.
    pub(super) fn write(&mut self, book: &Book, asked: Asked) -> Result<(), Unwritten> {
        let mut is_any_written = false;
        self.write_parts(book, asked, &mut is_any_written)
            .map_err(|unwritten| Unwritten {
                is_unknown: unwritten.is_unknown || is_any_written,
                ..unwritten
            })
    }

    fn write_parts(
        &mut self,
        book: &Book,
        asked: Asked,
        is_any_written: &mut bool,
    ) -> Result<(), Unwritten> {
        let online = self.shelf.online();
        let known = online.iter().filter(|it| self.written.contains_key(it));
        let known: Vec<u32> = known.copied().collect();
        let mut understood = known.iter().filter(|it| !self.foreign.contains(*it));
        let first = understood.next().or(known.first()).copied();
        for aggregate in &known {
            let text = book.part(*aggregate, first == Some(*aggregate)).encode()?;
            if self.foreign.contains(aggregate) {
                if text.is_empty() || asked == Asked::ByNobody {
                    continue;
                }
                if self.unanswered.contains(aggregate) {
                    return Err(self.not_replaced(*aggregate).into());
                }
                self.keep_foreign(*aggregate)?;
            }
            if self.written[aggregate] != text {
                self.shelf.write(*aggregate, &text)?;
                *is_any_written = true;
                self.written.insert(*aggregate, text);
            }
            self.foreign.remove(aggregate);
            self.settled.insert(*aggregate);
        }
        if known.is_empty() && !book.is_empty() {
            let text = "no aggregate is online that could keep it";
            return Err(text.to_owned().into());
        }
        Ok(self.shorten_former(book)?)
    }

    /// Writes down the text of a part that was not understood, before it is replaced.
    fn keep_foreign(&self, aggregate: u32) -> Result<(), String> {
        let text = &self.written[&aggregate];
        if text.is_empty() {
            // No part could be read.
            return Ok(());
        }
        let (path, name) = (self.aside(aggregate), self.shelf.name(aggregate));
        atomic::replace(&path, text.as_bytes(), modes::FILE_PRIVATE).map_err(|error| {
            format!(
                "the former policies of aggregate {name}, which cannot be read, cannot be \
                kept: {error}"
            )
        })?;
        tracing::warn!(
            "aggregate {name}: its policies were replaced; those that could not be read are in {}",
            path.display()
        );
        Ok(())
    }

    /// Removes entries that are in a part from the file in the data directory, and renames the file
    /// when no entry is left.
    ///
    /// # Errors
    /// The reason in one line; the file keeps more entries than needed.
    fn shorten_former(&mut self, book: &Book) -> Result<(), String> {
        let Some(former) = self.former.as_mut().filter(|_| !self.settled.is_empty()) else {
            // The file does not exist, or nothing in it is needed.
            return Ok(());
        };
        let settled = &self.settled;
        let rest = book.rest(|home| home.is_some_and(|home| settled.contains(&home)));
        if rest.volumes.is_empty() {
            let aside = put_aside(&former.path, "moved");
            tracing::info!("snapshot policies are kept in the aggregates now; {NAME}: {aside}");
            self.former = None;
            return Ok(());
        }
        let text = rest.encode()?;
        if former.text != text {
            let replaced = atomic::replace(&former.path, text.as_bytes(), modes::FILE_PRIVATE);
            replaced.map_err(|error| error.to_string())?;
            former.text = text;
        }
        Ok(())
    }
}

/// Reads the former book, and returns it with its text.
fn read_former(path: &Path) -> Result<Option<(Book, String)>, String> {
    let unreadable = |error: io::Error| error.to_string();
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error)),
        Ok(metadata) if metadata.len() > BYTES_MAX => {
            return Err(format!("it is longer than {BYTES_MAX} bytes"));
        }
        Ok(_) => {}
    }
    let text = fs::read_to_string(path).map_err(unreadable)?;
    if text.is_empty() {
        return Err("it is empty".to_owned());
    }
    Ok(Some((Book::decode(&text)?, text)))
}

fn put_aside(path: &Path, ending: &str) -> String {
    let aside = path.with_extension(format!("toml.{ending}"));
    match fs::rename(path, &aside) {
        Ok(()) => format!("it is kept as {}", aside.display()),
        Err(error) => format!("it cannot be put aside: {error}"),
    }
}
