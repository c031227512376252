//! Measured claims of S002: a pool with gardening and without it.
//!
//! | claim | paper | here |
//! | --- | --- | --- |
//! | R002-19, R002-20 | write after read on flash: read chain 1.7 → 32 blocks, and more throughput | a LUN that was overwritten at random, before and after `garden layout`: blocks in a run, and sequential reads |
//! | R002-12, R002-13 | the worst case of segment cleaning: write chain 3 → 12 blocks, a tenth of the parity reads | a double parity group that is 85 % full, with `--garden-on-demand` and without: whole stripes, blocks read for parity, and writes |
//!
//! The paper's write after read begins by itself, and ours when it is asked for. What is compared
//! is what both leave.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::load::{self, Kind, Load, Order, Place};
use super::paper::Claim;
use super::raid::stripes;
use crate::Failure;
use crate::bench::Summary;
use crate::rig::{Daemon, Installation};

/// Four times the server's cache.
const LUN_BYTES: u64 = 2 << 30;
const DRIVES: usize = 6;
const DRIVE_SIZE: &str = "2304MiB";
/// 85 % of what the group holds.
const CROWDED_BYTES: u64 = 6700 << 20;
const PATIENCE: Duration = Duration::from_secs(300);

struct Rig<'a> {
    installation: &'a Installation,
    time: Duration,
    rounds: u64,
}

/// Measures them. `folder` is on the disk that is measured.
///
/// # Errors
/// What fails.
pub fn s002(
    installation: &Installation,
    folder: &Path,
    rounds: u64,
    time: Duration,
) -> Result<Vec<Claim>, Failure> {
    let rig = Rig {
        installation,
        time,
        rounds: rounds.max(1),
    };
    let mut claims = rig.layout()?;
    claims.extend(rig.cleaning(folder)?);
    Ok(claims)
}

fn place(daemon: &Daemon) -> Place {
    Place::Nbd(daemon.unix.clone())
}

fn claim(
    (ids, claim): (&'static str, &'static str),
    published: &'static str,
    measured: &'static str,
    figures: &[Vec<f64>; 2],
    unit: &'static str,
) -> Claim {
    Claim {
        ids,
        claim,
        published,
        measured,
        figures: [&figures[0], &figures[1]].map(|figures| Summary::of(figures).median),
        unit,
    }
}

