//! The first write after a snapshot, beside the first write after any other consistency point: one
//! connection, one write at a time, the same pauses. A snapshot is followed by a write, and by
//! writes for a while; then (or before, in every other pair) the same with a change that needs a
//! consistency point and is no snapshot.

use std::io;
use std::time::{Duration, Instant};

use super::super::server::Server;
use super::super::socket::{Ask, Client as _, Socket, Verb};
use super::creation::SMALL;
use super::results::Results;
use super::store::Store;
use super::{IMAGE, Plan, ensure};
use crate::client::Address;
use crate::versus::Ratio;
use crate::{Failure, Random};

pub(super) const KEY: &str = "first-write";
/// Written before each consistency point.
const BEFORE: u64 = 64;
/// How long writes are looked at after it.
const AFTER: Duration = Duration::from_millis(120);
const BLOCK: u32 = 4096;

/// A connection with one write at a time.
struct Writer {
    socket: Socket,
    random: Random,
    noise: Vec<u8>,
    blocks: u64,
}

impl Writer {
    fn open(server: &Server, bytes: u64, seed: u64) -> io::Result<Writer> {
        let (socket, _) = Socket::open(&Address::Unix(server.socket.clone()), &server.export)?;
        let mut random = Random::new(seed);
        let noise = (0..u64::from(BLOCK) / 8).flat_map(|_| random.number().to_le_bytes());
        Ok(Writer {
            socket,
            noise: noise.collect(),
            random,
            blocks: bytes / u64::from(BLOCK),
        })
    }

    fn write(&mut self) -> io::Result<Duration> {
        let ask = Ask {
            verb: Verb::Write,
            cookie: 0,
            offset: self.random.below(self.blocks) * u64::from(BLOCK),
            length: BLOCK,
        };
        let begun = Instant::now();
        self.socket.queue(ask, 0);
        self.socket.send(&self.noise)?;
        self.socket.receive(&mut |_| 0)?;
        Ok(begun.elapsed())
    }

    /// The first write, and the mean of those that follow for a while; microseconds.
    fn measure(&mut self) -> io::Result<(f64, f64)> {
        let first = self.write()?;
        let since = Instant::now();
        let mut count = 0.0;
        while since.elapsed() < AFTER {
            self.write()?;
            count += 1.0;
        }
        let mean = since.elapsed().as_secs_f64() * 1e6 / count;
        Ok((first.as_secs_f64() * 1e6, mean))
    }
}

pub(super) fn run(
    stores: &mut [&mut dyn Store],
    plan: &Plan,
    results: &mut Results,
) -> Result<(), Failure> {
    let problem = |error: io::Error| Failure::rig("a write after a snapshot", &error);
    let mut writers = Vec::new();
    for store in stores.iter_mut() {
        ensure(*store, SMALL, plan.small_bytes(), plan.small_bytes())?;
        let server = store.server(SMALL, IMAGE)?;
        writers.push(Writer::open(server, plan.small_bytes(), 5).map_err(problem)?);
    }
    for pair in 0..plan.pick(3, 24) {
        for (store, writer) in stores.iter_mut().zip(&mut writers) {
            let name = format!("first-{pair}");
            for is_second in [false, true] {
                for _ in 0..BEFORE {
                    writer.write().map_err(problem)?;
                }
                let is_snapshot = is_second == (pair % 2 == 1);
                let what = if is_snapshot {
                    store.snapshot(SMALL, &name)?;
                    "a snapshot"
                } else {
                    store.settle()?;
                    "another consistency point"
                };
                let (first, mean) = writer.measure().map_err(problem)?;
                let key = (KEY, store.name());
                results.add(key, &format!("first write after {what}"), "µs", first);
                results.add(key, &format!("writes after {what}, mean"), "µs", mean);
            }
            store.delete(SMALL, &[name])?;
            store.drain()?;
        }
    }
    for (what, title) in [("first write after", ""), ("writes after", ", mean")] {
        let [with, without] = ["a snapshot", "another consistency point"]
            .map(|point| results.ours(KEY, &format!("{what} {point}{title}")));
        let ratio = Ratio::of(&with, &without);
        let what = match title {
            "" => "first write after a snapshot / after another consistency point",
            _ => "writes in the 120 ms after a snapshot / after another consistency point",
        };
        results.judge(what, "≤ 1.1", ratio, ratio.median <= 1.1);
    }
    Ok(())
}
