//! What is measured of our server alone: how soon it serves a huge pool and what memory that takes,
//! whether its memory cap holds, and what it costs when nothing happens.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::load::{self, Kind, Load, Order};
use super::server::{Mounted, Server, memory, must};
use crate::Failure;
use crate::client::Address;
use crate::rig::Installation;

/// Sizes of pools that are started, the smaller first.
pub const SIZES: [&str; 2] = ["1TiB", "100TiB"];

/// Of one start.
#[derive(Clone, Debug)]
pub struct Start {
    /// Size of aggregate and LUN.
    pub size: &'static str,
    /// Bytes of it that were written, and committed before the kill.
    pub written: u64,
    /// From the start of the process until a read was answered.
    pub first_read: Duration,
    /// From the start of the process to its ready line.
    pub ready: Duration,
    /// Resident memory at its peak by then.
    pub peak_bytes: u64,
}

/// Of one memory cap.
#[derive(Clone, Debug)]
pub struct Cap {
    /// `--memory`.
    pub memory_bytes: u64,
    /// Bytes that are read and written.
    pub lun_bytes: u64,
    /// Resident memory at its peak under load.
    pub peak_bytes: u64,
    /// Mixed requests that were answered meanwhile, per second.
    pub rate: f64,
}

/// Starts with a LUN of that size of which `written` bytes have been written, on a block device of
/// that size: a sparse file on a small XFS, since no host has so much. (In a directory the reserve
/// of a pool is real space from the beginning, one hundredth of it.)
///
/// # Errors
/// If the server fails, or the machine does not allow loop devices.
pub fn start(
    programs: &Path,
    folder: &Path,
    size: &'static str,
    written: u64,
) -> Result<Start, Failure> {
    let (installation, home) = install(programs, folder, "start")?;
    let host = Mounted::make(&home.0, "xfs", written * 2 + (4 << 30))?;
    let sparse = host.folder.join("device");
    must(
        "truncate",
        &["--size", &size.replace("iB", ""), &sparse.to_string_lossy()],
    )?;
    let device = Loop::of(&sparse)?;
    let words = ["--aggregate-size", "4GiB", "--lun-size", "1GiB"];
    let daemon = installation.serve(&words)?;
    installation.must(&["aggregate", "create", "huge", "--devices", &device.0])?;
    installation.must(&["volume", "create", "huge", "--aggregate", "huge"])?;
    installation.must(&["lun", "create", "huge/lun", "--size", size])?;
    let server = Server::of_daemon(daemon, "huge/lun")?;
    load::fill(&server.socket, &server.export, written)
        .map_err(|error| Failure::rig("fill", &error))?;
    installation.must(&["volume", "create", "committed", "--aggregate", "huge"])?;
    // Nothing is told to it: what it finds is what a crash leaves.
    drop(server);
    let begun = Instant::now();
    let daemon = installation.serve(&words)?;
    let ready = daemon.ready_after;
    let server = Server::of_daemon(daemon, "huge/lun")?;
    load::read_all(&server.socket, &server.export, 1 << 20)
        .map_err(|error| Failure::rig("read first", &error))?;
    let first_read = begun.elapsed();
    let (_, peak_bytes) = memory(server.pid())?;
    // Before the file system below it goes.
    drop(server);
    drop(device);
    Ok(Start {
        size,
        written,
        first_read,
        ready,
        peak_bytes,
    })
}

/// A loop device; detached when dropped.
struct Loop(String);

impl Loop {
    fn of(file: &Path) -> Result<Loop, Failure> {
        let device = must(
            "losetup",
            &[
                "--find",
                "--show",
                "--direct-io=on",
                &file.to_string_lossy(),
            ],
        )?;
        Ok(Loop(device.trim().to_owned()))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        // It stays attached if somebody holds it, which whoever unmounts the file system below will
        // see.
        let _ = must("losetup", &["--detach", &self.0]);
    }
}

/// Reads and writes on twelve connections under a cap.
///
/// # Errors
/// If the server fails.
pub fn cap(
    programs: &Path,
    folder: &Path,
    memory_bytes: u64,
    bytes: u64,
    time: Duration,
) -> Result<Cap, Failure> {
    let (installation, _home) = install(programs, folder, "cap")?;
    let (size, cap) = (bytes.to_string(), memory_bytes.to_string());
    let daemon = installation.serve(&["--lun-size", &size, "--memory", &cap])?;
    let server = Server::of_daemon(daemon, "vol0/lun0")?;
    let problem = |error: std::io::Error| Failure::rig("load under a cap", &error);
    load::fill(&server.socket, &server.export, bytes).map_err(problem)?;
    load::read_all(&server.socket, &server.export, bytes).map_err(problem)?;
    let part = |kind, block| Load {
        kind,
        order: Order::Random,
        block,
        depth: 32,
        jobs: 4,
        bytes,
        pace: None,
    };
    let loads = [
        part(Kind::Read, 128 << 10),
        part(Kind::Write, 64 << 10),
        part(Kind::Write, 4096),
    ];
    let mut rate = 0.0;
    std::thread::scope(|scope| {
        let running: Vec<_> = loads
            .iter()
            .map(|load| scope.spawn(|| load.run(&server.socket, &server.export, time, 1)))
            .collect();
        for thread in running {
            match thread.join() {
                Ok(sample) => rate += sample.map_err(problem)?.rate(),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok::<(), Failure>(())
    })?;
    let (_, peak_bytes) = memory(server.pid())?;
    Ok(Cap {
        memory_bytes,
        lun_bytes: bytes,
        peak_bytes,
        rate,
    })
}

/// The share of a core that a server with a client, but without requests, uses.
///
/// # Errors
/// If the server fails.
pub fn idle(programs: &Path, folder: &Path, time: Duration) -> Result<f64, Failure> {
    let (installation, _home) = install(programs, folder, "idle")?;
    let daemon = installation.serve(&["--lun-size", "1GiB"])?;
    let server = Server::of_daemon(daemon, "vol0/lun0")?;
    load::fill(&server.socket, &server.export, 64 << 20)
        .map_err(|error| Failure::rig("fill", &error))?;
    installation.must(&["volume", "create", "committed"])?;
    let _client =
        super::socket::Socket::open(&Address::Unix(server.socket.clone()), &server.export)
            .map_err(|error| Failure::rig("connect", &error))?;
    // What the start left behind is over by then.
    std::thread::sleep(Duration::from_secs(1));
    let before = server.cpu()?;
    std::thread::sleep(time);
    Ok((server.cpu()? - before).as_secs_f64() / time.as_secs_f64())
}

/// An installation that goes with the returned folder.
fn install(programs: &Path, folder: &Path, name: &str) -> Result<(Installation, Gone), Failure> {
    let folder = folder.join(name);
    std::fs::create_dir(&folder).map_err(|error| Failure::rig("make a folder", &error))?;
    Ok((
        Installation::new(&programs.join("everglade"), &folder),
        Gone(folder),
    ))
}

struct Gone(PathBuf);

impl Drop for Gone {
    fn drop(&mut self) {
        // The folder around it goes too, so what stays now does not stay for long.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
