//! Published state of each reactor, on cache lines that only that reactor writes: the leaf it
//! entered last.

use std::sync::atomic::AtomicBool;

use crate::counters::{Counters, Counts};
use crate::node::NodeId;
use crate::sync::{AtomicU64, Ordering};
use crate::word::Padded;

/// One line of published state per reactor.
#[derive(Debug)]
pub(crate) struct Reactors(Box<[Padded<Reactor>]>);

#[derive(Debug)]
struct Reactor {
    /// The leaf the reactor may own. Never taken back: the word of the leaf tells whether it does.
    published: AtomicU64,
    /// True while the reactor is inside the leaf it published. Only this reactor reads and writes
    /// the flag.
    inside: AtomicBool,
    counters: Counters,
}

impl Reactors {
    pub(crate) fn new(count: usize) -> Reactors {
        let reactor = |_| {
            Padded(Reactor {
                published: AtomicU64::new(NodeId::NONE.0),
                inside: AtomicBool::new(false),
                counters: Counters::default(),
            })
        };
        Reactors((0..count).map(reactor).collect())
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = usize> {
        0..self.0.len()
    }

    /// Tells everyone that `reactor` may from now on own the leaf, and no other leaf.
    pub(crate) fn publish(&self, reactor: usize, leaf: NodeId) {
        let word = &self.0[reactor].published;
        if word.load(Ordering::Relaxed) != leaf.0 {
            word.store(leaf.0, Ordering::SeqCst);
        }
    }

    pub(crate) fn published(&self, reactor: usize) -> NodeId {
        NodeId(self.0[reactor].published.load(Ordering::SeqCst))
    }

    /// Asserts that there is no nested entry.
    pub(crate) fn assert_outside(&self, reactor: usize) {
        let known = self.0.get(reactor).is_some();
        assert!(
            known,
            "reactor {reactor} of {} enters an affinity",
            self.0.len()
        );
        let inside = self.0[reactor].inside.load(Ordering::Relaxed);
        assert!(
            !inside,
            "reactor {reactor} enters an affinity while it is inside one"
        );
    }

    pub(crate) fn set_inside(&self, reactor: usize, inside: bool) {
        self.0[reactor].inside.store(inside, Ordering::Relaxed);
    }

    pub(crate) fn counters(&self, reactor: usize) -> &Counters {
        &self.0[reactor].counters
    }

    pub(crate) fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for reactor in &self.0 {
            reactor.counters.add_to(&mut counts);
        }
        counts
    }
}
