//! One reactor's loop: it runs the engine and the sessions, and waits for both in one place.
//!
//! A turn: the engine works, finished operations go to their sessions, ready replies go out in one
//! gathered send per session; then the reactor handles messages of other threads, and waits for
//! sockets, devices, timers and wake-ups together. Nothing here blocks except that wait.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::time::Duration;

use everglade_engine::{AdminDone, Core, Engine, State, admin};
use everglade_env::reactor::{Interest, Ready, Real};
use everglade_env::{Nanos, Outside};
use everglade_nbd::{Received, SessionId, Sessions, Settings};
use everglade_target::{Completion, Target};
use slab::Slab;

use super::comparison::Comparisons;
use super::connection::{Arrival, Connection};
use super::control::{Answer, Asked, Control, Plane, Timing};
use super::door::Door;
use super::gate::{Gate, KEY_TCP, KEY_UNIX};
use crate::{Config, Descriptors};

/// How often sessions are looked over for clients that take too long.
const SWEEP: Nanos = 1_000_000_000;
/// How long sessions may take to end after a stop, and changes once the engine has stopped.
const STOP_PATIENCE: Nanos = 10_000_000_000;
/// Rounds of sending and starting more before the engine and the sockets get their turn again.
const ROUNDS: usize = 2;

/// One thread of the data plane.
pub(super) struct Reactor {
    index: usize,
    engine: Engine,
    core: Core<Real>,
    plane: Arc<Plane>,
    sessions: Sessions,
    connections: Slab<Connection>,
    by_session: HashMap<SessionId, usize>,
    gate: Gate,
    door: Door,
    /// Sessions with more to read than they took.
    again: Vec<usize>,
    /// There may be more to serve without anything happening first.
    is_behind: bool,
    /// Changes under way, and when they were asked for.
    asked: HashMap<u64, (Sender<Answer>, Nanos)>,
    comparisons: Comparisons,
    /// Reused between turns.
    completions: Vec<Completion>,
    next_token: u64,
    swept: Nanos,
    /// When the sessions were told to end.
    stopping: Option<Nanos>,
    /// When the engine was first seen to have stopped.
    ended: Option<Nanos>,
    is_quiet: bool,
}

impl Reactor {
    pub(super) fn new(
        engine: &Engine,
        index: usize,
        outside: Real,
        plane: Arc<Plane>,
        door: Door,
        (config, descriptors): (&Config, &Descriptors),
    ) -> Reactor {
        // An eighth of the memory is for requests on their way (docs/design/design.md §12).
        let payload = config.memory.bytes() / 8 / plane.reactors() as u64;
        let idle_max = config.nbd.callers.idle_timeout.map(|time| {
            let nanos = time.duration().as_nanos();
            Nanos::try_from(nanos).unwrap_or(Nanos::MAX)
        });
        let settings = Settings {
            idle_max,
            asks_for_place: true,
            ..Settings::default()
        };
        let sessions = Sessions::new(settings, payload);
        plane.add_counters(
            Arc::clone(sessions.metrics()),
            Arc::clone(sessions.memory()),
        );
        Reactor {
            index,
            core: Core::new(engine, index, outside),
            engine: engine.clone(),
            plane,
            sessions,
            connections: Slab::new(),
            by_session: HashMap::new(),
            gate: Gate::new(config.nbd.connections_max, descriptors.shares.connections),
            door,
            again: Vec::new(),
            is_behind: false,
            asked: HashMap::new(),
            comparisons: Comparisons::default(),
            completions: Vec::new(),
            next_token: 0,
            swept: 0,
            stopping: None,
            ended: None,
            is_quiet: false,
        }
    }

    /// Runs until the engine has stopped.
    pub(super) fn run(mut self) {
        let mut ready = Vec::new();
        loop {
            self.core.turn();
            self.sessions.metrics().tick(self.core.outside().now());
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
            self.core.outside().wait(timeout, &mut ready);
            self.sessions.metrics().tick(self.core.outside().now());
            for index in std::mem::take(&mut self.again) {
                self.receive(index);
            }
            for event in &ready {
                self.handle(event);
            }
            while let Some(arrival) = self.plane.take_arrival(self.index) {
                self.attach(arrival);
            }
        }
    }

    fn timeout(&mut self) -> Option<Duration> {
        if self.core.is_busy() || self.is_behind || !self.again.is_empty() {
            return Some(Duration::ZERO);
        }
        let now = self.core.outside().now();
        let engine = self.core.deadline();
        let sweep =
            (!self.sessions.is_empty() || self.stopping.is_some()).then_some(self.swept + SWEEP);
        let gate = self.gate.deadline();
        let earliest = engine.into_iter().chain(sweep).chain(gate).min()?;
        Some(Duration::from_nanos(earliest.saturating_sub(now)))
    }

