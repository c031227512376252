//! Clients and administrators: actions go to the system, replies to the model and the digest.
//!
//! Life of an action: drawn from the source → held back while its blocks are being changed → begun
//! in the model, submitted on some reactor → its completion ends it in the model. Replies of a
//! world after its cut are ignored: no client received them.

use std::collections::BTreeMap;

use everglade_env::{BLOCK_SIZE, Nanos};
use everglade_target::{Error, LunHandle, Op, Reply, WriteSpan};

use super::{Failure, Growth, Mirrored, Report};
use crate::Rng;
use crate::engine::{BUSY, REFUSED};
use crate::model::{LunId, Model, OpEnd, OpId, ReadId};
use crate::system::{Admin, AdminDone, System};
use crate::workload::{Action, contents};
use crate::world::{End, SimWorld, Turn};

const BLOCK: u64 = BLOCK_SIZE as u64;

/// Turns after which a run that does not end is declared stuck. A turn is at least 200 ns.
const TURNS_MAX: u64 = 20_000_000;

/// When [`Error::Io`] is an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errors {
    /// Never: the devices are good.
    Never,
    /// Devices fail loudly. The first error ends the life: the server needs a restart.
    End,
    /// Errors only where the model knows of damage.
    Marked,
    /// Errors anywhere, since any block may be damaged silently; the life continues until the
    /// system fails.
    Anywhere,
}

/// The behaviour of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manners {
    /// Most operations under way on one reactor.
    pub depth: usize,
    /// Discards may do nothing: the pool may be full (docs/design/design.md §8).
    pub discards_may_skip: bool,
    /// Discards may be refused for lack of space.
    pub discards_may_be_refused: bool,
    /// Every change is durable when it is acknowledged.
    pub changes_are_durable: bool,
    /// Errors of devices that are allowed.
    pub errors: Errors,
}

impl Manners {
    /// One operation at a time, on good devices with room.
    pub const STRICT: Manners = Manners {
        depth: 1,
        discards_may_skip: false,
        discards_may_be_refused: false,
        changes_are_durable: false,
        errors: Errors::Never,
    };
}

/// The request of a token.
enum Pending {
    Read(ReadId),
    Change(OpId),
    Admin(OpId, Admin),
    /// A growth of the pool, and whether another one was under way when it was asked for.
    Growth(OpId, bool),
    /// The replacement of a drive.
    Replacement(OpId),
}

/// Drives one life of a system, from mount to power cut or end.
pub struct Driver<'a, S> {
    world: &'a SimWorld,
    system: S,
    model: &'a mut Model,
    manners: Manners,
    rng: Rng,
    handles: BTreeMap<(usize, String), LunHandle>,
    pending: BTreeMap<u64, Pending>,
    /// Operations under way per reactor.
    load: Vec<usize>,
    /// Tokens of administrators' requests under way; LUNs are opened only while there are none.
    next_token: u64,
    /// Drawn, and waiting for the blocks it changes.
    held: Option<Action>,
    /// Time before which no new actions begin.
    quiet_until: Nanos,
    /// The first thing that went wrong.
    failure: Option<Failure>,
    /// True after a request failed with [`Error::Io`]: the server needs a restart.
    pub poisoned: bool,
    /// The work done.
    pub report: Report,
}

impl<'a, S: System> Driver<'a, S> {
    /// A driver of a system that has just been mounted.
    pub fn new(
        world: &'a SimWorld,
        system: S,
        model: &'a mut Model,
        manners: Manners,
        seed: u64,
    ) -> Self {
        Driver {
            world,
            system,
            model,
            manners,
            rng: Rng::for_part(seed, "driver"),
            handles: BTreeMap::new(),
            pending: BTreeMap::new(),
            load: vec![0; world.reactors()],
            next_token: 1,
            held: None,
            quiet_until: 0,
            failure: None,
            poisoned: false,
            report: Report::default(),
        }
    }

    /// Returns the model.
    #[must_use]
    pub fn model(&self) -> &Model {
        self.model
    }

    /// Returns the system, for checks between actions.
    pub fn system(&mut self) -> &mut S {
        &mut self.system
    }

    /// The system, when its clients are gone.
    #[must_use]
    pub fn into_system(self) -> S {
        self.system
    }

