//! The machine's raw figures: `fio` on the raw file, O_DIRECT, io_uring, with the depth, block size
//! and number of jobs of the row, in the same rounds. No server and no socket are in the way.
//!
//! | load | `fio` |
//! | --- | --- |
//! | each write durable | the file is opened with `O_DSYNC` |
//! | a flush after every 8 writes | `fdatasync=8` |
//! | each writer flushes each write | `fdatasync=1`: a job has one write in flight, not four |
//!
//! `fio` does not say when a write that is flushed later is durable, so those rows have no latency.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::latency::Points;
use super::load::{Kind, Load, Order};
use super::server::must;
use crate::Failure;

/// What one job came to.
pub(super) struct Figures {
    pub(super) operations: u64,
    pub(super) wall: Duration,
    pub(super) cpu: Duration,
    /// Absent if `fio` does not measure them as the row does.
    pub(super) points: Option<Points>,
}

impl Figures {
    pub(super) fn rate(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
        let operations = self.operations as f64;
        operations / self.wall.as_secs_f64()
    }
}

/// Runs a load.
pub(super) fn run(
    image: &Path,
    load: &Load,
    time: Duration,
    seed: u64,
) -> Result<Figures, Failure> {
    let mut found = together(image, &[load], time, seed)?;
    found
        .pop()
        .ok_or_else(|| Failure::Rig("fio reported nothing".to_owned()))
}

/// Runs loads beside each other; the figures are in their order.
pub(super) fn together(
    image: &Path,
    loads: &[&Load],
    time: Duration,
    seed: u64,
) -> Result<Vec<Figures>, Failure> {
    let mut words = vec![
        format!("--filename={}", image.display()),
        format!("--runtime={}ms", time.as_millis()),
        format!("--randseed={seed}"),
        "--time_based".to_owned(),
        "--direct=1".to_owned(),
        "--ioengine=io_uring".to_owned(),
        "--output-format=json".to_owned(),
    ];
    for (number, load) in loads.iter().enumerate() {
        words.push(format!("--name=job{number}"));
        words.extend(job(load));
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let text = must("fio", &words)?;
    let told: Value =
        serde_json::from_str(&text).map_err(|error| Failure::rig("understand fio", &error))?;
    let found: Vec<Figures> = loads
        .iter()
        .enumerate()
        .map(|(number, load)| figures(&told["jobs"][number], load))
        .collect();
    match found.iter().all(|it| it.operations > 0) {
        true => Ok(found),
        false => Err(Failure::Rig(format!("fio did nothing: {text}"))),
    }
}

fn job(load: &Load) -> Vec<String> {
    let way = match (load.kind, load.order) {
        (Kind::Read, Order::Random) => "randread",
        (Kind::Read, Order::Sequential | Order::Sparse(_)) => "read",
        (_, Order::Random) => "randwrite",
        (_, Order::Sequential | Order::Sparse(_)) => "write",
    };
    let mut words = vec![
        format!("--rw={way}"),
        format!("--bs={}", load.block),
        format!("--iodepth={}", load.depth),
        format!("--size={}", load.bytes),
        format!("--numjobs={}", load.jobs),
        "--group_reporting".to_owned(),
        // Each group is reported by itself.
        "--new_group".to_owned(),
    ];
    match load.kind {
        Kind::Read => {}
        Kind::Write => words.push("--end_fsync=1".to_owned()),
        Kind::DurableWrite => words.push("--sync=dsync".to_owned()),
        Kind::WriteFlush(count) => words.push(format!("--fdatasync={count}")),
        Kind::WriteThenFlush => words.push("--fdatasync=1".to_owned()),
    }
    if let Some(pace) = load.pace {
        words.push(format!("--rate_iops={pace:.0}"));
    }
    words
}

fn figures(job: &Value, load: &Load) -> Figures {
    let side = match load.kind {
        Kind::Read => &job["read"],
        _ => &job["write"],
    };
    let number = |value: &Value| value.as_f64().unwrap_or(0.0);
    let wall = Duration::from_secs_f64(number(&side["runtime"]) / 1e3);
    // The shares are those of one job on average.
    let share = (number(&job["usr_cpu"]) + number(&job["sys_cpu"])) / 100.0;
    let at = |of_100: &str| {
        let nanos = side["clat_ns"]["percentile"][of_100].as_u64();
        Duration::from_nanos(nanos.unwrap_or(0))
    };
    let has_points = !matches!(load.kind, Kind::WriteFlush(_) | Kind::WriteThenFlush);
    Figures {
        operations: side["total_ios"].as_u64().unwrap_or(0),
        wall,
        cpu: wall.mul_f64(share * f64::from(load.jobs)),
        points: has_points.then(|| Points {
            p50: at("50.000000"),
            p99: at("99.000000"),
            p999: at("99.900000"),
            max: Duration::from_nanos(side["clat_ns"]["max"].as_u64().unwrap_or(0)),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(kind: Kind, jobs: u32) -> Load {
        Load {
            kind,
            order: Order::Random,
            block: 4096,
            depth: 4,
            jobs,
            bytes: 1 << 20,
            pace: None,
        }
    }

    #[test]
    fn durable_rows_are_durable_on_the_file_too() {
        let says = |kind, word: &str| job(&load(kind, 1)).iter().any(|it| it == word);
        assert!(says(Kind::DurableWrite, "--sync=dsync"));
        assert!(says(Kind::WriteFlush(8), "--fdatasync=8"));
        assert!(says(Kind::WriteThenFlush, "--fdatasync=1"));
        assert!(says(Kind::Write, "--end_fsync=1"));
        assert!(!says(Kind::Read, "--end_fsync=1"));
    }

    #[test]
    fn cpu_is_that_of_all_jobs() {
        let told = serde_json::json!({ "usr_cpu": 10.0, "sys_cpu": 15.0, "write": {
            "runtime": 2000, "total_ios": 4000,
            "clat_ns": { "max": 9000, "percentile": { "50.000000": 1000 } } } });
        let figures = figures(&told, &load(Kind::WriteThenFlush, 8));
        assert_eq!(figures.cpu, Duration::from_secs(4));
        assert_eq!(figures.rate(), 2000.0);
        assert!(figures.points.is_none());
        let figures = super::figures(&told, &load(Kind::Write, 1));
        assert_eq!(figures.points.unwrap().p50, Duration::from_micros(1));
    }
}
