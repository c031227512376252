//! Network memory: one budget for all memory that the sessions of a table hold for their clients.
//!
//! Charged are the pages of payloads that arrive, of reads under way and of replies that the client
//! has not taken yet, and [`REQUEST_BYTES`] for each request until its reply is sent. The staging
//! buffers of the sessions are not charged, but bounded by [`Memory::staging_bytes`]. Both together
//! stay below the budget of the table.
//!
//! ```text
//! take(): it fits, nobody waits --------------------> charged --give()--> free
//!   |---> it does not fit, or others wait             ^
//!         the session waits in its class's queue --turn--+   (`Sessions::serve_queues`)
//! ```
//!
//! 1. No session overtakes another: while sessions wait, only the first of them takes memory of its
//!    class.
//! 2. Each class has its own part of the budget. Small requests (at most `SMALL_BYTES`) may use
//!    the part of larger ones while none of those waits. Data that is read again for a reply that
//!    has begun has its own part, because replies behind it could hold the memory that it needs. So
//!    no class keeps another waiting.
//! 3. A waiting session holds no memory that only its own progress would free. The memory of a long
//!    request whose client is blocked is freed as soon as a session waits
//!    (`Session::yield_memory`). A request of one operation cannot be freed in part: its session is
//!    ended if its client does not move for ten seconds while a session waits (`Sessions::sweep`).
//!    So every queue moves.
//!
//! One table is served by one thread, which alone writes the counters; other threads read them for
//! metrics. So they are moved by plain loads and stores, as in `super::metrics`.

use core::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{OP_BYTES_MAX, span};
use everglade_env::BLOCK_SIZE;

/// Charged for a request besides its pages: its row, its operation, its reply.
pub const REQUEST_BYTES: u64 = 1 << 10;
/// A request that moves no more is small.
const SMALL_BYTES: u64 = 64 << 10;
/// The most that one request takes at once: the extents of a block status for 17 contexts. The
/// pages of one operation are fewer.
pub const LARGEST_BYTES: u64 = 3 << 19;
/// The least budget of a table: the part for long requests suffices for one of them.
const TOTAL_BYTES_MIN: u64 = 3 << 20;
/// The length of the pieces of a long request while other sessions wait for memory, and of data
/// that is read again at once.
pub const SHORT_PIECE_BYTES: u32 = 256 << 10;
/// Divisor: the buffers of sessions may take this fraction of the budget.
const BUFFERS_PART: u64 = 8;
/// Divisor: data read again gets this fraction of the remainder.
const AGAIN_PART: u64 = 8;
/// Divisor: small requests get this fraction of what then remains.
const SMALL_PART: u64 = 4;
/// Number of classes.
pub const CLASSES: usize = 3;

const _: () = assert!(LARGEST_BYTES <= Parts::of(TOTAL_BYTES_MIN).large);
const _: () =
    assert!(SHORT_PIECE_BYTES as u64 + BLOCK_SIZE as u64 <= Parts::of(TOTAL_BYTES_MIN).again);
const _: () = assert!(OP_BYTES_MAX as u64 + 2 * BLOCK_SIZE as u64 <= LARGEST_BYTES);

/// The classes of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Requests that move at most `SMALL_BYTES`.
    Small,
    /// All other requests.
    Large,
    /// Data of replies that have begun, read again.
    Again,
}

/// The memory that each class may use, see invariant 2.
#[derive(Debug)]
struct Parts {
    small: u64,
    large: u64,
    again: u64,
}

impl Parts {
    const fn of(total: u64) -> Parts {
        let payload = total - total / BUFFERS_PART;
        let again = payload / AGAIN_PART;
        let small = (payload - again) / SMALL_PART;
        let large = payload - again - small;
        Parts {
            small,
            large,
            again,
        }
    }
}

/// An amount that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// How much.
    pub bytes: u64,
    /// Class whose part holds them.
    pub class: Class,
}

/// Amounts that are given back together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Released([u64; CLASSES]);

impl Released {
    /// Adds an amount.
    #[inline]
    pub fn add(&mut self, held: Reservation) {
        self.0[held.class as usize] += held.bytes;
    }

    /// Returns one amount for each class of which there is something.
    #[inline]
    pub fn amounts(self) -> impl Iterator<Item = Reservation> {
        let classes = [Class::Small, Class::Large, Class::Again];
        let amounts = classes.map(|class| Reservation {
            bytes: self.0[class as usize],
            class,
        });
        amounts.into_iter().filter(|held| held.bytes > 0)
    }
}

/// The numbers of a [`Memory`] at about one moment. Those of several tables add up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemorySnapshot {
    /// The most that sessions may hold.
    pub total: u64,
    /// Bytes that sessions hold.
    pub used: u64,
    /// Sessions that wait for some.
    pub waiting: u64,
    /// Number of waits of sessions.
    pub waits: u64,
    /// Sessions that were ended because their peers did not move while others waited.
    pub stalled: u64,
}

