//! Replay: operations that the journal has beyond the last consistency point are repeated (C-08).
//!
//! ```text
//! mounted ─▶ read ─▶ scan ─▶ repeat, one by one ─▶ read … ─▶ end of the prefix ─▶ commit ─▶ online
//! ```
//!
//! 1. Operations are repeated in the order of their sequence numbers, one after the other.
//! 2. An operation sets contents; it does not modify them. So repeating all operations when some of
//!    them are already done gives the same result. Therefore consistency points may run during the
//!    replay, when memory is short, and a crash in between is harmless: their superblocks still
//!    name the position where the replay began.
//! 3. Clients are admitted after all replayed operations are committed, and with a generation that
//!    no record has. Labels with the record of a change that was cut count like a record
//!    ([`crate::mount::labels`]). If the aggregate halts meanwhile, the replay continues to its end
//!    in memory, and clients are admitted to read. Then the dirty pages may exceed their limit, up
//!    to the size of the whole journal.
//! 4. Operations on a LUN, or on a part of it, that does not exist are skipped: the LUN was created
//!    or enlarged in a consistency point that was not committed, so these operations were never
//!    reported durable.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use everglade_env::{BLOCK_SIZE, Completion, Nanos, Op, Outside, Page, PageRef};
use everglade_format::{CpNumber, FileId};
use everglade_journal::{Action, End, Entry, Position, Scan};
use everglade_target as contract;
use everglade_target::span::block_count;
use everglade_target::{Error, Reply, WriteSpan};

use crate::ops::{Client, Origin};
use crate::pool::aggregate::{Aggregate, State};
use crate::pool::log::RecoveryInfo;
use crate::pool::volume::Lun;
use crate::reactor::loading::Inflight;
use crate::reactor::{Core, Work};

/// Operations that are repeated in one slice.
const SLICE_OPERATIONS: usize = 64;
/// Reads of a part of the journal before it counts as unreadable; the drives that have it take
/// turns.
const ATTEMPTS_MAX: u32 = 3;

/// A replay under way.
pub(super) struct Replay {
    aggregate: Arc<Aggregate>,
    /// The position in the superblock where the replay begins.
    from: Position,
    scan: Scan,
    luns: HashMap<(FileId, FileId), Arc<Lun>>,
    entries: VecDeque<Entry>,
    /// A read, or an operation, is under way.
    is_waiting: bool,
    /// True while the replay is on the stack: an operation that completes at once need not wake it.
    is_running: bool,
    /// Reads of the present run of blocks so far.
    attempts: u32,
    failure: Option<String>,
    /// After all operations are repeated: the consistency point that has all of them.
    last: Option<CpNumber>,
    begun: Nanos,
    info: RecoveryInfo,
}

impl<O: Outside> Core<O> {
    /// Begins the replay of an aggregate that was mounted and has a journal.
    pub(super) fn begin_replay(&mut self, aggregate: &Arc<Aggregate>, from: Position) {
        let log = aggregate.log.as_ref().expect("checked by the caller");
        let luns = aggregate
            .kept_volumes()
            .iter()
            .flat_map(|volume| volume.kept_luns())
            .map(|lun| ((lun.volume.id, lun.file), lun))
            .collect();
        let replay = Replay {
            aggregate: aggregate.clone(),
            from,
            scan: log.scan(from),
            luns,
            entries: VecDeque::new(),
            is_waiting: false,
            is_running: false,
            attempts: 1,
            failure: None,
            last: None,
            begun: self.outside.now(),
            info: RecoveryInfo::default(),
        };
        let id = self.add(Work::Replay(Box::new(replay)));
        self.enqueue(id);
    }

    fn replay(&mut self, id: usize) -> &mut Replay {
        let Work::Replay(replay) = &mut self.operations[id].work else {
            unreachable!("a replay's")
        };
        replay
    }

    pub(super) fn run_replay(&mut self, id: usize) {
        self.replay(id).is_running = true;
        if self.replay_some(id) {
            self.replay(id).is_running = false;
        }
    }

    /// True unless the replay is over.
    fn replay_some(&mut self, id: usize) -> bool {
        for _ in 0..SLICE_OPERATIONS {
            let replay = self.replay(id);
            let aggregate = replay.aggregate.clone();
            if replay.is_waiting {
                return true;
            }
            if let Some(reason) = replay.failure.take() {
                let undone = replay.entries.len() as u64 + 1;
                return self.end_early(id, undone, reason);
            }
            if matches!(aggregate.state(), State::Failed(_)) {
                self.operations.remove(id);
                return false;
            }
            let replay = self.replay(id);
            if let Some(entry) = replay.entries.pop_front() {
                self.do_again(id, entry);
            } else if let Some((block, blocks)) = replay.scan.wants() {
                replay.is_waiting = true;
                replay.info.bytes += blocks * BLOCK_SIZE as u64;
                let log = aggregate.log.as_ref().expect("it is replayed");
                let drives = aggregate.media.layout().journal();
                let turn = (replay.attempts as usize - 1) % drives.len();
                let op = Op::Read {
                    device: drives[turn].0,
                    offset: log.offset(block),
                    pages: (0..blocks).map(|_| Page::for_read()).collect(),
                };
                self.submit(op, Inflight::Replay { operation: id });
                return true;
            } else {
                return self.end_replay(id);
            }
        }
        self.enqueue(id);
        true
    }

