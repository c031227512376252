//! The state of a journal while it is written: the queue, the place of the next record, and the
//! durable prefix.
//!
//! ```text
//! push ──▶ queued ──begin()──▶ in flight ──end()──▶ logged
//!             │                    │                   │
//!             └──────commit() of their consistency point: done, their half is free
//! ```
//!
//! 1. Sequences of the queue are consecutive; the front one follows the last operation in flight,
//!    or the last one dropped by a commit.
//! 2. At most two generations live: `old`, whose consistency point runs, and `young`. Without a
//!    freeze since the last commit only `old` exists.
//! 3. Records are in the order of the queue. A half without room therefore stops everything behind
//!    it: the prefix must stay gapless. Only a commit helps ([`Journal::is_stuck`]).
//!
//! Lives under one short lock of the aggregate, so nothing here copies or hashes a page; the bytes
//! are made by `group`, outside.

use crate::settings::Settings;
use std::collections::VecDeque;
use std::ops::SubAssign;

use everglade_format::Superblock;
use everglade_format::journal::fits;

use crate::Entry;
use crate::group::{Finished, Group, RecordPosition};

/// Most blocks of one group: enough for full-speed writes, few enough that waiters for the next
/// group do not wait long.
const GROUP_BLOCKS: u64 = 1024;
/// Operations of one group, for those without payload.
const GROUP_OPERATIONS: usize = 4096;

/// A place in the order of operations, as superblocks have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// A generation.
    pub generation: u64,
    /// The sequence that the first operation of that generation has or will have.
    pub sequence: u64,
}

impl Position {
    /// Position of a new aggregate, and of an aggregate without a journal.
    pub const FIRST: Position = Position {
        generation: 1,
        sequence: 1,
    };

    /// Returns the position at which replay begins.
    #[must_use]
    pub fn of(superblock: &Superblock) -> Position {
        Position {
            generation: superblock.journal_generation,
            sequence: superblock.journal_sequence,
        }
    }
}

/// A generation and how many blocks of its half have records.
#[derive(Clone, Copy, Debug)]
struct Generation {
    number: u64,
    /// Sequence of its first operation.
    first: u64,
    used: u64,
}

/// Pages of operations.
#[derive(Clone, Copy, Debug, Default)]
struct Payload {
    blocks: u64,
    /// Blocks that an operation changes only in part.
    partial: u64,
}

impl Payload {
    /// Returns the rest after `taken`, which may include later payload.
    fn saturating_sub(self, taken: Payload) -> Payload {
        Payload {
            blocks: self.blocks.saturating_sub(taken.blocks),
            partial: self.partial.saturating_sub(taken.partial),
        }
    }
}

impl SubAssign for Payload {
    fn sub_assign(&mut self, taken: Payload) {
        self.blocks -= taken.blocks;
        self.partial -= taken.partial;
    }
}

/// The journal of one aggregate, from mount to unmount.
#[derive(Debug)]
pub struct Journal {
    settings: Settings,
    /// Operations that are in no group yet.
    queue: VecDeque<Entry>,
    /// Payload of the queue.
    queued: Payload,
    /// Queued payload of the consistency point that has begun.
    frozen: Payload,
    /// The next operation gets this.
    next: u64,
    durable: u64,
    old: Generation,
    young: Option<Generation>,
    is_busy: bool,
    /// Code of the last record written, 0 at first.
    previous: u64,
}

impl Journal {
    /// A journal that continues at `at`.
    #[must_use]
    pub fn new(settings: Settings, at: Position) -> Journal {
        assert!(settings.half_blocks > 0, "a journal without room");
        assert!(at.generation > 0, "generations begin with 1");
        assert!(at.sequence > 0, "sequences begin with 1");
        Journal {
            settings,
            queue: VecDeque::new(),
            queued: Payload::default(),
            frozen: Payload::default(),
            next: at.sequence,
            durable: at.sequence - 1,
            old: Generation {
                number: at.generation,
                first: at.sequence,
                used: 0,
            },
            young: None,
            is_busy: false,
            previous: 0,
        }
    }

    /// Later groups carry this epoch: that of the superblock that was just committed.
    pub fn set_epoch(&mut self, epoch: u64) {
        assert!(epoch >= self.settings.epoch, "epochs only grow");
        self.settings.epoch = epoch;
    }

    /// Takes an operation into the log; returns its sequence.
    pub fn push(&mut self, entry: Entry) -> u64 {
        let operation = entry.operation();
        assert!(operation.validate().is_ok(), "{operation:?}");
        assert_eq!(entry.blocks(), operation.pages(), "one page for each block");
        self.queued.blocks += entry.blocks();
        self.queued.partial += entry.partial_blocks();
        self.queue.push_back(entry);
        self.next += 1;
        self.next - 1
    }

