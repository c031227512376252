//! The snapshots that clones need.

use everglade_format::{FileId, SnapshotId};

use crate::home::aggregate::Home;
use crate::pool::volume::IN_TRASH;

/// What to do so that nothing needs a snapshot any more that these clones need.
pub(crate) fn remedy(clones: &[String]) -> &'static str {
    match clones.iter().any(|name| name.ends_with(IN_TRASH)) {
        true => "split or delete what is cloned first, and 'trash empty' what is in the trash",
        false => "split or delete what is cloned first",
    }
}

/// Names of the clones that need a snapshot of a volume, or any of them.
pub(crate) fn of(home: &Home, volume: FileId, snapshot: Option<SnapshotId>) -> Vec<String> {
    let needs = |base: Option<(FileId, SnapshotId)>| {
        base.is_some_and(|(id, base)| id == volume && snapshot.is_none_or(|known| known == base))
    };
    let clones = home
        .volumes
        .values()
        .filter(|v| needs(v.fs.snapshots.roots.base));
    clones.map(|volume| volume.shared.said()).collect()
}
