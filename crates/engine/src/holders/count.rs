//! Exclusive blocks when snapshots are deleted: which images gain and lose them
//! (docs/design/design.md §8, F-10). Pure functions of bitmap blocks.
//!
//! A function reads one block of the maps, 32,768 vvbns, or at a range of them. A missing map block
//! counts as a block without bits.
//!
//! By subtraction, for a victim V with neighbours N₁ … in the history:
//!
//! * summary bits that V has and no neighbouring snapshot has are cleared (deletion by
//!   subtraction): by connectedness no other snapshot has them;
//! * blocks that V alone held are not exclusive to V any more;
//! * blocks that V shared with just one neighbour N become exclusive to N, unless a neighbour
//!   that N has after V is removed holds them, too.
//!
//! By addition, for the snapshots that stay:
//!
//! * summary bits that none of them has are cleared;
//! * blocks that just one of them has, and a victim next to it has, too, become exclusive to it.
//!
//! Addition does not compute the losses of victims, so the victims' own counts stay as high as
//! before until the victims are removed.

use std::collections::BTreeMap;

use everglade_env::PageRef;
use everglade_format::{BLOCK_SIZE, Block, bitmap};

use crate::holders::history::Node;
use crate::holders::plan::{Elimination, Plan, Way};

/// Map blocks of all relevant nodes, for one index.
pub(crate) type Maps = BTreeMap<Node, Option<PageRef>>;

/// The effect of releasing victims on one block of the maps.
pub(crate) struct Effect {
    /// Summary bits to clear.
    pub(crate) cleared: Box<Block>,
    /// Blocks each node gains (or, negative, loses) as the only holder.
    pub(crate) exclusive: BTreeMap<Node, i64>,
}

fn map_of(maps: &Maps, node: Node) -> Option<&PageRef> {
    maps.get(&node)
        .expect("the map of every neighbour was loaded")
        .as_ref()
}

/// Bits of `node` that none of `others` has.
pub(crate) fn alone(maps: &Maps, node: Node, others: &[Node]) -> Box<Block> {
    let mut bits = Box::new([0; BLOCK_SIZE]);
    if let Some(map) = map_of(maps, node) {
        bitmap::unite(&mut bits, map);
    }
    for other in others {
        if let Some(map) = map_of(maps, *other) {
            bitmap::subtract(&mut bits, map);
        }
    }
    bits
}

fn counted(bits: &Block, from: u64, to: u64) -> i64 {
    i64::try_from(bitmap::count(bits, from, to)).expect("at most 32,768")
}

/// Computes the effect of releasing the victims in the range `from..to`, in the way that the plan
/// selects.
pub(crate) fn effect(plan: &Plan, maps: &Maps, summary: &Block, range: (u64, u64)) -> Effect {
    match plan.way {
        Way::Subtraction => subtract(plan, maps, range),
        Way::Addition => add_up(plan, maps, summary, range),
    }
}

/// Releases victims one after the other.
fn subtract(plan: &Plan, maps: &Maps, (from, to): (u64, u64)) -> Effect {
    let mut effect = Effect {
        cleared: Box::new([0; BLOCK_SIZE]),
        exclusive: BTreeMap::new(),
    };
    for Elimination { victim, near } in &plan.eliminations {
        let Some(map) = map_of(maps, *victim) else {
            continue;
        };
        let beside: Vec<Node> = near.iter().map(|(node, _)| *node).collect();
        let snapshots: Vec<Node> = beside
            .iter()
            .copied()
            .filter(|node| *node != Node::Active)
            .collect();
        let mut cleared = alone(maps, *victim, &snapshots);
        bitmap::keep_range(&mut cleared, from, to);
        bitmap::unite(&mut effect.cleared, &cleared);
        let own = counted(&alone(maps, *victim, &beside), from, to);
        *effect.exclusive.entry(*victim).or_default() -= own;
        for (node, others) in near {
            let mut gained = alone(maps, *node, others);
            bitmap::intersect(&mut gained, map);
            *effect.exclusive.entry(*node).or_default() += counted(&gained, from, to);
        }
    }
    effect
}

