//! Running an operation: enter its affinity, run its handler, and move it to the place where it
//! waits next.

use std::sync::atomic::Ordering;

use everglade_affinity::{Entry, Permit};
use everglade_env::Outside;
use everglade_target::{Completion, Error, Reply};

use crate::ops::{Client, OpCx, Origin, RunEnd};
use crate::pool::aggregate::State;
use crate::pool::log::Log;
use crate::pool::volume::STRIPE_BLOCKS;
use crate::reactor::{AdminDone, Answer, Core, Joined, Waiter, Work};
use crate::read::load::{LoadCx, Stop};

/// Restarts of an operation because of consistency points during its reads.
const ATTEMPTS_MAX: u32 = 8;
/// Waits of an operation for space in a pool that cannot grow.
const SPACE_WAITS_MAX: u32 = 8;

/// The reason why an operation is refused, if it is refused. A flush changes nothing, and reports
/// itself whether everything is durable. Replay continues until the aggregate fails.
fn refusal(client: &Client) -> Option<Error> {
    let standing = &client.lun.volume.aggregate.standing;
    match client.origin {
        Origin::Session(_) if client.changes() => standing.refusal(),
        Origin::Session(_) => standing.refusal_of_reads(),
        Origin::Replay(_) => {
            let is_failed = matches!(standing.state(), State::Failed(_));
            is_failed.then(|| standing.refusal()).flatten()
        }
    }
}

impl<O: Outside> Core<O> {
    /// Runs operation `id`, inside `permit` if it was granted one.
    pub(super) fn run(&mut self, id: usize, permit: Option<Permit>) {
        // A driver that is granted its affinity may have been woken before, and keeps its place in
        // the queue.
        if permit.is_none() {
            self.operations[id].queued = false;
        }
        match &self.operations[id].work {
            Work::Client(_) => self.run_client(id, permit),
            Work::ConsistencyPoint(aggregate) => {
                let aggregate = *aggregate;
                self.run_consistency_point(id, aggregate, permit);
            }
            Work::Mount(_) => self.run_mount(id),
            Work::Merge(..) => self.run_merge(id, permit),
            Work::Replay(_) => self.run_replay(id),
            Work::Ahead(_) => self.run_ahead(id),
            Work::Durable(_) => self.run_durable(id),
        }
    }

    fn run_client(&mut self, id: usize, permit: Option<Permit>) {
        let operation = &mut self.operations[id];
        let Work::Client(client) = &mut operation.work else {
            unreachable!("checked by the caller")
        };
        let lun = client.lun.clone();
        let refused = refusal(client).or_else(|| client.validate().err());
        if client.rest.is_some()
            && refused.is_none()
            && let Some(reply) = client.complete_read(&operation.pinned)
        {
            client.count();
            self.leave(permit);
            return self.finish_client(id, Ok(reply));
        }
        let permit = match (refused, permit) {
            (None, Some(permit)) => Some(permit),
            (Some(error), permit) => {
                self.leave(permit);
                return self.finish_client(id, Err(error));
            }
            (None, None) => match client.stripes() {
                None => None,
                Some((first, last)) => {
                    let volume = &lun.volume;
                    let (first, last) = (
                        volume.stripe(lun.file, first),
                        volume.stripe(lun.file, last),
                    );
                    match self
                        .shared
                        .affinities
                        .enter2(self.index, first, last, id as u64)
                    {
                        Entry::Entered(permit) => Some(permit),
                        Entry::Queued => return,
                        Entry::Gone => return self.finish_client(id, Err(Error::Gone)),
                    }
                }
            },
        };
        // Once more inside: the last consistency point may have begun on another reactor meanwhile.
        let mut wants = Vec::new();
        let operation = &mut self.operations[id];
        let Work::Client(client) = &mut operation.work else {
            unreachable!("checked above")
        };
        if let Some(error) = refusal(client) {
            self.leave(permit);
            return self.finish_client(id, Err(error));
        }
        let outcome = match &permit {
            // Only a flush touches no stripe.
            None => Ok(crate::ops::flush::run(&lun)),
            Some(permit) => {
                let mut load = LoadCx {
                    aggregate: lun.volume.aggregate.id,
                    redirects: &lun.volume.aggregate.redirects,
                    volume: Some(lun.volume.followed()),
                    cache: &self.shared.cache,
                    pinned: &operation.pinned,
                    wants: &mut wants,
                };
                client.run(&mut OpCx {
                    load: &mut load,
                    permit,
                    shortcuts: &mut self.shortcuts,
                })
            }
        };
        self.leave(permit);
        let fragments = match (&outcome, &mut self.operations[id].work) {
            (Ok(_), Work::Client(client)) => std::mem::take(&mut client.fragments),
            _ => Vec::new(),
        };
        for leaf in fragments {
            // Each reads a block. The cleaner merges those that are too many.
            if self.merges < self.merges_max {
                self.merges += 1;
                let merge = self.add(Work::Merge(lun.clone(), leaf));
                self.enqueue(merge);
            }
        }
        let aggregate = &lun.volume.aggregate;
        if aggregate.take_alarm() {
            self.outside.wake(aggregate.home);
        }
        if aggregate.log.as_ref().is_some_and(Log::take_eager) {
            self.begin_group(aggregate);
        }
        self.settle_client(id, outcome, wants);
    }

