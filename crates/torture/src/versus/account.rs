//! What a turn costs, counted in the same way for every server: CPU time and bytes at the device.
//!
//! A turn has two readings: the first before its first request, the second when everything that it
//! left behind is on the device (`Stage::settle`). Between them these are counted:
//!
//! * CPU of the server: user and system time of all threads of its process, ended ones and those of
//!   io_uring included.
//! * CPU of the kernel's threads: all of them, because the kernel does not say for whom a worker
//!   works. Among them are loop devices, btrfs, XFS, writeback and the journal of the host's file
//!   system. Work of a thread that ended before the second reading is not counted.
//! * Bytes that the device below the rig's folder read and wrote, whoever caused them.
//!
//! Interrupts are charged to whoever was interrupted. The client is another process and is not
//! counted, but `fio` is client and disk user in one. On a busy machine the second and third figure
//! contain the work of strangers; [`Cost::others`] says how much CPU they had.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::server::{cpu, must};
use crate::Failure;

/// A tick of `/proc`.
const TICK: Duration = Duration::from_millis(10);
/// `PF_KTHREAD` of Linux.
const KERNEL_THREAD: u64 = 0x0020_0000;
/// `/sys` counts in these, whatever the device's own sectors are.
const SECTOR: u64 = 512;

/// Bytes at a device since the system started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Read from it.
    pub read: u64,
    /// Written to it.
    pub written: u64,
}

/// What a turn cost.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// CPU of the server.
    pub server: Duration,
    /// CPU of the kernel's threads.
    pub kernel: Duration,
    /// CPU of processes that have no part in the turn.
    pub others: Duration,
    /// From the first reading to the second.
    pub wall: Duration,
    /// Bytes at the device; none if it has no counters.
    pub device: Option<Traffic>,
}

/// The device below a folder.
pub(super) struct Device {
    statistics: Option<PathBuf>,
}

impl Device {
    pub(super) fn below(folder: &Path) -> Device {
        let number = fs::metadata(folder).map_or(0, |metadata| metadata.dev());
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        let by_number = PathBuf::from(format!("/sys/dev/block/{major}:{minor}/stat"));
        // The number of some file systems, such as btrfs, is nobody's device.
        let by_name = || {
            let folder = folder.to_string_lossy();
            let words = ["--noheadings", "--output", "SOURCE", "--target", &folder];
            let source = must("findmnt", &words).ok()?;
            let device = fs::canonicalize(source.trim().split('[').next()?).ok()?;
            Some(
                Path::new("/sys/class/block")
                    .join(device.file_name()?)
                    .join("stat"),
            )
        };
        let known = Some(by_number).filter(|path| path.is_file());
        let known = known.or_else(|| by_name().filter(|path| path.is_file()));
        Device { statistics: known }
    }

    pub(super) fn traffic(&self) -> Option<Traffic> {
        traffic(&fs::read_to_string(self.statistics.as_ref()?).ok()?)
    }

    /// Waits until nothing is written any more. False if that takes too long.
    pub(super) fn rest(&self) -> bool {
        const PAUSE: Duration = Duration::from_millis(100);
        const PATIENCE: Duration = Duration::from_secs(3);
        let begun = Instant::now();
        let mut before = self.traffic();
        loop {
            std::thread::sleep(PAUSE);
            let now = self.traffic();
            if now.map(|it| it.written) == before.map(|it| it.written) {
                return true;
            }
            if begun.elapsed() > PATIENCE {
                return false;
            }
            before = now;
        }
    }
}

/// All counters at one moment.
pub(super) struct Reading {
    at: Instant,
    server: Duration,
    kernel: BTreeMap<(u32, u64), Duration>,
    /// Of the rig and the programs that it waited for.
    rig: Duration,
    busy: Duration,
    device: Option<Traffic>,
}