impl From<&Memory> for MemorySnapshot {
    fn from(memory: &Memory) -> Self {
        MemorySnapshot {
            total: memory.total(),
            used: memory.used(),
            waiting: memory.waiting(),
            waits: memory.waits(),
            stalled: memory.stalled(),
        }
    }
}

impl AddAssign for MemorySnapshot {
    fn add_assign(&mut self, other: MemorySnapshot) {
        self.total += other.total;
        self.used += other.used;
        self.waiting += other.waiting;
        self.waits += other.waits;
        self.stalled += other.stalled;
    }
}

/// The budget of a table, see the module's documentation.
#[derive(Debug)]
pub struct Memory {
    total: u64,
    parts: Parts,
    /// Bytes in use, by class.
    used: [AtomicU64; CLASSES],
    /// Sessions that wait, by class.
    waiting: [AtomicU64; CLASSES],
    /// Sessions that wait, of all classes.
    all_waiting: AtomicU64,
    /// The most that one session may hold.
    share: AtomicU64,
    /// The most that a session's own buffer may hold.
    staging: AtomicU64,
    /// Whether a waiting session has its turn and has not used it.
    is_turn: AtomicU64,
    waits: AtomicU64,
    stalled: AtomicU64,
}

impl Class {
    /// Returns the class of a request that moves this number of bytes.
    #[must_use]
    pub fn of(bytes: u64) -> Class {
        if bytes <= SMALL_BYTES {
            Class::Small
        } else {
            Class::Large
        }
    }
}

impl Reservation {
    /// Nothing yet, of this class.
    #[must_use]
    pub fn none(class: Class) -> Reservation {
        Reservation { bytes: 0, class }
    }
}

/// Returns the bytes of the pages that a range touches.
#[must_use]
#[inline]
pub fn page_bytes(offset: u64, length: u32) -> u64 {
    span::block_count(offset, u64::from(length)) * BLOCK_SIZE as u64
}

impl Memory {
    /// Makes a budget of `total` bytes, but at least 3 MiB: the largest request needs so much.
    #[must_use]
    pub fn new(total: u64) -> Memory {
        let total = total.max(TOTAL_BYTES_MIN);
        let memory = Memory {
            total,
            parts: Parts::of(total),
            used: Default::default(),
            waiting: Default::default(),
            all_waiting: AtomicU64::new(0),
            share: AtomicU64::new(0),
            staging: AtomicU64::new(0),
            is_turn: AtomicU64::new(0),
            waits: AtomicU64::new(0),
            stalled: AtomicU64::new(0),
        };
        memory.share_among(1);
        memory
    }

    /// Takes memory if it fits and it is the caller's turn. The share of its session is the
    /// caller's to check.
    #[inline]
    pub fn take(&self, bytes: u64, class: Class) -> bool {
        if !self.fits(bytes, class) {
            return false;
        }
        let is_turn = get(&self.is_turn) > 0;
        if is_turn {
            set(&self.is_turn, 0);
        } else if get(&self.waiting[class as usize]) > 0 {
            return false;
        }
        let used = &self.used[class as usize];
        set(used, get(used) + bytes);
        true
    }

    /// Returns whether the next session in the queue could take this number of bytes.
    #[must_use]
    #[inline]
    pub fn fits(&self, bytes: u64, class: Class) -> bool {
        let parts = &self.parts;
        let used = |class: Class| get(&self.used[class as usize]);
        let (small, large) = (used(Class::Small), used(Class::Large));
        let is_room = small + large + bytes <= parts.small + parts.large;
        match class {
            Class::Small if get(&self.waiting[Class::Large as usize]) > 0 => {
                is_room && small + bytes <= parts.small
            }
            Class::Small => is_room,
            Class::Large => is_room && large + bytes <= parts.large,
            Class::Again => used(Class::Again) + bytes <= parts.again,
        }
    }

    /// Releases memory that was taken.
    ///
    /// # Panics
    /// If that is more than was taken.
    #[inline]
    pub fn give(&self, held: Reservation) {
        let used = &self.used[held.class as usize];
        let before = get(used);
        assert!(before >= held.bytes, "more memory given back than taken");
        set(used, before - held.bytes);
    }

    /// Returns whether a session waits for memory.
    #[must_use]
    #[inline]
    pub fn is_pressed(&self) -> bool {
        get(&self.all_waiting) > 0
    }

    /// Returns the longest operation to cut off a request that is not one operation.
    #[must_use]
    #[inline]
    pub fn piece_bytes(&self) -> u32 {
        if self.is_pressed() {
            SHORT_PIECE_BYTES
        } else {
            OP_BYTES_MAX
        }
    }

