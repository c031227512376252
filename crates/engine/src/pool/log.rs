//! The journal of an aggregate, as its reactors share it (C-01, C-02, docs/design/design.md §5).
//!
//! ```text
//! modify phase, in a stripe ─▶ queue ─▶ group ─▶ device ─▶ durable ─▶ the clients that wait
//!                                         ▲ the first client that needs durability leads;
//!                                           later ones wait for the next group
//! ```
//!
//! 1. An operation takes its sequence number inside its stripes, so operations that touch the same
//!    block are queued in the order in which they were done. It takes the number between two
//!    freezes, so its generation is that of the consistency point that it joins.
//! 2. One group is under way at a time, led by the reactor that began it. Operations queued
//!    meanwhile are in the next group. So a group grows with the load, and a lone flush costs one
//!    device write.
//! 3. `durable` is raised after all writes of a group, or a commit, are on stable media; never
//!    before.
//! 4. The mutex is held for a few dozen instructions: queueing an operation, or taking a group.
//!    Codes are computed and writes submitted outside.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use everglade_env::BLOCK_SIZE;
use everglade_env::lock::{Mutex, MutexGuard};
use everglade_format::Config;
use everglade_format::config::JournalRegion;
use everglade_journal::{Entry, Finished, Group, Journal, Position, Scan, Settings};

/// Payload outside the group under way at which a group begins without a waiter, in blocks: 8 MiB
/// (docs/design/design.md §5). This limit bounds the work of a flush.
const EAGER_BLOCKS: u64 = (8 << 20) / BLOCK_SIZE as u64;
/// The same limit while no flush was requested for [`TRUST_BLOCKS`]. A client that writes this much
/// without a flush is copying or filling, and consistency points write the data before a flush
/// needs it; they begin in time ([`Log::is_filling`]). Logging the data as well would write
/// everything twice. So the limit is reached only if a consistency point takes too long. The limit
/// bounds the first flush, which then takes half a second on a disk of 1 GB/s.
const EAGER_BLOCKS_UNASKED: u64 = (512 << 20) / BLOCK_SIZE as u64;
const TRUST_BLOCKS: u64 = (64 << 20) / BLOCK_SIZE as u64;

/// Queued operations that take the memory of a page, payload aside.
const OPERATIONS_PER_PAGE: u64 = 16;
/// Writers never wait while at most this many pages wait for the journal, however small the memory
/// is. An operation of 1 MiB fits into this.
const LEAST_UNLOGGED: u64 = 512;

/// See the module's documentation.
pub(crate) struct Log {
    region: JournalRegion,
    /// But for the life.
    settings: Settings,
    queue: Mutex<Journal>,
    /// Copies of the queue's state, readable without the mutex.
    durable: AtomicU64,
    /// The highest sequence whose durability a waiter needs.
    wanted: AtomicU64,
    /// Pages that wait for a group.
    unlogged: AtomicU64,
    /// Unlogged blocks that only the journal holds: partial writes, which are merged into other
    /// pages.
    unlogged_partial: AtomicU64,
    /// Payload queued since the last request for durability, in blocks.
    unasked: AtomicU64,
    /// True if a group should begin although no operation waits.
    eager: AtomicBool,
    /// Reactors with operations that wait, one bit each (modulo 64).
    waiting: AtomicU64,
    /// Three quarters of the half that is being filled are used, or would be if those who wrote
    /// much without asking for durability asked now, or what waits takes half of the memory for it,
    /// so that a consistency point should begin: operations find room while it does.
    filling: AtomicBool,
    /// Pages that may be dirty.
    memory: AtomicU64,
}

/// The result of an attempt to begin a group.
pub(crate) enum Begun {
    Group(Box<Group>),
    /// A group is under way, or no operation is left to log.
    Nothing,
    /// The half is full: only a commit helps.
    Full,
}

/// The journal, for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalInfo {
    /// Bytes of one half.
    pub half_bytes: u64,
    /// Bytes of the half that is being filled which are in use.
    pub used_bytes: u64,
    /// Operations' bytes that are in memory only.
    pub unlogged_bytes: u64,
}

/// The result of the journal's replay when the aggregate was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecoveryInfo {
    /// Records read.
    pub records: u64,
    /// Number of replayed operations.
    pub operations: u64,
    /// Operations on LUNs that are no more, or not yet.
    pub skipped: u64,
    /// Bytes of the journal that were read.
    pub bytes: u64,
    /// Time from the first read until all of it was committed, nanoseconds.
    pub nanos: u64,
    /// The sequence number after the last operation that was found.
    pub next_sequence: u64,
}

