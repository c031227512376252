//! The record of devices that were being added when the daemon ended, and of sizes.
//!
//! ```text
//! recorded as joining ─▶ made, labelled ─▶ member by a superblock ─▶ recorded as a member
//!         └───── failed, or power cut ─────┘           └─ power cut: follow() records it
//!         forget(): cleared, no longer recorded
//! ```
//!
//! 1. A device that is joining has nothing of clients until the superblock is committed that makes
//!    it a member. Labels and superblock decide (decision 0040), and the engine has read them when
//!    the aggregate is open. So the next start knows which of the two the device is. A drive of a
//!    mirror may be a member and be away. So its UUID is recorded with it, and a device whose UUID
//!    is in the table of members is never cleared.
//! 2. A device is cleared only if it carries the UUID of the aggregate: it may have got another use
//!    since. A device that cannot be cleared stays recorded, and the next start tries again.
//! 3. A directory is made larger before its aggregate takes the space. If the daemon ends between
//!    the two, the directory is larger than recorded, and nothing else has changed.

use std::path::PathBuf;

use everglade_engine::{AggregateInfo, Engine, State};
use everglade_env::{DeviceId, World};

use super::creation;
use crate::DataDir;
use crate::datadir::{AggregateState, DataDirError, Device, DeviceKind, Phase, Uuid};

/// Brings the record of each aggregate up to what the pool has: members, sizes of directories, and
/// the epoch. Forgets devices that did not become members.
pub(crate) fn follow(world: &World, engine: &Engine, directory: &mut DataDir) {
    let is_usable =
        |known: &AggregateInfo| matches!(known.state, State::Online | State::ReadOnly(_));
    for known in engine.aggregates().into_iter().filter(is_usable) {
        let aggregates = directory.state().aggregates.iter();
        let mut recorded = aggregates.filter(|it| it.phase == Phase::Ready);
        let recorded = recorded.find(|it| it.uuid == Some(Uuid(known.uuid)));
        let Some(recorded) = recorded.cloned() else {
            continue;
        };
        for device in recorded.joining() {
            if is_member(world, directory, &known, device) {
                let path = directory.device_path(device);
                tracing::info!("{} was added to aggregate {}", path.display(), known.name);
            } else {
                forget(world, directory, &recorded, device);
            }
        }
        if let Err(error) = record(world, directory, &known) {
            tracing::warn!(
                "aggregate {} has changed its devices, which the next start records: {error}",
                known.name
            );
        }
    }
}

/// Records the members of an aggregate with their sizes, and its epoch. Writes nothing if the
/// record says so already.
pub(super) fn record(
    world: &World,
    directory: &mut DataDir,
    known: &AggregateInfo,
) -> Result<(), DataDirError> {
    let mut state = directory.state().clone();
    let recorded = state.aggregates.iter_mut();
    let mut recorded = recorded.filter(|it| it.uuid == Some(Uuid(known.uuid)));
    let Some(recorded) = recorded.next() else {
        return Ok(());
    };
    recorded.epoch = recorded.epoch.max(known.epoch);
    let joined = recorded.joining();
    let joined = joined.filter(|device| is_member(world, directory, known, device));
    let joined: Vec<PathBuf> = joined.map(|device| device.path.clone()).collect();
    joined.iter().for_each(|path| recorded.settle(path));
    for device in &mut recorded.devices {
        let Some(id) = member(world, directory, known, device) else {
            continue;
        };
        // Files and block devices may have become larger without their aggregate.
        if device.kind == DeviceKind::Directory {
            let size_bytes = world.info(id).map_or(0, |info| info.size_bytes);
            device.size_bytes = device.size_bytes.max(size_bytes);
        }
    }
    if state == *directory.state() {
        return Ok(());
    }
    directory.record(state)
}

/// True if a device that was joining is a member, whether it is there or not: a mirror is opened
/// without a drive that is away. Its UUID is in the table of members then.
fn is_member(world: &World, directory: &DataDir, known: &AggregateInfo, device: &Device) -> bool {
    match device.member {
        Some(uuid) => known.members.iter().any(|member| member.uuid == uuid.0),
        None => member(world, directory, known, device).is_some(),
    }
}

/// Returns the member of an aggregate that a recorded device is.
pub(super) fn member(
    world: &World,
    directory: &DataDir,
    known: &AggregateInfo,
    device: &Device,
) -> Option<DeviceId> {
    let path = directory.device_path(device);
    let is_it = |id: &&DeviceId| world.info(**id).is_some_and(|info| info.path == path);
    known.devices.iter().find(is_it).copied()
}

/// Clears a device that did not become a member, and removes it from the record. The device is
/// closed.
pub(super) fn forget(
    world: &World,
    directory: &mut DataDir,
    aggregate: &AggregateState,
    device: &Device,
) {
    assert!(device.joining, "a member is never cleared");
    let (name, path) = (&aggregate.name, directory.device_path(device));
    let path = path.display();
    if let Err(problem) = creation::clear(world, directory, device, aggregate.uuid) {
        tracing::warn!(
            "{path} was not added to aggregate {name}, and cannot be cleared now: {problem}; the \
            next start tries again"
        );
        return;
    }
    let mut state = directory.state().clone();
    for known in &mut state.aggregates {
        if known.uuid == aggregate.uuid {
            known.devices.retain(|known| known != device);
        }
    }
    match directory.record(state) {
        Ok(()) => tracing::info!("{path} was not added to aggregate {name} and is forgotten"),
        Err(error) => tracing::warn!(
            "{path} was not added to aggregate {name}, which the next start records: {error}"
        ),
    }
}
