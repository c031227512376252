//! Clients count in blocks, with compare-and-write: the proof that comparing and writing are one
//! step.
//!
//! A *counter* is a range of bytes whose contents stand for a number. A client remembers a number
//! that the counter had. It submits a *step*: if the counter still has the contents for this
//! number, it gets those for the next one. If the step is refused because the contents differ, the
//! client reads the counter. There are clients on all reactors, and the power fails now and then.
//!
//! 1. *No lost update.* Each step from n to n + 1 succeeds once in a life.
//! 2. *No refusal without a reason.* A client that expects the present number, while nobody else
//!    changes the counter, succeeds.
//! 3. *Nothing torn.* A counter always reads as the contents of one number, and never as one below
//!    a step that ended before, nor above the steps that began.
//! 4. *Durable.* After a power cut a counter is not below a step that was durable: by itself, or by
//!    a flush.

use std::collections::BTreeSet;

use everglade_target::{Completion, Error, LunHandle, Op, Reply, WriteSpan};

use super::cuts::Start;
use super::{Failure, Report};
use crate::system::{Maker, System};
use crate::workload::contents;
use crate::workload::small::{LUN, LUN_BYTES};
use crate::world::{Cut, End, Keep, SimWorld, Turn};
use crate::{Rng, Seed};

/// The pool.
const POOL_BYTES: u64 = 16 << 20;
/// Turns that a life may take.
const TURNS_MAX: u64 = 4_000_000;
/// Clients on each reactor.
const CLIENTS: usize = 3;
/// Most lives of a seed.
const LIVES_MAX: u64 = 6;
/// Most steps that clients try in a life.
const STEPS_MAX: u64 = 300;

/// A range of bytes that stands for a number.
struct Counter {
    offset: u64,
    length: u32,
    /// Sets its contents apart from those of other counters.
    seed: u64,
    /// The highest number that a successful step stored; in a new life, the number found.
    reached: u64,
    /// The highest number that a step which began would store.
    tried: u64,
    /// The number below which it never is after a power cut.
    durable: u64,
    /// Steps under way.
    steps: u32,
    /// The numbers from which steps succeeded in this life. Their ends may be reported in another
    /// order, by different reactors.
    stepped: BTreeSet<u64>,
}

impl Counter {
    /// Returns the contents that stand for a number: zeroes for 0.
    fn contents(&self, number: u64) -> Vec<u8> {
        match number {
            0 => vec![0; self.length as usize],
            _ => {
                let mut bytes = contents(self.seed ^ number, u64::from(self.length));
                // Some contents are like others, or zeroes.
                bytes[..8].copy_from_slice(&number.to_le_bytes());
                bytes
            }
        }
    }

    /// Returns the number that these contents stand for.
    fn number(&self, bytes: &[u8]) -> Option<u64> {
        let number = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
        (number <= self.tried && bytes == self.contents(number)).then_some(number)
    }
}

/// What a client waits for.
enum Waits {
    /// A step of a counter, from this number. `alone` says that it must succeed: the number is
    /// right, and nobody else changed the counter when it began.
    Step {
        counter: usize,
        from: u64,
        durable: bool,
        alone: bool,
    },
    /// A read of a counter that had reached this number when it began.
    Read { counter: usize, least: u64 },
    /// A flush; with the numbers that counters had reached when it began.
    Flush(Vec<u64>),
}

struct Client {
    reactor: usize,
    handle: LunHandle,
    /// The number that it knows of each counter.
    known: Vec<u64>,
    waits: Option<Waits>,
}

/// One life, from a start to a power cut or the last step.
struct Life<'a, S> {
    world: &'a SimWorld,
    system: &'a mut S,
    counters: &'a mut [Counter],
    clients: Vec<Client>,
    rng: &'a mut Rng,
    always: bool,
    steps_left: u64,
    failure: Option<Failure>,
    report: Report,
}

/// Runs the lives of a seed.
///
/// # Errors
/// A promise was broken.
pub fn run<M: Maker>(seed: Seed, maker: &M) -> Result<Report, Failure> {
    let mut rng = Rng::for_part(seed.0, "compared");
    let reactors = [1, 2, 2, 3][rng.index(4)];
    let devices = maker.devices(POOL_BYTES);
    let start = Start::prepare(seed, reactors, &devices, maker, Vec::new())?;
    let mut images = start.into_images();
    let mut counters = counters(&mut rng);
    let always = maker.promises().changes_are_durable;
    let mut report = Report::default();
    for life in 0..rng.between(1, LIVES_MAX) {
        let world = SimWorld::restart(images, Seed(seed.0 ^ life), reactors);
        let mounted = maker.mount(&world);
        let mut system = mounted.map_err(|error| Failure::new(error).within("mount"))?;
        report.recoveries += 1;
        let mut one = Life {
            world: &world,
            system: &mut system,
            counters: &mut counters,
            clients: Vec::new(),
            always,
            steps_left: rng.between(1, STEPS_MAX),
            failure: None,
            report: Report::default(),
            rng: &mut rng,
        };
        let lived = one.look().and_then(|()| one.live());
        report.add(&one.report);
        lived.map_err(|failure| Failure {
            trace: world.take_trace(),
            ..failure.within(format!("life {life}"))
        })?;
        drop(system);
        world.cut_now();
        let keep = match rng.below(3) {
            0 => Keep::Nothing,
            1 => Keep::Everything,
            _ => Keep::Random(rng.draw()),
        };
        images = world.after_cut(Cut::whole(keep));
        report.cuts += 1;
        report.digest.bytes(world.digest().to_string().as_bytes());
        let offline = SimWorld::restart(images.clone(), seed, 1);
        maker
            .check(&offline)
            .map_err(|error| Failure::new(error).within("check"))?;
    }
    Ok(report)
}

