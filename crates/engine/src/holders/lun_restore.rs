//! The state of a LUN's restore under way: how far the comparison of the two images is.

use std::collections::BTreeMap;

use everglade_format::{Block, FileId, Indirect, Inode, Layer, Pointer, SnapshotId};

use crate::read::load::Stop;
use crate::tree::Lost;

/// A LUN that is being restored with this consistency point.
pub(crate) struct LunRestore {
    pub(crate) target: SnapshotId,
    pub(crate) file: FileId,
    /// Its future name.
    pub(crate) name: String,
    pub(crate) stage: Stage,
}

pub(crate) enum Stage {
    /// The volume's image is being sealed.
    Asked,
    /// The trees are being compared.
    Walk(Walk),
    /// The safety snapshot is complete; these map blocks are left to change.
    Swap {
        inode: Inode,
        maps: BTreeMap<u64, Bits>,
        has_gained: bool,
    },
    /// The second image is being sealed.
    Swapped,
}

/// The changes of the vvbns in one map block.
pub(crate) struct Bits {
    pub(crate) gained: Box<Block>,
    pub(crate) lost: Box<Block>,
}

pub(crate) struct Walk {
    pub(crate) inode: Inode,
    pub(crate) pairs: Vec<Pair>,
    pub(crate) maps: BTreeMap<u64, Bits>,
    /// Blocks of the LUN may be shared, now or in the snapshot.
    pub(crate) may_share: bool,
    /// Map blocks below this number were examined for gained blocks that another LUN refers to; the
    /// second number counts the blocks of the refcount file that these need.
    pub(crate) looked_at: (u64, usize),
    /// Blocks of the present tree below which nothing can be read.
    pub(crate) unreadable: Vec<Lost>,
}

/// The same place in both trees.
#[derive(Clone, Copy)]
pub(crate) struct Pair {
    pub(crate) level: u8,
    pub(crate) index: u64,
    pub(crate) now: Side,
    pub(crate) then: Side,
}

/// A block, or the end of a tree with fewer levels.
#[derive(Clone, Copy)]
pub(crate) struct Side {
    pub(crate) level: u8,
    pub(crate) pointer: Pointer,
}

impl Side {
    pub(crate) const NONE: Side = Side {
        level: 0,
        pointer: Pointer::HOLE,
    };

    pub(crate) fn of(inode: &Inode) -> Side {
        Side {
            level: inode.levels,
            pointer: inode.root,
        }
    }

    /// The block at `level`; none in a tree that is less high.
    pub(crate) fn at(&self, level: u8) -> Option<Pointer> {
        (self.level == level && self.pointer.has_block()).then_some(self.pointer)
    }

    pub(crate) fn child(
        self,
        level: u8,
        slot: u64,
        index: u64,
        page: Option<&Block>,
    ) -> Result<Side, Stop> {
        if self.level < level {
            return Ok(match (index, slot) {
                (0, 0) => self,
                _ => Side::NONE,
            });
        }
        let pointer = match page {
            Some(page) => Indirect(page).pointer(slot, Layer::Volume)?,
            None => Pointer::HOLE,
        };
        Ok(Side {
            level: level - 1,
            pointer,
        })
    }
}