    /// Carries out what `source` gives until it is empty and everything is answered, or the power
    /// fails.
    ///
    /// # Errors
    /// A promise was broken, or something is never answered.
    pub fn run(
        &mut self,
        source: &mut dyn FnMut(&Model) -> Option<Action>,
    ) -> Result<End, Failure> {
        let world = self.world.clone();
        let mut source_empty = false;
        let end = world.run(TURNS_MAX, &mut |reactor| {
            self.turn(reactor, source, &mut source_empty)
        });
        let failure = self.failure.take().or_else(|| match end {
            End::Quiet => Some(self.stuck("nothing will ever happen again")),
            End::Exhausted => Some(self.stuck("it goes on without getting anywhere")),
            End::Stopped | End::Cut => None,
        });
        self.report.writes = world.writes();
        match failure {
            Some(failure) => Err(failure),
            None => Ok(end),
        }
    }

    /// An orderly end: everything acknowledged is durable afterwards. True if the system has such a
    /// thing.
    ///
    /// # Errors
    /// The stop never ends.
    pub fn stop(&mut self) -> Result<bool, Failure> {
        let op = self.model.begin_cp(0);
        let world = self.world.clone();
        let can_stop = self.system.request_stop();
        (0..world.reactors()).for_each(|reactor| world.wake(reactor));
        let end = world.run(TURNS_MAX, &mut |reactor| {
            let said = self.system.turn(reactor);
            if self.system.is_stopped() {
                Turn::Stop
            } else {
                said
            }
        });
        self.model.set_writes(world.writes());
        if end != End::Stopped {
            return Err(self.stuck("it does not stop"));
        }
        let outcome = if can_stop { OpEnd::DONE } else { OpEnd::Failed };
        self.model.end(op, outcome);
        Ok(can_stop)
    }

    /// Checks a system that has become read-only, as clients that connect again find it: all
    /// acknowledged data is readable, a flush succeeds only if the data is durable, a write is
    /// refused, and nothing reaches the devices. With `errors` other than [`Errors::Never`] blocks
    /// may be unreadable, but no read may return wrong data.
    ///
    /// # Errors
    /// A promise was broken, or something is never answered.
    pub fn read_out(&mut self, errors: Errors) -> Result<(), Failure> {
        if self.system.read_only().is_none() || self.world.is_cut() {
            return Ok(());
        }
        let closed: Vec<_> = std::mem::take(&mut self.handles).into_iter().collect();
        for ((reactor, _), handle) in closed {
            self.system.target(reactor).close(handle);
        }
        let exports = self.system.target(0).exports();
        if let Some(export) = exports.iter().find(|export| !export.read_only) {
            let what = format!("{} is offered for writing, and is read-only", export.name);
            return Err(Failure::new(what));
        }
        let known = exports
            .iter()
            .filter(|it| self.model.lun(&it.name).is_some());
        let known: Vec<(String, u64)> = known.map(|it| (it.name.clone(), it.size_bytes)).collect();
        let mut reads = Vec::new();
        for (name, size) in &known {
            let mut blocks = self.model.blocks_ever(name);
            blocks.extend([0, (size / BLOCK).saturating_sub(1)]);
            blocks.retain(|block| (block + 1) * BLOCK <= *size);
            blocks.sort_unstable();
            blocks.dedup();
            reads.extend(blocks.into_iter().map(|block| Action::Read {
                lun: name.clone(),
                offset: block * BLOCK,
                length: BLOCK,
            }));
        }
        let before = self.world.writes();
        self.held = None;
        self.manners.errors = errors;
        self.poisoned = false;
        let mut reads = reads.into_iter();
        self.run(&mut |_| reads.next())?;
        let Some((name, _)) = known.first() else {
            return Ok(());
        };
        self.manners.errors = Errors::Anywhere;
        self.poisoned = false;
        let mut flush = Some(Action::Flush { lun: name.clone() });
        self.run(&mut |_| flush.take())?;
        self.poisoned = false;
        let refused = self.report.errors;
        let mut write = Some(Action::Write {
            lun: name.clone(),
            offset: 0,
            length: BLOCK,
            fill: self.rng.draw(),
            durable: false,
        });
        self.run(&mut |_| write.take())?;
        if self.report.errors == refused {
            return Err(Failure::new(format!(
                "{name} is read-only, and took a write"
            )));
        }
        if self.world.writes() != before {
            return Err(Failure::new("what is read-only wrote to a device"));
        }
        self.report.read_out += 1;
        Ok(())
    }

