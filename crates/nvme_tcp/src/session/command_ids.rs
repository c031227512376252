//! The ids of commands that are not answered yet, to find a host that uses one twice.
//!
//! Ids are any numbers of 16 bits. Hosts use few of them at a time, often close to each other, so
//! the set has leaves of 1,024 ids that are allocated when they are needed.

const LEAF_WORDS: usize = 16;
const LEAVES: usize = (1 << 16) / (LEAF_WORDS * 64);

/// A set of ids.
pub(super) struct CommandIds {
    leaves: [Option<Box<[u64; LEAF_WORDS]>>; LEAVES],
}

impl Default for CommandIds {
    fn default() -> Self {
        CommandIds {
            leaves: [const { None }; LEAVES],
        }
    }
}

fn place(id: u16) -> (usize, usize, u64) {
    let id = usize::from(id);
    (id / (64 * LEAF_WORDS), id / 64 % LEAF_WORDS, 1 << (id % 64))
}

impl CommandIds {
    /// Adds an id.
    ///
    /// # Panics
    /// If it is there.
    #[inline]
    pub(super) fn insert(&mut self, id: u16) {
        let (leaf, word, bit) = place(id);
        let word = &mut self.leaves[leaf].get_or_insert_default()[word];
        assert!(*word & bit == 0, "an id of one command");
        *word |= bit;
    }

    /// Returns whether an id is there.
    #[inline]
    pub(super) fn contains(&self, id: u16) -> bool {
        let (leaf, word, bit) = place(id);
        self.leaves[leaf]
            .as_ref()
            .is_some_and(|leaf| leaf[word] & bit != 0)
    }

    /// Removes an id.
    ///
    /// # Panics
    /// If it is not there.
    #[inline]
    pub(super) fn remove(&mut self, id: u16) {
        let (leaf, word, bit) = place(id);
        let word = self.leaves[leaf].as_mut().map(|leaf| &mut leaf[word]);
        let word = word.filter(|word| **word & bit != 0);
        *word.expect("an id of a command in progress") &= !bit;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_there_until_it_is_removed() {
        let mut ids = CommandIds::default();
        for id in [0, 63, 64, 1023, 1024, 65_535] {
            assert!(!ids.contains(id));
            ids.insert(id);
            assert!(ids.contains(id));
        }
        ids.remove(1024);
        assert!(!ids.contains(1024) && ids.contains(1023) && ids.contains(65_535));
    }
}
