//! The cost of double parity. An aggregate with it, on six directories, is compared with one
//! without redundancy, on six other directories, and with btrfs on six loop devices. All are on one
//! disk, and have their turns one after the other.
//!
//! Because all drives share the disk, each read for parity and each write of parity costs a part of
//! what this disk can do for data.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::account::host_bytes;
use super::bootstrap::Ratio;
use super::disk;
use super::load::{self, Kind, Load, Order, Place};
use super::server::{Server, must, sparse_file, write_all};
use super::snapshots::rest;
use crate::Failure;
use crate::bench::Summary;
use crate::rig::{Daemon, Installation};

const DRIVES: usize = 6;
const DATA_DRIVES: u64 = 4;
/// Of the LUN that is measured: four times the server's cache.
const LUN_BYTES: u64 = 2 << 30;
/// Of each drive with double parity; without, the same bytes of data are on six of them.
const DRIVE_BYTES: u64 = 3 << 30;
/// Of each loop device of btrfs.
const LOOP_BYTES: u64 = 2 << 30;
/// How full an aged aggregate is, in percent.
const AGED_PERCENT: u64 = 85;
/// To age an aggregate, one of so many blocks of its second LUN is overwritten.
const SCATTERED: u64 = 2;
/// A catch-up or a scrub takes less.
const PATIENCE: Duration = Duration::from_secs(300);

/// A row of the table.
#[derive(Debug)]
pub struct Line {
    /// The job.
    pub job: &'static str,
    /// What it is compared with.
    pub against: &'static str,
    /// The figure of double parity, and the other one: medians.
    pub figures: [f64; 2],
    /// Of both.
    pub unit: &'static str,
    /// The first by the second.
    pub ratio: Ratio,
    /// What is wanted.
    pub goal: &'static str,
    /// What else was counted.
    pub note: String,
}

/// The rig while it runs.
struct Rig<'a> {
    installation: &'a Installation,
    folder: &'a Path,
    daemon: Option<Daemon>,
    rounds: u64,
    time: Duration,
    lines: Vec<Line>,
}

fn load(kind: Kind, order: Order, block: u32, depth: u32) -> Load {
    Load::of(kind, order, block, depth, LUN_BYTES)
}

/// Runs all jobs. `folder` is on the disk that is measured.
///
/// # Errors
/// What fails, and with which load.
pub fn run(
    installation: &Installation,
    folder: &Path,
    rounds: u64,
    time: Duration,
) -> Result<Vec<Line>, Failure> {
    let mut rig = Rig {
        installation,
        folder,
        daemon: None,
        rounds,
        time,
        lines: Vec::new(),
    };
    rig.start()?;
    rig.create("none", DRIVE_BYTES * DATA_DRIVES / DRIVES as u64)?;
    rig.create("double", DRIVE_BYTES)?;
    let writes = load(Kind::Write, Order::Sequential, 128 << 10, 8);
    rig.compare("sequential write 128 KiB q8", &writes, "≥ 0.6")?;
    let overwrites = load(Kind::Write, Order::Random, 4096, 32);
    rig.compare("random overwrite 4 KiB q32, fresh", &overwrites, "≥ 0.6")?;
    rig.beside_btrfs("raid6", &overwrites)?;
    rig.beside_btrfs("raid1c3", &overwrites)?;
    for aggregate in ["none", "double"] {
        rig.age(aggregate)?;
    }
    rig.compare(
        "random overwrite 4 KiB q32, 85 % full and aged",
        &overwrites,
        "≥ 0.4",
    )?;
    rig.without_drives()?;
    Ok(rig.lines)
}

/// Full and partial stripes that were written, and blocks that were read for parity.
pub(super) fn stripes(daemon: &Daemon, aggregate: &str) -> Result<[f64; 3], Failure> {
    let text = rest::page(daemon.metrics.as_deref().unwrap_or_default(), "/metrics")?;
    let value = |name: &str, kind: &str| {
        let labels = format!("aggregate=\"{aggregate}\",kind=\"{kind}\"");
        let found = rest::samples(&text, name).find(|(found, _)| *found == labels);
        let found = found.map(|(_, value)| value);
        found.ok_or_else(|| Failure::Rig(format!("no {name} of {labels} in /metrics")))
    };
    Ok([
        value("everglade_stripes_total", "full")?,
        value("everglade_stripes_total", "partial")?,
        value("everglade_stripe_blocks_total", "read")?,
    ])
}

