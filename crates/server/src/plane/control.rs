//! Messages from other threads to reactors, and the state of a stop that reactors share.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use everglade_engine::{Engine, admin};
use everglade_env::lock::{Mutex, MutexGuard};
use everglade_env::{Nanos, World};
use everglade_target::sessions::{ByLun, Facts};
use everglade_target::{Export, Extent};

use super::placement::Placement;
use crate::fronts::Listeners;
use crate::fronts::front::{Counted, Counts, Moving};
use crate::fronts::socket::Socket;
use crate::{StartError, Stop};

/// Requests of other threads to a reactor.
pub(crate) enum Control {
    /// Change the contents of an aggregate. The answer comes when the change is durable or has
    /// failed. Without an answer, no reactor has begun the change.
    Change(u32, admin::Change),
    /// Give a sign of life.
    Ping,
    /// Release space that is not needed soon, for hosts that are short of it.
    GiveBack,
    /// List the exports.
    Exports,
    /// Describe the sessions that have an export open.
    Sessions,
    /// Tell what the clients of each LUN were answered.
    Tallies,
    /// Accept clients from now on.
    Listen(Listeners),
    /// Compare a part of two images.
    Compare(Comparison),
}

/// Longest wait for the counters of all reactors.
const TALLIES_WITHIN: Duration = Duration::from_secs(1);

/// A part of a comparison.
pub(crate) struct Comparison {
    /// The newer image: `volume/lun` or `volume/lun@snapshot`.
    pub(crate) lun: String,
    /// Name of the older image: a snapshot of the same volume.
    pub(crate) since: String,
    /// First byte.
    pub(crate) offset: u64,
    /// Bytes, cut at the end of the newer image.
    pub(crate) length: u64,
}

/// An answer.
pub(crate) struct Compared {
    /// Bytes of the newer image.
    pub(crate) size_bytes: u64,
    /// Extents from the offset on; none if the offset is at or beyond the end.
    pub(crate) extents: Vec<Extent>,
}

/// Times of a change; the first is when the reactor received it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Timing {
    /// Time of execution. Images frozen for the change, such as a snapshot's, are of this moment.
    pub(crate) executed: Nanos,
    /// Time at which the change was on stable storage.
    pub(crate) durable: Nanos,
}

/// A reactor's answer.
pub(crate) enum Answer {
    Changed(Result<Timing, admin::Error>),
    Exports(Vec<Export>),
    Sessions(Vec<Described>),
    Tallies(ByLun),
    Listening,
    Alive,
    Compared(Result<Compared, everglade_target::Error>),
}

impl Answer {
    pub(crate) fn changed(self) -> Result<Timing, admin::Error> {
        match self {
            Answer::Changed(result) => result,
            _ => panic!("a change is answered by its result"),
        }
    }

    pub(crate) fn compared(self) -> Result<Compared, everglade_target::Error> {
        match self {
            Answer::Compared(result) => result,
            _ => panic!("a comparison is answered by what differs"),
        }
    }

    pub(crate) fn sessions(self) -> Vec<Described> {
        match self {
            Answer::Sessions(sessions) => sessions,
            _ => panic!("asking for sessions is answered by sessions"),
        }
    }

    pub(crate) fn tallies(self) -> ByLun {
        match self {
            Answer::Tallies(tallies) => tallies,
            _ => panic!("asking for tallies is answered by tallies"),
        }
    }

    pub(crate) fn exports(self) -> Vec<Export> {
        match self {
            Answer::Exports(exports) => exports,
            _ => panic!("asking for exports is answered by exports"),
        }
    }
}

/// A session of a reactor.
pub(crate) struct Described {
    /// Number of the reactor.
    pub(crate) reactor: usize,
    /// The protocol, for people.
    pub(crate) protocol: &'static str,
    /// The rest.
    pub(crate) facts: Facts,
}

/// A question with its way back.
pub(crate) struct Asked {
    pub(crate) control: Control,
    pub(crate) reply: Sender<Answer>,
}

