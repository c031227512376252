//! Planted bugs: mistakes the product does not make, unless it is built with the feature `planted` to prove
//! that the simulation would find them (house style §7). Nothing else may turn that feature on.
//!
//! A mistake is one line at the place where it would be made: `if planted::is(Bug::FlushSkipped)`. Without the
//! feature that is `false` at compile time, and nothing of it is left. One build has all of them; which one is
//! made is chosen at run time for the whole process. They are here, below everything that can be wrong,
//! because every crate of the data path depends on this one.

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
    /// Of valid superblocks the oldest is mounted.
    OldSuperblockWins,
    /// What an interrupted commit left in the superblock slots stays there.
    HealingSkipped,
    /// A block freed in a consistency point is used again in it (Lemma 1).
    SameCpReuse,
    /// Safe copies are dropped when clients' data is cleaned, not when all is committed.
    SafeCopyDroppedEarly,
    /// Old places of map blocks are free at once instead of in the overflow file.
    OverflowDrainedEarly,
    /// What the overflow file owns is forgotten, not freed.
    OverflowForgotten,
    /// An area is given back to the host before the consistency point that freed it is committed.
    PunchBeforeCommit,
    /// What a consistency point began with counts as durable, committed or not.
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
    /// Operations of the next consistency point count as logged for the one that runs.
    JournalFrozenLate,
    /// A half of the journal is filled again while its records are needed.
    HalfReusedEarly,
    /// Records are accepted whose payload is not theirs.
    TornTailAccepted,
    /// Leftovers of earlier generations and lives are accepted as records.
    StaleRecordAccepted,
    /// The younger half of a group of which the older never arrived leaves no trace.
    StrangersIgnored,
    /// The first operation of a replay is done again after the others.
    ReplayedTwice,
    /// The last operation that is read back is not done again.
    ReplayDropsLast,
    /// Punches are not done again.
    ReplayIgnoresPunches,
    /// Entries of the context map name another block now and then.
    ContextWrong,
    /// Slots of containers have a wrong tag now and then.
    ContainerSlotWrong,
    /// Blocks that are freed are not always counted.
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
    /// A freeze drops the overlay of a stripe now and then.
    FreezeLosesOverlay,
    /// A freeze leaves a stripe to the next consistency point now and then.
    FreezeSkipsStripe,
    /// Reads do not look into frozen overlays.
    FrozenNotRead,
    /// Clients keep reading the tree of an earlier consistency point.
    StalePointerAccepted,
    /// Blocks are not compared with their tags.
    TagNotChecked,
    /// A part of a block is not merged with the rest now and then, and the block counts as lost.
    LostWithoutReason,
    /// A map that is derived again lacks indirect blocks, and nobody compares it with its tag.
    MendedByHalf,
    /// A discard takes the blocks at its edges too.
    EdgesDiscarded,
    /// A discard of up to 1 MiB is seen in parts.
    DiscardSeenInParts,
    /// An administrator is answered when a consistency point begins.
    ChangeAnsweredEarly,
    /// What a write of a part of a block does not cover is lost.
    PartLosesRest,
    /// Somebody who waits for a commit is forgotten now and then.
    WaiterForgotten,
    /// A write of a consistency point is forgotten now and then.
    WriteForgotten,
    /// What the parent snapshot holds does not go into the summary map before the active map changes.
    FoldSkipped,
    /// Allocation does not look at the summary map.
    SummaryIgnored,
    /// A block that a snapshot holds is punched when the active image frees it.
    FreedThoughHeld,
    /// The delete scan's cursor is at the end of a map block when some of it has yet to be released.
    ScanCursorAhead,
    /// The delete scan does not protect the snapmaps that it reads.
    SnapmapReleasedEarly,
    /// A deleted snapshot that joins several others leaves the history at once.
    GhostDropped,
    /// Blocks that become exclusive to a snapshot are not counted now and then.
    ExclusiveNotCounted,
    /// After a restore the safety snapshot counts as folded.
    UnfoldedForgotten,
    /// After a restore the active image still descends from the safety snapshot.
    RestoreForgetsParent,
    /// Snapshots that a restore is to discard stay.
    DiscardedStays,
    /// What changed since an image that was shrunk is looked for as if it had not been.
    ChangesForgetEnd,
    /// Changes that no consistency point has written are skipped where the trees are the same.
    ChangesSkipOverlays,
    /// Clients go on while a volume is restored.
    PauseMissing,
    /// After a restore clients keep reading the trees of the image before.
    RestoreShowsOldRoots,
    /// A snapshot with holds can be deleted.
    HoldIgnored,
    /// A snapshot's record takes the place of another.
    RecordSlotReused,
    /// A snapshot shows what was written after it, too.
    ImageShowsOverlays,
    /// What is known of who holds blocks is not loaded again after a scan changed it.
    HeldNotRefreshed,
    /// The delete scan skips map blocks that one neighbour shares, as if two did.
    SharedSubtreeSkipped,
    /// Blocks of deleted snapmaps that the active image took over stay in the summary map.
    OwnedStaysInSummary,
    /// Snapshots and volumes that clones need can be deleted.
    BaseNotLocked,
    /// A clone does not know that its image descends from its base.
    CloneForgetsBase,
    /// A split says that it is further than the slots it filled.
    SplitCursorAhead,
    /// A clone lets go of its base before it has copied all of it.
    SplitLetsGoEarly,
    /// A split copies only what the active image has, not what the base alone holds.
    SplitLeavesHoles,
    /// What is not where a pointer says is not looked for anywhere else.
    RedirectMissing,
    /// A restored LUN's blocks come back without an edge in the history.
    LunRestoreForgetsEdge,
    /// What a restored LUN takes back stays exclusive to the snapshot.
    LunRestoreNotCounted,
    /// A deleted snapshot is released although the summary map lacks blocks of it.
    VictimNotFolded,
    /// Deletion by addition forgets one of those who stay.
    SurvivorForgotten,
    /// A LUN's clone shares a block without counting it now and then.
    CountNotTaken,
    /// A block that has more references is freed with the first one that goes, now and then.
    FreedAtFirst,
    /// A restored volume does not know that blocks of its image are shared.
    RestoreForgetsCounts,
    /// What a restored LUN shares with its clones gets no count.
    LunRestoreIgnoresCounts,
    /// While a LUN is cloned, the snapshot it is read from can be released.
    CloneSourceReleased,
    /// After a snapshot was taken the active image has no edge to the one that a LUN is being cloned from.
    LunCloneForgetsEdge,
    /// A LUN's clone leaves out a level-1 block after each step.
    LunCloneCursorAhead,
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
