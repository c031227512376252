//! Superblock of a volume: vvbn 1 of its container, the only vvbn that is ever rewritten.
//!
//! | offset | bytes | field |
//! | --- | --- | --- |
//! | 0 | 8 | `EVGLVOLU` |
//! | 8 | 4 | format version |
//! | 12 | 4 | volume id |
//! | 16 | 8 | consistency point |
//! | 24 | 16 | aggregate's UUID |
//! | 40 | 8 | blocks in use in the volume, this one included |
//! | 48 | 8 | frontier: areas of vvbn space from this one on were never allocated from |
//! | 56 | 4 | next file id |
//! | 60 | 1 | sync: 0 = standard, 1 = always |
//! | 64 | 8 | blocks of LUNs' trees that could not be read when they were needed and became lost; where there are any, blocks below them may be in use without being referenced |
//! | 80 | 288 | inode of the inode file |
//! | 368 | 4 | file of the aggregate with the summary map, 0 = none: the volume never had a snapshot |
//! | 372 | 4 | file of the aggregate with the snapshot table, 0 = none |
//! | 376 | 4 | file of the aggregate with blocks to release, 0 = none |
//! | 380 | 4 | snapshot that the active image descends from, 0 = none |
//! | 384 | 4 | next snapshot id |
//! | 388 | 1 | scan under way: 0 = none, 1 = fold, 2 = delete, 3 = release |
//! | 389 | 1 | percent of the usual pace that scans are held back by: 0 = not at all, 100 = they rest |
//! | 392 | 8 | how far it is: all vvbns (of a release: entries) below are done |
//! | 400 | 8 | blocks that the active image alone holds; 0 if there are no snapshots |
//! | 408 | 4 | of a clone, the volume it is a clone of; else 0 |
//! | 412 | 4 | of a clone, the snapshot of that volume that is its base; else 0 |
//! | 416 | 4 each | up to 8 further snapshots that the active image descends from, 0 = none: LUNs of theirs were restored |
//! | 448 | 1 | split: 0 = never begun, 1 = copying, 2 = stopped, 3 = done: it was a clone, and pvbns in pointers of its trees may be out of date |
//! | 456 | 8 | of a split that is not done, how far it is: all vvbns of the base below have slots of their own; else 0 |
//! | 464 | 4 | of a LUN that is being cloned, the snapshot it is read from; it is not released before the end |
//! | 468 | 4 | its file there |
//! | 472 | 4 | the file that is being made, which has its name in the hidden namespace; 0 = none, and so are the others |
//! | 480 | 8 | how far it is: all leaves below this level-1 block are shared |
//!
//! Its tag is in the container, so it carries no check of its own.

use crate::bytes::{array_at, put, u32_at, u64_at};
use crate::config::{Uuid, hex};
use crate::inode::INODE_BYTES;
use crate::snapshot::{decode_also, encode_also};
use crate::{
    BLOCK_SIZE, Block, CpNumber, Damage, FORMAT_VERSION, FileId, Inode, Layer, SnapshotId, Vvbn,
};

const MAGIC: [u8; 8] = *b"EVGLVOLU";
/// Vvbn of every volume's superblock.
pub const SUPERBLOCK_VVBN: Vvbn = Vvbn(1);
/// Blocks in an allocation area of vvbn space: one block of the volume's active map.
pub const VOLUME_AREA_BLOCKS: u64 = crate::BITS_PER_BLOCK;
/// Most volumes above a clone in a chain of clones.
pub const CLONE_DEPTH_MAX: usize = 16;

/// When a write counts as done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Sync {
    /// Volatile until flushed.
    #[default]
    Standard = 0,
    /// Every acknowledgement is durable.
    Always = 1,
}

/// A pass over a volume's blocks in the background, a little in each consistency point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scan {
    /// No scan is under way.
    #[default]
    None,
    /// Blocks of the first snapshot that is not folded go into the summary map.
    Fold {
        /// Position of the scan: all vvbns below are done.
        next: u64,
    },
    /// Blocks that only the victims hold are released (F-10, F-11).
    Delete {
        /// Position of the scan: all vvbns below are done.
        next: u64,
    },
    /// Blocks named by the release file are released.
    Release {
        /// Position of the release: all entries before it are done.
        next: u64,
    },
}

