//! The servers that are compared, each a process of its own over a Unix socket, and what their CPU time is.

use std::fs::{self, File};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::Failure;
use crate::client::Address;
use crate::rig::programs::{Owned, wait_for};
use crate::rig::{Daemon, Place};

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
    /// The same as raw, on btrfs on a loop device of the same disk.
    QemuBtrfs,
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
    /// For tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Arm::Everglade => "everglade",
            Arm::EvergladeAlways => "everglade, sync=always",
            Arm::QemuRaw => "qsd raw",
            Arm::QemuQcow2 => "qsd qcow2",
            Arm::QemuBtrfs => "qsd raw on btrfs",
            Arm::QemuXfs => "qsd raw on XFS",
            Arm::Nbdkit => "nbdkit file",
            Arm::Null => "our null target",
            Arm::NullMemory => "null target, its own page for each block",
            Arm::Disk => "fio on the file",
        }
    }
}

/// A server under measurement.
pub struct Server {
    process: Held,
    /// Where it listens.
    pub socket: PathBuf,
    /// Which export.
    pub export: String,
}

enum Held {
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
            process: Held::Ours(Box::new(daemon)),
            socket,
            export: export.to_owned(),
        })
    }

    /// `qemu-storage-daemon` over an image.
    pub(super) fn qemu(
        folder: &Path,
        name: &str,
        image: &Path,
        driver: &str,
    ) -> Result<Server, Failure> {
        let socket = folder.join(format!("{name}.sock"));
        let file = format!(
            "driver=file,node-name=file,filename={},cache.direct=on,aio=io_uring",
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
            UnixStream::connect(&socket).ok().map(|_| true)
        })?;
        if !is_up {
            return Err(Failure::Rig(format!("{name} ended")));
        }
        Ok(Server {
            process: Held::Peer(process),
            socket,
            export: export.to_owned(),
        })
    }

    /// Another export of the same process.
    pub(super) fn beside(&self, export: &str) -> Server {
        Server {
            process: Held::Borrowed(self.pid()),
            socket: self.socket.clone(),
            export: export.to_owned(),
        }
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        match &self.process {
            Held::Ours(daemon) => daemon.pid(),
            Held::Peer(process) => process.0.id(),
            Held::Borrowed(pid) => *pid,
        }
    }

    /// User and system time of all its threads, those that have ended included.
    ///
    /// # Errors
    /// If it has ended.
    pub fn cpu(&self) -> Result<Duration, Failure> {
        cpu(self.pid())
    }
}

/// A tick of `/proc/PID/stat`. The sum of both times is as exact as the scheduler's own account; only how it
/// is divided into user and system is sampled.
const TICK: Duration = Duration::from_millis(10);

fn cpu(pid: u32) -> Result<Duration, Failure> {
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

/// A file with all its blocks, which hold something.
pub(super) fn written_file(path: &Path, bytes: u64) -> Result<(), Failure> {
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
    pub(super) fn make(folder: &Path, kind: &str, bytes: u64) -> Result<Mounted, Failure> {
        let image = folder.join(format!("{kind}.img"));
        written_file(&image, bytes)?;
        let image = image.to_string_lossy().into_owned();
        // The loop device's own reads and writes go around the host's page cache, as everybody's do.
        must(
            &format!("mkfs.{kind}"),
            &[if kind == "xfs" { "-q" } else { "--quiet" }, &image],
        )?;
        let device = must("losetup", &["--find", "--show", "--direct-io=on", &image])?;
        let at = folder.join(kind);
        fs::create_dir(&at).map_err(|error| Failure::at("make", &at, &error))?;
        let mounted = must("mount", &[device.trim(), &at.to_string_lossy()]);
        // It goes with the mount, or now if there is none.
        must("losetup", &["--detach", device.trim()])?;
        mounted?;
        Ok(Mounted { folder: at })
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // What fails here is seen by whoever looks for the folder.
        let _ = must("umount", &[&self.folder.to_string_lossy()]);
    }
}

/// What ours needs to start.
pub(super) fn start_ours(place: &Place, bytes: u64, memory: &str) -> Result<Server, Failure> {
    let size = bytes.to_string();
    let daemon = place.serve(&["--lun-size", &size, "--memory", memory])?;
    Server::of_daemon(daemon, "vol0/lun0")
}
