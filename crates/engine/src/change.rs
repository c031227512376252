//! Changes that administrators ask of an aggregate, and the reasons why a change is refused.

use std::collections::BTreeMap;

use everglade_affinity::{Affinities, Stranded};
use everglade_env::lock::Mutex;
use everglade_format::volume::Sync;

use crate::tree::notes;

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
        /// Which.
        name: String,
    },
    /// Gives a volume another name.
    RenameVolume {
        /// Which.
        name: String,
        /// Unique in the daemon.
        to: String,
    },
    /// Gives the aggregate another name. Names of aggregates are kept apart by whoever names them.
    RenameAggregate {
        /// The new one.
        to: String,
    },
    /// Replaces the text that administrators' programs keep in the aggregate.
    SetNotes {
        /// At most [`everglade_format::notes::NOTES_BYTES_MAX`] bytes.
        text: Vec<u8>,
    },
    /// Adds a LUN.
    CreateLun {
        /// Where.
        volume: String,
        /// Unique in the volume.
        name: String,
        /// A multiple of the block size.
        size_bytes: u64,
    },
    /// Removes a LUN. Space returns in the background.
    DeleteLun {
        /// Where.
        volume: String,
        /// Which.
        name: String,
    },
    /// Gives a LUN another name.
    RenameLun {
        /// Where.
        volume: String,
        /// Which.
        name: String,
        /// Unique in the volume.
        to: String,
    },
    /// Cuts off the end of a LUN, with what is there. Space returns in the background.
    ShrinkLun {
        /// Where.
        volume: String,
        /// Which.
        name: String,
        /// A multiple of the block size, not above the present size.
        size_bytes: u64,
    },
    /// Makes a LUN larger. Waits until what was cut off of it before is gone.
    GrowLun {
        /// Where.
        volume: String,
        /// Which.
        name: String,
        /// A multiple of the block size, not below the present size.
        size_bytes: u64,
    },
    /// Takes a snapshot (F-01).
    CreateSnapshot {
        /// Of which volume.
        volume: String,
        /// Unique among the volume's snapshots.
        name: String,
    },
    /// Gives a snapshot another name.
    RenameSnapshot {
        /// Of which volume.
        volume: String,
        /// Which.
        name: String,
        /// Unique among the volume's snapshots.
        to: String,
    },
    /// Removes a snapshot. Space returns in the background.
    DeleteSnapshot {
        /// Of which volume.
        volume: String,
        /// Which.
        name: String,
    },
    /// Keeps a snapshot from being deleted.
    HoldSnapshot {
        /// Of which volume.
        volume: String,
        /// Which.
        name: String,
        /// The reason; unique among the snapshot's holds.
        tag: String,
    },
    /// Takes a hold away.
    ReleaseSnapshot {
        /// Of which volume.
        volume: String,
        /// Which.
        name: String,
        /// Which hold.
        tag: String,
    },
    /// Adds a volume that begins as the image of a snapshot.
    CloneVolume {
        /// Unique in the daemon.
        name: String,
        /// The volume that has the snapshot.
        parent: String,
        /// Which of its snapshots.
        snapshot: String,
    },
    /// Gives a clone blocks of its own for all that it shares with its base, in the background.
    /// Then it is no clone.
    StartSplit {
        /// Which clone.
        volume: String,
    },
    /// Stops that. What was copied stays, and the next start goes on from there.
    StopSplit {
        /// Which clone.
        volume: String,
    },
    /// Makes a LUN what it was in a snapshot, and leaves the rest of the volume alone. What was
    /// active stays as another snapshot.
    RestoreLun {
        /// Of which volume.
        volume: String,
        /// From which of its snapshots.
        snapshot: String,
        /// Which LUN; one that was deleted comes back.
        lun: String,
        /// Name of the snapshot that is taken of the present image.
        safety: String,
    },
    /// Makes another LUN that begins with the same blocks, in the background. Done when that has
    /// begun.
    CloneLun {
        /// Of which volume.
        volume: String,
        /// Which LUN.
        lun: String,
        /// Unique in the volume.
        name: String,
        /// As it was in which snapshot; as it is if there is none.
        from: Option<String>,
    },
    /// Ends the making of a LUN's clone. What it took comes back in the background.
    CancelLunClone {
        /// Of which volume.
        volume: String,
        /// The name it was to get.
        name: String,
    },
    /// Reads all metadata that can be derived from other metadata, and replaces damaged blocks, in
    /// the background.
    StartRepair,
    /// Ends that. What was mended stays so.
    StopRepair,
    /// Holds the scans of a volume's snapshots back, or lets them go on.
    SetScanPace {
        /// Which volume.
        volume: String,
        /// Of what a consistency point may do for them, 0 to 100; at 0 they rest.
        percent: u8,
    },
    /// Makes the image of a snapshot the active one. What was active stays as another snapshot, and
    /// newer snapshots stay too.
    RestoreVolume {
        /// Which volume.
        volume: String,
        /// To which of its snapshots.
        snapshot: String,
        /// Name of the snapshot that is taken of the present image.
        safety: String,
    },
    /// Makes the image of a snapshot the active image, and deletes all newer snapshots and the
    /// former active image. The whole change happens, or nothing.
    RollBackVolume {
        /// Which volume.
        volume: String,
        /// To which of its snapshots.
        snapshot: String,
        /// The snapshots that are newer. If there are others, or one of them has to stay, nothing
        /// happens.
        discards: Vec<String>,
    },
}

