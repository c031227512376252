//! One reactor's part of the engine: operations under way, their loads, and the consistency points
//! of the aggregates whose home is this reactor (docs/design/design.md §3).
//!
//! ```text
//! submitted ─▶ ready ─▶ inside its affinity ─▶ done
//!                ▲          │ stop
//!                │          ├─ pages ────── loading ──────────┐
//!                │          ├─ commit ───── waiting for progress
//!                │          ├─ affinity ─── queued, granted ──┤
//!                └──────────┴─────────────────────────────────┘
//! ```
//!
//! A read is tried when it is submitted, and becomes an operation only if this attempt does not
//! answer it (`read.rs`).
//!
//! 1. An operation is in exactly one of these places. It holds a permit only while it runs.
//! 2. One turn does a bounded amount of work ([`TURN_OPERATIONS`]); the rest waits for the next
//!    turn.
//! 3. A completion returns the memory that was handed to a device; no operation in flight is
//!    dropped.

mod ahead;
mod hangs;
mod held;
mod home;
mod host;
mod leaving;
mod loading;
mod logging;
mod meter;
mod operation;
mod prefetch;
mod read;
mod reconstruction;
mod replay;
mod requests;
mod scrubbing;
mod sharing;
mod target;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use everglade_affinity::{Granted, Permit};
use everglade_env::{Completion, Nanos, Outside};
use everglade_target as contract;
use slab::Slab;

use crate::change;
use crate::home::aggregate::Home;
use crate::mount::mounting::Mounting;
use crate::ops::{Client, Durability};
use crate::pool::cpu::{Meter, Subsystem};
use crate::pool::limit::Applied;
use crate::pool::volume::Lun;
use crate::reactor::ahead::{Ahead, Stream};
use crate::reactor::hangs::{Flight, Hangs};
use crate::reactor::held::Held;
use crate::reactor::loading::{ColumnOp, LoadKey, Waiters};
use crate::reactor::logging::LeadGroup;
use crate::reactor::reconstruction::{ReconstructedRun, Reconstruction};
use crate::reactor::replay::Replay;
use crate::reactor::sharing::Sharing;
use crate::read::load::{BySpread, Pinned};
use crate::read::shortcuts::Shortcuts;
use crate::shared::{Engine, Message, Options, Shared};

/// Operations run in one turn.
const TURN_OPERATIONS: usize = 128;

/// The end of an administrative change.
#[derive(Debug)]
pub struct AdminDone {
    /// Given with the change.
    pub token: u64,
    /// The result of the change. A success is durable.
    pub result: Result<(), change::Error>,
    /// When it was executed, which for a snapshot is when it was taken (F-05). Nothing if it was
    /// not, or if the aggregate was only to become durable.
    pub executed: Option<Nanos>,
}

/// Place of a change in the order of changes, which decides about its survival in a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The operation.
    pub token: u64,
    /// The last consistency point it joined.
    pub cp: u64,
    /// The last sequence number it took in the journal, if there is one.
    pub sequence: Option<u64>,
}

/// The work of an operation.
enum Work {
    Client(Box<Client>),
    /// Drives the consistency points of an aggregate, for ever.
    ConsistencyPoint(u32),
    Mount(Box<Mounting>),
    /// Puts a fragment over its block, in the background.
    Merge(Arc<Lun>, u64),
    /// Replays the journal.
    Replay(Box<Replay>),
    /// Loads what a client will read next.
    Ahead(Box<Ahead>),
    /// Waits until something is durable; then answers.
    Durable(Waiter),
}

/// A waiter for durability.
struct Waiter {
    aggregate: u32,
    durability: Durability,
    answer: Answer,
}

enum Answer {
    Client(u64),
    Admin(u64),
}

/// A LUN that a session of this reactor has open.
struct OpenLun {
    lun: Arc<Lun>,
    /// The client's read stream.
    stream: Stream,
    /// True if the client was told that the LUN is read-only, so it stays open when the aggregate
    /// becomes read-only.
    is_read_only: bool,
    /// What limits it, as of a change of limits.
    limits: Applied,
    limits_seen: u64,
}

