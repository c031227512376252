//! What administrators see of a volume.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use everglade_format::volume::Sync;

use crate::pool::bases;
use crate::pool::info::{LunCloneInfo, ScanInfo, SplitInfo};
use crate::pool::volume::Volume;

/// A volume, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeInfo {
    /// Its name.
    pub name: String,
    /// Its number, which stays the same when the volume is renamed.
    pub id: VolumeId,
    /// Its UUID, for what is noted about it.
    pub uuid: [u8; 16],
    /// The aggregate it is in.
    pub aggregate: String,
    /// When its writes count as done.
    pub sync: Sync,
    /// Base of a clone, as `parent@snapshot`.
    pub base: Option<String>,
    /// Blocks of its active image at the last consistency point; a clone shares some with its
    /// parent.
    pub used_blocks: u64,
    /// Blocks that it takes from the aggregate, snapshots and all metadata included, and nothing of
    /// its parent's.
    pub allocated_blocks: u64,
    /// Blocks that deletions of its LUNs and snapshots have yet to free.
    pub pending_blocks: u64,
    /// Snapshots that it has.
    pub snapshot_count: u64,
    /// Bytes that are in one of its snapshots alone.
    pub snapshot_exclusive_bytes: u64,
    /// State of its snapshots' scans.
    pub scan: ScanInfo,
    /// A LUN that is being cloned inside it.
    pub lun_clone: Option<LunCloneInfo>,
    /// State of its split, if the volume is or was a clone.
    pub split: SplitInfo,
    /// Bytes that clients read since it was opened.
    pub read_bytes: u64,
    /// Bytes that clients wrote since then.
    pub written_bytes: u64,
}

impl VolumeInfo {
    /// The present state of a volume. `siblings` are all volumes of its aggregate.
    pub(crate) fn of(volume: &Volume, siblings: &[Arc<Volume>], split: SplitInfo) -> VolumeInfo {
        let base = volume.base();
        let snapshots = volume.snapshots();
        let exclusive = snapshots
            .iter()
            .map(|it| bases::exclusive_bytes(it, volume));
        VolumeInfo {
            name: volume.name.to_string(),
            id: VolumeId::of(volume),
            uuid: volume.uuid(),
            aggregate: volume.aggregate.name.to_string(),
            sync: volume.sync(),
            base: base.and_then(|base| bases::base_name(siblings, base)),
            split,
            used_blocks: volume.used_blocks.load(Ordering::Relaxed),
            allocated_blocks: volume.allocated_blocks.load(Ordering::Relaxed),
            pending_blocks: volume.pending_blocks.load(Ordering::Relaxed),
            snapshot_count: snapshots.len() as u64,
            snapshot_exclusive_bytes: exclusive.fold(0, u64::saturating_add),
            scan: volume.scan(),
            lun_clone: volume.lun_clone(),
            read_bytes: volume.traffic.read.load(Ordering::Relaxed),
            written_bytes: volume.traffic.written.load(Ordering::Relaxed),
        }
    }
}

/// Identity of a volume, independent of its name, while its aggregate is open. No other volume ever
/// gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeId {
    /// The aggregate's number in this engine.
    pub aggregate: u32,
    /// The volume's number in the aggregate.
    pub volume: u32,
}

impl VolumeId {
    pub(crate) fn of(volume: &Volume) -> VolumeId {
        VolumeId {
            aggregate: volume.aggregate.id,
            volume: volume.id.0,
        }
    }
}
