//! Flushes: ours against the peer's, in pairs, who begins alternating.
//!
//! Both exports are filled first, so that neither allocates host space for the first time while it
//! is measured; both are reached over a Unix socket by the same client.

use std::path::Path;
use std::time::Duration;

use super::peer::{EXPORT, PROGRAM, Peer};
use super::{Pattern, Summary};
use crate::Failure;
use crate::client::{Address, Ask, Command, Connection};
use crate::rig::{Installation, programs};

/// The part of the exports that is overwritten.
const BYTES: u64 = 256 << 20;
const LUN: &str = "vol0/lun0";

/// How much.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Pairs per pattern.
    pub rounds: u64,
    /// Of each half of a pair.
    pub time: Duration,
}

/// What a pattern came to.
#[derive(Debug)]
pub struct Line {
    /// Which.
    pub pattern: Pattern,
    /// Writes per second of ours.
    pub ours: Summary,
    /// And of the peer.
    pub theirs: Summary,
    /// Ours by theirs, pair by pair.
    pub ratio: Summary,
}

/// The table, and how the peer did its I/O.
#[derive(Debug)]
pub struct Table {
    /// A line for each pattern.
    pub lines: Vec<Line>,
    /// `aio` of the peer.
    pub aio: &'static str,
}

/// Why this machine cannot do it, if so.
#[must_use]
pub fn impossible() -> Option<String> {
    let missing = programs::missing(&[PROGRAM]);
    (!missing.is_empty()).then(|| format!("not installed: {}", missing.join(", ")))
}

/// Runs all pairs.
///
/// # Errors
/// If either server fails.
pub fn run(installation: &Installation, folder: &Path, options: Options) -> Result<Table, Failure> {
    let size = BYTES.to_string();
    let daemon = installation.serve(&["--lun-size", &size])?;
    let peer = Peer::start(folder, BYTES)?;
    fill(&daemon.unix, LUN)?;
    fill(&peer.address, EXPORT)?;
    let mut lines = Vec::new();
    for pattern in Pattern::ALL {
        let (mut ours, mut theirs, mut ratio) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..options.rounds {
            let measure = |address: &Address, export| {
                pattern
                    .run(address, export, BYTES, options.time, round)
                    .map_err(|error| Failure::rig(pattern.name(), &error))
            };
            let (us, them) = if round % 2 == 0 {
                let us = measure(&daemon.unix, LUN)?;
                (us, measure(&peer.address, EXPORT)?)
            } else {
                let them = measure(&peer.address, EXPORT)?;
                (measure(&daemon.unix, LUN)?, them)
            };
            ours.push(us);
            theirs.push(them);
            ratio.push(us / them);
        }
        lines.push(Line {
            pattern,
            ours: Summary::of(&ours),
            theirs: Summary::of(&theirs),
            ratio: Summary::of(&ratio),
        });
    }
    Ok(Table {
        lines,
        aio: peer.aio,
    })
}

/// Writes all of it once, and flushes.
pub(super) fn fill(address: &Address, export: &str) -> Result<(), Failure> {
    let problem = |error: std::io::Error| Failure::rig("fill an export", &error);
    let mut connection = Connection::open(address, export).map_err(problem)?;
    let payload = vec![0x5a; 1 << 20];
    let mut ask = Ask {
        command: Command::Write,
        fua: false,
        cookie: 0,
        offset: 0,
        length: 1 << 20,
    };
    while ask.offset < connection.size_bytes {
        let answer = connection.call(ask, &payload).map_err(problem)?;
        if answer.error != 0 {
            return Err(Failure::Rig(format!(
                "error {} from {export}",
                answer.error
            )));
        }
        ask.offset += 1 << 20;
    }
    let flush = Ask {
        command: Command::Flush,
        offset: 0,
        length: 0,
        ..ask
    };
    connection.call(flush, &[]).map_err(problem)?;
    Ok(())
}
