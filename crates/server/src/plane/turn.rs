//! One reactor's loop: it runs the engine and the sessions, and waits for both in one place.
//!
//! A turn: the engine works, finished operations go to their sessions, ready replies go out in one
//! gathered send per session; then the reactor handles messages of other threads, and waits for
//! sockets, devices, timers and wake-ups together. Nothing here blocks except that wait.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::time::Duration;

use everglade_engine::{AdminDone, Core, Engine, State, Subsystem, admin};
use everglade_env::reactor::Real;
use everglade_env::{Nanos, Outside};
use everglade_target::{Completion, Target};

use super::clients::Clients;
use super::comparison::Comparisons;
use super::control::{Answer, Arrival, Asked, Control, Plane, Timing};
use super::gate::Gate;
use crate::fronts::{Admission, Protocol};
use crate::{Config, Descriptors};

/// Interval between checks for clients that take too long, nanoseconds.
const SWEEP: Nanos = 1_000_000_000;
/// Time limit after a stop for sessions, and after the engine's stop for changes, nanoseconds.
const STOP_PATIENCE: Nanos = 10_000_000_000;
/// Rounds of sending and starting more before the engine and the sockets get their turn again.
const ROUNDS: usize = 2;

/// One thread of the data plane.
pub(crate) struct Reactor {
    index: usize,
    engine: Engine,
    core: Core<Real>,
    plane: Arc<Plane>,
    clients: Clients,
    gate: Gate,
    /// Whether there may be more to serve without a new event.
    is_behind: bool,
    /// Changes under way, and when they were asked for.
    asked: HashMap<u64, (Sender<Answer>, Nanos)>,
    comparisons: Comparisons,
    /// Reused between turns.
    completions: Vec<Completion>,
    next_token: u64,
    swept: Nanos,
    /// Nudges of sessions that were seen.
    nudged: u64,
    /// When the sessions were asked to end.
    stopping: Option<Nanos>,
    /// When the reactor first saw that the engine had stopped.
    ended: Option<Nanos>,
    is_quiet: bool,
}

impl Reactor {
    pub(crate) fn new(
        engine: &Engine,
        index: usize,
        outside: Real,
        plane: Arc<Plane>,
        protocols: (&[Box<dyn Protocol>], &[Admission]),
        (config, descriptors): (&Config, &Descriptors),
    ) -> Reactor {
        // An eighth of the memory is for requests on their way (docs/design/design.md §12).
        let memory_bytes = config.memory.bytes() / 8 / plane.reactors() as u64;
        let ours = Arc::clone(&plane);
        Reactor {
            index,
            core: Core::new(engine, index, outside),
            engine: engine.clone(),
            plane,
            clients: Clients::new(index, engine, ours, protocols, memory_bytes),
            gate: Gate::new(protocols.0, descriptors.shares.connections),
            is_behind: false,
            asked: HashMap::new(),
            comparisons: Comparisons::default(),
            completions: Vec::new(),
            next_token: 0,
            swept: 0,
            nudged: 0,
            stopping: None,
            ended: None,
            is_quiet: false,
        }
    }

    /// Runs until the engine has stopped.
    pub(crate) fn run(mut self) {
        let mut ready = Vec::new();
        loop {
            self.core.turn();
            self.core.enter(Subsystem::Protocol);
            self.clients.tick(self.core.outside().now());
            self.serve_sessions();
            self.answer();
            self.sweep();
            self.gate.open_if_due(&self.plane, self.core.outside());
            if self.plane.stop.is_asked() && self.wind_down() {
                self.give_up_changes();
                return self.plane.close(self.index);
            }
            let timeout = self.timeout();
            ready.clear();
            self.core.rest();
            self.core.outside().wait(timeout, &mut ready);
            self.core.enter(Subsystem::Protocol);
            self.clients.tick(self.core.outside().now());
            self.clients.receive_again(&mut self.core);
            for event in &ready {
                if Gate::is_door(event.key) {
                    self.accept(event.key);
                } else {
                    self.clients.handle(event, &mut self.core);
                }
            }
            while let Some(arrival) = self.plane.take_arrival(self.index) {
                self.clients.attach(arrival, &mut self.core);
            }
        }
    }

