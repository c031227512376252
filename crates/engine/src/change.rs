//! Changes that administrators ask of an aggregate, and the reasons why a change is refused.

use std::collections::BTreeMap;

use everglade_affinity::{Affinities, Stranded};
use everglade_env::DeviceId;
use everglade_env::lock::Mutex;
use everglade_format::volume::Sync;

use crate::media::next::NextGeometry;
use crate::tree::notes;

/// A scrub that was not over when its aggregate was closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EarlierScrub {
    /// Block numbers up to which it had read everything.
    pub read_blocks: u64,
    /// Copies of blocks that it had read.
    pub read_copies: u64,
    /// Blocks that it had found wrong on one drive, and right on another.
    pub wrong_blocks: u64,
    /// Blocks that it had found right on no drive.
    pub lost_blocks: u64,
    /// When it began, in seconds since 1970 UTC.
    pub begun_seconds: u64,
}

/// A change to what an aggregate holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Adds a volume.
    CreateVolume {
        /// Unique in the daemon.
        name: String,
        /// When its writes count as done.
        sync: Sync,
    },
    /// Removes a volume with all its LUNs. Space returns in the background.
    DeleteVolume {
        /// Name of the new volume or of the volume to change.
        name: String,
    },
    /// Gives a volume another name.
    RenameVolume {
        /// Name of the volume.
        name: String,
        /// Unique in the daemon.
        to: String,
    },
    /// Says when the writes of a volume count as done from now on.
    SetSync {
        /// Name of the volume.
        volume: String,
        /// When its writes count as done.
        sync: Sync,
    },
    /// Renames the aggregate. The caller keeps names of aggregates distinct.
    RenameAggregate {
        /// The new one.
        to: String,
    },
    /// Stops using a drive of a mirror, as if it had failed: the config record says that it is
    /// behind. It is not used again before the aggregate is opened anew.
    TakeOut {
        /// The drive; another one of its mirror must have everything.
        device: DeviceId,
    },
    /// Makes the devices that were prepared members of the aggregate, or takes what members became
    /// larger by, or gives the seat of a drive that is out to the one that was prepared for it.
    Grow {
        /// The result of [`crate::Engine::prepare_growth`].
        next: NextGeometry,
    },
    /// Removes a member, with its whole group, after its blocks have moved to the others. Watch
    /// [`crate::AggregateInfo::removal`] and the members for the end.
    StartRemoval {
        /// Index of the member in [`crate::AggregateInfo::members`].
        member: u32,
    },
    /// Lets all members stay that are being removed.
    StopRemoval,
    /// Replaces the text that administrators' programs keep in the aggregate.
    SetNotes {
        /// At most [`everglade_format::notes::NOTES_BYTES_MAX`] bytes.
        text: Vec<u8>,
    },
    /// Adds a LUN.
    CreateLun {
        /// Volume of the LUN.
        volume: String,
        /// Unique in the volume.
        name: String,
        /// A multiple of the block size.
        size_bytes: u64,
    },
    /// Removes a LUN. Space returns in the background.
    DeleteLun {
        /// Volume of the LUN.
        volume: String,
        /// Name of the LUN.
        name: String,
    },
    /// Puts a LUN into the trash: clients find it no more, and it keeps its blocks.
    TrashLun {
        /// Volume of the LUN.
        volume: String,
        /// Name of the LUN.
        name: String,
    },
    /// Takes a LUN out of the trash.
    UndeleteLun {
        /// Volume of the LUN.
        volume: String,
        /// File of the LUN: [`crate::TrashInfo::lun`].
        lun: u32,
        /// Unique in the volume.
        name: String,
    },
    /// Removes a LUN that is in the trash. Space returns in the background.
    PurgeLun {
        /// Volume of the LUN.
        volume: String,
        /// File of the LUN.
        lun: u32,
    },
    /// Puts a volume into the trash, with all that it has.
    TrashVolume {
        /// Name of the volume.
        name: String,
    },
    /// Takes a volume out of the trash.
    UndeleteVolume {
        /// Number of the volume: [`crate::TrashInfo::volume`].
        volume: u32,
        /// Unique in the daemon.
        name: String,
    },
    /// Removes a volume that is in the trash. Space returns in the background.
    PurgeVolume {
        /// Number of the volume.
        volume: u32,
    },
    /// Gives a LUN another name.
    RenameLun {
        /// Volume of the LUN.
        volume: String,
        /// Name of the LUN.
        name: String,
        /// Unique in the volume.
        to: String,
    },
    /// Cuts off the end of a LUN, with its data. Space returns in the background.
    ShrinkLun {
        /// Volume of the LUN.
        volume: String,
        /// Name of the LUN.
        name: String,
        /// A multiple of the block size, not above the present size.
        size_bytes: u64,
    },
    /// Makes a LUN larger. Waits until the blocks that an earlier shrink cut off are freed.
    GrowLun {
        /// Volume of the LUN.
        volume: String,
        /// Name of the LUN.
        name: String,
        /// A multiple of the block size, not below the present size.
        size_bytes: u64,
    },
    /// Takes a snapshot (F-01).
    CreateSnapshot {
        /// Volume of the snapshot.
        volume: String,
        /// Unique among the volume's snapshots.
        name: String,
    },
    /// Gives a snapshot another name.
    RenameSnapshot {
        /// Volume of the snapshot.
        volume: String,
        /// Name of the snapshot.
        name: String,
        /// Unique among the volume's snapshots.
        to: String,
    },
    /// Removes a snapshot. Space returns in the background.
    DeleteSnapshot {
        /// Volume of the snapshot.
        volume: String,
        /// Name of the snapshot.
        name: String,
    },
    /// Puts a snapshot into the trash: clients find it no more, and it keeps its blocks.
    TrashSnapshot {
        /// Volume of the snapshot.
        volume: String,
        /// Name of the snapshot.
        name: String,
    },
    /// Takes a snapshot out of the trash.
    UndeleteSnapshot {
        /// Volume of the snapshot.
        volume: String,
        /// Number of the snapshot: [`crate::TrashInfo::snapshot`].
        snapshot: u32,
        /// Unique among the volume's snapshots.
        name: String,
    },
    /// Removes a snapshot that is in the trash. Space returns in the background.
    PurgeSnapshot {
        /// Volume of the snapshot.
        volume: String,
        /// Number of the snapshot.
        snapshot: u32,
    },
    /// Keeps a snapshot from being deleted.
    HoldSnapshot {
        /// Volume of the snapshot.
        volume: String,
        /// Name of the snapshot.
        name: String,
        /// The reason; unique among the snapshot's holds.
        tag: String,
    },
    /// Takes a hold away.
    ReleaseSnapshot {
        /// Volume of the snapshot.
        volume: String,
        /// Name of the snapshot.
        name: String,
        /// Tag of the hold.
        tag: String,
    },
    /// Adds a volume that begins as the image of a snapshot.
    CloneVolume {
        /// Unique in the daemon.
        name: String,
        /// The volume that has the snapshot.
        parent: String,
        /// Snapshot of the volume.
        snapshot: String,
    },
    /// Gives a clone blocks of its own for all that it shares with its base, in the background.
    /// Then it is no clone.
    StartSplit {
        /// Name of the clone.
        volume: String,
    },
    /// Stops a split. Copied blocks stay, and the next start resumes there.
    StopSplit {
        /// Name of the clone.
        volume: String,
    },
    /// Restores a LUN from a snapshot, and leaves the rest of the volume alone. The active content
    /// before the restore stays as another snapshot.
    RestoreLun {
        /// Volume of the LUN.
        volume: String,
        /// Snapshot to restore from.
        snapshot: String,
        /// Present name of the LUN. If the LUN was deleted, its name in the snapshot: the restore
        /// brings it back.
        lun: String,
        /// Name of the snapshot that is taken of the present image.
        safety: String,
    },
    /// Makes another LUN that begins with the same blocks, in the background. The change is done
    /// when this job has begun.
    CloneLun {
        /// Volume of the LUN.
        volume: String,
        /// Name of the source LUN.
        lun: String,
        /// Unique in the volume.
        name: String,
        /// Snapshot to clone from; the active LUN if there is none.
        from: Option<String>,
    },
    /// Cancels a LUN clone job. The space it took returns in the background.
    CancelLunClone {
        /// Volume of the LUN.
        volume: String,
        /// Name of the LUN that the job makes.
        name: String,
    },
    /// Reads all metadata that can be derived from other metadata, and replaces damaged blocks, in
    /// the background.
    StartRepair,
    /// Begins to read every block in use from every drive, or goes on with it.
    StartScrub {
        /// A scrub that ended with the last closing of the aggregate, to go on with if there was
        /// none since.
        earlier: Option<EarlierScrub>,
    },
    /// Lets that wait.
    PauseScrub,
    /// Moves blocks out of areas of which at least this part is free, so that these become free as
    /// a whole.
    StartCleaning {
        /// In percent, 1 to 100.
        least_free_percent: u8,
    },
    /// Puts the blocks of a LUN in the order of the LUN.
    StartLayout {
        /// Volume of the LUN.
        volume: String,
        /// Name of the LUN.
        lun: String,
        /// Runs are counted, and nothing is moved.
        is_estimate: bool,
    },
    /// Moves blocks from fuller devices to emptier ones, until all are about equally full.
    StartRebalance,
    /// Counts the blocks in use of all areas, and the free runs.
    MapSpace,
    /// Ends all work of the gardener. Blocks that were moved stay where they are.
    StopGardening,
    /// Ends a repair. Blocks that it has mended stay mended.
    StopRepair,
    /// Holds the scans of a volume's snapshots back, or lets them go on.
    SetScanPace {
        /// Name of the volume.
        volume: String,
        /// Share of a consistency point's budget for the scans, 0 to 100; at 0 the scans rest.
        percent: u8,
    },
    /// Makes the image of a snapshot the active one. What was active stays as another snapshot, and
    /// newer snapshots stay too.
    RestoreVolume {
        /// Name of the volume.
        volume: String,
        /// Snapshot to restore.
        snapshot: String,
        /// Name of the snapshot that is taken of the present image.
        safety: String,
    },
    /// Makes the image of a snapshot the active image, and deletes all newer snapshots and the
    /// former active image. The whole change happens, or nothing.
    RollBackVolume {
        /// Name of the volume.
        volume: String,
        /// Snapshot to roll back to.
        snapshot: String,
        /// The snapshots that are newer. If there are others, or one of them has to stay, nothing
        /// happens.
        discards: Vec<String>,
    },
}

