//! Measured claims of the papers: the same server with a mechanism and without it
//! (`everglade serve --ablation NAME`), everything else the same. Others are measured without
//! clients, in [`super::inprocess`].
//!
//! | claim | paper | here |
//! | --- | --- | --- |
//! | R001-19, R001-20 | batched inode cleaning: 3.8 % more operations, 3 % less latency | time of cleaning in a consistency point that has one changed block of each of many LUNs |
//! | R001-12 | random overwrites touch more blocks of metafiles for each operation | metadata blocks that consistency points write for each block of data, random and in order |
//!
//! No constant is fitted to a published figure. Where the figures cannot be compared, as here, only
//! the direction is.

use super::snapshots::rest;
use crate::Failure;
use crate::bench::Summary;
use crate::client::{Address, Ask, Command, Connection};
use crate::random::mix;
use crate::rig::programs::wait_for;
use crate::rig::{Daemon, Installation};

const LUNS: u64 = 2000;
const LUN_SIZE: &str = "64MiB";
const BLOCK_BYTES: u64 = 4096;
/// Blocks of each LUN that are written before: one of each of so many level-1 blocks.
const REGIONS: u64 = 4;
const REGION_BYTES: u64 = 255 * BLOCK_BYTES;
/// The LUN that is overwritten at random and in order.
const WIDE: &str = "vol0/wide";
const WIDE_BLOCKS: u64 = 1 << 18;
const OVERWRITES: u64 = 1 << 14;
const SWITCH: [&str; 2] = ["--ablation", "lun-batching"];

