//! Checks whether the host has space for a new aggregate, or for a growth, before anything is
//! written.
//!
//! Creating an aggregate takes space for labels, journal and reserve at once, and without one more
//! area the aggregate refuses its first write. If the creation failed half-way, it would have to be
//! cleared on a full host. So the sizes are compared first, and the refusal says how much space is
//! needed. If another program takes the space between this check and the creation, the creation
//! fails and is undone, as it would be without the check.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use everglade_engine::{HOST_MARGIN_BYTES, Plan, host_bytes};
use everglade_format::geometry::AREA_BLOCKS;
use everglade_format::label::LABEL_BYTES;

use super::candidates::Wanted;
use crate::Size;
use crate::config::BLOCK_BYTES;
use crate::datadir::{Device, DeviceKind};

/// Bytes that stay free on the host: the engine's margin, the host's metadata and our small files.
const OVERHEAD: u64 = HOST_MARGIN_BYTES + (4 << 20);

/// A host file system, and the bytes required of it.
struct Host {
    path: PathBuf,
    needed: u64,
}

/// The host below a device has too little for an aggregate to begin with; nothing was written.
#[derive(Debug, thiserror::Error)]
#[error(
    "the file system of {path} has {free} free; {what} of this size needs {needed} there at once; \
    make room, or choose a smaller size"
)]
pub(super) struct HostFull {
    /// Path on the file system.
    path: String,
    /// What needs the space.
    what: &'static str,
    /// Bytes that the file system can provide.
    free: Size,
    /// Bytes that the aggregate needs.
    needed: Size,
}

/// Refuses an aggregate if the file system below a device lacks the space that it takes at once.
///
/// # Errors
/// A file system lacks the space.
pub(super) fn refuse_full_hosts(data_dir: &Path, wanted: &Wanted) -> Result<(), HostFull> {
    let needed = wanted.devices.iter().zip(needs(wanted));
    let hosts = hosts(data_dir, needed);
    refuse(hosts, "a new aggregate")
}

/// Returns the bytes that each device takes at once.
fn needs(wanted: &Wanted) -> Vec<u64> {
    let devices = &wanted.devices;
    let mut plan = Plan::new("", [0; 16], Default::default(), Vec::new());
    wanted.shape.apply(&mut plan, devices.len());
    let sizes: Vec<u64> = devices.iter().map(|device| device.size_bytes).collect();
    host_bytes(&sizes, &plan)
}

/// Refuses a growth if the file system below a device that is new or larger lacks the space for a
/// label and one area on it, and for what the reserve becomes larger by.
///
/// # Errors
/// A file system lacks the space.
pub(super) fn refuse_full_hosts_of_growth<'a>(
    data_dir: &Path,
    devices: impl Iterator<Item = &'a Device> + Clone,
    reserve_bytes: u64,
) -> Result<(), HostFull> {
    let share = reserve_bytes.div_ceil(devices.clone().count().max(1) as u64);
    let each = 2 * LABEL_BYTES + AREA_BLOCKS * BLOCK_BYTES + share;
    let hosts = hosts(data_dir, devices.map(|device| (device, each)));
    refuse(hosts, "a growth")
}

/// Adds up the needs of devices, by host file system.
fn hosts<'a>(
    data_dir: &Path,
    needed: impl Iterator<Item = (&'a Device, u64)>,
) -> BTreeMap<u64, Host> {
    let mut hosts: BTreeMap<u64, Host> = BTreeMap::new();
    for (device, bytes) in needed {
        let Some((place, given)) = place_of(data_dir, device) else {
            continue;
        };
        let Ok(metadata) = fs::metadata(&place) else {
            continue;
        };
        let host = hosts.entry(metadata.dev()).or_insert(Host {
            path: place,
            needed: OVERHEAD,
        });
        host.needed += bytes.saturating_sub(given);
    }
    hosts
}