impl Reading {
    /// `server` is absent if the load runs without one.
    pub(super) fn now(server: Option<u32>, device: &Device) -> Result<Reading, Failure> {
        Ok(Reading {
            at: Instant::now(),
            server: server.map_or(Ok(Duration::ZERO), cpu)?,
            kernel: kernel_threads(),
            rig: rig(&read("/proc/self/stat")?)
                .ok_or_else(|| Failure::Rig("did not understand /proc/self/stat".to_owned()))?,
            busy: busy(&read("/proc/stat")?)
                .ok_or_else(|| Failure::Rig("did not understand /proc/stat".to_owned()))?,
            device: device.traffic(),
        })
    }

    /// What was used since then.
    pub(super) fn until(&self, later: &Reading) -> Cost {
        let server = later.server.saturating_sub(self.server);
        let kernel: Duration = later
            .kernel
            .iter()
            .map(|(thread, time)| {
                let before = self.kernel.get(thread).copied().unwrap_or_default();
                time.saturating_sub(before)
            })
            .sum();
        let known = server + kernel + later.rig.saturating_sub(self.rig);
        let busy = later.busy.saturating_sub(self.busy);
        let device = self.device.zip(later.device).map(|(from, to)| Traffic {
            read: to.read.saturating_sub(from.read),
            written: to.written.saturating_sub(from.written),
        });
        Cost {
            server,
            kernel,
            others: busy.saturating_sub(known),
            wall: later.at - self.at,
            device,
        }
    }
}

fn read(path: &str) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|error| Failure::rig(path, &error))
}

/// CPU time of each thread of the kernel, by number and start: numbers are used again.
fn kernel_threads() -> BTreeMap<(u32, u64), Duration> {
    let mut times = BTreeMap::new();
    let Ok(entries) = fs::read_dir("/proc") else {
        return times;
    };
    for entry in entries.flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        let text = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let Some(thread) = kernel_thread(&text) else {
            continue;
        };
        // In nanoseconds where the kernel counts them.
        let exact = fs::read_to_string(entry.path().join("schedstat")).ok();
        let exact = exact.and_then(|text| text.split(' ').next()?.parse().ok());
        let time = exact.map_or(thread.time, Duration::from_nanos);
        times.insert((pid, thread.start), time);
    }
    times
}

/// True if the device below a folder counts what it reads and writes.
#[must_use]
pub fn sees_device(folder: &Path) -> bool {
    Device::below(folder).traffic().is_some()
}

/// True if the kernel's threads can be seen; in many containers they cannot.
#[must_use]
pub fn sees_kernel_threads() -> bool {
    !kernel_threads().is_empty()
}

struct KernelThread {
    start: u64,
    time: Duration,
}

/// The numbers in a `stat` of a process, from its state on: its name has blanks and parentheses.
fn fields(stat: &str) -> Option<Vec<u64>> {
    let (_, rest) = stat.rsplit_once(')')?;
    // The state is a letter, and some numbers are negative. Neither is used.
    let number = |word: &str| word.parse().unwrap_or(0);
    Some(rest.split_whitespace().map(number).collect())
}

fn ticks(count: u64) -> Duration {
    TICK * u32::try_from(count).unwrap_or(u32::MAX)
}

fn kernel_thread(stat: &str) -> Option<KernelThread> {
    let fields = fields(stat)?;
    let is_one = fields.get(6)? & KERNEL_THREAD != 0;
    is_one.then_some(KernelThread {
        start: *fields.get(19)?,
        time: ticks(fields.get(11)? + fields.get(12)?),
    })
}

/// Of a process and its ended children.
fn rig(stat: &str) -> Option<Duration> {
    let fields = fields(stat)?;
    Some(ticks(fields.get(11..15)?.iter().sum()))
}

/// Of all processors: everything but idling and waiting for devices.
fn busy(stat: &str) -> Option<Duration> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let fields: Vec<u64> = line
        .split_whitespace()
        .map(|word| word.parse().unwrap_or(0))
        .collect();
    let [user, nice, system, _idle, _waiting, interrupts, soft, ..] = fields[..] else {
        return None;
    };
    Some(ticks(user + nice + system + interrupts + soft))
}