    fn stuck(&self, how: &str) -> Failure {
        let waiting: Vec<String> = self
            .pending
            .iter()
            .take(8)
            .map(|(token, pending)| {
                let what = match pending {
                    Pending::Read(_) => "a read".to_owned(),
                    Pending::Change(op) => self.model.describe(*op).to_string(),
                    Pending::Admin(_, admin) => format!("{admin:?}"),
                    Pending::Growth(..) => "a growth of the pool".to_owned(),
                    Pending::Replacement(_) => "the replacement of a drive".to_owned(),
                };
                format!("token {token:#x}: {what}")
            })
            .collect();
        Failure::new(format!(
            "stuck: {how}; {} unanswered: {waiting:#?}",
            self.pending.len()
        ))
    }

    fn turn(
        &mut self,
        reactor: usize,
        source: &mut dyn FnMut(&Model) -> Option<Action>,
        source_empty: &mut bool,
    ) -> Turn {
        self.model.set_writes(self.world.writes());
        // Anything that closes the session ends the life: no new work after the first I/O error.
        *source_empty |= self.poisoned;
        let mut waiting = !*source_empty;
        while !*source_empty && self.load[reactor] < self.manners.depth {
            if self.world.now() < self.quiet_until {
                break;
            }
            let Some(action) = self.held.take().or_else(|| source(self.model)) else {
                *source_empty = true;
                waiting = false;
                break;
            };
            if self.must_wait(&action) {
                self.held = Some(action);
                break;
            }
            self.begin(reactor, action);
            if self.world.is_cut() || self.failure.is_some() || self.rng.one_in(4) {
                break;
            }
        }
        let said = self.system.turn(reactor);
        if self.world.is_cut() {
            return Turn::Stop;
        }
        self.model.set_writes(self.world.writes());
        self.collect(reactor);
        if self.failure.is_some() || *source_empty && self.pending.is_empty() {
            return Turn::Stop;
        }
        let room = self.load[reactor] < self.manners.depth;
        match said {
            Turn::Idle { until } if waiting && room && self.held.is_none() => {
                let next = self.quiet_until.max(self.world.now() + 1);
                Turn::Idle {
                    until: Some(until.map_or(next, |until| until.min(next))),
                }
            }
            said => said,
        }
    }

    /// True while the action would change what another one is changing.
    fn must_wait(&self, action: &Action) -> bool {
        let busy = |lun: &String, offset: u64, length: u64| {
            self.model
                .lun(lun)
                .is_some_and(|lun| self.model.is_busy(lun, offset, length))
        };
        let admin_under_way = || {
            self.pending
                .values()
                .any(|pending| matches!(pending, Pending::Admin(..)))
        };
        match action {
            Action::Write {
                lun,
                offset,
                length,
                ..
            }
            | Action::Discard {
                lun,
                offset,
                length,
                ..
            }
            | Action::WriteZeroes {
                lun,
                offset,
                length,
                ..
            } => busy(lun, *offset, *length),
            Action::Admin(Admin::ShrinkLun { name, size_bytes }) => {
                // A read that is answered as beyond the end came too late.
                let reads = |lun| self.model.is_read(lun);
                let tail = u64::MAX - size_bytes;
                admin_under_way()
                    || self.model.lun(name).is_some_and(reads)
                    || busy(name, *size_bytes, tail)
            }
            // Requests about names are made one at a time, so that the model knows the existing
            // names.
            Action::Admin(
                Admin::ConsistencyPoint
                | Admin::StartScrub
                | Admin::GrowPool(_)
                | Admin::ReplaceDrive(_),
            ) => false,
            Action::Admin(_) => admin_under_way(),
            _ => false,
        }
    }

