//! The tail of reads while consistency points run: one connection writes at a fixed rate, another reads, and
//! the same is done to the peer, in pairs. What is compared is the 99.9th percentile of the reads.

use std::time::Duration;

use super::load::{Kind, Load, Order};
use super::server::Arm;
use super::stage::Stage;
use crate::Failure;

/// 4 KiB writes per second: 100 MB/s, at which a quarter of a GiB of dirty memory lasts for a second or two.
const WRITES_PER_SECOND: f64 = 25_000.0;

/// One turn.
#[derive(Clone, Copy, Debug)]
pub struct TailTurn {
    /// Of the reads.
    pub p999: Duration,
    /// Of the reads.
    pub p50: Duration,
    /// The longest.
    pub max: Duration,
    /// Reads per second.
    pub reads: f64,
    /// Writes per second that were reached.
    pub writes: f64,
}

/// Turns of ours and of the peer, pair by pair.
#[derive(Default)]
pub struct Tail {
    /// Ours.
    pub ours: Vec<TailTurn>,
    /// The peer's.
    pub theirs: Vec<TailTurn>,
    /// Seconds of each.
    pub seconds: f64,
}

/// Runs the pairs.
///
/// # Errors
/// If a server fails.
pub fn run(stage: &mut Stage, rounds: u64, seconds: f64) -> Result<Tail, Failure> {
    let row = super::row::all().remove(0);
    stage.prepare(Arm::Everglade, &row)?;
    stage.prepare(Arm::QemuRaw, &row)?;
    let mut tail = Tail {
        seconds,
        ..Tail::default()
    };
    for round in 0..rounds {
        let mut arms = [Arm::Everglade, Arm::QemuRaw];
        if round % 2 == 1 {
            arms.reverse();
        }
        for arm in arms {
            let one = turn(stage, arm, Duration::from_secs_f64(seconds), round)?;
            match arm {
                Arm::Everglade => tail.ours.push(one),
                _ => tail.theirs.push(one),
            }
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
    let server = stage.server(arm)?;
    let (socket, export) = (server.socket.clone(), server.export.clone());
    let problem = |error: std::io::Error| Failure::rig("reads beside writes", &error);
    let (writes, reads) = std::thread::scope(|scope| {
        let writes = scope.spawn(|| writer.run(&socket, &export, time, seed));
        let reads = reader.run(&socket, &export, time, seed ^ 7);
        (writes.join(), reads)
    });
    let writes = match writes {
        Ok(writes) => writes.map_err(problem)?,
        Err(panic) => std::panic::resume_unwind(panic),
    };
    let reads = reads.map_err(problem)?;
    stage.settle(arm, &writer)?;
    let points = reads.latencies.points();
    Ok(TailTurn {
        p999: points.p999,
        p50: points.p50,
        max: points.max,
        reads: reads.rate(),
        writes: writes.rate(),
    })
}