    fn handle(&mut self, event: &Ready) {
        match event.key {
            KEY_TCP | KEY_UNIX => self.accept(event.key),
            key => {
                let index = usize::try_from(key).expect("keys are places of the slab");
                // It may have been closed by an earlier event of the same wait.
                let Some(connection) = self.connections.get(index) else {
                    return;
                };
                let session = connection.session;
                if event.readable || event.hangup {
                    self.receive(index);
                }
                if event.writable || event.hangup {
                    if self.by_session.contains_key(&session) {
                        self.sessions.writable(session, &mut self.core);
                    }
                    self.transmit(session);
                }
            }
        }
    }

    // ---- connections ----

    /// Takes connections that wait at a listener.
    fn accept(&mut self, key: u64) {
        // Bounded: the listener stays readable while more wait.
        for _ in 0..64 {
            let outside = self.core.outside();
            let Some(socket) = self.gate.next(key, &self.plane, outside) else {
                return;
            };
            let Some(reactor) = self.gate.choose(&self.plane, &self.engine.homes()) else {
                continue;
            };
            let arrival = Arrival {
                socket,
                session: None,
            };
            if reactor == self.index {
                self.attach(arrival);
            } else {
                self.plane.give(reactor, arrival);
            }
        }
    }

    fn attach(&mut self, arrival: Arrival) {
        let now = self.core.outside().now();
        let Arrival {
            mut socket,
            session: moving,
        } = arrival;
        let is_settled = moving.is_some();
        if self.stopping.is_some() {
            return self.plane.forget_connection(self.index, is_settled);
        }
        let session = match moving {
            Some(moving) => self.sessions.adopt(now, moving, &mut self.core),
            None => {
                let caller = self.door.caller(socket.address);
                socket.names = Arc::clone(&caller.names);
                self.sessions.attach_caller(now, caller)
            }
        };
        let Some(session) = session else {
            return self.plane.forget_connection(self.index, is_settled);
        };
        let interest = Interest::BOTH;
        let index = self.connections.insert(Connection {
            socket,
            session,
            interest,
            is_settled,
        });
        let registered =
            self.core
                .outside()
                .register(&self.connections[index].socket, interest, index as u64);
        self.by_session.insert(session, index);
        if let Err(error) = registered {
            tracing::warn!("a connection cannot be watched: {error}");
            self.sessions.abandon(session, &mut self.core);
        }
        if self.connections[index].socket.may_hold_more() {
            self.again.push(index);
        }
        self.settle(session);
    }

    /// A session is about to open an export: here, or on another reactor than the one where that is
    /// at home (decision 0023). True if it has left.
    fn place(&mut self, session: SessionId, index: usize) -> bool {
        let export = self.sessions.session(session).wants_place();
        let home = export.and_then(|export| self.engine.home_reactor_of(export));
        let is_home = home == Some(self.index);
        let reactor = self.plane.place(self.index, is_home, &self.engine.homes());
        if reactor == self.index {
            self.connections[index].is_settled = true;
            self.sessions.place_here(session, &mut self.core);
            return false;
        }
        let moving = self.sessions.release(session);
        self.by_session.remove(&session);
        let Connection { socket, .. } = self.connections.remove(index);
        if let Err(error) = self.core.outside().deregister(&socket) {
            // It would be watched by two reactors.
            tracing::warn!("a connection cannot be moved: {error}");
            self.plane.forget_connection(reactor, true);
            return true;
        }
        let arrival = Arrival {
            socket,
            session: Some(moving),
        };
        self.plane.give(reactor, arrival);
        true
    }

    fn receive(&mut self, index: usize) {
        let Some(connection) = self.connections.get_mut(index) else {
            return;
        };
        let session = connection.session;
        let received = self
            .sessions
            .receive(session, &mut connection.socket, &mut self.core);
        if received == Received::More {
            self.again.push(index);
        }
        self.settle(session);
    }

    fn transmit(&mut self, session: SessionId) {
        let Some(index) = self.by_session.get(&session) else {
            return;
        };
        let connection = &mut self.connections[*index];
        connection
            .socket
            .may_hold(self.sessions.memory().buffer_bytes());
        self.sessions
            .transmit(session, &mut connection.socket, &mut self.core);
        // What was encrypted and not sent yet; an error is met by the next read.
        let _ = connection.socket.flush();
        self.settle(session);
    }

