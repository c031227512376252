//! Numbers the sessions of one table, so that completions find them by token, and lists those that
//! are ready.
//!
//! | bits of a token | what |
//! | --- | --- |
//! | 60 to 63 | the [`Owner`]: which table of a reactor |
//! | 48 to 59 | the session's generation |
//! | 32 to 47 | the session's index |
//! | 0 to 31 | for the session's own use |
//!
//! An index is reused only after its session is closed, which awaits all its operations. The
//! generation turns a routing mistake into a failed assertion instead of a wrong answer.

use std::collections::VecDeque;

use crate::Token;

/// Bits of a token that are a session's own.
pub const OWN_BITS: u32 = 32;
const INDEX_BITS: u32 = 16;
const GENERATION_BITS: u32 = 12;
const GENERATION_MASK: u32 = (1 << GENERATION_BITS) - 1;
const INDEX_MASK: u32 = (1 << INDEX_BITS) - 1;
const SESSIONS_MAX: usize = 1 << INDEX_BITS;
const SESSION_MASK: u64 = (1 << (INDEX_BITS + GENERATION_BITS)) - 1;
const OWNER_SHIFT: u32 = OWN_BITS + INDEX_BITS + GENERATION_BITS;

/// Names a session of one table; never reused while it could be confused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SessionId(u32);

/// The owner of an operation, part of its token: one of the tables of a reactor, or another part of
/// the reactor that submits operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owner(u8);

impl Owner {
    /// Number of possible owners.
    pub const COUNT: usize = 1 << (64 - OWNER_SHIFT);

    /// Makes the owner with this number.
    ///
    /// # Panics
    /// If the number is not below [`Owner::COUNT`].
    #[must_use]
    pub const fn new(number: usize) -> Owner {
        assert!(number < Owner::COUNT, "an owner has four bits of a token");
        #[expect(clippy::cast_possible_truncation, reason = "below 16")]
        Owner(number as u8)
    }

    /// Returns the owner of the operation with this token.
    #[must_use]
    #[inline]
    pub fn of(token: Token) -> Owner {
        Owner((token >> OWNER_SHIFT) as u8)
    }

    /// Its number.
    #[must_use]
    #[inline]
    pub const fn number(self) -> usize {
        self.0 as usize
    }

    /// Returns the least token of this owner.
    #[must_use]
    pub const fn token_base(self) -> Token {
        (self.0 as Token) << OWNER_SHIFT
    }
}

impl SessionId {
    /// Returns the session's index, below 65,536. The index is reused after the session is closed.
    #[must_use]
    #[inline]
    pub fn index(self) -> usize {
        (self.0 & INDEX_MASK) as usize
    }

    fn generation(self) -> u32 {
        self.0 >> INDEX_BITS
    }

    #[inline]
    pub(super) fn of_token(token: Token) -> Self {
        let bits = (token >> OWN_BITS) & SESSION_MASK;
        SessionId(u32::try_from(bits).expect("28 bits"))
    }

    pub(super) fn token_base(self, owner: Owner) -> Token {
        owner.token_base() | u64::from(self.0) << OWN_BITS
    }
}

/// The places of a table.
pub(super) struct Seats<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    /// First come, first served, so that a busy session cannot keep another waiting.
    ready: VecDeque<SessionId>,
}

struct Slot<T> {
    generation: u32,
    seat: Option<Seat<T>>,
}

struct Seat<T> {
    taken_by: T,
    /// Already in the list of those that are ready.
    is_ready: bool,
}

impl<T> Default for Seats<T> {
    fn default() -> Self {
        Seats {
            slots: Vec::new(),
            free: Vec::new(),
            ready: VecDeque::new(),
        }
    }
}

