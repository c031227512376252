//! Messages from other threads to reactors, and the state of a stop that reactors share.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use everglade_engine::{Engine, admin};
use everglade_env::lock::Mutex;
use everglade_env::{Nanos, World};
use everglade_nbd::metrics::{MemorySnapshot, Snapshot};
use everglade_nbd::{Memory, SessionMetrics};
use everglade_target::Export;

use super::comparison::{Compared, Comparison};
use super::connection::Arrival;
use crate::Stop;
use crate::listen::Listeners;

/// What a reactor is asked from outside.
pub(super) enum Control {
    /// Change what an aggregate holds. Answered when it is durable, or when it is known that it
    /// will not be. Without an answer nobody has begun it.
    Change(u32, admin::Change),
    /// Give a sign of life.
    Ping,
    /// Give hosts that are short of space what is not needed soon.
    GiveBack,
    /// List what clients can attach to.
    Exports,
    /// Accept clients from now on.
    Listen(Listeners),
    /// Tell a part of what differs between two images.
    Compare(Comparison),
}

/// When a change happened, from when the reactor heard of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Timing {
    /// It was executed; what was frozen for it, a snapshot's image for example, is of this moment.
    pub(super) executed: Nanos,
    /// It was on stable storage.
    pub(super) durable: Nanos,
}

/// A reactor's answer.
pub(super) enum Answer {
    Changed(Result<Timing, admin::Error>),
    Exports(Vec<Export>),
    Listening,
    Alive,
    Compared(Result<Compared, everglade_target::Error>),
}

impl Answer {
    pub(super) fn changed(self) -> Result<Timing, admin::Error> {
        match self {
            Answer::Changed(result) => result,
            _ => panic!("a change is answered by its result"),
        }
    }

    pub(super) fn compared(self) -> Result<Compared, everglade_target::Error> {
        match self {
            Answer::Compared(result) => result,
            _ => panic!("a comparison is answered by what differs"),
        }
    }

    pub(super) fn exports(self) -> Vec<Export> {
        match self {
            Answer::Exports(exports) => exports,
            _ => panic!("asking for exports is answered by exports"),
        }
    }
}

/// A question with its way back.
pub(super) struct Asked {
    pub(super) control: Control,
    pub(super) reply: Sender<Answer>,
}

#[derive(Default)]
struct Inbox {
    asked: VecDeque<Asked>,
    arrivals: VecDeque<Arrival>,
    /// The reactor has ended and will answer no more.
    is_closed: bool,
}

/// The reactor that accepts connections.
pub(super) const REACTOR_OF_LISTENERS: usize = 0;

/// Connections of a reactor.
#[derive(Default)]
struct Load {
    /// Open, or on their way.
    connections: AtomicU32,
    /// Those of them that have named their export, and stay.
    settled: AtomicU32,
}

/// What all reactor threads share besides the engine.
pub(super) struct Plane {
    pub(super) world: World,
    pub(super) stop: Stop,
    inboxes: Vec<Mutex<Inbox>>,
    /// Connections of all reactors, open or on their way.
    pub(super) connections: AtomicU32,
    /// The same for each.
    loads: Vec<Load>,
    /// Connections that went to another reactor when they named their export.
    moved: AtomicU64,
    /// Changes that reactors have taken and not answered yet. A reactor takes one only if the
    /// engine has not stopped *after* it was counted here, and reactors end only if there are none
    /// *after* the engine has stopped. So a change that is handed to the engine finds everybody
    /// there who has to answer it.
    pub(super) changes: AtomicUsize,
    /// The reactor that accepts waits for a connection to end.
    is_gate_shut: AtomicBool,
    /// Times that accepting paused.
    pauses: AtomicU64,
    /// Reactors whose sessions have ended after a stop.
    pub(super) quiet: AtomicUsize,
    /// What the NBD sessions of each reactor did.
    nbd: Mutex<Vec<(Arc<SessionMetrics>, Arc<Memory>)>>,
    /// Aggregates whose failure was logged.
    mourned: Mutex<BTreeSet<String>>,
    /// True once the aggregates were asked to stop. Held while one is opened, because one that was
    /// opened later would never hear of the stop.
    is_ended: Mutex<bool>,
}

