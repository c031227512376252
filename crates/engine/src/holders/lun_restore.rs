//! The state of a LUN's restore under way: how far the comparison of the two images is.

use std::collections::BTreeMap;

use everglade_format::{Block, FileId, Inode, SnapshotId};

use crate::read::walk::Pair;
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
    /// Places in the tree of now and in the one of then, yet to be compared.
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
