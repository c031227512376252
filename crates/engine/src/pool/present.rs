//! The present state of a volume's snapshots, as administrators see it.

use crate::pool::bases;
use crate::pool::info::SnapshotInfo;
use crate::pool::volume::Volume;

/// The snapshots of a volume, as they are now, by their numbers.
pub(crate) fn all(volume: &Volume) -> Vec<SnapshotInfo> {
    let known = volume.snapshots();
    let mut all: Vec<SnapshotInfo> = known.iter().map(|info| with_parent(info, &known)).collect();
    fill_in(&mut all, volume);
    all
}

/// Returns one snapshot. The cost is nearly independent of the number of snapshots.
pub(crate) fn one(volume: &Volume, name: &str) -> Option<SnapshotInfo> {
    let known = volume.snapshots();
    let found = known.iter().find(|info| info.name == name)?;
    let mut found = [with_parent(found, &known)];
    fill_in(&mut found, volume);
    let [found] = found;
    Some(found)
}

fn with_parent(info: &SnapshotInfo, all: &[SnapshotInfo]) -> SnapshotInfo {
    let number = info.parent;
    let place = number.and_then(|number| all.binary_search_by_key(&number, |known| known.id).ok());
    SnapshotInfo {
        parent_name: place.map(|place| all[place].name.clone()),
        ..info.clone()
    }
}

/// Fills in the fields that show the present, not the last consistency point.
fn fill_in(snapshots: &mut [SnapshotInfo], volume: &Volume) {
    bases::mark(snapshots, volume);
    for snapshot in snapshots {
        // Freezes and publications need this lock for changes, so it is not kept for a thousand
        // snapshots.
        if let Some(image) = volume.images().get(&snapshot.name) {
            snapshot.is_exported = image.is_open();
            snapshot.luns = image.luns.keys().cloned().collect();
        }
    }
}
