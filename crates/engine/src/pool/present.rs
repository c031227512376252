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

/// One of them. Costs about the same however many there are.
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
        // Freezes and publications want to change them, and would wait for who looks at a thousand
        // at once.
        if let Some(image) = volume.images().get(&snapshot.name) {
            snapshot.is_exported = image.is_open();
            snapshot.luns = image.luns.keys().cloned().collect();
        }
    }
}
