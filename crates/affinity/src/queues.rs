//! The slow half of the tree, under one lock: records of permits, queues, and the hand-over.
//!
//! Every message that has to wait takes a **ticket**, a number that only grows, and joins the queue
//! of its node, or of both its stripes. Two messages *conflict* when a node of one is, or is an
//! ancestor of, a node of the other. The whole policy is one sentence, `may_run`:
//!
//! > A message runs when no permit conflicts with it and no message with an earlier ticket does.
//!
//! So queues are FIFO, no message overtakes a conflicting one, and no message starves, coarse or
//! fine: a message waits only for the conflicting permits and tickets before it. Deadlock is
//! impossible: the earliest ticket of all waits for permits only, and the holder of a permit waits
//! for nothing.
//!
//! Invariants, while the lock is free:
//!
//! 1. A node with a queue or a recorded permit has a contended word. So has a leaf between the
//!    moment a coarse message finds it published and the end of that message's stay.
//! 2. A leaf is owned by a reactor (`Hold::Word`) or recorded (`Hold::Recorded`), never both.
//! 3. `held_below` and `waiting_below` count the recorded permits and queue entries strictly below.
//! 4. No waiting message may run.
//!
//! This file changes a word only while it is contended, and then no other code changes it: both
//! transitions of the fast half start from a word without that bit.
//!
//! The number of waiting messages has no bound of its own: each belongs to an operation, and
//! operations are bounded where they are admitted.

use std::collections::VecDeque;
use std::iter;

use crate::class::Class;
use crate::node::{Node, NodeId};
use crate::outcome::{Gone, Granted, Stranded};
use crate::permit::{Hold, Permit};
use crate::reactors::Reactors;

/// State that the lock protects.
#[derive(Debug)]
pub(crate) struct Queues<M> {
    /// Records by place; places are reused, identities of nodes are not.
    records: Vec<Option<Record<M>>>,
    vacant: Vec<usize>,
    serial_last: u32,
    ticket_last: u64,
    waiting: usize,
    /// Reused by the hand-over: tickets and places of queue heads.
    heads: Vec<(u64, usize)>,
}

#[derive(Debug)]
struct Record<M> {
    node: Node,
    parent: Option<usize>,
    children: Vec<usize>,
    held: bool,
    held_below: usize,
    queue: VecDeque<Waiting<M>>,
    waiting_below: usize,
}

/// A message in a queue; one for two stripes is in both their queues.
#[derive(Clone, Copy, Debug)]
struct Waiting<M> {
    ticket: u64,
    reactor: usize,
    message: M,
    targets: Targets,
}

/// Places of one node, or of two sibling stripes.
#[derive(Clone, Copy, Debug)]
struct Targets {
    first: usize,
    second: Option<usize>,
}

impl Targets {
    fn places(self) -> impl Iterator<Item = usize> {
        iter::once(self.first).chain(self.second)
    }
}

/// The result of an attempt to enter under the lock.
#[derive(Debug)]
pub(crate) enum Turn {
    Enter(Hold),
    Wait,
}