fn traffic(stat: &str) -> Option<Traffic> {
    let fields: Vec<u64> = stat
        .split_whitespace()
        .map(|word| word.parse().unwrap_or(0))
        .collect();
    Some(Traffic {
        read: fields.get(2)? * SECTOR,
        written: fields.get(6)? * SECTOR,
    })
}

/// What the host gave for a file or for all files below a folder.
pub(super) fn host_bytes(path: &Path) -> u64 {
    let Ok(metadata) = fs::symlink_metadata(path) else {
        return 0;
    };
    let below = match fs::read_dir(path) {
        Ok(entries) => entries
            .flatten()
            .map(|entry| host_bytes(&entry.path()))
            .sum(),
        Err(_) => 0,
    };
    metadata.blocks() * SECTOR + below
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKER: &str = "58 (kworker/0:1H (x) y) I 2 0 0 0 -1 69238880 0 0 0 0 7 35 0 0 0 -20 1 0 \
                          96 0 0 18446744073709551615 0 0";
    const SHELL: &str = "9 (sh) S 1 9 9 0 -1 4194304 0 0 0 0 1 2 30 40 20 0 1 0 77 0 0 1 1 1";

    #[test]
    fn threads_of_the_kernel_are_told_from_processes() {
        let thread = kernel_thread(WORKER).unwrap();
        assert_eq!((thread.start, thread.time), (96, TICK * 42));
        assert!(kernel_thread(SHELL).is_none());
        assert_eq!(rig(SHELL), Some(TICK * 73));
    }

    #[test]
    fn idling_and_waiting_are_not_busy() {
        let text = "cpu  1 2 3 1000 2000 4 5 600 0 0\ncpu0 9 9 9 9 9 9 9\n";
        assert_eq!(busy(text), Some(TICK * 15));
        assert_eq!(busy("intr 5"), None);
    }

    #[test]
    fn traffic_is_in_bytes() {
        let text = " 1263288 374937 8 3751112 224044 181313 16 713861 0 167068 4491283\n";
        let traffic = traffic(text).unwrap();
        assert_eq!((traffic.read, traffic.written), (4096, 8192));
    }

    #[test]
    fn a_turn_has_what_was_added_between_its_readings() {
        let reading = |server, kernel: &[(u32, u64)], rig, busy, written| Reading {
            at: Instant::now(),
            server: TICK * server,
            kernel: kernel
                .iter()
                .map(|(pid, time)| ((*pid, 1), ticks(*time)))
                .collect(),
            rig: TICK * rig,
            busy: TICK * busy,
            device: Some(Traffic { read: 0, written }),
        };
        let before = reading(10, &[(1, 5), (2, 50)], 3, 100, 4096);
        // Thread 2 ended, and thread 3 began.
        let after = reading(14, &[(1, 7), (3, 2)], 9, 130, 12288);
        let cost = before.until(&after);
        assert_eq!((cost.server, cost.kernel), (TICK * 4, TICK * 4));
        assert_eq!(cost.others, TICK * (30 - 4 - 4 - 6));
        assert_eq!(cost.device.unwrap().written, 8192);
    }

    #[test]
    fn holes_take_no_space() {
        let folder = tempfile::tempdir().unwrap();
        let file = fs::File::create(folder.path().join("sparse")).unwrap();
        file.set_len(1 << 30).unwrap();
        assert!(host_bytes(folder.path()) < 1 << 20);
        fs::write(folder.path().join("full"), vec![1; 1 << 20]).unwrap();
        fs::File::open(folder.path().join("full"))
            .unwrap()
            .sync_all()
            .unwrap();
        assert!(host_bytes(folder.path()) >= 1 << 20);
    }
}
