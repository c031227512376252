//! Rounds of turns: in each round every server runs the same load once, and who begins changes from round to
//! round, so that whatever else the machine does falls on all of them alike. A ratio is made of the two turns
//! of one round.
//!
//! After a turn of ours the consistency point that its writes left is driven to its end before the next turn
//! begins. Its CPU time counts for the turn, its wall time for nobody: otherwise others would be measured
//! while our leftovers are written.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use super::latency::{Latencies, Points};
use super::load::{Kind, Load, Order};
use super::row::Row;
use super::server::{Arm, must};
use super::stage::Stage;
use crate::Failure;

/// What one server did in all rounds of a row.
#[derive(Default)]
pub struct Record {
    /// Requests per second, by round.
    pub rates: Vec<f64>,
    /// CPU microseconds for a request, by round.
    pub cpu_us: Vec<f64>,
    /// Of all rounds together.
    pub cpu: Duration,
    /// Of all rounds together.
    pub operations: u64,
    /// Wall time of all rounds together.
    pub wall: Duration,
    pub(super) latencies: Latencies,
    /// Of all rounds together.
    pub points: Points,
}

impl Record {
    /// CPU microseconds for a request over all rounds.
    #[must_use]
    pub fn cpu_us_for_one(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
        let operations = self.operations.max(1) as f64;
        self.cpu.as_secs_f64() * 1e6 / operations
    }
}

/// A row and what it came to.
pub struct Outcome {
    /// Which.
    pub row: Row,
    /// Seconds of each turn.
    pub seconds: f64,
    /// By server.
    pub records: BTreeMap<Arm, Record>,
}

/// Runs the rounds of a row.
pub(super) fn run(
    stage: &mut Stage,
    row: &Row,
    rounds: u64,
    seconds: f64,
) -> Result<Outcome, Failure> {
    let arms = &row.arms;
    let mut records: BTreeMap<Arm, Record> = BTreeMap::new();
    for arm in arms {
        stage.prepare(*arm, row)?;
        // A turn that does not count: caches, connections and files are as they will be.
        turn(stage, *arm, row, seconds.min(0.5), 1 << 20)?;
    }
    for round in 0..rounds {
        let first = usize::try_from(round).unwrap_or(0) % arms.len();
        for index in 0..arms.len() {
            let arm = arms[(first + index) % arms.len()];
            let one = turn(stage, arm, row, seconds, round)?;
            let record = records.entry(arm).or_default();
            #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
            let operations = one.operations.max(1) as f64;
            record.rates.push(operations / one.wall.as_secs_f64());
            record.cpu_us.push(one.cpu.as_secs_f64() * 1e6 / operations);
            record.cpu += one.cpu;
            record.wall += one.wall;
            record.operations += one.operations;
            record.latencies.append(one.latencies);
            if arm == Arm::Disk {
                record.points = one.points;
            }
        }
    }
    if row.after_snapshot {
        stage.forget_snapshot()?;
    }
    for (arm, record) in &mut records {
        if *arm != Arm::Disk {
            record.points = record.latencies.points();
        }
    }
    Ok(Outcome {
        row: row.clone(),
        seconds,
        records,
    })
}

struct Turn {
    operations: u64,
    wall: Duration,
    cpu: Duration,
    latencies: Latencies,
    points: Points,
}

fn turn(stage: &mut Stage, arm: Arm, row: &Row, seconds: f64, seed: u64) -> Result<Turn, Failure> {
    let load = Load {
        bytes: match row.load.bytes {
            0 => stage.bytes(),
            bytes => bytes.min(stage.bytes()),
        },
        ..row.load
    };
    let time = Duration::from_secs_f64(seconds);
    if row.after_snapshot {
        stage.snapshot(arm)?;
    }
    if arm == Arm::Disk {
        return disk(stage.raw_image(), &load, time, seed);
    }
    let server = stage.server(arm)?;
    let before = server.cpu()?;
    let (socket, export) = (server.socket.clone(), server.export.clone());
    let sample = load
        .run(&socket, &export, time, seed)
        .map_err(|error| Failure::rig(&format!("{} on {}", row.title, arm.name()), &error))?;
    stage.settle(arm, &load)?;
    let cpu = stage.server(arm)?.cpu()?.saturating_sub(before);
    Ok(Turn {
        operations: sample.operations,
        wall: Duration::from_secs_f64(sample.seconds),
        cpu,
        latencies: sample.latencies,
        points: Points::default(),
    })
}

/// `fio` on the file itself.
fn disk(image: &Path, load: &Load, time: Duration, seed: u64) -> Result<Turn, Failure> {
    let way = match (load.kind, load.order) {
        (Kind::Read, Order::Random) => "randread",
        (Kind::Read, Order::Sequential | Order::Sparse(_)) => "read",
        (_, Order::Random) => "randwrite",
        (_, Order::Sequential | Order::Sparse(_)) => "write",
    };
    let words = [
        "--name=disk".to_owned(),
        format!("--filename={}", image.display()),
        format!("--rw={way}"),
        format!("--bs={}", load.block),
        format!("--iodepth={}", load.depth),
        format!("--size={}", load.bytes),
        format!("--runtime={}ms", time.as_millis()),
        format!("--randseed={seed}"),
        "--time_based".to_owned(),
        "--direct=1".to_owned(),
        "--ioengine=io_uring".to_owned(),
        "--end_fsync=1".to_owned(),
        "--output-format=json".to_owned(),
    ];
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let text = must("fio", &words)?;
    let told: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| Failure::rig("understand fio", &error))?;
    let job = &told["jobs"][0];
    let side = if load.kind == Kind::Read {
        "read"
    } else {
        "write"
    };
    let number = |value: &serde_json::Value| value.as_f64().unwrap_or(0.0);
    let wall = Duration::from_secs_f64(number(&job[side]["runtime"]) / 1e3);
    let share = (number(&job["usr_cpu"]) + number(&job["sys_cpu"])) / 100.0;
    let at = |of_100: &str| {
        let nanos = job[side]["clat_ns"]["percentile"][of_100].as_u64();
        Duration::from_nanos(nanos.unwrap_or(0))
    };
    Ok(Turn {
        operations: job[side]["total_ios"].as_u64().unwrap_or(0),
        wall,
        cpu: wall.mul_f64(share),
        latencies: Latencies::default(),
        points: Points {
            p50: at("50.000000"),
            p99: at("99.000000"),
            p999: at("99.900000"),
            max: Duration::from_nanos(job[side]["clat_ns"]["max"].as_u64().unwrap_or(0)),
        },
    })
}
