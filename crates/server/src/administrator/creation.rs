//! Creating an aggregate, and clearing one whose creation was not finished or that is deleted
//! (`deletion`).
//!
//! ```text
//! devices checked ─▶ recorded as creating ─▶ labels written ─▶ open ─▶ finish(): recorded as ready
//!        │ refused            └─────────── failed, or power cut ────────────▶ undo(): forgotten
//!        ▼
//!   nothing changed
//! ```
//!
//! 1. A device is checked before anything is recorded. A device with a label is refused. A device
//!    with other contents is overwritten only if the caller allows it.
//! 2. The UUID is recorded with the phase *creating*. A device is cleared only if it carries this
//!    UUID: between a crash and the next start the device may have got another use.
//! 3. A power cut anywhere leaves either no record, or one that the next start undoes.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read};
use std::path::Path;

use everglade_api::PlannedDevice;
use everglade_engine::{CreateError, Engine, Expected, Plan, Refusal, create as write_labels};
use everglade_env::{BLOCK_SIZE, DeviceId, DiskError, OpenError, Storage, World};
use everglade_format::Config;
use everglade_format::config::CONFIG_BYTES;
use everglade_format::label::{CONFIG_OFFSETS, LABEL_BYTES, label_offsets};

use super::candidates::{Shape, Wanted};
use super::kinds;
use super::room::{self, HostFull};
use crate::datadir::{AggregateState, DataDirError, Device, DeviceKind, Phase, Uuid};
use crate::devices::patiently;
use crate::plane::control::Plane;
use crate::{DataDir, Size};

/// Bytes at both ends of a device that are checked for contents. Every file system, partition table
/// and volume manager in use leaves a mark there.
const LOOK_BYTES: u64 = 1 << 20;
const LABEL_MAGIC: &[u8] = b"EVGLCONF";

/// The treatment of existing contents of devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contents {
    /// Devices that hold anything are refused.
    Kept,
    /// Existing contents are overwritten.
    Discarded,
}

