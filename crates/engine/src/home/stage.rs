//! Stage: blocks of a volume that a consistency point lets go, until the maps say so (D-10).
//!
//! ```text
//! cleaner ──let_go()──▶ stage ──sort()──▶ batch() ──released in order──▶ maps, container, pvbns
//! ```
//!
//! Random overwrites replace blocks from everywhere, but in a whole consistency point many of them
//! have neighbours: their bits are in one map block, and their slots in one block of the container.
//! So cleaning only notes which blocks it replaces. When the stage is full, or everything is clean,
//! the notes are sorted, and what describes neighbours is looked up once for all of them. Nobody
//! waits for a number that was freed: it can be used from the next consistency point on (Lemma 1).
//!
//! While the devices have too much to write, cleaning waits, and the stage is emptied meanwhile if
//! it has enough for that ([`Stage::is_worth_it`]).
//!
//! 1. A number is in the stage as often as leaves let it go: leaves may share a block.
//! 2. A batch has a number once, because how a reference is dropped depends on those that are left.

use everglade_format::Vvbn;

/// Numbers of one batch: what a step of a consistency point does.
const BATCH: usize = 256;
/// Numbers that have enough neighbours among each other, in a volume of any usual size.
const WORTH_IT: usize = 8192;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Stage {
    /// As they came.
    fresh: Vec<Vvbn>,
    /// In descending order, so that the lowest is at the end.
    sorted: Vec<Vvbn>,
}

impl Stage {
    /// A leaf, or a tree, does not refer to a block any more.
    pub(crate) fn let_go(&mut self, vvbn: Vvbn) {
        self.fresh.push(vvbn);
    }

    /// True if nothing is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.fresh.is_empty() && self.sorted.is_empty()
    }

    /// True if a batch is to be released before anything is added.
    pub(crate) fn is_full(&self, numbers_max: usize) -> bool {
        self.fresh.len() >= numbers_max
    }

    /// True if a batch now costs no more than one when everything is clean.
    pub(crate) fn is_worth_it(&self) -> bool {
        !self.sorted.is_empty() || self.fresh.len() >= WORTH_IT
    }

    /// The next numbers to release, none of them twice; the same until [`Stage::released`].
    pub(crate) fn batch(&mut self) -> Vec<Vvbn> {
        if self.sorted.is_empty() {
            self.sorted = std::mem::take(&mut self.fresh);
            self.sorted.sort_unstable_by(|a, b| b.cmp(a));
        }
        let mut batch: Vec<Vvbn> = Vec::with_capacity(BATCH.min(self.sorted.len()));
        for vvbn in self.sorted.iter().rev().take(BATCH) {
            if batch.last() == Some(vvbn) {
                break;
            }
            batch.push(*vvbn);
        }
        batch
    }

    /// The numbers of the batch were released.
    pub(crate) fn released(&mut self, batch: &[Vvbn]) {
        let left = self.sorted.len() - batch.len();
        self.sorted.truncate(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn emptied(stage: &mut Stage) -> Vec<Vec<u64>> {
        let mut batches = Vec::new();
        while !stage.is_empty() {
            let batch = stage.batch();
            assert_eq!(stage.batch(), batch, "the same until it is released");
            stage.released(&batch);
            batches.push(batch.into_iter().map(|vvbn| vvbn.0).collect());
        }
        batches
    }

    #[test]
    fn numbers_leave_in_order_and_in_batches() {
        let mut stage = Stage::default();
        let count = 2 * BATCH as u64 + 7;
        (0..count).for_each(|number| stage.let_go(Vvbn(number * 101 % count)));
        let batches = emptied(&mut stage);
        assert_eq!(batches.concat(), (0..count).collect::<Vec<_>>());
        assert_eq!(batches.len(), 3);
    }

    #[test]
    fn a_number_that_two_leaves_let_go_is_in_two_batches() {
        let mut stage = Stage::default();
        for number in [5, 9, 5, 1, 5] {
            stage.let_go(Vvbn(number));
        }
        assert_eq!(emptied(&mut stage), [vec![1, 5], vec![5], vec![5, 9]]);
    }

    #[test]
    fn what_comes_while_it_is_emptied_comes_later() {
        let mut stage = Stage::default();
        (10..20).for_each(|number| stage.let_go(Vvbn(number)));
        assert!(stage.is_full(10) && !stage.is_full(11));
        let batch = stage.batch();
        assert!(!stage.is_full(10) && stage.is_worth_it());
        stage.let_go(Vvbn(12));
        stage.let_go(Vvbn(3));
        assert_eq!(stage.batch(), batch);
        stage.released(&batch);
        assert!(!stage.is_worth_it() && !stage.is_empty());
        assert_eq!(emptied(&mut stage), [[3, 12]]);
    }
}