impl Change {
    /// True for a deletion. A client that requests several deletions in a row is served better if
    /// one consistency point does all of them, and no client uses deleted objects.
    pub(crate) fn is_deletion(&self) -> bool {
        matches!(
            self,
            Change::DeleteVolume { .. }
                | Change::DeleteLun { .. }
                | Change::DeleteSnapshot { .. }
                | Change::TrashLun { .. }
                | Change::TrashVolume { .. }
                | Change::TrashSnapshot { .. }
                | Change::PurgeLun { .. }
                | Change::PurgeVolume { .. }
                | Change::PurgeSnapshot { .. }
        )
    }

    /// True if clients see more afterwards: what the journal has for that is of no use before the
    /// change is committed.
    pub(crate) fn shows_more(&self) -> bool {
        let is_undelete = matches!(
            self,
            Change::UndeleteLun { .. } | Change::UndeleteVolume { .. }
        );
        is_undelete || self.growth() > 0
    }

    /// Most blocks that the change adds to what is in use for good (docs/design/design.md §8): a
    /// volume has its superblock, metafiles and first blocks of the container; a LUN may begin a
    /// block of inodes and one of names.
    pub(crate) fn growth(&self) -> u64 {
        match self {
            Change::CreateVolume { .. } | Change::CloneVolume { .. } => 32,
            // Side files, a record, and what the summary map begins with.
            Change::CreateSnapshot { .. }
            | Change::RestoreVolume { .. }
            | Change::RollBackVolume { .. }
            | Change::RestoreLun { .. }
            | Change::CloneLun { .. } => 16,
            Change::CreateLun { .. } | Change::GrowLun { .. } => 4,
            // Assumes that no notes exist yet.
            Change::SetNotes { text } => notes::blocks(text.len()) + 2,
            Change::DeleteVolume { .. }
            | Change::DeleteLun { .. }
            | Change::TrashLun { .. }
            | Change::UndeleteLun { .. }
            | Change::PurgeLun { .. }
            | Change::TrashVolume { .. }
            | Change::UndeleteVolume { .. }
            | Change::PurgeVolume { .. }
            | Change::TrashSnapshot { .. }
            | Change::UndeleteSnapshot { .. }
            | Change::PurgeSnapshot { .. }
            | Change::ShrinkLun { .. }
            | Change::RenameAggregate { .. }
            | Change::Grow { .. }
            | Change::TakeOut { .. }
            | Change::RenameVolume { .. }
            | Change::SetSync { .. }
            | Change::RenameLun { .. }
            | Change::RenameSnapshot { .. }
            | Change::DeleteSnapshot { .. }
            | Change::HoldSnapshot { .. }
            | Change::CancelLunClone { .. }
            | Change::StartRepair
            | Change::StartScrub { .. }
            | Change::PauseScrub
            | Change::StartCleaning { .. }
            | Change::StartLayout { .. }
            | Change::StartRebalance
            | Change::MapSpace
            | Change::StopGardening
            | Change::StartRemoval { .. }
            | Change::StopRemoval
            | Change::StopRepair
            | Change::SetScanPace { .. }
            | Change::StartSplit { .. }
            | Change::StopSplit { .. }
            | Change::ReleaseSnapshot { .. } => 0,
        }
    }
}

