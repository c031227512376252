//! What clients do while they are watched: one thread for each connection, always the same number
//! of requests in flight.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::latency::Latencies;
use super::nvme::Queue;
use super::socket::{Ask, Client, Noise, Socket, Verb};
use crate::Random;
use crate::client::Address;

/// Where the next request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Anywhere, aligned to the request's size.
    Random,
    /// Directly after the last request; after the end of the range, at its beginning again.
    Sequential,
    /// The same, with so many bytes from one to the next.
    Sparse(u64),
}

/// The kind of a load's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reads.
    Read,
    /// Writes, and one flush after the last one, inside the measured time.
    Write,
    /// Writes that are durable when they are answered.
    DurableWrite,
    /// A flush after every so many writes, and one after the last.
    WriteFlush(u32),
    /// Each writer flushes each of its writes, then writes the next.
    WriteThenFlush,
}

impl Kind {
    /// True if flushes between the writes make them durable.
    fn has_flushes(self) -> bool {
        matches!(self, Kind::WriteFlush(_) | Kind::WriteThenFlush)
    }
}

/// Where a load goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// To an export of NBD.
    Nbd(Address),
    /// To a subsystem of NVMe/TCP at `IP:PORT`.
    Nvme(String),
}

impl From<&Path> for Place {
    /// An export of NBD behind a Unix socket.
    fn from(socket: &Path) -> Place {
        Place::Nbd(Address::Unix(socket.to_owned()))
    }
}

impl From<&PathBuf> for Place {
    fn from(socket: &PathBuf) -> Place {
        Place::from(socket.as_path())
    }
}

impl Place {
    /// Returns the size of an export or a subsystem in bytes.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn size_bytes(&self, name: &str) -> io::Result<u64> {
        let (client, size) = self.open(name)?;
        client.close().map(|()| size)
    }

    /// Connects to an export or a subsystem; returns its size as well.
    pub(crate) fn open(&self, name: &str) -> io::Result<(Box<dyn Client>, u64)> {
        Ok(match self {
            Place::Nbd(address) => {
                let (socket, size) = Socket::open(address, name)?;
                (Box::new(socket), size)
            }
            Place::Nvme(address) => {
                let (queue, size) = Queue::open(address, name)?;
                (Box::new(queue), size)
            }
        })
    }
}

/// A load.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// The kind of the requests.
    pub kind: Kind,
    /// Where the requests go.
    pub order: Order,
    /// Bytes of each request.
    pub block: u32,
    /// Requests in flight on each connection.
    pub depth: u32,
    /// Connections.
    pub jobs: u32,
    /// The load uses only this number of bytes at the beginning of the export.
    pub bytes: u64,
    /// The most requests in a second; `None` for a load that runs as fast as it can.
    pub pace: Option<f64>,
}

/// The result of a load.
#[derive(Debug, Default)]
pub struct Sample {
    /// Requests answered, flushes not counted.
    pub operations: u64,
    /// Time from the first request to the last answer.
    pub seconds: f64,
    /// The latency of each request except flushes: until its answer, or until it is durable
    /// ([`Load::is_durable`]).
    pub latencies: Latencies,
    /// What was answered in each second since the beginning, and the longest wait in it.
    pub by_second: Vec<Second>,
}

/// One second of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Second {
    /// Requests answered.
    pub operations: u64,
    /// The longest wait for an answer, in nanoseconds.
    pub longest: u64,
}

impl Load {
    /// One connection that goes as fast as it can, on the first bytes of an export.
    pub(super) const fn of(kind: Kind, order: Order, block: u32, depth: u32, bytes: u64) -> Load {
        Load {
            kind,
            order,
            block,
            depth,
            jobs: 1,
            bytes,
            pace: None,
        }
    }
}

impl Sample {
    /// Requests per second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
        let operations = self.operations as f64;
        operations / self.seconds
    }
}

impl Load {
    /// True if the load makes each write durable by itself. The latency of such a write ends when
    /// the client knows that it is durable: with its answer if it has FUA, otherwise with the
    /// answer to the first flush that was sent after the answer to the write.
    #[must_use]
    pub fn is_durable(&self) -> bool {
        self.kind == Kind::DurableWrite || self.kind.has_flushes()
    }

    /// Runs for a time.
    ///
    /// # Errors
    /// Those of the sockets, and error replies.
    pub fn run(
        &self,
        place: impl Into<Place>,
        export: &str,
        time: Duration,
        seed: u64,
    ) -> io::Result<Sample> {
        self.run_until(place, export, time, seed, &Arc::default())
    }

