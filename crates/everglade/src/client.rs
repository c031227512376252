//! Verbs that ask a running daemon: finds out where it is, and leaves the rest to the client's
//! crate.

use std::path::PathBuf;
use std::process::ExitCode;

use everglade_cli::{Daemon, Options, Verb};
use everglade_server::config::{NbdSettings, TcpListen, UnixListen};
use everglade_server::{Config, Settings};

use crate::args::Global;
use crate::exit::{self, Failure};
use crate::profile;

pub(crate) fn run(global: &Global, verb: &Verb) -> Result<ExitCode, Failure> {
    finish(everglade_cli::run(verb, &options(global)?))
}

/// What the client's crate says, as this program does.
pub(crate) fn finish(outcome: Result<u8, everglade_cli::Failure>) -> Result<ExitCode, Failure> {
    match outcome {
        Ok(code) => Ok(ExitCode::from(code)),
        Err(failure) => Err(failure.into()),
    }
}

/// What each of them is told.
pub(crate) fn options(global: &Global) -> Result<Options, Failure> {
    Ok(Options {
        daemon: daemon(global)?,
        json: global.json,
        quiet: global.quiet,
        yes: global.yes,
    })
}

/// The daemon at an endpoint, if one is named; else the one of this machine.
pub(crate) fn daemon(global: &Global) -> Result<Daemon, Failure> {
    match profile::endpoint(global)? {
        Some(endpoint) => Ok(Daemon::Endpoint(endpoint)),
        None => Ok(Daemon::Socket(socket(global)?)),
    }
}

/// Named, else where a daemon with the same settings has it.
fn socket(global: &Global) -> Result<PathBuf, Failure> {
    if let Some(path) = &global.socket {
        return Ok(path.clone());
    }
    configured(global, None)?.api_unix.ok_or_else(|| {
        let text = "the configuration file has api.unix off, so the daemon has no socket for this; \
            turn it on and restart the daemon, or name another daemon's socket with --socket";
        Failure::new(exit::FAILED, text)
    })
}

/// The configuration of a daemon with the same settings. Where NBD listens is its business, and
/// that path may be too long; so may that of the API be, for whom it does not matter.
pub(crate) fn configured(global: &Global, api_unix: Option<UnixListen>) -> Result<Config, Failure> {
    let settings = Settings {
        data_dir: global.data_dir.clone(),
        nbd: NbdSettings {
            tcp: Some(TcpListen::DEFAULT_NBD),
            unix: Some(UnixListen::Off),
            ..NbdSettings::default()
        },
        api_unix,
        ..Settings::default()
    };
    let config = Config::resolve(settings, global.config.as_deref());
    config.map_err(|error| Failure::new(exit::FAILED, error))
}