    /// Merges a fragment. If that cannot be done now or ever, the cleaner deals with it.
    fn run_merge(&mut self, id: usize, permit: Option<Permit>) {
        let Work::Merge(lun, leaf) = &self.operations[id].work else {
            unreachable!("checked by the caller")
        };
        let (lun, leaf) = (lun.clone(), *leaf);
        let aggregate = lun.volume.aggregate.clone();
        let is_vain = || {
            let is_paused = lun.volume.is_paused.load(Ordering::Acquire);
            is_paused || lun.is_gone() || aggregate.is_halted()
        };
        let permit = match permit {
            Some(permit) => permit,
            None if is_vain() => {
                self.end_merge(id);
                return;
            }
            None => {
                let stripe = lun.volume.stripe(lun.file, leaf / STRIPE_BLOCKS);
                let entered = self
                    .shared
                    .affinities
                    .enter2(self.index, stripe, stripe, id as u64);
                match entered {
                    Entry::Entered(permit) => permit,
                    Entry::Queued => return,
                    Entry::Gone => {
                        self.end_merge(id);
                        return;
                    }
                }
            }
        };
        let mut wants = Vec::new();
        let outcome = if is_vain() {
            Ok(())
        } else {
            let mut load = LoadCx {
                aggregate: aggregate.id,
                redirects: &aggregate.redirects,
                volume: Some(lun.volume.followed()),
                cache: &self.shared.cache,
                pinned: &self.operations[id].pinned,
                wants: &mut wants,
            };
            let mut cx = OpCx {
                load: &mut load,
                permit: &permit,
                shortcuts: &mut self.shortcuts,
            };
            crate::ops::part::merge(&mut cx, &lun, leaf)
        };
        self.leave(Some(permit));
        match outcome {
            Err(Stop::Load) => self.load(id, aggregate.id, wants),
            Ok(()) | Err(_) => {
                self.end_merge(id);
            }
        }
    }

    fn end_merge(&mut self, id: usize) {
        self.operations.remove(id);
        self.merges -= 1;
    }

    /// Puts an operation that ran where it belongs next.
    pub(super) fn settle_client(
        &mut self,
        id: usize,
        outcome: Result<RunEnd, Stop>,
        wants: Vec<everglade_format::Pointer>,
    ) {
        let Work::Client(client) = &mut self.operations[id].work else {
            unreachable!("a client's")
        };
        let aggregate = client.lun.volume.aggregate.clone();
        let unreadable = match &outcome {
            Err(stop @ (Stop::Damaged(_) | Stop::Failed(Error::Io(_)))) => client.unreadable(stop),
            _ => 0..0,
        };
        if let (Origin::Session(_), Ok(RunEnd::Done(_) | RunEnd::Durable(_))) =
            (client.origin, &outcome)
        {
            client.count();
        }
        match outcome.map_err(Stop::settled) {
            Ok(RunEnd::Done(reply)) => self.finish_client(id, Ok(reply)),
            Ok(RunEnd::Again) => {
                self.operations[id].pinned.clear();
                self.enqueue(id);
            }
            Ok(RunEnd::Durable(durability)) => {
                let Origin::Session(token) = client.origin else {
                    unreachable!("what is replayed is durable already")
                };
                self.note_joined(id);
                let answer = Answer::Client(token);
                self.operations[id].work = Work::Durable(Waiter {
                    aggregate: aggregate.id,
                    durability,
                    answer,
                });
                self.run_durable(id);
            }
            Err(Stop::Load) => self.load(id, aggregate.id, wants),
            Err(Stop::Commit) => {
                self.operations[id].pinned.clear();
                self.waiting.entry(aggregate.id).or_default().push(id);
                self.outside.wake(aggregate.home);
            }
            Err(Stop::Log) => {
                self.operations[id].pinned.clear();
                self.wait_for_room(id, &aggregate);
            }
            Err(Stop::Space) => {
                client.space_waits += 1;
                // Others may keep the pool busy for ever; who waited long enough gets an answer.
                if client.space_waits > SPACE_WAITS_MAX && !aggregate.space.is_growing() {
                    client.note_refused();
                    return self.finish_client(id, Err(Error::NoSpace));
                }
                self.operations[id].pinned.clear();
                self.waiting.entry(aggregate.id).or_default().push(id);
                self.outside.wake(aggregate.home);
            }
            Err(Stop::Io | Stop::Damaged(_)) => {
                unreachable!(
                    "client operations wait for pages and commits only, and damage is settled"
                )
            }
            Err(Stop::Failed(Error::Io(_)))
                if client.seen < aggregate.committed() && client.attempts < ATTEMPTS_MAX =>
            {
                // The tree that it read from is outdated, and blocks of that tree may have been
                // reused (B-10, K-05).
                client.seen = aggregate.committed();
                client.attempts += 1;
                self.operations[id].pinned.clear();
                self.enqueue(id);
            }
            Err(Stop::Failed(error)) => {
                if let Error::Io(reason) = &error {
                    let lun = client.lun.full_name();
                    aggregate.lost.unreadable_bytes(&lun, &unreadable, reason);
                }
                if error == Error::NoSpace {
                    client.note_refused();
                    // The home reactor asks the host again when an operation is refused.
                    self.outside.wake(aggregate.home);
                }
                self.finish_client(id, Err(error));
            }
        }
    }

