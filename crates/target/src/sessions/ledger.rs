//! The network memory that one session holds.

use std::sync::Arc;

use super::memory::{CLASSES, Class, Memory, Released, Reservation};

/// A session's account. The memory that is left in it is released when it is dropped.
pub struct Ledger {
    memory: Arc<Memory>,
    /// Bytes held, by class.
    held: [u64; CLASSES],
    /// The most that this session may hold, whatever its share is.
    most: u64,
    /// The memory that could not be taken since [`Ledger::begin`].
    wants: Option<Reservation>,
}

impl Ledger {
    /// Makes an empty account with `memory`, of at most `most` bytes.
    #[must_use]
    pub fn new(memory: Arc<Memory>, most: u64) -> Ledger {
        Ledger {
            memory,
            held: [0; CLASSES],
            most,
            wants: None,
        }
    }

    /// Moves the empty account to the memory of another table.
    ///
    /// # Panics
    /// If the account holds memory.
    pub fn move_to(&mut self, memory: &Arc<Memory>) {
        assert_eq!(
            self.held, [0; CLASSES],
            "a session moves when it holds nothing"
        );
        self.memory = Arc::clone(memory);
    }

    /// Returns the memory of the table.
    #[must_use]
    #[inline]
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Bytes held.
    #[must_use]
    #[inline]
    pub fn held(&self) -> u64 {
        self.held.iter().sum()
    }

    /// Takes memory, within the session's share and the table's budget. Otherwise the wanted memory
    /// is noted, unless the session itself must release memory first.
    #[inline]
    pub fn take(&mut self, bytes: u64, class: Class) -> bool {
        // Data that a begun reply needs is exempt: requests behind it may have used the whole
        // share.
        let is_within =
            class == Class::Again || self.held() + bytes <= self.memory.share().min(self.most);
        if !is_within {
            return false;
        }
        if !self.memory.take(bytes, class) {
            self.wants = Some(Reservation { bytes, class });
            return false;
        }
        self.held[class as usize] += bytes;
        true
    }

    /// Takes memory if plenty is free. Otherwise the session does not wait for it.
    pub fn take_if_plenty(&mut self, bytes: u64, class: Class) -> bool {
        let before = self.wants;
        let is_taken = self.take(bytes, class);
        self.wants = before;
        is_taken
    }

    /// Releases memory that was taken.
    ///
    /// # Panics
    /// If that is more than was taken.
    #[inline]
    pub fn give(&mut self, held: Reservation) {
        let mine = &mut self.held[held.class as usize];
        assert!(
            *mine >= held.bytes,
            "released more payload than was charged"
        );
        *mine -= held.bytes;
        self.memory.give(held);
    }

    /// Releases memory of several classes.
    ///
    /// # Panics
    /// If that is more than was taken.
    #[inline]
    pub fn give_all(&mut self, released: Released) {
        released.amounts().for_each(|held| self.give(held));
    }

    /// Clears the session's wait for memory, because all that waits tries again.
    #[inline]
    pub fn begin(&mut self) {
        self.wants = None;
    }

    /// Returns the memory that the session waits for.
    #[must_use]
    #[inline]
    pub fn wants(&self) -> Option<Reservation> {
        self.wants
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        for class in [Class::Small, Class::Large, Class::Again] {
            let bytes = self.held[class as usize];
            self.memory.give(Reservation { bytes, class });
        }
    }
}