impl Log {
    /// The journal of an aggregate that has one. Position and life are set by [`Log::begin_life`].
    pub(crate) fn new(config: &Config) -> Option<Log> {
        let region = config.journal;
        if region.blocks < 2 {
            return None;
        }
        let settings = Settings {
            half_blocks: region.blocks / 2,
            uuid: config.uuid,
            epoch: config.epoch,
            life: 0,
        };
        let log = Log {
            queue: Mutex::new(Journal::new(settings, Position::FIRST)),
            settings,
            region,
            durable: AtomicU64::new(0),
            wanted: AtomicU64::new(0),
            unlogged: AtomicU64::new(0),
            unlogged_partial: AtomicU64::new(0),
            unasked: AtomicU64::new(0),
            eager: AtomicBool::new(false),
            waiting: AtomicU64::new(0),
            filling: AtomicBool::new(false),
            memory: AtomicU64::new(u64::MAX),
        };
        Some(log)
    }

    fn queue(&self) -> MutexGuard<'_, Journal> {
        self.queue.lock()
    }

    /// Reads what an earlier life left, from what the superblock says.
    pub(crate) fn scan(&self, from: Position) -> Scan {
        let Settings {
            half_blocks,
            uuid,
            epoch,
            ..
        } = self.settings;
        Scan::new(half_blocks, uuid, epoch, from)
    }

    /// Begins a life of the journal, before its first operation.
    pub(crate) fn begin_life(&self, life: u64, at: Position) {
        let settings = Settings {
            life,
            ..self.settings
        };
        *self.queue() = Journal::new(settings, at);
        self.durable.store(at.sequence - 1, Ordering::Release);
    }

    /// Index of the member that has the region; its copies have it, too.
    pub(crate) fn member(&self) -> u32 {
        self.region.member
    }

    /// Byte offset on the device of a block of the region.
    pub(crate) fn offset(&self, block: u64) -> u64 {
        assert!(
            block < self.region.blocks,
            "block {block} is beyond the journal"
        );
        (self.region.first.0 + block) * BLOCK_SIZE as u64
    }

    /// Queues an operation, in its modify phase. Returns its sequence number.
    pub(crate) fn push(&self, entry: Entry) -> u64 {
        let mut queue = self.queue();
        // Entries are added only under the mutex, and a missed reset is repeated.
        let unasked = self.unasked.load(Ordering::Relaxed) + entry.blocks();
        self.unasked.store(unasked, Ordering::Relaxed);
        let sequence = queue.push(entry);
        let unlogged = self.note_unlogged(&queue);
        let is_much = unlogged >= self.eager_blocks() && !queue.is_busy();
        let was_filling = self.is_filling();
        self.note_fill(&queue);
        if is_much || !was_filling && self.is_filling() {
            self.eager.store(true, Ordering::Release);
        }
        sequence
    }

    /// Returns the payload at which a group begins without a waiter.
    fn eager_blocks(&self) -> u64 {
        match self.is_bulk() {
            true => EAGER_BLOCKS_UNASKED,
            false => EAGER_BLOCKS,
        }
    }

    /// True if much was written since the last request for durability.
    fn is_bulk(&self) -> bool {
        self.unasked.load(Ordering::Relaxed) >= TRUST_BLOCKS
    }

    /// A client asks for durability.
    pub(crate) fn note_asked(&self) {
        self.unasked.store(0, Ordering::Relaxed);
    }

    /// The last sequence number taken.
    pub(crate) fn last(&self) -> u64 {
        self.queue().last()
    }

    /// Operations up to this one are durable.
    pub(crate) fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    /// True once after so much was queued that a group should begin, or a consistency point.
    pub(crate) fn take_eager(&self) -> bool {
        self.eager.load(Ordering::Acquire) && self.eager.swap(false, Ordering::AcqRel)
    }

    /// Asks for durability up to `sequence`, for an operation on `reactor`. A group must be begun
    /// after this.
    pub(crate) fn want(&self, sequence: u64, reactor: usize) {
        self.waiting.fetch_or(1 << (reactor % 64), Ordering::AcqRel);
        self.wanted.fetch_max(sequence, Ordering::AcqRel);
    }

    /// Reactors to tell that [`Log::durable`] rose.
    pub(crate) fn take_waiting(&self, reactors: usize) -> impl Iterator<Item = usize> + use<> {
        let bits = self.waiting.swap(0, Ordering::AcqRel);
        (0..reactors).filter(move |reactor| bits >> (reactor % 64) & 1 == 1)
    }

    /// Begins a group if an operation waits for one, or much payload is queued.
    pub(crate) fn begin(&self) -> Begun {
        let mut queue = self.queue();
        let is_wanted = self.wanted.load(Ordering::Acquire) > queue.durable();
        if !is_wanted && self.note_unlogged(&queue) < self.eager_blocks() {
            return Begun::Nothing;
        }
        let begun = queue.begin();
        self.note_fill(&queue);
        self.note_unlogged(&queue);
        match begun {
            Some(group) => Begun::Group(Box::new(group)),
            None if queue.is_stuck() => Begun::Full,
            None => Begun::Nothing,
        }
    }

    /// Ends a group: all writes of the group under way are durable.
    pub(crate) fn end(&self, finished: Finished) {
        let mut queue = self.queue();
        queue.end(finished);
        self.note_unlogged(&queue);
        self.durable.store(queue.durable(), Ordering::Release);
    }

    /// Ends the generation, in the freeze: later operations belong to the next generation.
    pub(crate) fn freeze(&self) -> Position {
        let mut queue = self.queue();
        let position = queue.freeze();
        self.note_fill(&queue);
        position
    }

    /// Commits the consistency point whose freeze returned `position`, and whose superblock names
    /// `epoch`. Returns the entries that the journal no longer needs: freeing them takes longer
    /// than clients should wait.
    #[must_use]
    pub(crate) fn commit(&self, position: Position, epoch: u64) -> VecDeque<Entry> {
        let mut queue = self.queue();
        let dropped = queue.commit(position);
        queue.set_epoch(epoch);
        self.note_unlogged(&queue);
        self.durable.store(queue.durable(), Ordering::Release);
        dropped
    }

    /// Sets the number of pages that may be dirty within the memory limit.
    pub(crate) fn set_dirty_memory(&self, pages: u64) {
        self.memory.store(pages, Ordering::Relaxed);
    }

    /// True if writers must wait, because the journal holds too much memory. Overwritten content
    /// stays in memory until the journal has written it, or for some turns after a commit that
    /// makes logging it needless; this content and dirty pages share one bound. In a bulk write all
    /// dirty pages wait for the journal, so the waiting payload includes both; otherwise little
    /// waits. Operations take less than an eighth besides.
    pub(crate) fn has_too_much_waiting(&self) -> bool {
        let memory = self.memory.load(Ordering::Relaxed);
        let most = memory.saturating_add(memory / 8).max(LEAST_UNLOGGED);
        self.unlogged.load(Ordering::Relaxed) > most
    }

    /// Returns the pages held if `dirty` pages are dirty: those, and other payload that waits for
    /// the journal. A whole block that is dirty and waits is one page; a partial block waits as the
    /// client sent it, and the dirty block is another page.
    pub(crate) fn pages_with(&self, dirty: u64) -> u64 {
        let partial = self.unlogged_partial.load(Ordering::Relaxed);
        let whole = self
            .unlogged
            .load(Ordering::Relaxed)
            .saturating_sub(partial);
        dirty.max(whole) + partial
    }

    fn note_unlogged(&self, queue: &Journal) -> u64 {
        let operations = queue.last().saturating_sub(queue.durable());
        let pages = queue.unlogged_blocks() + operations / OPERATIONS_PER_PAGE;
        self.unlogged.store(pages, Ordering::Relaxed);
        let partial = queue.unlogged_partial_blocks();
        self.unlogged_partial.store(partial, Ordering::Relaxed);
        pages
    }

    fn note_fill(&self, queue: &Journal) {
        let coming = queue.coming_blocks();
        let at_once = if self.is_bulk() { coming } else { 0 };
        let is_filling = queue.used_blocks() + at_once >= (queue.half_blocks() * 3).div_ceil(4)
            || coming > self.memory.load(Ordering::Relaxed) / 2;
        if is_filling != self.is_filling() {
            self.filling.store(is_filling, Ordering::Release);
        }
    }

    /// True if the half that is being filled should be emptied soon.
    pub(crate) fn is_filling(&self) -> bool {
        self.filling.load(Ordering::Acquire)
    }

    pub(crate) fn info(&self) -> JournalInfo {
        let queue = self.queue();
        let bytes = |blocks: u64| blocks * BLOCK_SIZE as u64;
        JournalInfo {
            half_bytes: bytes(queue.half_blocks()),
            used_bytes: bytes(queue.used_blocks()),
            unlogged_bytes: bytes(queue.unlogged_blocks()),
        }
    }
}