    fn note_joined(&mut self, id: usize) {
        if let (Some(joined), Work::Client(client)) = (&mut self.joined, &self.operations[id].work)
            && let (Some(cp), Origin::Session(token)) = (client.joined, client.origin)
        {
            joined.push(Joined {
                token,
                cp: cp.0,
                sequence: client.logged,
            });
        }
    }

    fn finish_client(&mut self, id: usize, result: Result<Reply, Error>) {
        self.note_joined(id);
        let operation = self.operations.remove(id);
        let Work::Client(client) = operation.work else {
            unreachable!("a client's")
        };
        match client.origin {
            Origin::Session(token) => self.done.push(Completion { token, result }),
            Origin::Replay(replay) => self.replayed(replay, result),
        }
    }

    /// Looks whether what an operation waits for is durable.
    fn run_durable(&mut self, id: usize) {
        let Work::Durable(waiter) = &self.operations[id].work else {
            unreachable!("checked by the caller")
        };
        let (number, durability) = (waiter.aggregate, waiter.durability);
        let aggregate = self.shared.aggregate(number);
        // Durable counts even if the aggregate failed since.
        if durability.is_met(&aggregate) {
            return self.finish_durable(id, Ok(()));
        }
        if let Some(error) = aggregate.standing.refusal()
            && !matches!(aggregate.state(), crate::State::Stopping)
        {
            return self.finish_durable(id, Err(error));
        }
        let is_logged = |log: &Log| log.durable() >= durability.sequence;
        match &aggregate.log {
            // The journal has the operation, but the changes that it depends on are not committed
            // yet.
            Some(log) if is_logged(log) => {
                aggregate.want_cp(durability.topology);
            }
            Some(log) if durability.sequence < u64::MAX => {
                log.note_asked();
                return self.wait_for_log(id, &aggregate, durability.sequence);
            }
            _ => {
                aggregate.want_cp(durability.cp);
            }
        }
        self.waiting.entry(number).or_default().push(id);
        if aggregate.home == self.index {
            self.wake_home(number);
        } else {
            self.outside.wake(aggregate.home);
        }
    }

    fn finish_durable(&mut self, id: usize, result: Result<(), Error>) {
        let operation = self.operations.remove(id);
        let Work::Durable(waiter) = operation.work else {
            unreachable!("checked by the caller")
        };
        match waiter.answer {
            Answer::Client(token) => {
                self.done.push(Completion {
                    token,
                    result: result.map(|()| Reply::Done),
                });
            }
            Answer::Admin(token) => {
                let result =
                    result.map_err(|error| crate::change::Error::Unavailable(error.to_string()));
                self.admin_done.push(AdminDone {
                    token,
                    result,
                    executed: None,
                });
            }
        }
    }

    pub(super) fn leave(&mut self, permit: Option<Permit>) {
        if let Some(permit) = permit {
            let mut granted = Vec::new();
            self.shared.affinities.leave(permit, &mut granted);
            self.hand_over(granted);
        }
    }

    pub(super) fn begin_client(&mut self, client: Client) {
        let id = self.add(Work::Client(Box::new(client)));
        self.run(id, None);
    }
}