/// Fragments that one reactor merges at once: enough to keep any device busy, and a small part of
/// the memory.
fn merges_max(options: &Options) -> u64 {
    let share = options.memory_bytes / 128 / options.reactors as u64;
    (share / everglade_env::BLOCK_SIZE as u64).max(64)
}

struct Operation {
    work: Work,
    pinned: Pinned,
    /// Pages it waits for.
    loads: usize,
    queued: bool,
}

/// One reactor's engine. See the module's documentation.
pub struct Core<O: Outside> {
    shared: Arc<Shared>,
    index: usize,
    outside: O,
    operations: Slab<Operation>,
    ready: VecDeque<usize>,
    /// Operations that used up their slice of a turn: ready from the next turn on.
    next_turn: Vec<usize>,
    granted: VecDeque<(usize, Permit)>,
    inflight: Slab<Flight>,
    hangs: Hangs,
    /// Operations on all drives of a column.
    columns: Slab<ColumnOp>,
    reconstructions: Slab<Reconstruction>,
    reconstructed_runs: Slab<ReconstructedRun>,
    loading: HashMap<LoadKey, Waiters, BySpread>,
    /// Operations that wait for progress of an aggregate.
    waiting: BTreeMap<u32, Vec<usize>>,
    /// Operations that wait for the journal of an aggregate, by the awaited sequence.
    logging: BTreeMap<u32, BTreeSet<(u64, usize)>>,
    /// Groups of journals that this reactor leads.
    groups: BTreeMap<u32, LeadGroup>,
    homes: BTreeMap<u32, Home>,
    /// The operation that drives each home's consistency points.
    drivers: BTreeMap<u32, usize>,
    /// Deleted aggregates whose homes are still here.
    leaving: BTreeSet<u32>,
    /// Aggregates whose scrubs rest.
    resting: BTreeSet<u32>,
    /// Open LUNs by handle.
    luns: HashMap<u64, OpenLun, BySpread>,
    /// Operations that begin later.
    held: Held,
    sharing: Sharing,
    shortcuts: Shortcuts,
    /// Number of blocks being read ahead.
    ahead_blocks: u64,
    /// Fragments being merged, and their limit: each takes a block that no other limit counts.
    merges: u64,
    merges_max: u64,
    done: Vec<contract::Completion>,
    admin_done: Vec<AdminDone>,
    /// For tests: where each finished change is in the order of things.
    joined: Option<Vec<Joined>>,
    completions: Vec<Completion>,
    meter: Meter,
}

impl<O: Outside> Core<O> {
    /// The part of `engine` that runs on reactor `index`.
    pub fn new(engine: &Engine, index: usize, outside: O) -> Self {
        assert!(
            index < engine.0.options.reactors,
            "reactor {index} of {}",
            engine.0.options.reactors
        );
        Core {
            shared: engine.0.clone(),
            index,
            outside,
            operations: Slab::new(),
            ready: VecDeque::new(),
            next_turn: Vec::new(),
            granted: VecDeque::new(),
            inflight: Slab::new(),
            hangs: Hangs::default(),
            columns: Slab::new(),
            reconstructions: Slab::new(),
            reconstructed_runs: Slab::new(),
            loading: HashMap::default(),
            waiting: BTreeMap::new(),
            logging: BTreeMap::new(),
            groups: BTreeMap::new(),
            homes: BTreeMap::new(),
            drivers: BTreeMap::new(),
            leaving: BTreeSet::new(),
            resting: BTreeSet::new(),
            luns: HashMap::default(),
            held: Held::default(),
            sharing: Sharing::default(),
            shortcuts: Shortcuts::new(engine.0.options.memory_bytes, engine.0.options.reactors),
            ahead_blocks: 0,
            merges: 0,
            merges_max: merges_max(&engine.0.options),
            done: Vec::new(),
            admin_done: Vec::new(),
            joined: None,
            completions: Vec::new(),
            meter: Meter::new(),
        }
    }

    /// The outside, for the reactor's loop to wait with.
    pub fn outside(&mut self) -> &mut O {
        &mut self.outside
    }

