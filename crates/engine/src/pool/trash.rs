//! The trash of an aggregate: LUNs, snapshots and volumes that were deleted and can come back.
//!
//! An object in the trash keeps its file, its blocks and its entry in the directory, or its record
//! in the snapshot table, which has the time of the deletion. Everything that a consistency point
//! does with objects goes on: they are whole at any time. Only clients do not find them, because
//! the maps of names do not have them.
//!
//! Objects leave the trash in three ways: they come back, somebody removes them for good, or space
//! is short. In that case the oldest goes first, before any client is refused for lack of space
//! ([`crate::admin::trash`]).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use everglade_env::lock::Mutex;
use everglade_format::identity;

use crate::pool::aggregate::Aggregate;
use crate::pool::volume::Volume;
use crate::pool::volume_info::VolumeId;

/// An object in the trash, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrashInfo {
    /// The aggregate it is in.
    pub aggregate: String,
    /// The volume, or the volume of the LUN or snapshot.
    pub volume: VolumeId,
    /// Its name when it was deleted: `volume`, `volume/lun` or `volume@snapshot`, the volume under
    /// its present name.
    pub name: String,
    /// File of the LUN; none for anything else.
    pub lun: Option<u32>,
    /// Number of the snapshot; none for anything else.
    pub snapshot: Option<u32>,
    /// UUID of the object: what hosts knew the LUN by, or that of the volume or snapshot.
    pub id: [u8; 16],
    /// What hosts knew its LUNs by; nothing for a snapshot, whose images come back under other
    /// identities if it gets another name.
    pub luns: Vec<[u8; 16]>,
    /// Size of the LUN, or of all LUNs of the volume or snapshot together.
    pub size_bytes: u64,
    /// Blocks of the LUN's tree, which snapshots and clones may share; blocks that nothing but the
    /// snapshot holds; or all blocks that the volume takes from the aggregate.
    pub used_blocks: u64,
    /// When it was deleted, seconds since 1970 UTC.
    pub deleted_seconds: u64,
}

impl TrashInfo {
    /// Sorts the object that was deleted first before the others.
    pub(crate) fn order(&self) -> (u64, u32, Option<u32>, Option<u32>) {
        let volume = self.volume.volume;
        (self.deleted_seconds, volume, self.lun, self.snapshot)
    }
}

/// What left the trash because space was short, since the aggregate was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PurgedInfo {
    /// Number of objects.
    pub count: u64,
    /// Name of the last one.
    pub last: String,
}

/// See [`PurgedInfo`].
#[derive(Default)]
pub(crate) struct Purged(Mutex<PurgedInfo>);

impl Purged {
    /// An object left the trash because space was short.
    pub(crate) fn note(&self, name: String) {
        let mut info = self.0.lock();
        info.count += 1;
        info.last = name;
    }

    pub(crate) fn info(&self) -> PurgedInfo {
        self.0.lock().clone()
    }
}

/// What is in the trash of an aggregate, the oldest first. LUNs and snapshots of a volume that is
/// itself in the trash are part of it.
pub(crate) fn of(aggregate: &Aggregate) -> Vec<TrashInfo> {
    let mut found = Vec::new();
    for volume in aggregate.all_volumes() {
        for (seconds, lun) in volume.trash.read().values() {
            found.push(TrashInfo {
                aggregate: aggregate.name.to_string(),
                volume: VolumeId::of(&volume),
                name: lun.full_name(),
                lun: Some(lun.file.0),
                snapshot: None,
                id: lun.uuid(),
                luns: vec![lun.uuid()],
                size_bytes: lun.size_bytes(),
                used_blocks: lun.used_blocks(),
                deleted_seconds: *seconds,
            });
        }
        for (id, snapshot) in &*volume.trashed_snapshots.read() {
            let luns = snapshot.image.luns.values();
            found.push(TrashInfo {
                aggregate: aggregate.name.to_string(),
                volume: VolumeId::of(&volume),
                name: format!("{}@{}", volume.name, snapshot.name),
                lun: None,
                snapshot: Some(id.0),
                id: identity::snapshot_uuid(&aggregate.uuid, volume.id, *id),
                luns: Vec::new(),
                size_bytes: luns.map(|lun| lun.size_bytes()).sum(),
                used_blocks: snapshot.exclusive_blocks,
                deleted_seconds: snapshot.deleted_seconds,
            });
        }
    }
    for volume in aggregate.trash.read().values() {
        let luns = volume.all_luns();
        found.push(TrashInfo {
            aggregate: aggregate.name.to_string(),
            volume: VolumeId::of(volume),
            name: volume.name.to_string(),
            lun: None,
            snapshot: None,
            id: volume.uuid(),
            luns: volume.kept_luns().iter().map(|lun| lun.uuid()).collect(),
            size_bytes: luns.iter().map(|lun| lun.size_bytes()).sum(),
            used_blocks: volume.allocated_blocks.load(Ordering::Relaxed),
            deleted_seconds: volume.deleted_seconds.load(Ordering::Relaxed),
        });
    }
    found.sort_by_key(TrashInfo::order);
    found
}

/// Number of objects in the trash of an aggregate.
pub(crate) fn count(aggregate: &Aggregate) -> u64 {
    let volumes = aggregate.volumes.read();
    let of =
        |volume: &Arc<Volume>| volume.trash.read().len() + volume.trashed_snapshots.read().len();
    (volumes.values().map(of).sum::<usize>() + aggregate.trash.read().len()) as u64
}
