//! A device whose power can be cut: unflushed writes are in the memory of a process, and that
//! process is killed.
//!
//! ```text
//! server --O_DIRECT--> FUSE file (nbdfuse) --NBD--> nbdkit: log, cache filter --> backing file
//! ```
//!
//! The cache filter in writeback mode keeps what is written in a file of its own, unlinked from the
//! start, and moves it to the backing file when a flush asks for that. So SIGKILL takes away what
//! was not flushed, all of it or a part (`leftover`); a kill during a flush leaves the part of it
//! that was done.
//!
//! fdatasync and RWF_DSYNC of the server reach nbdkit as flushes: FUSE turns both into fsync of the
//! file, and nbdfuse that into NBD_CMD_FLUSH. `flushes` counts them from nbdkit's log.

use std::fs::{self, File};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::leftover::{Leftover, Loss};
use super::programs::{Owned, find, missing, wait_for};
use crate::{Failure, Random};

/// What the device needs.
const PROGRAMS: [&str; 4] = ["nbdkit", "nbdfuse", "setpriv", "umount"];

/// The device and the folder it is in.
pub struct Power {
    folder: PathBuf,
    size_bytes: u64,
    on: Option<On>,
}

/// Processes of a device that has power. Dropped in this order.
struct On {
    nbdkit: Owned,
    mount: Mount,
}

/// The mounted file.
struct Mount {
    point: PathBuf,
    nbdfuse: Owned,
    is_mounted: bool,
}

impl Power {
    /// Why this machine cannot do it, if so.
    #[must_use]
    pub fn impossible() -> Option<String> {
        let absent = missing(&PROGRAMS);
        if !absent.is_empty() {
            return Some(format!("not installed: {}", absent.join(", ")));
        }
        let fuse = File::options().read(true).write(true).open("/dev/fuse");
        if let Err(error) = fuse {
            return Some(format!("/dev/fuse cannot be opened: {error}"));
        }
        None
    }

    /// A new, empty device without power. Its files are in `folder`.
    ///
    /// # Errors
    /// If the backing file cannot be made.
    pub fn new(folder: &Path, size_bytes: u64) -> Result<Power, Failure> {
        let power = Power {
            folder: folder.to_owned(),
            size_bytes,
            on: None,
        };
        let backing = power.backing();
        let file = File::create(&backing).and_then(|file| file.set_len(size_bytes));
        file.map_err(|error| Failure::at("make", &backing, &error))?;
        let point = power.point();
        fs::create_dir_all(&point).map_err(|error| Failure::at("make", &point, &error))?;
        Ok(power)
    }

    fn backing(&self) -> PathBuf {
        self.folder.join("backing.img")
    }

    fn point(&self) -> PathBuf {
        self.folder.join("mount")
    }

    fn log(&self) -> PathBuf {
        self.folder.join("nbdkit.log")
    }

    /// What the server is to use.
    #[must_use]
    pub fn device(&self) -> PathBuf {
        self.point().join("device")
    }

    /// Power on: the device holds what its backing file holds.
    ///
    /// # Errors
    /// If one of the programs does not do its part.
    pub fn on(&mut self) -> Result<(), Failure> {
        assert!(self.on.is_none(), "the power is on");
        let socket = self.folder.join("nbdkit.sock");
        // Left by the one that was killed.
        let _ = fs::remove_file(&socket);
        let mut command = Command::new(program("nbdkit"));
        command
            .args(["--foreground", "--exit-with-parent", "--unix"])
            .arg(&socket)
            .args(["--filter=log", "--filter=cache", "file"])
            .arg(self.backing())
            .arg("cache=writeback")
            .arg(format!("logfile={}", self.log().display()))
            .args(["logappend=true"])
            .env("TMPDIR", &self.folder);
        let nbdkit = Owned::spawn(self.quiet(&mut command)?, "nbdkit")?;
        wait_for("socket of nbdkit", || UnixStream::connect(&socket).ok())?;
        let mut command = Command::new(program("setpriv"));
        // The mount would outlive a rig that is killed.
        command
            .args(["--pdeathsig", "TERM", "nbdfuse"])
            .arg(self.device())
            .arg("--unix")
            .arg(&socket);
        let nbdfuse = Owned::spawn(self.quiet(&mut command)?, "nbdfuse")?;
        let mount = Mount {
            point: self.point(),
            nbdfuse,
            is_mounted: true,
        };
        let device = self.device();
        wait_for("mounted device", || {
            let metadata = fs::metadata(&device).ok()?;
            (metadata.len() == self.size_bytes).then_some(())
        })?;
        self.on = Some(On { nbdkit, mount });
        Ok(())
    }

