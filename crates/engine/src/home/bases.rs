//! The snapshots that clones need.

use everglade_format::planted::{self, Bug};
use everglade_format::{FileId, SnapshotId};

use crate::home::aggregate::Home;

/// Names of the clones that need a snapshot of a volume, or any of them.
pub(crate) fn of(home: &Home, volume: FileId, snapshot: Option<SnapshotId>) -> Vec<String> {
    let needs = |base: Option<(FileId, SnapshotId)>| {
        base.is_some_and(|(id, base)| id == volume && snapshot.is_none_or(|known| known == base))
    };
    let clones = home
        .volumes
        .values()
        .filter(|v| needs(v.fs.snapshots.roots.base) && !planted::is(Bug::BaseNotLocked));
    clones
        .map(|volume| volume.shared.name.to_string())
        .collect()
}
