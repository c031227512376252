//! Everything that is started for the rows: servers when a row first needs them, filled before
//! anybody measures.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::account::{Device, host_bytes};
use super::bounded::Controller;
use super::load::{self, Kind, Load};
use super::row::{CACHED_BYTES, Row};
use super::server::{
    Arm, FileSystem, Mounted, Server, image_of, must, sparse_file, start_ours, write_all,
};
use crate::Failure;
use crate::rig::Installation;
use crate::rig::programs::missing;

/// A snapshot of a few gigabytes is gone long before.
const FORGET_TIME_MAX: Duration = Duration::from_secs(60);

/// See the module's documentation. All servers end with it.
pub struct Stage {
    installation: Installation,
    folder: PathBuf,
    bytes: u64,
    memory: u64,
    /// Size of our aggregate, if it is not the default.
    pool: Option<u64>,
    device: Device,
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
    pub fn new(folder: &Path, programs: &Path, bytes: u64, memory: u64) -> Stage {
        Stage {
            installation: Installation::new(&programs.join("everglade"), folder),
            folder: folder.to_owned(),
            bytes,
            memory,
            pool: None,
            device: Device::below(folder),
            null: programs.join("null"),
            raw: folder.join("raw.img"),
            servers: BTreeMap::new(),
            mounts: Vec::new(),
            settled: 0,
            is_raw_filled: false,
        }
    }

    /// With an aggregate of that size.
    #[must_use]
    pub fn with_pool(mut self, bytes: u64) -> Stage {
        self.pool = Some(bytes);
        self
    }

    /// The device below the folder.
    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    /// Our cache, and so the page cache of [`Arm::QemuCached`].
    pub(super) fn cache_bytes(&self) -> u64 {
        self.memory / 2
    }