    /// The last sequence taken; one less than the first if there is none.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.next - 1
    }

    /// Returns the last durable operation: all up to it are durable, by the log or by a consistency
    /// point.
    #[must_use]
    pub fn durable(&self) -> u64 {
        self.durable
    }

    /// Payload of operations that are in no group yet.
    #[must_use]
    pub fn unlogged_blocks(&self) -> u64 {
        self.queued.blocks
    }

    /// Returns the part of [`Journal::unlogged_blocks`] in partly changed blocks, whose merged
    /// content is in other pages.
    #[must_use]
    pub fn unlogged_partial_blocks(&self) -> u64 {
        self.queued.partial
    }

    /// Blocks that records of the generation being filled take; those queued are not in it.
    #[must_use]
    pub fn used_blocks(&self) -> u64 {
        self.young.unwrap_or(self.old).used
    }

    /// Payload of operations of the generation being filled that are in no group yet.
    #[must_use]
    pub fn coming_blocks(&self) -> u64 {
        self.queued.blocks - self.frozen.blocks
    }

    /// Blocks of each half.
    #[must_use]
    pub fn half_blocks(&self) -> u64 {
        self.settings.half_blocks
    }

    /// A group is in flight.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// The half of the oldest queued operation has no room for it: only a consistency point helps.
    #[must_use]
    pub fn is_stuck(&self) -> bool {
        self.queue
            .front()
            .is_some_and(|entry| 1 + entry.blocks() > self.room(self.head()))
    }

    /// Begins the next generation: operations up to now join the consistency point that begins,
    /// later ones the next. Returns what the superblock of the former will say.
    pub fn freeze(&mut self) -> Position {
        assert!(
            self.young.is_none(),
            "a freeze before the last consistency point was committed"
        );
        let young = Generation {
            number: self.old.number + 1,
            first: self.next,
            used: 0,
        };
        self.young = Some(young);
        self.frozen = self.queued;
        Position {
            generation: young.number,
            sequence: young.first,
        }
    }

    /// Commits the superblock with `position`, which is on stable media: all operations before are
    /// durable, and their half is free. Returns the operations that were still queued, to be
    /// dropped outside the lock.
    pub fn commit(&mut self, position: Position) -> VecDeque<Entry> {
        let young = self.young.take().expect("a commit follows a freeze");
        assert_eq!(young.number, position.generation, "generation of a commit");
        assert_eq!(young.first, position.sequence, "sequence of a commit");
        self.old = young;
        self.durable = self.durable.max(position.sequence - 1);
        let dropped = position.sequence.saturating_sub(self.head());
        let dropped = usize::try_from(dropped).expect("at most the queue");
        // The smaller part is moved: clients wait.
        let dropped: VecDeque<Entry> = match dropped > self.queue.len() / 2 {
            true => {
                let later = self.queue.split_off(dropped);
                std::mem::replace(&mut self.queue, later)
            }
            false => self.queue.drain(..dropped).collect(),
        };
        // The dropped operations are the unwritten ones of the freeze. Their payload was counted,
        // because there may be a hundred thousand, and clients wait.
        self.queued -= std::mem::take(&mut self.frozen);
        dropped
    }

    /// Takes the oldest operations out of the queue, to be written; none while a group is in
    /// flight, the queue is empty, or the journal is stuck.
    #[must_use]
    pub fn begin(&mut self) -> Option<Group> {
        if self.is_busy {
            return None;
        }
        let first = self.head();
        let (mut positions, mut taken, mut payload) = (Vec::new(), 0, 0);
        while let Some((operations, blocks)) = self.next_record(taken, GROUP_BLOCKS - payload) {
            positions.push(self.next_position(first + taken as u64, operations, 1 + blocks));
            taken += operations;
            payload += blocks;
        }
        if taken == 0 {
            return None;
        }
        let entries = self.queue.range(..taken);
        let group = Payload {
            blocks: payload,
            partial: entries.map(Entry::partial_blocks).sum(),
        };
        self.queued -= group;
        self.frozen = self.frozen.saturating_sub(group);
        self.is_busy = true;
        Some(Group {
            settings: self.settings,
            first,
            previous: self.previous,
            positions,
            entries: self.queue.drain(..taken).collect(),
        })
    }

    /// Ends the group in flight: all of its writes are on stable media.
    pub fn end(&mut self, group: Finished) {
        assert!(self.is_busy, "the end of a group that never began");
        self.is_busy = false;
        self.previous = group.code;
        self.durable = self.durable.max(group.last);
    }

    /// Sequence of the first operation in the queue, or of the next one.
    fn head(&self) -> u64 {
        self.next - self.queue.len() as u64
    }

    fn is_young(&self, sequence: u64) -> bool {
        self.young.is_some_and(|young| sequence >= young.first)
    }

    /// Blocks left in the half of the operation with that sequence.
    fn room(&self, sequence: u64) -> u64 {
        let generation = match self.young {
            Some(young) if self.is_young(sequence) => young,
            _ => self.old,
        };
        self.settings.half_blocks - generation.used
    }

    /// Operations and payload of the record that begins with the queue's entry `from`: as many as
    /// fit into a header, the half, and `budget`, all of one generation. None if not even one does.
    fn next_record(&self, from: usize, budget: u64) -> Option<(usize, u64)> {
        let first = self.head() + from as u64;
        let is_young = self.is_young(first);
        let room = self.room(first);
        let (mut operations, mut blocks) = (0, 0);
        for entry in self.queue.range(from..) {
            let more = blocks + entry.blocks();
            let pages = usize::try_from(more).expect("pages in memory");
            let is_full = !fits(operations + 1, pages) || 1 + more > room || more > budget;
            let is_other = self.is_young(first + operations as u64) != is_young;
            if is_full || is_other || from + operations == GROUP_OPERATIONS {
                break;
            }
            operations += 1;
            blocks = more;
        }
        (operations > 0).then_some((operations, blocks))
    }

    /// Gives a record its blocks behind those of its generation.
    fn next_position(&mut self, first: u64, operations: usize, blocks: u64) -> RecordPosition {
        let half_blocks = self.settings.half_blocks;
        let generation = match &mut self.young {
            Some(young) if first >= young.first => young,
            _ => &mut self.old,
        };
        // The half's former generation is two older than this one. The last commit freed it.
        let block = half_of(generation.number) * half_blocks + generation.used;
        generation.used += blocks;
        assert!(generation.used <= half_blocks, "a record beyond its half");
        RecordPosition {
            generation: generation.number,
            block,
            operations,
        }
    }
}

/// The half of the region that has the records of a generation.
pub(crate) fn half_of(generation: u64) -> u64 {
    generation % 2
}