    pub(super) fn complete_replay(&mut self, id: usize, completion: Completion) {
        let replay = self.replay(id);
        replay.is_waiting = false;
        let pages = completion.pages.into_iter().map(Page::freeze).collect();
        let pages = match completion.result {
            Ok(()) => pages,
            Err(_) if replay.attempts < ATTEMPTS_MAX => {
                replay.attempts += 1;
                return self.enqueue(id);
            }
            Err(_) => Vec::new(),
        };
        replay.attempts = 1;
        let mut found = Vec::new();
        let aggregate = replay.aggregate.clone();
        replay.scan.feed(&aggregate.key, pages, &mut found);
        replay.entries.extend(found);
        self.enqueue(id);
    }

    fn do_again(&mut self, id: usize, entry: Entry) {
        let replay = self.replay(id);
        let lun = replay.luns.get(&(entry.volume, entry.file)).cloned();
        let end = entry.offset.checked_add(entry.length);
        let fits = |lun: &Arc<Lun>| end.is_some_and(|end| end <= lun.size_bytes());
        let Some(lun) = lun.filter(fits) else {
            replay.info.skipped += 1;
            return;
        };
        let op = match entry.action {
            Action::Write { pages } => {
                let blocks = block_count(entry.offset, entry.length);
                let length = u32::try_from(entry.length).unwrap_or(u32::MAX);
                if length == 0 || blocks != pages.len() as u64 {
                    replay.info.skipped += 1;
                    return;
                }
                contract::Op::Write {
                    data: WriteSpan {
                        offset: entry.offset,
                        length,
                        pages: pages.into_iter().map(PageRef::thaw).collect(),
                    },
                    durable: false,
                }
            }
            Action::Punch => contract::Op::WriteZeroes {
                offset: entry.offset,
                length: entry.length,
                allocate: false,
                durable: false,
            },
        };
        replay.info.operations += 1;
        replay.is_waiting = true;
        self.begin_client(Client::new(lun, op, Origin::Replay(id)));
    }

    /// Called when an operation was repeated.
    pub(super) fn replayed(&mut self, id: usize, result: Result<Reply, Error>) {
        let replay = self.replay(id);
        replay.is_waiting = false;
        if let Err(error) = result {
            replay.failure = Some(format!("its journal could not be replayed: {error}"));
        }
        if !replay.is_running {
            self.enqueue(id);
        }
    }

    /// Called when all operations were repeated, or none was found. True unless the replay is over.
    fn end_replay(&mut self, id: usize) -> bool {
        let replay = self.replay(id);
        let (aggregate, from) = (replay.aggregate.clone(), replay.from);
        let outcome = replay.scan.outcome();
        if outcome.reason == End::Unreadable {
            let reason =
                "its journal could be read in part only: what was written last may be missing";
            return self.end_early(id, 0, reason.to_owned());
        }
        if aggregate.is_halted() {
            replay.info.records = outcome.records;
            replay.info.next_sequence = outcome.end.sequence;
            return self.let_in(id);
        }
        if replay.last.is_none() {
            replay.info.records = outcome.records;
            replay.info.next_sequence = outcome.end.sequence;
            // Another drive of the journal may have traces that the one that was read has not.
            let has_copies = aggregate.media.has_groups();
            let is_cut = aggregate.has_cut_change || aggregate.commits_first;
            let commits = outcome.has_traces() || is_cut || has_copies;
            let at = Position {
                // Records of this generation cannot be left from an earlier life.
                generation: from.generation + if commits { 2 } else { 0 },
                sequence: outcome.end.sequence,
            };
            let last = match commits {
                true if aggregate.has_cut_change => aggregate.beyond_cut_change(),
                true => aggregate.joining(),
                false => aggregate.committed(),
            };
            replay.last = Some(last);
            let life = self.outside.random();
            aggregate
                .log
                .as_ref()
                .expect("it was replayed")
                .begin_life(life, at);
            self.homes
                .get_mut(&aggregate.id)
                .expect("replayed at home")
                .replaying = None;
        }
        let replay = self.replay(id);
        let last = replay.last.expect("set above");
        if aggregate.committed() < last {
            aggregate.want_cp(last);
            self.waiting.entry(aggregate.id).or_default().push(id);
            self.wake_home(aggregate.id);
            return true;
        }
        self.let_in(id)
    }

    /// Ends a replay that cannot be completed: clients may read the effects of the repeated
    /// operations. The last `undone` of the operations that were found are not among these, nor any
    /// later ones.
    fn end_early(&mut self, id: usize, undone: u64, reason: String) -> bool {
        let replay = self.replay(id);
        let outcome = replay.scan.outcome();
        replay.info.records = outcome.records;
        replay.info.next_sequence = outcome.end.sequence.saturating_sub(undone);
        let aggregate = replay.aggregate.id;
        self.halt_aggregate(aggregate, reason);
        self.let_in(id)
    }

    /// The replay is over; clients are let in. False, because nothing is left of it.
    fn let_in(&mut self, id: usize) -> bool {
        let now = self.outside.now();
        let replay = self.replay(id);
        let (aggregate, mut info) = (replay.aggregate.clone(), replay.info);
        info.nanos = now.saturating_sub(replay.begun);
        aggregate.set_recovery(info);
        self.operations.remove(id);
        self.go_online(&aggregate);
        false
    }
}
