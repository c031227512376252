//! State that belongs to one affinity and needs no lock, because only who is inside touches it.
//!
//! The mutex is a witness, not a lock: no thread ever waits for it. Exclusion comes from the tree,
//! and [`Partitioned::get`] stops the process if the tree, or the routing of a message, was wrong.
//! Both checks stay on in release builds: continuing would corrupt data.

use crate::class::Kind;
use crate::node::Affinity;
use crate::permit::Covers;
use crate::sync::{Mutex, MutexGuard, TryLockError};

/// A value that only a holder of a permit covering its affinity, of class `C`, can reach.
#[derive(Debug)]
pub struct Partitioned<T, C: Kind> {
    affinity: Affinity<C>,
    state: Mutex<T>,
}

impl<T, C: Kind> Partitioned<T, C> {
    /// Puts a value under an affinity.
    pub fn new(affinity: &Affinity<C>, value: T) -> Partitioned<T, C> {
        Partitioned {
            affinity: affinity.clone(),
            state: Mutex::new(value),
        }
    }

    /// The affinity the value belongs to.
    pub fn affinity(&self) -> &Affinity<C> {
        &self.affinity
    }

    /// Returns the value, for as long as the permit stays. Panics when the permit does not cover
    /// the affinity, or when another visitor is inside, such as another guard of the same handler.
    pub fn get<'a>(&'a self, permit: &'a impl Covers<C>) -> MutexGuard<'a, T> {
        permit.assert_covers(&self.affinity);
        match self.state.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::WouldBlock) => panic!("two are inside {:?} at once", self.affinity),
            Err(TryLockError::Poisoned(_)) => {
                panic!("a handler panicked inside {:?}", self.affinity)
            }
        }
    }

    /// Returns the value, when no other reference is left.
    pub fn into_inner(self) -> T {
        match self.state.into_inner() {
            Ok(value) => value,
            Err(_) => panic!("a handler panicked inside {:?}", self.affinity),
        }
    }
}
