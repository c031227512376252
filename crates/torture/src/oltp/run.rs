//! An open loop: each request goes out when it is due, whether or not the others were answered
//! (N-03). Its latency counts from when it was due.
//!
//! A loop that waits for answers asks less often when the server is slow, and so misses the
//! latencies that users would have had. Here requests that are due and find no room on the
//! connection wait in the client, and that is part of their latency. When more than
//! three seconds of requests wait, the rate is more than the server can do.

use std::collections::VecDeque;
use std::io;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::generator::{BYTES_MIN, Generator};
use super::stream::{BLOCK_BYTES, Request};
use crate::Random;
use crate::versus::latency::{Latencies, Points};
use crate::versus::load::Place;
use crate::versus::socket::{Ask, Client, Noise, Verb};

/// Requests of this time may wait before the rate is too much.
const PATIENCE: Duration = Duration::from_secs(3);
/// A server that answers nothing for so long hangs.
const SILENCE: Duration = Duration::from_secs(120);
/// Requests on the way on one connection; a queue of NVMe/TCP takes one more.
const DEPTH: u32 = 127;
/// The kernel wakes a thread up to 50 µs late, unless it is asked not to.
const TIMER_SLACK: u64 = 1000;

/// A load at one rate.
#[derive(Clone, Debug)]
pub struct Run {
    /// The server.
    pub place: Place,
    /// The export or the subsystem.
    pub export: String,
    /// Bytes that are used; `None` for all.
    pub bytes: Option<u64>,
    /// Requests per second.
    pub rate: f64,
    /// Requests that are due before this do not count.
    pub warm_up: Duration,
    /// How long requests count.
    pub time: Duration,
    /// Connections, each with its part of the rate.
    pub connections: u32,
    /// The same seed gives the same requests.
    pub seed: u64,
}

/// The result of a run.
#[derive(Debug, Default)]
pub struct Measured {
    /// Requests that counted.
    pub operations: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Latencies of reads.
    pub reads: Latencies,
    /// Latencies of writes.
    pub writes: Latencies,
    /// The time in which they were due, in seconds.
    pub seconds: f64,
    /// The server does not keep up: requests were dropped.
    pub is_overloaded: bool,
}

impl Measured {
    /// Mean latency of all requests.
    #[must_use]
    pub fn mean(&self) -> Duration {
        let count = self.reads.count() + self.writes.count();
        Duration::from_nanos((self.reads.sum() + self.writes.sum()) / count.max(1))
    }

    /// Distribution of all requests.
    #[must_use]
    pub fn points(&self) -> Points {
        let mut all = Latencies::default();
        all.append(&self.reads);
        all.append(&self.writes);
        all.points()
    }

    /// Requests per second.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    pub fn rate(&self) -> f64 {
        self.operations as f64 / self.seconds.max(1e-9)
    }
}

impl Run {
    /// Runs.
    ///
    /// # Errors
    /// Those of the sockets, error replies, and an export that is too small.
    pub fn run(&self) -> io::Result<Measured> {
        let noise = Arc::new(Noise::new(self.seed));
        let mut users = Vec::new();
        for connection in 0..self.connections.max(1) {
            users.push(User::new(self, connection, noise.clone())?);
        }
        let since = Instant::now();
        let threads: Vec<_> = users
            .into_iter()
            .map(|user| std::thread::spawn(move || user.run(since)))
            .collect();
        let mut sum = Measured::default();
        for thread in threads {
            let one = match thread.join() {
                Ok(one) => one?,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            sum.operations += one.operations;
            sum.bytes += one.bytes;
            sum.reads.append(&one.reads);
            sum.writes.append(&one.writes);
            sum.is_overloaded |= one.is_overloaded;
            sum.seconds = sum.seconds.max(one.seconds);
        }
        Ok(sum)
    }
}

/// One connection.
struct User {
    socket: Box<dyn Client>,
    generator: Generator,
    noise: Arc<Noise>,
    random: Random,
    warm_up: Duration,
    end: Duration,
    backlog_max: usize,
    /// Due, and no room for them.
    backlog: VecDeque<(Duration, Request)>,
    /// By cookie.
    flight: Vec<(Duration, Request)>,
    free: Vec<u32>,
    measured: Measured,
}

impl User {
    fn new(run: &Run, connection: u32, noise: Arc<Noise>) -> io::Result<User> {
        let (mut socket, size) = run.place.open(&run.export)?;
        socket.set_nonblocking()?;
        let bytes = run.bytes.unwrap_or(size);
        if bytes > size || bytes < BYTES_MIN {
            return Err(io::Error::other(format!(
                "{} has {size} bytes; {bytes} are to be used, and at least {BYTES_MIN} are needed",
                run.export
            )));
        }
        Ok(User::with(socket, bytes, run, connection, noise))
    }