    /// Returns the LUN of this name and a handle on it, if the LUN exists and is not being created
    /// or deleted.
    fn open(&mut self, reactor: usize, name: &str) -> Option<(LunId, LunHandle)> {
        let lun = self.model.lun(name)?;
        let changing = self.pending.values().any(|pending| match pending {
            Pending::Admin(_, Admin::CreateLun { name: other, .. }) => other == name,
            _ => false,
        });
        if changing {
            return None;
        }
        let key = (reactor, name.to_owned());
        if let Some(&handle) = self.handles.get(&key) {
            let target = self.system.target(reactor);
            if target.size_bytes(handle).is_some() {
                return Some((lun, handle));
            }
            // The handle was of another LUN of this name, or the aggregate has failed.
            target.close(handle);
            self.handles.remove(&key);
        }
        match self.system.target(reactor).open(name) {
            Ok((handle, export)) => {
                // The LUN may be growing, or shrinking, just now.
                let is_shrinking = self.pending.values().any(|pending| {
                    matches!(pending, Pending::Admin(_, Admin::ShrinkLun { name: other, .. })
                        if other == name)
                });
                let is_settled = !is_shrinking && self.system.read_only().is_none();
                if export.size_bytes > self.model.size_bytes(lun) && is_settled {
                    self.fail(format!("{name} has {} bytes, too many", export.size_bytes));
                }
                self.handles.insert(key, handle);
                Some((lun, handle))
            }
            Err(Error::Io(_)) if matches!(self.manners.errors, Errors::End | Errors::Anywhere) => {
                self.poisoned = true;
                None
            }
            Err(error) => {
                self.fail(format!("{name} cannot be opened: {error}"));
                None
            }
        }
    }

    fn fail(&mut self, what: String) {
        self.failure.get_or_insert_with(|| Failure::new(what));
    }

    fn begin(&mut self, reactor: usize, action: Action) {
        self.world
            .trace_line(|| format!("client on reactor {reactor}: {action:?}"));
        self.model.set_writes(self.world.writes());
        let token = self.next_token;
        self.next_token += 1;
        let lun = match &action {
            Action::Read { lun, .. }
            | Action::Write { lun, .. }
            | Action::Discard { lun, .. }
            | Action::WriteZeroes { lun, .. }
            | Action::Flush { lun } => Some(lun.clone()),
            Action::Admin(_) | Action::Pause(_) => None,
        };
        let Some(name) = lun else {
            return match action {
                Action::Admin(request) => self.begin_admin(reactor, request, token),
                Action::Pause(nanos) => self.quiet_until = self.world.now() + nanos,
                _ => unreachable!("all others name a LUN"),
            };
        };
        let Some((lun, handle)) = self.open(reactor, &name) else {
            return;
        };
        let size = self.size_now(reactor, handle);
        let always = self.manners.changes_are_durable;
        let inside = |offset: u64, length: u64| offset + length <= size;
        let (pending, op) = match action {
            Action::Read { offset, length, .. } if inside(offset, length) => {
                let read = self.model.begin_read(lun, offset, length);
                (
                    Pending::Read(read),
                    Op::Read {
                        offset,
                        length: length_of(length),
                    },
                )
            }
            Action::Write {
                offset,
                length,
                fill,
                durable,
                ..
            } if inside(offset, length) => {
                let bytes = contents(fill, length);
                let op = self
                    .model
                    .begin_write(lun, offset, &bytes, durable || always);
                let data = WriteSpan::copy_of(offset, &bytes);
                (Pending::Change(op), Op::Write { data, durable })
            }
            Action::Discard {
                offset,
                length,
                durable,
                ..
            } if inside(offset, length) => {
                let maybe = self.manners.discards_may_skip;
                let op = self
                    .model
                    .begin_discard(lun, offset, length, durable || always, maybe);
                (
                    Pending::Change(op),
                    Op::Discard {
                        offset,
                        length,
                        durable,
                    },
                )
            }
            Action::WriteZeroes {
                offset,
                length,
                allocate,
                durable,
                ..
            } if inside(offset, length) => {
                let op = self
                    .model
                    .begin_zeroes(lun, offset, length, durable || always);
                (
                    Pending::Change(op),
                    Op::WriteZeroes {
                        offset,
                        length,
                        allocate,
                        durable,
                    },
                )
            }
            Action::Flush { .. } => (Pending::Change(self.model.begin_flush(0)), Op::Flush),
            // A range of a LUN that has yet to grow.
            _ => return,
        };
        self.pending.insert(token, pending);
        self.load[reactor] += 1;
        self.report.actions += 1;
        self.system.target(reactor).submit(handle, op, token);
    }

    fn size_now(&mut self, reactor: usize, handle: LunHandle) -> u64 {
        self.system.target(reactor).size_bytes(handle).unwrap_or(0)
    }