/// A claim, and what was measured of it.
#[derive(Debug)]
pub struct Claim {
    /// Numbers in the list of results.
    pub ids: &'static str,
    /// What the paper claims.
    pub claim: &'static str,
    /// Its figure.
    pub published: &'static str,
    /// What was measured here.
    pub measured: &'static str,
    /// What is compared.
    pub arms: [&'static str; 2],
    /// Of both: medians of the rounds.
    pub figures: [f64; 2],
    /// Of the figures.
    pub unit: &'static str,
}

/// Measures the claims of S001 that can be measured with servers.
///
/// # Errors
/// What fails.
pub fn s001(installation: &Installation, rounds: u64) -> Result<Vec<Claim>, Failure> {
    fill(installation)?;
    let mut times = [[Vec::new(), Vec::new()], [Vec::new(), Vec::new()]];
    for round in 0..rounds.max(1) {
        for turn in 0..2 {
            let arm = usize::try_from((round + turn) % 2).unwrap_or(0);
            let [cold, warm] = cleaned(installation, arm == 0, 2 * round + turn)?;
            times[0][arm].push(cold);
            times[1][arm].push(warm);
        }
    }
    let claim = |measured, times: &[Vec<f64>; 2]| Claim {
        ids: "R001-19, R001-20",
        claim: "files with few changed blocks are cleaned together (D-23)",
        published: "+3.8 % operations, −3 % latency",
        measured,
        arms: ["with", "without"],
        figures: [&times[0], &times[1]].map(|times| Summary::of(times).median),
        unit: "ms",
    };
    Ok(vec![
        claim("cleaning, 2,000 LUNs, after a start", &times[0]),
        claim("cleaning, 2,000 LUNs, all in memory", &times[1]),
        touched(installation, rounds)?,
    ])
}

/// Measures how much metadata overwrites touch (R001-12).
fn touched(installation: &Installation, rounds: u64) -> Result<Claim, Failure> {
    let daemon = start(installation, &[])?;
    installation.must(&["lun", "create", WIDE, "--size", "1GiB"])?;
    let problem = |error: std::io::Error| Failure::rig("write a block", &error);
    let mut connection = Connection::open(&daemon.unix, WIDE).map_err(problem)?;
    for block in 0..WIDE_BLOCKS {
        put(&mut connection, block * BLOCK_BYTES, block).map_err(problem)?;
    }
    let mut figures = [Vec::new(), Vec::new()];
    for round in 0..rounds.max(1) {
        for (arm, figures) in figures.iter_mut().enumerate() {
            let tick = |what: &str| {
                let name = format!("vol0/{what}-{round}-{arm}");
                installation.must(&["lun", "create", &name, "--size", "1MiB"])?;
                installation.must(&["lun", "delete", &name, "--yes", "--purge"])
            };
            tick("before")?;
            let before = written(&daemon)?;
            for number in 0..OVERWRITES {
                let place = match arm {
                    0 => mix(round << 32 | number) % WIDE_BLOCKS,
                    _ => (round * OVERWRITES + number) % WIDE_BLOCKS,
                };
                let seed = mix(round << 40 | (arm as u64) << 32 | number);
                put(&mut connection, place * BLOCK_BYTES, seed).map_err(problem)?;
            }
            tick("after")?;
            let after = written(&daemon)?;
            let [data, metadata] = [after[0] - before[0], after[1] - before[1]];
            figures.push(metadata / data.max(1.0));
        }
    }
    drop(connection);
    stop(daemon)?;
    Ok(Claim {
        ids: "R001-12",
        claim: "random overwrites touch more blocks of metafiles for each operation",
        published: "more (no figure)",
        measured: "metadata blocks written for each block of data; 64 of 1,024 MiB overwritten",
        arms: ["random", "in order"],
        figures: figures.map(|figures| Summary::of(&figures).median),
        unit: "blocks",
    })
}

/// Returns how many blocks of data, and how many of metadata, the server's consistency points have
/// written.
fn written(daemon: &Daemon) -> Result<[f64; 2], Failure> {
    let page = rest::page(daemon.metrics.as_deref().unwrap_or_default(), "/metrics")?;
    let mut sums = [0.0; 2];
    for (labels, count) in rest::samples(&page, "everglade_cp_blocks_total") {
        if labels.contains("kind=\"data\"") {
            sums[0] += count;
        } else if labels.contains("_metadata\"") {
            sums[1] += count;
        }
    }
    Ok(sums)
}

fn start(installation: &Installation, words: &[&str]) -> Result<Daemon, Failure> {
    let mut all = vec!["--memory", "512MiB", "--aggregate-size", "8GiB"];
    all.extend(["--lun-size", LUN_SIZE, "--metrics-tcp", ":0"]);
    all.extend(words);
    installation.serve(&all)
}

/// Ends a server in an orderly way: the next one replays nothing.
fn stop(mut daemon: Daemon) -> Result<(), Failure> {
    let pid = i32::try_from(daemon.pid()).ok();
    let pid = pid.and_then(rustix::process::Pid::from_raw);
    let pid = pid.ok_or_else(|| Failure::Rig("the server has no number".to_owned()))?;
    let sent = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    sent.map_err(|error| Failure::rig("stop the server", &std::io::Error::from(error)))?;
    wait_for("end of the server", || daemon.has_ended().then_some(()))
}

/// Makes the LUNs.
fn fill(installation: &Installation) -> Result<(), Failure> {
    let daemon = start(installation, &[])?;
    for lun in 0..LUNS {
        installation.must(&["lun", "create", &name(lun), "--size", LUN_SIZE])?;
        for region in 0..REGIONS {
            write(&daemon.unix, lun, region * REGION_BYTES, lun ^ region << 32)?;
        }
    }
    stop(daemon)
}

fn name(lun: u64) -> String {
    format!("vol0/l{lun}")
}

/// Writes one block.
fn write(address: &Address, lun: u64, offset: u64, seed: u64) -> Result<(), Failure> {
    let problem = |error: std::io::Error| Failure::rig("write a block", &error);
    let mut connection = Connection::open(address, &name(lun)).map_err(problem)?;
    put(&mut connection, offset, seed).map_err(problem)
}

fn put(connection: &mut Connection, offset: u64, seed: u64) -> std::io::Result<()> {
    let words = 0..BLOCK_BYTES / 8;
    let content: Vec<u8> = words
        .flat_map(|word| mix(seed ^ mix(word)).to_le_bytes())
        .collect();
    let ask = Ask {
        command: Command::Write,
        fua: false,
        cookie: 1,
        offset,
        length: 4096,
    };
    connection.call(ask, &content)?.right().map(drop)
}

/// Milliseconds that cleaning takes in two consistency points of a new server, each with one
/// changed block of each LUN: the first has to load what it changes.
fn cleaned(installation: &Installation, is_on: bool, round: u64) -> Result<[f64; 2], Failure> {
    let words: &[&str] = if is_on { &[] } else { &SWITCH };
    let daemon = start(installation, words)?;
    let mut times = [0.0; 2];
    for (part, time) in times.iter_mut().enumerate() {
        let before = cleaning(&daemon)?;
        for lun in 0..LUNS {
            let seed = mix(round << 32 | lun << 1 | part as u64);
            write(&daemon.unix, lun, seed % REGIONS * REGION_BYTES, seed)?;
        }
        // A new LUN makes a consistency point, which has what was written.
        let tick = format!("vol0/tick-{round}-{part}");
        installation.must(&["lun", "create", &tick, "--size", "1MiB"])?;
        *time = cleaning(&daemon)? - before;
        installation.must(&["lun", "delete", &tick, "--yes"])?;
    }
    stop(daemon)?;
    Ok(times)
}

/// Milliseconds that all consistency points of the server have cleaned.
fn cleaning(daemon: &Daemon) -> Result<f64, Failure> {
    let page = rest::page(daemon.metrics.as_deref().unwrap_or_default(), "/metrics")?;
    let mut sums = rest::samples(&page, "everglade_cp_phase_seconds_sum");
    let sum = sums.find(|(labels, _)| labels.contains("phase=\"clean\""));
    // A server that has not cleaned yet does not have the phase.
    Ok(sum.map_or(0.0, |(_, seconds)| seconds) * 1000.0)
}

/// The page.
#[must_use]
pub fn table(claims: &[Claim]) -> String {
    let mut text = String::from(
        "| claim | what | published | measured here | one | the other | one ÷ other |\n\
         | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for it in claims {
        let [with, without] = it.figures;
        let [one, other] = it.arms;
        text.push_str(&format!(
            "| {} | {} | {} | {} | {one}: {with:.2} {unit} | {other}: {without:.2} {unit} | \
             {:.2} |\n",
            it.ids,
            it.claim,
            it.published,
            it.measured,
            with / without,
            unit = it.unit
        ));
    }
    text
}
