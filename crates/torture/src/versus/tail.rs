//! The tail of reads while consistency points run: one connection writes at a fixed rate, another
//! reads, and the same is done to the peers, in rounds. What is compared is the 99.9th percentile
//! of the reads.

use std::collections::BTreeMap;
use std::time::Duration;

use super::disk;
use super::latency::Points;
use super::load::{Kind, Load, Order};
use super::server::Arm;
use super::stage::Stage;
use crate::Failure;

/// 4 KiB writes per second: 100 MB/s, at which a quarter of a GiB of dirty memory lasts for a
/// second or two.
const WRITES_PER_SECOND: f64 = 25_000.0;

/// Who runs it; ours first.
pub const ARMS: [Arm; 4] = [Arm::Everglade, Arm::QemuRaw, Arm::QemuCached, Arm::Disk];

/// One turn.
#[derive(Clone, Copy, Debug)]
pub struct TailTurn {
    /// Of the reads.
    pub points: Points,
    /// Reads per second.
    pub reads: f64,
    /// Writes per second that were reached.
    pub writes: f64,
}

/// Turns, round by round.
#[derive(Debug, Default)]
pub struct Tail {
    /// By server.
    pub turns: BTreeMap<Arm, Vec<TailTurn>>,
    /// Seconds of each.
    pub seconds: f64,
}

/// Runs the rounds.
///
/// # Errors
/// If a server fails.
pub fn run(stage: &mut Stage, arms: &[Arm], rounds: u64, seconds: f64) -> Result<Tail, Failure> {
    let mut row = super::row::all().remove(0);
    row.arms = arms.to_vec();
    let mut tail = Tail {
        seconds,
        ..Tail::default()
    };
    for arm in arms {
        stage.prepare(*arm, &row)?;
    }
    for round in 0..rounds {
        let first = usize::try_from(round).unwrap_or(0) % arms.len();
        for index in 0..arms.len() {
            let arm = arms[(first + index) % arms.len()];
            let one = turn(stage, arm, Duration::from_secs_f64(seconds), round)?;
            tail.turns.entry(arm).or_default().push(one);
        }
    }
    Ok(tail)
}

fn turn(stage: &mut Stage, arm: Arm, time: Duration, seed: u64) -> Result<TailTurn, Failure> {
    let writer = Load {
        kind: Kind::Write,
        order: Order::Random,
        block: 4096,
        depth: 32,
        jobs: 1,
        bytes: stage.bytes(),
        pace: Some(WRITES_PER_SECOND),
    };
    let reader = Load {
        kind: Kind::Read,
        depth: 4,
        pace: None,
        ..writer
    };
    let one = match arm {
        Arm::Disk => on_file(stage, &reader, &writer, time, seed)?,
        _ => on_server(stage, arm, &reader, &writer, time, seed)?,
    };
    stage.settle(arm, &writer)?;
    Ok(one)
}

fn on_server(
    stage: &Stage,
    arm: Arm,
    reader: &Load,
    writer: &Load,
    time: Duration,
    seed: u64,
) -> Result<TailTurn, Failure> {
    let server = stage.server(arm)?;
    let (socket, export) = (&server.socket, &server.export);
    let problem = |error: std::io::Error| Failure::rig("reads beside writes", &error);
    let (writes, reads) = std::thread::scope(|scope| {
        let writes = scope.spawn(|| writer.run(socket, export, time, seed));
        let reads = reader.run(socket, export, time, seed ^ 7);
        (writes.join(), reads)
    });
    let writes = match writes {
        Ok(writes) => writes.map_err(problem)?,
        Err(panic) => std::panic::resume_unwind(panic),
    };
    let reads = reads.map_err(problem)?;
    Ok(TailTurn {
        points: reads.latencies.points(),
        reads: reads.rate(),
        writes: writes.rate(),
    })
}

fn on_file(
    stage: &Stage,
    reader: &Load,
    writer: &Load,
    time: Duration,
    seed: u64,
) -> Result<TailTurn, Failure> {
    let found = disk::together(stage.raw_image(), &[reader, writer], time, seed)?;
    let [reads, writes] = &found[..] else {
        return Err(Failure::Rig("fio did not report both loads".to_owned()));
    };
    Ok(TailTurn {
        points: reads.points.unwrap_or_default(),
        reads: reads.rate(),
        writes: writes.rate(),
    })
}
