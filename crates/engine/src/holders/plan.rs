//! The plan of a delete pass: how it finds the blocks that only its victims hold (F-10, F-11,
//! F-14). The plan is computed once for a history, and used for each block of the maps.
//!
//! | way | a summary bit goes if | maps loaded for each block |
//! | --- | --- | --- |
//! | *subtraction* | a victim has it, and none of the snapshots next to it | all victims, who is next to them, and next to those |
//! | *addition* | no snapshot that stays has it | all who stay, and the victims next to one of them |
//!
//! The pass also finds the blocks that become exclusive to a survivor. This needs connected holders
//! ([`crate::holders::history`]) in both ways. Subtraction takes the victims out of the history one
//! by one. With addition, a block becomes exclusive to a survivor if a victim next to that survivor
//! has the block and no other survivor has it. A victim farther away has the block only if a victim
//! next to the survivor has it, so victims in the middle are not loaded.
//!
//! So addition loads fewer maps when most snapshots are deleted: for all but the last ten of 1,000
//! in a chain, it loads 12 maps and subtraction 993. Subtraction loads fewer maps when few of many
//! are deleted: for one of 1,000, it loads 6 maps and addition 1,001. The number of maps decides,
//! as in the paper (F-14).
//!
//! Unlike the paper's, our passes can change their way, in both directions, whenever the history
//! changes. In the paper, addition discards the deleted snapshot, so subtraction is impossible
//! afterwards. Our passes keep the victims' snapmaps to the end ([`crate::background::scan`]). This
//! costs at most one block for each victim and 32,768 blocks, and none for map blocks that a
//! neighbour shares. The paper must use addition when space is low, because its subtraction
//! protects *all* blocks of a victim; ours does not.
//!
//! 1. Both ways clear the same bits of the summary map, and give every survivor the same exclusive
//!    blocks. So one way may continue where the other stopped, also after a restart, and the media
//!    need not record the way.
//! 2. A block of the maps is skipped only if neither way would change anything in it.

use std::collections::{BTreeMap, BTreeSet};

use everglade_format::SnapshotId;

use crate::holders::history::{History, Node};

/// See the module's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// The summary map loses the bits that only victims have.
    Subtraction,
    /// The summary map keeps the bits that survivors have.
    Addition,
}

impl Way {
    /// Name in metrics and answers.
    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        match self {
            Way::Subtraction => "subtraction",
            Way::Addition => "addition",
        }
    }
}

/// A plan for one history.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) way: Way,
    /// Nodes whose map blocks are needed. The active image is always among them.
    pub(crate) nodes: Vec<Node>,
    /// By subtraction: the victims, one after the other.
    pub(crate) eliminations: Vec<Elimination>,
    /// By addition: the nodes that stay, the active image among them.
    pub(crate) survivors: Vec<Node>,
    /// By addition: survivors next to victims, each with those victims.
    pub(crate) heirs: Vec<(Node, Vec<Node>)>,
    /// By addition: groups of adjacent victims.
    groups: Vec<Group>,
}

/// The removal of one victim from the history, after the victims before it.
#[derive(Clone, Debug)]
pub(crate) struct Elimination {
    pub(crate) victim: Node,
    /// The victim's neighbours, each with the neighbours it has after the removal.
    pub(crate) near: Vec<(Node, Vec<Node>)>,
}

/// Victims that are next to each other.
#[derive(Clone, Debug, Default)]
struct Group {
    /// Survivors next to it, and its members that they are next to.
    ends: BTreeSet<Node>,
    rim: BTreeSet<Node>,
    /// True if no victim of the group has more than two neighbours.
    is_path: bool,
}

impl Plan {
    /// The cheaper way.
    pub(crate) fn new(history: &History, victims: &[SnapshotId]) -> Plan {
        let addition = Plan::addition(history, victims);
        let mut close: BTreeSet<Node> = victims.iter().copied().map(Node::Snapshot).collect();
        close.insert(Node::Active);
        for (heir, _) in &addition.heirs {
            close.insert(*heir);
            close.extend(history.neighbours(*heir));
        }
        match addition.nodes.len() < close.len() {
            true => addition,
            false => Plan::subtraction(history, victims),
        }
    }

