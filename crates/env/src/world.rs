//! The world outside of one server: its devices, how I/O is done, and the bells of its reactors.
//!
//! Devices are opened and closed here, blocking; a reactor has one owner at a time. A device number
//! is never used twice, so a late operation on a closed device is refused, not misdirected.

use std::fs::File;
use std::path::Path;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use crate::clock::Clock;
use crate::device::{self, Access, Budget, Device, DeviceInfo, Geometry, OpenError, Table};
use crate::gauge::Gauge;
use crate::io_mode::{IoMode, IoReport};
use crate::lock::Mutex;
use crate::reactor::Real;
use crate::ring::{Ring, RingSetup};
use crate::shared::{Bell, Shared, lock};
use crate::waker::Waker;
use crate::workers::Workers;
use crate::{DeviceId, DiskError, Nanos};

/// Threads for calls that may block.
const WORKERS: usize = 4;
/// Devices never have more descriptors than this, whatever the host allows.
const OPEN_FILES_MAX: usize = 4096;
/// Pause between two looks at whether the files of a closed device are closed.
const CLOSED_LOOK: Duration = Duration::from_millis(1);

/// The settings of a world.
#[derive(Clone, Debug)]
pub struct WorldOptions {
    /// The requested method of device I/O.
    pub io: IoMode,
    /// The setup of rings; by default the best the host allows. For tests and comparisons.
    pub ring: Option<RingSetup>,
    /// Number of reactors.
    pub reactors: usize,
    /// Limit of descriptors of all devices, for segment files and pinned descriptors; by default
    /// half of the limit of the process, at most 4,096.
    pub open_files_max: Option<usize>,
    /// Devices are opened for reading only, as offline tools do. Devices that nobody may write to
    /// can be opened then; writes fail.
    pub read_only: bool,
}

impl Default for WorldOptions {
    fn default() -> Self {
        WorldOptions {
            io: IoMode::Auto,
            ring: None,
            reactors: 1,
            open_files_max: None,
            read_only: false,
        }
    }
}

/// Descriptors of devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceFiles {
    /// Open now.
    pub used: usize,
    /// Limit of open files.
    pub files_max: usize,
    /// Openings that had to wait for a descriptor.
    pub waits: u64,
}

/// The reasons why a world cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    /// io_uring was demanded and is forbidden.
    #[error("io_uring cannot be used here ({0}); use threads instead")]
    Uring(std::io::Error),
    /// The host gives no descriptors, threads or memory.
    #[error("the host refuses threads or descriptors: {0}")]
    Host(#[from] std::io::Error),
}

/// A cheap handle to the world; the world ends with the last handle and reactor.
#[derive(Clone)]
pub struct World(Arc<Shared>);

impl World {
    /// Makes a world without devices.
    ///
    /// # Errors
    /// If the host refuses a resource that every world needs.
    pub fn new(options: &WorldOptions) -> Result<World, WorldError> {
        assert!(options.reactors > 0, "a world has a reactor");
        let io = choose(options)?;
        let devices = Table::default();
        let mut bells = Vec::with_capacity(options.reactors);
        for _ in 0..options.reactors {
            bells.push(Bell {
                waker: Arc::new(Waker::new()?),
                taken: Mutex::new(false),
            });
        }
        let budget = Budget::new(options.open_files_max.unwrap_or_else(open_files_max));
        Ok(World(Arc::new(Shared {
            blocking_budget: budget.for_blocking_callers(),
            budget: Arc::new(budget),
            workers: Workers::spawn("worker", WORKERS)?,
            crew: OnceLock::new(),
            _gauge: Gauge::start(Arc::clone(&devices))?,
            devices,
            bells,
            io,
            clock: Clock::new(),
            access: match options.read_only {
                true => Access::ReadOnly,
                false => Access::Full,
            },
        })))
    }

    /// Returns the method of device I/O in use, with the reason.
    #[must_use]
    pub fn io(&self) -> &IoReport {
        &self.0.io
    }

    /// Opens whatever is at the path: a device directory, a regular file or a block device.
    ///
    /// # Errors
    /// [`OpenError`], with nothing changed.
    pub fn open(&self, path: &Path) -> Result<DeviceId, OpenError> {
        self.0.admit(device::open(path, self.0.access)?)
    }

    /// Opens a directory of segments, or makes the directory such a device. An existing one must
    /// have at least the given size: it may have grown since that was written down.
    ///
    /// # Errors
    /// [`OpenError`], with nothing changed.
    pub fn open_directory(
        &self,
        path: &Path,
        size_bytes: u64,
        create: bool,
    ) -> Result<DeviceId, OpenError> {
        if create {
            return self.create_directory(path, Geometry::of(size_bytes));
        }
        let opened = device::open_directory(path, self.0.access)?;
        if opened.size_bytes() < size_bytes {
            return Err(OpenError::Unexpected {
                path: path.to_path_buf(),
                expected: format!("a device of at least {size_bytes} bytes"),
                found: format!("one of {} bytes", opened.size_bytes()),
            });
        }
        self.0.admit(opened)
    }

    /// Makes the directory a device of this geometry and opens it.
    ///
    /// # Errors
    /// [`OpenError::Occupied`] if the directory is a device already; other errors as for opening.
    pub fn create_directory(&self, path: &Path, geometry: Geometry) -> Result<DeviceId, OpenError> {
        self.0.admit(device::create_directory(path, geometry)?)
    }

    /// Opens an existing regular file.
    ///
    /// # Errors
    /// [`OpenError`], with nothing changed.
    pub fn open_file(&self, path: &Path) -> Result<DeviceId, OpenError> {
        self.0.admit(device::open_file(path, self.0.access)?)
    }

