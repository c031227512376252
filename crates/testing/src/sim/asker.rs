//! A client of an engine with one request under way, for simulations whose model is the list of a
//! volume's states.

use std::collections::BTreeMap;

use everglade_engine::admin::{self, Change};
use everglade_env::BLOCK_SIZE;
use everglade_target::{Error, Op, Reply, WriteSpan};

use super::Failure;
use crate::SimWorld;
use crate::engine::EngineSystem;
use crate::system::{Admin, PoolGrowth, System};
use crate::workload::contents;
use crate::world::Turn;

/// Turns one request may take.
const TURNS_MAX: u64 = 2_000_000;
const BLOCK: u64 = BLOCK_SIZE as u64;

/// A LUN: its blocks, and what each holds (the fill of [`contents`]; absent is zero).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Lun {
    /// Number of this LUN: a deleted LUN and a new one of the same name have different numbers.
    pub(super) number: u64,
    pub(super) blocks: u64,
    pub(super) data: BTreeMap<u64, u64>,
}

impl Lun {
    /// Writes `count` blocks from `first` on, nearly all different. Returns the data to write.
    pub(super) fn write(&mut self, first: u64, count: u64, fill: u64) -> WriteSpan {
        let mut bytes = Vec::new();
        for block in first..first + count {
            bytes.extend(contents(fill + block, BLOCK));
            self.data.insert(block, fill + block);
        }
        WriteSpan::copy_of(first * BLOCK, &bytes)
    }

    /// Returns the content of a block.
    pub(super) fn read(&self, block: u64) -> Vec<u8> {
        match self.data.get(&block) {
            Some(fill) => contents(*fill, BLOCK),
            None => vec![0; BLOCK_SIZE],
        }
    }
}

/// The end of an operation, unless the power failed before.
pub(super) enum Ended<T> {
    With(T),
    Cut,
}

/// See the module's documentation.
pub(super) struct Asker<'a> {
    pub(super) world: &'a SimWorld,
    pub(super) system: EngineSystem,
    /// Things asked so far.
    pub(super) token: u64,
}

impl<'a> Asker<'a> {
    pub(super) fn new(world: &'a SimWorld, system: EngineSystem) -> Asker<'a> {
        Asker {
            world,
            system,
            token: 0,
        }
    }

    fn run_until(
        &mut self,
        is_done: &mut dyn FnMut(&mut EngineSystem) -> bool,
    ) -> Result<Ended<()>, Failure> {
        for reactor in 0..self.world.reactors() {
            self.world.wake(reactor);
        }
        let system = &mut self.system;
        let mut done = false;
        self.world.run(TURNS_MAX, &mut |reactor| {
            let said = system.turn(reactor);
            if reactor == 0 && is_done(system) {
                done = true;
            }
            if done { Turn::Stop } else { said }
        });
        if done {
            Ok(Ended::With(()))
        } else if self.world.is_cut() {
            Ok(Ended::Cut)
        } else {
            Err(Failure::new("stuck: a request is not answered"))
        }
    }

    /// An operation on a LUN by its full name.
    pub(super) fn ask(
        &mut self,
        lun: &str,
        op: Op,
    ) -> Result<Ended<Result<Reply, Error>>, Failure> {
        let (handle, _) = match self.system.target(0).open(lun) {
            Ok(opened) => opened,
            Err(error) => return Ok(Ended::With(Err(error))),
        };
        self.token += 1;
        self.system.target(0).submit(handle, op, self.token);
        let mut done = Vec::new();
        let ended = self.run_until(&mut |system| {
            system.target(0).poll(&mut done);
            !done.is_empty()
        })?;
        self.system.target(0).close(handle);
        Ok(match ended {
            Ended::Cut => Ended::Cut,
            Ended::With(()) => Ended::With(done.pop().expect("one answer").result),
        })
    }

    /// An administrative change, or a consistency point.
    pub(super) fn administer(
        &mut self,
        change: Option<Change>,
    ) -> Result<Ended<Result<(), admin::Error>>, Failure> {
        self.token += 1;
        let (token, aggregate) = (self.token, 0);
        match change {
            Some(change) => self.system.core(0).change(aggregate, change, token),
            None => self.system.core(0).consistency_point(aggregate, token),
        }
        let mut done = Vec::new();
        let ended = self.run_until(&mut |system| {
            system.poll_changes(0, &mut done);
            !done.is_empty()
        })?;
        Ok(match ended {
            Ended::Cut => Ended::Cut,
            Ended::With(()) => Ended::With(done.pop().expect("one answer").result),
        })
    }

    /// A growth of the pool.
    pub(super) fn grow(&mut self, growth: PoolGrowth) -> Result<Ended<Result<(), Error>>, Failure> {
        self.token += 1;
        let request = Admin::GrowPool(growth);
        self.system.administer(0, request, self.token);
        let mut done = Vec::new();
        let ended = self.run_until(&mut |system| {
            system.poll_admin(0, &mut done);
            !done.is_empty()
        })?;
        Ok(match ended {
            Ended::Cut => Ended::Cut,
            Ended::With(()) => Ended::With(done.pop().expect("one answer").result),
        })
    }

    /// Reads a whole LUN, and compares it with its expected content.
    pub(super) fn read(&mut self, name: &str, lun: &Lun) -> Result<Ended<()>, Failure> {
        let mut at = 0;
        while at < lun.blocks {
            let count = (lun.blocks - at).min(256);
            let length = u32::try_from(count * BLOCK).expect("at most 1 MiB");
            let op = Op::Read {
                offset: at * BLOCK,
                length,
            };
            let reply = match self.ask(name, op)? {
                Ended::Cut => return Ok(Ended::Cut),
                Ended::With(reply) => reply,
            };
            let Ok(Reply::Data(span)) = reply else {
                return Err(Failure::new(format!(
                    "{name} cannot be read at block {at}: {reply:?}"
                )));
            };
            if span.pages.len() as u64 != count {
                let pages = span.pages.len();
                return Err(Failure::new(format!(
                    "{name}: {pages} blocks instead of {count}"
                )));
            }
            for (block, page) in (at..).zip(&span.pages) {
                if page[..] != lun.read(block)[..] {
                    let fill = lun.data.get(&block);
                    let zero = page.iter().all(|byte| *byte == 0);
                    return Err(Failure::new(format!(
                        "Foreign: {name} block {block} is not what it was ({fill:?}); zeroes: \
                        {zero}"
                    )));
                }
            }
            at += count;
        }
        Ok(Ended::With(()))
    }

    /// Lets `nanos` pass. Returns false when the power failed.
    pub(super) fn rest(&mut self, nanos: u64) -> bool {
        let until = self.world.now() + nanos;
        let world = self.world.clone();
        while world.now() < until && !world.is_cut() {
            let before = world.now();
            let system = &mut self.system;
            world.run(64, &mut |reactor| system.turn(reactor));
            if world.now() == before {
                world.pass(until - before);
            }
        }
        !self.world.is_cut()
    }
}