    /// Why a server cannot run on this machine, if it cannot.
    #[must_use]
    pub fn lacks(arm: Arm) -> Option<String> {
        let absent = missing(arm.programs());
        if !absent.is_empty() {
            return Some(format!("{} not installed", absent.join(" and ")));
        }
        match arm {
            Arm::QemuCached => Controller::of_machine().err(),
            _ => None,
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
    pub fn installation(&self) -> &Installation {
        &self.installation
    }

    pub(super) fn server(&self, arm: Arm) -> Result<&Server, Failure> {
        let known = self.servers.get(&arm);
        known.ok_or_else(|| Failure::Rig(format!("{} was not started", arm.name())))
    }

    /// Starts and fills a server if it is not there, and lets those go that this row does not need
    /// and that hold much.
    pub(super) fn prepare(&mut self, arm: Arm, row: &Row) -> Result<(), Failure> {
        self.retire(row);
        if arm == Arm::Disk {
            return self.fill_raw();
        }
        if self.servers.contains_key(&arm) {
            return self.warm(arm, row);
        }
        let server = match arm {
            Arm::Everglade => {
                let memory = self.memory.to_string();
                start_ours(&self.installation, self.bytes, &memory, self.pool)?
            }
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
            Arm::QemuCached => {
                let image = self.folder.join("cached.img");
                sparse_file(&image, self.bytes)?;
                Server::qemu_cached(&self.folder, &image, self.cache_bytes())?
            }
            Arm::QemuBtrfs | Arm::QemuBtrfsFull | Arm::QemuBtrfsPlain | Arm::QemuXfs => {
                self.on(arm)?
            }
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

    /// Ends servers that the row does not need and whose files take much space.
    fn retire(&mut self, row: &Row) {
        let is_needed = |arm: &Arm| row.arms.contains(arm);
        let on_mounts = |arm: &Arm| arm.file_system().is_some();
        if !row.arms.iter().any(on_mounts) {
            self.servers.retain(|arm, _| !on_mounts(arm));
            self.clear_mounts();
            return;
        }
        for (arm, file) in [
            (Arm::QemuQcow2, "it.qcow2"),
            (Arm::QemuCached, "cached.img"),
        ] {
            if !is_needed(&arm) && self.servers.remove(&arm).is_some() {
                // It was made when the server was started.
                let _ = fs::remove_file(self.folder.join(file));
            }
        }
    }

    fn clear_mounts(&mut self) {
        self.mounts.clear();
        for of in Arm::ALL.into_iter().filter_map(Arm::file_system) {
            // Absent if no row wanted it.
            let _ = fs::remove_file(image_of(&self.folder, of));
            let _ = fs::remove_dir(self.folder.join(of.name));
        }
    }

    /// Overwrites as many blocks as an export has, at random places.
    pub(super) fn age(&self, arm: Arm) -> Result<(), Failure> {
        if arm == Arm::Disk {
            return Ok(());
        }
        let server = self.server(arm)?;
        let count = self.bytes / 4096;
        load::scatter(&server.socket, &server.export, self.bytes, count, 7)
            .map_err(|error| Failure::rig(&format!("age {}", arm.name()), &error))
    }

    /// A row about what is cached finds it in the cache.
    fn warm(&self, arm: Arm, row: &Row) -> Result<(), Failure> {
        if row.load.bytes == 0 || !matches!(arm, Arm::Everglade | Arm::QemuCached) {
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
            write_all(&self.raw, self.bytes)?;
            self.is_raw_filled = true;
        }
        Ok(())
    }

    /// A LUN of a volume with `sync=always`, in the server that runs already.
    fn another_lun(&mut self) -> Result<Server, Failure> {
        let size = self.bytes.to_string();
        self.installation
            .must(&["volume", "create", "always", "--sync", "always"])?;
        self.installation
            .must(&["lun", "create", "always/lun", "--size", &size])?;
        Ok(self.server(Arm::Everglade)?.beside("always/lun"))
    }

    /// On a file system on a loop device.
    fn on(&mut self, arm: Arm) -> Result<Server, Failure> {
        let of = file_system(arm)?;
        // The image, a copy that shares less and less of it, and room to spare.
        let mounted = Mounted::with(&self.folder, of, self.bytes * 4)?;
        let image = mounted.folder.join("raw.img");
        sparse_file(&image, self.bytes)?;
        self.mounts.push(mounted);
        Server::qemu(&self.folder, of.name, &image, "raw")
    }

    /// Makes a snapshot of an export, in the way of its server or of the file system below it.
    pub(super) fn snapshot(&self, arm: Arm) -> Result<(), Failure> {
        match arm {
            Arm::Everglade => self.installation.must(&["snapshot", "create", "vol0@turn"]),
            Arm::QemuBtrfs | Arm::QemuBtrfsFull | Arm::QemuBtrfsPlain => {
                let (all, copy) = self.snapshot_paths(arm)?;
                must("btrfs", &["subvolume", "snapshot", "-r", &all, &copy]).map(drop)
            }
            Arm::QemuXfs => {
                let (all, copy) = self.snapshot_paths(arm)?;
                let image = format!("{all}/raw.img");
                must("cp", &["--reflink=always", "--force", &image, &copy]).map(drop)
            }
            // It overwrites in place: the machine's figure beside the others.
            Arm::Disk => Ok(()),
            _ => Err(Failure::Rig(format!("{} has no snapshots", arm.name()))),
        }
    }

    /// Deletes what [`Stage::snapshot`] made, and waits until its blocks are free: otherwise the
    /// next server's turn would have the work of the deletion.
    pub(super) fn forget_snapshot(&self, arm: Arm) -> Result<(), Failure> {
        match arm {
            Arm::Everglade => self.forget_ours(),
            Arm::QemuBtrfs | Arm::QemuBtrfsFull | Arm::QemuBtrfsPlain => {
                let (all, copy) = self.snapshot_paths(arm)?;
                must("btrfs", &["subvolume", "delete", "--commit-after", &copy])?;
                must("btrfs", &["subvolume", "sync", &all]).map(drop)
            }
            Arm::QemuXfs => {
                let (_, copy) = self.snapshot_paths(arm)?;
                fs::remove_file(&copy)
                    .map_err(|error| Failure::at("remove", Path::new(&copy), &error))
            }
            _ => Ok(()),
        }?;
        self.sync(arm).map(drop)
    }

    fn forget_ours(&self) -> Result<(), Failure> {
        self.installation
            .must(&["snapshot", "delete", "vol0@turn", "--yes"])?;
        let begun = Instant::now();
        loop {
            let output = self
                .installation
                .run(&["volume", "show", "vol0", "--json"])?;
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
    fn snapshot_paths(&self, arm: Arm) -> Result<(String, String), Failure> {
        let all = self.mount_of(file_system(arm)?)?.to_string_lossy();
        let copy = format!("{all}/snapshot");
        Ok((all.into_owned(), copy))
    }

    fn mount_of(&self, of: FileSystem) -> Result<&Path, Failure> {
        let mut folders = self.mounts.iter().map(|mounted| &mounted.folder);
        let found = folders.find(|folder| folder.ends_with(of.name));
        let found = found.ok_or_else(|| Failure::Rig(format!("{} is not mounted", of.name)))?;
        Ok(found)
    }

    /// Drives what a turn left behind to its end: our consistency point, the writeback of peers and
    /// of file systems. False if the device was still written seconds later.
    pub(super) fn settle(&mut self, arm: Arm, load: &Load) -> Result<bool, Failure> {
        if arm.is_ours() && load.kind != Kind::Read {
            self.commit()?;
        }
        self.sync(arm)
    }

    /// Waits for a consistency point: a change of topology is answered when its own is committed,
    /// and that has everything before it.
    pub(super) fn commit(&mut self) -> Result<(), Failure> {
        if self.settled == 0 {
            self.installation.must(&["volume", "create", "settling"])?;
            self.installation
                .must(&["lun", "create", "settling/lun", "--size", "1MiB"])?;
        }
        self.settled += 1;
        let size = ((1 << 20) + self.settled * 4096).to_string();
        self.installation
            .must(&["lun", "resize", "settling/lun", "--size", &size])
    }

    fn sync(&self, arm: Arm) -> Result<bool, Failure> {
        if let Some(of) = arm.file_system() {
            sync(self.mount_of(of)?)?;
        }
        sync(&self.folder)?;
        Ok(self.device.rest())
    }

    /// What the host gave for the data of a server.
    pub(super) fn host_bytes(&self, arm: Arm) -> Option<u64> {
        let path = match arm {
            Arm::Everglade | Arm::EvergladeAlways => self.installation.data_dir(),
            Arm::QemuRaw | Arm::Nbdkit | Arm::Disk => self.raw.clone(),
            Arm::QemuQcow2 => self.folder.join("it.qcow2"),
            Arm::QemuCached => self.folder.join("cached.img"),
            Arm::QemuBtrfs | Arm::QemuBtrfsFull | Arm::QemuBtrfsPlain | Arm::QemuXfs => {
                image_of(&self.folder, arm.file_system()?)
            }
            Arm::Null | Arm::NullMemory => return None,
        };
        Some(host_bytes(&path))
    }

    /// Ends all servers and gives their space back.
    pub fn clear(&mut self) {
        self.servers.clear();
        self.clear_mounts();
        for name in ["raw.img", "it.qcow2", "cached.img"] {
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

fn file_system(arm: Arm) -> Result<FileSystem, Failure> {
    let known = arm.file_system();
    known.ok_or_else(|| Failure::Rig(format!("{} is on no file system of its own", arm.name())))
}

/// Writes everything that a file system holds back.
fn sync(folder: &Path) -> Result<(), Failure> {
    let open = fs::File::open(folder).map_err(|error| Failure::at("open", folder, &error))?;
    rustix::fs::syncfs(&open).map_err(|error| Failure::at("sync", folder, &error))
}