impl Rig<'_> {
    fn serve(&self, words: &[&str]) -> Result<Daemon, Failure> {
        let mut all = vec!["--memory", "512MiB", "--aggregate-size", "8GiB"];
        all.extend(["--lun-size", "64MiB", "--metrics-tcp", ":0"]);
        all.extend(words);
        self.installation.serve(&all)
    }

    fn sample(&self, daemon: &Daemon, name: &str, load: &Load, seed: u64) -> Result<f64, Failure> {
        let sample = load.run(place(daemon), name, self.time, seed);
        let sample = sample.map_err(|error| Failure::rig(&format!("load on {name}"), &error))?;
        Ok(sample.rate())
    }

    fn told(&self, words: &[&str]) -> Result<Value, Failure> {
        let output = self.installation.run(words)?;
        let told = serde_json::from_slice(&output.stdout);
        told.map_err(|error| Failure::rig(&format!("understand {}", words.join(" ")), &error))
    }

    /// A LUN in the order of its overwrites, and in its own.
    fn layout(&self) -> Result<Vec<Claim>, Failure> {
        let daemon = self.serve(&[])?;
        let (name, size) = ("vol0/scattered", LUN_BYTES.to_string());
        self.installation
            .must(&["lun", "create", name, "--size", &size])?;
        let filled = load::fill(place(&daemon), name, LUN_BYTES);
        filled.map_err(|error| Failure::rig("fill a LUN", &error))?;
        let reads = Load::of(Kind::Read, Order::Sequential, 128 << 10, 8, LUN_BYTES);
        let (mut chains, mut rates) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
        for round in 0..self.rounds {
            let count = LUN_BYTES / 4096 / 2;
            let scattered = load::scatter(place(&daemon), name, LUN_BYTES, count, round);
            scattered.map_err(|error| Failure::rig("overwrite a LUN", &error))?;
            rates[1].push(self.sample(&daemon, name, &reads, round)?);
            self.installation.must(&["garden", "layout", name])?;
            let since = Instant::now();
            let done = loop {
                let told = self.told(&["garden", "show", "aggr0", "--json"])?;
                match told["layout"]["state"].as_str() {
                    Some("running") if since.elapsed() < PATIENCE => {}
                    Some("done") => break told,
                    state => return Err(Failure::Broken(format!("the layout is {state:?}"))),
                }
                std::thread::sleep(Duration::from_millis(100));
            };
            rates[0].push(self.sample(&daemon, name, &reads, round)?);
            for (arm, field) in ["run_bytes_after", "run_bytes_before"].iter().enumerate() {
                let bytes = done["layout"][field].as_f64().unwrap_or_default();
                chains[arm].push(bytes / 4096.0);
            }
        }
        daemon.kill();
        let what = ("R002-19, R002-20", "files are put in order (H-11, H-15)");
        let mib = rates.map(|arm| arm.into_iter().map(|rate| rate / 8.0).collect());
        Ok(vec![
            claim(
                what,
                "32 ÷ 1.7 blocks",
                "blocks in a run",
                &chains,
                "blocks",
            ),
            claim(
                what,
                "much higher",
                "sequential read 128 KiB q8",
                &mib,
                "MiB/s",
            ),
        ])
    }

    /// A crowded group, whose areas are emptied as whole ones are needed, or not.
    fn cleaning(&self, folder: &Path) -> Result<Vec<Claim>, Failure> {
        let mut drives = Vec::new();
        for number in 0..DRIVES {
            let drive = folder.join(format!("double-{number}"));
            fs::create_dir(&drive).map_err(|error| Failure::at("make", &drive, &error))?;
            drives.push(drive.display().to_string());
        }
        let daemon = self.serve(&[])?;
        let (name, size) = ("crowded/lun", CROWDED_BYTES.to_string());
        let words = ["aggregate", "create", "crowded", "--raid", "double"];
        let more = ["--size", DRIVE_SIZE, "--devices", &drives.join(",")];
        self.installation.must(&[&words[..], &more].concat())?;
        let words = ["volume", "create", "crowded", "--aggregate", "crowded"];
        self.installation.must(&words)?;
        self.installation
            .must(&["lun", "create", name, "--size", &size])?;
        let filled = load::fill(place(&daemon), name, CROWDED_BYTES);
        filled.map_err(|error| Failure::rig("fill a LUN", &error))?;
        let count = CROWDED_BYTES / 4096 / 4;
        let aged = load::scatter(place(&daemon), name, CROWDED_BYTES, count, 7);
        aged.map_err(|error| Failure::rig("age a LUN", &error))?;
        daemon.kill();

        let writes = Load::of(Kind::Write, Order::Random, 4096, 32, CROWDED_BYTES);
        let empty = || [Vec::new(), Vec::new()];
        let (mut whole, mut reads, mut rates) = (empty(), empty(), empty());
        for round in 0..self.rounds {
            for turn in 0..2 {
                let arm = usize::try_from((round + turn) % 2).unwrap_or(0);
                let daemon = self.serve(&["--garden-on-demand", ["on", "off"][arm]])?;
                // The first seconds after a start are not like the others.
                self.sample(&daemon, name, &writes, round)?;
                let before = stripes(&daemon, "crowded")?;
                let rate = self.sample(&daemon, name, &writes, round + 100)?;
                let after = stripes(&daemon, "crowded")?;
                daemon.kill();
                let [full, partial, read] = [0, 1, 2].map(|at| after[at] - before[at]);
                whole[arm].push(full / (full + partial).max(1.0) * 100.0);
                reads[arm].push(read / (rate * self.time.as_secs_f64()).max(1.0));
                rates[arm].push(rate);
            }
        }
        let what = (
            "R002-12, R002-13",
            "areas are emptied before they are needed (H-06)",
        );
        Ok(vec![
            claim(
                what,
                "12 ÷ 3 blocks",
                "whole stripes of those written",
                &whole,
                "%",
            ),
            claim(
                what,
                "about 1 ÷ 10",
                "blocks read for parity per write",
                &reads,
                "blocks",
            ),
            claim(
                what,
                "lower latency at the most load only",
                "random overwrite 4 KiB q32",
                &rates,
                "/s",
            ),
        ])
    }
}
