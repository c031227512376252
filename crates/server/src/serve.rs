//! One `everglade serve`, from a checked configuration to the end of the process.
//!
//! The order matters: signals are heard before anything slow begins, the directory is locked before
//! sockets are touched, sockets are bound before the engine opens devices, and the lock outlives all
//! of them.

use crate::listen::{self, Listeners};
use crate::ready::{self, Output};
use crate::{Config, DataDir, ServeError, StartError, Stop, reactor, signal};

/// Serves until a signal asks for the end, and everything is on stable storage.
///
/// # Errors
/// [`ServeError::Start`] before the ready line, [`ServeError::Failed`] after it.
pub fn serve(config: &Config, output: Output) -> Result<(), ServeError> {
    let stop = Stop::new();
    signal::watch(stop.clone()).map_err(|source| StartError::System {
        action: "listen for signals",
        source,
    })?;
    let mut directory = DataDir::open(&config.data_dir).map_err(StartError::from)?;
    let listeners = Listeners::bind(&config.nbd)?;
    let endpoints = listeners.endpoints().clone();

    let parts = reactor::Parts {
        config,
        directory: &mut directory,
        listeners,
        stop: stop.clone(),
    };
    let started = reactor::start(parts);
    let outcome = match started {
        Ok(reactors) => {
            let announced = directory.announce(&endpoints).map_err(StartError::from);
            match &announced {
                Ok(()) => {
                    ready::announce(output, &endpoints, reactors.exports());
                    stop.on_ask(ready::announce_stopping);
                }
                // Scripts could not find us; what was mounted is still put away properly.
                Err(_) => stop.ask(),
            }
            let ended = reactors.wait();
            announced.map_err(ServeError::from).and(ended)
        }
        Err(error) => Err(error.into()),
    };
    listen::unlink(endpoints.nbd_unix.as_ref());
    directory.close();
    outcome
}
