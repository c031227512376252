//! One `everglade serve`, from a checked configuration to the end of the process.
//!
//! The order matters: signals are heard before anything slow begins, the directory is locked before
//! sockets are touched, sockets are bound before the engine opens devices, and the lock outlives all
//! of them. The REST interface is asked last of all to end, because those it answers wait for the reactors.

use crate::datadir::Endpoints;
use crate::listen::{self, Listeners};
use crate::reactor::Reactors;
use crate::ready::{self, Output};
use crate::{Config, DataDir, ServeError, StartError, Stop, reactor, rest, signal};
use everglade_env::net::Listener;

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
    let directory = DataDir::open(&config.data_dir).map_err(StartError::from)?;
    let listeners = Listeners::bind(&config.nbd)?;
    let api = config.api_unix.as_deref().map(listen::bind_api);
    let api = api.transpose()?;
    let endpoints = Endpoints {
        api_unix: config.api_unix.clone(),
        ..listeners.endpoints().clone()
    };

    let parts = reactor::Parts {
        config,
        directory,
        listeners,
        stop: stop.clone(),
    };
    let outcome = match reactor::start(parts) {
        Ok(reactors) => run(reactors, api, &endpoints, output, &stop),
        Err(error) => Err(error.into()),
    };
    listen::unlink(endpoints.nbd_unix.as_ref());
    outcome
}

/// From the moment the data plane runs to the end of the last thread.
fn run(
    reactors: Reactors,
    api: Option<Listener>,
    endpoints: &Endpoints,
    output: Output,
    stop: &Stop,
) -> Result<(), ServeError> {
    // It keeps the data directory locked until all is over.
    let administrator = reactors.administrator().clone();
    let api = api
        .map(|listener| rest::start(listener, administrator.clone(), endpoints.clone(), stop))
        .transpose()
        .map_err(|source| StartError::System {
            action: "start the REST interface",
            source,
        });
    let announced = administrator.announce(endpoints).map_err(StartError::from);
    let began = api.and_then(|api| announced.map(|()| api));
    match &began {
        Ok(_) => {
            ready::announce(output, endpoints, reactors.exports());
            stop.on_ask(ready::announce_stopping);
        }
        // Scripts could not find us; what was mounted is still put away properly.
        Err(_) => stop.ask(),
    }
    let ended = reactors.wait();
    let outcome = match began {
        Ok(api) => {
            if let Some(api) = api {
                api.wait();
            }
            ended
        }
        Err(error) => Err(error.into()),
    };
    administrator.withdraw();
    outcome
}
