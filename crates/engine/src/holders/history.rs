//! The history of a volume: a tree of snapshots with the active image as a leaf
//! (docs/design/design.md §8).
//!
//! A snapshot's parent is the snapshot that its image descended from when it was taken. Without
//! restores the history is a chain, and *neighbour* has the meaning of S003.
//!
//! **Holders are connected** (generalises Lemma 3). A block is allocated in the active image,
//! passes to snapshots taken of it, and stays with images that descend from them until one frees
//! it; once an image has freed a block, the block can return to that image only when no image holds
//! it. So the nodes that hold a block are a connected part of the tree.
//!
//! Deleting a node with several children would break this rule: a block that two of the children
//! hold need not be in their grandparent. So a deleted snapshot stays in the tree as a *ghost*
//! while it joins more than two others, and two nodes are neighbours if a path of ghosts connects
//! them. (That is vertex elimination: all former neighbours become neighbours of each other, which
//! keeps connected sets connected.)
//!
//! Restoring a LUN gives the active image blocks of a snapshot that its parent may not have (F-15).
//! Then the active image descends from both. The tree becomes a graph with further edges, called
//! *also*, and the rules above still hold. Precisely: the snapshots among the holders of a block
//! are connected without the active image, and if the active image holds the block, too, the active
//! image is next to one of them. The next snapshot inherits the edges of the active image, so the
//! active image becomes a leaf again. Cloning a LUN from a snapshot
//! ([`crate::background::lun_clone`]) gives the active image blocks in the same way, with the same
//! edge.
//!
//! Consequence, used everywhere: if a node holds a block and none of its neighbours does, no other
//! node does.

use std::collections::{BTreeMap, BTreeSet};

use everglade_format::SnapshotId;
use everglade_format::snapshot::ALSO_MAX;

/// A holder of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Node {
    /// The active image, which clients change.
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
    /// A tree from each snapshot's parent, those that are ghosts, and the parent of the active
    /// image. Parents that are not in it are taken for none.
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

    /// Adds another parent to a node, if that parent exists.
    pub(crate) fn join(&mut self, node: Node, also: SnapshotId) {
        let also = Node::Snapshot(also);
        let is_known = self.edges.contains_key(&also);
        let near = self.edges.entry(node).or_default();
        if is_known && node != also && !near.contains(&also) {
            near.push(also);
            self.edges.entry(also).or_default().push(node);
        }
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

    /// Returns all nodes that might hold a block that `node` holds: its neighbours, and nodes
    /// joined to it by ghosts. Ascending.
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

/// The ancestors of an image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Line {
    /// The snapshot that was the last one when it was taken, or restored to.
    pub(crate) parent: Option<SnapshotId>,
    /// Others, ascending, without the parent.
    pub(crate) also: Vec<SnapshotId>,
}

impl Line {
    /// Descends from this one too.
    pub(crate) fn add(&mut self, id: SnapshotId) {
        if self.parent != Some(id)
            && let Err(place) = self.also.binary_search(&id)
        {
            self.also.insert(place, id);
        }
    }

    fn all(&self) -> impl Iterator<Item = SnapshotId> {
        self.parent.into_iter().chain(self.also.iter().copied())
    }

    fn has(&self, id: SnapshotId) -> bool {
        self.all().any(|known| known == id)
    }

    /// Returns the line without a ghost, whose ancestors take its place.
    fn without(&self, ghost: SnapshotId, its: &Line) -> Line {
        let is_parent = self.parent == Some(ghost);
        let mut line = Line {
            parent: if is_parent { its.parent } else { self.parent },
            also: Vec::new(),
        };
        let kept = self.also.iter().copied().filter(|id| *id != ghost);
        kept.chain(its.all()).for_each(|id| line.add(id));
        line
    }
}

/// Removes ghosts that a history no longer needs: ghosts with at most one child. The child gets
/// their ancestors, which become neighbours of each other. Returns the ids of the ghosts. A ghost
/// that joins two children stays even without a parent, and so does a ghost whose ancestors would
/// exceed the space in a record.
pub(crate) fn prune(
    lines: &mut BTreeMap<SnapshotId, Line>,
    ghosts: &mut BTreeSet<SnapshotId>,
    active: &mut Line,
) -> Vec<SnapshotId> {
    let mut pruned = Vec::new();
    'again: loop {
        for ghost in ghosts.clone() {
            if prune_one(lines, active, ghost) {
                ghosts.remove(&ghost);
                pruned.push(ghost);
                continue 'again;
            }
        }
        return pruned;
    }
}