    /// Returns the plan for subtraction.
    pub(crate) fn subtraction(history: &History, victims: &[SnapshotId]) -> Plan {
        let mut nodes = BTreeSet::from([Node::Active]);
        let mut later = history.clone();
        let mut eliminations = Vec::new();
        for id in victims {
            let victim = Node::Snapshot(*id);
            let near = later.neighbours(victim);
            later.bury(*id);
            let near = near.into_iter().map(|node| (node, later.neighbours(node)));
            let elimination = Elimination {
                victim,
                near: near.collect(),
            };
            nodes.insert(victim);
            for (node, others) in &elimination.near {
                nodes.insert(*node);
                nodes.extend(others);
            }
            eliminations.push(elimination);
        }
        Plan {
            way: Way::Subtraction,
            nodes: nodes.into_iter().collect(),
            eliminations,
            survivors: Vec::new(),
            heirs: Vec::new(),
            groups: Vec::new(),
        }
    }

    /// Returns the plan for addition.
    pub(crate) fn addition(history: &History, victims: &[SnapshotId]) -> Plan {
        let victims: BTreeSet<Node> = victims.iter().copied().map(Node::Snapshot).collect();
        let survivors: Vec<Node> = history
            .nodes()
            .filter(|node| !victims.contains(node))
            .collect();
        let mut heirs: BTreeMap<Node, Vec<Node>> = BTreeMap::new();
        let mut groups = Vec::new();
        let mut rest = victims.clone();
        while let Some(first) = rest.pop_first() {
            let mut group = Group {
                is_path: true,
                ..Group::default()
            };
            let mut todo = vec![first];
            while let Some(member) = todo.pop() {
                let near = history.neighbours(member);
                group.is_path &= near.len() <= 2;
                for node in near {
                    if !victims.contains(&node) {
                        group.ends.insert(node);
                        group.rim.insert(member);
                        heirs.entry(node).or_default().push(member);
                    } else if rest.remove(&node) {
                        todo.push(node);
                    }
                }
            }
            groups.push(group);
        }
        let mut nodes: BTreeSet<Node> = survivors.iter().copied().collect();
        nodes.extend(heirs.values().flatten());
        Plan {
            way: Way::Addition,
            nodes: nodes.into_iter().collect(),
            eliminations: Vec::new(),
            survivors,
            heirs: heirs.into_iter().collect(),
            groups,
        }
    }

    /// True if releasing the victims changes nothing in a block of the maps, or below a block above
    /// them, told by where everybody has it. `map_block_of` says so, or `None` if that cannot be
    /// told.
    ///
    /// Where two neighbours have the very block that a victim has, they go on sharing it, and
    /// everybody's exclusive blocks stay what they are. A path of victims has what both of its ends
    /// have, if those and the survivors beside them have it: the holders of the map block itself
    /// are connected.
    pub(crate) fn changes_nothing(
        &self,
        map_block_of: impl Fn(Node) -> Option<MapBlockAt>,
    ) -> bool {
        let is_shared = |elimination: &Elimination| match map_block_of(elimination.victim) {
            None => false,
            Some(MapBlockAt::Empty) => true,
            here => {
                let near = elimination.near.iter();
                near.filter(|(node, _)| map_block_of(*node) == here).count() >= 2
            }
        };
        let is_alike = |group: &Group| {
            let mut all = group
                .ends
                .iter()
                .chain(&group.rim)
                .map(|node| map_block_of(*node));
            let first = all.next().flatten();
            let is_block = matches!(first, Some(MapBlockAt::At(_)));
            group.is_path && group.ends.len() == 2 && is_block && all.all(|it| it == first)
        };
        self.eliminations.iter().all(is_shared) && self.groups.iter().all(is_alike)
    }
}