    /// Opens a block device.
    ///
    /// # Errors
    /// [`OpenError`], with nothing changed.
    pub fn open_block(&self, path: &Path) -> Result<DeviceId, OpenError> {
        self.0.admit(device::open_block(path, self.0.access)?)
    }

    /// Opens whatever is at the path for reading only. Other readers may have it open as well, and
    /// no writer. All writes fail.
    ///
    /// # Errors
    /// [`OpenError`], with nothing changed.
    pub fn open_to_read(&self, path: &Path) -> Result<DeviceId, OpenError> {
        self.0.admit(device::open(path, Access::ReadOnly)?)
    }

    /// Makes a device larger, while reactors use it, and returns its size. A directory gets the
    /// given size, or stays as it is without one. A file or block device gets no size, and becomes
    /// as large as the host says that it is now, if that is larger. No device becomes smaller.
    ///
    /// # Errors
    /// [`OpenError`]; the size is the old one. The card of a directory may have the new one, so
    /// that the next opening finds it larger.
    pub fn grow(&self, device: DeviceId, size_bytes: Option<u64>) -> Result<u64, OpenError> {
        let found = self.0.device(device).ok_or_else(|| OpenError::Missing {
            path: format!("device {}", device.0).into(),
        })?;
        found.grow(size_bytes, self.budget())
    }

    /// Closes a device. Operations in flight end as usual; every later one is [`DiskError::Gone`].
    /// Closing twice does nothing.
    pub fn close(&self, device: DeviceId) {
        self.take(device);
    }

    /// Closes a device like [`World::close`], and waits up to `patience` until its last operation
    /// in flight has ended, so that the host has its files back. Returns false if the device hangs
    /// longer than that. Not for reactors, which end these operations.
    pub fn close_and_wait(&self, device: DeviceId, patience: Duration) -> bool {
        let files = self.take(device);
        let start = Instant::now();
        while files.iter().any(|file| file.strong_count() > 0) {
            if start.elapsed() >= patience {
                return false;
            }
            std::thread::sleep(CLOSED_LOOK);
        }
        true
    }

    /// Closes a device. Returns its files, which stay open until their last operation has ended.
    fn take(&self, device: DeviceId) -> Vec<Weak<File>> {
        let mut table = self.0.devices.write();
        let closed = table.get_mut(device.0 as usize).and_then(Option::take);
        drop(table);
        closed.map_or_else(Vec::new, |device| {
            let files = device.close();
            self.0.budget.unpin(device.pinned_files());
            files
        })
    }

    /// Facts about a device; `None` if it is closed.
    #[must_use]
    pub fn info(&self, device: DeviceId) -> Option<DeviceInfo> {
        self.0.device(device).map(|device| device.info())
    }

    /// Bytes the host could still give to a device; see [`crate::Outside::host_free_bytes`].
    #[must_use]
    pub fn host_free_bytes(&self, device: DeviceId) -> Option<u64> {
        self.0.device(device)?.host_free_bytes()
    }

    /// Returns the number of open segment files of all directory devices.
    #[must_use]
    pub fn open_segments(&self) -> usize {
        self.0.budget.open_count()
    }

    /// Returns the descriptors that devices use, and the number that they may use.
    #[must_use]
    pub fn device_files(&self) -> DeviceFiles {
        let (used, files_max) = self.0.budget.usage();
        DeviceFiles {
            used,
            files_max,
            waits: self.0.budget.waits(),
        }
    }

    /// Makes the only handle of one reactor. The handle may be moved to the thread that will run
    /// it, and belongs to that thread from its first `poll` or `wait`.
    ///
    /// # Errors
    /// If the host refuses descriptors or memory.
    pub fn reactor(&self, index: usize) -> std::io::Result<Real> {
        let bell = &self.0.bells[index];
        let mut taken = lock(&bell.taken);
        assert!(!*taken, "reactor {index} is handed out");
        let real = Real::new(index, Arc::clone(&self.0), Arc::clone(&bell.waker))?;
        *taken = true;
        Ok(real)
    }

    /// Wakes a reactor, from any thread.
    pub fn wake(&self, reactor: usize) {
        self.0.wake(reactor);
    }

    /// Returns the monotonic time, the same as in the reactors.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.0.clock.now()
    }

    /// Seconds since 1970-01-01 UTC.
    #[must_use]
    pub fn wall_seconds(&self) -> u64 {
        self.0.clock.wall_seconds()
    }

    pub(crate) fn opened(&self, device: DeviceId) -> Result<Arc<Device>, DiskError> {
        self.0.device(device).ok_or(DiskError::Gone)
    }

    pub(crate) fn budget(&self) -> &Budget {
        &self.0.blocking_budget
    }
}

/// Chooses the method of I/O by trying what the host allows.
fn choose(options: &WorldOptions) -> Result<IoReport, WorldError> {
    if options.io == IoMode::Threads {
        return Ok(IoReport::Threads { because: None });
    }
    match options.ring.map_or_else(Ring::new, Ring::with) {
        Ok(ring) => Ok(IoReport::Uring(ring.setup())),
        Err(error) if options.io == IoMode::Uring => Err(WorldError::Uring(error)),
        Err(error) => Ok(IoReport::Threads {
            because: Some(error.to_string()),
        }),
    }
}

fn open_files_max() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let half = limit.map_or(OPEN_FILES_MAX, |limit| {
        usize::try_from(limit / 2).unwrap_or(usize::MAX)
    });
    half.clamp(1, OPEN_FILES_MAX)
}