/// A LUN that is being cloned inside its volume (B-15).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LunCloning {
    /// The snapshot that it is read from.
    pub source: SnapshotId,
    /// Its file there.
    pub from: FileId,
    /// The file that is being made.
    pub to: FileId,
    /// Index of the next level-1 block.
    pub next: u64,
}

/// A clone's way to blocks of its own (B-10).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Split {
    /// No split ever began, or the volume was never a clone.
    #[default]
    None,
    /// The base's blocks are being copied.
    Copying {
        /// Position of the split: all vvbns of the base below have slots of their own.
        next: u64,
    },
    /// An administrator stopped the split, or a block to copy is missing.
    Stopped {
        /// Position of the split, as above.
        next: u64,
    },
    /// The volume is no clone any more. Pvbns in its trees may still be those of the blocks it was
    /// copied from.
    Done,
}

impl Split {
    /// Returns the position of an unfinished split; `None` if no split began.
    #[must_use]
    pub fn next(self) -> Option<u64> {
        match self {
            Split::Copying { next } | Split::Stopped { next } => Some(next),
            Split::None | Split::Done => None,
        }
    }
}

/// A volume's snapshots as its superblock records them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotRoots {
    /// Summary map and snapshot table, files of the aggregate; none if the volume never had a
    /// snapshot.
    pub files: Option<(FileId, FileId)>,
    /// The release file.
    pub release: Option<FileId>,
    /// The snapshot that the active image descends from.
    pub parent: Option<SnapshotId>,
    /// Further ancestors of the active image, ascending: LUNs of these snapshots were restored.
    pub also: Vec<SnapshotId>,
    /// The next snapshot gets this id; 0 and 1 mean the first.
    pub next: SnapshotId,
    /// The scan under way.
    pub scan: Scan,
    /// Percent of the usual pace that scans are held back by; at 100 they rest. At most 100.
    pub held_back: u8,
    /// Blocks that the active image alone holds.
    pub exclusive: u64,
    /// Base of a clone: its parent, and the parent's snapshot.
    pub base: Option<(FileId, SnapshotId)>,
    /// A LUN that is being cloned.
    pub lun_clone: Option<LunCloning>,
    /// State of the split of a present or former clone.
    pub split: Split,
}

/// Root of a volume as of one consistency point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeSuperblock {
    /// The container's file id.
    pub volume: FileId,
    /// The consistency point that wrote this block.
    pub cp: CpNumber,
    /// The aggregate it lives in.
    pub uuid: Uuid,
    /// Set bits of the volume's active map.
    pub blocks_used: u64,
    /// Areas from here on were never allocated from.
    pub frontier: u64,
    /// The next file gets this id.
    pub next_file: FileId,
    /// When a write counts as done.
    pub sync: Sync,
    /// Blocks of LUNs' trees that became lost, ever (docs/design/design.md §5).
    pub lost: u64,
    /// Root of all files of the volume.
    pub inode_file: Inode,
    /// Its snapshots.
    pub snapshots: SnapshotRoots,
}

impl VolumeSuperblock {
    /// The block.
    #[must_use]
    pub fn encode(&self) -> Block {
        let mut out = [0; BLOCK_SIZE];
        put(&mut out, 0, MAGIC);
        put(&mut out, 8, FORMAT_VERSION.to_le_bytes());
        put(&mut out, 12, self.volume.0.to_le_bytes());
        put(&mut out, 16, self.cp.0.to_le_bytes());
        put(&mut out, 24, self.uuid);
        put(&mut out, 40, self.blocks_used.to_le_bytes());
        put(&mut out, 48, self.frontier.to_le_bytes());
        put(&mut out, 56, self.next_file.0.to_le_bytes());
        out[60] = self.sync as u8;
        put(&mut out, 64, self.lost.to_le_bytes());
        put(&mut out, 80, self.inode_file.encode(Layer::Volume));
        self.snapshots.encode_into(&mut out);
        out
    }

