//! The one shared word of a node, on a cache line of its own. Its rules are in `affinities.rs`.

use std::ops::Deref;

use crate::sync::{AtomicU64, Ordering};

/// The word of a leaf without an owner and without waiting messages.
const FREE: u64 = 0;
/// Flag beside the owner: reactors that enter or leave must take the lock.
const CONTENDED: u64 = 1 << 63;
/// Owner: a permit that the locked records know of. Reactor r is owner r + 1.
const RECORDED: u64 = CONTENDED - 1;
/// Owner: the node left the tree.
const REMOVED: u64 = CONTENDED - 2;

/// Keeps its content on a pair of cache lines (prefetchers fetch two at a time) of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Padded<T>(pub(crate) T);

impl<T> Deref for Padded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// For a leaf: owner and contended bit. For the others: free, or contended while *closing*.
#[derive(Debug)]
pub(crate) struct Word(Padded<AtomicU64>);

impl Word {
    pub(crate) fn new() -> Word {
        Word(Padded(AtomicU64::new(FREE)))
    }

    /// The owner word of a reactor.
    fn owner(reactor: usize) -> u64 {
        reactor as u64 + 1
    }

    /// True without a closing flag: as far as this node decides, the subtree may be entered.
    pub(crate) fn is_open(&self) -> bool {
        self.0.load(Ordering::SeqCst) == FREE
    }

    /// Changes the word from free to owned by `reactor`; refused in every other state.
    pub(crate) fn take(&self, reactor: usize) -> bool {
        let (from, to) = (FREE, Word::owner(reactor));
        self.0
            .compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok()
    }

    /// Changes the word from owned by `reactor` to free; refused when the word is contended.
    pub(crate) fn give_back(&self, reactor: usize) -> bool {
        let (from, to) = (Word::owner(reactor), FREE);
        self.0
            .compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok()
    }

    /// Sets the contended flag, so that later visitors take the lock, and returns the owner at that
    /// moment.
    pub(crate) fn contend(&self) -> Owner {
        Owner(self.0.fetch_or(CONTENDED, Ordering::SeqCst) & !CONTENDED)
    }

    /// Removes the owner of a contended word, under the lock; the word stays contended.
    pub(crate) fn vacate(&self) {
        self.put(CONTENDED);
    }

    /// Under the lock, the word being contended: a recorded permit is inside.
    pub(crate) fn record(&self) {
        self.put(CONTENDED | RECORDED);
    }

    /// Under the lock, the word being contended: `reactor` is inside as if it had taken it.
    pub(crate) fn hand_to(&self, reactor: usize) {
        self.put(Word::owner(reactor));
    }

    /// Under the lock, the word being contended: no reason to take the lock any more.
    pub(crate) fn open(&self) {
        self.put(FREE);
    }

    /// Closes the leaf for ever, under the lock.
    pub(crate) fn remove(&self) {
        self.0.store(CONTENDED | REMOVED, Ordering::SeqCst);
    }

    fn put(&self, value: u64) {
        let before = self.0.swap(value, Ordering::SeqCst);
        assert!(
            before & CONTENDED != 0,
            "word changed under the lock while it was not contended"
        );
    }
}

/// The owner in a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Owner(u64);

impl Owner {
    pub(crate) fn is_nobody(self) -> bool {
        self.0 == FREE
    }

    pub(crate) fn is_reactor(self, reactor: usize) -> bool {
        self.0 == Word::owner(reactor)
    }
}