    fn begin_admin(&mut self, reactor: usize, request: Admin, token: u64) {
        let op = match &request {
            // A name is used once at a time.
            Admin::CreateVolume { name } if self.model.volume(name).is_some() => None,
            Admin::CreateLun { name, .. } if self.model.lun(name).is_some() => None,
            Admin::CreateVolume { name } => Some(self.model.begin_create_volume(name, 0).0),
            Admin::DeleteVolume { name } => self
                .model
                .volume(name)
                .map(|volume| self.model.begin_delete_volume(volume)),
            Admin::CreateLun { name, size_bytes } => {
                let volume = name
                    .split('/')
                    .next()
                    .and_then(|volume| self.model.volume(volume));
                volume.map(|volume| self.model.begin_create_lun(volume, name, *size_bytes).0)
            }
            Admin::DeleteLun { name } => self
                .model
                .lun(name)
                .map(|lun| self.model.begin_delete_lun(lun)),
            Admin::GrowLun { name, size_bytes } => {
                let lun = self.model.lun(name);
                let lun = lun.filter(|&lun| self.model.size_bytes(lun) < *size_bytes);
                lun.map(|lun| self.model.begin_grow(lun, *size_bytes))
            }
            Admin::ShrinkLun { name, size_bytes } => {
                let lun = self.model.lun(name);
                let lun = lun.filter(|&lun| self.model.size_bytes(lun) > *size_bytes);
                lun.map(|lun| self.model.begin_shrink(lun, *size_bytes))
            }
            // A change of the devices is committed by a consistency point.
            Admin::ConsistencyPoint
            | Admin::StartScrub
            | Admin::GrowPool(_)
            | Admin::ReplaceDrive(_) => Some(self.model.begin_cp(0)),
        };
        // An object that an earlier request failed to create cannot be used.
        let Some(op) = op else { return };
        let mut pending = self.pending.values();
        let is_beside =
            pending.any(|it| matches!(it, Pending::Growth(..))) || self.system.growth_may_wait();
        let pending = match &request {
            Admin::GrowPool(_) => Pending::Growth(op, is_beside),
            Admin::ReplaceDrive(_) => Pending::Replacement(op),
            _ => Pending::Admin(op, request.clone()),
        };
        self.pending.insert(token, pending);
        self.load[reactor] += 1;
        self.report.actions += 1;
        self.system.administer(reactor, request, token);
    }

    fn collect(&mut self, reactor: usize) {
        let mut done = Vec::new();
        self.system.target(reactor).poll(&mut done);
        let mut requests = Vec::new();
        self.system.poll_admin(reactor, &mut requests);
        let any = !done.is_empty() || !requests.is_empty();
        for completion in done {
            let Some(pending) = self.take(reactor, completion.token) else {
                continue;
            };
            self.record(completion.token, &completion.result);
            match (pending, completion.result) {
                (Pending::Read(read), Ok(Reply::Data(span))) => {
                    let verdict = self.model.end_read(read, &span.to_vec());
                    if let Err(violation) = verdict {
                        self.fail(violation.to_string());
                    }
                }
                (Pending::Read(read), Err(error)) => {
                    let marked = self.model.read_may_fail(read);
                    self.model.abandon_read(read);
                    let _ = self.outcome_of(&error, marked);
                }
                (Pending::Read(read), Ok(Reply::Done | Reply::Extents(_))) => {
                    self.model.abandon_read(read);
                    self.fail("a read was answered without data".to_owned());
                }
                (Pending::Change(op), Ok(_)) => {
                    let cp = self.system.cp_of(reactor, completion.token);
                    self.model.end(op, OpEnd::Done { cp });
                }
                (Pending::Change(op), Err(error)) => {
                    let outcome = self.outcome_of(&error, self.model.may_fail(op));
                    let refused_discard = outcome == OpEnd::Refused && self.model.is_discard(op);
                    if refused_discard && !self.manners.discards_may_be_refused {
                        self.fail(format!("refused: {}", self.model.describe(op)));
                    }
                    self.model.end(op, outcome);
                }
                (Pending::Admin(..) | Pending::Growth(..) | Pending::Replacement(_), _) => {
                    self.fail("a session was answered what an administrator asked".to_owned());
                }
            }
        }
        for AdminDone { token, result } in requests {
            let Some(pending) = self.take(reactor, token) else {
                continue;
            };
            self.world
                .record_reply(token, format!("{result:?}").as_bytes());
            let (op, request) = match pending {
                Pending::Admin(op, request) => (op, request),
                Pending::Growth(op, is_beside) => {
                    self.end_growth(op, is_beside, &result);
                    continue;
                }
                Pending::Replacement(op) => {
                    self.end_replacement(op, &result);
                    continue;
                }
                Pending::Read(_) | Pending::Change(_) => {
                    self.fail("an administrator was answered what a session asked".to_owned());
                    continue;
                }
            };
            let outcome = match &result {
                Ok(()) => OpEnd::DONE,
                Err(error) => self.outcome_of(error, false),
            };
            if outcome == OpEnd::Refused
                && matches!(
                    request,
                    Admin::DeleteLun { .. } | Admin::DeleteVolume { .. } | Admin::ShrinkLun { .. }
                )
            {
                self.fail(format!("{request:?} was refused; deletion always succeeds"));
            }
            self.model.end(op, outcome);
        }
        if any {
            // Actions that were held back may begin now, on any reactor.
            (0..self.world.reactors()).for_each(|reactor| self.world.wake(reactor));
        }
    }