    /// Remembers where each change is in the order of things, for [`Core::take_joined`].
    pub fn trace_joined(&mut self) {
        self.joined = Some(Vec::new());
    }

    /// Finished changes, since the last call.
    pub fn take_joined(&mut self) -> Vec<Joined> {
        self.joined.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Runs a bounded amount of ready work. Returns true if more work is ready.
    pub fn turn(&mut self) -> bool {
        self.enter(Subsystem::Client);
        // Before any operation that may use up its slice in this turn.
        self.ready.extend(self.next_turn.drain(..));
        let mut completions = std::mem::take(&mut self.completions);
        self.outside.poll(&mut completions);
        for completion in completions.drain(..) {
            self.complete(completion);
        }
        self.completions = completions;
        self.look_for_hangs();
        self.read_mail();
        // Granted operations hold their affinities already.
        self.run_granted();
        self.release_held();
        self.wake_homes();
        for _ in 0..TURN_OPERATIONS {
            let Some(id) = self.ready.pop_front() else {
                break;
            };
            self.enter_for(id);
            self.run(id, None);
            self.run_granted();
        }
        if !self.leaving.is_empty() {
            self.let_go();
        }
        self.is_busy()
    }

    fn run_granted(&mut self) {
        while let Some((id, permit)) = self.granted.pop_front() {
            self.enter_for(id);
            self.run(id, Some(permit));
        }
    }

    /// True if [`Core::turn`] or [`Core::poll_admin`] has something to do now. Submitting and
    /// asking may make it so.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        !self.ready.is_empty()
            || !self.next_turn.is_empty()
            || !self.admin_done.is_empty()
            || !self.mail_is_empty()
    }

    /// When [`Core::turn`] must be called although nothing happened; `None`: never.
    #[must_use]
    pub fn deadline(&self) -> Option<Nanos> {
        let homes = self.homes.values();
        let begins = homes.filter_map(|home| self.next_begin(home));
        let resting = self.resting.iter().filter_map(|id| self.homes.get(id));
        let scrubs = resting.filter_map(|home| home.scrub.rests_until());
        let held = self.held.next();
        let looks = self.next_look();
        begins
            .map(|(at, _)| at)
            .chain(scrubs)
            .chain(held)
            .chain(looks)
            .min()
    }

    /// Starts an administrative change of the aggregate that holds (or, for a new volume, is to
    /// hold) it. One [`AdminDone`] follows. On the aggregate's home reactor no other
    /// reactor has a part in it.
    pub fn change(&mut self, aggregate: u32, change: change::Change, token: u64) {
        let known = self.shared.all();
        let Some(found) = known.get(aggregate as usize) else {
            let result = Err(change::Error::NotFound(format!("aggregate {aggregate}")));
            self.admin_done.push(AdminDone {
                token,
                result,
                executed: None,
            });
            return;
        };
        let request = change::Request {
            change,
            reactor: self.index,
            token,
        };
        // Posted even to this reactor: a turn checks the needs of a change, such as space of the
        // host.
        self.post(found.home, Message::Change(aggregate, request));
    }

    /// The aggregate that holds a volume.
    #[must_use]
    pub fn aggregate_of(&self, volume: &str) -> Option<u32> {
        self.shared.volume_names.lock().get(volume).copied()
    }

    /// Makes everything done so far in an aggregate durable. One [`AdminDone`] follows.
    pub fn consistency_point(&mut self, aggregate: u32, token: u64) {
        let cp = self.shared.aggregate(aggregate).covering();
        let waiter = Waiter {
            aggregate,
            durability: Durability::by_commit(cp),
            answer: Answer::Admin(token),
        };
        let id = self.add(Work::Durable(waiter));
        self.enqueue(id);
    }

    /// Appends finished changes.
    pub fn poll_admin(&mut self, done: &mut Vec<AdminDone>) {
        done.append(&mut self.admin_done);
    }

    /// Operations under way for clients of this reactor, and device operations in flight. Nobody
    /// waits for reading ahead.
    #[must_use]
    pub fn under_way(&self) -> (usize, usize) {
        let is_ahead = |one: &Operation| matches!(one.work, Work::Ahead(_));
        let ahead = self.operations.iter().filter(|(_, one)| is_ahead(one));
        (
            self.operations.len() - self.drivers.len() - ahead.count(),
            self.awaited(),
        )
    }

