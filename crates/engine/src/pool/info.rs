//! Snapshots, as administrators see them.

use everglade_format::{BLOCK_SIZE, SnapshotRecord};

use crate::holders::table::Counts;

/// Background work for a volume's snapshots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScanInfo {
    /// The pass under way: `none`, `fold`, `delete` or `release`.
    pub kind: &'static str,
    /// The way of a delete pass: `subtraction` or `addition`.
    pub way: Option<&'static str>,
    /// Work done so far and in total: blocks of vvbn space or, for a release, entries.
    pub done: u64,
    /// See above; 0 if none is under way.
    pub total: u64,
    /// Seconds until the pass ends, at its average speed since it began or the volume was opened.
    pub eta_seconds: Option<u64>,
    /// Deleted snapshots that the pass is for.
    pub victims: u64,
    /// Number of snapshots deleted later; the next pass releases them.
    pub waiting: u64,
    /// Share of a consistency point's budget for scans, 0 to 100; at 0 the scans rest.
    pub pace_percent: u8,
    /// Blocks of the maps that delete passes dealt with since the volume was opened.
    pub counts: Counts,
}

/// Progress of background work, in its own units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Units done; 0 if only the rest is known.
    pub(crate) done: u64,
    /// Total units.
    pub(crate) total: u64,
    /// When it began, or its volume was opened, in seconds since 1970 UTC, and how much was done
    /// then.
    pub(crate) since: Option<(u64, u64)>,
}

impl Progress {
    pub(crate) fn left(self) -> u64 {
        self.total.saturating_sub(self.done)
    }

    /// Returns the seconds until the work ends, at its average speed so far; unknown before any
    /// progress.
    pub(crate) fn eta_seconds(self, now_seconds: u64) -> Option<u64> {
        let (since, from) = self.since?;
        eta_seconds(
            now_seconds.saturating_sub(since),
            from,
            self.done,
            self.total,
        )
    }
}

/// Returns the seconds until `done` is `total`, at the average speed since the progress was `from`,
/// `took` seconds ago; unknown without progress. A `took` of zero counts as one second, and the
/// result is rounded up to whole seconds.
fn eta_seconds(took: u64, from: u64, done: u64, total: u64) -> Option<u64> {
    let rest = u128::from(total.saturating_sub(done)) * u128::from(took.max(1));
    let did = u128::from(done.checked_sub(from).filter(|did| *did > 0)?);
    u64::try_from(rest.div_ceil(did)).ok()
}

/// A LUN that is being cloned inside its volume, or how that ended without one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LunCloneInfo {
    /// The name that the clone will have in its volume.
    pub name: String,
    /// Bytes of the LUN cloned so far.
    pub done_bytes: u64,
    /// The LUN's size.
    pub total_bytes: u64,
    /// Seconds until the job is done, at its average speed since it began or the volume was opened.
    pub eta_seconds: Option<u64>,
    /// The reason why the last job failed and cloned nothing. Kept until the next job begins or the
    /// volume is closed.
    pub failed: Option<String>,
    /// The last job failed because the pool had no space.
    pub found_no_space: bool,
}

/// State of a clone's split.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SplitState {
    /// No split ever began, or the volume was never a clone.
    #[default]
    None,
    /// The base's blocks are being copied.
    Copying,
    /// The pool is short of space; the split continues when space is available.
    WaitingForSpace,
    /// Another clone of the aggregate is being split.
    WaitingForOther,
    /// An administrator stopped it, or it cannot go on.
    Stopped,
    /// The volume is no clone any more.
    Done,
}

/// A clone's way to blocks of its own, as of the last consistency point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SplitInfo {
    /// State of the split.
    pub state: SplitState,
    /// Blocks of the base that were copied, about. Of a volume that is no clone 0.
    pub done_blocks: u64,
    /// Blocks that the base holds: what a split takes from the pool. Of a volume that is no clone
    /// 0.
    pub total_blocks: u64,
    /// Seconds until the split ends, at its average speed since it began or the volume was opened.
    pub eta_seconds: Option<u64>,
}

/// A snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// Its name; with its volume `volume@name`.
    pub name: String,
    /// Its number in the volume; never reused.
    pub id: u32,
    /// The number of the snapshot it descends from.
    pub parent: Option<u32>,
    /// Name of the parent, if it still exists.
    pub parent_name: Option<String>,
    /// When it was taken, seconds since 1970 UTC.
    pub created_seconds: u64,
    /// The consistency point whose image it is.
    pub cp: u64,
    /// Bytes of its image: all blocks that it holds, shared or not.
    pub logical_bytes: u64,
    /// Bytes that deleting it frees.
    pub exclusive_bytes: u64,
    /// Bytes of its image that belonged to LUNs under deletion when it was taken.
    pub pending_delete_bytes: u64,
    /// Tags of the holds on it.
    pub holds: Vec<String>,
    /// A client has one of its LUNs open.
    pub is_exported: bool,
    /// LUNs of its image that clients can open, by name.
    pub luns: Vec<String>,
    /// Volumes that are clones of it, by name: as long as there are any it cannot be deleted.
    pub clones: Vec<String>,
    /// True for the base of a clone, which is deleted only together with the clone. Its blocks are
    /// the parent's.
    pub is_base: bool,
}

impl SnapshotInfo {
    pub(crate) fn of(record: &SnapshotRecord) -> SnapshotInfo {
        let bytes = |blocks: u64| blocks.saturating_mul(BLOCK_SIZE as u64);
        SnapshotInfo {
            name: record.name.clone(),
            id: record.id.0,
            parent: record.parent.map(|id| id.0),
            parent_name: None,
            created_seconds: record.seconds,
            cp: record.cp.0,
            logical_bytes: bytes(record.blocks_used),
            exclusive_bytes: bytes(record.exclusive),
            pending_delete_bytes: bytes(record.pending),
            holds: record.holds.iter().map(|hold| hold.tag.clone()).collect(),
            is_exported: false,
            luns: Vec::new(),
            clones: Vec::new(),
            is_base: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_eta_goes_by_what_was_done_since_it_was_looked_at_first() {
        assert_eq!(eta_seconds(10, 20, 40, 100), Some(30));
        assert_eq!(eta_seconds(0, 0, 10, 100), Some(9), "not at once");
        assert_eq!(eta_seconds(1, 0, 60, 100), Some(1), "nor at the end");
        assert_eq!(eta_seconds(10, 40, 40, 100), None);
        assert_eq!(eta_seconds(10, 40, 30, 100), None, "it began anew");
        assert_eq!(
            eta_seconds(u64::MAX, 0, 1, u64::MAX),
            None,
            "too long to say"
        );
        assert_eq!(eta_seconds(10, 0, 100, 100), Some(0));
    }
}