/// The reason why a creation failed. Devices and records are unchanged.
#[derive(Debug, thiserror::Error)]
pub(super) enum CreationError {
    /// The data directory cannot be written.
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    /// A device cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A device is too small, or failed.
    #[error("{path}: {problem}")]
    Device {
        /// Path of the device.
        path: String,
        /// The problem and the remedy.
        problem: String,
    },
    /// A device carries a label.
    #[error("{path} carries the label of an aggregate; choose another device")]
    Labelled {
        /// Path of the device.
        path: String,
    },
    /// A device holds something.
    #[error("{path} holds data, which would be overwritten")]
    HoldsData {
        /// Path of the device.
        path: String,
    },
    /// The host below a device is full.
    #[error("the host has no space for {path}; make room there, or choose a smaller size")]
    NoSpace {
        /// Path of the device.
        path: String,
    },
    /// The host below a device has too little for an aggregate to begin with; nothing was written.
    #[error(transparent)]
    HostFull(#[from] HostFull),
    /// The labels just written cannot be opened.
    #[error("the new aggregate cannot be opened: {0}")]
    Refused(Refusal),
    /// The host gave no random numbers.
    #[error("cannot read random bytes: {0}")]
    Random(io::Error),
    /// The daemon is about to end.
    #[error("the daemon is stopping")]
    Stopping,
}

/// Creates an aggregate on these devices, opens it, and returns its number in the engine. The
/// aggregate is recorded as *creating*; [`finish`] records it as ready. Sizes of existing devices
/// are read from them.
pub(super) fn create(
    plane: &Plane,
    engine: &Engine,
    directory: &mut DataDir,
    name: &str,
    wanted: Wanted,
    contents: Contents,
) -> Result<u32, CreationError> {
    let world = &plane.world;
    let mut opened = Vec::new();
    let mut wanted = wanted;
    let made_with = Some(wanted.shape);
    let looked_at = check_devices(world, &mut wanted.devices, made_with, contents, &mut opened)
        .and_then(|_| Ok(room::refuse_full_hosts(directory.path(), &wanted)?));
    let made = looked_at.and_then(|()| {
        let plan = plan(world, name, &wanted)?;
        let aggregate = AggregateState {
            name: name.to_owned(),
            phase: Phase::Creating,
            read_only: false,
            garden_paused: false,
            epoch: 0,
            uuid: Some(Uuid(plan.uuid)),
            devices: wanted.devices,
        };
        let mut state = directory.state().clone();
        state.aggregates.retain(|known| known.name != name);
        state.aggregates.push(aggregate.clone());
        directory.record(state)?;
        let made = make(plane, engine, directory, &aggregate, &plan, &mut opened);
        Ok((aggregate, made))
    });
    let close = |opened: &[DeviceId]| opened.iter().for_each(|id| world.close(*id));
    match made {
        Ok((_, Ok(id))) => Ok(id),
        Ok((aggregate, Err(error))) => {
            close(&opened);
            if let Err(problem) = undo(world, directory, &aggregate) {
                tracing::warn!("aggregate {name} was not made, and not all is cleared: {problem}");
            }
            Err(error)
        }
        Err(error) => {
            close(&opened);
            Err(error)
        }
    }
}

/// Records a created aggregate as ready.
pub(super) fn finish(directory: &mut DataDir, name: &str) -> Result<(), DataDirError> {
    let mut state = directory.state().clone();
    let created = state.aggregates.iter_mut().find(|known| known.name == name);
    let created = created.expect("an aggregate is recorded before it is made");
    assert_eq!(created.phase, Phase::Creating, "it is finished once");
    created.phase = Phase::Ready;
    created.epoch = 1;
    directory.record(state)
}

/// Opens the devices that exist already, checks that they may be used, and fills in their sizes.
/// `made_with` is the shape of the aggregate that they make; without it they join one. Returns for
/// each of the devices whether it has contents that are lost.
pub(super) fn check_devices(
    world: &World,
    devices: &mut [Device],
    made_with: Option<Shape>,
    contents: Contents,
    opened: &mut Vec<DeviceId>,
) -> Result<Vec<bool>, CreationError> {
    let mut ids = Vec::new();
    for device in devices.iter_mut() {
        let id = match device.kind {
            DeviceKind::Directory => None,
            DeviceKind::File => Some(world.open_file(&device.path)?),
            DeviceKind::Block => Some(world.open_block(&device.path)?),
        };
        opened.extend(id);
        if let Some(id) = id {
            device.size_bytes = world.size_bytes(id);
        }
        ids.push(id);
    }
    check_sizes(devices, made_with)?;
    let mut hold_data = Vec::new();
    for (device, id) in devices.iter().zip(ids) {
        let path = || device.path.display().to_string();
        let found = id.map_or(Ok(DeviceContent::Nothing), |id| inspect(world, id));
        let found = found.map_err(|error| CreationError::Device {
            path: path(),
            problem: error.to_string(),
        })?;
        match found {
            DeviceContent::Nothing => hold_data.push(false),
            DeviceContent::Label => return Err(CreationError::Labelled { path: path() }),
            DeviceContent::Data if contents == Contents::Discarded => hold_data.push(true),
            DeviceContent::Data => return Err(CreationError::HoldsData { path: path() }),
        }
    }
    Ok(hold_data)
}

/// Checks the sizes of devices that make an aggregate in this way, or that join one.
fn check_sizes(devices: &[Device], made_with: Option<Shape>) -> Result<(), CreationError> {
    let mut plan = Plan::new("", [0; 16], Default::default(), Vec::new());
    // An aggregate has its journal already when devices join it.
    plan.journal_half_blocks = Some(0);
    if let Some(shape) = made_with {
        shape.apply(&mut plan, devices.len());
    }
    let sizes: Vec<u64> = devices.iter().map(|device| device.size_bytes).collect();
    everglade_engine::check_sizes(&sizes, &plan).map_err(|error| explain(error, devices))
}

/// Returns the devices that an aggregate would have, and their contents that would be lost.
pub(super) fn examine(
    world: &World,
    directory: &DataDir,
    wanted: Wanted,
) -> Result<Vec<PlannedDevice>, CreationError> {
    let mut wanted = wanted;
    let Shape {
        journal,
        protection,
        ..
    } = wanted.shape;
    let (devices, made_with) = (&mut wanted.devices, Some(wanted.shape));
    let together = protection.drives;
    let mut opened = Vec::new();
    let contents = Contents::Discarded;
    let looked_at = check_devices(world, devices, made_with, contents, &mut opened);
    opened.into_iter().for_each(|id| world.close(id));
    let last = devices.len().saturating_sub(1);
    let with_contents = devices.iter().zip(looked_at?).enumerate();
    let planned = with_contents.map(|(index, (device, holds_data))| PlannedDevice {
        path: directory.device_path(device).display().to_string(),
        kind: kinds::shown(device.kind),
        holds_data,
        size_bytes: device.size_bytes,
        is_journal: journal.has_device && index == last,
        group: (together > 1).then_some((index / together + 1) as u64),
    });
    let planned = planned.collect();
    room::refuse_full_hosts(directory.path(), &wanted)?;
    Ok(planned)
}

/// What is on a device.
enum DeviceContent {
    Nothing,
    Label,
    Data,
}

fn inspect(world: &World, id: DeviceId) -> Result<DeviceContent, DiskError> {
    let size = world.size_bytes(id);
    let mut block = vec![0; BLOCK_SIZE];
    for label in label_offsets(size) {
        for slot in CONFIG_OFFSETS {
            world.read(id, label + slot, &mut block)?;
            if block.starts_with(LABEL_MAGIC) {
                return Ok(DeviceContent::Label);
            }
        }
    }
    let mut end = vec![0; usize::try_from(LOOK_BYTES).expect("a small constant")];
    for offset in [0, size - LOOK_BYTES] {
        world.read(id, offset, &mut end)?;
        if end.iter().any(|byte| *byte != 0) {
            return Ok(DeviceContent::Data);
        }
    }
    Ok(DeviceContent::Nothing)
}

fn plan(world: &World, name: &str, wanted: &Wanted) -> Result<Plan, CreationError> {
    let devices = wanted.devices.len();
    let mut uuids = Vec::new();
    for _ in 0..devices {
        uuids.push(random()?);
    }
    let mut plan = Plan::new(name, random()?, random()?, uuids);
    plan.created_seconds = world.wall_seconds();
    wanted.shape.apply(&mut plan, devices);
    Ok(plan)
}

/// Makes the directories, writes the labels, opens the aggregate.
fn make(
    plane: &Plane,
    engine: &Engine,
    directory: &DataDir,
    aggregate: &AggregateState,
    plan: &Plan,
    opened: &mut Vec<DeviceId>,
) -> Result<u32, CreationError> {
    let world = &plane.world;
    let mut existing = std::mem::take(opened).into_iter();
    for device in &aggregate.devices {
        let id = match device.kind {
            DeviceKind::Directory => {
                let path = if device.path.is_relative() {
                    directory.make_directory(device)?
                } else {
                    device.path.clone()
                };
                world.open_directory(&path, device.size_bytes, true)
            }
            _ => Ok(existing.next().expect("opened when it was looked at")),
        };
        match id {
            Ok(id) => opened.push(id),
            Err(error) => {
                opened.extend(existing);
                return Err(error.into());
            }
        }
    }
    write_labels(world, opened, plan).map_err(|error| explain(error, &aggregate.devices))?;
    let expected = Expected {
        uuid: plan.uuid,
        epoch: 1,
        cp: 0,
    };
    plane
        .open(|| engine.open(world, opened, &[], Some(&expected)))
        .ok_or(CreationError::Stopping)?
        .map_err(CreationError::Refused)
}

/// Returns the message for a device that is too small.
pub(super) fn too_small(bytes: u64, least: u64) -> String {
    let least = Size(least).at_least();
    format!(
        "{} is too small; use a device of at least {least}",
        Size(bytes).said()
    )
}

/// Returns the message for a drive that is too small to replace another one.
pub(super) fn too_small_to_replace(bytes: u64, least: u64) -> String {
    let least = Size(least).at_least();
    format!(
        "{} is too small for what its mirror has; use a drive of at least {least}",
        Size(bytes).said()
    )
}

/// Turns an error of the engine into one that names each device by its path, not by its number.
fn explain(error: CreateError, devices: &[Device]) -> CreationError {
    let path = |device: usize| {
        let device = devices.get(device);
        device.map_or_else(String::new, |device| device.path.display().to_string())
    };
    match error {
        CreateError::InUse(device) => CreationError::Labelled { path: path(device) },
        CreateError::Disk {
            device,
            error: DiskError::NoSpace,
        } => CreationError::NoSpace { path: path(device) },
        CreateError::Disk { device, error } => CreationError::Device {
            path: path(device),
            problem: error.to_string(),
        },
        CreateError::TooSmall {
            device,
            bytes,
            least,
        } => CreationError::Device {
            path: path(device),
            problem: too_small(bytes, least),
        },
        CreateError::Name(name) => unreachable!("{name:?} was checked when it came in"),
        CreateError::Copies { devices, copies } => {
            unreachable!("{devices} devices in groups of {copies} were checked when they came in")
        }
        CreateError::Parity {
            devices, drives, ..
        } => {
            unreachable!("{devices} devices in groups of {drives} were checked when they came in")
        }
    }
}

/// Undoes every creation and resumes every deletion that was interrupted. An aggregate that cannot
/// be cleared now stays recorded, so that the next start tries again.
pub(crate) fn undo_unfinished(world: &World, directory: &mut DataDir) {
    let unwanted = |known: &&AggregateState| known.phase != Phase::Ready;
    let state = directory.state();
    let unwanted: Vec<_> = state.aggregates.iter().filter(unwanted).cloned().collect();
    for aggregate in unwanted {
        let name = &aggregate.name;
        let what = match aggregate.phase {
            Phase::Deleting => "was deleted",
            Phase::Creating | Phase::Ready => "was never finished",
        };
        match undo(world, directory, &aggregate) {
            Ok(()) => tracing::info!("aggregate {name} {what} and is forgotten"),
            Err(problem) => tracing::warn!(
                "aggregate {name} {what}, and its devices cannot be cleared now: {problem}"
            ),
        }
    }
}

/// Clears the devices of what we wrote, then forgets the aggregate.
pub(super) fn undo(
    world: &World,
    directory: &mut DataDir,
    aggregate: &AggregateState,
) -> Result<(), String> {
    for device in &aggregate.devices {
        clear(world, directory, device, aggregate.uuid)?;
    }
    let mut state = directory.state().clone();
    state
        .aggregates
        .retain(|known| known.name != aggregate.name);
    directory.record(state).map_err(|error| error.to_string())
}

/// Clears a device of what we wrote.
pub(super) fn clear(
    world: &World,
    directory: &DataDir,
    device: &Device,
    uuid: Option<Uuid>,
) -> Result<(), String> {
    let path = directory.device_path(device);
    let cleared = match device.kind {
        DeviceKind::Directory if device.path.is_relative() => remove_own(&path),
        _ => clear_elsewhere(world, device, uuid),
    };
    cleared.map_err(|error| format!("{}: {error}", path.display()))
}

/// Removes a directory device in the data directory, and the folder of the aggregate if it is empty
/// then.
fn remove_own(path: &Path) -> Result<(), String> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.to_string()),
        _ => {}
    }
    // A directory that is not empty stays.
    let _ = path.parent().map(fs::remove_dir);
    Ok(())
}