    /// Tells the poller what a session waits for, or lets a closed one go, or one that is better
    /// off on another reactor.
    fn settle(&mut self, session: SessionId) {
        let Some(index) = self.by_session.get(&session).copied() else {
            return;
        };
        let mut wanted = self.sessions.interest(session);
        if wanted.tls {
            self.encrypt(session, index);
            wanted = self.sessions.interest(session);
        }
        if wanted.place {
            if self.place(session, index) {
                return;
            }
            wanted = self.sessions.interest(session);
        }
        if wanted.closed {
            self.sessions.detach(session);
            self.by_session.remove(&session);
            let mut connection = self.connections.remove(index);
            connection.socket.close();
            let _ = self.core.outside().deregister(&connection.socket);
            let is_settled = connection.is_settled;
            return self.plane.forget_connection(self.index, is_settled);
        }
        let connection = &mut self.connections[index];
        let interest = Interest {
            readable: wanted.read,
            writable: wanted.write || connection.socket.wants_write(),
        };
        // The poller knows the socket only, not what was read from it and not taken yet.
        let begins = wanted.read && !connection.interest.readable;
        if begins && connection.socket.may_hold_more() {
            self.again.push(index);
        }
        if connection.interest != interest {
            connection.interest = interest;
            if let Err(error) =
                self.core
                    .outside()
                    .modify(&connection.socket, interest, index as u64)
            {
                tracing::warn!("a connection cannot be watched: {error}");
            }
        }
    }

    /// The session has acknowledged TLS, and that was sent.
    fn encrypt(&mut self, session: SessionId, index: usize) {
        let certificates = self.door.certificates().expect("TLS was offered");
        match self.connections[index].socket.encrypt(&certificates.now()) {
            Ok(()) => self.sessions.tls_begun(session),
            Err(error) => {
                tracing::warn!("a connection cannot be encrypted: {error}");
                self.sessions.abandon(session, &mut self.core);
            }
        }
    }

    /// Gives finished operations to their sessions and sends what is ready.
    fn serve_sessions(&mut self) {
        self.is_behind = false;
        for _ in 0..ROUNDS {
            let mut progress = self.complete();
            // Those that are ready again wait for the next round.
            for _ in 0..self.sessions.ready_count() {
                if let Some(session) = self.sessions.next_ready() {
                    progress = true;
                    self.transmit(session);
                }
            }
            if !progress {
                return;
            }
        }
        // Sending may have started operations that have finished already.
        self.is_behind = true;
    }

    /// Gives finished operations to whoever began them. True if there were any.
    fn complete(&mut self) -> bool {
        let mut completions = std::mem::take(&mut self.completions);
        self.core.poll(&mut completions);
        let is_any = !completions.is_empty();
        for completion in completions.drain(..) {
            if Comparisons::is_ours(&completion) {
                self.comparisons.complete(completion, &mut self.core);
            } else {
                self.sessions.complete(completion, &mut self.core);
            }
        }
        self.completions = completions;
        is_any
    }

    fn sweep(&mut self) {
        let now = self.core.outside().now();
        if now >= self.swept + SWEEP {
            self.swept = now;
            self.sessions.sweep(now, &mut self.core);
            // Those that were ended, and those whose turn it is for memory that they held.
            self.is_behind |= self.sessions.ready_count() > 0;
            self.tell_of_failures();
        }
    }

    /// An aggregate that has failed or can only be read answers changes with errors from then on;
    /// the log says why, once.
    fn tell_of_failures(&self) {
        for aggregate in self.engine.aggregates() {
            let said = match &aggregate.state {
                State::ReadOnly(reason) => format!(
                    "is read-only from now on, because {reason}; what was flushed is safe, and \
                    what was \
                     not is in memory only; 'everglade status' says what to do (EVG-4008)"
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
                Control::Listen(listeners) => {
                    self.gate.listen(listeners, self.core.outside());
                    drop(reply.send(Answer::Listening));
                }
                Control::Compare(asked) => {
                    self.comparisons.begin(&asked, reply, &mut self.core);
                    // It may have ended at once, and nothing else tells this thread to look.
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

    /// Hands a change to the engine, unless nobody would do it any more.
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

    /// A change is off this reactor's hands; the others may wait for that with their end.
    fn count_answered(&self) {
        let before = self.plane.changes.fetch_sub(1, Ordering::SeqCst);
        if before == 1 && self.plane.stop.is_asked() {
            self.plane.wake_all();
        }
    }

    /// The end of this thread comes before the end of these changes: a device does not answer.
    fn give_up_changes(&mut self) {
        for (_, (reply, _)) in std::mem::take(&mut self.asked) {
            let text = "the daemon stopped before the change ended, because a device does not \
                answer; start it again \
                        and look";
            let unknown = admin::Error::Unknown(text.to_owned());
            drop(reply.send(Answer::Changed(Err(unknown))));
            self.count_answered();
        }
    }

    // ---- the end ----

    /// One look at how the stop proceeds. True when this thread may return.
    fn wind_down(&mut self) -> bool {
        let now = self.core.outside().now();
        let since = *self.stopping.get_or_insert_with(|| {
            self.gate.close();
            self.sessions.stop(&mut self.core);
            now
        });
        self.serve_sessions();
        let is_late = now.saturating_sub(since) > STOP_PATIENCE;
        if is_late && !self.is_quiet {
            for session in self.sessions.ids() {
                self.sessions.abandon(session, &mut self.core);
            }
            self.serve_sessions();
        }
        if !self.is_quiet && self.sessions.is_empty() {
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
