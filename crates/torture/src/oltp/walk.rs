//! Hierarchical reuse random walk: addresses that come back to where they were, the sooner the
//! nearer.
//!
//! A region consists of leaves of [`LEAF_BLOCKS`] blocks, which are the leaves of a binary tree. A
//! step begins with the subtree of [`NEAR_LEAVES`] leaves that has the last leaf, takes the next
//! larger one with a probability of 44 %, and so on. The new leaf is any leaf of the subtree.
//!
//! 1. A read takes the blocks of a leaf in turn.
//! 2. A write goes to the first leaf of eight, to any block of it or to the one that was read last
//!    there. With a probability of 15 % the next write goes to the same block.

use crate::Random;

/// Blocks of a leaf: 32 KiB.
const LEAF_BLOCKS: u64 = 8;
/// Leaves of the smallest subtree.
const NEAR_LEAVES: u64 = 64;
/// Writes use only each eighth leaf.
const WRITTEN_LEAVES: u64 = 8;
const PERCENT_LARGER: u64 = 44;
const PERCENT_AGAIN: u64 = 15;
/// Steps beyond the region that are tried again.
const TRIES: u32 = 100;

/// See the module's documentation.
#[derive(Clone, Debug)]
pub(super) struct Walk {
    first: u64,
    last_leaf: u64,
    /// The block of each leaf that its next read takes, 0 to 7.
    cursors: Vec<u8>,
    /// The next write goes here.
    again: Option<u64>,
}

impl Walk {
    /// A walk in so many blocks from `first` on, at least one leaf.
    pub(super) fn new(first: u64, blocks: u64, random: &mut Random) -> Walk {
        let leaves = usize::try_from((blocks / LEAF_BLOCKS).max(1)).expect("fits memory");
        Walk {
            first,
            last_leaf: random.below(leaves as u64),
            cursors: vec![0; leaves],
            again: None,
        }
    }

    fn leaves(&self) -> u64 {
        self.cursors.len() as u64
    }

    fn step(&mut self, random: &mut Random) -> u64 {
        let leaves = self.leaves();
        for _ in 0..TRIES {
            let mut subtree = NEAR_LEAVES;
            while subtree < leaves && random.below(100) < PERCENT_LARGER {
                subtree *= 2;
            }
            let base = self.last_leaf / subtree * subtree;
            let leaf = base + random.below(subtree);
            if leaf < leaves {
                self.last_leaf = leaf;
                return leaf;
            }
        }
        self.last_leaf = random.below(leaves);
        self.last_leaf
    }

    /// The block of the next read.
    pub(super) fn read(&mut self, random: &mut Random) -> u64 {
        let leaf = self.step(random);
        let cursor = &mut self.cursors[usize::try_from(leaf).expect("below their number")];
        let block = u64::from(*cursor);
        *cursor = u8::try_from((block + 1) % LEAF_BLOCKS).expect("small");
        self.first + leaf * LEAF_BLOCKS + block
    }

    /// The block of the next write.
    pub(super) fn write(&mut self, random: &mut Random) -> u64 {
        let block = match self.again.take() {
            Some(block) => block,
            None => {
                let leaf = self.step(random) / WRITTEN_LEAVES * WRITTEN_LEAVES;
                let read = self.cursors[usize::try_from(leaf).expect("below their number")];
                let within = match random.one_in(2) {
                    true => random.below(LEAF_BLOCKS),
                    false => (u64::from(read) + LEAF_BLOCKS - 1) % LEAF_BLOCKS,
                };
                self.first + leaf * LEAF_BLOCKS + within
            }
        };
        self.again = (random.below(100) < PERCENT_AGAIN).then_some(block);
        block
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_stays_in_its_region_and_comes_back() {
        let mut random = Random::new(1);
        let mut walk = Walk::new(1000, 8 * 1000, &mut random);
        let mut near = 0;
        for _ in 0..10_000 {
            let before = walk.last_leaf;
            let block = walk.read(&mut random);
            assert!((1000..9000).contains(&block), "{block}");
            near += u32::from(walk.last_leaf / NEAR_LEAVES == before / NEAR_LEAVES);
        }
        // 56 %, and half of the next 25 %, and so on.
        assert!((6900..7500).contains(&near), "{near}");
    }

    #[test]
    fn reads_of_a_leaf_take_its_blocks_in_turn() {
        let mut random = Random::new(2);
        let mut walk = Walk::new(0, 8, &mut random);
        let blocks: Vec<u64> = (0..10).map(|_| walk.read(&mut random)).collect();
        assert_eq!(blocks, [0, 1, 2, 3, 4, 5, 6, 7, 0, 1]);
    }

    #[test]
    fn writes_go_to_few_blocks() {
        let mut random = Random::new(3);
        let mut walk = Walk::new(0, 8 * 640, &mut random);
        let blocks: Vec<u64> = (0..10_000).map(|_| walk.write(&mut random)).collect();
        assert!(
            blocks
                .iter()
                .all(|block| (block / LEAF_BLOCKS).is_multiple_of(WRITTEN_LEAVES))
        );
        let again = blocks.windows(2).filter(|two| two[0] == two[1]).count();
        assert!((1400..2600).contains(&again), "15 % and chance: {again}");
    }
}
