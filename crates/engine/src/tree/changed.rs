//! Changed blocks of a file by position: sorted, with a fast look-up.
//!
//! A consistency point touches the same block many times in a row: 255 pointers go into one level-1
//! block, 32,000 bits into one map block. The last few blocks are remembered, so most look-ups need
//! one comparison instead of a search among thousands of blocks.
//!
//! 1. `recent` names only blocks that exist: removing a block also removes it from `recent`.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Range;

use slab::Slab;

use crate::tree::position::Position;

/// Positions remembered; a block is remembered in one of these places only.
const RECENT: usize = 4;

/// See the module's documentation.
pub(super) struct Blocks<T> {
    order: BTreeMap<Position, usize>,
    blocks: Slab<T>,
    recent: [Cell<Option<(Position, usize)>>; RECENT],
}

impl<T> Default for Blocks<T> {
    fn default() -> Self {
        Blocks {
            order: BTreeMap::new(),
            blocks: Slab::new(),
            recent: Default::default(),
        }
    }
}

impl<T> Blocks<T> {
    fn recent(&self, position: Position) -> &Cell<Option<(Position, usize)>> {
        let (level, index) = position;
        let sum = u64::from(level).wrapping_add(index);
        &self.recent[usize::try_from(sum % RECENT as u64).expect("below 4")]
    }

    fn find(&self, position: Position) -> Option<usize> {
        let recent = self.recent(position);
        if let Some((known, place)) = recent.get()
            && known == position
        {
            return Some(place);
        }
        let place = *self.order.get(&position)?;
        recent.set(Some((position, place)));
        Some(place)
    }

    pub(super) fn get(&self, position: Position) -> Option<&T> {
        self.find(position).map(|place| &self.blocks[place])
    }

    pub(super) fn get_mut(&mut self, position: Position) -> Option<&mut T> {
        self.find(position).map(|place| &mut self.blocks[place])
    }

    pub(super) fn contains(&self, position: Position) -> bool {
        self.find(position).is_some()
    }

    /// Adds a block.
    ///
    /// # Panics
    /// Returns the block if the position is present already.
    pub(super) fn insert(&mut self, position: Position, block: T) {
        let place = self.blocks.insert(block);
        let before = self.order.insert(position, place);
        assert!(before.is_none(), "{position:?} is changed already");
    }

    pub(super) fn remove(&mut self, position: Position) -> Option<T> {
        let place = self.order.remove(&position)?;
        let recent = self.recent(position);
        if recent.get().is_some_and(|(known, _)| known == position) {
            recent.set(None);
        }
        Some(self.blocks.remove(place))
    }

    /// The blocks from a position on, in order.
    pub(super) fn iter_from(&self, first: Position) -> impl Iterator<Item = (Position, &T)> {
        let order = self.order.range(first..);
        order.map(|(position, place)| (*position, &self.blocks[*place]))
    }

    /// Positions in a range, in order.
    pub(super) fn range(
        &self,
        range: Range<Position>,
    ) -> impl DoubleEndedIterator<Item = Position> {
        self.order.range(range).map(|(position, _)| *position)
    }

    pub(super) fn first(&self) -> Option<Position> {
        self.order.keys().next().copied()
    }

    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_found_as_in_a_map_whatever_was_asked_for_before() {
        let mut blocks = Blocks::default();
        let mut model = BTreeMap::new();
        let mut state = 1u64;
        for step in 0..20_000u64 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let position = (
                u8::try_from(state >> 60 & 1).expect("a bit"),
                state >> 40 & 31,
            );
            match state >> 33 & 3 {
                0 if !model.contains_key(&position) => {
                    blocks.insert(position, step);
                    model.insert(position, step);
                }
                1 => assert_eq!(blocks.remove(position), model.remove(&position)),
                2 => {
                    if let Some(block) = blocks.get_mut(position) {
                        *block += 1;
                    }
                    model.entry(position).and_modify(|block| *block += 1);
                }
                _ => assert_eq!(blocks.get(position), model.get(&position)),
            }
            assert_eq!(blocks.contains(position), model.contains_key(&position));
        }
        let all: Vec<_> = blocks
            .iter_from((0, 0))
            .map(|(position, block)| (position, *block))
            .collect();
        assert_eq!(all, model.into_iter().collect::<Vec<_>>());
        assert_eq!(blocks.len(), all.len());
        assert_eq!(blocks.first(), all.first().map(|(position, _)| *position));
    }
}