impl<M: Copy> Queues<M> {
    /// The queues of a tree that is only a root.
    pub(crate) fn new() -> (Queues<M>, Node) {
        let mut queues = Queues {
            records: Vec::new(),
            vacant: Vec::new(),
            serial_last: 0,
            ticket_last: 0,
            waiting: 0,
            heads: Vec::new(),
        };
        let root = queues.insert(Class::Serial, None, None);
        (queues, root)
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Adds a child. Its first visitor finds the closing flags of its ancestors as they are.
    pub(crate) fn add(&mut self, class: Class, parent: &Node) -> Result<Node, Gone> {
        let parent_place = self.place_of(parent)?;
        let node = self.insert(class, Some(parent.clone()), Some(parent_place));
        self.record_mut(parent_place)
            .children
            .push(node.id().slab_index());
        Ok(node)
    }

    fn insert(&mut self, class: Class, parent: Option<Node>, parent_place: Option<usize>) -> Node {
        let place = self.vacant.pop().unwrap_or_else(|| {
            self.records.push(None);
            self.records.len() - 1
        });
        let (Ok(small), Some(serial)) = (u32::try_from(place), self.serial_last.checked_add(1))
        else {
            panic!("more than 2³² affinities were made");
        };
        self.serial_last = serial;
        let node = Node::new(NodeId::new(serial, small), class, parent);
        assert!(self.records[place].is_none(), "two nodes at place {place}");
        self.records[place] = Some(Record {
            node: node.clone(),
            parent: parent_place,
            children: Vec::new(),
            held: false,
            held_below: 0,
            queue: VecDeque::new(),
            waiting_below: 0,
        });
        node
    }

    /// Removes a subtree without visitors, and returns the messages that waited there.
    pub(crate) fn remove(&mut self, node: &Node) -> Result<Vec<Stranded<M>>, Gone> {
        let top = self.place_of(node)?;
        let mut places = vec![top];
        let mut next = 0;
        while let Some(&place) = places.get(next) {
            places.extend(&self.record(place).children);
            next += 1;
        }
        let mut stranded = Vec::new();
        for &place in &places {
            let record = self.record(place);
            assert!(
                !record.held,
                "{:?} is removed while a permit for it exists",
                record.node
            );
            let outside =
                !record.node.class().is_leaf() || record.node.word().contend().is_nobody();
            assert!(
                outside,
                "{:?} is removed while a reactor is inside",
                record.node
            );
            while let Some(head) = self.record(place).queue.front().copied() {
                self.dequeue(&head);
                let Waiting {
                    ticket,
                    reactor,
                    message,
                    ..
                } = head;
                stranded.push((ticket, Stranded { reactor, message }));
            }
        }
        if let Some(parent) = self.record(top).parent {
            self.record_mut(parent)
                .children
                .retain(|&child| child != top);
        }
        for place in places {
            self.record(place).node.word().remove();
            self.records[place] = None;
            self.vacant.push(place);
        }
        stranded.sort_by_key(|&(ticket, _)| ticket);
        Ok(stranded.into_iter().map(|(_, stranded)| stranded).collect())
    }

    /// Enters, or joins the queue. From here on the closing flag of a coarse node is set, and a
    /// leaf is contended, so that the state read stays true until the lock is released.
    pub(crate) fn enter(
        &mut self,
        reactors: &Reactors,
        reactor: usize,
        (first, second): (&Node, Option<&Node>),
        message: M,
    ) -> Result<Turn, Gone> {
        let targets = Targets {
            first: self.place_of(first)?,
            second: second.map(|node| self.place_of(node)).transpose()?,
        };
        for place in targets.places() {
            self.record(place).node.word().contend();
        }
        let ticket = self.ticket_last + 1;
        if !self.may_run(reactors, targets, ticket) {
            self.ticket_last = ticket;
            self.enqueue(Waiting {
                ticket,
                reactor,
                message,
                targets,
            });
            return Ok(Turn::Wait);
        }
        if second.is_none() && first.class().is_leaf() {
            // Same state as after the fast half, so that leaving needs no lock. The leaf is
            // published already, and no ancestor relies on a contended leaf: none has a permit or a
            // queue.
            assert_eq!(
                reactors.published(reactor),
                first.id(),
                "entered a leaf unpublished"
            );
            first.word().hand_to(reactor);
            return Ok(Turn::Enter(Hold::Word));
        }
        self.hold(targets);
        Ok(Turn::Enter(Hold::Recorded))
    }

    /// Ends a permit and grants whatever can run now, in the order of tickets.
    pub(crate) fn leave(
        &mut self,
        reactors: &Reactors,
        permit: &Permit,
        granted: &mut Vec<Granted<M>>,
    ) {
        let places = (
            self.place_of(&permit.node),
            permit.second.as_ref().map(|n| self.place_of(n)),
        );
        let (Ok(first), Ok(second)) = (places.0, places.1.transpose()) else {
            panic!(
                "{:?} left the tree while a permit for it existed",
                permit.node
            );
        };
        let targets = Targets { first, second };
        match permit.hold {
            Hold::Word => {
                let owner = permit.node.word().contend();
                assert!(
                    owner.is_reactor(permit.reactor),
                    "left a leaf of another owner: {owner:?}"
                );
                permit.node.word().vacate();
            }
            Hold::Recorded => self.release(targets),
        }
        self.hand_over(reactors, targets, granted);
        for place in targets.places() {
            self.settle(place);
        }
    }

    /// Only messages that conflict with the ended permit can have become able to run: nothing
    /// changed for the others. Granting a message makes no other able to run.
    fn hand_over(&mut self, reactors: &Reactors, ended: Targets, granted: &mut Vec<Granted<M>>) {
        if self.waiting == 0 {
            return;
        }
        let mut heads = std::mem::take(&mut self.heads);
        for place in ended.places() {
            for related in iter::once(place).chain(self.ancestors(place)) {
                let head = self.record(related).queue.front();
                heads.extend(head.map(|head| (head.ticket, related)));
            }
            self.heads_below(place, &mut heads);
        }
        heads.sort_unstable();
        heads.dedup_by_key(|&mut (ticket, _)| ticket);
        for (ticket, place) in heads.drain(..) {
            let Some(head) = self.record(place).queue.front().copied() else {
                panic!("queue head {ticket} vanished during a hand-over");
            };
            if self.may_run(reactors, head.targets, head.ticket) {
                self.dequeue(&head);
                self.hold(head.targets);
                granted.push(self.grant(&head));
            }
        }
        self.heads = heads;
    }

    fn grant(&self, head: &Waiting<M>) -> Granted<M> {
        let Waiting {
            reactor,
            message,
            targets,
            ..
        } = *head;
        let permit = Permit {
            node: self.record(targets.first).node.clone(),
            second: targets.second.map(|place| self.record(place).node.clone()),
            reactor,
            hold: Hold::Recorded,
            entered: false,
        };
        Granted {
            reactor,
            message,
            permit,
        }
    }

    /// True if no permit conflicts with the targets, and no message with an earlier ticket does.
    fn may_run(&self, reactors: &Reactors, targets: Targets, ticket: u64) -> bool {
        targets.places().all(|place| {
            let record = self.record(place);
            !record.held
                && !record.has_before(ticket)
                && self.ancestors(place).all(|above| {
                    let above = self.record(above);
                    !above.held && !above.has_before(ticket)
                })
                && if record.node.class().is_leaf() {
                    record.node.word().contend().is_nobody()
                } else {
                    record.held_below == 0
                        && !self.has_before_below(place, ticket)
                        && self.none_inside_below(reactors, &record.node)
                }
        })
    }

    /// True if no reactor owns a leaf below. Marks every published leaf below, whether owned or
    /// not: its owner will then leave through the lock, and a reactor about to take the leaf will
    /// be refused.
    fn none_inside_below(&self, reactors: &Reactors, coarse: &Node) -> bool {
        let mut none = true;
        for reactor in reactors.all() {
            let Some(leaf) = self.node_with(reactors.published(reactor)) else {
                continue;
            };
            if coarse.covers(leaf) && leaf.word().contend().is_reactor(reactor) {
                none = false;
            }
        }
        none
    }

    /// Opens the node to the fast half again if nothing forbids it. A leaf under a closed ancestor
    /// stays contended until its next visitor repairs the word.
    fn settle(&self, place: usize) {
        let record = self.record(place);
        let mut above = self.ancestors(place);
        let closed = record.is_closed()
            || record.node.class().is_leaf() && above.any(|above| self.record(above).is_closed());
        if !closed {
            record.node.word().open();
        }
    }

    fn hold(&mut self, targets: Targets) {
        for place in targets.places() {
            let record = self.record_mut(place);
            assert!(!record.held, "{:?} is entered twice", record.node);
            record.held = true;
            record.node.word().record();
            self.for_ancestors(place, |above| above.held_below += 1);
        }
    }

    fn release(&mut self, targets: Targets) {
        for place in targets.places() {
            let record = self.record_mut(place);
            assert!(
                record.held,
                "{:?} is left without having been entered",
                record.node
            );
            record.held = false;
            record.node.word().vacate();
            self.for_ancestors(place, |above| above.held_below -= 1);
        }
    }

    fn enqueue(&mut self, waiting: Waiting<M>) {
        for place in waiting.targets.places() {
            self.record_mut(place).queue.push_back(waiting);
            self.for_ancestors(place, |above| above.waiting_below += 1);
        }
        self.waiting += 1;
    }

    /// Takes a message out of all its queues. Only a removal finds it behind others, in the queue
    /// of a stripe that stays.
    fn dequeue(&mut self, waiting: &Waiting<M>) {
        for place in waiting.targets.places() {
            let queue = &mut self.record_mut(place).queue;
            let at = queue
                .iter()
                .position(|other| other.ticket == waiting.ticket);
            assert!(
                at.and_then(|at| queue.remove(at)).is_some(),
                "message is in half its queues"
            );
            self.for_ancestors(place, |above| above.waiting_below -= 1);
        }
        self.waiting -= 1;
    }

    fn heads_below(&self, place: usize, heads: &mut Vec<(u64, usize)>) {
        let record = self.record(place);
        if record.waiting_below == 0 {
            return;
        }
        for &child in &record.children {
            heads.extend(
                self.record(child)
                    .queue
                    .front()
                    .map(|head| (head.ticket, child)),
            );
            self.heads_below(child, heads);
        }
    }

    fn has_before_below(&self, place: usize, ticket: u64) -> bool {
        let record = self.record(place);
        record.waiting_below > 0
            && record.children.iter().any(|&child| {
                self.record(child).has_before(ticket) || self.has_before_below(child, ticket)
            })
    }

    fn ancestors(&self, place: usize) -> impl Iterator<Item = usize> {
        iter::successors(self.record(place).parent, |&above| {
            self.record(above).parent
        })
    }

    fn for_ancestors(&mut self, place: usize, change: impl Fn(&mut Record<M>)) {
        let mut above = self.record(place).parent;
        while let Some(place) = above {
            let record = self.record_mut(place);
            change(record);
            above = record.parent;
        }
    }

    fn place_of(&self, node: &Node) -> Result<usize, Gone> {
        let known = self.node_with(node.id()).ok_or(Gone)?;
        assert!(known == node, "{node:?} belongs to another tree");
        Ok(node.id().slab_index())
    }

    fn node_with(&self, id: NodeId) -> Option<&Node> {
        let record = self.records.get(id.slab_index())?.as_ref()?;
        (record.node.id() == id).then_some(&record.node)
    }

    fn record(&self, place: usize) -> &Record<M> {
        match &self.records[place] {
            Some(record) => record,
            None => panic!("no node at place {place}"),
        }
    }

    fn record_mut(&mut self, place: usize) -> &mut Record<M> {
        match &mut self.records[place] {
            Some(record) => record,
            None => panic!("no node at place {place}"),
        }
    }
}

impl<M> Record<M> {
    fn has_before(&self, ticket: u64) -> bool {
        self.queue.front().is_some_and(|head| head.ticket < ticket)
    }

    fn is_closed(&self) -> bool {
        self.held || !self.queue.is_empty()
    }
}
