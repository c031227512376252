//! Problems: the object, the place, the expected state, the state found.

use std::fmt;
use std::sync::Arc;

use everglade_env::DeviceId;
use everglade_format::{Dbn, FileId, Pointer, Pvbn, Vvbn};

macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident $name:literal $class:ident;)*) => {
        /// Kinds of problems. Their names are stable: scripts may depend on them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Kind { $($(#[$doc])* $variant,)* }

        impl Kind {
            /// Every kind.
            pub const ALL: &'static [Kind] = &[$(Kind::$variant,)*];

            /// The stable name.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Kind::$variant => $name,)* }
            }

            /// True for what an interrupted write may leave behind: worth telling, not damage.
            #[must_use]
            pub fn is_warning(self) -> bool {
                match self { $(Kind::$variant => kinds!(@ $class),)* }
            }
        }
    };
    (@ problem) => { false };
    (@ warning) => { true };
}

kinds! {
    /// A copy of the config record of the superblock's epoch is missing or does not decode, but
    /// another does. A superblock names an epoch only when all records of it are durable: no
    /// interrupted write leaves this.
    LabelDamaged "label-damaged" problem;
    /// An older config record is in the slot of the superblock's epoch.
    LabelStale "label-stale" problem;
    /// Two config records of the superblock's epoch say different things.
    LabelCopiesDiffer "label-copies-differ" problem;
    /// A config record is in the slot of another epoch.
    LabelSlot "label-slot" problem;
    /// A change of the aggregate's devices was cut: a config record of the next epoch, whole or
    /// torn, that no superblock names. It has no effect.
    ChangeCut "change-cut" warning;
    /// A device that was given is no member of the aggregate.
    NoMember "no-member" warning;
    /// The config record contradicts the record of the epoch before: a change may only append
    /// members and extents, and make members larger.
    ChangeWrong "change-wrong" problem;
    /// Two extents, or an extent and a label, share blocks of a member.
    ExtentsCollide "extents-collide" problem;
    /// A superblock does not decode, but another does.
    SuperblockDamaged "superblock-damaged" warning;
    /// A copy of the newest superblock was not written.
    SuperblockStale "superblock-stale" warning;
    /// Two superblocks of the newest consistency point say different things.
    SuperblockCopiesDiffer "superblock-copies-differ" problem;
    /// A superblock is in the slot of another consistency point.
    SuperblockSlot "superblock-slot" problem;
    /// There is no config record of the superblock's epoch.
    EpochAhead "epoch-ahead" problem;
    /// A config record proves that a newer superblock was lost: a change begins only when all
    /// members have the superblock of the change before.
    EpochBehind "epoch-behind" problem;
    /// The newest superblock of a member is older than a power cut explains.
    MemberBehind "member-behind" problem;
    /// The config record says that a copy of a group missed writes. Nothing on it is read or
    /// compared, except who it is.
    CopyBehind "copy-behind" warning;
    /// A member that is behind was written without any of the members that are read: each side has
    /// writes that the other lacks.
    CopySplit "copy-split" problem;
    /// The device of a current copy was not given. Its group can spare it.
    CopyAbsent "copy-absent" warning;
    /// The device of a current copy has no label, missed a change, or became smaller. Its group can
    /// spare it, so nothing on it is read or compared.
    CopyUnfit "copy-unfit" problem;
    /// A block is wrong or unreadable on one drive of a group, and right on another. Reads take the
    /// right one, which can be written over the wrong one.
    CopyWrong "copy-wrong" problem;
    /// Parity does not go with the data of a stripe that has a block in use, and the RAID log does
    /// not explain it.
    ParityWrong "parity-wrong" problem;
    /// The config record gives the journal a place that does not exist.
    JournalRegion "journal-region" problem;
    /// The journal ends with a record that is not whole, as a power cut leaves it.
    JournalTorn "journal-torn" warning;
    /// A record of the journal was sealed, and says what cannot be.
    JournalDamaged "journal-damaged" problem;
    /// The journal holds a record that begins where the superblock's consistency point has none: a
    /// newer superblock is missing.
    JournalAhead "journal-ahead" problem;
    /// Two copies of the journal have different records in the same place.
    JournalCopiesDiffer "journal-copies-differ" problem;
    /// The device cannot read a block.
    ReadError "read-error" problem;
    /// A block's content is not what the pointer to it expects.
    TagMismatch "tag-mismatch" problem;
    /// A block's header names another block.
    HeaderMismatch "header-mismatch" problem;
    /// A block, inode or volume is stamped later than the superblock.
    StampAhead "stamp-ahead" problem;
    /// A block could not be read when it was needed, and was given up: reading it is an error until
    /// it is written again.
    Lost "lost" warning;
    /// Bytes that are no pointer.
    PointerInvalid "pointer-invalid" problem;
    /// A pointer to a block that no extent has.
    OutsideExtents "outside-extents" problem;
    /// A file has blocks beyond its end.
    BeyondEnd "beyond-end" problem;
    /// A file is too long for the levels of its tree.
    LevelsTooFew "levels-too-few" problem;
    /// Bytes that are no inode.
    InodeDamaged "inode-damaged" problem;
    /// An inode of a kind or id that does not belong there.
    InodeUnexpected "inode-unexpected" problem;
    /// A metafile has no inode.
    MetafileMissing "metafile-missing" problem;
    /// A map is shorter than the space it describes.
    MapTooShort "map-too-short" problem;
    /// An inode counts its blocks wrong.
    BlockCount "block-count" problem;
    /// A block has more than one reference, and no count for them (Definition 1).
    DoubleReference "double-reference" problem;
    /// A block has another number of references than the refcount file says, or that says what
    /// cannot be.
    RefCount "ref-count" problem;
    /// A referenced block is free in the active map (Definition 1).
    NotMarked "not-marked" problem;
    /// A block in use has no reference (Definition 1).
    Leaked "leaked" problem;
    /// The active map has a bit for a number that is no block.
    MarkedOutside "marked-outside" problem;
    /// A superblock counts the blocks in use wrong.
    UsedCount "used-count" problem;
    /// The superblock counts the areas in use wrong.
    AreasUsed "areas-used" problem;
    /// A block is in use beyond the frontier, or the frontier beyond the space.
    Frontier "frontier" problem;
    /// An id in use is not below the next one.
    NextFile "next-file" problem;
    /// A block in use has no context.
    ContextMissing "context-missing" problem;
    /// A context names another owner.
    ContextOwner "context-owner" problem;
    /// A context has another tag than the container.
    ContextTag "context-tag" problem;
    /// A block of a volume has no place in the container.
    ContainerHole "container-hole" problem;
    /// The container holds a block that is free in the volume.
    ContainerExtra "container-extra" problem;
    /// Volume and container expect different contents of a block.
    ContainerTag "container-tag" problem;
    /// Bytes that are no superblock of the volume.
    VolumeSuperblockDamaged "volume-superblock-damaged" problem;
    /// Bytes that are no directory entry.
    DirectoryDamaged "directory-damaged" problem;
    /// An entry of a kind that does not belong there.
    EntryKind "entry-kind" problem;
    /// An entry names a file that does not exist.
    EntryWithoutFile "entry-without-file" problem;
    /// Two files of a directory have the same name.
    NameTwice "name-twice" problem;
    /// A file has more than one entry.
    NamedTwice "named-twice" problem;
    /// A file has no entry.
    Unnamed "unnamed" problem;
    /// Bytes that are no list of the best areas.
    TopAreasDamaged "top-areas-damaged" problem;
    /// Bytes that are no notes.
    NotesDamaged "notes-damaged" problem;
    /// The overflow file has a gap.
    OverflowGap "overflow-gap" problem;
    /// A volume names a side file that does not exist, has the wrong kind, or belongs to another
    /// volume.
    SideFile "side-file" problem;
    /// Bytes that are no snapshot table.
    SnapshotTableDamaged "snapshot-table-damaged" problem;
    /// A volume's fields about its snapshots and scans contradict each other or the table.
    SnapshotRoots "snapshot-roots" problem;
    /// A snapshot's record contradicts itself, the volume or the image.
    SnapshotRecord "snapshot-record" problem;
    /// A snapshot's ancestors do not exist, or it is kept without a reason.
    SnapshotHistory "snapshot-history" problem;
    /// A clone and its parent volume disagree on the clone's base, or the volume cannot be a clone
    /// of that parent.
    CloneBase "clone-base" problem;
    /// A block of a snapshot is protected by nothing, or will not be in time (Theorems 1 to 3).
    Uncovered "uncovered" problem;
    /// The summary map protects a block that no image holds.
    SummaryLeaked "summary-leaked" problem;
    /// An entry of the release file names a block that does not wait to be released.
    ReleaseEntry "release-entry" problem;
    /// Blocks that only one image holds are counted wrong.
    ExclusiveCount "exclusive-count" problem;
    /// The holders of a block are not connected in the history (Lemma 3, generalised).
    HoldersApart "holders-apart" problem;
}

