//! The servers that are compared, each a process of its own over a Unix socket, and what their CPU
//! time is.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::bounded::Bounded;
use super::snapshots::rest;
use crate::Failure;
use crate::client::Address;
use crate::rig::programs::{Owned, wait_for};
use crate::rig::{Daemon, Installation};

/// Who serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Arm {
    /// This project, `sync=standard`.
    Everglade,
    /// The same, a volume with `sync=always`.
    EvergladeAlways,
    /// `qemu-storage-daemon`, a raw file, O_DIRECT, io_uring.
    QemuRaw,
    /// The same with a qcow2 image, all of whose clusters are allocated.
    QemuQcow2,
    /// The same as raw, but through the kernel's page cache, which is as large as our cache.
    QemuCached,
    /// The same as raw, on btrfs on a loop device of the same disk, whose file is sparse.
    QemuBtrfs,
    /// The same, but all blocks of the loop device's file are written before.
    QemuBtrfsFull,
    /// The same as that, and btrfs makes no checksums of data.
    QemuBtrfsPlain,
    /// The same as raw, on XFS on a loop device of the same disk.
    QemuXfs,
    /// `nbdkit file cache=none`.
    Nbdkit,
    /// Our NBD sessions over a target that does nothing.
    Null,
    /// The same, but each block has a page of its own, found without any look-up.
    NullMemory,
    /// `fio` on the raw file, O_DIRECT, io_uring: no server at all.
    Disk,
}

impl Arm {
    /// All of them.
    pub const ALL: [Arm; 13] = [
        Arm::Everglade,
        Arm::EvergladeAlways,
        Arm::QemuRaw,
        Arm::QemuQcow2,
        Arm::QemuCached,
        Arm::QemuBtrfs,
        Arm::QemuBtrfsFull,
        Arm::QemuBtrfsPlain,
        Arm::QemuXfs,
        Arm::Nbdkit,
        Arm::Null,
        Arm::NullMemory,
        Arm::Disk,
    ];

    /// For tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Arm::Everglade => "everglade",
            Arm::EvergladeAlways => "everglade, sync=always",
            Arm::QemuRaw => "qsd raw",
            Arm::QemuQcow2 => "qsd qcow2",
            Arm::QemuCached => "qsd raw, page cache",
            Arm::QemuBtrfs => "qsd raw on btrfs",
            Arm::QemuBtrfsFull => "qsd raw on btrfs, preallocated",
            Arm::QemuBtrfsPlain => "qsd raw on btrfs, preallocated, no checksums",
            Arm::QemuXfs => "qsd raw on XFS",
            Arm::Nbdkit => "nbdkit file",
            Arm::Null => "our null target",
            Arm::NullMemory => "null target, its own page for each block",
            Arm::Disk => "fio on the file",
        }
    }

    /// One by its name.
    #[must_use]
    pub fn named(name: &str) -> Option<Arm> {
        Arm::ALL.into_iter().find(|arm| arm.name() == name)
    }

    /// True for this project's server.
    #[must_use]
    pub fn is_ours(self) -> bool {
        matches!(self, Arm::Everglade | Arm::EvergladeAlways)
    }

    /// The file system on a loop device that it needs.
    pub(super) fn file_system(self) -> Option<FileSystem> {
        let (name, kind, is_written, options) = match self {
            Arm::QemuBtrfs => ("btrfs", "btrfs", false, ""),
            // Otherwise btrfs tells the loop device of free blocks, which makes holes in its file.
            Arm::QemuBtrfsFull => ("btrfs-full", "btrfs", true, "nodiscard"),
            Arm::QemuBtrfsPlain => ("btrfs-plain", "btrfs", true, "nodiscard,nodatasum"),
            Arm::QemuXfs => ("xfs", "xfs", false, ""),
            _ => return None,
        };
        Some(FileSystem {
            name,
            kind,
            is_written,
            options,
        })
    }

    /// Programs without which it cannot run.
    pub(super) fn programs(self) -> &'static [&'static str] {
        match self {
            Arm::Everglade | Arm::EvergladeAlways | Arm::Null | Arm::NullMemory => &[],
            Arm::QemuRaw => &["qemu-storage-daemon", "fio"],
            Arm::QemuQcow2 => &["qemu-storage-daemon", "qemu-img"],
            Arm::QemuCached => &["qemu-storage-daemon"],
            Arm::QemuBtrfs | Arm::QemuBtrfsFull | Arm::QemuBtrfsPlain => {
                &["qemu-storage-daemon", "fio", "mkfs.btrfs", "btrfs"]
            }
            Arm::QemuXfs => &["qemu-storage-daemon", "mkfs.xfs"],
            Arm::Nbdkit => &["nbdkit", "fio"],
            Arm::Disk => &["fio"],
        }
    }
}