impl Rig<'_> {
    fn start(&mut self) -> Result<(), Failure> {
        let words = [
            "--memory",
            "512MiB",
            "--lun-size",
            "64MiB",
            "--metrics-tcp",
            ":0",
        ];
        self.daemon = Some(self.installation.serve(&words)?);
        Ok(())
    }

    fn daemon(&self) -> Result<&Daemon, Failure> {
        let daemon = self.daemon.as_ref();
        daemon.ok_or_else(|| Failure::Rig("the server does not run".to_owned()))
    }

    fn place(&self) -> Result<Place, Failure> {
        Ok(Place::Nbd(self.daemon()?.unix.clone()))
    }

    fn drive(&self, aggregate: &str, number: usize) -> PathBuf {
        self.folder.join(format!("{aggregate}-{number}"))
    }

    /// Makes an aggregate with that redundancy, and a LUN whose blocks are all written.
    fn create(&self, raid: &str, drive_bytes: u64) -> Result<(), Failure> {
        let mut drives = Vec::new();
        for number in 0..DRIVES {
            let drive = self.drive(raid, number);
            fs::create_dir(&drive).map_err(|error| Failure::at("make", &drive, &error))?;
            drives.push(drive.display().to_string());
        }
        let (size, drives) = (drive_bytes.to_string(), drives.join(","));
        let words = ["aggregate", "create", raid, "--raid", raid, "--size", &size];
        self.installation
            .must(&[&words[..], &["--devices", &drives]].concat())?;
        self.installation
            .must(&["volume", "create", raid, "--aggregate", raid])?;
        self.fill(raid, "lun", LUN_BYTES)
    }

    fn fill(&self, volume: &str, lun: &str, bytes: u64) -> Result<(), Failure> {
        let (name, size) = (format!("{volume}/{lun}"), bytes.to_string());
        self.installation
            .must(&["lun", "create", &name, "--size", &size])?;
        let filled = load::fill(self.place()?, &name, bytes);
        filled.map_err(|error| Failure::rig(&format!("fill {name}"), &error))
    }

    /// Fills an aggregate, and overwrites much of it, so that free space is in single blocks.
    fn age(&self, aggregate: &str) -> Result<(), Failure> {
        let about = self.about(aggregate)?;
        let bytes = |field: &str| about[field].as_u64().unwrap_or(0);
        let wanted = bytes("size_bytes") / 100 * AGED_PERCENT;
        let missing = wanted.saturating_sub(bytes("used_bytes")) >> 20 << 20;
        self.fill(aggregate, "filler", missing)?;
        let (name, count) = (format!("{aggregate}/filler"), missing / 4096 / SCATTERED);
        let aged = load::scatter(self.place()?, &name, missing, count, 7);
        aged.map_err(|error| Failure::rig(&format!("age {aggregate}"), &error))
    }

    fn about(&self, aggregate: &str) -> Result<Value, Failure> {
        self.told(&["aggregate", "show", aggregate, "--json"])
    }

    fn told(&self, words: &[&str]) -> Result<Value, Failure> {
        let output = self.installation.run(words)?;
        let told = serde_json::from_slice(&output.stdout);
        told.map_err(|error| Failure::rig(&format!("understand {}", words.join(" ")), &error))
    }

    fn is_scrubbing(&self) -> Result<bool, Failure> {
        let told = self.told(&["aggregate", "scrub", "status", "double", "--json"])?;
        Ok(told["state"] == "running")
    }

    fn sample(&self, aggregate: &str, load: &Load, seed: u64) -> Result<load::Sample, Failure> {
        let name = format!("{aggregate}/lun");
        let sample = load.run(self.place()?, &name, self.time, seed);
        sample.map_err(|error| Failure::rig(&format!("load on {name}"), &error))
    }

    /// Double parity against none, by turns. The first round warms up.
    fn compare(
        &mut self,
        job: &'static str,
        load: &Load,
        goal: &'static str,
    ) -> Result<(), Failure> {
        let before = stripes(self.daemon()?, "double")?;
        let mut rates = [Vec::new(), Vec::new()];
        let mut written = 0;
        for round in 0..=self.rounds {
            for turn in 0..2 {
                let index = usize::try_from((round + turn) % 2).unwrap_or(0);
                let sample = self.sample(["double", "none"][index], load, round)?;
                if index == 0 {
                    written += sample.operations * u64::from(load.block) / 4096;
                }
                if round > 0 {
                    rates[index].push(sample.rate());
                }
            }
        }
        let after = stripes(self.daemon()?, "double")?;
        let [full, partial, read] = [0, 1, 2].map(|at| after[at] - before[at]);
        #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
        let note = format!(
            "{:.0} % of the stripes full; {:.2} blocks read for parity for each block written",
            full / (full + partial).max(1.0) * 100.0,
            read / written.max(1) as f64
        );
        self.add(job, "no redundancy", "/s", rates, goal, note);
        Ok(())
    }

    fn add(
        &mut self,
        job: &'static str,
        against: &'static str,
        unit: &'static str,
        [ours, theirs]: [Vec<f64>; 2],
        goal: &'static str,
        note: String,
    ) {
        self.lines.push(Line {
            job,
            against,
            figures: [&ours, &theirs].map(|figures| Summary::of(figures).median),
            unit,
            ratio: Ratio::of(&ours, &theirs),
            goal,
            note,
        });
    }

    /// Double parity against a profile of btrfs.
    fn beside_btrfs(&mut self, profile: &'static str, load: &Load) -> Result<(), Failure> {
        let btrfs = Loops::make(&self.folder.join(profile), profile)?;
        let image = btrfs.folder.join("mounted/lun.img");
        sparse_file(&image, LUN_BYTES)?;
        let server = Server::qemu(&btrfs.folder, "peer", &image, "raw")?;
        let filled = load::fill(&server.socket, &server.export, LUN_BYTES);
        filled.map_err(|error| Failure::rig("fill btrfs", &error))?;
        let mut rates = [Vec::new(), Vec::new()];
        for round in 0..=self.rounds {
            let theirs = load.run(&server.socket, &server.export, self.time, round);
            let theirs = theirs.map_err(|error| Failure::rig("load on btrfs", &error))?;
            let ours = self.sample("double", load, round)?;
            if round > 0 {
                rates[0].push(ours.rate());
                rates[1].push(theirs.rate());
            }
        }
        drop(server);
        let against = match profile {
            "raid6" => "qsd raw on btrfs raid6",
            _ => "qsd raw on btrfs raid1c3",
        };
        self.add(
            "random overwrite 4 KiB q32, fresh",
            against,
            "/s",
            rates,
            "≥ 5",
            String::new(),
        );
        Ok(())
    }

    /// Reads with two drives gone; then both are replaced, one beside a load, one alone.
    fn without_drives(&mut self) -> Result<(), Failure> {
        let reads = load(Kind::Read, Order::Random, 4096, 32);
        let all_there = self.rates("double", &reads)?;
        let paced = Load {
            depth: 4,
            pace: Some(Summary::of(&all_there).median / 8.0),
            ..reads
        };
        let alone = self.tails(&paced)?;
        self.installation
            .must(&["aggregate", "scrub", "start", "double"])?;
        let beside_scrub = self.tails(&paced)?;
        let note = match self.is_scrubbing()? {
            true => "",
            false => "the scrub ended before the last round",
        };
        let job = "p99 of paced random reads beside a scrub";
        let figures = [beside_scrub, alone.clone()];
        self.add(job, "without", "µs", figures, "≤ 1.5", note.to_owned());
        self.wait("a scrub", || Ok(!self.is_scrubbing()?))?;

        if let Some(daemon) = self.daemon.take() {
            daemon.kill();
        }
        for number in [0, 1] {
            let drive = self.drive("double", number);
            fs::remove_dir_all(&drive).map_err(|error| Failure::at("remove", &drive, &error))?;
        }
        self.start()?;
        let two_gone = self.rates("double", &reads)?;
        let job = "random read 4 KiB q32, two drives gone";
        self.add(
            job,
            "all drives there",
            "/s",
            [two_gone, all_there],
            "≥ 0.5",
            String::new(),
        );

        self.replace(0)?;
        let beside_rebuild = self.tails(&paced)?;
        let note = match self.missing()? <= 1 {
            true => "the rebuild ended before the last round",
            false => "",
        };
        let job = "p99 of paced random reads beside a rebuild";
        self.add(
            job,
            "without",
            "µs",
            [beside_rebuild, alone],
            "≤ 1.5",
            note.to_owned(),
        );
        self.wait("a rebuild", || Ok(self.missing()? <= 1))?;

        let begun = Instant::now();
        self.replace(1)?;
        self.wait("a rebuild", || Ok(self.missing()? == 0))?;
        let seconds = begun.elapsed().as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
        let mib = host_bytes(&self.drive("double", 11)) as f64 / f64::from(1 << 20);
        let limit = self.limit()?;
        let note = "the other figure is what the shared disk allows for four reads and one write";
        let job = "rebuild of a drive, nothing else to do";
        let figures = [vec![mib / seconds], vec![limit]];
        self.add(
            job,
            "fio on the disk",
            "MiB/s",
            figures,
            "≥ 0.7",
            note.to_owned(),
        );
        Ok(())
    }

    fn rates(&self, aggregate: &str, load: &Load) -> Result<Vec<f64>, Failure> {
        let rounds = (0..=self.rounds).map(|round| self.sample(aggregate, load, round));
        let rates: Result<Vec<f64>, Failure> = rounds.map(|it| Ok(it?.rate())).collect();
        Ok(rates?.split_off(1))
    }

    /// The 99th percentile of each round, in microseconds.
    fn tails(&self, load: &Load) -> Result<Vec<f64>, Failure> {
        let rounds = (0..self.rounds).map(|round| self.sample("double", load, round));
        let p99 = |sample: load::Sample| sample.latencies.points().p99.as_secs_f64() * 1e6;
        rounds.map(|sample| Ok(p99(sample?))).collect()
    }

    /// Puts a new drive into the place of one that is gone.
    fn replace(&self, number: usize) -> Result<(), Failure> {
        let (old, new) = (
            self.drive("double", number),
            self.drive("double", number + 10),
        );
        fs::create_dir(&new).map_err(|error| Failure::at("make", &new, &error))?;
        let [old, new] = [old, new].map(|drive| drive.display().to_string());
        let words = ["aggregate", "replace", "double", &old, "--with", &new];
        self.installation.must(&words)
    }

    /// Drives that are not in full use.
    fn missing(&self) -> Result<usize, Failure> {
        let about = self.about("double")?;
        let devices = about["devices"].as_array().map_or(&[][..], Vec::as_slice);
        let missing = devices.iter().filter(|it| it["state"] != "online");
        Ok(missing.count())
    }

    fn wait(&self, what: &str, is_over: impl Fn() -> Result<bool, Failure>) -> Result<(), Failure> {
        let since = Instant::now();
        while !is_over()? {
            if since.elapsed() > PATIENCE {
                return Err(Failure::Broken(format!("{what} takes too long")));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// MiB/s of a drive that four others on the same disk are read for.
    fn limit(&self) -> Result<f64, Failure> {
        let image = self.folder.join("raw.img");
        write_all(&image, LUN_BYTES)?;
        let of = |kind| {
            let load = load(kind, Order::Sequential, 1 << 20, 8);
            disk::run(&image, &load, self.time, 1).map(|figures| figures.rate())
        };
        let (reads, writes) = (of(Kind::Read)?, of(Kind::Write)?);
        Ok(1.0 / (4.0 / reads + 1.0 / writes))
    }
}

/// Loop devices with btrfs, mounted; gone when dropped.
struct Loops {
    folder: PathBuf,
    devices: Vec<String>,
}

impl Loops {
    fn make(folder: &Path, profile: &str) -> Result<Loops, Failure> {
        let at = folder.join("mounted");
        fs::create_dir_all(&at).map_err(|error| Failure::at("make", &at, &error))?;
        let mut loops = Loops {
            folder: folder.to_owned(),
            devices: Vec::new(),
        };
        for number in 0..DRIVES {
            let image = folder.join(format!("{number}.img"));
            sparse_file(&image, LOOP_BYTES)?;
            let image = image.display().to_string();
            let device = must("losetup", &["--find", "--show", "--direct-io=on", &image])?;
            loops.devices.push(device.trim().to_owned());
        }
        let devices: Vec<&str> = loops.devices.iter().map(String::as_str).collect();
        let words = ["--quiet", "-K", "-d", profile, "-m", "raid1c3"];
        must("mkfs.btrfs", &[&words[..], &devices].concat())?;
        must("btrfs", &["device", "scan"])?;
        must("mount", &[devices[0], &at.display().to_string()])?;
        Ok(loops)
    }
}

impl Drop for Loops {
    fn drop(&mut self) {
        let at = self.folder.join("mounted").display().to_string();
        // What was not mounted cannot be unmounted.
        let _ = must("umount", &[&at]);
        for device in &self.devices {
            let _ = must("losetup", &["--detach", device]);
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}
