//! Sets of blocks the host has given real space to. Cheap to fork.

use std::ops::Range;
use std::sync::Arc;

/// A set of block numbers below a bound.
#[derive(Clone, Default)]
pub(super) struct BlockSet {
    words: Arc<Vec<u64>>,
    count: u64,
}

impl BlockSet {
    /// Number of blocks in the set.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn contains(&self, block: u64) -> bool {
        let (word, bit) = word_and_mask(block);
        self.words.get(word).is_some_and(|w| w & bit != 0)
    }

    /// Returns the number of blocks in `range` that are not in the set.
    pub(super) fn missing(&self, range: Range<u64>) -> u64 {
        range.filter(|&block| !self.contains(block)).count() as u64
    }

    pub(super) fn insert(&mut self, range: Range<u64>) {
        let words = Arc::make_mut(&mut self.words);
        for block in range {
            let (word, bit) = word_and_mask(block);
            if words.len() <= word {
                words.resize(word + 1, 0);
            }
            self.count += u64::from(words[word] & bit == 0);
            words[word] |= bit;
        }
    }

    pub(super) fn remove(&mut self, range: Range<u64>) {
        let words = Arc::make_mut(&mut self.words);
        for block in range {
            let (word, bit) = word_and_mask(block);
            if let Some(w) = words.get_mut(word) {
                self.count -= u64::from(*w & bit != 0);
                *w &= !bit;
            }
        }
    }
}

fn word_and_mask(block: u64) -> (usize, u64) {
    (
        usize::try_from(block / 64).expect("a device has fewer blocks than memory"),
        1 << (block % 64),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_follow_inserts_and_removes() {
        let mut set = BlockSet::default();
        set.insert(10..200);
        set.insert(100..300);
        assert_eq!((set.count(), set.missing(0..400)), (290, 110));
        set.remove(0..20);
        set.remove(1000..1001);
        assert_eq!(
            (set.count(), set.contains(19), set.contains(20)),
            (280, false, true)
        );
    }
}
