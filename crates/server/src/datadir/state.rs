//! `state.toml`: the devices of each aggregate, and the membership epoch last seen.
//!
//! ```toml
//! version = 0
//!
//! [[aggregate]]
//! name = "aggr0"
//! phase = "ready"            # or "creating", "deleting"
//! epoch = 1
//! uuid = "2f0c…"             # 32 hexadecimal digits
//!
//! [[aggregate.device]]
//! path = "aggregates/aggr0/dev0"
//! kind = "directory"         # or "file", "block"
//! size_bytes = 68719476736
//! # joining = true         # only while the device is being added
//! # replaces = "/dev/sdb"  # only while it gets the place of this device,
//! # member = "9b41…"         # with this UUID
//! [[spare]]
//! path = "/dev/sde"          # takes the place of a drive of a mirror that fails
//! # end of state
//! ```
//!
//! absent --record(creating)--> creating --devices made, labels durable, record(ready)--> ready
//! ready --record(deleting)--> deleting --devices cleared, record--> absent
//!
//! 1. An aggregate is recorded as *creating* before its devices are made. If power fails before it
//!    is recorded as *ready*, no client has seen it, and the next start undoes the creation: it
//!    clears the devices that carry the UUID. A *ready* aggregate is never formatted. An aggregate
//!    that is *deleting* is never opened, and the next start continues to clear it.
//! 2. The text ends with a mark, because a torn TOML file is often a shorter valid file, and a
//!    state that lacks devices could cost data. The file is replaced whole ([`SmallFile`]), so only
//!    a damaged host file system can tear it. Spaces follow the mark, so that the file keeps its
//!    length.
//! 3. If the file is absent and directories exist below `aggregates/`, the file was lost. Then the
//!    start is refused, because a first start would create a new pool over the old one.
//!
//! 4. A device that is added to a *ready* aggregate is recorded as *joining* before anything is
//!    written to it. The mark goes when a committed superblock has made the device a member. So a
//!    joining device may be a member or not, and only the labels say which: the next start opens
//!    it if it is there, and forgets and clears it if it is no member (decision 0040). A directory
//!    is made larger before its aggregate is, so it may be larger than recorded here.
//!
//! The labels on the devices are the truth about identity; this file has the paths, and the epoch
//! that shows whether the labels there are the newest (docs/design/design.md §4, mount).

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use everglade_format::config::name_is_valid;

use super::{DataDirError, SmallFile, Uuid, modes};

/// Name of the file.
pub const NAME: &str = "state.toml";
/// The former record, or the one that will be written next.
pub const SPARE: &str = "state.toml.spare";
const VERSION: u64 = 0;
const END: &str = "# end of state";
const HEADER: &str =
    "# Written by everglade. Edit only while it is stopped, and keep the last line.";
/// Thousands of devices fit.
const BYTES_MAX: u64 = 1 << 20;
const ADVICE: &str = "restore the file from a backup, or correct it by hand; nothing was changed";

/// Everything that is known of aggregates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Aggregates in order of creation.
    pub aggregates: Vec<AggregateState>,
    /// Spare drives, in the order in which they were added.
    pub spares: Vec<Spare>,
}

/// A drive that waits to take the place of one that fails.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spare {
    /// Its absolute path.
    pub path: PathBuf,
}

/// The record of one aggregate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AggregateState {
    /// Its name.
    pub name: String,
    /// Phase of the aggregate's life.
    pub phase: Phase,
    /// Newest membership epoch this daemon has seen in its labels; 0 while creating.
    pub epoch: u64,
    /// The UUID in its labels; while it is being created, the future UUID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<Uuid>,
    /// It is opened for reading: nothing is written to its devices.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
    /// Gardening is paused in it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub garden_paused: bool,
    /// Its devices, in the order of the label's table.
    #[serde(rename = "device")]
    pub devices: Vec<Device>,
}

/// Phase of an aggregate's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Its devices may have any contents; no client has data on them.
    Creating,
    /// Its labels and first superblock are durable.
    Ready,
    /// An administrator has deleted the aggregate; its devices are to be cleared.
    Deleting,
}