impl Plane {
    pub(super) fn new(world: World, stop: Stop, reactors: usize) -> Plane {
        Plane {
            world,
            stop,
            inboxes: (0..reactors).map(|_| Mutex::default()).collect(),
            connections: AtomicU32::new(0),
            loads: (0..reactors).map(|_| Load::default()).collect(),
            moved: AtomicU64::new(0),
            changes: AtomicUsize::new(0),
            is_gate_shut: AtomicBool::new(false),
            pauses: AtomicU64::new(0),
            quiet: AtomicUsize::new(0),
            nbd: Mutex::default(),
            mourned: Mutex::default(),
            is_ended: Mutex::new(false),
        }
    }

    /// True for the first who asks about an aggregate that has failed.
    pub(super) fn mourns_first(&self, aggregate: &str) -> bool {
        let mut mourned = self.mourned.lock();
        mourned.insert(aggregate.to_owned())
    }

    /// Counters of one more reactor's sessions.
    pub(super) fn add_counters(&self, counters: Arc<SessionMetrics>, memory: Arc<Memory>) {
        self.nbd.lock().push((counters, memory));
    }

    /// What the NBD sessions of all reactors did.
    pub(super) fn nbd(&self) -> Snapshot {
        let mut sum = Snapshot::default();
        for (counters, memory) in self.nbd.lock().iter() {
            sum += &counters.snapshot();
            sum.memory += MemorySnapshot::from(&**memory);
        }
        sum
    }

    pub(super) fn reactors(&self) -> usize {
        self.inboxes.len()
    }

    pub(super) fn wake_all(&self) {
        (0..self.reactors()).for_each(|reactor| self.world.wake(reactor));
    }

    /// Asks a reactor and waits for the answer; `None` if it ended instead. Not from a reactor's
    /// thread.
    pub(super) fn ask(&self, reactor: usize, control: Control) -> Option<Answer> {
        self.ask_all([(reactor, control)]).pop().flatten()
    }

    /// Asks all of these at once, each of its reactor, and waits for all answers, so that changes
    /// of an aggregate share a consistency point.
    pub(super) fn ask_all(
        &self,
        controls: impl IntoIterator<Item = (usize, Control)>,
    ) -> Vec<Option<Answer>> {
        let mut answers: Vec<Receiver<Answer>> = Vec::new();
        let mut asked: BTreeMap<usize, VecDeque<Asked>> = BTreeMap::new();
        for (reactor, control) in controls {
            let (reply, answer) = channel();
            answers.push(answer);
            let of_reactor = asked.entry(reactor).or_default();
            of_reactor.push_back(Asked { control, reply });
        }
        for (reactor, asked) in asked {
            self.hand(reactor, asked);
        }
        let answers = answers.into_iter();
        answers.map(|answer| answer.recv().ok()).collect()
    }

    /// Tells all reactors that a host is short of space, and does not wait.
    pub(super) fn give_back(&self) {
        for reactor in 0..self.reactors() {
            let (reply, _) = channel();
            let control = Control::GiveBack;
            self.hand(reactor, [Asked { control, reply }].into());
        }
    }

    /// Puts questions where the reactor looks in each turn; drops them if it has ended.
    fn hand(&self, reactor: usize, mut asked: VecDeque<Asked>) {
        let mut inbox = self.inbox(reactor);
        if !inbox.is_closed {
            inbox.asked.append(&mut asked);
        }
        drop(inbox);
        drop(asked);
        self.world.wake(reactor);
    }

    /// A reactor has ended: whoever waits for an answer, or asks from now on, gets none.
    pub(super) fn close(&self, reactor: usize) {
        let mut inbox = self.inbox(reactor);
        inbox.is_closed = true;
        inbox.asked.clear();
        inbox.arrivals.clear();
    }

    /// Opens an aggregate, unless all were asked to stop already.
    pub(super) fn open<T>(&self, open: impl FnOnce() -> T) -> Option<T> {
        let is_ended = self.is_ended.lock();
        (!*is_ended).then(open)
    }

    /// Asks all aggregates to stop; from now on none is opened.
    pub(super) fn end(&self, engine: &Engine) {
        let mut is_ended = self.is_ended.lock();
        *is_ended = true;
        engine.request_stop();
    }

    /// Hands a connection to a reactor.
    pub(super) fn give(&self, reactor: usize, arrival: Arrival) {
        let mut inbox = self.inbox(reactor);
        if !inbox.is_closed {
            inbox.arrivals.push_back(arrival);
        }
        drop(inbox);
        self.world.wake(reactor);
    }

    pub(super) fn take_asked(&self, reactor: usize) -> Option<Asked> {
        self.inbox(reactor).asked.pop_front()
    }