#[cfg(test)]
mod tests {
    use everglade_env::PageRef;
    use everglade_format::config::Member;
    use everglade_format::{Dbn, FileId, Seat, TagKey};
    use everglade_journal::Action;

    use super::*;
    use crate::media::layout::tests::config;

    const MIB: u64 = (1 << 20) / BLOCK_SIZE as u64;
    const HALF: u64 = 256 * MIB;

    fn new() -> Log {
        let journal = JournalRegion {
            member: 0,
            first: Dbn(1),
            blocks: 2 * HALF,
        };
        let member = Member {
            uuid: [2; 16],
            size_blocks: 4 * HALF,
            data_first: Dbn(1 + 2 * HALF),
            seat: Seat::ALONE,
        };
        let config = Config {
            journal,
            ..config(vec![member], Vec::new())
        };
        let log = Log::new(&config).expect("it has a journal");
        log.begin_life(1, Position::FIRST);
        log
    }

    /// Queues this many blocks, and logs meanwhile as the limits demand. Returns the number of
    /// blocks logged.
    fn write(log: &Log, blocks: u64) -> u64 {
        let before = log.info().used_bytes;
        for _ in 0..blocks {
            log.push(Entry {
                volume: FileId(64),
                file: FileId(65),
                offset: 0,
                length: BLOCK_SIZE as u64,
                action: Action::Write {
                    pages: vec![PageRef::zero()],
                },
            });
            if log.take_eager() {
                while let Begun::Group(group) = log.begin() {
                    let (_, finished) = group.encode(&TagKey::new(&[3; 32]), 1);
                    log.end(finished);
                }
            }
        }
        (log.info().used_bytes - before) / BLOCK_SIZE as u64
    }

