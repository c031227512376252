//! The data directory: recognised, locked, and owned by one daemon at a time.
//!
//! ```text
//! FORMAT                program and version this belongs to; written first, never changed
//! LOCK                  flock of the daemon, and its pid for error messages
//! state.toml            devices and membership epoch of each aggregate
//! seen.toml             the newest consistency point seen of each aggregate
//! aggregates/A/devN/    directory devices
//! run/{nbd,api}.sock    sockets, stale after a crash
//! run/endpoints.json    where the running daemon listens
//! *.spare               space that is set aside for the next contents of the file beside it
//! ```
//!
//! State of volumes, LUNs and exports is in the pool, not here: losing this directory's small files
//! loses no data, only the knowledge of where the devices are.
//!
//! unknown --recognise()--> blank or ours --lock--> ours alone --prepare()--> open
//!
//! 1. A directory that is not ours is never written to: [`recognise`](format_file::recognise) only
//!    reads. Everything before the lock only reads, except that a missing directory is created.
//! 2. The directory is recognised again under the lock, because two first starts may race.
//! 3. `FORMAT` is the first file made and only the lock may precede it, so a crash in a first start
//!    leaves either a blank directory or one of ours.
//! 4. Files are replaced whole: power loss leaves the old or the new one. The files that a start, a
//!    stop or a deletion writes are [`SmallFile`]s, whose space is set aside; so none of these
//!    fails because the host is full. Files that only a first start writes ([`atomic`]) need space.
//! 5. Only the owner of the directory can write to it and to its files ([`modes`]).
//! 6. The kernel holds the lock, so it ends with the process, however the process ends. The pid in
//!    the file is never trusted for exclusion.

pub mod atomic;
pub mod endpoints;
pub mod error;
pub mod format_file;
pub mod lock;
pub mod modes;
pub mod seen;
pub mod small_file;
pub mod socket;
pub mod state;
pub mod uuid;

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

pub use endpoints::{Address, Endpoint, Endpoints};
pub use error::DataDirError;
pub use seen::{Point, SeenPoints};
pub use small_file::SmallFile;
pub use state::{AggregateState, Device, DeviceKind, Phase, Spare, State};
pub use uuid::Uuid;

use everglade_format::config::name_is_valid;
use format_file::Recognised;
use lock::Lock;
use rustix::fs::Access;

/// Mode for files that everybody may read; only the owner may read the pool's bytes.
const MODE_OPEN: u32 = 0o755;
const MODE_PRIVATE: u32 = 0o700;

/// The widest modes of the entries in the data directory.
const MODES: [(&str, u32); 9] = [
    ("aggregates", MODE_PRIVATE),
    ("log", MODE_PRIVATE),
    ("log/events.jsonl", modes::FILE_PRIVATE),
    ("log/history.jsonl", modes::FILE_PRIVATE),
    ("run", MODE_OPEN),
    (state::NAME, modes::FILE_PRIVATE),
    (state::SPARE, modes::FILE_PRIVATE),
    (lock::NAME, modes::FILE_PRIVATE),
    (format_file::NAME, modes::FILE_OPEN),
];

/// An open data directory. Dropping it releases the lock.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    state: State,
    owed: Owed,
    seen: SeenPoints,
    _lock: Lock,
}

/// The files that could not be written on a full host. None of them is needed to serve.
#[derive(Debug, Default)]
struct Owed {
    /// The addresses of the daemon.
    endpoints: Option<Endpoints>,
    /// Space for the next contents of small files.
    spares: bool,
}

impl DataDir {
    /// Opens `path`, creating or initialising it when it is missing or blank.
    ///
    /// # Errors
    /// Not ours, newer, damaged, in use, or the system refused; nothing was written in the first
    /// four.
    pub fn open(path: &Path) -> Result<DataDir, DataDirError> {
        if is_missing(path) {
            create_dir(path, MODE_OPEN)?;
        }
        // Damage is found before the lock file is touched.
        look(path)?;
        let lock = Lock::exclusive(path)?;
        if format_file::recognise(path)? == Recognised::Blank {
            format_file::write(path)?;
        }
        let state = State::read(path)?;
        let mut directory = DataDir {
            path: path.to_owned(),
            state,
            owed: Owed::default(),
            seen: SeenPoints::read(path),
            _lock: lock,
        };
        directory.prepare()?;
        Ok(directory)
    }

