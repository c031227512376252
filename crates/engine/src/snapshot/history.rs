//! The history of a volume: a tree of snapshots with the active image as a leaf (DESIGN §8).
//!
//! A snapshot's parent is the snapshot that the image it was taken of descended from. Without restores this is a
//! chain, and *neighbour* means what S003 means by it.
//!
//! **Holders are connected** (generalises Lemma 3). A block is allocated in the active image, passes to snapshots
//! taken of it, and stays with images that descend from them until one frees it; once free in an image it can come
//! back there only when nobody holds it. So the nodes that hold a block are a connected part of the tree.
//!
//! Deleting a node with several children would break that: a block that two of them hold need not be in their
//! grandparent. So a deleted snapshot stays in the tree as a *ghost* while it joins more than two others, and two
//! nodes are neighbours if a path of ghosts connects them. (That is vertex elimination: all former neighbours
//! become neighbours of each other, which keeps connected sets connected.)
//!
//! Consequence, used everywhere: if a node holds a block and none of its neighbours does, nobody else does.

use std::collections::{BTreeMap, BTreeSet};

use everglade_format::SnapshotId;
use everglade_format::planted::{self, Bug};

/// Somebody who holds blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Node {
    /// What clients change.
    Active,
    /// A snapshot.
    Snapshot(SnapshotId),
}

/// See the module's documentation.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    edges: BTreeMap<Node, Vec<Node>>,
    ghosts: BTreeSet<SnapshotId>,
}

impl History {
    /// A tree from each snapshot's parent, those that are ghosts, and the parent of the active image. Parents that
    /// are not in it are taken for none.
    pub(crate) fn new(
        parents: impl IntoIterator<Item = (SnapshotId, Option<SnapshotId>)>,
        ghosts: impl IntoIterator<Item = SnapshotId>,
        active: Option<SnapshotId>,
    ) -> History {
        let mut history = History {
            edges: BTreeMap::new(),
            ghosts: ghosts.into_iter().collect(),
        };
        let parents: Vec<_> = parents.into_iter().collect();
        for (id, _) in &parents {
            history.edges.entry(Node::Snapshot(*id)).or_default();
        }
        let active = std::iter::once((Node::Active, active));
        let snapshots = parents
            .iter()
            .map(|(id, parent)| (Node::Snapshot(*id), *parent));
        for (node, parent) in snapshots.chain(active) {
            let parent = parent.map(Node::Snapshot);
            if let Some(parent) = parent.filter(|parent| history.edges.contains_key(parent)) {
                history.edges.entry(node).or_default().push(parent);
                history.edges.entry(parent).or_default().push(node);
            }
        }
        history
    }

    /// Everybody who is not a ghost.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = Node> + '_ {
        let snapshots = self.edges.keys().copied();
        let snapshots = snapshots.filter(|node| *node != Node::Active && !self.is_ghost(*node));
        std::iter::once(Node::Active).chain(snapshots)
    }

    /// Takes a node's blocks away.
    pub(crate) fn bury(&mut self, id: SnapshotId) {
        self.ghosts.insert(id);
    }

    fn is_ghost(&self, node: Node) -> bool {
        matches!(node, Node::Snapshot(id) if self.ghosts.contains(&id))
    }

    /// Whoever might hold a block that `node` holds: next to it, or joined to it by ghosts. Ascending.
    pub(crate) fn neighbours(&self, node: Node) -> Vec<Node> {
        let mut seen = BTreeSet::from([node]);
        let mut found = BTreeSet::new();
        let mut todo = vec![node];
        while let Some(at) = todo.pop() {
            for next in self.edges.get(&at).into_iter().flatten() {
                if !seen.insert(*next) {
                    continue;
                }
                if self.is_ghost(*next) {
                    todo.push(*next);
                } else {
                    found.insert(*next);
                }
            }
        }
        found.into_iter().collect()
    }
}

