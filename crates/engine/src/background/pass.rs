//! The shape of a background pass: what [`crate::background::turns`] asks of each.
//!
//! A pass has no state of its own. Its remaining work and its position are in the file systems, so
//! that a consistency point commits it together with its effects; its work in the running
//! consistency point is in the [`Ledger`](crate::home::ledger::Ledger).
//!
//! A new pass is a file with an implementation of [`Pass`] and a line in the table of `turns`.

use everglade_env::Nanos;

use crate::home::ledger::{Target, Turn};
use crate::pool::info::Progress;
use crate::read::load::{LoadCx, Stop};

/// Background work of one kind, done in consistency points. `W` is the world of the pass: an
/// aggregate's [`Home`](crate::home::aggregate::Home), or a test's substitute.
pub(crate) trait Pass<W> {
    /// Its name in the ledger; no other pass has the same.
    fn name(&self) -> &'static str;

    /// True while something is left to do for a target. Only a consistency point changes that.
    /// Consistency points begin for this, and volumes take part in them.
    fn has_work(&self, world: &W, target: Target) -> bool;

    /// True if there is space for a step. Clients change that at any time.
    fn has_space(&self, _world: &W) -> bool {
        true
    }

    /// When it may go on, if it rests: consistency points do not begin for it before.
    fn due(&self, _world: &W) -> Nanos {
        0
    }

    /// Targets for which a step could do something in the running consistency point, in the order
    /// in which they are served if nothing else decides.
    fn wants(&self, world: &W) -> Vec<Target>;

    /// Runs one step for a target from [`Pass::wants`]. A step that stops runs again, so loads come
    /// first.
    fn step(
        &self,
        world: &mut W,
        cx: &mut LoadCx<'_>,
        target: Target,
        room: Room,
    ) -> Result<Turn, Stop>;

    /// Returns the progress for this target, if the target has work.
    fn progress(&self, world: &W, target: Target) -> Option<Progress>;

    /// Returns the budget of the pass in a consistency point whose whole budget is `regions`
    /// regions.
    fn budget(&self, _world: &W, _regions: u64) -> Budget {
        Budget::Purse
    }

    /// Returns the target's share of a consistency point's whole budget, in percent. At 0 the pass
    /// rests; above 0 it has at least one step, so that it ends. An administrator sets this value.
    fn pace(&self, _world: &W, _target: Target) -> u8 {
        100
    }

    /// True if it gives space back. While space is short, passes that do come first.
    fn frees(&self) -> bool;
}

/// The source of a pass's budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Budget {
    /// The purse that passes share.
    Purse,
    /// The purse, but the pass moves at most `blocks` blocks.
    PurseUpTo { blocks: u64 },
    /// `regions` regions beside the purse. Such a pass comes first, and also works in consistency
    /// points whose purse is empty from the beginning.
    Own { regions: u64 },
}

/// The limits of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    /// Metadata blocks that are changed in memory.
    pub(crate) changed: usize,
    /// Changed blocks at which a consistency point has done its share.
    pub(crate) changed_max: usize,
    /// Blocks that it may move before its budget is used up; without limit if that does not count
    /// blocks.
    pub(crate) blocks: u64,
}
