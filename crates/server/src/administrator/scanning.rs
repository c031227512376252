//! Looking for aggregates by their devices, when nobody knows the paths any more.
//!
//! Each entry of the folders that can be a device is opened for reading alone, in a world of its
//! own, and its label is read. Devices that this daemon or another program uses are locked, and so
//! are left out. Nothing is written: neither to a device nor to a folder.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use everglade_api::{Code, FoundAggregate, FoundAggregates, Problem, ScanFolders};
use everglade_engine::Engine;
use everglade_env::{DeviceId, IoMode, World, WorldOptions};
use everglade_format::label::LABEL_BYTES;

use super::administrator::Administrator;
use crate::datadir::Uuid;

/// Folders inside of folders that are looked into.
const DEPTH_MAX: usize = 4;
/// Entries that are looked at in one request.
const ENTRIES_MAX: usize = 4096;
/// The file that makes a folder a device.
const CARD: &str = "DEVICE";
const FIELD: &str = "folders";

/// What was found in folders.
#[derive(Default)]
struct Looked {
    candidates: Vec<PathBuf>,
    entries: usize,
}

impl Administrator {
    /// Looks for aggregates that are not open here.
    ///
    /// # Errors
    /// A folder cannot be read, or there is too much in them.
    pub fn scan_folders(&self, request: &ScanFolders) -> Result<FoundAggregates, Problem> {
        let mut looked = Looked::default();
        for folder in &request.folders {
            let path = Path::new(folder);
            if !path.is_absolute() {
                let text = format!("{folder:.200}: use an absolute path");
                return Err(Problem::invalid(FIELD, text));
            }
            looked.look(path, 0).map_err(|error| {
                let text = format!("{}: {error}", path.display());
                Problem::of_field(Code::DeviceUnusable, FIELD, text)
            })?;
        }
        looked.candidates.sort();
        looked.candidates.dedup();
        let world = World::new(&WorldOptions {
            io: IoMode::Threads,
            read_only: true,
            ..WorldOptions::default()
        });
        let world = world.map_err(|error| Problem::new(Code::Unavailable, error.to_string()))?;
        let mut groups: BTreeMap<[u8; 16], Group> = BTreeMap::new();
        let mut unreadable = 0;
        for path in &looked.candidates {
            let Ok(device) = world.open(path) else {
                unreadable += 1;
                continue;
            };
            match Engine::identify(&world, device) {
                Some((uuid, name)) => {
                    let group = groups.entry(uuid).or_default();
                    group.name = name;
                    group.paths.push(path.display().to_string());
                    group.devices.push(device);
                }
                None => world.close(device),
            }
        }
        let open = self.engine.aggregates();
        let groups = groups.into_iter();
        let strange = groups.filter(|(uuid, _)| !open.iter().any(|known| known.uuid == *uuid));
        let mut aggregates: Vec<FoundAggregate> = strange
            .map(|(uuid, group)| group.view(&world, uuid))
            .collect();
        aggregates.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(FoundAggregates {
            aggregates,
            looked_at_count: looked.entries as u64,
            unreadable_count: unreadable,
        })
    }
}

/// The devices of one aggregate.
#[derive(Default)]
struct Group {
    name: String,
    paths: Vec<String>,
    devices: Vec<DeviceId>,
}

impl Group {
    fn view(self, world: &World, uuid: [u8; 16]) -> FoundAggregate {
        let examined = Engine::examine(world, &self.devices);
        let (name, counts, problem) = match examined {
            Ok(found) => (found.name, (found.members, found.missing), None),
            Err(refusal) => (self.name, (0, 0), Some(refusal.to_string())),
        };
        FoundAggregate {
            name,
            uuid: Uuid(uuid).to_string(),
            devices: self.paths,
            device_count: counts.0 as u64,
            missing_count: counts.1 as u64,
            problem,
        }
    }
}

impl Looked {
    /// Finds what can be a device at a path, or below it.
    fn look(&mut self, path: &Path, depth: usize) -> Result<(), String> {
        if path.join(CARD).is_file() {
            self.candidates.push(path.to_owned());
            return Ok(());
        }
        let entries = fs::read_dir(path).map_err(|error| error.to_string())?;
        for entry in entries.flatten() {
            self.entries += 1;
            if self.entries > ENTRIES_MAX {
                return Err(format!(
                    "more than {ENTRIES_MAX} entries; name a folder with less in it"
                ));
            }
            let path = entry.path();
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            if kind.is_block_device() || kind.is_file() && is_large(&path) {
                self.candidates.push(path);
            } else if kind.is_dir() && depth < DEPTH_MAX {
                // One that cannot be read is not a reason to give up the others.
                if let Err(text) = self.look(&path, depth + 1)
                    && self.entries > ENTRIES_MAX
                {
                    return Err(text);
                }
            }
        }
        Ok(())
    }
}

/// True if a file has room for labels.
fn is_large(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.len() >= 2 * LABEL_BYTES)
}