/// The object of a problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Object {
    /// A device's label.
    Device(DeviceId),
    /// A member as a whole.
    Member {
        /// Its index in the member table.
        member: u32,
        /// Its device, if that was given.
        device: Option<DeviceId>,
    },
    /// The aggregate as a whole.
    Aggregate,
    /// The journal.
    Journal,
    /// A file of the aggregate.
    File {
        /// Its id.
        file: FileId,
        /// Its description, such as `active map` or `container of vol0`.
        name: Arc<str>,
    },
    /// A volume as a whole.
    Volume {
        /// Its id, which is its container's.
        volume: FileId,
        /// Its name.
        name: Arc<str>,
    },
    /// A file of a volume.
    VolumeFile {
        /// The volume's id.
        volume: FileId,
        /// The volume's name.
        volume_name: Arc<str>,
        /// The file's id in the volume.
        file: FileId,
        /// Its description, such as `active map` or `LUN lun0`.
        name: Arc<str>,
    },
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Object::Device(device) => write!(f, "device {}", device.0),
            Object::Member { member, device } => match device {
                Some(device) => write!(f, "member {member} (device {})", device.0),
                None => write!(f, "member {member}"),
            },
            Object::Aggregate => f.write_str("aggregate"),
            Object::Journal => f.write_str("journal"),
            Object::File { file, name } => write!(f, "{name} (file {file})"),
            Object::Volume { volume, name } => write!(f, "volume {name} ({volume})"),
            Object::VolumeFile {
                volume_name,
                file,
                name,
                ..
            } => write!(f, "volume {volume_name}: {name} (file {file})"),
        }
    }
}