    fn timeout(&mut self) -> Option<Duration> {
        if self.core.is_busy() || self.is_behind || self.clients.has_more() {
            return Some(Duration::ZERO);
        }
        let now = self.core.outside().now();
        let engine = self.core.deadline();
        let sweep =
            (!self.clients.is_empty() || self.stopping.is_some()).then_some(self.swept + SWEEP);
        let gate = self.gate.deadline();
        let earliest = engine.into_iter().chain(sweep).chain(gate).min()?;
        Some(Duration::from_nanos(earliest.saturating_sub(now)))
    }

    /// Takes connections that wait at a door.
    fn accept(&mut self, key: u64) {
        // Bounded: the listener stays readable while more wait.
        for _ in 0..64 {
            let outside = self.core.outside();
            let Some((front, socket)) = self.gate.next(key, &self.plane, outside) else {
                return;
            };
            let homes = self.engine.homes();
            let Some(reactor) = self.gate.choose(front, &self.plane, &homes) else {
                continue;
            };
            let arrival = Arrival {
                socket,
                front,
                session: None,
            };
            if reactor == self.index {
                self.clients.attach(arrival, &mut self.core);
            } else {
                self.plane.give(reactor, arrival);
            }
        }
    }

    /// Passes finished operations to their sessions and sends the replies that are ready.
    fn serve_sessions(&mut self) {
        self.is_behind = false;
        for _ in 0..ROUNDS {
            let mut progress = self.complete();
            progress |= self.clients.serve_ready(&mut self.core);
            if !progress {
                return;
            }
        }
        // Sending may have started operations that have finished already.
        self.is_behind = true;
    }

    /// Passes finished operations to their callers. Returns whether there were any.
    fn complete(&mut self) -> bool {
        let mut completions = std::mem::take(&mut self.completions);
        self.core.poll(&mut completions);
        let is_any = !completions.is_empty();
        for completion in completions.drain(..) {
            if Comparisons::is_ours(&completion) {
                self.comparisons.complete(completion, &mut self.core);
            } else {
                self.clients.complete(completion, &mut self.core);
            }
        }
        self.completions = completions;
        is_any
    }

    fn sweep(&mut self) {
        let now = self.core.outside().now();
        let nudges = self.plane.nudges.load(Ordering::Acquire);
        if now >= self.swept + SWEEP || nudges != self.nudged {
            (self.swept, self.nudged) = (now, nudges);
            // Continues for sessions that were ended, and for those that can use the memory freed.
            self.is_behind |= self.clients.sweep(now, &mut self.core);
            self.tell_of_failures();
        }
    }

    /// Logs, once, why an aggregate that has failed or is read-only answers changes with errors.
    fn tell_of_failures(&self) {
        for aggregate in self.engine.aggregates() {
            let said = match &aggregate.state {
                State::ReadOnly(reason) => format!(
                    "is read-only from now on, because {reason}; what was flushed is safe, and \
                    what was not is in memory only; 'everglade status' says what to do (EVG-4008)"
                ),
                State::Failed(reason) => format!(
                    "has failed and serves no more: {reason}; what was flushed is safe; \
                     start the server again to recover, and see 'everglade check' if it fails again"
                ),
                _ => continue,
            };
            if self.plane.mourns_first(&aggregate.name) {
                tracing::error!("aggregate {} {said}", aggregate.name);
            }
        }
    }

    // ---- control ----

