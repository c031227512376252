//! Protocols of one server against each other: the same load on the same LUN, over NBD on TCP and
//! over NVMe/TCP, by turns. Who begins changes from round to round.

use std::time::Duration;

use super::bootstrap::Ratio;
use super::load::{self, Kind, Load, Order, Place};
use super::server;
use crate::Failure;
use crate::bench::Summary;
use crate::rig::{Daemon, Installation};

/// Fits every cache.
const LUN_BYTES: u64 = 256 << 20;
const EXPORT: &str = "vol0/lun0";

/// A load, and the least ratio of rates that is wanted.
struct Row {
    title: &'static str,
    load: Load,
    goal: Option<f64>,
}

/// What became of a load.
#[derive(Debug)]
pub struct Comparison {
    /// For people.
    pub title: &'static str,
    /// Requests per second over NBD, and over NVMe/TCP: medians of the rounds.
    pub rates: [f64; 2],
    /// CPU microseconds of the server for a request, likewise.
    pub cpu_us: [f64; 2],
    /// NVMe/TCP by NBD.
    pub ratio: Ratio,
    /// The least ratio that is wanted.
    pub goal: Option<f64>,
}

fn rows() -> [Row; 5] {
    let load = |kind, order, block, depth| Load::of(kind, order, block, depth, LUN_BYTES);
    let row = |title, load, goal| Row { title, load, goal };
    [
        row(
            "random read 4 KiB q32, cached",
            load(Kind::Read, Order::Random, 4096, 32),
            Some(1.0),
        ),
        row(
            "random read 4 KiB q1, cached",
            load(Kind::Read, Order::Random, 4096, 1),
            None,
        ),
        row(
            "sequential read 64 KiB q8, cached",
            load(Kind::Read, Order::Sequential, 64 << 10, 8),
            Some(0.9),
        ),
        row(
            "sequential write 64 KiB q8",
            load(Kind::Write, Order::Sequential, 64 << 10, 8),
            Some(0.9),
        ),
        row(
            "random write 4 KiB q32",
            load(Kind::Write, Order::Random, 4096, 32),
            None,
        ),
    ]
}

/// Starts a server in `installation` and compares.
///
/// # Errors
/// What fails, and with which load.
pub fn run(
    installation: &Installation,
    rounds: u64,
    time: Duration,
) -> Result<Vec<Comparison>, Failure> {
    let daemon = installation.serve(&[
        "--nvme-tcp",
        ":0",
        "--lun-size",
        "256MiB",
        "--aggregate-size",
        "4GiB",
        "--memory",
        "1GiB",
    ])?;
    let (nvme, subsystem) = nvme_of(installation, &daemon)?;
    let places = [
        (Place::Nbd(daemon.tcp.clone()), EXPORT),
        (nvme, &*subsystem),
    ];
    let filled = |error: std::io::Error| Failure::rig("fill the LUN", &error);
    load::fill(places[0].0.clone(), EXPORT, LUN_BYTES).map_err(filled)?;
    load::read_all(places[0].0.clone(), EXPORT, LUN_BYTES).map_err(filled)?;
    let rows = rows().into_iter();
    rows.map(|row| compare(&daemon, &places, &row, rounds, time))
        .collect()
}

/// Returns where the only LUN of a server is over NVMe/TCP, and the name of its subsystem.
pub(super) fn nvme_of(
    installation: &Installation,
    daemon: &Daemon,
) -> Result<(Place, String), Failure> {
    let nvme = daemon.nvme.clone();
    let nvme = nvme.ok_or_else(|| Failure::Rig("the server has no NVMe/TCP".to_owned()))?;
    let shown = installation.run(&["lun", "show", "--no-header", "--columns", "nvme"])?;
    let subsystem = String::from_utf8_lossy(&shown.stdout).trim().to_owned();
    Ok((Place::Nvme(nvme), subsystem))
}

fn compare(
    daemon: &Daemon,
    places: &[(Place, &str); 2],
    row: &Row,
    rounds: u64,
    time: Duration,
) -> Result<Comparison, Failure> {
    let mut rates = [Vec::new(), Vec::new()];
    let mut cpus = [Vec::new(), Vec::new()];
    for round in 0..=rounds {
        for turn in 0..2 {
            let index = usize::try_from((round + turn) % 2).unwrap_or(0);
            let (place, name) = &places[index];
            let before = server::cpu(daemon.pid())?;
            let sample = row.load.run(place.clone(), name, time, round);
            let sample = sample.map_err(|error| Failure::rig(row.title, &error))?;
            let cpu = server::cpu(daemon.pid())?.saturating_sub(before);
            // The first round warms up.
            if round > 0 {
                rates[index].push(sample.rate());
                #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
                let operations = sample.operations.max(1) as f64;
                cpus[index].push(cpu.as_secs_f64() * 1e6 / operations);
            }
        }
    }
    let [nbd, nvme] = &rates;
    Ok(Comparison {
        title: row.title,
        ratio: Ratio::of(nvme, nbd),
        rates: [nbd, nvme].map(|rates| Summary::of(rates).median),
        cpu_us: [&cpus[0], &cpus[1]].map(|cpus| Summary::of(cpus).median),
        goal: row.goal,
    })
}
