//! Spare drives: they wait, and take the place of drives of mirrors that fail (decision 0048).
//!
//! 1. A spare is a path in `state.toml`. It is empty, and nobody writes to it before it is used.
//! 2. A spare that is used becomes a *joining* device of the aggregate in the same record that ends
//!    its being a spare. So it is one or the other, wherever the power fails. If it turns out that
//!    it cannot be used, it is a spare again.
//! 3. A drive that has failed is replaced at once. One that was missing when the daemon started is
//!    replaced after ten minutes: somebody may be about to plug it in.
//! 4. What is refused is told in an event, and tried again after ten minutes.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::{Duration, Instant};

use everglade_api::{
    Aggregate, AggregateState, Device, DeviceKind, DeviceState, Problem, ReplaceDrive, Spare,
    SpareDrive, Spares,
};

use super::administrator::{Administrator, host};
use super::candidates;
use super::creation::Contents;
use super::report::Notice;
use crate::DataDir;
use crate::datadir;

/// Time for a drive that was missing at the start to come back.
const MISSING_FOR: Duration = Duration::from_secs(600);
/// Time after which a refused replacement is tried again.
const AGAIN_AFTER: Duration = Duration::from_secs(600);

/// What the rounds remember: when a drive may be tried again, by aggregate and path.
#[derive(Default)]
pub(crate) struct SpareRounds {
    refused: BTreeMap<(String, String), Instant>,
}

impl Administrator {
    /// Returns all spare drives, in the order in which they were added.
    #[must_use]
    pub fn spares(&self) -> Spares {
        // A broken drive may take long to answer, and others wait for the directory.
        let known = self.directory().state().spares.clone();
        Spares {
            spares: known.iter().map(|spare| view(&spare.path)).collect(),
        }
    }

    /// Adds a spare drive.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn add_spare(&self, request: &SpareDrive) -> Result<Spare, Problem> {
        let mut directory = self.directory();
        let device = candidates::spare(&directory, &request.device)?;
        let path = device.path.clone();
        let mut chosen = Vec::new();
        let opened = self.open_chosen(&directory, vec![device], Contents::Kept, &mut chosen);
        self.close_chosen(&chosen);
        opened.map_err(candidates::of_the_only_field)?;
        let mut state = directory.state().clone();
        state.spares.push(datadir::Spare { path: path.clone() });
        directory.record(state).map_err(|error| host(&error))?;
        Ok(view(&path))
    }

    /// Gives a spare drive up.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn remove_spare(&self, request: &SpareDrive) -> Result<(), Problem> {
        let mut directory = self.directory();
        let Some(index) = candidates::spare_at(&directory, &request.device) else {
            return Err(Problem::not_found("spare drive", &request.device));
        };
        let mut state = directory.state().clone();
        state.spares.remove(index);
        directory.record(state).map_err(|error| host(&error))
    }

    /// Gives the place of a drive to the first spare that can have it. `None` if there is no spare.
    fn use_spare(&self, aggregate: &str, old: &Device) -> Option<Result<String, Problem>> {
        let mut directory = self.directory();
        let mut refusal = None;
        for path in best_first(&directory, old.kind) {
            let request = ReplaceDrive {
                device: old.path.clone(),
                with: path.clone(),
                size_bytes: None,
                discard_contents: false,
                dry_run: false,
            };
            match self.replace_in(&mut directory, aggregate, &request) {
                Ok(_) => return Some(Ok(path)),
                Err(problem) => {
                    still_spare(&mut directory, &path);
                    refusal.get_or_insert(problem);
                }
            }
        }
        refusal.map(Err)
    }
}

impl SpareRounds {
    /// Replaces drives that have failed, as long as there are spares.
    pub(crate) fn round(&mut self, administrator: &Administrator) -> Vec<Notice> {
        if administrator.directory().state().spares.is_empty() {
            return Vec::new();
        }
        let now = Instant::now();
        self.refused.retain(|_, time| now < *time);
        let is_settled = administrator.since.elapsed() >= MISSING_FOR;
        let mut notices = Vec::new();
        for aggregate in administrator.aggregates().aggregates {
            if aggregate.state != AggregateState::Online {
                continue;
            }
            for drive in lost(&aggregate, is_settled) {
                let key = (aggregate.name.clone(), drive.path.clone());
                if self.refused.contains_key(&key) {
                    continue;
                }
                let object = format!("aggregate {}", aggregate.name);
                let text = match administrator.use_spare(&aggregate.name, drive) {
                    None => continue,
                    Some(Ok(spare)) => format!(
                        "spare drive {spare} takes the place of {}, and catches up",
                        drive.path
                    ),
                    Some(Err(problem)) => {
                        self.refused.insert(key, now + AGAIN_AFTER);
                        format!(
                            "no spare drive can take the place of {}: {problem}",
                            drive.path
                        )
                    }
                };
                notices.push(Notice {
                    object,
                    is_warning: true,
                    text,
                });
            }
        }
        notices
    }
}

/// Returns the drives of mirrors that are to be replaced.
fn lost(aggregate: &Aggregate, is_settled: bool) -> impl Iterator<Item = &Device> {
    let drives = aggregate.devices.iter();
    let in_groups = drives.filter(|drive| drive.group.is_some());
    in_groups.filter(move |drive| match drive.state {
        Some(DeviceState::Failed) => true,
        Some(DeviceState::Missing) => is_settled,
        _ => false,
    })
}

/// Returns the paths of all spares that are there, those of the same kind as the old drive first.
fn best_first(directory: &DataDir, kind: DeviceKind) -> Vec<String> {
    let spares = directory.state().spares.iter();
    let there = spares.filter_map(|spare| {
        let found = kind_of(&spare.path)?;
        Some((found != kind, spare.path.display().to_string()))
    });
    let mut there: Vec<(bool, String)> = there.collect();
    there.sort_by_key(|(is_other, _)| *is_other);
    there.into_iter().map(|(_, path)| path).collect()
}

/// A spare that could not be used is one still, unless it has become a device.
fn still_spare(directory: &mut DataDir, path: &str) {
    let state = directory.state();
    let is_device = |aggregate: &datadir::AggregateState| {
        let devices = aggregate.devices.iter();
        devices.into_iter().any(|it| it.path == Path::new(path))
    };
    if state.aggregates.iter().any(is_device) || candidates::spare_at(directory, path).is_some() {
        return;
    }
    let mut state = directory.state().clone();
    state.spares.push(datadir::Spare { path: path.into() });
    if let Err(error) = directory.record(state) {
        tracing::warn!("{path} is no spare drive any more: {error}");
    }
}

fn view(path: &Path) -> Spare {
    let size = match kind_of(path) {
        Some(DeviceKind::File | DeviceKind::Block) => size_of(path),
        _ => None,
    };
    Spare {
        device: path.display().to_string(),
        kind: kind_of(path),
        size_bytes: size,
    }
}

fn kind_of(path: &Path) -> Option<DeviceKind> {
    let kind = fs::metadata(path).ok()?.file_type();
    match kind {
        kind if kind.is_dir() => Some(DeviceKind::Directory),
        kind if kind.is_file() => Some(DeviceKind::File),
        kind if kind.is_block_device() => Some(DeviceKind::Block),
        _ => None,
    }
}

/// Returns the size of a file or block device.
fn size_of(path: &Path) -> Option<u64> {
    use std::io::{Seek, SeekFrom};
    let mut file = fs::File::open(path).ok()?;
    file.seek(SeekFrom::End(0)).ok()
}
