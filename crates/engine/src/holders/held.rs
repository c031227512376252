//! The other holders of the vvbns in a block of the active map. They must be known before the block
//! changes.
//!
//! They are loaded together with the block itself, once in a consistency point, for volumes with
//! snapshots only.

use everglade_env::PageRef;
use everglade_format::planted::{self, Bug};
use everglade_format::{SnapshotId, bitmap};

/// See the module's documentation. Bits are those of one block of the active map.
pub(crate) struct Held {
    /// The summary map (F-04): blocks that a snapshot holds.
    pub(crate) summary: PageRef,
    /// Blocks that a neighbour of the active image holds.
    pub(crate) near: PageRef,
    /// For each neighbour, the blocks that only it holds, and perhaps the active image.
    pub(crate) only: Vec<(SnapshotId, PageRef)>,
}

/// The images that gain or lose an exclusive block when the active image frees one.
pub(crate) struct Freed {
    /// A snapshot holds it still: it must not be punched.
    pub(crate) is_held: bool,
    /// The active image alone counted it.
    pub(crate) was_own: bool,
    /// This one alone holds it from now on.
    pub(crate) heir: Option<SnapshotId>,
}

impl Held {
    /// The effect of freeing a vvbn of this block.
    pub(crate) fn freed(&self, bit: u64) -> Freed {
        let heir = self.only.iter().find(|(_, bits)| bitmap::is_set(bits, bit));
        Freed {
            is_held: bitmap::is_set(&self.summary, bit) && !planted::is(Bug::FreedThoughHeld),
            was_own: !bitmap::is_set(&self.near, bit),
            heir: heir.map(|(id, _)| *id),
        }
    }
}