    /// Reads a volume's superblock.
    ///
    /// # Errors
    /// Foreign or contradictory bytes.
    pub fn decode(block: &Block, volume: FileId, uuid: &Uuid) -> Result<VolumeSuperblock, Damage> {
        if array_at::<8>(block, 0) != MAGIC {
            return Err(Damage::new(
                "volume superblock magic",
                "EVGLVOLU",
                hex(&block[..8]),
            ));
        }
        Damage::unless_ours(u32_at(block, 8))?;
        Damage::unless_equal("volume id", volume.0, u32_at(block, 12))?;
        if array_at::<16>(block, 24) != *uuid {
            return Err(Damage::new(
                "volume's aggregate",
                hex(uuid),
                hex(&block[24..40]),
            ));
        }
        let sync = match block[60] {
            0 => Sync::Standard,
            1 => Sync::Always,
            other => return Err(Damage::new("volume sync", "0 or 1", other)),
        };
        Ok(VolumeSuperblock {
            volume,
            cp: CpNumber(u64_at(block, 16)),
            uuid: *uuid,
            blocks_used: u64_at(block, 40),
            frontier: u64_at(block, 48),
            next_file: FileId(u32_at(block, 56)),
            sync,
            lost: u64_at(block, 64),
            inode_file: Inode::decode(&array_at::<INODE_BYTES>(block, 80), Layer::Volume)?,
            snapshots: SnapshotRoots::decode(block)?,
        })
    }
}

impl SnapshotRoots {
    fn encode_into(&self, out: &mut Block) {
        let file = |id: Option<FileId>| id.map_or(0, |id| id.0).to_le_bytes();
        put(out, 368, file(self.files.map(|(summary, _)| summary)));
        put(out, 372, file(self.files.map(|(_, table)| table)));
        put(out, 376, file(self.release));
        put(out, 380, self.parent.map_or(0, |id| id.0).to_le_bytes());
        put(out, 384, self.next.0.to_le_bytes());
        let (scan, next) = match self.scan {
            Scan::None => (0, 0),
            Scan::Fold { next } => (1, next),
            Scan::Delete { next } => (2, next),
            Scan::Release { next } => (3, next),
        };
        out[388] = scan;
        out[389] = self.held_back;
        put(out, 392, next.to_le_bytes());
        put(out, 400, self.exclusive.to_le_bytes());
        let (parent, snapshot) = self.base.unwrap_or_default();
        put(out, 408, parent.0.to_le_bytes());
        put(out, 412, snapshot.0.to_le_bytes());
        encode_also(out, 416, &self.also);
        if let Some(cloning) = self.lun_clone {
            cloning.encode_into(out);
        }
        out[448] = match self.split {
            Split::None => 0,
            Split::Copying { .. } => 1,
            Split::Stopped { .. } => 2,
            Split::Done => 3,
        };
        put(out, 456, self.split.next().unwrap_or(0).to_le_bytes());
    }

    fn decode(block: &Block) -> Result<SnapshotRoots, Damage> {
        let file = |at: usize| Some(FileId(u32_at(block, at))).filter(|id| id.0 != 0);
        let files = match (file(368), file(372)) {
            (Some(summary), Some(table)) => Some((summary, table)),
            (None, None) => None,
            (one, other) => {
                let found = format!("{one:?} and {other:?}");
                return Err(Damage::new("side files", "both or none", found));
            }
        };
        let next = u64_at(block, 392);
        let scan = match block[388] {
            0 => Scan::None,
            1 => Scan::Fold { next },
            2 => Scan::Delete { next },
            3 => Scan::Release { next },
            other => return Err(Damage::new("scan", "0 to 3", other)),
        };
        if block[389] > 100 {
            return Err(Damage::new("pace of scans", "0 to 100", block[389]));
        }
        let next = u64_at(block, 456);
        let split = match block[448] {
            0 => Split::None,
            1 => Split::Copying { next },
            2 => Split::Stopped { next },
            3 => Split::Done,
            other => return Err(Damage::new("split", "0 to 3", other)),
        };
        let is_clone = file(408).is_some();
        if split.next().is_some() != is_clone && split != Split::None {
            let expected = match is_clone {
                true => "no clone once it is split",
                false => "a clone where one is being split",
            };
            return Err(Damage::new("split", expected, format!("{split:?}")));
        }
        Ok(SnapshotRoots {
            files,
            held_back: block[389],
            release: file(376),
            parent: Some(SnapshotId(u32_at(block, 380))).filter(|id| id.0 != 0),
            also: decode_also(block, 416)?,
            next: SnapshotId(u32_at(block, 384)),
            scan,
            exclusive: u64_at(block, 400),
            lun_clone: LunCloning::decode(block)?,
            base: match (file(408), SnapshotId(u32_at(block, 412))) {
                (None, SnapshotId(0)) => None,
                (Some(parent), snapshot) if snapshot.0 != 0 => Some((parent, snapshot)),
                (parent, snapshot) => {
                    let found = format!("{parent:?} and {snapshot:?}");
                    return Err(Damage::new("base of a clone", "both or none", found));
                }
            },
            split,
        })
    }
}