    /// The same, but no longer than until somebody says that it is enough.
    ///
    /// # Errors
    /// Those of the sockets, and error replies.
    pub fn run_until(
        &self,
        place: impl Into<Place>,
        export: &str,
        time: Duration,
        seed: u64,
        is_enough: &Arc<AtomicBool>,
    ) -> io::Result<Sample> {
        let place = place.into();
        let mut runners = Vec::new();
        for job in 0..u64::from(self.jobs) {
            let mut runner = Runner::new(self, &place, export, seed ^ job << 32)?;
            runner.is_enough = is_enough.clone();
            runners.push(runner);
        }
        let since = Instant::now();
        let threads: Vec<_> = runners
            .into_iter()
            .map(|runner| std::thread::spawn(move || runner.run(since, time)))
            .collect();
        let mut sample = Sample::default();
        for thread in threads {
            let one = match thread.join() {
                Ok(one) => one?,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            sample.operations += one.operations;
            sample.latencies.append(&one.latencies);
            sample.by_second.resize(
                one.by_second.len().max(sample.by_second.len()),
                Second::default(),
            );
            for (sum, second) in sample.by_second.iter_mut().zip(one.by_second) {
                sum.operations += second.operations;
                sum.longest = sum.longest.max(second.longest);
            }
        }
        sample.seconds = since.elapsed().as_secs_f64();
        Ok(sample)
    }

    /// Runs on one connection until so many requests were answered, however long that takes.
    ///
    /// # Errors
    /// Those of the socket, and error replies.
    pub fn run_count(
        &self,
        place: impl Into<Place>,
        export: &str,
        count: u64,
        seed: u64,
    ) -> io::Result<Sample> {
        let mut runner = Runner::new(self, &place.into(), export, seed)?;
        runner.left = Some(count);
        let since = Instant::now();
        let mut sample = runner.run(since, Duration::from_secs(3600))?;
        sample.seconds = since.elapsed().as_secs_f64();
        Ok(sample)
    }
}

/// Writes all of an export once, and flushes.
///
/// # Errors
/// Those of the socket, and error replies.
pub fn fill(place: impl Into<Place>, export: &str, bytes: u64) -> io::Result<()> {
    once(&whole(bytes), bytes / (1 << 20), place, export)
}

/// Writes 4 KiB at every multiple of `step` in an export, and flushes.
///
/// # Errors
/// Those of the socket, and error replies.
pub fn sparse(place: impl Into<Place>, export: &str, bytes: u64, step: u64) -> io::Result<()> {
    let load = Load {
        order: Order::Sparse(step),
        block: 4096,
        depth: 32,
        ..whole(bytes)
    };
    once(&load, bytes / step, place, export)
}

/// Writes 4 KiB at so many random places of the first bytes of an export, and flushes.
///
/// # Errors
/// Those of the socket, and error replies.
pub fn scatter(
    place: impl Into<Place>,
    export: &str,
    bytes: u64,
    count: u64,
    seed: u64,
) -> io::Result<()> {
    let load = Load {
        order: Order::Random,
        block: 4096,
        depth: 32,
        ..whole(bytes)
    };
    load.run_count(place, export, count, seed).map(drop)
}

/// Reads the first bytes of an export once.
///
/// # Errors
/// Those of the socket, and error replies.
pub fn read_all(place: impl Into<Place>, export: &str, bytes: u64) -> io::Result<()> {
    let load = Load {
        kind: Kind::Read,
        ..whole(bytes)
    };
    once(&load, bytes / u64::from(load.block), place, export)
}

fn whole(bytes: u64) -> Load {
    Load {
        kind: Kind::Write,
        order: Order::Sequential,
        block: 1 << 20,
        depth: 8,
        jobs: 1,
        bytes,
        pace: None,
    }
}

fn once(load: &Load, count: u64, place: impl Into<Place>, export: &str) -> io::Result<()> {
    load.run_count(place, export, count, 0).map(drop)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// One connection.
struct Runner {
    load: Load,
    socket: Box<dyn Client>,
    random: Random,
    noise: Noise,
    next: u64,
    /// Requests to send before it is over, if time is not all that counts.
    left: Option<u64>,
    is_enough: Arc<AtomicBool>,
    /// By cookie: when it was sent, and whether it is a flush.
    flight: Vec<(Instant, bool)>,
    free: Vec<u32>,
    /// Writes that were answered and that no flush covers yet: when each was sent, first answer
    /// first.
    uncovered: VecDeque<Instant>,
    /// By cookie of a flush: when the writes that it covers were sent.
    covered: Vec<Vec<Instant>>,
    since_flush: u32,
}

impl Runner {
    fn new(load: &Load, place: &Place, export: &str, seed: u64) -> io::Result<Runner> {
        let (socket, size) = place.open(export)?;
        if size < load.bytes {
            return Err(io::Error::other(format!("{export} has {size} bytes")));
        }
        Ok(Runner {
            load: *load,
            socket,
            noise: Noise::new(seed),
            random: Random::new(seed),
            next: 0,
            left: None,
            is_enough: Arc::default(),
            flight: vec![(Instant::now(), false); load.depth as usize],
            free: (0..load.depth).rev().collect(),
            uncovered: VecDeque::new(),
            covered: vec![Vec::new(); load.depth as usize],
            since_flush: 0,
        })
    }

    fn run(mut self, since: Instant, time: Duration) -> io::Result<Sample> {
        if self.load.order == Order::Sequential {
            // Where an earlier round ended does not matter, but not always the same place.
            self.next = self
                .random
                .below(self.load.bytes / u64::from(self.load.block));
            if self.left.is_some() {
                self.next = 0;
            }
        }
        let mut sample = Sample::default();
        let (mut sent, mut is_over) = (0u64, false);
        // Those whose write was answered and who flush next.
        let mut to_flush = 0;
        loop {
            let now = Instant::now();
            is_over |= now >= since + time || self.left == Some(0);
            is_over |= self.is_enough.load(Ordering::Relaxed);
            let may_send = self.load.pace.map_or(u64::MAX, |pace| {
                let due = (now - since).as_secs_f64() * pace;
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "small"
                )]
                let due = due as u64 + 1;
                due.saturating_sub(sent)
            });
            let mut queued = 0;
            while let Some(cookie) = self.free.pop() {
                if to_flush > 0 {
                    to_flush -= 1;
                    self.queue_flush(cookie, now);
                } else if is_over || queued >= may_send || self.left == Some(0) {
                    self.free.push(cookie);
                    break;
                } else {
                    self.queue(cookie, now);
                    queued += 1;
                }
            }
            sent += queued;
            self.socket.send(&self.noise)?;
            if self.free.len() == self.flight.len() {
                if is_over {
                    break;
                }
                // Nothing is in flight because nothing is due.
                std::thread::sleep(Duration::from_micros(200));
                continue;
            }
            to_flush += self.take_replies(since, &mut sample)?;
        }
        if matches!(self.load.kind, Kind::Write | Kind::WriteFlush(_)) {
            self.queue_flush(0, Instant::now());
            self.socket.send(&self.noise)?;
            self.take_replies(since, &mut sample)?;
        }
        sample.seconds = since.elapsed().as_secs_f64();
        self.socket.close()?;
        Ok(sample)
    }