/// Takes ghosts out of a tree that needs them no more: those without children, and those with one child, which
/// gets their parent. Returns their ids. A ghost that joins two children stays even if it has no parent.
pub(crate) fn prune(
    parents: &mut BTreeMap<SnapshotId, Option<SnapshotId>>,
    ghosts: &mut BTreeSet<SnapshotId>,
    active: &mut Option<SnapshotId>,
) -> Vec<SnapshotId> {
    let mut pruned = Vec::new();
    loop {
        let needless = ghosts.iter().copied().find(|ghost| {
            let children = parents.values().chain([&*active]);
            let children = children.filter(|parent| **parent == Some(*ghost));
            children.count() <= 1 || planted::is(Bug::GhostDropped)
        });
        let Some(ghost) = needless else {
            return pruned;
        };
        ghosts.remove(&ghost);
        let above = parents.remove(&ghost).flatten();
        for parent in parents.values_mut().chain([&mut *active]) {
            if *parent == Some(ghost) {
                *parent = above;
            }
        }
        pruned.push(ghost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn id(number: u32) -> SnapshotId {
        SnapshotId(number)
    }

    fn snapshot(number: u32) -> Node {
        Node::Snapshot(id(number))
    }

    #[test]
    fn in_a_chain_neighbours_are_the_older_and_the_younger_one() {
        let chain = [(id(1), None), (id(2), Some(id(1))), (id(3), Some(id(2)))];
        let history = History::new(chain, [], Some(id(3)));
        assert_eq!(history.neighbours(snapshot(2)), [snapshot(1), snapshot(3)]);
        assert_eq!(history.neighbours(snapshot(3)), [Node::Active, snapshot(2)]);
        assert_eq!(history.neighbours(Node::Active), [snapshot(3)]);
        let mut shorter = history;
        shorter.bury(id(2));
        assert_eq!(shorter.neighbours(snapshot(1)), [snapshot(3)]);
    }

    #[test]
    fn a_ghost_joins_its_children_and_its_parent() {
        // 1 ← 2 ← {3, active}: a restore to 2 was made after 3.
        let tree = [(id(1), None), (id(2), Some(id(1))), (id(3), Some(id(2)))];
        let history = History::new(tree, [id(2)], Some(id(2)));
        assert_eq!(history.neighbours(snapshot(3)), [Node::Active, snapshot(1)]);
        assert_eq!(history.neighbours(snapshot(1)), [Node::Active, snapshot(3)]);
    }

    /// What happens to a volume, seen by one block.
    #[derive(Clone, Debug)]
    enum Event {
        Allocate,
        Free,
        Create,
        Delete(usize),
        Restore(usize),
    }

    fn events() -> impl Strategy<Value = Vec<Event>> {
        let event = prop_oneof![
            3 => Just(Event::Allocate),
            3 => Just(Event::Free),
            4 => Just(Event::Create),
            3 => (0..8usize).prop_map(Event::Delete),
            2 => (0..8usize).prop_map(Event::Restore),
        ];
        proptest::collection::vec(event, 0..40)
    }

    proptest! {
        /// Lemma 3 as generalised: whatever happens, whoever holds the block has a neighbour that does, if
        /// anybody else does.
        #[test]
        fn holders_stay_connected(events in events()) {
            let mut parents: Vec<(SnapshotId, Option<SnapshotId>)> = Vec::new();
            let mut ghosts: BTreeSet<SnapshotId> = BTreeSet::new();
            let mut holders: BTreeSet<Node> = BTreeSet::new();
            let mut active: Option<SnapshotId> = None;
            for event in events {
                let live: Vec<SnapshotId> = parents.iter().map(|(id, _)| *id).filter(|id| !ghosts.contains(id)).collect();
                let create = |holders: &mut BTreeSet<Node>, parents: &mut Vec<_>, active: &mut Option<SnapshotId>| {
                    let new = id(u32::try_from(parents.len()).expect("a few") + 1);
                    if holders.contains(&Node::Active) { holders.insert(Node::Snapshot(new)); }
                    parents.push((new, *active));
                    *active = Some(new);
                };
                match event {
                    // Only what nobody holds is allocated.
                    Event::Allocate if holders.is_empty() => { holders.insert(Node::Active); }
                    Event::Free => { holders.remove(&Node::Active); }
                    Event::Create => create(&mut holders, &mut parents, &mut active),
                    Event::Delete(which) if !live.is_empty() => {
                        let victim = live[which % live.len()];
                        ghosts.insert(victim);
                        holders.remove(&Node::Snapshot(victim));
                    }
                    Event::Restore(which) if !live.is_empty() => {
                        let target = live[which % live.len()];
                        create(&mut holders, &mut parents, &mut active);
                        active = Some(target);
                        if holders.contains(&Node::Snapshot(target)) { holders.insert(Node::Active); }
                        else { holders.remove(&Node::Active); }
                    }
                    _ => {}
                }
                let history = History::new(parents.clone(), ghosts.clone(), active);
                for holder in &holders {
                    let is_alone = holders.len() == 1;
                    let near = history.neighbours(*holder).iter().any(|n| holders.contains(n));
                    prop_assert!(is_alone || near, "{holders:?} in {history:?}");
                }
                // Without the ghosts that it does not need, the tree has the same neighbours.
                let (mut few, mut rest, mut below) = (parents.iter().copied().collect(), ghosts.clone(), active);
                prune(&mut few, &mut rest, &mut below);
                let smaller = History::new(few, rest, below);
                let all = parents.iter().map(|(id, _)| Node::Snapshot(*id)).chain([Node::Active]);
                for node in all.filter(|node| !matches!(node, Node::Snapshot(id) if ghosts.contains(id))) {
                    prop_assert_eq!(history.neighbours(node), smaller.neighbours(node));
                }
            }
        }
    }
}
