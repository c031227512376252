//! Bases: the snapshots that clones began as. This is what administrators see of them.

use std::sync::Arc;

use everglade_format::{FileId, SnapshotId};

use crate::pool::info::SnapshotInfo;
use crate::pool::volume::Volume;

/// The id of the base among the clone's own snapshots.
pub(crate) const BASE: SnapshotId = SnapshotId(1);

/// Marks the bases among a volume's snapshots, for administrators.
pub(crate) fn mark(snapshots: &mut [SnapshotInfo], volume: &Volume) {
    let mut clones: Vec<(SnapshotId, String)> = Vec::new();
    for other in volume.aggregate.kept_volumes() {
        if let Some((parent, base)) = other.base()
            && parent == volume.id
        {
            clones.push((base, other.said()));
        }
    }
    clones.sort();
    for snapshot in snapshots {
        let of = clones.iter().filter(|(base, _)| base.0 == snapshot.id);
        snapshot.clones = of.map(|(_, name)| name.clone()).collect();
        snapshot.is_base = is_base(snapshot, volume);
        snapshot.exclusive_bytes = exclusive_bytes(snapshot, volume);
    }
}

fn is_base(snapshot: &SnapshotInfo, volume: &Volume) -> bool {
    snapshot.id == BASE.0 && volume.base().is_some()
}

/// Bytes that the deletion of a snapshot would free. Blocks of the base that the active image freed
/// stay in the parent's container.
pub(crate) fn exclusive_bytes(snapshot: &SnapshotInfo, volume: &Volume) -> u64 {
    match is_base(snapshot, volume) {
        true => 0,
        false => snapshot.exclusive_bytes,
    }
}

/// The base of a clone, for people: `parent@snapshot`.
pub(crate) fn base_name(
    volumes: &[Arc<Volume>],
    (parent, snapshot): (FileId, SnapshotId),
) -> Option<String> {
    let parent = volumes.iter().find(|volume| volume.id == parent)?;
    let snapshots = parent.snapshots();
    let snapshot = snapshots.iter().find(|info| info.id == snapshot.0)?;
    Some(format!("{}@{}", parent.name, snapshot.name))
}
