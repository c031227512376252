//! The shape of a background pass: what [`crate::background::turns`] asks of each.
//!
//! A pass has no state of its own. What it has to do, and how far it is, is in the file systems, so
//! that a consistency point commits it together with its effects; what it has done in the running
//! consistency point is in the [`Ledger`](crate::home::ledger::Ledger).
//!
//! A new pass is a file with an implementation of [`Pass`] and a line in the table of `turns`.

use crate::home::ledger::{Target, Turn};
use crate::pool::info::Progress;
use crate::read::load::{LoadCx, Stop};

/// Work of one kind that goes on in consistency points. `W` is what it works in: an aggregate's
/// [`Home`](crate::home::aggregate::Home), or what a test has instead.
pub(crate) trait Pass<W> {
    /// Its name in the ledger; no other pass has the same.
    fn name(&self) -> &'static str;

    /// True while something is left to do for a target, and could be done now. Consistency points
    /// begin for this, and volumes take part in them.
    fn has_work(&self, world: &W, target: Target) -> bool;

    /// Targets for which a step could do something in the running consistency point, in the order
    /// in which they are served if nothing else decides.
    fn wants(&self, world: &W) -> Vec<Target>;

    /// Does a little for a target that it wants. A step that stops runs again, so what may stop
    /// comes first.
    fn step(
        &self,
        world: &mut W,
        cx: &mut LoadCx<'_>,
        target: Target,
        room: Room,
    ) -> Result<Turn, Stop>;

    /// How far it is, if it has anything to do for this target.
    fn progress(&self, world: &W, target: Target) -> Option<Progress>;

    /// What it may do in a consistency point whose whole is so many regions.
    fn budget(&self, _regions: u64) -> Budget {
        Budget::Purse
    }

    /// How much of a whole consistency point it may do for this target, in percent. At 0 it rests;
    /// above, it has at least one step, so that it ends. An administrator sets this.
    fn pace(&self, _world: &W, _target: Target) -> u8 {
        100
    }

    /// True if it gives space back. While space is short, passes that do come first.
    fn frees(&self) -> bool;
}

/// Where the budget of a pass comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Budget {
    /// The purse that passes share.
    Purse,
    /// The same, but it moves at most so many blocks.
    PurseUpTo { blocks: u64 },
    /// So many regions beside the purse. Such a pass comes first, and also works in consistency
    /// points whose purse is empty from the beginning.
    Own { regions: u64 },
}

/// What a step may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    /// Metadata blocks that are changed in memory.
    pub(crate) changed: usize,
    /// At so many, a consistency point has done its share.
    pub(crate) changed_max: usize,
    /// Blocks that it may move before its budget is used up; without limit if that does not count
    /// blocks.
    pub(crate) blocks: u64,
}
