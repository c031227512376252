//! Planted bugs: mistakes the product does not make, unless it is built with the feature `planted`
//! to prove that the simulation would find them (docs/contributing/house-style.md §7). Nothing else
//! may turn that feature on.
//!
//! A mistake is one line at the place where it would be made: `if planted::is(Bug::FlushSkipped)`.
//! Without the feature that is `false` at compile time, and nothing of it is left. One build has
//! all of them; which one is made is chosen at run time for the whole process. They are here, below
//! everything that can be wrong, because every crate of the data path depends on this one.

macro_rules! bugs {
    ($($(#[doc = $text:literal])+ $name:ident,)+) => {
        /// A mistake to make.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Bug {
            $($(#[doc = $text])+ $name,)+
        }

        impl Bug {
            /// All of them.
            pub const ALL: &[Bug] = &[$(Bug::$name),+];
        }
    };
}

bugs! {
    /// A consistency point does not flush the devices.
    FlushSkipped,
    /// The superblock does not wait for the flush.
    SuperblockBeforeFlush,
    /// Only one of a device's copies of the superblock is written.
    SuperblockOneCopy,
    /// The mount takes the oldest valid superblock.
    OldSuperblockWins,
    /// A mount leaves the remains of an interrupted commit in the superblock slots.
    HealingSkipped,
    /// A lost copy of a label is not written again.
    LabelCopyForgotten,
    /// A block freed in a consistency point is used again in it (Lemma 1).
    SameCpReuse,
    /// Safe copies are dropped when clients' data is cleaned, not when all is committed.
    SafeCopyDroppedEarly,
    /// Old places of map blocks are free at once instead of in the overflow file.
    OverflowDrainedEarly,
    /// The blocks of the overflow file are forgotten, not freed.
    OverflowForgotten,
    /// An area is punched before the consistency point that freed it is committed.
    PunchBeforeCommit,
    /// Changes count as durable when their consistency point begins, not when it commits.
    AcknowledgedBeforeCommit,
    /// A group of the journal counts as durable when it begins.
    GroupAcknowledgedEarly,
    /// The journal is written without asking for durability.
    JournalNotDurable,
    /// Forced unit access is ignored.
    ForceUnitAccessIgnored,
    /// `sync = always` is ignored.
    SyncAlwaysIgnored,
    /// A flush is answered at once.
    FlushAnsweredAtOnce,
    /// Discards are not logged.
    DiscardNotLogged,
    /// Operations of the next consistency point count as logged for the running one.
    JournalFrozenLate,
    /// A half of the journal is filled again while its records are needed.
    HalfReusedEarly,
    /// The reader accepts records with the payload of other records.
    TornTailAccepted,
    /// The reader accepts leftovers of earlier generations and lives as records.
    StaleRecordAccepted,
    /// If the older half of a group never arrived, the younger half leaves no trace.
    StrangersIgnored,
    /// Replay repeats its first operation after all others.
    ReplayedTwice,
    /// Replay drops the last operation.
    ReplayDropsLast,
    /// Replay ignores punches.
    ReplayIgnoresPunches,
    /// Some entries of the context map name another block.
    ContextWrong,
    /// Some container slots have a wrong tag.
    ContainerSlotWrong,
    /// Some freed blocks are not counted.
    CountersOff,
    /// Clients may use up the reserve.
    AdmissionIgnored,
    /// A LUN grows in memory only.
    GrowthLost,
    /// A deleted LUN has no entry in the hidden namespace.
    HiddenEntryLost,
    /// The new name of a LUN does not reach the directory.
    RenameForgotten,
    /// New notes of an aggregate do not reach its file.
    NotesForgotten,
    /// Some blocks of deleted files are not freed.
    DeletedFileLeaks,
    /// Some freezes drop the overlay of a stripe.
    FreezeLosesOverlay,
    /// Some freezes leave a stripe to the next consistency point.
    FreezeSkipsStripe,
    /// Reads do not look into frozen overlays.
    FrozenNotRead,
    /// Clients keep reading the tree of an earlier consistency point.
    StalePointerAccepted,
    /// Blocks are not compared with their tags.
    TagNotChecked,
    /// Some partial writes are not merged, and their block counts as lost.
    LostWithoutReason,
    /// A derived map has no bits for indirect blocks, and its tag is not checked.
    MendedByHalf,
    /// A repair goes on with the next image when its slice is over.
    RepairForgetsRest,
    /// A discard also zeroes the rest of the blocks at its edges.
    EdgesDiscarded,
    /// A reader sees parts of a discard of up to 1 MiB.
    DiscardSeenInParts,
    /// An administrator gets the answer when the consistency point begins.
    ChangeAnsweredEarly,
    /// A partial write of a block loses the rest of the block.
    PartLosesRest,
    /// Some clients that wait for a commit are never answered.
    WaiterForgotten,
    /// Some writes of a consistency point are never submitted.
    WriteForgotten,
    /// The active map changes before the parent snapshot's bits are in the summary map.
    FoldSkipped,
    /// The allocator ignores the summary map.
    SummaryIgnored,
    /// A block that a snapshot holds is punched when the active image frees it.
    FreedThoughHeld,
    /// The delete scan's cursor passes a map block before all of the block is released.
    ScanCursorAhead,
    /// The delete scan does not protect the snapmaps that it reads.
    SnapmapReleasedEarly,
    /// A deleted snapshot that joins several others leaves the history at once.
    GhostDropped,
    /// Some blocks that become exclusive to a snapshot are not counted.
    ExclusiveNotCounted,
    /// After a restore the safety snapshot counts as folded.
    UnfoldedForgotten,
    /// After a restore the active image still descends from the safety snapshot.
    RestoreForgetsParent,
    /// A restore keeps the snapshots that it should discard.
    DiscardedStays,
    /// A comparison with an image of a shrunk LUN ignores the end of the LUN.
    ChangesForgetEnd,
    /// A comparison skips unwritten changes where the trees are equal.
    ChangesSkipOverlays,
    /// Clients are not paused while a volume is restored.
    PauseMissing,
    /// After a restore clients still read the trees of the old image.
    RestoreShowsOldRoots,
    /// A snapshot with holds can be deleted.
    HoldIgnored,
    /// A snapshot's record overwrites the record of another one.
    RecordSlotReused,
    /// A snapshot also shows later writes.
    ImageShowsOverlays,
    /// After a scan changed the maps, the engine uses its old knowledge of who holds blocks.
    HeldNotRefreshed,
    /// The delete scan skips map blocks that only one neighbour shares.
    SharedSubtreeSkipped,
    /// Blocks of deleted snapmaps that the active image took over stay in the summary map.
    OwnedStaysInSummary,
    /// Snapshots and volumes that clones need can be deleted.
    BaseNotLocked,
    /// A clone does not know that its image descends from its base.
    CloneForgetsBase,
    /// A split moves its cursor beyond the slots that it filled.
    SplitCursorAhead,
    /// A split releases the base before it has copied everything.
    SplitLetsGoEarly,
    /// A split copies only blocks of the active image, not those that only the base holds.
    SplitLeavesHoles,
    /// A block that is not where its pointer says is not looked for elsewhere.
    RedirectMissing,
    /// Restoring a LUN adds no edge to the history.
    LunRestoreForgetsEdge,
    /// Blocks that a restored LUN takes back still count as exclusive to the snapshot.
    LunRestoreNotCounted,
    /// A deleted snapshot is released although the summary map lacks blocks of it.
    VictimNotFolded,
    /// Deletion by addition forgets one of the snapshots that stay.
    SurvivorForgotten,
    /// Some blocks that a LUN's clone shares are not counted.
    CountNotTaken,
    /// Some blocks with several references are freed with the first of them.
    FreedAtFirst,
    /// A restored volume forgets which of its blocks are shared.
    RestoreForgetsCounts,
    /// Blocks that a restored LUN shares with its clones get no count.
    LunRestoreIgnoresCounts,
    /// The snapshot that a LUN is cloned from can be released during the cloning.
    CloneSourceReleased,
    /// After a new snapshot, the active image has no edge to the source of a running LUN clone.
    LunCloneForgetsEdge,
    /// A LUN's clone leaves out one level-1 block after each step.
    LunCloneCursorAhead,
    /// When an aggregate becomes read-only, what its consistency point was writing is not read any
    /// more.
    ReadOnlyForgetsFrozen,
    /// A flush of a read-only aggregate is answered although something is in memory only.
    ReadOnlyFlushAnswered,
}

#[cfg(feature = "planted")]
mod switch {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::Bug;

    /// One more than the number of the bug; zero is none.
    static CURRENT: AtomicUsize = AtomicUsize::new(0);
    static TICKET: AtomicUsize = AtomicUsize::new(0);

    /// From now on this mistake is made, or none.
    pub fn plant(bug: Option<Bug>) {
        CURRENT.store(bug.map_or(0, |bug| bug as usize + 1), Ordering::Relaxed);
        TICKET.store(0, Ordering::Relaxed);
    }

    /// True if this mistake is to be made.
    #[must_use]
    pub fn is(bug: Bug) -> bool {
        CURRENT.load(Ordering::Relaxed) == bug as usize + 1
    }

    /// True if this mistake is to be made this time: every sixteenth.
    #[must_use]
    pub fn is_now(bug: Bug) -> bool {
        is(bug) && TICKET.fetch_add(1, Ordering::Relaxed) % 16 == 15
    }
}

#[cfg(not(feature = "planted"))]
mod switch {
    use super::Bug;

    /// No mistake is made.
    #[must_use]
    #[inline(always)]
    pub const fn is(_bug: Bug) -> bool {
        false
    }

    /// No mistake is made.
    #[must_use]
    #[inline(always)]
    pub const fn is_now(_bug: Bug) -> bool {
        false
    }
}

pub use switch::*;