    fn answer(&mut self) {
        while let Some(Asked { control, reply }) = self.plane.take_asked(self.index) {
            match control {
                Control::Ping => drop(reply.send(Answer::Alive)),
                Control::GiveBack => self.core.give_back(),
                Control::Exports => drop(reply.send(Answer::Exports(self.core.exports()))),
                Control::Sessions => {
                    let now = self.core.outside().now();
                    drop(reply.send(Answer::Sessions(self.clients.describe(now))));
                }
                Control::Tallies => drop(reply.send(Answer::Tallies(self.clients.tallies()))),
                Control::Listen(listeners) => {
                    self.gate.listen(listeners, self.core.outside());
                    drop(reply.send(Answer::Listening));
                }
                Control::Compare(asked) => {
                    self.comparisons.begin(&asked, reply, &mut self.core);
                    // The scan may have ended at once, and no other event would wake this thread.
                    self.is_behind = true;
                }
                Control::Change(aggregate, change) => self.begin_change(aggregate, change, reply),
            }
        }
        let mut done: Vec<AdminDone> = Vec::new();
        self.core.poll_admin(&mut done);
        let now = self.core.outside().now();
        for done in done {
            if let Some((reply, asked)) = self.asked.remove(&done.token) {
                let timing = Timing {
                    executed: done.executed.unwrap_or(now).saturating_sub(asked),
                    durable: now.saturating_sub(asked),
                };
                drop(reply.send(Answer::Changed(done.result.map(|()| timing))));
                self.count_answered();
            }
        }
    }

    /// Passes a change to the engine, unless the engine no longer executes changes.
    fn begin_change(&mut self, aggregate: u32, change: admin::Change, reply: Sender<Answer>) {
        self.plane.changes.fetch_add(1, Ordering::SeqCst);
        if self.plane.stop.is_asked() && self.engine.is_stopped() {
            // Without an answer the asker knows that it was not begun.
            return self.count_answered();
        }
        self.next_token += 1;
        let now = self.core.outside().now();
        self.asked.insert(self.next_token, (reply, now));
        self.core.change(aggregate, change, self.next_token);
    }

    /// Counts a change as answered, for reactors whose end waits for all changes.
    fn count_answered(&self) {
        let before = self.plane.changes.fetch_sub(1, Ordering::SeqCst);
        if before == 1 && self.plane.stop.is_asked() {
            self.plane.wake_all();
        }
    }

    /// Gives up changes that a hanging device keeps from ending, because this thread ends.
    fn give_up_changes(&mut self) {
        for (_, (reply, _)) in std::mem::take(&mut self.asked) {
            let text = "the daemon stopped before the change ended, because a device does not \
                answer; start it again and look";
            let unknown = admin::Error::Unknown(text.to_owned());
            drop(reply.send(Answer::Changed(Err(unknown))));
            self.count_answered();
        }
    }

    // ---- the end ----

    /// Advances the stop by one step. Returns true when this thread may return.
    fn wind_down(&mut self) -> bool {
        let now = self.core.outside().now();
        let since = *self.stopping.get_or_insert_with(|| {
            self.gate.close();
            self.clients.stop(&mut self.core);
            now
        });
        self.serve_sessions();
        let is_late = now.saturating_sub(since) > STOP_PATIENCE;
        if is_late && !self.is_quiet {
            self.clients.abandon_all(&mut self.core);
            self.serve_sessions();
        }
        if !self.is_quiet && self.clients.is_empty() {
            self.is_quiet = true;
            let quiet = self.plane.quiet.fetch_add(1, Ordering::AcqRel) + 1;
            if quiet == self.plane.reactors() {
                self.plane.end(&self.engine);
                self.plane.wake_all();
            }
        }
        if !self.engine.is_stopped() {
            return false;
        }
        let ended = *self.ended.get_or_insert(now);
        let is_answered = self.plane.changes.load(Ordering::SeqCst) == 0;
        if is_answered || now.saturating_sub(ended) > STOP_PATIENCE {
            self.plane.wake_all();
            return true;
        }
        false
    }
}
