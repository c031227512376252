//! Measured claims of S002: a pool with gardening and without it.
//!
//! | claim | paper | here |
//! | --- | --- | --- |
//! | R002-19, R002-20 | write after read on flash: read chain 1.7 → 32 blocks, and more throughput | a LUN that was overwritten at random, before and after `garden layout`, and after it was read with write after read and without: blocks in a run, and sequential reads |
//! | R002-21 | the same while it works: throughput 2 → 1.7 GiB/s, latency 1.7 → 2.5 ms | the same while the LUN is read for the first time |
//! | H-14 | none: what defragmentation costs if moved blocks are not shared any more | the space that `garden layout` takes of a LUN whose snapshot has all its blocks, and with `--ablation shared-moves` |
//! | R002-12, R002-13 | the worst case of segment cleaning: write chain 3 → 12 blocks, a tenth of the parity reads | a double parity group that is 85 % full, with `--garden-on-demand` and without: whole stripes, blocks read for parity, and writes |

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
    claims.extend(rig.after_read()?);
    claims.extend(rig.cleaning(folder)?);
    // The last: what it deletes leaves free space scattered.
    claims.extend(rig.sharing()?);
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
        arms: ["with", "without"],
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

    /// Makes a LUN, and writes it in order.
    fn filled(&self, daemon: &Daemon, name: &str) -> Result<(), Failure> {
        let size = LUN_BYTES.to_string();
        self.installation
            .must(&["lun", "create", name, "--size", &size])?;
        let filled = load::fill(place(daemon), name, LUN_BYTES);
        filled.map_err(|error| Failure::rig("fill a LUN", &error))
    }

    /// Overwrites a half of a LUN, not in order.
    fn scatter(&self, daemon: &Daemon, name: &str, seed: u64) -> Result<(), Failure> {
        let count = LUN_BYTES / 4096 / 2;
        let scattered = load::scatter(place(daemon), name, LUN_BYTES, count, seed);
        scattered.map_err(|error| Failure::rig("overwrite a LUN", &error))
    }

    /// Waits until `is_done` says so of what `garden show` tells.
    fn wait(&self, is_done: impl Fn(&Value) -> bool) -> Result<Value, Failure> {
        self.ask_until("garden", Duration::from_millis(100), is_done)
    }

    /// Shows the aggregate, or its garden, at intervals, until `is_done` says so of what it tells.
    fn ask_until(
        &self,
        noun: &str,
        interval: Duration,
        mut is_done: impl FnMut(&Value) -> bool,
    ) -> Result<Value, Failure> {
        let since = Instant::now();
        loop {
            let told = self.told(&[noun, "show", "aggr0", "--json"])?;
            if is_done(&told) {
                return Ok(told);
            }
            if since.elapsed() >= PATIENCE {
                return Err(Failure::Broken(format!(
                    "{noun} does not come to rest: {told}"
                )));
            }
            std::thread::sleep(interval);
        }
    }

    /// A LUN in the order of its overwrites, and in its own.
    fn layout(&self) -> Result<Vec<Claim>, Failure> {
        let daemon = self.serve(&["--garden-write-after-read", "off"])?;
        let name = "vol0/scattered";
        self.filled(&daemon, name)?;
        let reads = Load::of(Kind::Read, Order::Sequential, 128 << 10, 8, LUN_BYTES);
        let (mut chains, mut rates) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
        for round in 0..self.rounds {
            self.scatter(&daemon, name, round)?;
            rates[1].push(self.sample(&daemon, name, &reads, round)?);
            self.installation.must(&["garden", "layout", name])?;
            let done = self.wait(|told| told["layout"]["state"] == "done")?;
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

    /// A scattered LUN with a snapshot, put in order by moving its blocks, or by writing them anew.
    fn sharing(&self) -> Result<Vec<Claim>, Failure> {
        let mut more = [Vec::new(), Vec::new()];
        let daemon = self.serve(&[])?;
        for name in ["vol0/scattered", "vol0/with", "vol0/without"] {
            let words = ["lun", "delete", name, "--purge", "--yes"];
            self.installation.must(&words)?;
        }
        self.used_bytes()?;
        daemon.kill();
        for (arm, words) in [&[][..], &["--ablation", "shared-moves"]]
            .iter()
            .enumerate()
        {
            let name = ["vol0/shared", "vol0/unshared"][arm];
            let off = ["--garden-write-after-read", "off"];
            let daemon = self.serve(&[&off[..], words].concat())?;
            self.filled(&daemon, name)?;
            self.scatter(&daemon, name, 3)?;
            let snapshot = ["vol0@shared", "vol0@unshared"][arm];
            self.installation.must(&["snapshot", "create", snapshot])?;
            let before = self.used_bytes()?;
            self.installation.must(&["garden", "layout", name])?;
            self.wait(|told| told["layout"]["state"] == "done")?;
            let taken = self.used_bytes()? - before;
            more[arm].push(taken / LUN_BYTES as f64 * 100.0);
            for (noun, object) in [("snapshot", snapshot), ("lun", name)] {
                let words = [noun, "delete", object, "--purge", "--yes"];
                self.installation.must(&words)?;
            }
            self.used_bytes()?;
            daemon.kill();
        }
        let what = ("H-14", "moved blocks stay shared with snapshots (H-03)");
        let measured = "space taken by putting a LUN in order, of its size";
        Ok(vec![claim(what, "no figure", measured, &more, "%")])
    }

    /// Bytes in use of the aggregate, when nothing is deleted any more.
    fn used_bytes(&self) -> Result<f64, Failure> {
        let mut last = None;
        let told = self.ask_until("aggregate", Duration::from_secs(2), |told| {
            let used = told["used_bytes"].as_u64();
            last.replace(used) == Some(used)
        })?;
        Ok(told["used_bytes"].as_f64().unwrap_or_default())
    }

    /// A scattered LUN that a client reads in order, with write after read and without it: while
    /// that works, and when it has.
    fn after_read(&self) -> Result<Vec<Claim>, Failure> {
        let reads = Load::of(Kind::Read, Order::Sequential, 64 << 10, 8, LUN_BYTES);
        let names = ["vol0/with", "vol0/without"];
        let empty = || [Vec::new(), Vec::new()];
        let (mut chains, mut during, mut slow, mut after) = (empty(), empty(), empty(), empty());
        for round in 0..self.rounds {
            for turn in 0..2 {
                let arm = usize::try_from((round + turn) % 2).unwrap_or(0);
                let name = names[arm];
                let daemon = self.serve(&["--garden-write-after-read", ["on", "off"][arm]])?;
                if round == 0 {
                    self.filled(&daemon, name)?;
                }
                self.scatter(&daemon, name, round)?;
                let sample = reads.run(place(&daemon), name, self.time, round);
                let sample = sample.map_err(|error| Failure::rig("read a LUN", &error))?;
                during[arm].push(sample.rate() / 16.0);
                slow[arm].push(sample.latencies.points().p99.as_secs_f64() * 1000.0);
                // Until all of it was read, and what was read is in order.
                let all = load::read_all(place(&daemon), name, LUN_BYTES);
                all.map_err(|error| Failure::rig("read a LUN", &error))?;
                self.wait(|told| told["after_read"]["waiting_bytes"] == 0)?;
                after[arm].push(self.sample(&daemon, name, &reads, round)? / 16.0);
                self.installation
                    .must(&["garden", "layout", name, "--estimate"])?;
                let told = self.wait(|told| told["layout"]["state"] == "done")?;
                let bytes = told["layout"]["run_bytes_before"].as_f64();
                chains[arm].push(bytes.unwrap_or_default() / 4096.0);
                daemon.kill();
            }
        }
        let rows = [
            (
                "R002-19",
                "32 ÷ 1.7 blocks",
                "blocks in a run",
                &chains,
                "blocks",
            ),
            (
                "R002-20",
                "much higher",
                "sequential read 64 KiB q8 afterwards",
                &after,
                "MiB/s",
            ),
            (
                "R002-21",
                "1.7 ÷ 2 GiB/s",
                "the same meanwhile",
                &during,
                "MiB/s",
            ),
            (
                "R002-21",
                "2.5 ÷ 1.7 ms (mean)",
                "99 of 100 reads meanwhile",
                &slow,
                "ms",
            ),
        ];
        let what = "what was read in order is put in order (H-16)";
        let rows = rows
            .into_iter()
            .map(|(id, published, measured, figures, unit)| {
                claim((id, what), published, measured, figures, unit)
            });
        Ok(rows.collect())
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
        let devices = drives.join(",");
        // With areas of the usual size, drives as small as these would have few of them.
        let sizes = ["--size", DRIVE_SIZE, "--area-size", "16MiB"];
        let more = [&sizes[..], &["--devices", &devices]].concat();
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
