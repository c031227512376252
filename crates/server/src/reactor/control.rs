//! Messages from other threads to reactors, and what reactors share about stopping.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};

use everglade_engine::admin;
use everglade_env::World;
use everglade_target::Export;

use super::connection::Socket;
use crate::Stop;
use crate::listen::Listeners;

/// What a reactor is asked from outside.
pub(super) enum Control {
    /// Change what an aggregate holds. Answered when it is durable.
    Change(u32, admin::Change),
    /// List what clients can attach to.
    Exports,
    /// Accept clients from now on.
    Listen(Listeners),
}

/// A reactor's answer.
pub(super) enum Answer {
    Changed(Result<(), admin::Error>),
    Exports(Vec<Export>),
    Listening,
}

impl Answer {
    pub(super) fn changed(self) -> Result<(), admin::Error> {
        match self {
            Answer::Changed(result) => result,
            _ => panic!("a change is answered by its result"),
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
    sockets: VecDeque<Socket>,
}

/// What all reactor threads share besides the engine.
pub(super) struct Plane {
    pub(super) world: World,
    pub(super) stop: Stop,
    inboxes: Vec<Mutex<Inbox>>,
    /// Connections of all reactors, open or on their way.
    pub(super) connections: AtomicU32,
    /// Reactors whose sessions have ended after a stop.
    pub(super) quiet: AtomicUsize,
    /// Aggregates whose failure was logged.
    mourned: Mutex<BTreeSet<String>>,
}

impl Plane {
    pub(super) fn new(world: World, stop: Stop, reactors: usize) -> Plane {
        Plane {
            world,
            stop,
            inboxes: (0..reactors).map(|_| Mutex::default()).collect(),
            connections: AtomicU32::new(0),
            quiet: AtomicUsize::new(0),
            mourned: Mutex::default(),
        }
    }

    /// True for the first who asks about an aggregate that has failed.
    pub(super) fn mourns_first(&self, aggregate: &str) -> bool {
        let mut mourned = self.mourned.lock().unwrap_or_else(PoisonError::into_inner);
        mourned.insert(aggregate.to_owned())
    }

    pub(super) fn reactors(&self) -> usize {
        self.inboxes.len()
    }

    pub(super) fn wake_all(&self) {
        (0..self.reactors()).for_each(|reactor| self.world.wake(reactor));
    }

    /// Asks a running reactor and waits for the answer. Not from a reactor's thread.
    pub(super) fn ask(&self, reactor: usize, control: Control) -> Answer {
        let (reply, answer): (Sender<Answer>, Receiver<Answer>) = channel();
        self.inbox(reactor)
            .asked
            .push_back(Asked { control, reply });
        self.world.wake(reactor);
        answer.recv().expect("reactors answer before they end")
    }

    /// Hands a connection to a reactor.
    pub(super) fn give(&self, reactor: usize, socket: Socket) {
        self.inbox(reactor).sockets.push_back(socket);
        self.world.wake(reactor);
    }

    pub(super) fn take_asked(&self, reactor: usize) -> Option<Asked> {
        self.inbox(reactor).asked.pop_front()
    }

    pub(super) fn take_socket(&self, reactor: usize) -> Option<Socket> {
        self.inbox(reactor).sockets.pop_front()
    }

    fn inbox(&self, reactor: usize) -> std::sync::MutexGuard<'_, Inbox> {
        self.inboxes[reactor]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a connection; false if there are too many.
    pub(super) fn admit(&self, connections_max: u32) -> bool {
        let before = self.connections.fetch_add(1, Ordering::AcqRel);
        if before >= connections_max {
            self.connections.fetch_sub(1, Ordering::AcqRel);
        }
        before < connections_max
    }

    pub(super) fn forget_connection(&self) {
        self.connections.fetch_sub(1, Ordering::AcqRel);
    }
}