/// Builds the summary anew from those who stay.
fn add_up(plan: &Plan, maps: &Maps, summary: &Block, (from, to): (u64, u64)) -> Effect {
    let mut held = Box::new([0; BLOCK_SIZE]);
    let mut shared = Box::new([0; BLOCK_SIZE]);
    let mut kept = Box::new([0; BLOCK_SIZE]);
    for node in &plan.survivors {
        let Some(map) = map_of(maps, *node) else {
            continue;
        };
        let mut both = held.clone();
        bitmap::intersect(&mut both, map);
        bitmap::unite(&mut shared, &both);
        bitmap::unite(&mut held, map);
        if *node != Node::Active {
            bitmap::unite(&mut kept, map);
        }
    }
    let mut cleared = Box::new(*summary);
    bitmap::subtract(&mut cleared, &kept);
    bitmap::keep_range(&mut cleared, from, to);
    let mut exclusive = BTreeMap::new();
    for (heir, victims) in &plan.heirs {
        let mut gained = Box::new([0; BLOCK_SIZE]);
        for victim in victims {
            if let Some(map) = map_of(maps, *victim) {
                bitmap::unite(&mut gained, map);
            }
        }
        let mut own = alone(maps, *heir, &[]);
        bitmap::subtract(&mut own, &shared);
        bitmap::intersect(&mut gained, &own);
        exclusive.insert(*heir, counted(&gained, from, to));
    }
    Effect { cleared, exclusive }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::holders::history::History;
    use crate::holders::plan::MapBlockAt;
    use everglade_env::Page;
    use everglade_format::SnapshotId;
    use proptest::prelude::*;

    /// A volume of 64 blocks, in the plainest way.
    #[derive(Clone, Default)]
    struct Plain {
        active: u64,
        /// Place of the active image's map block, and places of the snapshots' map blocks.
        place: u64,
        places: BTreeMap<SnapshotId, u64>,
        maps: Vec<(SnapshotId, Option<SnapshotId>, u64)>,
        ghosts: Vec<SnapshotId>,
        parent: Option<SnapshotId>,
        exclusive: BTreeMap<Node, i64>,
    }

    fn page(bits: u64) -> Option<PageRef> {
        let mut page = Page::zeroed();
        page[..8].copy_from_slice(&bits.to_le_bytes());
        Some(page.freeze())
    }

    impl Plain {
        fn history(&self) -> History {
            let parents = self.maps.iter().map(|(id, parent, _)| (*id, *parent));
            History::new(parents, self.ghosts.iter().copied(), self.parent)
        }

        fn live(&self) -> Vec<(SnapshotId, u64)> {
            let live = self
                .maps
                .iter()
                .filter(|(id, ..)| !self.ghosts.contains(id));
            live.map(|(id, _, bits)| (*id, *bits)).collect()
        }

        fn held(&self) -> u64 {
            self.live().iter().fold(0, |all, (_, bits)| all | bits)
        }

        fn maps(&self) -> Maps {
            let live = self
                .live()
                .into_iter()
                .map(|(id, bits)| (Node::Snapshot(id), page(bits)));
            live.chain([(Node::Active, page(self.active))]).collect()
        }

        fn brute_force(&self) -> BTreeMap<Node, i64> {
            let mut all: Vec<(Node, u64)> = self
                .live()
                .into_iter()
                .map(|(id, bits)| (Node::Snapshot(id), bits))
                .collect();
            all.push((Node::Active, self.active));
            let others = |me: Node| {
                all.iter()
                    .filter(|(node, _)| *node != me)
                    .fold(0, |sum, (_, bits)| sum | bits)
            };
            all.iter()
                .map(|(node, bits)| (*node, i64::from((bits & !others(*node)).count_ones())))
                .collect()
        }

        fn create(&mut self) {
            let id = SnapshotId(u32::try_from(self.maps.len()).expect("a few") + 1);
            self.maps.push((id, self.parent, self.active));
            self.places.insert(id, self.place);
            self.parent = Some(id);
            self.exclusive.insert(Node::Snapshot(id), 0);
            self.exclusive.insert(Node::Active, 0);
        }

        fn change(&mut self, free: u64, wanted: u64) {
            let history = self.history();
            // A changed map block has a new place, which no other node has.
            self.place = self.places.values().max().unwrap_or(&0).max(&self.place) + 1;
            for bit in (0..64).map(|bit| 1u64 << bit) {
                if free & self.active & bit != 0 {
                    // Does the consistency point's work for each freed block.
                    let near = history.neighbours(Node::Active);
                    let maps = self.maps();
                    let at = u64::from(bit.trailing_zeros());
                    let has =
                        |node: Node| map_of(&maps, node).is_some_and(|map| bitmap::is_set(map, at));
                    if near.iter().all(|node| !has(*node)) {
                        *self.exclusive.entry(Node::Active).or_default() -= 1;
                    }
                    for node in near {
                        let mut others = history.neighbours(node);
                        others.retain(|other| *other != Node::Active);
                        if bitmap::is_set(&alone(&maps, node, &others), at) {
                            *self.exclusive.entry(node).or_default() += 1;
                        }
                    }
                    self.active &= !bit;
                } else if wanted & bit != 0 && (self.active | self.held()) & bit == 0 {
                    self.active |= bit;
                    *self.exclusive.entry(Node::Active).or_default() += 1;
                }
            }
        }

        /// Each part of the bits is done one way or the other.
        fn delete(&mut self, victims: &[SnapshotId], split: u64, ways: [Way; 2]) -> u64 {
            let summary = *page(self.held()).expect("a page");
            let mut cleared = 0;
            for (way, range) in ways.into_iter().zip([(0, split), (split, 64)]) {
                let history = self.history();
                let plan = match way {
                    Way::Subtraction => Plan::subtraction(&history, victims),
                    Way::Addition => Plan::addition(&history, victims),
                };
                let mut maps = self.maps();
                maps.retain(|node, _| plan.nodes.contains(node));
                let effect = effect(&plan, &maps, &summary, range);
                let place = |node| {
                    Some(MapBlockAt::At(match node {
                        Node::Active => self.place,
                        Node::Snapshot(id) => self.places[&id],
                    }))
                };
                if plan.changes_nothing(place) {
                    let is_idle = effect.exclusive.values().all(|gain| *gain == 0);
                    let is_kept = bitmap::ones(&effect.cleared).next().is_none();
                    assert!(is_idle && is_kept, "{way:?} may not be skipped");
                }
                cleared |= everglade_format::bytes::u64_at(&effect.cleared[..], 0);
                for (node, gain) in effect.exclusive {
                    *self.exclusive.entry(node).or_default() += gain;
                }
            }
            for id in victims {
                self.ghosts.push(*id);
                let left = self
                    .exclusive
                    .remove(&Node::Snapshot(*id))
                    .expect("counted");
                let is_exact = ways == [Way::Subtraction; 2];
                assert!(
                    left == 0 || left > 0 && !is_exact,
                    "a victim keeps no block"
                );
            }
            cleared
        }

        fn restore(&mut self, target: SnapshotId) {
            let own = self
                .exclusive
                .get(&Node::Active)
                .copied()
                .unwrap_or_default();
            self.create();
            let safety = self.parent.expect("just created");
            self.exclusive.insert(Node::Snapshot(safety), own);
            self.parent = Some(target);
            self.place = self.places[&target];
            self.active = self
                .live()
                .into_iter()
                .find(|(id, _)| *id == target)
                .expect("live")
                .1;
            self.exclusive.insert(Node::Snapshot(target), 0);
            self.exclusive.insert(Node::Active, 0);
        }
    }

    proptest! {
        /// The equations for exclusive blocks (docs/design/design.md §8, F-10): counted blocks and
        /// cleared summary bits are the same as a count over all holders.
        #[test]
        fn counts_and_cleared_bits_agree_with_brute_force(
            steps in proptest::collection::vec(
                (0..10u8, any::<u64>(), any::<u64>(), 0..64u64),
                1..40,
            ),
        ) {
            let mut plain = Plain::default();
            for (kind, one, other, split) in steps {
                let live: Vec<SnapshotId> = plain.live().into_iter().map(|(id, _)| id).collect();
                let pick = |seed: u64| {
                    live[usize::try_from(seed % live.len() as u64).expect("below the length")]
                };
                match kind {
                    0..4 => plain.change(one & other, !one & other),
                    4..7 => plain.create(),
                    7..9 if !live.is_empty() => {
                        // A few, or about half of all.
                        let mut victims = vec![pick(one), pick(other), pick(split)];
                        if kind == 8 {
                            let is_chosen = |id: &SnapshotId| other >> (id.0 % 64) & 1 == 1;
                            victims.extend(live.iter().copied().filter(is_chosen));
                        }
                        victims.sort_unstable();
                        victims.dedup();
                        let way = |bit: u64| match one >> bit & 1 {
                            0 => Way::Subtraction,
                            _ => Way::Addition,
                        };
                        let before = plain.held();
                        let cleared = plain.delete(&victims, split, [way(0), way(1)]);
                        prop_assert_eq!(cleared, before & !plain.held());
                    }
                    9 if !live.is_empty() => plain.restore(pick(one)),
                    _ => {}
                }
                let counted = plain.brute_force();
                if !plain.live().is_empty() {
                    for (node, blocks) in counted {
                        let exclusive = plain.exclusive.get(&node).copied().unwrap_or_default();
                        prop_assert_eq!(exclusive, blocks, "{:?}", node);
                    }
                } else {
                    plain.exclusive.insert(Node::Active, i64::from(plain.active.count_ones()));
                }
            }
        }
    }

    #[test]
    fn a_range_of_a_map_block_leaves_the_rest_alone() {
        let mut plain = Plain::default();
        plain.change(0, 0b1111);
        plain.create();
        plain.change(0b1111, 0);
        let victims = [SnapshotId(1)];
        let summary = *page(plain.held()).expect("a page");
        let maps = plain.maps();
        for plan in [
            Plan::subtraction(&plain.history(), &victims),
            Plan::addition(&plain.history(), &victims),
        ] {
            let effect = effect(&plan, &maps, &summary, (1, 3));
            let cleared: Vec<u64> = bitmap::ones(&effect.cleared).collect();
            assert_eq!(cleared, [1, 2], "{:?}", plan.way);
        }
    }
}