    fn quiet<'a>(&self, command: &'a mut Command) -> Result<&'a mut Command, Failure> {
        let path = self.folder.join("device.log");
        let log = File::options().append(true).create(true).open(&path);
        let log = log.map_err(|error| Failure::at("open", &path, &error))?;
        let both = log.try_clone();
        let both = both.map_err(|error| Failure::at("open", &path, &error))?;
        Ok(command.stdin(Stdio::null()).stdout(both).stderr(log))
    }

    /// The power is cut: what was not flushed is gone, or a part of it. The mounted file stays, and
    /// every access to it fails, until [`Power::unplug`]. Returns how many blocks survived
    /// unflushed.
    ///
    /// # Errors
    /// If the part cannot be moved to the backing file.
    pub fn cut(&mut self, loss: Loss, random: &mut Random) -> Result<u64, Failure> {
        let backing = self.backing();
        let Some(on) = &mut self.on else {
            return Ok(0);
        };
        let leftover = Leftover::of(on.nbdkit.0.id(), &self.folder)?;
        on.nbdkit.kill();
        leftover.settle(loss, &backing, random)
    }

    /// The device answers nothing any more, or everything again.
    ///
    /// # Panics
    /// Without power.
    pub fn hang(&self, hangs: bool) {
        let on = self.on.as_ref().expect("the power is on");
        let pid = rustix::process::Pid::from_child(&on.nbdkit.0);
        let signal = match hangs {
            true => rustix::process::Signal::STOP,
            false => rustix::process::Signal::CONT,
        };
        rustix::process::kill_process(pid, signal).expect("our own child");
    }

    /// After a cut: whoever still waits for an answer of the device gets an error. (nbdfuse alone
    /// is not to be trusted with that; when it is gone, the kernel does it.)
    pub fn give_up(&mut self) {
        if let Some(on) = &mut self.on {
            on.nbdkit.kill();
            on.mount.nbdfuse.kill();
        }
    }

    /// Takes the dead device away; nobody may have it open any more.
    ///
    /// # Errors
    /// If it cannot be unmounted.
    pub fn unplug(&mut self) -> Result<(), Failure> {
        self.give_up();
        match self.on.take() {
            Some(mut on) => on.mount.end(),
            None => Ok(()),
        }
    }

    /// Flushes that have reached the device since it was made.
    #[must_use]
    pub fn flushes(&self) -> usize {
        let text = fs::read(self.log()).unwrap_or_default();
        let lines = text.split(|byte| *byte == b'\n');
        let is_flush = |line: &&[u8]| {
            let begins = b" Flush id=";
            line.windows(begins.len()).any(|window| window == begins)
        };
        lines.filter(is_flush).count()
    }
}

impl Mount {
    fn end(&mut self) -> Result<(), Failure> {
        let mut said = String::new();
        for _ in 0..100 {
            let output = Command::new(program("umount")).arg(&self.point).output();
            match output {
                Ok(output) if output.status.success() => {
                    self.is_mounted = false;
                    return Ok(());
                }
                Ok(output) => said = String::from_utf8_lossy(&output.stderr).into_owned(),
                Err(error) => said = error.to_string(),
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        Err(Failure::at("unmount", &self.point, &said))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if !self.is_mounted {
            return;
        }
        self.nbdfuse.kill();
        // Lazily: somebody may still have it open, and nobody is left to wait for them.
        let mut command = Command::new(program("umount"));
        let _ = command.arg("--lazy").arg(&self.point).output();
    }
}

/// Its full path if it is installed, because `sbin` is not in everybody's PATH.
fn program(name: &str) -> PathBuf {
    find(name).unwrap_or_else(|| name.into())
}
