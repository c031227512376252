//! The ledger of background passes: their work so far, and whose turn is next. The passes and the
//! loop that runs them are in [`crate::background`]; the ledger does the arithmetic, and knows
//! passes by their names only.
//!
//! **Budget.** A consistency point has a *purse* of regions (level-1 blocks, or as many blocks
//! moved). A step costs the blocks that it moved, rounded up to whole regions, and at least one
//! region: so every consistency point ends, even if a pass makes no progress. A step runs while
//! anything is left, so the purse is exceeded by less than one step.
//!
//! **Fairness.** Start-time fair queueing, once between passes and once between the targets of each
//! pass. The *start* of a key is what the key was charged so far, but at least the queue's clock.
//! The clock is the start of the key that was served last. The lowest start is next; of equal
//! starts, the first in the caller's order.
//!
//! 1. If two keys always have work, neither is ahead of the other by more than one step of each.
//! 2. A key that had no work for a while begins at the clock: it gains no credit for that time.
//! 3. The queues outlive the consistency point. So turns rotate even if a consistency point has
//!    budget for one step.
//!
//! A pass that has to wait, or gave up, is set aside for that target until the next consistency
//! point. All of this is in memory only; after a restart the first in order begins.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use everglade_format::{FileId, SPAN};

/// The target of a pass. Volumes come before the aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target {
    Volume(FileId),
    /// Files of the aggregate itself.
    Aggregate,
}

impl Target {
    /// Returns the volume that is the target, or `None` for the aggregate.
    pub(crate) fn volume(self) -> Option<FileId> {
        match self {
            Target::Volume(id) => Some(id),
            Target::Aggregate => None,
        }
    }
}

/// The result of a pass's step that did not stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// The step moved this many blocks.
    Moved(u64),
    /// The pass cannot work on this target now, and tries again in the next consistency point.
    Waits,
    /// The work for this target has ended without success; the pass has recorded why.
    GaveUp,
}

/// Work done in a consistency point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    /// Blocks that were moved.
    pub(crate) blocks: u64,
    /// Cost of the work in regions; each step is rounded up.
    pub(crate) regions: u64,
}

impl Spent {
    fn add(&mut self, blocks: u64) -> u64 {
        let regions = blocks.div_ceil(SPAN).max(1);
        self.blocks += blocks;
        self.regions += regions;
        regions
    }
}

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Ledger {
    /// Budget of a whole consistency point, in regions.
    regions: u64,
    /// Remaining purse, in regions.
    purse: u64,
    passes: BTreeMap<&'static str, Account>,
    queue: Queue<&'static str>,
    /// Targets that a pass has work for, as of the last consistency point.
    waiting: OnceCell<Vec<Target>>,
}

/// The work of one pass.
#[derive(Default)]
struct Account {
    spent: Spent,
    targets: BTreeMap<Target, Spent>,
    /// Targets that it does nothing more for in this consistency point.
    aside: BTreeSet<Target>,
    queue: Queue<Target>,
}

impl Ledger {
    /// Begins a consistency point with a whole budget of this number of regions. The purse has all
    /// of them, or none if passes rest in this consistency point.
    pub(crate) fn begin(&mut self, regions: u64, purse: u64) {
        (self.regions, self.purse) = (regions, purse);
        self.waiting.take();
        for account in self.passes.values_mut() {
            account.spent = Spent::default();
            account.targets.clear();
            account.aside.clear();
        }
    }

    /// Returns the targets that a pass has work for. `find` finds them, once between two
    /// consistency points.
    pub(crate) fn waiting(&self, find: impl FnOnce() -> Vec<Target>) -> &[Target] {
        self.waiting.get_or_init(find)
    }

    /// Returns the budget of a whole consistency point, in regions.
    pub(crate) fn regions(&self) -> u64 {
        self.regions
    }

    /// Returns the remaining purse, in regions.
    pub(crate) fn purse(&self) -> u64 {
        self.purse
    }

    /// True if anything was taken from the purse in this consistency point.
    pub(crate) fn is_begun(&self) -> bool {
        self.purse < self.regions
    }

    /// Returns the work of a pass in this consistency point.
    pub(crate) fn spent(&self, pass: &'static str) -> Spent {
        self.passes
            .get(pass)
            .map_or(Spent::default(), |it| it.spent)
    }

    /// Returns the work of a pass for one target in this consistency point.
    pub(crate) fn spent_for(&self, pass: &'static str, target: Target) -> Spent {
        let targets = self.passes.get(pass).map(|account| &account.targets);
        let spent = targets.and_then(|targets| targets.get(&target));
        spent.copied().unwrap_or_default()
    }

    /// True if a pass has moved blocks for another target in this consistency point.
    pub(crate) fn has_moved_for_other(&self, pass: &'static str, target: Target) -> bool {
        let mut targets = self.passes.get(pass).into_iter().flat_map(|it| &it.targets);
        targets.any(|(other, spent)| *other != target && spent.blocks > 0)
    }

    /// True if a pass waits, or gave up, for a target in this consistency point.
    pub(crate) fn is_aside(&self, pass: &'static str, target: Target) -> bool {
        let account = self.passes.get(pass);
        account.is_some_and(|account| account.aside.contains(&target))
    }

    /// Returns the pass to serve next, of those with work.
    pub(crate) fn next_pass(
        &self,
        wanting: impl IntoIterator<Item = &'static str>,
    ) -> Option<&'static str> {
        self.queue.next(wanting)
    }

    /// The target that a pass serves next, of those that it could.
    pub(crate) fn next_target(&self, pass: &'static str, wanting: &[Target]) -> Option<Target> {
        match self.passes.get(pass) {
            Some(account) => account.queue.next(wanting.iter().copied()),
            None => wanting.first().copied(),
        }
    }

    /// Records a step that was done, from the purse or from a budget of the pass's own.
    pub(crate) fn record(
        &mut self,
        pass: &'static str,
        target: Target,
        is_from_purse: bool,
        turn: Turn,
    ) {
        let account = self.passes.entry(pass).or_default();
        if turn != Turn::Waits {
            let blocks = match turn {
                Turn::Moved(blocks) => blocks,
                Turn::Waits | Turn::GaveUp => 0,
            };
            let regions = account.spent.add(blocks);
            account.targets.entry(target).or_default().add(blocks);
            account.queue.charge(target, regions);
            if is_from_purse {
                self.purse = self.purse.saturating_sub(regions);
                self.queue.charge(pass, regions);
            }
        }
        if !matches!(turn, Turn::Moved(_)) {
            account.aside.insert(target);
        }
    }
}

/// Turns of one kind (see the module's documentation).
struct Queue<K> {
    clock: u64,
    /// Starts that are above the clock.
    ahead: BTreeMap<K, u64>,
}

impl<K> Default for Queue<K> {
    fn default() -> Self {
        Queue {
            clock: 0,
            ahead: BTreeMap::new(),
        }
    }
}

impl<K: Ord + Copy> Queue<K> {
    fn start(&self, key: K) -> u64 {
        self.ahead.get(&key).copied().unwrap_or(self.clock)
    }

    fn next(&self, wanting: impl IntoIterator<Item = K>) -> Option<K> {
        wanting.into_iter().min_by_key(|key| self.start(*key))
    }

    fn charge(&mut self, key: K, cost: u64) {
        let start = self.start(key);
        self.clock = start;
        self.ahead.insert(key, start + cost);
        self.ahead.retain(|_, start| *start > self.clock);
    }
}
