//! The membership epochs in `state.toml` follow those of the pools.
//!
//! A drive that is lost makes an epoch of its own, without any request (decision 0041). The record
//! in the data directory shows later which drives are the newest, so it must not be older than the
//! pool for long. The watch brings it up to date every second, and the stop once more.
//!
//! Only an epoch that a committed superblock names is recorded. So the record is never newer than
//! the drives, whenever power fails.

use everglade_engine::Engine;

use super::administrator::Administrator;
use crate::DataDir;
use crate::datadir::{DataDirError, Phase, Uuid};

impl Administrator {
    /// Records the membership epochs of the aggregates. Skipped if the data directory is in use;
    /// the next call records them. Writes nothing if the record says so already.
    ///
    /// # Errors
    /// The record cannot be written; the next call tries again.
    pub(crate) fn follow_epochs(&self) -> Result<(), DataDirError> {
        match self.try_directory() {
            Some(mut directory) => follow(&self.engine, &mut directory),
            None => Ok(()),
        }
    }
}

fn follow(engine: &Engine, directory: &mut DataDir) -> Result<(), DataDirError> {
    let mut state = directory.state().clone();
    for known in engine.aggregates() {
        let ready = state.aggregates.iter_mut();
        let mut ready = ready.filter(|recorded| recorded.phase == Phase::Ready);
        let recorded = ready.find(|recorded| recorded.uuid == Some(Uuid(known.uuid)));
        if let Some(recorded) = recorded {
            recorded.epoch = recorded.epoch.max(known.epoch);
        }
    }
    if state == *directory.state() {
        return Ok(());
    }
    directory.record(state)
}