/// The record of one device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// Absolute, or relative to the data directory.
    pub path: PathBuf,
    /// The kind of device at that path.
    pub kind: DeviceKind,
    /// The size it was given, in bytes.
    pub size_bytes: u64,
    /// The device is being added, and may turn out to be no member.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub joining: bool,
    /// The path of the recorded device whose place it gets, while it is joining.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<PathBuf>,
    /// The UUID that it has as a member, once it is one, while it is joining an aggregate of
    /// groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<Uuid>,
}

/// The kinds of devices (docs/reference/conventions.md#devices).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceKind {
    /// A directory of segment files.
    Directory,
    /// An existing regular file.
    File,
    /// A block device.
    Block,
}

/// The file's contents for serde.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    version: u64,
    #[serde(default, rename = "aggregate")]
    aggregates: Vec<AggregateState>,
    #[serde(default, rename = "spare", skip_serializing_if = "Vec::is_empty")]
    spares: Vec<Spare>,
}

impl AggregateState {
    /// Returns the devices that are members for sure.
    pub fn members(&self) -> impl Iterator<Item = &Device> {
        self.devices.iter().filter(|device| !device.joining)
    }

    /// Records that a device that was joining is a member. One that replaces another gets its place
    /// in the list.
    pub fn settle(&mut self, path: &Path) {
        let is_it = |device: &Device| device.joining && device.path == path;
        let Some(index) = self.devices.iter().position(is_it) else {
            return;
        };
        self.devices[index].joining = false;
        self.devices[index].member = None;
        let Some(former) = self.devices[index].replaces.take() else {
            return;
        };
        // It may be at the same path.
        let mut devices = self.devices.iter().enumerate();
        let former = devices.find(|(other, it)| *other != index && it.path == former);
        let former = former.map(|(former, _)| former);
        if let Some(former) = former {
            self.devices.swap(former, index);
            self.devices.remove(index);
        }
    }

    /// Returns the devices that are being added.
    pub fn joining(&self) -> impl Iterator<Item = &Device> {
        self.devices.iter().filter(|device| device.joining)
    }
}

impl State {
    /// Returns the aggregate of this name.
    #[must_use]
    pub fn aggregate(&self, name: &str) -> Option<&AggregateState> {
        self.aggregates
            .iter()
            .find(|aggregate| aggregate.name == name)
    }

    /// Reads the file; a missing one is the empty state of a first start.
    ///
    /// # Errors
    /// Torn, garbage, inconsistent, or missing beside a pool.
    pub(crate) fn read(directory: &Path) -> Result<State, DataDirError> {
        let file = file(directory);
        let path = file.path();
        // A first start records an aggregate before it makes anything below `aggregates/`; so if
        // there is a pool and was no file, either it has come since or it was lost.
        let bytes = match file.read(BYTES_MAX)? {
            None if !has_pool(directory) => return Ok(State::default()),
            None => file.read(BYTES_MAX)?,
            some => some,
        };
        let Some(bytes) = bytes else {
            return Err(damaged(path, "no such file beside existing aggregates"));
        };
        parse(&bytes).map_err(|found| damaged(path, &found))
    }

    /// Replaces the file.
    pub(super) fn write(&self, directory: &Path) -> Result<(), DataDirError> {
        let file = file(directory);
        let path = file.path();
        let document = Document {
            version: VERSION,
            aggregates: self.aggregates.clone(),
            spares: self.spares.clone(),
        };
        let body = toml::to_string(&document)
            .map_err(|error| DataDirError::io("write", path, io::Error::other(error)))?;
        let mut text = String::new();
        writeln!(text, "{HEADER}\n{body}{END}")
            .map_err(|error| DataDirError::io("write", path, io::Error::other(error)))?;
        let readable = parse(text.as_bytes());
        assert_eq!(
            readable.as_ref(),
            Ok(self),
            "a state that cannot be read back must not be kept"
        );
        file.replace(text.as_bytes())
    }
}

