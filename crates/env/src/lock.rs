//! Locks without poison.
//!
//! The standard library marks a lock as *poisoned* when a thread panics while it holds it. Here a
//! panic is a broken invariant and ends the process (exit 70), so nobody is left to be warned, and
//! tests that catch a panic want to read what is behind the lock. These locks are the standard
//! ones, and they ignore the mark in one place instead of a hundred.

pub use std::sync::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};
use std::sync::{PoisonError, TryLockError};

/// A value that one thread at a time can access.
#[derive(Debug, Default)]
pub struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// Makes a lock that is not held.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(std::sync::Mutex::new(value))
    }

    /// Waits until no other thread holds the lock. A thread that holds it already waits for ever.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the value, unless a thread holds the lock.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Returns the value without locking, because the caller has the only reference.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the value, and drops the lock.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A value that many threads can read at a time, or one can change.
#[derive(Debug, Default)]
pub struct RwLock<T>(std::sync::RwLock<T>);

impl<T> RwLock<T> {
    /// Makes a lock that is not held.
    pub const fn new(value: T) -> RwLock<T> {
        RwLock(std::sync::RwLock::new(value))
    }

    /// Waits until no thread changes the value.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no other thread holds the lock.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_panic_left_behind_is_read() {
        let value = Mutex::new(1);
        let shared = RwLock::new(1);
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            *value.lock() = 2;
            let (_one, mut other) = (value.lock(), shared.write());
            *other = 3;
            panic!("while both are held");
        }));
        assert!(caught.is_err());
        assert_eq!((*value.lock(), *shared.read()), (2, 3));
        assert_eq!(value.try_lock().map(|held| *held), Some(2));
        assert_eq!(value.into_inner(), 2);
    }

    #[test]
    fn a_held_lock_is_not_given_to_another() {
        let value = Mutex::new(());
        let held = value.lock();
        assert!(value.try_lock().is_none());
        drop(held);
        assert!(value.try_lock().is_some());
    }
}
