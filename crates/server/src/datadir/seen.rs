//! `seen.toml`: the newest consistency point that this directory has seen of each aggregate
//! (decision 0031).
//!
//! ```toml
//! version = 0
//!
//! [[aggregate]]
//! uuid = "2f0c…"
//! name = "aggr0"             # for people
//! cp = 4711
//! # end of what was seen
//! ```
//!
//! If all devices of an aggregate are replaced by an older copy, nothing on them shows it. This
//! file shows it. It is written at each mount, hourly and at the stop, and never before the
//! consistency point that it names is on stable media of all members. So a start after any crash
//! finds the devices at this consistency point or a newer one.
//!
//! 1. The file is only a protection. If it is absent or damaged, every aggregate is served, and the
//!    next mount writes the file anew.
//! 2. It is a file of its own because an older daemon would refuse a `state.toml` with one more
//!    field.
//! 3. A recorded aggregate that is not open keeps its line; an aggregate that is no longer recorded
//!    loses its line.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{DataDirError, SmallFile, State, Uuid, modes};

/// Name of the file.
pub const NAME: &str = "seen.toml";
const VERSION: u64 = 0;
const END: &str = "# end of what was seen";
const HEADER: &str =
    "# Written by everglade: the newest consistency points seen. Without it nothing is lost.";
/// Hundreds of aggregates fit.
const BYTES_MAX: u64 = 1 << 20;

/// See the module's documentation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeenPoints {
    points: BTreeMap<Uuid, Point>,
}

/// The newest consistency point of an aggregate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Point {
    /// UUID of the aggregate.
    pub uuid: Uuid,
    /// Its name at that time.
    pub name: String,
    /// The consistency point.
    pub cp: u64,
}

/// The file's contents for serde.
#[derive(Serialize, Deserialize)]
struct Document {
    version: u64,
    #[serde(default, rename = "aggregate")]
    points: Vec<Point>,
}

impl SeenPoints {
    /// The newest consistency point seen of an aggregate.
    #[must_use]
    pub fn of(&self, uuid: Uuid) -> Option<u64> {
        self.points.get(&uuid).map(|point| point.cp)
    }

    /// Reads the file. If the file cannot be read, it protects nothing, and the log says so.
    pub(crate) fn read(directory: &Path) -> SeenPoints {
        match read(directory) {
            Ok(seen) => seen,
            Err(found) => {
                tracing::warn!(
                    "{NAME} cannot be read: {found}; older copies of devices are not recognised at \
                    this start"
                );
                SeenPoints::default()
            }
        }
    }

    /// Returns the file with the present consistency points of open aggregates. Of the other
    /// aggregates, recorded ones keep their lines.
    #[must_use]
    pub(super) fn with(&self, points: Vec<Point>, state: &State) -> SeenPoints {
        let mut all = self.points.clone();
        all.retain(|uuid, _| {
            let mut recorded = state.aggregates.iter().filter_map(|known| known.uuid);
            recorded.any(|known| known == *uuid)
        });
        all.extend(by_uuid(points));
        SeenPoints { points: all }
    }

    /// Replaces the file.
    pub(super) fn write(&self, directory: &Path) -> Result<(), DataDirError> {
        let file = file(directory);
        let document = Document {
            version: VERSION,
            points: self.points.values().cloned().collect(),
        };
        let body = toml::to_string(&document)
            .map_err(|error| DataDirError::io("write", file.path(), io::Error::other(error)))?;
        file.replace(format!("{HEADER}\n{body}{END}\n").as_bytes())
    }
}

/// Returns `seen.toml` of a data directory.
pub(super) fn file(directory: &Path) -> SmallFile {
    SmallFile::new(directory.join(NAME), modes::FILE_PRIVATE)
}

fn read(directory: &Path) -> Result<SeenPoints, String> {
    let bytes = file(directory).read(BYTES_MAX);
    match bytes.map_err(|error| error.to_string())? {
        None => Ok(SeenPoints::default()),
        Some(bytes) => parse(&bytes),
    }
}

fn parse(bytes: &[u8]) -> Result<SeenPoints, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "bytes that are not text".to_owned())?;
    if text.trim_end().lines().next_back() != Some(END) {
        return Err(format!("it does not end with '{END}'"));
    }
    let document: Document =
        toml::from_str(text).map_err(|error| error.message().replace('\n', ", "))?;
    if document.version > VERSION {
        return Err(format!(
            "version {}, newer than {VERSION}",
            document.version
        ));
    }
    Ok(SeenPoints {
        points: by_uuid(document.points).collect(),
    })
}

fn by_uuid(points: Vec<Point>) -> impl Iterator<Item = (Uuid, Point)> {
    points.into_iter().map(|point| (point.uuid, point))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::datadir::{AggregateState, Device, DeviceKind, Phase};

    fn point(number: u8, cp: u64) -> Point {
        Point {
            uuid: Uuid([number; 16]),
            name: format!("a{number}"),
            cp,
        }
    }

    fn state(numbers: &[u8]) -> State {
        let aggregate = |number: &u8| AggregateState {
            name: format!("a{number}"),
            phase: Phase::Ready,
            read_only: false,
            garden_paused: false,
            epoch: 1,
            uuid: Some(Uuid([*number; 16])),
            devices: vec![Device {
                path: "/dev/sdb".into(),
                kind: DeviceKind::Block,
                size_bytes: 4096,
                joining: false,
                replaces: None,
                member: None,
            }],
        };
        State {
            aggregates: numbers.iter().map(aggregate).collect(),
            spares: Vec::new(),
        }
    }

    #[test]
    fn what_was_seen_is_read_back_and_goes_with_its_aggregate() {
        let place = tempfile::tempdir().expect("a temporary directory");
        assert_eq!(SeenPoints::read(place.path()), SeenPoints::default());
        let seen = SeenPoints::default().with(vec![point(1, 7), point(2, 9)], &state(&[1, 2]));
        seen.write(place.path()).expect("written");
        let seen = SeenPoints::read(place.path());
        assert_eq!(seen.of(Uuid([1; 16])), Some(7));
        assert_eq!(seen.of(Uuid([3; 16])), None);
        // The second is not open now; then it is deleted.
        let later = seen.with(vec![point(1, 8)], &state(&[1, 2]));
        assert_eq!(later.of(Uuid([1; 16])), Some(8));
        assert_eq!(later.of(Uuid([2; 16])), Some(9));
        let later = later.with(vec![point(1, 8)], &state(&[1]));
        assert_eq!(later.of(Uuid([2; 16])), None);
    }

    #[test]
    fn what_is_torn_protects_nothing_and_stops_nobody() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let seen = SeenPoints::default().with(vec![point(1, 7)], &state(&[1]));
        seen.write(place.path()).expect("written");
        let text = file(place.path()).read(BYTES_MAX).expect("read");
        let text = text.expect("there");
        for length in 0..text.len() - 1 {
            assert!(parse(&text[..length]).is_err(), "{length}");
        }
        let path = place.path().join(NAME);
        fs::write(&path, [0xff; 100]).expect("garbage");
        assert_eq!(SeenPoints::read(place.path()), SeenPoints::default());
    }
}