/// Returns `state.toml` of a data directory.
pub(super) fn file(directory: &Path) -> SmallFile {
    SmallFile::new(directory.join(NAME), modes::FILE_PRIVATE)
}

fn damaged(path: &Path, found: &str) -> DataDirError {
    DataDirError::Damaged {
        path: path.to_owned(),
        found: found.to_owned(),
        expected: "the list of aggregates and their devices as everglade wrote it",
        advice: ADVICE,
    }
}

/// Returns whether a file exists below `aggregates/`.
fn has_pool(directory: &Path) -> bool {
    fs::read_dir(directory.join("aggregates")).is_ok_and(|mut entries| entries.next().is_some())
}

/// Parses the file, or returns a description of the unexpected contents.
fn parse(bytes: &[u8]) -> Result<State, String> {
    if bytes.len() as u64 > BYTES_MAX {
        return Err(format!("more than {BYTES_MAX} bytes"));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| "bytes that are not text".to_owned())?;
    if text.trim_end().lines().next_back() != Some(END) {
        return Err(format!(
            "a file that does not end with '{END}', so it may be torn"
        ));
    }
    let document: Document =
        toml::from_str(text).map_err(|error| error.message().replace('\n', ", "))?;
    if document.version > VERSION {
        return Err(format!(
            "version {}, newer than {VERSION}",
            document.version
        ));
    }
    let state = State {
        aggregates: document.aggregates,
        spares: document.spares,
    };
    if let Some(spare) = state.spares.iter().find(|it| !it.path.is_absolute()) {
        return Err(format!("a spare at '{}'", spare.path.display()));
    }
    for (index, aggregate) in state.aggregates.iter().enumerate() {
        check_aggregate(aggregate)?;
        let earlier = state.aggregates.iter().take(index);
        if earlier
            .into_iter()
            .any(|other| other.name == aggregate.name)
        {
            return Err(format!("two aggregates called '{}'", aggregate.name));
        }
    }
    Ok(state)
}

