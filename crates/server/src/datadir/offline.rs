//! The data directory as offline tools see it: locked against the daemon, and never written to.

use std::path::{Path, PathBuf};

use super::format_file::{self, Recognised};
use super::lock::Lock;
use super::{DataDirError, Device, State};

/// A data directory that no daemon has open, while this lives.
#[derive(Debug)]
pub struct Offline {
    path: PathBuf,
    state: State,
    _lock: Option<Lock>,
}

impl Offline {
    /// Opens `path` for reading.
    ///
    /// # Errors
    /// Missing, not ours, newer, damaged, without aggregates, or in use by a daemon.
    pub fn open(path: &Path) -> Result<Offline, DataDirError> {
        if format_file::recognise(path)? == Recognised::Blank {
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
            _lock: lock,
        })
    }

    /// What is known of aggregates; at least one.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Where a recorded device is.
    #[must_use]
    pub fn device_path(&self, device: &Device) -> PathBuf {
        self.path.join(&device.path)
    }
}