    /// Bytes that one session may hold.
    #[must_use]
    #[inline]
    pub fn share(&self) -> u64 {
        get(&self.share)
    }

    /// Bytes that a session's own buffer may hold.
    ///
    /// # Panics
    /// If there is more memory than addresses.
    #[must_use]
    #[inline]
    pub fn staging_bytes(&self) -> usize {
        usize::try_from(get(&self.staging)).expect("memory is addressable")
    }

    /// Returns the bytes that the owner of a session's stream may buffer for it.
    #[must_use]
    pub fn buffer_bytes(&self) -> usize {
        self.staging_bytes()
    }

    /// Divides the buffer memory among this number of sessions from now on.
    pub fn share_among(&self, sessions: u64) {
        let sessions = sessions.max(1);
        set(&self.share, (self.total / sessions).max(LARGEST_BYTES));
        set(&self.staging, self.total / BUFFERS_PART / sessions);
    }

    /// Counts a session that begins to wait.
    pub fn begin_wait(&self, class: Class) {
        let waiting = &self.waiting[class as usize];
        set(waiting, get(waiting) + 1);
        set(&self.all_waiting, get(&self.all_waiting) + 1);
        set(&self.waits, get(&self.waits) + 1);
    }

    /// Counts a session that no longer waits.
    pub fn end_wait(&self, class: Class) {
        let waiting = &self.waiting[class as usize];
        set(waiting, get(waiting) - 1);
        set(&self.all_waiting, get(&self.all_waiting) - 1);
    }

    /// Says whether it is the turn of a session that waited.
    pub fn set_turn(&self, is_turn: bool) {
        set(&self.is_turn, u64::from(is_turn));
    }

    /// Returns whether a session has its turn and has not used it.
    #[must_use]
    #[inline]
    pub fn is_turn(&self) -> bool {
        get(&self.is_turn) > 0
    }

    /// Counts a session that was ended because its peer did not move while others waited.
    pub fn note_stalled(&self) {
        set(&self.stalled, get(&self.stalled) + 1);
    }

    /// Returns the limit for payloads and buffers together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns the memory in use, without the buffers of sessions.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.used.iter().map(get).sum()
    }

    /// Sessions that wait for memory now.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        get(&self.all_waiting)
    }

    /// Returns the number of waits of sessions.
    #[must_use]
    pub fn waits(&self) -> u64 {
        get(&self.waits)
    }

    /// Sessions that were ended because their peers did not move while others waited.
    #[must_use]
    pub fn stalled(&self) -> u64 {
        get(&self.stalled)
    }
}

fn get(cell: &AtomicU64) -> u64 {
    cell.load(Ordering::Relaxed)
}

/// Sets the value. The owner is the only writer, see the module's documentation.
fn set(cell: &AtomicU64, value: u64) {
    cell.store(value, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn small_requests_find_what_long_ones_do_not_take() {
        let memory = Memory::new(8 * MIB);
        while memory.take(MIB, Class::Large) {}
        assert_eq!(
            memory.used(),
            4 * MIB,
            "of 8 MiB less a half, which is for others"
        );
        memory.begin_wait(Class::Large);
        let mut small = 0;
        while memory.take(SMALL_BYTES, Class::Small) {
            small += SMALL_BYTES;
        }
        let part = Parts::of(8 * MIB).small;
        assert!(small <= part && small > part - SMALL_BYTES);
        assert!(memory.take(u64::from(SHORT_PIECE_BYTES), Class::Again));
    }

    #[test]
    fn nobody_overtakes_who_waits() {
        let memory = Memory::new(8 * MIB);
        memory.begin_wait(Class::Large);
        assert!(!memory.take(MIB, Class::Large));
        assert!(memory.take(4096, Class::Small), "the other class");
        memory.set_turn(true);
        assert!(memory.take(MIB, Class::Large));
        memory.set_turn(false);
        memory.end_wait(Class::Large);
        assert!(memory.take(MIB, Class::Large));
        assert_eq!((memory.used(), memory.waits()), (2 * MIB + 4096, 1));
    }

    #[test]
    fn small_ones_leave_what_long_ones_wait_for() {
        let memory = Memory::new(8 * MIB);
        let mut taken = 0;
        while memory.take(SMALL_BYTES, Class::Small) {
            taken += 1;
        }
        assert!(!memory.fits(MIB, Class::Large));
        memory.begin_wait(Class::Large);
        for _ in 0..taken {
            if memory.fits(LARGEST_BYTES, Class::Large) {
                return;
            }
            let bytes = SMALL_BYTES;
            memory.give(Reservation {
                bytes,
                class: Class::Small,
            });
            memory.begin_wait(Class::Small);
            assert!(!memory.take(bytes, Class::Small), "a newcomer queues");
        }
        panic!("a long request never fits");
    }
}