    /// A pool can always grow, also when it is full, unless it is growing, devices leave it, or a
    /// drive catches up.
    fn end_growth(&mut self, op: OpId, is_beside: bool, result: &Result<(), Error>) {
        let outcome = match result {
            Ok(()) => {
                self.report.growths[Growth::Committed] += 1;
                OpEnd::DONE
            }
            Err(Error::Invalid(reason)) if is_beside && *reason == BUSY => {
                self.report.growths[Growth::Busy] += 1;
                OpEnd::Refused
            }
            Err(Error::NoSpace) => {
                self.fail("a growth of the pool was refused for lack of space".to_owned());
                OpEnd::Refused
            }
            Err(error) => self.outcome_of(error, false),
        };
        self.model.end(op, outcome);
    }

    /// A drive may be refused if no other one has everything, if the new one is broken, or if
    /// another one is being replaced.
    fn end_replacement(&mut self, op: OpId, result: &Result<(), Error>) {
        let outcome = match result {
            Ok(()) => {
                self.report.mirrors[Mirrored::Replaced] += 1;
                OpEnd::DONE
            }
            Err(Error::Invalid(reason)) if [BUSY, REFUSED].contains(reason) => {
                self.report.mirrors[Mirrored::NotReplaced] += 1;
                OpEnd::Refused
            }
            Err(error) => self.outcome_of(error, false),
        };
        self.model.end(op, outcome);
    }

    fn take(&mut self, reactor: usize, token: u64) -> Option<Pending> {
        let pending = self.pending.remove(&token);
        match &pending {
            Some(_) => self.load[reactor] -= 1,
            None => self.fail(format!(
                "token {token:#x} was answered twice or never asked"
            )),
        }
        pending
    }

    fn record(&self, token: u64, result: &Result<Reply, Error>) {
        match result {
            Ok(Reply::Data(span)) => self.world.record_reply(token, &span.to_vec()),
            Ok(Reply::Done | Reply::Extents(_)) => self.world.record_reply(token, &[]),
            Err(error) => self.world.record_reply(token, error.to_string().as_bytes()),
        }
        self.world.trace_line(|| match result {
            Ok(_) => format!("client: token {token:#x} done"),
            Err(error) => format!("client: token {token:#x} failed: {error}"),
        });
    }

    /// `marked` says that the model knows of damage that excuses an error.
    fn outcome_of(&mut self, error: &Error, marked: bool) -> OpEnd {
        let is_answer = match self.manners.errors {
            Errors::Never => false,
            Errors::Marked => marked,
            Errors::End | Errors::Anywhere => true,
        };
        match error {
            Error::NoSpace => {
                self.report.refused += 1;
                OpEnd::Refused
            }
            Error::Io(_) if is_answer => {
                self.poisoned |= self.manners.errors == Errors::End
                    || self.system.failure().is_some()
                    || self.system.read_only().is_some();
                self.report.errors += 1;
                OpEnd::Failed
            }
            // It was being deleted.
            Error::Gone | Error::NotFound(_) => OpEnd::Failed,
            Error::Io(_) | Error::Invalid(_) | Error::ReadOnly | Error::Miscompare { .. } => {
                self.fail(format!("a valid request failed: {error}"));
                OpEnd::Failed
            }
        }
    }
}

fn length_of(length: u64) -> u32 {
    u32::try_from(length).expect("an operation is at most 1 MiB")
}
