//! Load: several connections to one LUN, each with many requests in flight, all noted in one
//! history.
//!
//! A connection has two threads. The sender makes up a request, notes it in the history, and only
//! then sends it; the receiver notes a reply only after it was read. So the history never believes
//! more than the server promised. Both end when the server does.
//!
//! Half of all requests fall into a small part of the LUN, so that blocks are overwritten while
//! their older versions are still on the way.

mod mix;
mod window;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::client::Command;

use crate::client::{Address, Ask, Connection, Receiver, Sender};
use crate::history::{History, Kind, Violation};
use crate::random::Random;
use crate::stamp::{self, Found, SECTOR};
use mix::{Chosen, Mix};
use window::{Pending, Window};

/// A history that connections share.
pub type Shared = Arc<Mutex<History>>;

/// Whoever panicked while holding it has failed the run already.
pub(crate) fn lock(history: &Shared) -> MutexGuard<'_, History> {
    history.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How hard.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Connections.
    pub connections: usize,
    /// Requests in flight on each.
    pub window: usize,
    /// Longest write in sectors.
    pub sectors_max: u64,
    /// Of the requests.
    pub seed: u64,
}

/// What was done.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Good replies to writes, trims, writes of zeroes, reads and flushes.
    pub writes: u64,
    /// Trims.
    pub trims: u64,
    /// Writes of zeroes.
    pub zeroes: u64,
    /// Reads, judged as well.
    pub reads: u64,
    /// Flushes.
    pub flushes: u64,
    /// Forced ones among the writes, trims and zeroes.
    pub forced: u64,
    /// Good replies by protocol: NBD, NVMe/TCP, iSCSI.
    pub protocols: [u64; 3],
    /// Requests that were never answered.
    pub unanswered: u64,
    /// Error replies.
    pub errors: u64,
    /// What reads found and must not have.
    pub violations: Vec<Violation>,
}

impl Counts {
    /// Good replies.
    #[must_use]
    pub fn answered(&self) -> u64 {
        self.writes + self.trims + self.zeroes + self.reads + self.flushes
    }

    /// Adds what another connection did.
    pub fn add(&mut self, other: Counts) {
        self.writes += other.writes;
        self.trims += other.trims;
        self.zeroes += other.zeroes;
        self.reads += other.reads;
        self.flushes += other.flushes;
        self.forced += other.forced;
        for (sum, more) in self.protocols.iter_mut().zip(other.protocols) {
            *sum += more;
        }
        self.unanswered += other.unanswered;
        self.errors += other.errors;
        self.violations.extend(other.violations);
    }

    fn count(&mut self, pending: &Pending) {
        let counter = match pending.command {
            Command::Write => &mut self.writes,
            Command::Trim => &mut self.trims,
            Command::WriteZeroes => &mut self.zeroes,
            Command::Read => &mut self.reads,
            Command::Flush => &mut self.flushes,
        };
        *counter += 1;
        self.forced += u64::from(pending.fua);
    }
}

/// Load that is running.
pub struct Load {
    threads: Vec<JoinHandle<Counts>>,
    windows: Vec<Arc<Window>>,
}

impl Load {
    /// Connects to every address in turn and starts.
    ///
    /// # Errors
    /// If a connection cannot be opened.
    pub fn start(
        addresses: &[Address],
        export: &str,
        history: &Shared,
        options: Options,
    ) -> io::Result<Load> {
        let mut load = Load {
            threads: Vec::new(),
            windows: Vec::new(),
        };
        let mut random = Random::new(options.seed);
        for number in 0..options.connections {
            let address = &addresses[number % addresses.len()];
            let connection = Connection::open(address, export)?;
            let window = Arc::new(Window::new(options.window));
            let mix = Mix::new(lock(history).len(), options.sectors_max, random.number());
            let Connection {
                sender, receiver, ..
            } = connection;
            let (theirs, of) = (Arc::clone(&window), Arc::clone(history));
            std::thread::spawn(move || send(sender, mix, &theirs, &of));
            let (theirs, of) = (Arc::clone(&window), Arc::clone(history));
            let receive = move || receive(receiver, &theirs, &of);
            load.threads.push(std::thread::spawn(receive));
            load.windows.push(window);
        }
        Ok(load)
    }

    /// Lets what is in flight be answered, then ends.
    #[must_use]
    pub fn stop(self) -> Counts {
        self.windows.iter().for_each(|window| window.close());
        self.join()
    }

    /// Waits for the end of the server.
    #[must_use]
    pub fn join(self) -> Counts {
        let mut counts = Counts::default();
        for thread in self.threads {
            match thread.join() {
                Ok(of_one) => counts.add(of_one),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        counts
    }
}

fn send(mut sender: Sender, mut mix: Mix, window: &Window, history: &Shared) {
    let mut payload = Vec::new();
    while window.wait_for_room() {
        let Chosen {
            command,
            first,
            count,
            fua,
        } = mix.next();
        let fua = fua && sender.can_force(command);
        let ticket = {
            let mut history = lock(history);
            match command {
                Command::Write => history.begin(Kind::Write, first, count, fua),
                Command::Trim | Command::WriteZeroes => {
                    history.begin(Kind::Zeroes, first, count, fua)
                }
                Command::Read => history.begin_read(),
                Command::Flush => history.begin_flush(),
            }
        };
        payload.clear();
        if command == Command::Write {
            payload.resize(bytes(count), 0);
            stamp::fill(ticket, first, &mut payload);
        }
        let length = u32::try_from(bytes(count)).expect("at most 1 MiB");
        let cookie = window.enter(Pending {
            command,
            first,
            length,
            fua,
            ticket,
        });
        let ask = Ask {
            command,
            fua,
            cookie,
            offset: first * SECTOR as u64,
            length,
        };
        if sender.send(ask, &payload).is_err() {
            // The receiver counts what stays unanswered. It may be nothing: a server that refuses a
            // write may say so, and close, before it has taken the payload.
            window.close();
            return;
        }
    }
}

fn receive(mut receiver: Receiver, window: &Window, history: &Shared) -> Counts {
    let mut counts = Counts::default();
    while window.wait_for_work() {
        let mut pending = None;
        let answer = receiver.receive(|cookie| {
            pending = window.leave(cookie);
            pending.as_ref().map(Pending::reply_bytes)
        });
        let (Ok(answer), Some(pending)) = (answer, pending.as_ref()) else {
            counts.unanswered += u64::from(pending.is_some());
            break;
        };
        if answer.error != 0 {
            counts.errors += 1;
            continue;
        }
        counts.count(pending);
        counts.protocols[receiver.protocol() as usize] += 1;
        let found: Vec<Found> = (pending.first..)
            .zip(answer.data.chunks_exact(SECTOR))
            .map(|(sector, bytes)| stamp::identify(sector, bytes))
            .collect();
        let mut history = lock(history);
        match pending.command {
            Command::Read => {
                let violations = history.end_read(pending.ticket, pending.first, &found);
                counts.violations.extend(violations);
            }
            Command::Flush => history.end_flush(pending.ticket),
            Command::Write | Command::Trim | Command::WriteZeroes => history.end(pending.ticket),
        }
    }
    counts.unanswered += window.end();
    counts
}

fn bytes(sectors: u64) -> usize {
    usize::try_from(sectors).expect("a request fits in memory") * SECTOR
}