    /// Refuses a path that [`DataDir::open`] would refuse, and changes nothing. A directory that a
    /// daemon has open is not refused.
    ///
    /// # Errors
    /// As those of [`DataDir::open`].
    pub fn examine(path: &Path) -> Result<(), DataDirError> {
        if !is_missing(path) {
            look(path)?;
            let lock = path.join(lock::NAME);
            let wanted = if lock.exists() { &lock } else { path };
            let writable = rustix::fs::access(wanted, Access::WRITE_OK);
            return writable.map_err(|errno| DataDirError::io("open", &lock, errno.into()));
        }
        let Some(parent) = path.ancestors().skip(1).find(|parent| parent.exists()) else {
            return Ok(());
        };
        let refused =
            |errno: rustix::io::Errno| DataDirError::io("create the directory", path, errno.into());
        if !parent.is_dir() {
            return Err(refused(rustix::io::Errno::NOTDIR));
        }
        rustix::fs::access(parent, Access::WRITE_OK | Access::EXEC_OK).map_err(refused)
    }

    /// Returns whether nothing is at `path`, or nothing that a start would keep.
    #[must_use]
    pub fn is_blank(path: &Path) -> bool {
        is_missing(path) || matches!(format_file::recognise(path), Ok(Recognised::Blank))
    }

    /// Makes the folders and removes files that a killed daemon left.
    fn prepare(&mut self) -> Result<(), DataDirError> {
        modes::correct(&self.path, &MODES);
        create_dir(&self.path.join("aggregates"), MODE_PRIVATE)?;
        create_dir(&self.run_dir(), MODE_OPEN)?;
        for name in ["nbd.sock", "api.sock"] {
            socket::unlink_stale(&self.run_dir().join(name))?;
        }
        endpoints::file(&self.run_dir()).remove()?;
        for name in [format_file::NAME, state::NAME, "run/endpoints.json"] {
            atomic::remove_leftover(&self.path.join(name))?;
        }
        self.set_aside();
        Ok(())
    }

    fn small_files(&self) -> [SmallFile; 3] {
        [
            state::file(&self.path),
            seen::file(&self.path),
            endpoints::file(&self.run_dir()),
        ]
    }

    /// Sets space aside for the small files. A directory of an earlier version on a full host has
    /// none, and does without until there is some.
    fn set_aside(&mut self) {
        let outcomes = self.small_files().map(|file| file.prepare());
        let failed = outcomes.into_iter().find_map(Result::err);
        if let (Some(error), false) = (&failed, self.owed.spares) {
            tracing::warn!(
                "no space can be set aside in the data directory, so changes of aggregates may \
                fail until its file system has some: {error}"
            );
        }
        self.owed.spares = failed.is_some();
    }

    /// Writes the files that a full host refused. Costs nothing if there are none.
    pub fn settle(&mut self) {
        if self.owed.spares {
            self.set_aside();
        }
        if let Some(endpoints) = &self.owed.endpoints
            && endpoints.write(&self.run_dir()).is_ok()
        {
            tracing::info!("run/endpoints.json is written now");
            self.owed.endpoints = None;
        }
    }

    /// Returns the absolute path, as configured.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the folder of the sockets and of `endpoints.json`.
    #[must_use]
    pub fn run_dir(&self) -> PathBuf {
        self.path.join("run")
    }

    /// Returns the record of the aggregates. Empty at first start.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Returns the newest consistency points seen of aggregates.
    #[must_use]
    pub fn seen(&self) -> &SeenPoints {
        &self.seen
    }

    /// Takes note of consistency points that are durable. Durable when it returns; nothing is
    /// written if nothing has changed.
    ///
    /// # Errors
    /// The system refused; the former record stays.
    pub fn see(&mut self, points: Vec<Point>) -> Result<(), DataDirError> {
        let seen = self.seen.with(points, &self.state);
        if seen != self.seen {
            let written = seen.write(&self.path);
            self.owed.spares |= !seen::file(&self.path).is_prepared();
            written?;
            self.seen = seen;
        }
        Ok(())
    }