fn check_aggregate(aggregate: &AggregateState) -> Result<(), String> {
    let AggregateState {
        name,
        phase,
        uuid,
        devices,
        ..
    } = aggregate;
    if !name_is_valid(name) {
        return Err(format!("'{name}' as the name of an aggregate"));
    }
    if *phase != Phase::Creating && uuid.is_none() {
        return Err(format!("aggregate '{name}' without its uuid"));
    }
    if devices.iter().all(|device| device.joining) {
        return Err(format!("aggregate '{name}' without devices"));
    }
    for device in devices {
        let inside = |part| matches!(part, Component::Normal(_));
        let is_fine = device.path.is_absolute() || device.path.components().all(inside);
        if !is_fine || device.path.as_os_str().is_empty() {
            return Err(format!(
                "a device of '{name}' at '{}'",
                device.path.display()
            ));
        }
        if device.size_bytes == 0 {
            return Err(format!("a device of '{name}' without a size"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> State {
        let device = |number: u32| Device {
            path: PathBuf::from(format!("aggregates/a/dev{number}")),
            kind: DeviceKind::Directory,
            size_bytes: 64 << 30,
            joining: number > 0,
            replaces: (number > 0).then(|| PathBuf::from("/dev/old")),
            member: (number > 0).then_some(Uuid([7; 16])),
        };
        let block = Device {
            path: PathBuf::from("/dev/sdb"),
            kind: DeviceKind::Block,
            size_bytes: 4096,
            joining: false,
            replaces: None,
            member: None,
        };
        State {
            aggregates: vec![
                AggregateState {
                    name: "a".to_owned(),
                    phase: Phase::Ready,
                    read_only: false,
                    garden_paused: false,
                    epoch: 7,
                    uuid: Some(Uuid(std::array::from_fn(|i| {
                        u8::try_from(i).expect("small")
                    }))),
                    devices: vec![device(0), device(1)],
                },
                AggregateState {
                    name: "b".to_owned(),
                    phase: Phase::Creating,
                    read_only: false,
                    garden_paused: false,
                    epoch: 0,
                    uuid: None,
                    devices: vec![block],
                },
            ],
            spares: vec![Spare {
                path: PathBuf::from("/dev/sde"),
            }],
        }
    }

    #[test]
    fn a_device_that_replaced_another_has_its_place() {
        let device = |path: &str, replaces: Option<&str>| Device {
            path: PathBuf::from(path),
            kind: DeviceKind::File,
            size_bytes: 4096,
            joining: replaces.is_some(),
            replaces: replaces.map(PathBuf::from),
            member: None,
        };
        let mut aggregate = sample().aggregates.remove(0);
        aggregate.devices = vec![
            device("/a", None),
            device("/b", None),
            device("/c", None),
            device("/d", Some("/b")),
        ];
        let before = aggregate.clone();
        aggregate.settle(Path::new("/e"));
        aggregate.settle(Path::new("/a"));
        assert_eq!(aggregate, before, "nothing is joining there");
        aggregate.settle(Path::new("/d"));
        let paths = ["/a", "/d", "/c"];
        assert_eq!(aggregate.devices, paths.map(|path| device(path, None)));
        // A new device at the path of the old one.
        aggregate.devices.push(device("/c", Some("/c")));
        aggregate.settle(Path::new("/c"));
        assert_eq!(aggregate.devices, paths.map(|path| device(path, None)));
        // The record was corrected by hand meanwhile.
        aggregate.devices.push(device("/e", Some("/b")));
        aggregate.settle(Path::new("/e"));
        assert_eq!(aggregate.devices[3], device("/e", None));
    }

    fn text_of(state: &State) -> String {
        let directory = tempfile::tempdir().expect("a temporary directory");
        state.write(directory.path()).expect("written");
        assert_eq!(&State::read(directory.path()).expect("read back"), state);
        let bytes = file(directory.path()).read(BYTES_MAX).expect("read");
        String::from_utf8(bytes.expect("a file")).expect("text")
    }

    #[test]
    fn what_was_written_is_read_back() {
        text_of(&State::default());
        let text = text_of(&sample());
        assert!(text.ends_with("# end of state\n"), "{text}");
        assert_eq!(text.matches("joining = true").count(), 1, "{text}");
        assert!(
            !text.contains("joining = false"),
            "an older version reads it: {text}"
        );
    }

    #[test]
    fn every_torn_file_is_refused() {
        let text = text_of(&sample());
        for length in 0..text.len() - 1 {
            let outcome = parse(&text.as_bytes()[..length]);
            assert!(
                outcome.is_err(),
                "the first {length} bytes were taken for the whole"
            );
        }
    }

    #[test]
    fn garbage_and_nonsense_are_refused() {
        let good = text_of(&sample());
        for (from, to) in [
            ("\"a\"", "\"../a\""),
            ("\"b\"", "\"a\""),
            ("version = 0", "version = 1"),
            ("aggregates/a/dev1", "aggregates/../../etc"),
            ("size_bytes = 4096", "size_bytes = 0"),
            ("size_bytes = 4096", "size_bytes = -1"),
            ("epoch = 7", "epoch = 7\nfrobs = 1"),
            ("\"block\"", "\"tape\""),
            ("joining = true", "joining = 1"),
            ("size_bytes = 4096", "size_bytes = 4096\njoining = true"),
            ("uuid = \"00", "uuid = \"0"),
            ("uuid = \"00", "uuid = \"+0"),
            ("\"creating\"", "\"ready\""),
            ("\"creating\"", "\"deleting\""),
        ] {
            assert!(good.contains(from), "{from} is in {good}");
            assert!(
                parse(good.replacen(from, to, 1).as_bytes()).is_err(),
                "{from} -> {to}"
            );
        }
        assert!(parse(b"\xff\xfe# end of state").is_err());
        assert!(parse(&vec![b' '; (1 << 20) + 1]).is_err());
    }
}
