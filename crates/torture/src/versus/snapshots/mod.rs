//! What snapshots cost, beside the same jobs on btrfs (issue "Snapshots, restore and clones", "What
//! it must reach").
//!
//! * `store`: what the jobs ask of a store; `ours` and `btrfs` implement it.
//! * `rest`: requests to the daemon of our store.
//! * `creation`, `first_write`, `depth`, `deletion`, `restoring`, `full`: the jobs, each for one
//!   row of the table.
//! * `results`, `page`: the results of the jobs, and the document that shows them.
//!
//! Both stores are on the same disk at the same time, and take turns in every round. What is
//! compared with each other (a volume of 10 TiB with one of 1 GiB, a depth with another, with and
//! without a deletion) is measured in the same round too, and the store that begins changes from
//! round to round.

mod btrfs;
mod creation;
mod deletion;
mod depth;
mod first_write;
mod full;
mod ours;
pub mod page;
pub(super) mod rest;
mod restoring;
pub mod results;
mod store;

use std::path::Path;
use std::time::{Duration, Instant};

use super::load::{self, Kind, Load, Order};
use crate::Failure;
use crate::rig::Installation;
use btrfs::Btrfs;
use ours::Ours;
pub use results::Results;
use store::Store;

/// The only image of most volumes.
const IMAGE: &str = "lun";
/// Size of the peer's file system: a sparse file, of which jobs take a third at most.
const BTRFS_BYTES: u64 = 24 << 30;

/// Which jobs run, and how large they are.
#[derive(Clone, Debug)]
pub struct Plan {
    /// For trying things out: everything is smaller, and no figure means much.
    pub is_quick: bool,
    /// Jobs to run; all if absent.
    pub only: Option<Vec<String>>,
    /// The value of `--memory` for our server.
    pub memory: String,
}

/// Jobs, in the order in which they run.
pub const KEYS: [&str; 6] = [
    creation::KEY,
    first_write::KEY,
    restoring::KEY,
    depth::KEY,
    deletion::KEY,
    full::KEY,
];

impl Plan {
    fn pick<T>(&self, quick: T, full: T) -> T {
        if self.is_quick { quick } else { full }
    }

    /// Bytes of the volume that is called small; it is filled.
    fn small_bytes(&self) -> u64 {
        self.pick(128 << 20, 1 << 30)
    }

    /// Snapshots of the deepest history.
    fn snapshots(&self) -> u64 {
        self.pick(40, 1000)
    }

    fn wants(&self, key: &str) -> bool {
        let only = self.only.as_ref();
        only.is_none_or(|only| only.iter().any(|wanted| wanted == key))
    }
}

/// Runs all jobs in a folder on the disk that is measured. `written` is called after each.
///
/// # Errors
/// If our server fails, or the rig. What the peer fails at is noted.
pub fn run(
    programs: &Path,
    folder: &Path,
    plan: &Plan,
    results: &mut Results,
    written: &mut dyn FnMut(&Results) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let begun = Instant::now();
    let installation = Installation::new(&programs.join("everglade"), folder);
    let mut ours = Ours::start(installation, &plan.memory)?;
    let mut btrfs = Btrfs::make(folder, "peer", BTRFS_BYTES)?;
    type Job = fn(&mut [&mut dyn Store], &Plan, &mut Results) -> Result<(), Failure>;
    // Depths before the deletion, which deletes the deepest of them.
    let jobs: [(&str, Job); 5] = [
        (creation::KEY, creation::run),
        (first_write::KEY, first_write::run),
        (restoring::KEY, restoring::run),
        (depth::KEY, depth::run),
        (deletion::KEY, deletion::run),
    ];
    for (key, job) in jobs.into_iter().filter(|(key, _)| plan.wants(key)) {
        eprintln!("{:>5.0} s  {key}", begun.elapsed().as_secs_f64());
        job(&mut [&mut ours, &mut btrfs], plan, results)?;
        written(results)?;
    }
    if plan.wants(full::KEY) {
        eprintln!("{:>5.0} s  {}", begun.elapsed().as_secs_f64(), full::KEY);
        drop(btrfs);
        full::run(&ours, folder, plan, results)?;
    }
    let took = format!("{:.0} s", begun.elapsed().as_secs_f64());
    results.about.push(("duration", took));
    written(results)
}

/// Makes a volume with one image and fills the first bytes of it, if it is not there.
fn ensure(store: &mut dyn Store, volume: &str, bytes: u64, filled: u64) -> Result<(), Failure> {
    if store.server(volume, IMAGE).is_ok() {
        return Ok(());
    }
    store.add(volume, IMAGE, bytes)?;
    let server = store.server(volume, IMAGE)?;
    load::fill(&server.socket, &server.export, filled)
        .map_err(|error| Failure::rig(&format!("fill {volume} of {}", store.name()), &error))
}

/// 4 KiB at random places of the first bytes.
fn random(kind: Kind, depth: u32, bytes: u64) -> Load {
    Load::of(kind, Order::Random, 4096, depth, bytes)
}

/// Runs a load on a volume.
fn drive(
    store: &dyn Store,
    volume: &str,
    load: &Load,
    seconds: f64,
    seed: u64,
) -> Result<load::Sample, Failure> {
    let server = store.server(volume, IMAGE)?;
    let time = Duration::from_secs_f64(seconds);
    let sample = load.run(&server.socket, &server.export, time, seed);
    sample.map_err(|error| Failure::rig(&format!("load on {volume} of {}", store.name()), &error))
}

/// Runs `work` while a load goes on, which begins a little earlier.
fn beside<T>(
    store: &mut dyn Store,
    volume: &str,
    load: &Load,
    seed: u64,
    work: impl FnOnce(&mut dyn Store) -> Result<T, Failure>,
) -> Result<(T, load::Sample), Failure> {
    let server = store.server(volume, IMAGE)?;
    let (socket, export) = (server.socket.clone(), server.export.clone());
    let is_enough = std::sync::Arc::default();
    let (done, sample) = std::thread::scope(|scope| {
        let running = scope.spawn(|| load.run_until(&socket, &export, LONGEST, seed, &is_enough));
        std::thread::sleep(AHEAD);
        let done = work(store);
        is_enough.store(true, std::sync::atomic::Ordering::Relaxed);
        (done, running.join())
    });
    let sample = match sample {
        Ok(sample) => sample.map_err(|error| Failure::rig("the load beside it", &error))?,
        Err(panic) => std::panic::resume_unwind(panic),
    };
    Ok((done?, sample))
}

/// A load that is told to end does so long before.
const LONGEST: Duration = Duration::from_secs(300);
/// A load is under way.
const AHEAD: Duration = Duration::from_millis(300);

/// Half of what a volume can do when nothing else goes on: 4 KiB writes in a second.
fn half_load(store: &dyn Store, volume: &str, plan: &Plan) -> Result<Load, Failure> {
    let load = random(Kind::Write, 32, plan.small_bytes());
    let most = drive(store, volume, &load, plan.pick(0.7, 3.0), 99)?.rate();
    Ok(Load {
        pace: Some(most / 2.0),
        ..load
    })
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