/// The place of a problem in its object; unknown and meaningless parts are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProblemPlace {
    /// Byte on the device.
    pub offset: Option<u64>,
    /// Level in the tree of the file, 0 for leaves.
    pub level: Option<u8>,
    /// Index among the blocks of the level; the fbn where the level is 0.
    pub index: Option<u64>,
    /// Block of the volume.
    pub vvbn: Option<Vvbn>,
    /// Block of the aggregate.
    pub pvbn: Option<Pvbn>,
    /// Of a group, the member that has the block or the journal.
    pub member: Option<u32>,
    /// Block of that member.
    pub dbn: Option<Dbn>,
}

impl ProblemPlace {
    /// Nowhere in particular.
    pub const NONE: ProblemPlace = ProblemPlace {
        offset: None,
        level: None,
        index: None,
        vvbn: None,
        pvbn: None,
        member: None,
        dbn: None,
    };

    pub(crate) fn at_offset(offset: u64) -> ProblemPlace {
        ProblemPlace {
            offset: Some(offset),
            ..ProblemPlace::NONE
        }
    }

    pub(crate) fn at_pvbn(pvbn: u64) -> ProblemPlace {
        ProblemPlace {
            pvbn: Some(Pvbn(pvbn)),
            ..ProblemPlace::NONE
        }
    }

    pub(crate) fn at_vvbn(vvbn: u64) -> ProblemPlace {
        ProblemPlace {
            vvbn: Some(Vvbn(vvbn)),
            ..ProblemPlace::NONE
        }
    }

    pub(crate) fn in_tree(level: u8, index: u64, pointer: &Pointer) -> ProblemPlace {
        ProblemPlace {
            level: Some(level),
            index: Some(index),
            vvbn: (pointer.vvbn.0 != 0).then_some(pointer.vvbn),
            pvbn: (pointer.pvbn.0 != 0).then_some(pointer.pvbn),
            ..ProblemPlace::NONE
        }
    }
}

impl fmt::Display for ProblemPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        parts.extend(self.offset.map(|offset| format!("byte {offset}")));
        match (self.level, self.index) {
            (Some(0), Some(index)) => parts.push(format!("fbn {index}")),
            (Some(level), Some(index)) => parts.push(format!("level {level} block {index}")),
            _ => {}
        }
        parts.extend(self.vvbn.map(|vvbn| format!("vvbn {vvbn}")));
        parts.extend(self.pvbn.map(|pvbn| format!("pvbn {pvbn}")));
        parts.extend(self.member.map(|member| format!("member {member}")));
        parts.extend(self.dbn.map(|dbn| format!("dbn {dbn}")));
        f.write_str(&parts.join(", "))
    }
}

/// One problem found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The kind of problem.
    pub kind: Kind,
    /// Object with the problem.
    pub object: Object,
    /// Where.
    pub place: ProblemPlace,
    /// The expected value.
    pub expected: String,
    /// State found.
    pub found: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.name(), self.object)?;
        if self.place != ProblemPlace::NONE {
            write!(f, ", {}", self.place)?;
        }
        write!(f, ": expected {}, found {}", self.expected, self.found)
    }
}