fn refuse(hosts: BTreeMap<u64, Host>, what: &'static str) -> Result<(), HostFull> {
    for Host { path, needed } in hosts.into_values() {
        // Some file systems of user space have no answer and say that they have no blocks at all.
        let Some(stat) = rustix::fs::statvfs(&path)
            .ok()
            .filter(|stat| stat.f_blocks > 0)
        else {
            continue;
        };
        let free = stat.f_bavail.saturating_mul(stat.f_frsize);
        if free < needed {
            return Err(HostFull {
                path: path.display().to_string(),
                what,
                free: Size(free),
                needed: Size(needed),
            });
        }
    }
    Ok(())
}

/// Returns the existing part of a device's path, and the bytes that the host has allocated to it.
/// Returns `None` for a device that owns its space.
fn place_of(data_dir: &Path, device: &Device) -> Option<(PathBuf, u64)> {
    let path = data_dir.join(&device.path);
    match device.kind {
        DeviceKind::Block => None,
        DeviceKind::File => {
            let given = fs::metadata(&path).map_or(0, |metadata| metadata.blocks() * 512);
            Some((path, given))
        }
        DeviceKind::Directory => {
            let there = path.ancestors().find(|path| path.is_dir())?;
            Some((there.to_owned(), 0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::administrator::candidates::{Protection, Shape, WantedJournal};

    fn wanted(sizes: &[u64]) -> Wanted {
        let device = |(number, size)| Device {
            path: PathBuf::from(format!("aggregates/a/dev{number}")),
            kind: DeviceKind::Directory,
            size_bytes: size,
            joining: false,
            replaces: None,
            member: None,
        };
        Wanted {
            devices: sizes.iter().copied().enumerate().map(device).collect(),
            shape: Shape::plain(WantedJournal::default()),
        }
    }

    #[test]
    fn a_host_without_room_is_refused_with_both_numbers() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let data_dir = place.path().join("not/yet");
        refuse_full_hosts(&data_dir, &wanted(&[4 << 30])).expect("room enough");
        // A journal of 32 TiB, which no machine of ours has. It is written at once.
        let mut large = wanted(&[1 << 47]);
        large.shape.journal.half_blocks = Some(1 << 32);
        let error = refuse_full_hosts(&data_dir, &large);
        let error = error.expect_err("a refusal").to_string();
        assert!(error.contains("free") && error.contains("needs"), "{error}");
    }

    #[test]
    fn a_mirror_needs_the_space_on_each_of_its_drives() {
        let alone = needs(&wanted(&[4 << 30]));
        let mut mirror = wanted(&[4 << 30, 4 << 30]);
        mirror.shape.protection = Protection {
            drives: 2,
            parity: 0,
        };
        assert_eq!(needs(&mirror), [alone[0], alone[0]]);
    }

    #[test]
    fn a_growth_without_room_is_refused_with_both_numbers() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let devices = wanted(&[1 << 40, 1 << 40]).devices;
        let refuse = |reserve| {
            let devices = devices.iter();
            refuse_full_hosts_of_growth(place.path(), devices, reserve)
        };
        refuse(0).expect("room enough");
        let error = refuse(1 << 60).expect_err("a refusal").to_string();
        assert!(error.contains("a growth of this size needs"), "{error}");
    }

    #[test]
    fn what_a_pool_of_4_gib_takes_is_its_labels_journal_reserve_and_an_area() {
        let plan = Plan::new("", [0; 16], Default::default(), Vec::new());
        let mib = 1 << 20;
        let journal = 2 * (4096 * mib / 50 / 4096) * 4096;
        assert_eq!(
            host_bytes(&[4096 * mib], &plan),
            [(2 + 128 + 128) * mib + journal]
        );
        let [first, second] = host_bytes(&[4096 * mib, 4096 * mib], &plan)[..] else {
            panic!("one number for each device");
        };
        assert_eq!(second, (2 + 128 + 128) * mib);
        assert!(first > second, "it has the journal");
    }
}