/// Draws counters that share blocks and regions, and do not overlap.
fn counters(rng: &mut Rng) -> Vec<Counter> {
    let mut counters = Vec::new();
    let mut at = rng.below(3) * 2048;
    for _ in 0..rng.between(1, 5) {
        let length = [8, 512, 4096, 6000, 16 << 10, 64 << 10][rng.index(6)];
        // Sometimes a counter lies on both sides of a stripe of blocks.
        let seam = LUN_BYTES / 2 - u64::from(length) / 2;
        if rng.one_in(4) && at < seam {
            at = seam;
        }
        if at + u64::from(length) > LUN_BYTES {
            break;
        }
        counters.push(Counter {
            offset: at,
            length,
            seed: rng.draw(),
            reached: 0,
            tried: 0,
            durable: 0,
            steps: 0,
            stepped: BTreeSet::new(),
        });
        at += u64::from(length) + [0, 100, 4096][rng.index(3)];
    }
    counters
}

impl<S: System> Life<'_, S> {
    /// Reads all counters of a system that has just started.
    fn look(&mut self) -> Result<(), Failure> {
        let handle = self.open(0)?;
        for index in 0..self.counters.len() {
            let counter = &self.counters[index];
            let (offset, length) = (counter.offset, counter.length);
            let op = Op::Read { offset, length };
            self.system.target(0).submit(handle, op, 0);
            self.world.wake(0);
            let mut done = Vec::new();
            let end = self.world.run(TURNS_MAX, &mut |reactor| {
                let said = self.system.turn(reactor);
                self.system.target(0).poll(&mut done);
                if done.is_empty() { said } else { Turn::Stop }
            });
            let found = match done.pop().map(|completion| completion.result) {
                Some(Ok(Reply::Data(span))) => counter.number(&span.to_vec()),
                other => {
                    let what = format!("a counter cannot be read: {other:?}, {end:?}");
                    return Err(Failure::new(what));
                }
            };
            let counter = &mut self.counters[index];
            let Some(found) = found.filter(|found| *found >= counter.durable) else {
                return Err(Failure::new(format!(
                    "Durable: the counter at {offset} has {found:?}, and {} was durable",
                    counter.durable
                )));
            };
            // Everything that is seen after a start is durable.
            (counter.reached, counter.tried, counter.durable) = (found, found, found);
            counter.steps = 0;
            counter.stepped.clear();
        }
        self.system.target(0).close(handle);
        Ok(())
    }

    fn open(&mut self, reactor: usize) -> Result<LunHandle, Failure> {
        let opened = self.system.target(reactor).open(LUN);
        let (handle, _) = opened.map_err(|error| Failure::new(format!("{LUN}: {error}")))?;
        Ok(handle)
    }

    fn live(&mut self) -> Result<(), Failure> {
        for reactor in 0..self.world.reactors() {
            let handle = self.open(reactor)?;
            for _ in 0..CLIENTS {
                let known = self.counters.iter().map(|counter| counter.reached);
                self.clients.push(Client {
                    reactor,
                    handle,
                    known: known.collect(),
                    waits: None,
                });
            }
        }
        if self.rng.one_in(2) {
            let writes = self.world.writes() + self.rng.between(1, 40);
            self.world.cut_at_write(writes);
        }
        (0..self.world.reactors()).for_each(|reactor| self.world.wake(reactor));
        let world = self.world.clone();
        let end = world.run(TURNS_MAX, &mut |reactor| self.turn(reactor));
        self.report.writes += world.writes();
        match (self.failure.take(), end) {
            (Some(failure), _) => Err(failure),
            (None, End::Quiet | End::Exhausted) => Err(Failure::new("stuck: a step never ends")),
            (None, End::Stopped | End::Cut) => Ok(()),
        }
    }

    fn turn(&mut self, reactor: usize) -> Turn {
        let mut has_begun = false;
        for index in 0..self.clients.len() {
            let client = &self.clients[index];
            if client.reactor == reactor && client.waits.is_none() && self.steps_left > 0 {
                self.begin(index);
                has_begun = true;
            }
        }
        let said = self.system.turn(reactor);
        if self.world.is_cut() {
            return Turn::Stop;
        }
        let mut done = Vec::new();
        self.system.target(reactor).poll(&mut done);
        let has_ended = !done.is_empty();
        for completion in done {
            self.end(completion);
        }
        let is_over = || self.clients.iter().all(|client| client.waits.is_none());
        if self.failure.is_some() || self.steps_left == 0 && is_over() {
            return Turn::Stop;
        }
        match has_begun || has_ended {
            true => Turn::Busy,
            false => said,
        }
    }

    fn begin(&mut self, index: usize) {
        self.report.actions += 1;
        let client = &mut self.clients[index];
        let (reactor, handle) = (client.reactor, client.handle);
        if self.rng.one_in(12) {
            let reached = self.counters.iter().map(|counter| counter.reached);
            client.waits = Some(Waits::Flush(reached.collect()));
            let target = self.system.target(reactor);
            return target.submit(handle, Op::Flush, index as u64);
        }
        self.steps_left -= 1;
        let number = self.rng.index(self.counters.len());
        let counter = &mut self.counters[number];
        let from = client.known[number];
        let durable = self.rng.one_in(16);
        let alone = counter.steps == 0 && from == counter.reached;
        client.waits = Some(Waits::Step {
            counter: number,
            from,
            durable,
            alone,
        });
        let op = Op::CompareAndWrite {
            compare: WriteSpan::copy_of(counter.offset, &counter.contents(from)),
            data: WriteSpan::copy_of(counter.offset, &counter.contents(from + 1)),
            durable,
        };
        counter.tried = counter.tried.max(from + 1);
        counter.steps += 1;
        // Nobody who is under way is alone any more.
        let others = self.clients.iter_mut().enumerate();
        for (_, other) in others.filter(|(other, _)| *other != index) {
            if let Some(Waits::Step { counter, alone, .. }) = &mut other.waits
                && *counter == number
            {
                *alone = false;
            }
        }
        self.system.target(reactor).submit(handle, op, index as u64);
    }

    fn end(&mut self, Completion { token, result }: Completion) {
        let index = usize::try_from(token).expect("a client's number");
        let waits = self.clients[index].waits.take();
        let broken = match waits.expect("it waits") {
            Waits::Step {
                counter,
                from,
                durable,
                alone,
            } => self.end_step(index, counter, from, (durable, alone), result),
            Waits::Read { counter, least } => self.end_read(index, counter, least, result),
            Waits::Flush(reached) => {
                for (counter, reached) in self.counters.iter_mut().zip(reached) {
                    counter.durable = counter.durable.max(reached);
                }
                result.err().map(|error| format!("a flush failed: {error}"))
            }
        };
        if let Some(broken) = broken {
            self.failure.get_or_insert_with(|| Failure::new(broken));
        }
    }

    fn end_step(
        &mut self,
        index: usize,
        number: usize,
        from: u64,
        (durable, alone): (bool, bool),
        result: Result<Reply, Error>,
    ) -> Option<String> {
        let counter = &mut self.counters[number];
        counter.steps -= 1;
        match result {
            Ok(Reply::Done) => {
                self.clients[index].known[number] = from + 1;
                if !counter.stepped.insert(from) {
                    return Some(format!(
                        "Lost update: two steps from {from} of the counter at {} succeeded",
                        counter.offset
                    ));
                }
                counter.reached = counter.reached.max(from + 1);
                if durable || self.always {
                    counter.durable = counter.durable.max(from + 1);
                }
                None
            }
            Err(Error::Miscompare { offset }) if offset < counter.length && !alone => {
                let least = counter.reached;
                let op = Op::Read {
                    offset: counter.offset,
                    length: counter.length,
                };
                let client = &mut self.clients[index];
                let counter = number;
                client.waits = Some(Waits::Read { counter, least });
                let (reactor, handle) = (client.reactor, client.handle);
                self.system.target(reactor).submit(handle, op, index as u64);
                None
            }
            other => Some(format!(
                "a step from {from} of the counter at {}, which had reached {}: {other:?}",
                counter.offset, counter.reached
            )),
        }
    }

    fn end_read(
        &mut self,
        index: usize,
        number: usize,
        least: u64,
        result: Result<Reply, Error>,
    ) -> Option<String> {
        let counter = &self.counters[number];
        let found = match &result {
            Ok(Reply::Data(span)) => counter.number(&span.to_vec()),
            _ => None,
        };
        match found.filter(|found| *found >= least) {
            Some(found) => {
                self.clients[index].known[number] = found;
                None
            }
            None => Some(format!(
                "the counter at {} reads as {found:?}; it had reached {least}",
                counter.offset
            )),
        }
    }
}