/// False, and nothing is changed, if the ghost is needed.
fn prune_one(lines: &mut BTreeMap<SnapshotId, Line>, active: &mut Line, ghost: SnapshotId) -> bool {
    let below = lines.values().chain([&*active]);
    let children = below.filter(|line| line.has(ghost)).count();
    if children > 1 {
        return false;
    }
    let its = lines[&ghost].clone();
    let mut changed: BTreeMap<SnapshotId, Line> = BTreeMap::new();
    for (id, line) in lines.iter().filter(|(_, line)| line.has(ghost)) {
        changed.insert(*id, line.without(ghost, &its));
    }
    let mut active_then = active.clone();
    if active.has(ghost) {
        active_then = active.without(ghost, &its);
    }
    let ancestors: Vec<SnapshotId> = its.all().collect();
    for younger in &ancestors {
        let line = changed.get(younger).or_else(|| lines.get(younger));
        let Some(mut line) = line.cloned() else {
            continue;
        };
        let older = ancestors.iter().filter(|older| *older < younger);
        older.for_each(|older| line.add(*older));
        changed.insert(*younger, line);
    }
    let after = || changed.values().chain([&active_then]);
    if after().any(|line| line.also.len() > ALSO_MAX) {
        return false;
    }
    lines.remove(&ghost);
    lines.extend(changed);
    *active = active_then;
    true
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

    /// An event in a volume, as it affects one block.
    #[derive(Clone, Debug)]
    enum Event {
        Allocate,
        Free,
        Create,
        Delete(usize),
        Restore(usize),
        /// Restores the LUN that has the block.
        RestoreLun(usize),
        /// Another LUN takes the block from a snapshot that it is being cloned from.
        Gain(usize),
    }

    fn events() -> impl Strategy<Value = Vec<Event>> {
        let event = prop_oneof![
            3 => Just(Event::Allocate),
            3 => Just(Event::Free),
            4 => Just(Event::Create),
            3 => (0..8usize).prop_map(Event::Delete),
            2 => (0..8usize).prop_map(Event::Restore),
            3 => (0..8usize).prop_map(Event::RestoreLun),
            3 => (0..8usize).prop_map(Event::Gain),
        ];
        proptest::collection::vec(event, 0..60)
    }

    proptest! {
        /// Lemma 3, generalised: after every event, each holder of the block has a neighbour that
        /// holds it too, unless it is the only holder.
        #[test]
        fn holders_stay_connected(events in events()) {
            let mut lines: BTreeMap<SnapshotId, Line> = BTreeMap::new();
            let mut ghosts: BTreeSet<SnapshotId> = BTreeSet::new();
            let mut holders: BTreeSet<Node> = BTreeSet::new();
            let mut active = Line::default();
            for event in events {
                let is_live = |id: &SnapshotId| !ghosts.contains(id);
                let live: Vec<SnapshotId> = lines.keys().copied().filter(is_live).collect();
                let create = |holders: &mut BTreeSet<Node>,
                              lines: &mut BTreeMap<_, _>,
                              active: &mut Line| {
                    let new = id(u32::try_from(lines.len()).expect("a few") + 1);
                    if holders.contains(&Node::Active) { holders.insert(Node::Snapshot(new)); }
                    lines.insert(new, std::mem::take(active));
                    active.parent = Some(new);
                };
                match event {
                    // Only a block without holders is allocated.
                    Event::Allocate if holders.is_empty() => { holders.insert(Node::Active); }
                    Event::Free => { holders.remove(&Node::Active); }
                    Event::Create => create(&mut holders, &mut lines, &mut active),
                    Event::Delete(which) if !live.is_empty() => {
                        let victim = live[which % live.len()];
                        ghosts.insert(victim);
                        holders.remove(&Node::Snapshot(victim));
                    }
                    Event::Restore(which) | Event::RestoreLun(which) if !live.is_empty() => {
                        let target = live[which % live.len()];
                        create(&mut holders, &mut lines, &mut active);
                        match event {
                            Event::Restore(_) => active.parent = Some(target),
                            _ => active.add(target),
                        }
                        if holders.contains(&Node::Snapshot(target)) {
                            holders.insert(Node::Active);
                        } else {
                            holders.remove(&Node::Active);
                        }
                    }
                    Event::Gain(which) if !live.is_empty() => {
                        let source = live[which % live.len()];
                        active.add(source);
                        if holders.contains(&Node::Snapshot(source)) {
                            holders.insert(Node::Active);
                        }
                    }
                    _ => {}
                }
                let history = of(&lines, &ghosts, &active);
                for holder in &holders {
                    let is_other = |it: &&Node| **it != Node::Active && *it != holder;
                    let snapshots = holders.iter().filter(is_other).count();
                    let near = history.neighbours(*holder);
                    let near = near.iter().any(|n| *n != Node::Active && holders.contains(n));
                    prop_assert!(snapshots == 0 || near, "{holders:?} in {history:?}");
                }
                // Without the ghosts that it does not need, the history has the same neighbours.
                let (mut few, mut rest) = (lines.clone(), ghosts.clone());
                let mut below = active.clone();
                prune(&mut few, &mut rest, &mut below);
                let smaller = of(&few, &rest, &below);
                let all = lines.keys().map(|id| Node::Snapshot(*id)).chain([Node::Active]);
                for node in all {
                    if matches!(node, Node::Snapshot(id) if ghosts.contains(&id)) { continue; }
                    prop_assert_eq!(history.neighbours(node), smaller.neighbours(node));
                }
            }
        }
    }

    fn of(
        lines: &BTreeMap<SnapshotId, Line>,
        ghosts: &BTreeSet<SnapshotId>,
        active: &Line,
    ) -> History {
        let parents = lines.iter().map(|(id, line)| (*id, line.parent));
        let mut history = History::new(parents, ghosts.iter().copied(), active.parent);
        let all = lines.iter().map(|(id, line)| (Node::Snapshot(*id), line));
        for (node, line) in all.chain([(Node::Active, active)]) {
            line.also.iter().for_each(|also| history.join(node, *also));
        }
        history
    }

    #[test]
    fn a_ghost_stays_while_two_children_need_it_and_goes_with_the_first() {
        let line = |parent: u32| Line {
            parent: Some(id(parent)),
            also: Vec::new(),
        };
        let mut lines =
            BTreeMap::from([(id(1), Line::default()), (id(2), line(1)), (id(3), line(2))]);
        let mut ghosts = BTreeSet::from([id(2)]);
        let mut active = line(2);
        assert_eq!(prune(&mut lines, &mut ghosts, &mut active), []);
        lines.remove(&id(3));
        assert_eq!(prune(&mut lines, &mut ghosts, &mut active), [id(2)]);
        assert_eq!(
            active,
            line(1),
            "the active image descends from its parent now"
        );
        assert_eq!(lines.keys().copied().collect::<Vec<_>>(), [id(1)]);
    }

    #[test]
    fn a_ghost_stays_if_its_ancestors_are_too_many_for_a_record() {
        let many = u32::try_from(ALSO_MAX).expect("a few");
        let older = (1..=many + 1).map(|number| (id(number), Line::default()));
        let mut lines: BTreeMap<SnapshotId, Line> = older.collect();
        let ghost = id(many + 5);
        let of_all = Line {
            parent: Some(id(1)),
            also: (2..=many + 1).map(id).collect(),
        };
        lines.insert(ghost, of_all);
        let mut active = Line {
            parent: Some(ghost),
            also: vec![id(many + 2)],
        };
        lines.insert(id(many + 2), Line::default());
        let (before, mut ghosts) = (lines.clone(), BTreeSet::from([ghost]));
        assert_eq!(prune(&mut lines, &mut ghosts, &mut active), []);
        assert_eq!(lines, before, "nothing is changed");
        assert!(ghosts.contains(&ghost));
        active.also.clear();
        assert_eq!(prune(&mut lines, &mut ghosts, &mut active), [ghost]);
        assert_eq!(active.also.len(), ALSO_MAX);
    }

    #[test]
    fn an_edge_is_known_from_both_ends_once_and_only_to_what_is_there() {
        let chain = [(id(1), None), (id(2), Some(id(1))), (id(3), Some(id(2)))];
        let mut history = History::new(chain, [], Some(id(3)));
        history.join(Node::Active, id(1));
        history.join(Node::Active, id(1));
        history.join(Node::Active, id(9));
        assert_eq!(history.neighbours(Node::Active), [snapshot(1), snapshot(3)]);
        assert_eq!(history.neighbours(snapshot(1)), [Node::Active, snapshot(2)]);
        assert_eq!(history.nodes().count(), 4);
        history.bury(id(2));
        let nodes: Vec<Node> = history.nodes().collect();
        assert_eq!(nodes, [Node::Active, snapshot(1), snapshot(3)]);
    }
}