/// A file system on a loop device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileSystem {
    /// Of its folder and its image.
    pub(super) name: &'static str,
    kind: &'static str,
    /// All blocks of the image are written before.
    is_written: bool,
    /// Of the mount.
    options: &'static str,
}

/// A server under measurement.
pub struct Server {
    process: Process,
    /// After the process, which is in it.
    bounded: Option<Bounded>,
    /// Where it listens.
    pub socket: PathBuf,
    /// Which export.
    pub export: String,
}

enum Process {
    Ours(Box<Daemon>),
    Peer(Owned),
    /// Somebody else's, that outlives this.
    Borrowed(u32),
}

impl Server {
    /// Ours.
    pub(super) fn of_daemon(daemon: Daemon, export: &str) -> Result<Server, Failure> {
        let Address::Unix(socket) = daemon.unix.clone() else {
            return Err(Failure::Rig("the server has no Unix socket".to_owned()));
        };
        Ok(Server {
            process: Process::Ours(Box::new(daemon)),
            bounded: None,
            socket,
            export: export.to_owned(),
        })
    }

    /// `qemu-storage-daemon` over an image, past the kernel's page cache.
    pub(super) fn qemu(
        folder: &Path,
        name: &str,
        image: &Path,
        driver: &str,
    ) -> Result<Server, Failure> {
        Server::qemu_with(folder, name, image, driver, "cache.direct=on")
    }

    /// The same over a raw image, with a page cache of so many bytes.
    pub(super) fn qemu_cached(
        folder: &Path,
        image: &Path,
        cache_bytes: u64,
    ) -> Result<Server, Failure> {
        let mut server = Server::qemu_with(folder, "cached", image, "raw", "cache.direct=off")?;
        server.bounded = Some(Bounded::holding(server.pid(), cache_bytes)?);
        Ok(server)
    }

    fn qemu_with(
        folder: &Path,
        name: &str,
        image: &Path,
        driver: &str,
        cache: &str,
    ) -> Result<Server, Failure> {
        let socket = folder.join(format!("{name}.sock"));
        let file = format!(
            "driver=file,node-name=file,filename={},{cache},aio=io_uring",
            image.display()
        );
        let server = format!(
            "addr.type=unix,addr.path={},max-connections=0",
            socket.display()
        );
        let mut command = Command::new("qemu-storage-daemon");
        command
            .args(["--blockdev", &file])
            .args([
                "--blockdev",
                &format!("driver={driver},node-name=it,file=file"),
            ])
            .args(["--nbd-server", &server])
            .args(["--export", "type=nbd,id=e,node-name=it,writable=on,name=it"]);
        Server::peer(command, name, socket, "it")
    }

    /// `nbdkit file`.
    pub(super) fn nbdkit(folder: &Path, image: &Path) -> Result<Server, Failure> {
        let socket = folder.join("nbdkit.sock");
        let mut command = Command::new("nbdkit");
        command
            .args(["--foreground", "--exit-with-parent", "--unix"])
            .arg(&socket)
            .args(["file", "cache=none"])
            .arg(format!("file={}", image.display()));
        Server::peer(command, "nbdkit", socket, "")
    }

    /// `null`, a binary of `everglade-testing`.
    pub(super) fn null(
        folder: &Path,
        program: &Path,
        bytes: u64,
        memory: u64,
    ) -> Result<Server, Failure> {
        let socket = folder.join(format!("null-{memory}.sock"));
        let mut command = Command::new(program);
        command
            .arg(&socket)
            .args([bytes, memory].map(|it| it.to_string()));
        Server::peer(command, "the null target", socket, "null")
    }