impl Change {
    /// True for what takes something away: whoever asks for many of these one after the other is
    /// better served if they come together, and nobody uses what they leave.
    pub(crate) fn is_deletion(&self) -> bool {
        matches!(
            self,
            Change::DeleteVolume { .. } | Change::DeleteLun { .. } | Change::DeleteSnapshot { .. }
        )
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
            // As if none of it were there already.
            Change::SetNotes { text } => notes::blocks(text.len()) + 2,
            Change::DeleteVolume { .. }
            | Change::DeleteLun { .. }
            | Change::ShrinkLun { .. }
            | Change::RenameAggregate { .. }
            | Change::RenameVolume { .. }
            | Change::RenameLun { .. }
            | Change::RenameSnapshot { .. }
            | Change::DeleteSnapshot { .. }
            | Change::HoldSnapshot { .. }
            | Change::CancelLunClone { .. }
            | Change::StartRepair
            | Change::StopRepair
            | Change::SetScanPace { .. }
            | Change::StartSplit { .. }
            | Change::StopSplit { .. }
            | Change::ReleaseSnapshot { .. } => 0,
        }
    }
}

impl Change {
    /// True if it is refused rather than kept waiting for space that others give back, which may
    /// take long: whoever asks holds what others wait for.
    pub(crate) fn is_impatient(&self) -> bool {
        matches!(self, Change::SetNotes { .. })
    }
}

/// Why a change was refused. Nothing was changed, except where it says that nobody knows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The name is taken.
    #[error("{0} exists already; choose another name")]
    Exists(String),
    /// Nothing has this name.
    #[error("there is no {0}")]
    NotFound(String),
    /// The value cannot be.
    #[error("{field}: {problem}")]
    Invalid {
        /// Which value.
        field: &'static str,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// The pool, or the host below it, is full.
    #[error(
        "no space left in the pool; delete or discard something first, or make another aggregate"
    )]
    NoSpace,
    /// Somebody uses it, or something else is happening to it.
    #[error("{0}")]
    Busy(String),
    /// There is a most, and this would be more.
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
    /// A change that nobody waits for.
    pub(crate) fn of_nobody(change: Change) -> Request {
        Request {
            change,
            reactor: usize::MAX,
            token: 0,
        }
    }
}

/// What executing a change needs besides the aggregate.
pub(crate) struct Context<'a> {
    pub(crate) affinities: &'a Affinities<u64>,
    /// Volume names of the daemon, with the aggregates that have them.
    pub(crate) names: &'a Mutex<BTreeMap<String, u32>>,
    /// Operations that waited for a stripe that is no more.
    pub(crate) stranded: &'a mut Vec<Stranded<u64>>,
    pub(crate) seconds: u64,
    pub(crate) reclaim_regions: u64,
    /// What this one may do of it; 0: what was deleted waits for a later one.
    pub(crate) reclaim_budget: u64,
    /// New snapshots are scanned.
    pub(crate) create_scan: bool,
}