impl<T> Seats<T> {
    /// Returns the number of sessions.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Returns the name of the next session, which must be [seated](Seats::seat) before another is
    /// named. `None` if the table is full.
    pub(super) fn next_id(&mut self) -> Option<SessionId> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.slots.len() == SESSIONS_MAX => return None,
            None => {
                self.slots.push(Slot {
                    generation: 0,
                    seat: None,
                });
                u32::try_from(self.slots.len() - 1).expect("the table is bounded")
            }
        };
        let generation = self.slots[index as usize].generation;
        Some(SessionId(generation << INDEX_BITS | index))
    }

    pub(super) fn seat(&mut self, id: SessionId, session: T) {
        self.slots[id.index()].seat = Some(Seat {
            taken_by: session,
            is_ready: false,
        });
    }

    pub(super) fn vacate(&mut self, id: SessionId) -> T {
        let slot = &mut self.slots[id.index()];
        let seat = slot.seat.take().expect("the session was detached");
        slot.generation = (slot.generation + 1) & GENERATION_MASK;
        self.free.push(id.0 & INDEX_MASK);
        seat.taken_by
    }

    pub(super) fn ids(&self) -> Vec<SessionId> {
        let seats = self
            .slots
            .iter()
            .zip(0u32..)
            .filter(|(slot, _)| slot.seat.is_some());
        seats
            .map(|(slot, index)| SessionId(slot.generation << INDEX_BITS | index))
            .collect()
    }

    #[inline]
    pub(super) fn get(&self, id: SessionId) -> &T {
        let slot = &self.slots[id.index()];
        assert_eq!(slot.generation, id.generation(), "the session was detached");
        let seat = slot.seat.as_ref();
        &seat.expect("the session was detached").taken_by
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: SessionId) -> &mut T {
        &mut self.taken(id).taken_by
    }

    pub(super) fn mark_ready(&mut self, id: SessionId) {
        let seat = self.taken(id);
        if !seat.is_ready {
            seat.is_ready = true;
            self.ready.push_back(id);
        }
    }

    pub(super) fn ready_count(&self) -> usize {
        self.ready.len()
    }

    /// Returns the next listed session, and skips closed ones.
    pub(super) fn next_ready(&mut self) -> Option<SessionId> {
        while let Some(id) = self.ready.pop_front() {
            let slot = &mut self.slots[id.index()];
            if slot.generation == id.generation()
                && let Some(seat) = &mut slot.seat
            {
                seat.is_ready = false;
                return Some(id);
            }
        }
        None
    }

    #[inline]
    fn taken(&mut self, id: SessionId) -> &mut Seat<T> {
        let slot = &mut self.slots[id.index()];
        assert_eq!(slot.generation, id.generation(), "the session was detached");
        slot.seat.as_mut().expect("the session was detached")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_tells_its_owner_and_its_session() {
        let mut seats = Seats::default();
        let mut last = None;
        for number in 0..70_000_u32 {
            let id = seats.next_id().expect("room");
            seats.seat(id, number);
            if number % 3 == 0 {
                assert_eq!(seats.vacate(id), number);
            }
            for owner in [0, 1, 15].map(Owner::new) {
                let token = id.token_base(owner) + u64::from(u32::MAX);
                assert_eq!((Owner::of(token), SessionId::of_token(token)), (owner, id));
            }
            assert_ne!(last, Some(id), "a place is reused under another name");
            last = Some(id);
        }
    }

    #[test]
    fn one_that_is_gone_is_not_ready() {
        let mut seats = Seats::default();
        let ids: Vec<_> = (0..3)
            .map(|number| {
                let id = seats.next_id().expect("room");
                seats.seat(id, number);
                id
            })
            .collect();
        for id in [ids[1], ids[0], ids[1]] {
            seats.mark_ready(id);
        }
        assert_eq!(seats.vacate(ids[1]), 1);
        assert_eq!((seats.len(), seats.ready_count()), (2, 2));
        assert_eq!(seats.next_ready(), Some(ids[0]));
        assert_eq!(seats.next_ready(), None);
    }
}