    fn peer(
        mut command: Command,
        name: &str,
        socket: PathBuf,
        export: &str,
    ) -> Result<Server, Failure> {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::inherit());
        let mut process = Owned::spawn(&mut command, name)?;
        let is_up = wait_for(&format!("socket of {name}"), || {
            if process.has_ended() {
                return Some(false);
            }
            let mut stream = UnixStream::connect(&socket).ok()?;
            // Who hangs up before the greeting is written about by some.
            stream.read_exact(&mut [0; 18]).ok().map(|()| true)
        })?;
        if !is_up {
            return Err(Failure::Rig(format!("{name} ended")));
        }
        Ok(Server {
            process: Process::Peer(process),
            bounded: None,
            socket,
            export: export.to_owned(),
        })
    }

    /// Another export of the same process.
    pub(super) fn beside(&self, export: &str) -> Server {
        Server {
            process: Process::Borrowed(self.pid()),
            bounded: None,
            socket: self.socket.clone(),
            export: export.to_owned(),
        }
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        match &self.process {
            Process::Ours(daemon) => daemon.pid(),
            Process::Peer(process) => process.0.id(),
            Process::Borrowed(pid) => *pid,
        }
    }

    /// User and system time of all its threads, those that have ended included.
    ///
    /// # Errors
    /// If it has ended.
    pub fn cpu(&self) -> Result<Duration, Failure> {
        cpu(self.pid())
    }

    /// CPU seconds of the reactors of a server of ours by subsystem, in a fixed order.
    ///
    /// # Errors
    /// If it does not tell.
    pub fn cpu_by_subsystem(&self) -> Result<Vec<(String, f64)>, Failure> {
        let Process::Ours(daemon) = &self.process else {
            return Err(Failure::Rig("only our server tells".to_owned()));
        };
        let text = rest::page(daemon.metrics.as_deref().unwrap_or_default(), "/metrics")?;
        let sums = subsystems(&text);
        if sums.is_empty() {
            return Err(Failure::Rig("no CPU time in /metrics".to_owned()));
        }
        Ok(sums)
    }
}

/// Sums over all reactors of what a page of metrics says, in the order of the page.
fn subsystems(page: &str) -> Vec<(String, f64)> {
    let mut sums: Vec<(String, f64)> = Vec::new();
    for (labels, seconds) in rest::samples(page, "everglade_cpu_seconds_total") {
        let Some((_, name)) = labels.split_once("subsystem=\"") else {
            continue;
        };
        let name = name.trim_end_matches('"');
        match sums.iter_mut().find(|(known, _)| known == name) {
            Some((_, sum)) => *sum += seconds,
            None => sums.push((name.to_owned(), seconds)),
        }
    }
    sums
}

/// A tick of `/proc/PID/stat`. The sum of both times is as exact as the scheduler's own account;
/// only how it is divided into user and system is sampled.
const TICK: Duration = Duration::from_millis(10);

pub(super) fn cpu(pid: u32) -> Result<Duration, Failure> {
    let path = format!("/proc/{pid}/stat");
    let text = fs::read_to_string(&path).map_err(|error| Failure::rig(&path, &error))?;
    // The program's name is in parentheses and may have blanks.
    let rest = text.rsplit(')').next().unwrap_or_default();
    let field = |index: usize| rest.split_whitespace().nth(index)?.parse::<u32>().ok();
    match (field(11), field(12)) {
        (Some(user), Some(system)) => Ok(TICK * user + TICK * system),
        _ => Err(Failure::Rig(format!("did not understand {path}"))),
    }
}

/// Resident memory of a process now, and at its peak.
pub(super) fn memory(pid: u32) -> Result<(u64, u64), Failure> {
    let path = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&path).map_err(|error| Failure::rig(&path, &error))?;
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
        Some(kib << 10)
    };
    match (field("VmRSS:"), field("VmHWM:")) {
        (Some(now), Some(peak)) => Ok((now, peak)),
        _ => Err(Failure::Rig(format!("did not understand {path}"))),
    }
}

/// A file of that size without any blocks.
pub(super) fn sparse_file(path: &Path, bytes: u64) -> Result<(), Failure> {
    let file = File::create(path).and_then(|file| file.set_len(bytes));
    file.map_err(|error| Failure::at("make", path, &error))
}

