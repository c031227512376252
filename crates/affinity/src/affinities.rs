//! The tree of affinities: entering, leaving, adding and removing. Implements A-04 and A-07.
//!
//! An affinity is a permission, not a thread. A reactor with a message asks to *enter* the affinity
//! of the message and, if it may, runs the handler at once, on its own stack. Otherwise the message
//! waits in the tree, and the reactor that ends the last conflicting permit receives the message as
//! [`Granted`], with its permit, and posts it to the mailbox of its home reactor. Handlers run to
//! completion; a handler that suspends (A-03) leaves first and enters again when it restarts.
//!
//! # The two halves
//!
//! Coarse nodes, pairs of stripes and everything that has to wait go through one lock
//! (`queues.rs`). A single leaf (Stripe, Range) is entered and left without it:
//!
//! ```text
//! enter(r, leaf)   publish:   published[r] ← leaf         only r writes it; skipped if it is there
//!                  look:      every ancestor's word is free           (lines shared by readers)
//!                  take:      leaf.word: free → r             (a line that only r normally uses)
//! leave(r, leaf)   give back: leaf.word: r → free
//!
//! enter(coarse)    lock
//!                  close:     word ← contended                               (the closing flag)
//!                  check:     no recorded permit and no earlier ticket conflicts
//!                  scan:      for every r with published[r] = a leaf below:
//!                             leaf.word ← contended; if r owned it, then r is inside
//!                  hold or queue; unlock
//! ```
//!
//! The two transitions of the fast half start from a word without the contended bit, so setting
//! that bit sends the next visitor, and the present owner when it leaves, to the lock.
//!
//! # Why it is right
//!
//! All accesses named above are sequentially consistent, so all of them have one total order.
//!
//! *Exclusion.* Say coarse node c is held or queued, closed at C, and reactor r takes a leaf below
//! it at T. If r read the flags after C, it saw the flag and did not take. So r read before C, and
//! published before that. The scan comes after C and so finds the leaf published (r publishes
//! nothing else until it has left). If T is before the scan's mark, the mark sees r as owner and c
//! does not enter. If T is after the mark, the leaf is contended and r is refused; and the leaf
//! remains contended while c is closed, because `settle` and `enter` open a leaf only when no
//! ancestor is closed. Leaf against leaf is the compare-and-swap; everything else is decided under
//! the lock from records.
//!
//! *No lost wake-up.* A message waits because of a recorded permit, whose end always takes the
//! lock; an owner of a leaf that was marked contended while it was the owner, so that its give-back
//! is refused and it takes the lock; or an earlier ticket, which by induction is granted and
//! becomes a recorded permit. A reactor that leaves through the lock checks every message that its
//! permit conflicted with.
//!
//! *No transient refusals.* A reactor that published, read the flags and was refused was never
//! inside, and the scan detects this: the reactor does not own the leaf. So no message waits for a
//! failed attempt, and entering never has to grant a permit to another message.
//!
//! *No barging, no starvation*: tickets, see `queues.rs`. The fast half cannot overtake, because a
//! node with a queue has a contended word.
//!
//! # Cost
//!
//! Entering and leaving a leaf again and again is two locked instructions on the leaf's own line
//! and two for the handle in the permit; one more when the leaf differs from the last one. Coarse
//! entry reads one line per reactor. The lock is held for a walk along one path, and for a
//! hand-over over the subtree that has queues; nothing is called, entered or posted under it, so it
//! is a leaf in the lock order.
//!
//! # One thread
//!
//! With one thread driving all reactors, the result of a call depends only on the calls before it,
//! since calls do not interleave. The simulation relies on it.

use crate::class::{Kind, ParentOf, Serial};
use crate::counters::Counts;
use crate::node::{Affinity, Node};
use crate::outcome::{Gone, Granted, Stranded};
use crate::permit::{Hold, Permit};
use crate::queues::{Queues, Turn};
use crate::reactors::Reactors;
use crate::sync::{Mutex, MutexGuard};

/// The affinity tree of a server. `M` is what stands for a message while it waits: something small.
#[derive(Debug)]
pub struct Affinities<M> {
    reactors: Reactors,
    queues: Mutex<Queues<M>>,
    serial: Affinity<Serial>,
}

/// The outcome of a message's request to enter.
#[derive(Debug)]
#[must_use = "a message that was let in must leave"]
pub enum Entry {
    /// Inside: run the handler now, then leave.
    Entered(Permit),
    /// The message waits and will be granted by a leaver.
    Queued,
    /// The affinity has left the tree. The message was not kept; restart it from the top.
    Gone,
}

impl<M: Copy> Affinities<M> {
    /// A tree that is only a root, for reactors 0 to `reactors` − 1.
    #[must_use]
    pub fn new(reactors: usize) -> Affinities<M> {
        let (queues, root) = Queues::new();
        Affinities {
            reactors: Reactors::new(reactors),
            queues: Mutex::new(queues),
            serial: Affinity::new(root),
        }
    }