impl LunCloning {
    fn encode_into(&self, out: &mut Block) {
        put(out, 464, self.source.0.to_le_bytes());
        put(out, 468, self.from.0.to_le_bytes());
        put(out, 472, self.to.0.to_le_bytes());
        put(out, 480, self.next.to_le_bytes());
    }

    fn decode(block: &Block) -> Result<Option<LunCloning>, Damage> {
        let ids = [464, 468, 472].map(|at| u32_at(block, at));
        let [source, from, to] = ids;
        match ids.iter().filter(|id| **id != 0).count() {
            0 => Ok(None),
            3 => Ok(Some(LunCloning {
                source: SnapshotId(source),
                from: FileId(from),
                to: FileId(to),
                next: u64_at(block, 480),
            })),
            _ => {
                let found = format!("snapshot {source}, files {from} and {to}");
                Err(Damage::new(
                    "LUN that is being cloned",
                    "all or none",
                    found,
                ))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inode::Kind;
    use crate::metafile::INODE_FILE;

    #[test]
    fn a_volume_superblock_survives_the_round_trip() {
        let superblock = VolumeSuperblock {
            volume: FileId(64),
            cp: CpNumber(9),
            uuid: [5; 16],
            blocks_used: 3,
            frontier: 4,
            next_file: FileId(65),
            sync: Sync::Always,
            lost: 7,
            inode_file: Inode::new(INODE_FILE, Kind::Metafile, CpNumber(0), 0),
            snapshots: SnapshotRoots {
                files: Some((FileId(66), FileId(67))),
                release: Some(FileId(68)),
                parent: Some(SnapshotId(3)),
                also: vec![SnapshotId(1), SnapshotId(2)],
                next: SnapshotId(5),
                scan: Scan::Delete { next: 77 },
                held_back: 90,
                exclusive: 11,
                base: Some((FileId(65), SnapshotId(2))),
                lun_clone: Some(LunCloning {
                    source: SnapshotId(4),
                    from: FileId(64),
                    to: FileId(70),
                    next: 9,
                }),
                split: Split::Copying { next: 99 },
            },
        };
        let block = superblock.encode();
        assert_eq!(
            VolumeSuperblock::decode(&block, FileId(64), &[5; 16]),
            Ok(superblock)
        );
        assert!(VolumeSuperblock::decode(&block, FileId(65), &[5; 16]).is_err());
        let mut cloned_from_nothing = block;
        cloned_from_nothing[464] = 0;
        assert!(VolumeSuperblock::decode(&cloned_from_nothing, FileId(64), &[5; 16]).is_err());
        for state in [3, 4] {
            let mut contradiction = block;
            contradiction[448] = state;
            let decoded = VolumeSuperblock::decode(&contradiction, FileId(64), &[5; 16]);
            assert!(decoded.is_err(), "split {state} of a clone");
        }
        let mut faster_than_not_held_back = block;
        faster_than_not_held_back[389] = 101;
        assert!(
            VolumeSuperblock::decode(&faster_than_not_held_back, FileId(64), &[5; 16]).is_err()
        );
    }
}