/// Clears a device elsewhere, if it carries the label of this aggregate. The device may have been
/// closed a moment ago, with operations in flight whose end releases its lock.
fn clear_elsewhere(world: &World, device: &Device, uuid: Option<Uuid>) -> Result<(), String> {
    let opened = patiently(|| match device.kind {
        DeviceKind::Directory => world.open_directory(&device.path, device.size_bytes, false),
        DeviceKind::File => world.open_file(&device.path),
        DeviceKind::Block => world.open_block(&device.path),
    });
    let id = match opened {
        Ok(id) => id,
        // Never made, or made into something else since.
        Err(OpenError::Missing { .. } | OpenError::Unexpected { .. }) => return Ok(()),
        Err(error) => return Err(error.to_string()),
    };
    let cleared = match label_of(world, id) {
        Ok(label) if label.is_some() && label != uuid => Ok(()),
        Ok(_) if device.kind == DeviceKind::Directory => {
            world.close(id);
            return remove_segments(&device.path).map_err(|error| error.to_string());
        }
        Ok(Some(_)) => blank(world, id),
        Ok(None) => Ok(()),
        Err(error) => Err(error),
    };
    world.close(id);
    cleared.map_err(|error| error.to_string())
}

/// Returns the UUID in the newest whole label.
fn label_of(world: &World, id: DeviceId) -> Result<Option<Uuid>, DiskError> {
    let records = records_of(world, id)?;
    let newest = records.iter().max_by_key(|record| record.epoch);
    Ok(newest.map(|record| Uuid(record.uuid)))
}

