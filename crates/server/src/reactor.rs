//! The data plane: one thread per core that runs the engine and the NBD sessions. Engine types enter
//! the server here and nowhere else.
//!
//! started by [`start`] → serving → [`Stop`] asked → consistency point → [`Reactors::wait`] returns
//!
//! 1. [`start`] returns only when the aggregates are mounted and clients may be accepted, or with a
//!    refusal and no thread left behind. Listeners are handed over and closed by the reactors.
//! 2. Whoever wants a stop asks [`Stop`]; reactors register with [`Stop::on_ask`] to be woken from
//!    their rings.
//! 3. The data directory stays locked by the caller until `wait` has returned.

use everglade_target::Export;

use crate::listen::Listeners;
use crate::{Config, DataDir, ServeError, StartError, Stop};

/// Everything the data plane is made of.
pub struct Parts<'a> {
    /// Memory, number of reactors, way of I/O, consistency point interval, first start.
    pub config: &'a Config,
    /// Where the devices are; aggregates are recorded here when they are created.
    pub directory: &'a mut DataDir,
    /// Bound sockets.
    pub listeners: Listeners,
    /// Asked when it is time to end.
    pub stop: Stop,
}

/// The running data plane.
#[derive(Debug)]
pub struct Reactors {
    exports: Vec<Export>,
}

/// Mounts (at first start creates) the aggregates and starts serving.
///
/// # Errors
/// [`StartError::Engine`] when an aggregate cannot be opened or created.
pub fn start(parts: Parts<'_>) -> Result<Reactors, StartError> {
    let Parts { directory, .. } = parts;
    Err(StartError::Engine(format!(
        "the storage engine is not wired in yet, so {} cannot be served; nothing was created; \
         use a later build",
        directory.path().display()
    )))
}

impl Reactors {
    /// What clients can attach to, sorted by name.
    #[must_use]
    pub fn exports(&self) -> &[Export] {
        &self.exports
    }

    /// Waits until the reactors have ended after a [`Stop`], with everything on stable storage.
    ///
    /// # Errors
    /// A reactor ended early, or the last consistency point failed.
    pub fn wait(self) -> Result<(), ServeError> {
        Ok(())
    }
}