impl Change {
    /// True if the change is refused instead of waiting for space that other deletions free, which
    /// may take long: the requester holds objects that others wait for.
    pub(crate) fn is_impatient(&self) -> bool {
        matches!(self, Change::SetNotes { .. })
    }
}

/// The reason why a change was refused. Nothing was changed, unless the variant says that the
/// result is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The name is taken.
    #[error("{0} exists already; choose another name")]
    Exists(String),
    /// No object has this name.
    #[error("there is no {0}")]
    NotFound(String),
    /// The value of a field is not valid.
    #[error("{field}: {problem}")]
    Invalid {
        /// Name of the field.
        field: &'static str,
        /// The problem, and a valid value.
        problem: String,
    },
    /// The pool, or the host below it, is full.
    #[error(
        "no space left in the pool; delete or discard something first, or make the aggregate larger"
    )]
    NoSpace,
    /// The object is in use, or another change of it is under way.
    #[error("{0}")]
    Busy(String),
    /// The change would exceed a limit.
    #[error("{0}")]
    Limit(String),
    /// The aggregate cannot be changed now.
    #[error("{0}")]
    Unavailable(String),
    /// The aggregate can be read and not changed, until it is repaired.
    #[error("{0}")]
    ReadOnly(String),
    /// The superblock with the change was sent to the devices, and the aggregate failed before all
    /// had it: the next start finds the change made or not.
    #[error("{0}")]
    Unknown(String),
}

/// A change on its way to the freeze.
pub(crate) struct Request {
    pub(crate) change: Change,
    pub(crate) reactor: usize,
    pub(crate) token: u64,
}

impl Request {
    /// Returns a request without a waiting caller.
    pub(crate) fn of_nobody(change: Change) -> Request {
        Request {
            change,
            reactor: usize::MAX,
            token: 0,
        }
    }
}

/// Inputs of a change besides the aggregate.
pub(crate) struct Context<'a> {
    pub(crate) affinities: &'a Affinities<u64>,
    /// Volume names of the daemon, with the aggregates that have them.
    pub(crate) names: &'a Mutex<BTreeMap<String, u32>>,
    /// Operations that waited for a stripe that is no more.
    pub(crate) stranded: &'a mut Vec<Stranded<u64>>,
    pub(crate) seconds: u64,
    pub(crate) reclaim_regions: u64,
    /// Share of the budget for reclaiming that this change may use; at 0 deleted objects wait for a
    /// later consistency point.
    pub(crate) reclaim_budget: u64,
    /// New snapshots are scanned.
    pub(crate) create_scan: bool,
    /// LUNs that a step of cleaning takes at most.
    pub(crate) luns_together: usize,
    pub(crate) stage_blocks: usize,
}