/// Runs a program of others to its end.
pub(super) fn must(program: &str, words: &[&str]) -> Result<String, Failure> {
    let output = Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        .output();
    let output = output.map_err(|error| Failure::rig(program, &error))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(Failure::Rig(format!(
            "{program} {}: {said}",
            words.join(" ")
        )));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A file system on a loop device of the same disk; unmounted when dropped.
pub(super) struct Mounted {
    pub(super) folder: PathBuf,
}

impl Mounted {
    pub(super) fn make(folder: &Path, kind: &'static str, bytes: u64) -> Result<Mounted, Failure> {
        let plain = FileSystem {
            name: kind,
            kind,
            is_written: false,
            options: "",
        };
        Mounted::with(folder, plain, bytes)
    }

    pub(super) fn with(folder: &Path, of: FileSystem, bytes: u64) -> Result<Mounted, Failure> {
        let image = image_of(folder, of);
        if of.is_written {
            write_all(&image, bytes)?;
        } else {
            sparse_file(&image, bytes)?;
        }
        let image = image.to_string_lossy().into_owned();
        let is_xfs = of.kind == "xfs";
        must(
            &format!("mkfs.{}", of.kind),
            &[if is_xfs { "-q" } else { "--quiet" }, "-K", &image],
        )?;
        // The loop device's own reads and writes go around the host's page cache, as everybody's
        // do.
        let device = must("losetup", &["--find", "--show", "--direct-io=on", &image])?;
        let at = folder.join(of.name);
        fs::create_dir(&at).map_err(|error| Failure::at("make", &at, &error))?;
        let path = at.to_string_lossy();
        let words = [device.trim(), &path, "-o", of.options];
        let words = if of.options.is_empty() {
            &words[..2]
        } else {
            &words
        };
        let mounted = must("mount", words);
        // It goes with the mount, or now if there is none.
        must("losetup", &["--detach", device.trim()])?;
        mounted?;
        Ok(Mounted { folder: at })
    }
}

/// The loop device's file.
pub(super) fn image_of(folder: &Path, of: FileSystem) -> PathBuf {
    folder.join(format!("{}.img", of.name))
}

/// Writes all of a file, past the page cache.
pub(super) fn write_all(path: &Path, bytes: u64) -> Result<(), Failure> {
    sparse_file(path, bytes)?;
    let (name, size) = (format!("--filename={}", path.display()), bytes.to_string());
    let size = format!("--size={size}");
    let words = [
        "--name=fill",
        &name,
        &size,
        "--rw=write",
        "--bs=1M",
        "--direct=1",
        "--iodepth=8",
        "--ioengine=io_uring",
        "--end_fsync=1",
    ];
    must("fio", &words).map(drop)
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // What fails here is seen by whoever looks for the folder.
        let _ = must("umount", &[&self.folder.to_string_lossy()]);
    }
}

/// Starts an Everglade server with one LUN of `bytes` bytes. `pool` is the size of its aggregate;
/// `None` means the default.
pub(super) fn start_ours(
    installation: &Installation,
    bytes: u64,
    memory: &str,
    pool: Option<u64>,
) -> Result<Server, Failure> {
    let (size, pool) = (bytes.to_string(), pool.map(|bytes| bytes.to_string()));
    let mut words = vec!["--lun-size", &size, "--memory", memory];
    words.extend(["--metrics-tcp", ":0"]);
    if let Some(pool) = &pool {
        words.extend(["--aggregate-size", pool]);
    }
    let daemon = installation.serve(&words)?;
    Server::of_daemon(daemon, "vol0/lun0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_times_of_all_reactors_are_added() {
        let page = "# TYPE everglade_cpu_seconds_total counter\n\
            everglade_cpu_seconds_total{reactor=\"0\",subsystem=\"client\"} 1.5\n\
            everglade_cpu_seconds_total{reactor=\"0\",subsystem=\"journal\"} 0.25\n\
            everglade_cpu_seconds_total{reactor=\"1\",subsystem=\"client\"} 2.0\n";
        let sums = [("client".to_owned(), 3.5), ("journal".to_owned(), 0.25)];
        assert_eq!(subsystems(page), sums);
    }
}