/// A connection on its way to a reactor: a new one, or one with a session of another reactor.
pub(crate) struct Arrival {
    pub(crate) socket: Socket,
    /// Number of its protocol.
    pub(crate) front: usize,
    pub(crate) session: Option<Moving>,
}

#[derive(Default)]
struct Inbox {
    asked: VecDeque<Asked>,
    arrivals: VecDeque<Arrival>,
    /// The reactor has ended and will answer no more.
    is_closed: bool,
}

/// The reactor that accepts connections.
pub(crate) const REACTOR_OF_LISTENERS: usize = 0;

/// State that all reactor threads share besides the engine.
pub(crate) struct Plane {
    pub(crate) world: World,
    pub(crate) stop: Stop,
    inboxes: Vec<Mutex<Inbox>>,
    /// The distribution of connections over reactors.
    pub(crate) placement: Placement,
    /// Changes that reactors have taken and not answered yet. A reactor counts a change here first,
    /// and takes it only if the engine has not stopped after that. Reactors end only if the count
    /// is zero after the engine has stopped. So the engine answers every change that it receives.
    pub(crate) changes: AtomicUsize,
    /// Reactors whose sessions have ended after a stop.
    pub(crate) quiet: AtomicUsize,
    /// How often sessions were asked to look at what others did.
    pub(super) nudges: AtomicU64,
    /// Counters of the sessions of each reactor, with the name of their protocol.
    counters: Mutex<Vec<(&'static str, Arc<dyn Counted>)>>,
    /// The last answers of the reactors about what clients of LUNs were answered.
    tallies: Mutex<Vec<ByLun>>,
    /// Aggregates whose failure was logged.
    mourned: Mutex<BTreeSet<String>>,
    /// True once the aggregates were asked to stop. Held while one is opened, because one that was
    /// opened later would never hear of the stop.
    is_ended: Mutex<bool>,
}

impl Plane {
    pub(crate) fn new(world: World, stop: Stop, reactors: usize) -> Plane {
        Plane {
            world,
            stop,
            inboxes: (0..reactors).map(|_| Mutex::default()).collect(),
            placement: Placement::new(reactors),
            changes: AtomicUsize::new(0),
            quiet: AtomicUsize::new(0),
            nudges: AtomicU64::new(0),
            counters: Mutex::default(),
            tallies: Mutex::default(),
            mourned: Mutex::default(),
            is_ended: Mutex::new(false),
        }
    }

    /// Returns true for the first call about an aggregate that has failed.
    pub(crate) fn mourns_first(&self, aggregate: &str) -> bool {
        let mut mourned = self.mourned.lock();
        mourned.insert(aggregate.to_owned())
    }

    /// Counters of one more reactor's sessions of a protocol.
    pub(crate) fn add_counters(&self, protocol: &'static str, counters: Arc<dyn Counted>) {
        self.counters.lock().push((protocol, counters));
    }