    #[test]
    fn bulk_writes_are_left_to_consistency_points_that_begin_in_time() {
        let log = new();
        assert!(
            write(&log, TRUST_BLOCKS) > 0,
            "somebody may be about to ask"
        );
        assert_eq!(write(&log, 64 * MIB), 0);
        assert!(!log.is_filling());
        write(&log, 64 * MIB);
        assert!(
            log.is_filling(),
            "a flush would need three quarters of it now"
        );
        let position = log.freeze();
        assert!(!log.is_filling());
        assert_eq!(write(&log, 100 * MIB), 0);
        drop(log.commit(position, 1));
        assert_eq!(log.info().unlogged_bytes, (100 << 20));
        assert!(!log.is_filling());
    }

    #[test]
    fn what_is_overwritten_again_and_again_is_left_to_consistency_points_too() {
        let log = new();
        log.set_dirty_memory(100 * MIB);
        write(&log, TRUST_BLOCKS + 40 * MIB);
        assert!(!log.is_filling());
        write(&log, 10 * MIB);
        assert!(log.is_filling(), "half of the memory is held for it");
        let position = log.freeze();
        assert!(!log.is_filling());
        assert_eq!(write(&log, 49 * MIB), 0, "nobody asked");
        assert!(!log.has_too_much_waiting());
        write(&log, 20 * MIB);
        assert!(
            log.has_too_much_waiting(),
            "the consistency point takes too long"
        );
        drop(log.commit(position, 1));
        assert!(!log.has_too_much_waiting());
    }

    #[test]
    fn a_consistency_point_that_takes_too_long_lets_little_more_than_a_half_wait() {
        let log = new();
        write(&log, TRUST_BLOCKS + 200 * MIB);
        log.freeze();
        write(&log, 400 * MIB);
        let unlogged = log.info().unlogged_bytes;
        assert!(unlogged <= 512 << 20, "{unlogged}");
        assert!(log.is_filling());
    }

    #[test]
    fn who_asks_now_and_then_finds_nearly_everything_logged() {
        let log = new();
        write(&log, TRUST_BLOCKS + 10 * MIB);
        assert!(log.info().unlogged_bytes > 8 << 20);
        log.note_asked();
        for _ in 0..3 {
            write(&log, 20 * MIB);
            let unlogged = log.info().unlogged_bytes;
            assert!(unlogged <= 8 << 20, "{unlogged}");
            log.note_asked();
        }
        assert!(!log.is_filling());
    }
}
