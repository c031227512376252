//! Everything that is started for the rows: servers when a row first needs them, filled before anybody
//! measures.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::load::{self, Kind, Load};
use super::row::{CACHED_BYTES, Row};
use super::server::{Arm, Mounted, Server, must, start_ours, written_file};
use crate::Failure;
use crate::rig::Place;

/// A snapshot of a few gigabytes is gone long before.
const FORGET_TIME_MAX: Duration = Duration::from_secs(60);

/// See the module's documentation. All servers end with it.
pub struct Stage {
    place: Place,
    folder: PathBuf,
    bytes: u64,
    memory: String,
    null: PathBuf,
    raw: PathBuf,
    servers: BTreeMap<Arm, Server>,
    /// After the servers, which keep files of them open.
    mounts: Vec<Mounted>,
    settled: u64,
    is_raw_filled: bool,
}

impl Stage {
    /// In a folder on the disk that is measured. `programs` is where ours are.
    #[must_use]
    pub fn new(folder: &Path, programs: &Path, bytes: u64, memory: &str) -> Stage {
        Stage {
            place: Place::new(&programs.join("everglade"), folder),
            folder: folder.to_owned(),
            bytes,
            memory: memory.to_owned(),
            null: programs.join("null"),
            raw: folder.join("raw.img"),
            servers: BTreeMap::new(),
            mounts: Vec::new(),
            settled: 0,
            is_raw_filled: false,
        }
    }

