//! The longest single request while consistency points run (goal: 250 ms).
//!
//! Sixteen requests in flight on one connection, each a write of 4 to 64 KiB, a read of as much,
//! or, once in 64, a flush; consistency points begin every second.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use crate::client::{Address, Ask, Command, Connection};
use crate::rig::Installation;
use crate::{Failure, Random};

const DEPTH: usize = 16;
const LUN_BYTES: u64 = 512 << 20;
const LUN: &str = "vol0/lun0";
const SIZE_MAX: u32 = 64 << 10;

/// What the requests of one kind took.
#[derive(Debug)]
pub struct Line {
    /// Which.
    pub command: Command,
    /// How many there were.
    pub count: usize,
    /// Half took less.
    pub median: Duration,
    /// All but one in a thousand took less.
    pub p999: Duration,
    /// The longest.
    pub longest: Duration,
}

/// Runs for a time.
///
/// # Errors
/// If the server fails.
pub fn run(installation: &Installation, time: Duration) -> Result<Vec<Line>, Failure> {
    let size = LUN_BYTES.to_string();
    let daemon = installation.serve(&["--lun-size", &size, "--cp-interval", "1s"])?;
    super::flush::fill(&daemon.unix, LUN)?;
    let times = drive(&daemon.unix, time).map_err(|error| Failure::rig("mixed load", &error))?;
    let lines = times
        .into_iter()
        .map(|(command, times)| line(command, times));
    Ok(lines.collect())
}

fn line(command: Command, mut times: Vec<Duration>) -> Line {
    times.sort_unstable();
    let count = times.len();
    let at = |of_1000: usize| times[(count * of_1000 / 1000).min(count - 1)];
    Line {
        command,
        count,
        median: at(500),
        p999: at(999),
        longest: times[count - 1],
    }
}

type Times = Vec<(Command, Vec<Duration>)>;

fn drive(address: &Address, time: Duration) -> io::Result<Times> {
    let mut connection = Connection::open(address, LUN)?;
    let mut random = Random::new(1);
    let payload = vec![0xa5; SIZE_MAX as usize];
    let mut in_flight: BTreeMap<u64, (Ask, Instant)> = BTreeMap::new();
    let kinds = [Command::Write, Command::Read, Command::Flush];
    let mut times: Times = kinds.map(|kind| (kind, Vec::new())).into();
    let until = Instant::now() + time;
    let mut cookie = 0;
    loop {
        let is_over = Instant::now() >= until;
        if is_over && in_flight.is_empty() {
            times.retain(|(_, times)| !times.is_empty());
            return Ok(times);
        }
        if !is_over && in_flight.len() < DEPTH {
            cookie += 1;
            let ask = choose(cookie, &mut random);
            in_flight.insert(cookie, (ask, Instant::now()));
            let is_write = ask.command == Command::Write;
            let bytes = if is_write { ask.length as usize } else { 0 };
            connection.sender.send(ask, &payload[..bytes])?;
            continue;
        }
        let mut done = None;
        let answer = connection.receiver.receive(|cookie| {
            done = in_flight.remove(&cookie);
            let is_read = |ask: &Ask| ask.command == Command::Read;
            done.as_ref()
                .map(|(ask, _)| if is_read(ask) { ask.length } else { 0 })
        })?;
        if answer.error != 0 {
            return Err(io::Error::other(format!("error {}", answer.error)));
        }
        if let Some((ask, since)) = done {
            let of_kind = times.iter_mut().find(|(kind, _)| *kind == ask.command);
            of_kind.expect("kinds are known").1.push(since.elapsed());
        }
    }
}

fn choose(cookie: u64, random: &mut Random) -> Ask {
    let blocks = 1 + random.below(u64::from(SIZE_MAX) / 4096);
    let length = u32::try_from(blocks * 4096).expect("at most 64 KiB");
    let offset = random.below((LUN_BYTES - u64::from(length)) / 4096) * 4096;
    let command = match random.below(64) {
        0 => Command::Flush,
        1..=31 => Command::Read,
        _ => Command::Write,
    };
    let is_flush = command == Command::Flush;
    Ask {
        command,
        fua: false,
        cookie,
        offset: if is_flush { 0 } else { offset },
        length: if is_flush { 0 } else { length },
    }
}