/// Where an image has a given block of its map. Images that have it at the same vvbn share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MapBlockAt {
    /// Nowhere: there are no bits.
    Empty,
    /// At this vvbn.
    At(u64),
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn chain(count: u32) -> History {
        let parent = |number: u32| (number > 1).then(|| SnapshotId(number - 1));
        let nodes = (1..=count).map(|number| (SnapshotId(number), parent(number)));
        History::new(nodes, [], Some(SnapshotId(count)))
    }

    fn ids(numbers: impl IntoIterator<Item = u32>) -> Vec<SnapshotId> {
        numbers.into_iter().map(SnapshotId).collect()
    }

    #[test]
    fn few_of_many_go_by_subtraction_and_many_by_addition() {
        let history = chain(1000);
        let one = Plan::new(&history, &ids([500]));
        assert_eq!((one.way, one.nodes.len()), (Way::Subtraction, 6));
        let old = Plan::new(&history, &ids(1..=990));
        // The ten that stay, the active image, and the newest of those that go.
        assert_eq!((old.way, old.nodes.len()), (Way::Addition, 12));
        let all = Plan::new(&history, &ids(1..=1000));
        assert_eq!((all.way, all.nodes.len()), (Way::Addition, 2));
        let middle = Plan::new(&history, &ids(10..=990));
        assert_eq!((middle.way, middle.nodes.len()), (Way::Addition, 22));
        let every_other = Plan::new(&history, &ids((1..=1000).step_by(2)));
        assert_eq!(every_other.way, Way::Subtraction);
    }

    #[test]
    fn a_map_block_that_both_sides_share_changes_nothing() {
        let history = chain(5);
        for plan in [
            Plan::subtraction(&history, &ids([2, 3])),
            Plan::addition(&history, &ids([2, 3])),
        ] {
            let at = |places: [u64; 6]| {
                plan.changes_nothing(|node| match node {
                    Node::Active => Some(MapBlockAt::At(places[5])),
                    Node::Snapshot(id) => Some(MapBlockAt::At(places[id.0 as usize - 1])),
                })
            };
            assert!(at([7, 7, 7, 7, 8, 9]));
            assert!(!at([6, 7, 7, 7, 7, 7]), "1 has another");
            assert!(!at([7, 7, 7, 8, 8, 8]), "4 has another");
            assert!(!at([6, 7, 7, 8, 8, 8]), "only the victims have it");
            assert!(!plan.changes_nothing(|_| None), "nobody can tell");
        }
    }

    #[test]
    fn victims_beside_a_ghost_are_looked_at_themselves() {
        // 1 ← 2 ← {3, 4, active}, 2 is a ghost: 1, 3, 4 and the active image are next to each
        // other.
        let tree = [(1, None), (2, Some(1)), (3, Some(2)), (4, Some(2))];
        let tree = tree.map(|(id, parent)| (SnapshotId(id), parent.map(SnapshotId)));
        let history = History::new(tree, ids([2]), Some(SnapshotId(2)));
        let plan = Plan::addition(&history, &ids([3]));
        assert!(
            !plan.changes_nothing(|_| Some(MapBlockAt::At(7))),
            "three are beside it"
        );
        let history = History::new(tree, ids([2, 4]), Some(SnapshotId(2)));
        let plan = Plan::addition(&history, &ids([3]));
        assert!(plan.changes_nothing(|_| Some(MapBlockAt::At(7))));
        let other = |node| match node {
            Node::Snapshot(SnapshotId(3)) => Some(MapBlockAt::At(8)),
            _ => Some(MapBlockAt::At(7)),
        };
        assert!(!plan.changes_nothing(other), "the victim has another");
    }

    #[test]
    fn a_victim_at_the_end_of_a_chain_has_no_two_sides_to_share_with() {
        let history = chain(3);
        let alike = |_| Some(MapBlockAt::At(7));
        assert!(!Plan::subtraction(&history, &ids([1])).changes_nothing(alike));
        assert!(!Plan::addition(&history, &ids([1])).changes_nothing(alike));
    }

    #[test]
    fn a_branch_of_victims_is_not_skipped_for_what_is_at_its_ends() {
        // 1 ← 2 ← {3, active}: snapshots 2 and 3 are deleted, and 3 has exclusive blocks.
        let tree = [(1, None), (2, Some(1)), (3, Some(2))];
        let tree = tree.map(|(id, parent)| (SnapshotId(id), parent.map(SnapshotId)));
        let history = History::new(tree, [], Some(SnapshotId(2)));
        let place = |node| match node {
            Node::Snapshot(SnapshotId(3)) => Some(MapBlockAt::At(8)),
            _ => Some(MapBlockAt::At(7)),
        };
        for plan in [
            Plan::subtraction(&history, &ids([2, 3])),
            Plan::addition(&history, &ids([2, 3])),
        ] {
            assert!(!plan.changes_nothing(place), "{:?}", plan.way);
        }
    }

    #[test]
    fn a_victim_without_bits_changes_nothing_by_subtraction() {
        let plan = Plan::subtraction(&chain(3), &ids([2]));
        let empty = |node| match node {
            Node::Snapshot(SnapshotId(2)) => Some(MapBlockAt::Empty),
            _ => Some(MapBlockAt::At(7)),
        };
        assert!(plan.changes_nothing(empty));
    }

    /// Snapshots whose parents are older, and which of them are ghosts and victims.
    fn histories() -> impl Strategy<Value = (History, Vec<SnapshotId>)> {
        let snapshot = (any::<prop::sample::Index>(), 0..4_u8);
        prop::collection::vec(snapshot, 1..14).prop_map(|snapshots| {
            let number = |place: usize| SnapshotId(u32::try_from(place).expect("a few") + 1);
            let parent = |place: usize, index: prop::sample::Index| {
                (place > 0).then(|| number(index.index(place)))
            };
            let parents: Vec<_> = snapshots
                .iter()
                .enumerate()
                .map(|(place, (index, _))| (number(place), parent(place, *index)))
                .collect();
            let of = |wanted: u8| {
                let kinds = snapshots.iter().enumerate();
                let some = kinds.filter(move |(_, (_, kind))| *kind == wanted);
                some.map(|(place, _)| number(place)).collect::<Vec<_>>()
            };
            let active = Some(number(snapshots.len() - 1));
            (History::new(parents, of(0), active), of(1))
        })
    }

    proptest! {
        #[test]
        fn the_way_that_is_chosen_loads_the_fewer_maps((history, victims) in histories()) {
            let (plan, ways) = (
                Plan::new(&history, &victims),
                [Plan::subtraction(&history, &victims), Plan::addition(&history, &victims)],
            );
            let fewest = ways.iter().map(|way| way.nodes.len()).min();
            prop_assert_eq!(Some(plan.nodes.len()), fewest, "{:?}", plan.way);
        }

        #[test]
        fn a_plan_names_every_map_that_it_needs((history, victims) in histories()) {
            let down = |node: &Node| matches!(node, Node::Snapshot(id) if victims.contains(id));
            let subtraction = Plan::subtraction(&history, &victims);
            let gone: Vec<Node> = subtraction.eliminations.iter().map(|it| it.victim).collect();
            prop_assert_eq!(gone, victims.iter().map(|id| Node::Snapshot(*id)).collect::<Vec<_>>());
            let near = subtraction.eliminations.iter().flat_map(|it| &it.near);
            let needed = near.flat_map(|(node, others)| others.iter().chain([node]));
            prop_assert!(needed.clone().all(|node| subtraction.nodes.contains(node)));
            let addition = Plan::addition(&history, &victims);
            prop_assert!(addition.survivors.iter().all(|node| addition.nodes.contains(node)));
            prop_assert!(!addition.survivors.iter().any(down));
            for (heir, near) in &addition.heirs {
                prop_assert!(addition.survivors.contains(heir) && near.iter().all(down));
                prop_assert!(near.iter().all(|node| addition.nodes.contains(node)));
                let beside = history.neighbours(*heir);
                prop_assert_eq!(near.len(), beside.iter().filter(|node| down(node)).count());
            }
        }
    }
}