    fn with(
        socket: Box<dyn Client>,
        bytes: u64,
        run: &Run,
        connection: u32,
        noise: Arc<Noise>,
    ) -> User {
        let rate = run.rate / f64::from(run.connections.max(1));
        let seed = run.seed ^ u64::from(connection) << 48;
        let request = Generator::new(bytes, rate, seed).take();
        let waiting = rate * PATIENCE.as_secs_f64();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rate of requests"
        )]
        let backlog_max = waiting as usize + 64;
        User {
            socket,
            generator: Generator::new(bytes, rate, seed),
            noise,
            random: Random::new(seed),
            warm_up: run.warm_up,
            end: run.warm_up + run.time,
            backlog_max,
            backlog: VecDeque::new(),
            flight: vec![request; DEPTH as usize],
            free: (0..DEPTH).rev().collect(),
            measured: Measured {
                seconds: run.time.as_secs_f64(),
                ..Measured::default()
            },
        }
    }

    fn run(mut self, since: Instant) -> io::Result<Measured> {
        // Where the kernel refuses, requests are a little later.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(TIMER_SLACK));
        let mut heard = Duration::ZERO;
        loop {
            let now = since.elapsed();
            if now > heard + SILENCE && self.free.len() < self.flight.len() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.collect(now);
            // A server may not take requests while it waits to send answers.
            let is_sent = self.send()?;
            let is_idle = self.free.len() == self.flight.len();
            if is_idle && self.is_over() {
                break;
            }
            let until_due = match self.is_over() {
                true => PATIENCE,
                false => self.generator.due().saturating_sub(since.elapsed()),
            };
            if is_idle {
                heard = now;
                std::thread::sleep(until_due);
            } else if self.socket.wait(until_due, !is_sent)? {
                heard = since.elapsed();
                self.receive(since)?;
            }
        }
        self.socket.close()?;
        Ok(self.measured)
    }

    /// True if nothing more is to be sent.
    fn is_over(&self) -> bool {
        let is_done = self.measured.is_overloaded || self.generator.due() >= self.end;
        is_done && self.backlog.is_empty()
    }

    /// Takes what is due.
    fn collect(&mut self, now: Duration) {
        while !self.measured.is_overloaded
            && self.generator.due() <= now
            && self.generator.due() < self.end
        {
            self.backlog.push_back(self.generator.take());
            if self.backlog.len() > self.backlog_max {
                self.measured.is_overloaded = true;
                self.backlog.clear();
            }
        }
    }

    /// Sends what there is room for. Returns false if a part is still to be sent.
    fn send(&mut self) -> io::Result<bool> {
        while let Some((due, request)) = self.backlog.front().copied() {
            let Some(cookie) = self.free.pop() else { break };
            self.backlog.pop_front();
            self.flight[cookie as usize] = (due, request);
            let length = request.blocks * BLOCK_BYTES;
            let length = u32::try_from(length).map_err(io::Error::other)?;
            let ask = Ask {
                verb: if request.is_read {
                    Verb::Read
                } else {
                    Verb::Write
                },
                cookie,
                offset: request.block * BLOCK_BYTES,
                length,
            };
            self.socket
                .queue(ask, Noise::part(length, &mut self.random));
        }
        self.socket.send(&self.noise)
    }

    fn receive(&mut self, since: Instant) -> io::Result<()> {
        let (flight, free, measured) = (&self.flight, &mut self.free, &mut self.measured);
        let (warm_up, mut answered) = (self.warm_up, None);
        self.socket.receive(&mut |cookie| {
            let now = *answered.get_or_insert_with(|| since.elapsed());
            free.push(cookie);
            let (due, request) = flight[cookie as usize];
            let bytes = request.blocks * BLOCK_BYTES;
            if due >= warm_up {
                let took = now.saturating_sub(due).as_nanos();
                let took = u64::try_from(took).unwrap_or(u64::MAX);
                measured.operations += 1;
                measured.bytes += bytes;
                match request.is_read {
                    true => measured.reads.push(took),
                    false => measured.writes.push(took),
                }
            }
            match request.is_read {
                true => usize::try_from(bytes).unwrap_or(0),
                false => 0,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that takes a time for each request, one after the other.
    struct Slow {
        takes: Duration,
        queued: Vec<Ask>,
        /// When each is answered, and its cookie.
        answers: VecDeque<(Instant, u32)>,
    }

    impl Client for Slow {
        fn queue(&mut self, ask: Ask, _: usize) {
            self.queued.push(ask);
        }

        fn send(&mut self, _: &[u8]) -> io::Result<bool> {
            for ask in self.queued.drain(..) {
                let last = self.answers.back().map(|(at, _)| *at);
                let begun = last.unwrap_or_else(Instant::now).max(Instant::now());
                self.answers.push_back((begun + self.takes, ask.cookie));
            }
            Ok(true)
        }

        fn set_nonblocking(&mut self) -> io::Result<()> {
            Ok(())
        }

        fn wait(&self, patience: Duration, _: bool) -> io::Result<bool> {
            let Some((at, _)) = self.answers.front() else {
                return Ok(false);
            };
            let left = at.saturating_duration_since(Instant::now());
            std::thread::sleep(left.min(patience));
            Ok(left <= patience)
        }

        fn receive(&mut self, replied: &mut dyn FnMut(u32) -> usize) -> io::Result<()> {
            let (_, cookie) = self.answers.pop_front().expect("it waited for one");
            replied(cookie);
            Ok(())
        }

        fn close(self: Box<Self>) -> io::Result<()> {
            Ok(())
        }
    }

    fn measured(rate: f64, takes: Duration) -> Measured {
        let user = user(rate, takes);
        user.run(Instant::now()).expect("it answers all")
    }

    fn user(rate: f64, takes: Duration) -> User {
        let socket = Box::new(Slow {
            takes,
            queued: Vec::new(),
            answers: VecDeque::new(),
        });
        let run = Run {
            place: Place::Nvme(String::new()),
            export: String::new(),
            bytes: None,
            rate,
            warm_up: Duration::from_millis(50),
            time: Duration::from_millis(400),
            connections: 1,
            seed: 3,
        };
        let noise = Arc::new(Noise::new(1));
        User::with(socket, BYTES_MIN, &run, 0, noise)
    }

    #[test]
    fn a_rate_that_is_too_much_is_given_up() {
        let mut user = user(10_000.0, Duration::from_millis(1));
        user.backlog_max = 200;
        let measured = user.run(Instant::now()).expect("it answers what it got");
        assert!(
            measured.is_overloaded && measured.operations < 300,
            "{measured:?}"
        );
    }

    #[test]
    fn a_slow_server_is_not_asked_less() {
        // It can do 1000 in a second, so each second of requests takes two.
        let measured = measured(2000.0, Duration::from_millis(1));
        assert!((650..950).contains(&measured.operations), "{measured:?}");
        assert!(
            measured.points().max > Duration::from_millis(300),
            "{measured:?}"
        );
        assert!(!measured.is_overloaded);
    }

    #[test]
    fn requests_before_the_measurement_do_not_count() {
        let measured = measured(1000.0, Duration::from_micros(10));
        assert!((300..500).contains(&measured.operations), "{measured:?}");
        assert_eq!(
            measured.reads.count() + measured.writes.count(),
            measured.operations
        );
    }
}