    fn add(&mut self, work: Work) -> usize {
        self.operations.insert(Operation {
            work,
            pinned: Pinned::default(),
            loads: 0,
            queued: false,
        })
    }

    fn enqueue(&mut self, id: usize) {
        let operation = &mut self.operations[id];
        if !operation.queued && operation.loads == 0 {
            operation.queued = true;
            self.ready.push_back(id);
        }
    }

    /// Queues an operation that has used up its slice: it continues after the clients of this
    /// reactor had their turn.
    fn enqueue_for_next_turn(&mut self, id: usize) {
        let operation = &mut self.operations[id];
        if !operation.queued && operation.loads == 0 {
            operation.queued = true;
            self.next_turn.push(id);
        }
    }

    fn post(&mut self, reactor: usize, message: Message) {
        self.shared.post(reactor, message);
        if reactor != self.index {
            self.outside.wake(reactor);
        }
    }

    fn mail_is_empty(&self) -> bool {
        self.shared.mailboxes[self.index].lock().is_empty()
    }

    fn read_mail(&mut self) {
        loop {
            let mut mailbox = self.shared.mailboxes[self.index].lock();
            let Some(message) = mailbox.pop_front() else {
                return;
            };
            drop(mailbox);
            match message {
                Message::Granted(id, permit) => self.granted.push_back((slab_index(id), permit)),
                Message::Stranded(id) => self.enqueue(slab_index(id)),
                Message::Logged(aggregate) => self.wake_logged(aggregate),
                Message::Progress(aggregate) => {
                    self.end_held_group(aggregate);
                    self.wake_waiting(aggregate);
                    self.wake_all_logging(aggregate);
                    self.admit_requests(aggregate);
                    self.end_requests(aggregate);
                }
                Message::Mount(mounting) => self.begin_mount(mounting),
                Message::Forget(aggregate) => _ = self.leaving.insert(aggregate),
                Message::Change(aggregate, request) => self.accept_change(aggregate, request),
                Message::Turn(aggregate, lane, turn) => self.begin_turn((aggregate, lane, turn)),
                Message::Changed(token, result) => self.end_change(token, result),
            }
        }
    }

    /// A change of this reactor was made or refused.
    fn end_change(&mut self, token: u64, result: Result<Nanos, change::Error>) {
        self.admin_done.push(AdminDone {
            token,
            executed: result.as_ref().ok().copied(),
            result: result.map(|_| ()),
        });
    }

    fn wake_waiting(&mut self, aggregate: u32) {
        for id in self.waiting.remove(&aggregate).unwrap_or_default() {
            self.enqueue(id);
        }
    }

    /// Tells every reactor that an aggregate got on.
    fn tell_progress(&mut self, aggregate: u32) {
        for reactor in 0..self.shared.mailboxes.len() {
            self.post(reactor, Message::Progress(aggregate));
        }
    }

    /// Posts what a leaver handed over.
    fn hand_over(&mut self, granted: Vec<Granted<u64>>) {
        for grant in granted {
            if grant.reactor == self.index {
                self.granted
                    .push_back((slab_index(grant.message), grant.permit));
            } else {
                self.post(grant.reactor, Message::Granted(grant.message, grant.permit));
            }
        }
    }

    /// Makes an aggregate unusable.
    fn fail_aggregate(&mut self, aggregate: u32, reason: String) {
        self.shared.aggregate(aggregate).fail(reason);
        self.tell_progress(aggregate);
    }

    /// Halts an aggregate: no change can be made durable any more, but memory and devices can be
    /// read.
    fn halt_aggregate(&mut self, aggregate: u32, reason: String) {
        self.shared.aggregate(aggregate).halt(reason);
        self.tell_progress(aggregate);
    }
}

/// An operation's place in the slab, from a message.
fn slab_index(id: u64) -> usize {
    usize::try_from(id).expect("messages carry places of the slab")
}