    /// The root.
    #[must_use]
    pub fn serial(&self) -> &Affinity<Serial> {
        &self.serial
    }

    /// Adds an affinity under `parent`. Needs no permit, since no other reactor knows the new
    /// affinity yet.
    pub fn add<P: ParentOf<C>, C: Kind>(&self, parent: &Affinity<P>) -> Result<Affinity<C>, Gone> {
        self.lock().add(C::CLASS, parent).map(Affinity::new)
    }

    /// Removes an affinity and all below it, and returns the messages that waited there, earliest
    /// first. The permit must cover the parent, so that no reactor is inside. Remaining handles
    /// answer [`Entry::Gone`] from now on.
    pub fn remove(&self, node: &Node, permit: &Permit) -> Result<Vec<Stranded<M>>, Gone> {
        let covered = node.parent().is_some_and(|parent| permit.covers(parent));
        assert!(
            covered,
            "{node:?} is removed under {permit:?}, which does not cover its parent"
        );
        self.lock().remove(node)
    }

    /// Asks to enter `node` with a message of `reactor`. It must be called by the thread that runs
    /// the reactor, and not while that is inside an affinity: a message for another affinity goes
    /// to the reactor's own mailbox first.
    pub fn enter(&self, reactor: usize, node: &Node, message: M) -> Entry {
        match self.try_enter(reactor, node) {
            Some(permit) => Entry::Entered(permit),
            None => self.enter_locked(reactor, node, None, message),
        }
    }

    /// Tries the fast half of [`Affinities::enter`], without a message that could wait. Returns
    /// `None` if the node is no leaf, if another message is inside or waits, or if coarse work left
    /// its mark on the leaf, which only `enter` removes: so a refused caller calls `enter`. Until
    /// then no message waits because of the attempt.
    pub fn try_enter(&self, reactor: usize, node: &Node) -> Option<Permit> {
        self.reactors.assert_outside(reactor);
        let is_taken = node.class().is_leaf() && self.take(reactor, node);
        is_taken.then(|| self.inside(reactor, node, None, Hold::Word))
    }

    /// Asks to enter two sibling stripes, all or nothing. The same stripe twice is one entry, so
    /// that a tree with a single stripe needs no special case.
    pub fn enter2(&self, reactor: usize, first: &Node, second: &Node, message: M) -> Entry {
        if first == second {
            return self.enter(reactor, first, message);
        }
        self.reactors.assert_outside(reactor);
        let siblings = first.class().is_leaf() && first.parent() == second.parent();
        assert!(
            siblings,
            "{first:?} and {second:?} are entered together but are no sibling leaves"
        );
        self.enter_locked(reactor, first, Some(second), message)
    }

    /// Ends a permit and appends the messages that can run now, each with its permit, in the order
    /// in which they began to wait.
    pub fn leave(&self, permit: Permit, granted: &mut Vec<Granted<M>>) {
        if permit.entered {
            self.reactors.set_inside(permit.reactor, false);
        }
        if permit.hold == Hold::Word && permit.node.word().give_back(permit.reactor) {
            return;
        }
        let before = granted.len();
        self.lock().leave(&self.reactors, &permit, granted);
        let counters = self.reactors.counters(permit.reactor);
        for granted in &granted[before..] {
            counters.count_granted(granted.permit.node.class());
        }
    }

    /// Returns the counts of messages by the way they entered, since start. Exact only while no
    /// reactor enters or leaves.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.reactors.counts()
    }

    /// Messages that wait now.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.lock().waiting()
    }

    /// The fast half.
    fn take(&self, reactor: usize, leaf: &Node) -> bool {
        self.reactors.publish(reactor, leaf.id());
        let mut above = leaf.parent();
        while let Some(node) = above {
            if !node.word().is_open() {
                return false;
            }
            above = node.parent();
        }
        leaf.word().take(reactor)
    }

    fn enter_locked(
        &self,
        reactor: usize,
        first: &Node,
        second: Option<&Node>,
        message: M,
    ) -> Entry {
        let turn = self
            .lock()
            .enter(&self.reactors, reactor, (first, second), message);
        match turn {
            Ok(Turn::Enter(hold)) => Entry::Entered(self.inside(reactor, first, second, hold)),
            Ok(Turn::Wait) => {
                self.reactors.counters(reactor).count_queued(first.class());
                Entry::Queued
            }
            Err(Gone) => Entry::Gone,
        }
    }

    /// The permit of a reactor that has just entered.
    fn inside(&self, reactor: usize, first: &Node, second: Option<&Node>, hold: Hold) -> Permit {
        self.reactors.set_inside(reactor, true);
        self.reactors.counters(reactor).count_inline(first.class());
        let (node, second) = (first.clone(), second.cloned());
        Permit {
            node,
            second,
            reactor,
            hold,
            entered: true,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queues<M>> {
        match self.queues.lock() {
            Ok(guard) => guard,
            Err(_) => panic!("a thread panicked while it had the affinity queues"),
        }
    }
}