    /// Of each export.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn raw_image(&self) -> &Path {
        &self.raw
    }

    /// Ours, to be asked things.
    #[must_use]
    pub fn place(&self) -> &Place {
        &self.place
    }

    pub(super) fn server(&self, arm: Arm) -> Result<&Server, Failure> {
        let known = self.servers.get(&arm);
        known.ok_or_else(|| Failure::Rig(format!("{} was not started", arm.name())))
    }

    /// Starts and fills a server if it is not there, and lets those go that this row does not need and that
    /// hold much.
    pub(super) fn prepare(&mut self, arm: Arm, row: &Row) -> Result<(), Failure> {
        if !row.arms.contains(&Arm::QemuBtrfs) && !self.mounts.is_empty() {
            self.servers.remove(&Arm::QemuBtrfs);
            self.servers.remove(&Arm::QemuXfs);
            self.mounts.clear();
        }
        if arm == Arm::Disk {
            return self.fill_raw();
        }
        if self.servers.contains_key(&arm) {
            return self.warm(arm, row);
        }
        let server = match arm {
            Arm::Everglade => start_ours(&self.place, self.bytes, &self.memory)?,
            Arm::EvergladeAlways => self.another_lun()?,
            Arm::QemuRaw => {
                self.fill_raw()?;
                Server::qemu(&self.folder, "raw", &self.raw, "raw")?
            }
            Arm::QemuQcow2 => {
                let image = self.folder.join("it.qcow2");
                let name = image.to_string_lossy();
                must(
                    "qemu-img",
                    &[
                        "create",
                        "-q",
                        "-f",
                        "qcow2",
                        &name,
                        &self.bytes.to_string(),
                    ],
                )?;
                Server::qemu(&self.folder, "qcow2", &image, "qcow2")?
            }
            Arm::QemuBtrfs => self.on("btrfs")?,
            Arm::QemuXfs => self.on("xfs")?,
            Arm::Nbdkit => {
                self.fill_raw()?;
                Server::nbdkit(&self.folder, &self.raw)?
            }
            Arm::Null => Server::null(&self.folder, &self.null, self.bytes, 0)?,
            Arm::NullMemory => Server::null(&self.folder, &self.null, self.bytes, CACHED_BYTES)?,
            Arm::Disk => unreachable!("returned above"),
        };
        if !matches!(arm, Arm::Null | Arm::NullMemory | Arm::Nbdkit) {
            load::fill(&server.socket, &server.export, self.bytes)
                .map_err(|error| Failure::rig(&format!("fill {}", arm.name()), &error))?;
        }
        self.servers.insert(arm, server);
        self.warm(arm, row)
    }

    /// A row about what is cached finds it in the cache.
    fn warm(&self, arm: Arm, row: &Row) -> Result<(), Failure> {
        if row.load.bytes == 0 || arm != Arm::Everglade {
            return Ok(());
        }
        let server = self.server(arm)?;
        load::read_all(
            &server.socket,
            &server.export,
            row.load.bytes.min(self.bytes),
        )
        .map_err(|error| Failure::rig("warm the cache", &error))
    }

    fn fill_raw(&mut self) -> Result<(), Failure> {
        if !self.is_raw_filled {
            written_file(&self.raw, self.bytes)?;
            let words = [
                "--name=fill".to_owned(),
                format!("--filename={}", self.raw.display()),
                format!("--size={}", self.bytes),
                "--rw=write".to_owned(),
                "--bs=1M".to_owned(),
                "--direct=1".to_owned(),
                "--iodepth=8".to_owned(),
                "--ioengine=io_uring".to_owned(),
                "--end_fsync=1".to_owned(),
            ];
            must("fio", &words.iter().map(String::as_str).collect::<Vec<_>>())?;
            self.is_raw_filled = true;
        }
        Ok(())
    }

    /// A LUN of a volume with `sync=always`, in the server that runs already.
    fn another_lun(&mut self) -> Result<Server, Failure> {
        let size = self.bytes.to_string();
        self.place
            .must(&["volume", "create", "always", "--sync", "always"])?;
        self.place
            .must(&["lun", "create", "always/lun", "--size", &size])?;
        Ok(self.server(Arm::Everglade)?.beside("always/lun"))
    }

    /// On a file system on a loop device.
    fn on(&mut self, kind: &str) -> Result<Server, Failure> {
        // The image, a copy that shares less and less of it, and the one before until that is gone.
        let mounted = Mounted::make(&self.folder, kind, self.bytes * 4)?;
        let image = mounted.folder.join("raw.img");
        written_file(&image, self.bytes)?;
        self.mounts.push(mounted);
        Server::qemu(&self.folder, kind, &image, "raw")
    }

    /// Makes a snapshot of an export, in the way of its server or of the file system below it; the one made before
    /// is deleted.
    pub(super) fn snapshot(&self, arm: Arm) -> Result<(), Failure> {
        match arm {
            Arm::Everglade => {
                // There is none before the first.
                let _ = self
                    .place
                    .must(&["snapshot", "delete", "vol0@turn", "--yes"]);
                self.place.must(&["snapshot", "create", "vol0@turn"])
            }
            Arm::QemuBtrfs => {
                let (all, copy) = self.snapshot_paths("btrfs")?;
                let words = ["subvolume", "delete", "--commit-after", &copy];
                if Path::new(&copy).exists() {
                    must("btrfs", &words)?;
                }
                must("btrfs", &["subvolume", "snapshot", "-r", &all, &copy]).map(drop)
            }
            Arm::QemuXfs => {
                let (all, copy) = self.snapshot_paths("xfs")?;
                let image = format!("{all}/raw.img");
                must("cp", &["--reflink=always", "--force", &image, &copy]).map(drop)
            }
            _ => Err(Failure::Rig(format!("{} has no snapshots", arm.name()))),
        }
    }

    /// Deletes what [`Stage::snapshot`] left of ours, and waits until its blocks are back: the next row is not
    /// about snapshots.
    pub(super) fn forget_snapshot(&self) -> Result<(), Failure> {
        self.place
            .must(&["snapshot", "delete", "vol0@turn", "--yes"])?;
        let begun = Instant::now();
        loop {
            let output = self.place.run(&["volume", "show", "vol0", "--json"])?;
            let text = String::from_utf8_lossy(&output.stdout).replace(' ', "");
            if text.contains("\"pending_free_bytes\":0,") {
                return Ok(());
            }
            if begun.elapsed() > FORGET_TIME_MAX {
                return Err(Failure::Rig(format!(
                    "a deleted snapshot still has blocks after {FORGET_TIME_MAX:?}: {text}"
                )));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Where a file system is mounted, and where a snapshot of it or in it goes.
    fn snapshot_paths(&self, kind: &str) -> Result<(String, String), Failure> {
        let mounted = self
            .mounts
            .iter()
            .find(|mounted| mounted.folder.ends_with(kind));
        let mounted = mounted.ok_or_else(|| Failure::Rig(format!("{kind} is not mounted")))?;
        let all = mounted.folder.to_string_lossy().into_owned();
        let copy = format!("{all}/snapshot");
        Ok((all, copy))
    }

    /// Drives what a turn of ours left to its end: a change of topology is answered when its consistency point
    /// is committed, and that has everything before it.
    pub(super) fn settle(&mut self, arm: Arm, load: &Load) -> Result<(), Failure> {
        let is_ours = matches!(arm, Arm::Everglade | Arm::EvergladeAlways);
        if !is_ours || load.kind == Kind::Read {
            return Ok(());
        }
        if self.settled == 0 {
            self.place.must(&["volume", "create", "settling"])?;
            self.place
                .must(&["lun", "create", "settling/lun", "--size", "1MiB"])?;
        }
        self.settled += 1;
        let size = ((1 << 20) + self.settled * 4096).to_string();
        self.place
            .must(&["lun", "resize", "settling/lun", "--size", &size])
    }

    /// Ends all servers and gives their space back.
    pub fn clear(&mut self) {
        self.servers.clear();
        self.mounts.clear();
        for name in ["raw.img", "it.qcow2", "btrfs.img", "xfs.img"] {
            // Absent if no row wanted it.
            let _ = fs::remove_file(self.folder.join(name));
        }
        self.is_raw_filled = false;
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.clear();
    }
}