    /// Returns the counters of all reactors' sessions, by protocol.
    pub(crate) fn counts(&self) -> Vec<(&'static str, Counts)> {
        let mut sums: Vec<(&'static str, Counts)> = Vec::new();
        for (protocol, counters) in self.counters.lock().iter() {
            let counts = counters.counts();
            match sums.iter_mut().find(|(known, _)| known == protocol) {
                Some((_, sum)) => *sum += &counts,
                None => sums.push((protocol, counts)),
            }
        }
        sums
    }

    /// Notes that a connection has ended. `is_settled`: it had named its export.
    pub(crate) fn forget_connection(&self, reactor: usize, front: usize, is_settled: bool) {
        if self.placement.forget(reactor, front, is_settled) {
            self.world.wake(REACTOR_OF_LISTENERS);
        }
    }

    pub(crate) fn reactors(&self) -> usize {
        self.inboxes.len()
    }

    pub(crate) fn wake_all(&self) {
        (0..self.reactors()).for_each(|reactor| self.world.wake(reactor));
    }

    /// Asks all sessions to look at what others did, without waiting for the next second.
    pub(crate) fn nudge(&self) {
        self.nudges.fetch_add(1, Ordering::AcqRel);
        self.wake_all();
    }

    /// Asks a reactor and waits for the answer; `None` if it ended instead. Not from a reactor's
    /// thread.
    pub(crate) fn ask(&self, reactor: usize, control: Control) -> Option<Answer> {
        self.ask_all([(reactor, control)]).pop().flatten()
    }

    /// Asks the first reactor while the daemon starts.
    pub(crate) fn ask_starting(&self, control: Control) -> Result<Answer, StartError> {
        let stopped = || StartError::Engine("stopped while starting".to_owned());
        self.ask(0, control).ok_or_else(stopped)
    }

    /// Asks all of these at once, each of its reactor, and waits for all answers, so that changes
    /// of an aggregate share a consistency point.
    pub(crate) fn ask_all(
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

    /// Returns what the clients of each LUN were answered, over all protocols. A reactor that does
    /// not answer within [`TALLIES_WITHIN`] counts with its last answer, so that metrics do not
    /// depend on it.
    pub(crate) fn tallies(&self) -> ByLun {
        let ask = |reactor: usize| {
            let (reply, answer) = channel();
            let control = Control::Tallies;
            self.hand(reactor, [Asked { control, reply }].into());
            answer
        };
        let answers: Vec<Receiver<Answer>> = (0..self.reactors()).map(ask).collect();
        let until = Instant::now() + TALLIES_WITHIN;
        let mut known = self.tallies.lock();
        known.resize_with(answers.len(), ByLun::new);
        let mut all = ByLun::new();
        for (answer, last) in answers.iter().zip(known.iter_mut()) {
            let rest = until.saturating_duration_since(Instant::now());
            if let Ok(answer) = answer.recv_timeout(rest) {
                *last = answer.tallies();
            }
            for (lun, tally) in last.iter() {
                all.entry(*lun).or_default().add_all(tally);
            }
        }
        all
    }

    /// Tells all reactors that a host is short of space, and does not wait.
    pub(crate) fn give_back(&self) {
        for reactor in 0..self.reactors() {
            let (reply, _) = channel();
            let control = Control::GiveBack;
            self.hand(reactor, [Asked { control, reply }].into());
        }
    }

    /// Queues questions for a reactor, which reads the queue in each turn. Drops them if it has
    /// ended.
    fn hand(&self, reactor: usize, mut asked: VecDeque<Asked>) {
        let mut inbox = self.inbox(reactor);
        if !inbox.is_closed {
            inbox.asked.append(&mut asked);
        }
        drop(inbox);
        drop(asked);
        self.world.wake(reactor);
    }

    /// Closes the queue of a reactor that has ended: callers that wait or ask later get no answer.
    pub(crate) fn close(&self, reactor: usize) {
        let mut inbox = self.inbox(reactor);
        inbox.is_closed = true;
        inbox.asked.clear();
        inbox.arrivals.clear();
    }

    /// Opens an aggregate, unless all were asked to stop already.
    pub(crate) fn open<T>(&self, open: impl FnOnce() -> T) -> Option<T> {
        let is_ended = self.is_ended.lock();
        (!*is_ended).then(open)
    }

    /// Asks all aggregates to stop; from now on none is opened.
    pub(crate) fn end(&self, engine: &Engine) {
        let mut is_ended = self.is_ended.lock();
        *is_ended = true;
        engine.request_stop();
    }

    /// Hands a connection to a reactor.
    pub(crate) fn give(&self, reactor: usize, arrival: Arrival) {
        let mut inbox = self.inbox(reactor);
        if !inbox.is_closed {
            inbox.arrivals.push_back(arrival);
        }
        drop(inbox);
        self.world.wake(reactor);
    }

    pub(crate) fn take_asked(&self, reactor: usize) -> Option<Asked> {
        self.inbox(reactor).asked.pop_front()
    }

    pub(crate) fn take_arrival(&self, reactor: usize) -> Option<Arrival> {
        self.inbox(reactor).arrivals.pop_front()
    }

    fn inbox(&self, reactor: usize) -> MutexGuard<'_, Inbox> {
        self.inboxes[reactor].lock()
    }
}