    /// Replaces the record of the aggregates. Durable when it returns.
    ///
    /// # Errors
    /// The system refused; the old state stands, in memory as on disk.
    pub fn record(&mut self, state: State) -> Result<(), DataDirError> {
        let written = state.write(&self.path);
        self.owed.spares |= !state::file(&self.path).is_prepared();
        written?;
        self.state = state;
        Ok(())
    }

    /// Returns the device `aggregates/A/devN`, as it is to be recorded. Nothing is made yet.
    ///
    /// # Panics
    /// If `aggregate` is not a name; names are checked where they come in.
    #[must_use]
    pub fn directory_device(aggregate: &str, number: u32, size_bytes: u64) -> Device {
        assert!(
            name_is_valid(aggregate),
            "a name becomes a path only after it was checked"
        );
        let path = PathBuf::from(format!("aggregates/{aggregate}/dev{number}"));
        Device {
            path,
            kind: DeviceKind::Directory,
            size_bytes,
            joining: false,
            replaces: None,
            member: None,
        }
    }

    /// Makes the folder of a recorded device, empty, and returns where it is. An aggregate that is
    /// still being created, or a device that is joining, has no data, so leftovers of an earlier
    /// attempt are removed.
    ///
    /// # Errors
    /// The system refused.
    ///
    /// # Panics
    /// If the device is neither recorded as joining nor belongs to an aggregate that is recorded as
    /// being created: any other device could have data.
    pub fn make_directory(&self, device: &Device) -> Result<PathBuf, DataDirError> {
        let is_new = |known: &&AggregateState| known.phase == Phase::Creating || device.joining;
        let mut unfinished = self.state.aggregates.iter().filter(is_new);
        assert!(
            unfinished.any(|aggregate| aggregate.devices.contains(device)),
            "a device is recorded before it is made"
        );
        assert_eq!(
            device.kind,
            DeviceKind::Directory,
            "only folders are made; others exist"
        );
        let path = self.device_path(device);
        if path.is_dir() {
            fs::remove_dir_all(&path)
                .map_err(|error| DataDirError::io("clear the unfinished device", &path, error))?;
        }
        create_dir(&path, MODE_PRIVATE)?;
        Ok(path)
    }

    /// Returns the path of a recorded device.
    #[must_use]
    pub fn device_path(&self, device: &Device) -> PathBuf {
        self.path.join(&device.path)
    }

    /// Tells scripts where the daemon listens. If the file cannot be written, the daemon serves
    /// anyway, and [`DataDir::settle`] tries again.
    pub fn announce(&mut self, endpoints: &Endpoints) {
        if let Err(error) = endpoints.write(&self.run_dir()) {
            tracing::error!(
                "{error}; clients are served, but scripts do not find run/endpoints.json yet"
            );
            self.owed.endpoints = Some(endpoints.clone());
        }
    }

    /// Ends cleanly: closes all sockets and releases the lock.
    pub fn close(mut self) {
        self.withdraw();
    }

    /// Tells scripts that all sockets are closed. A failure to do so does not fail the stop.
    pub fn withdraw(&mut self) {
        self.owed.endpoints = None;
        if let Err(error) = endpoints::file(&self.run_dir()).remove() {
            tracing::warn!("{error}");
        }
    }
}

/// Returns whether nothing is at `path`. A link that leads nowhere is something: a start would not
/// make it.
pub(crate) fn is_missing(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Looks whether the directory can be ours, or is, and is in order. Changes nothing.
fn look(path: &Path) -> Result<(), DataDirError> {
    let recognised = format_file::recognise(path)?;
    modes::check(path)?;
    if recognised == Recognised::Ours {
        State::read(path)?;
    }
    Ok(())
}

/// Makes a directory and its parents, and makes its name durable.
fn create_dir(path: &Path, mode: u32) -> Result<(), DataDirError> {
    if path.is_dir() {
        return Ok(());
    }
    fs::DirBuilder::new()
        .recursive(true)
        .mode(mode)
        .create(path)
        .map_err(|source| DataDirError::io("create the directory", path, source))?;
    match path.parent() {
        Some(parent) => atomic::sync_dir(parent),
        None => Ok(()),
    }
}