    pub(super) fn take_arrival(&self, reactor: usize) -> Option<Arrival> {
        self.inbox(reactor).arrivals.pop_front()
    }

    fn inbox(&self, reactor: usize) -> everglade_env::lock::MutexGuard<'_, Inbox> {
        self.inboxes[reactor].lock()
    }

    /// Counts a connection and says which reactor is to have it: one with the fewest, so that a
    /// client with one request at a time does not share the thread of a busy one while another has
    /// nobody. Among equals one where the fewest aggregates are at home (`homes`, by reactor),
    /// because their consistency points run there; then the first from `from` on. `None` if there
    /// are too many. Called by one reactor, the one that accepts.
    pub(super) fn admit(
        &self,
        connections_max: u32,
        from: usize,
        homes: &[usize],
    ) -> Option<usize> {
        if self.connections.load(Ordering::Acquire) >= connections_max {
            return None;
        }
        let count = self.reactors();
        let reactor = (from..from + count)
            .map(|reactor| reactor % count)
            .min_by_key(|reactor| (self.load(*reactor), homes[*reactor]))?;
        self.connections.fetch_add(1, Ordering::AcqRel);
        self.loads[reactor]
            .connections
            .fetch_add(1, Ordering::AcqRel);
        Some(reactor)
    }

    /// A connection of reactor `here` names its export: says on which reactor it stays, and counts
    /// it there. If the export is at home `here`, that is another one which has no more that stay,
    /// so that the consistency points its own writes cause run beside it and not before it;
    /// otherwise the other's clients would pay. Connections that have not named an export are not
    /// looked at: they may be probes, and those that come back together after a restart would keep
    /// each other where they happen to be.
    pub(super) fn place(&self, here: usize, is_home: bool, homes: &[usize]) -> usize {
        let away = is_home.then(|| self.settle_away(here, homes)).flatten();
        let Some(reactor) = away else {
            self.loads[here].settled.fetch_add(1, Ordering::AcqRel);
            return here;
        };
        self.loads[reactor]
            .connections
            .fetch_add(1, Ordering::AcqRel);
        self.loads[here].connections.fetch_sub(1, Ordering::AcqRel);
        self.moved.fetch_add(1, Ordering::Relaxed);
        reactor
    }

    /// Counts one more that stays on another reactor than `here`, if one has no more. Others may do
    /// the same meanwhile.
    fn settle_away(&self, here: usize, homes: &[usize]) -> Option<usize> {
        let settled = |reactor: usize| &self.loads[reactor].settled;
        let mine = settled(here).load(Ordering::Acquire);
        let count = self.reactors();
        loop {
            let (seen, _, reactor) = (here + 1..here + count)
                .map(|reactor| reactor % count)
                .map(|reactor| {
                    let seen = settled(reactor).load(Ordering::Acquire);
                    (seen, homes[reactor], reactor)
                })
                .min_by_key(|(seen, homes, _)| (*seen, *homes))?;
            if seen > mine {
                return None;
            }
            let taken = settled(reactor).compare_exchange(
                seen,
                seen + 1,
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            if taken.is_ok() {
                return Some(reactor);
            }
        }
    }

    /// Connections of all reactors.
    pub(super) fn loads(&self) -> impl Iterator<Item = u32> {
        (0..self.reactors()).map(|reactor| self.load(reactor))
    }

    /// Connections of a reactor, open or on their way.
    fn load(&self, reactor: usize) -> u32 {
        self.loads[reactor].connections.load(Ordering::Acquire)
    }

    /// Connections that went to another reactor.
    pub(super) fn moved(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }

    /// A connection has ended. `is_settled`: it had named its export.
    pub(super) fn forget_connection(&self, reactor: usize, is_settled: bool) {
        let load = &self.loads[reactor];
        load.settled
            .fetch_sub(u32::from(is_settled), Ordering::AcqRel);
        load.connections.fetch_sub(1, Ordering::AcqRel);
        self.connections.fetch_sub(1, Ordering::SeqCst);
        if self.is_gate_shut.load(Ordering::SeqCst) {
            self.world.wake(REACTOR_OF_LISTENERS);
        }
    }

    /// The reactor that accepts has paused: it is woken whenever a connection ends. It looks at the
    /// number of connections after this, so it misses none.
    pub(super) fn shut_gate(&self) {
        self.pauses.fetch_add(1, Ordering::Relaxed);
        self.is_gate_shut.store(true, Ordering::SeqCst);
    }

    pub(super) fn open_gate(&self) {
        self.is_gate_shut.store(false, Ordering::SeqCst);
    }

    /// True if no more connections are to be accepted.
    pub(super) fn is_full(&self, connections_max: u32) -> bool {
        self.connections.load(Ordering::SeqCst) >= connections_max
    }

    /// Times that accepting paused.
    pub(super) fn pauses(&self) -> u64 {
        self.pauses.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use everglade_env::WorldOptions;

    use super::*;

    #[test]
    fn a_connection_goes_to_a_reactor_with_the_fewest() {
        let world = World::new(&WorldOptions::default()).expect("a world");
        let plane = Plane::new(world, Stop::default(), 3);
        let mut next = 0;
        let mut admit = || {
            let reactor = plane.admit(7, next, &[0; 3]);
            next = reactor.map_or(next, |reactor| (reactor + 1) % 3);
            reactor
        };
        assert_eq!([admit(), admit(), admit()], [Some(0), Some(1), Some(2)]);
        assert_eq!(admit(), Some(0));
        plane.forget_connection(1, false);
        plane.forget_connection(2, false);
        // A client that looked first and came back finds the free ones, not whose turn it is.
        assert_eq!([admit(), admit()], [Some(1), Some(2)]);
        assert_eq!([admit(), admit()], [Some(1), Some(2)]);
        assert_eq!(admit(), Some(0));
        assert_eq!(admit(), None, "as many as can be");
        plane.forget_connection(2, false);
        assert_eq!(admit(), Some(2));
    }

    #[test]
    fn a_connection_leaves_the_home_of_its_export_for_a_reactor_with_no_more() {
        let world = World::new(&WorldOptions::default()).expect("a world");
        let plane = Plane::new(world, Stop::default(), 3);
        let homes = [1, 1, 0];
        let loads = || plane.loads().collect::<Vec<_>>();
        assert_eq!(plane.admit(9, 0, &homes), Some(2));
        // One that is somewhere and has not said what it wants keeps nobody.
        assert_eq!(plane.admit(9, 0, &homes), Some(0));
        assert_eq!(plane.place(0, true, &homes), 2, "where nothing is at home");
        assert_eq!(loads(), [0, 0, 2]);
        assert_eq!(plane.place(2, false, &homes), 2, "well where it is");
        for expected in [0, 1] {
            assert_eq!(plane.admit(9, 0, &homes), Some(expected));
        }
        assert_eq!(plane.place(0, true, &homes), 1);
        assert_eq!(plane.place(1, true, &homes), 0);
        assert_eq!((loads(), plane.moved()), (vec![1, 1, 2], 3));
        assert_eq!(plane.admit(9, 0, &homes), Some(0));
        assert_eq!(plane.place(0, true, &homes), 1, "it has no more without it");
        assert_eq!(plane.admit(9, 0, &homes), Some(0));
        assert_eq!(plane.place(0, true, &homes), 0, "the others have more");
        plane.forget_connection(2, true);
        plane.forget_connection(2, true);
        assert_eq!(plane.admit(9, 2, &homes), Some(2));
        assert_eq!(plane.place(2, true, &homes), 2);
        assert_eq!(loads(), [2, 2, 1]);
    }

    #[test]
    fn clients_that_come_back_together_are_not_at_home_afterwards() {
        let world = World::new(&WorldOptions::default()).expect("a world");
        let plane = Plane::new(world, Stop::default(), 2);
        let homes = [1, 1];
        // All are there before one says what it wants. The n-th wants what is at home where it is.
        let clients: Vec<_> = (0..8).filter_map(|n| plane.admit(9, n, &homes)).collect();
        let at_home = clients
            .iter()
            .filter(|here| plane.place(**here, true, &homes) == **here);
        assert_eq!(at_home.count(), 0);
        assert_eq!(plane.loads().collect::<Vec<_>>(), [4, 4]);
    }

    #[test]
    fn among_equals_a_connection_goes_where_no_aggregate_is_at_home() {
        let world = World::new(&WorldOptions::default()).expect("a world");
        let plane = Plane::new(world, Stop::default(), 3);
        let admit = || plane.admit(9, 0, &[2, 1, 0]);
        assert_eq!([admit(), admit(), admit()], [Some(2), Some(1), Some(0)]);
        assert_eq!(admit(), Some(2), "but never where more are already");
    }
}