/// Returns the whole config records at both ends of a device.
fn records_of(world: &World, id: DeviceId) -> Result<Vec<Config>, DiskError> {
    let size = world.size_bytes(id);
    let mut records = Vec::new();
    if size < LABEL_BYTES * 2 {
        return Ok(records);
    }
    let mut bytes = vec![0; CONFIG_BYTES];
    for label in label_offsets(size) {
        for slot in CONFIG_OFFSETS {
            world.read(id, label + slot, &mut bytes)?;
            if let Ok(Some(config)) = Config::decode(&bytes) {
                records.push(config);
            }
        }
    }
    Ok(records)
}

/// Overwrites all labels with zeroes. If the device became larger, it may have one at its former
/// end, which its records name.
fn blank(world: &World, id: DeviceId) -> Result<(), DiskError> {
    let size = world.size_bytes(id);
    let mut labels = BTreeSet::from(label_offsets(size));
    for record in records_of(world, id)? {
        let member = usize::try_from(record.member_index).expect("64-bit hosts");
        let end = record
            .members
            .get(member)
            .map(|it| it.size_blocks * BLOCK_SIZE as u64);
        let is_inside = |end: &u64| (LABEL_BYTES * 2..=size).contains(end);
        labels.extend(
            end.filter(is_inside)
                .map(label_offsets)
                .into_iter()
                .flatten(),
        );
    }
    let zeroes = vec![0; usize::try_from(LABEL_BYTES).expect("a small constant")];
    for label in labels {
        world.write(id, label, &zeroes)?;
    }
    world.flush(id)
}

/// Removes the segments and then the card of a directory device, and leaves the directory itself.
fn remove_segments(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "seg") {
            fs::remove_file(path)?;
        }
    }
    fs::remove_file(path.join("DEVICE"))?;
    fs::File::open(path)?.sync_all()
}

/// Returns unpredictable bytes.
pub(super) fn random<const N: usize>() -> Result<[u8; N], CreationError> {
    let mut bytes = [0; N];
    fs::File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut bytes))
        .map_err(CreationError::Random)?;
    Ok(bytes)
}
