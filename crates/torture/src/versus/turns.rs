//! Rounds of turns: in each round every server runs the same load once, and who begins changes from
//! round to round, so that whatever else the machine does falls on all of them alike. A ratio is
//! made of the two turns of one round.
//!
//! After each turn, what the server left behind is driven to its end before the next turn begins.
//! What that costs counts for the turn ([`account`](super::account)); its wall time counts for
//! nobody: otherwise others would be measured while its leftovers are written.

use std::collections::BTreeMap;
use std::time::Duration;

use super::account::{Cost, Reading, Traffic};
use super::disk;
use super::latency::{Latencies, Points};
use super::load::Load;
use super::row::Row;
use super::server::Arm;
use super::stage::Stage;
use crate::Failure;

/// What one server did in all rounds of a row.
#[derive(Debug, Default)]
pub struct Record {
    /// Requests per second, by round.
    pub rates: Vec<f64>,
    /// CPU microseconds for a request, by round: of the server and of the kernel's threads.
    pub cpu_us: Vec<f64>,
    /// Of all rounds together: requests.
    pub operations: u64,
    /// Wall time of the load, all rounds together.
    pub wall: Duration,
    /// Of all rounds together.
    pub cost: Cost,
    pub(super) latencies: Latencies,
    /// Of all rounds together; for `fio`, the medians of the rounds. Absent where `fio` does not
    /// measure them.
    pub points: Option<Points>,
    /// Of `fio`, by round.
    pub(super) told: Vec<Points>,
    /// What the host gave for its data after the last round.
    pub host_bytes: Option<u64>,
    /// Turns after which the device was still written when the rig stopped waiting.
    pub restless: u64,
}

impl Record {
    /// CPU microseconds for a request over all rounds, of the server and of the kernel's threads.
    #[must_use]
    pub fn cpu_us_for_one(&self) -> f64 {
        (self.cost.server + self.cost.kernel).as_secs_f64() * 1e6 / self.requests()
    }

    /// The part of the kernel's threads in it.
    #[must_use]
    pub fn kernel_us_for_one(&self) -> f64 {
        self.cost.kernel.as_secs_f64() * 1e6 / self.requests()
    }

    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    fn requests(&self) -> f64 {
        self.operations.max(1) as f64
    }

    /// Bytes that the device read and wrote for each byte of a request.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    pub fn device_share(&self, block: u32) -> Option<(f64, f64)> {
        let bytes = self.requests() * f64::from(block);
        let device = self.cost.device?;
        Some((device.read as f64 / bytes, device.written as f64 / bytes))
    }

    fn add(&mut self, turn: Turn) {
        #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
        let operations = turn.operations.max(1) as f64;
        let cpu = turn.cost.server + turn.cost.kernel;
        self.rates.push(operations / turn.wall.as_secs_f64());
        self.cpu_us.push(cpu.as_secs_f64() * 1e6 / operations);
        self.operations += turn.operations;
        self.wall += turn.wall;
        let is_first = self.rates.len() == 1;
        let (sum, cost) = (&mut self.cost, turn.cost);
        sum.server += cost.server;
        sum.kernel += cost.kernel;
        sum.others += cost.others;
        sum.wall += cost.wall;
        sum.device = match (sum.device, cost.device) {
            (None, device) if is_first => device,
            (Some(sum), Some(one)) => Some(Traffic {
                read: sum.read + one.read,
                written: sum.written + one.written,
            }),
            _ => None,
        };
        self.latencies.append(&turn.latencies);
        self.told.extend(turn.points);
        self.host_bytes = turn.host_bytes;
        self.restless += u64::from(!turn.is_at_rest);
    }
}

/// A row and what it came to.
#[derive(Debug)]
pub struct RowResult {
    /// Which.
    pub row: Row,
    /// Seconds of each turn.
    pub seconds: f64,
    /// By server.
    pub records: BTreeMap<Arm, Record>,
    /// Of what it was measured.
    pub commit: String,
}

/// Runs the rounds of a row.
pub(super) fn run(
    stage: &mut Stage,
    row: &Row,
    rounds: u64,
    seconds: f64,
) -> Result<RowResult, Failure> {
    let arms = &row.arms;
    let mut records: BTreeMap<Arm, Record> = BTreeMap::new();
    for arm in arms {
        stage.prepare(*arm, row)?;
        if row.after_age {
            stage.age(*arm)?;
        }
        // A turn that does not count: caches, connections and files are as they will be.
        turn(stage, *arm, row, seconds.min(0.5), 1 << 20)?;
    }
    for round in 0..rounds {
        let first = usize::try_from(round).unwrap_or(0) % arms.len();
        for index in 0..arms.len() {
            let arm = arms[(first + index) % arms.len()];
            let one = turn(stage, arm, row, seconds, round)?;
            records.entry(arm).or_default().add(one);
        }
    }
    for (arm, record) in &mut records {
        record.points = match arm {
            Arm::Disk => Points::of_rounds(&record.told),
            _ => Some(record.latencies.points()),
        };
    }
    Ok(RowResult {
        row: row.clone(),
        seconds,
        records,
        commit: String::new(),
    })
}

struct Turn {
    operations: u64,
    wall: Duration,
    cost: Cost,
    latencies: Latencies,
    points: Option<Points>,
    host_bytes: Option<u64>,
    is_at_rest: bool,
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
    let pid = match arm {
        Arm::Disk => None,
        _ => Some(stage.server(arm)?.pid()),
    };
    let before = Reading::now(pid, stage.device())?;
    let mut turn = match arm {
        Arm::Disk => on_file(stage, &load, time, seed)?,
        _ => on_server(stage, arm, row.title, &load, time, seed)?,
    };
    turn.is_at_rest = stage.settle(arm, &load)?;
    let cost = before.until(&Reading::now(pid, stage.device())?);
    turn.cost = Cost {
        // That of `fio` is known already.
        server: turn.cost.server + cost.server,
        ..cost
    };
    turn.host_bytes = stage.host_bytes(arm);
    if row.after_snapshot {
        stage.forget_snapshot(arm)?;
    }
    Ok(turn)
}

fn on_server(
    stage: &Stage,
    arm: Arm,
    title: &str,
    load: &Load,
    time: Duration,
    seed: u64,
) -> Result<Turn, Failure> {
    let server = stage.server(arm)?;
    let sample = load
        .run(&server.socket, &server.export, time, seed)
        .map_err(|error| Failure::rig(&format!("{title} on {}", arm.name()), &error))?;
    Ok(Turn {
        operations: sample.operations,
        wall: Duration::from_secs_f64(sample.seconds),
        cost: Cost::default(),
        latencies: sample.latencies,
        points: None,
        host_bytes: None,
        is_at_rest: true,
    })
}

fn on_file(stage: &Stage, load: &Load, time: Duration, seed: u64) -> Result<Turn, Failure> {
    let figures = disk::run(stage.raw_image(), load, time, seed)?;
    Ok(Turn {
        operations: figures.operations,
        wall: figures.wall,
        cost: Cost {
            server: figures.cpu,
            ..Cost::default()
        },
        latencies: Latencies::default(),
        points: figures.points,
        host_bytes: None,
        is_at_rest: true,
    })
}