    /// Returns how many writes are to be flushed by their writers.
    fn take_replies(&mut self, since: Instant, sample: &mut Sample) -> io::Result<u32> {
        let (load, flight, free) = (&self.load, &self.flight, &mut self.free);
        let (uncovered, covered) = (&mut self.uncovered, &mut self.covered);
        let mut answered: Option<Instant> = None;
        let mut to_flush = 0;
        self.socket.receive(&mut |cookie| {
            let now = *answered.get_or_insert_with(Instant::now);
            free.push(cookie);
            let (begun, is_flush) = flight[cookie as usize];
            if is_flush {
                for sent in covered[cookie as usize].drain(..) {
                    sample.latencies.push(nanos(now - sent));
                }
                return 0;
            }
            if load.kind == Kind::WriteThenFlush {
                to_flush += 1;
            }
            let took = nanos(now - begun);
            sample.operations += 1;
            if load.kind.has_flushes() {
                uncovered.push_back(begun);
            } else {
                sample.latencies.push(took);
            }
            let second = usize::try_from((now - since).as_secs()).unwrap_or(0);
            if sample.by_second.len() <= second {
                sample.by_second.resize(second + 1, Second::default());
            }
            sample.by_second[second].operations += 1;
            let longest = &mut sample.by_second[second].longest;
            *longest = (*longest).max(took);
            if load.kind == Kind::Read {
                load.block as usize
            } else {
                0
            }
        })?;
        Ok(to_flush)
    }

    fn queue(&mut self, cookie: u32, now: Instant) {
        if let Kind::WriteFlush(group) = self.load.kind {
            if self.since_flush == group {
                self.since_flush = 0;
                return self.queue_flush(cookie, now);
            }
            self.since_flush += 1;
        }
        let block = u64::from(self.load.block);
        let places = self.load.bytes / block;
        let place = match self.load.order {
            Order::Random => self.random.below(places),
            Order::Sequential => {
                self.next += 1;
                (self.next - 1) % places
            }
            Order::Sparse(step) => {
                self.next += 1;
                (self.next - 1) * (step / block) % places
            }
        };
        let verb = match self.load.kind {
            Kind::Read => Verb::Read,
            Kind::DurableWrite => Verb::DurableWrite,
            _ => Verb::Write,
        };
        let ask = Ask {
            verb,
            cookie,
            offset: place * block,
            length: self.load.block,
        };
        if let Some(left) = &mut self.left {
            *left -= 1;
        }
        self.flight[cookie as usize] = (now, false);
        let from = Noise::part(self.load.block, &mut self.random);
        self.socket.queue(ask, from);
    }

    fn queue_flush(&mut self, cookie: u32, now: Instant) {
        self.flight[cookie as usize] = (now, true);
        // A writer that flushes by itself waits for its own flush.
        let count = match self.load.kind {
            Kind::WriteThenFlush => self.uncovered.len().min(1),
            _ => self.uncovered.len(),
        };
        self.covered[cookie as usize].extend(self.uncovered.drain(..count));
        let ask = Ask {
            verb: Verb::Flush,
            cookie,
            offset: 0,
            length: 0,
        };
        self.socket.queue(ask, 0);
    }
}

#[cfg(test)]
mod tests;
