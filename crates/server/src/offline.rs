//! The data directory for offline tools: locked against the daemon, and never written to.

use std::path::{Path, PathBuf};

use everglade_env::{DeviceId, IoMode, World, WorldError, WorldOptions};

use crate::datadir::format_file::{self, Recognised};
use crate::datadir::lock::Lock;
use crate::datadir::{AggregateState, DataDirError, SeenPoints, State, is_missing};
use crate::devices::{self, DeviceError};

/// The reasons why an aggregate cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum OfflineError {
    /// No recorded device can be used; this is the reason for the first.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The host gives no threads or descriptors.
    #[error(transparent)]
    World(#[from] WorldError),
}

/// The devices of one aggregate, for blocking access from one thread.
pub struct OfflineDevices {
    /// The world that has them open.
    pub world: World,
    /// The devices that can be opened, at least one. Those that were being added are the last.
    pub devices: Vec<DeviceId>,
    /// Why other members cannot be opened. A mirror may do without them.
    pub unusable: Vec<DeviceError>,
}

/// A data directory that no daemon has open, while this lives.
#[derive(Debug)]
pub struct Offline {
    path: PathBuf,
    state: State,
    seen: SeenPoints,
    _lock: Option<Lock>,
}

impl Offline {
    /// Opens `path` for reading.
    ///
    /// # Errors
    /// Missing, not ours, newer, damaged, without aggregates, or in use by a daemon.
    pub fn open(path: &Path) -> Result<Offline, DataDirError> {
        if is_missing(path) || format_file::recognise(path)? == Recognised::Blank {
            return Err(DataDirError::Nothing {
                path: path.to_owned(),
            });
        }
        let lock = Lock::shared(path)?;
        let state = State::read(path)?;
        if state.aggregates.is_empty() {
            return Err(DataDirError::Nothing {
                path: path.to_owned(),
            });
        }
        Ok(Offline {
            path: path.to_owned(),
            state,
            seen: SeenPoints::read(path),
            _lock: lock,
        })
    }

    /// Returns the path of the data directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the record of the aggregates; at least one.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Returns the newest consistency points seen of aggregates.
    #[must_use]
    pub fn seen(&self) -> &SeenPoints {
        &self.seen
    }

    /// Opens the devices of one aggregate for reading, from one thread, as far as they can be
    /// opened, also devices that cannot be written. Devices that were being added are the last.
    ///
    /// # Errors
    /// No device can be used.
    pub fn open_devices(&self, aggregate: &AggregateState) -> Result<OfflineDevices, OfflineError> {
        let world = World::new(&WorldOptions {
            io: IoMode::Threads,
            read_only: true,
            ..WorldOptions::default()
        })?;
        let mut opened = devices::open_all(&world, &self.path, aggregate);
        if opened.members.is_empty() && !opened.unusable.is_empty() {
            return Err(opened.unusable.remove(0).into());
        }
        let devices = opened.all().collect();
        Ok(OfflineDevices {
            world,
            devices,
            unusable: opened.unusable,
        })
    }
}
