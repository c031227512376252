//! `everglade repair`: asks the daemon if one runs, and does it itself if none does.

use std::process::ExitCode;

use everglade_cli::Options;
use everglade_cli::repair::{self as client, Progress, Repaired};
use everglade_server::config::{TcpListen, UnixListen};
use everglade_server::repair::{RepairError, repair};
use everglade_server::{Config, Settings, log};

use crate::args::{Global, Repair};
use crate::client::options;
use crate::exit::{self, Failure};

pub(crate) fn run(global: &Global, args: &Repair) -> Result<ExitCode, Failure> {
    if global.socket.is_some() || args.no_wait {
        return ask(global, args);
    }
    log::start(true);
    let settings = Settings {
        data_dir: global.data_dir.clone(),
        // Nobody listens anywhere, and paths of sockets may be too long.
        nbd_tcp: Some(TcpListen::DEFAULT_NBD),
        nbd_unix: Some(UnixListen::Off),
        api_unix: Some(UnixListen::Off),
        ..Settings::default()
    };
    let config = Config::resolve(settings, global.config.as_deref());
    let config = config.map_err(|error| Failure::new(exit::FAILED, error))?;
    let mut progress = Progress::new(global.quiet);
    let outcome = repair(&config, &args.aggregates, &mut |repair| {
        progress.show(repair)
    });
    progress.clear();
    let repaired: Vec<Repaired> = match outcome {
        Err(RepairError::InUse(error)) => {
            return ask(global, args).map_err(|failure| match failure.code {
                // It is no daemon that uses it.
                everglade_cli::exit::UNREACHABLE => Failure::new(exit::FAILED, error),
                _ => failure,
            });
        }
        Err(error @ RepairError::NotFound { .. }) => {
            return Err(Failure::new(everglade_cli::exit::NOT_FOUND, error));
        }
        Err(error) => return Err(Failure::new(exit::FAILED, error)),
        Ok(repaired) => repaired
            .into_iter()
            .map(|(name, outcome)| (name, outcome.map_err(everglade_cli::Failure::from)))
            .collect(),
    };
    let options = Options {
        socket: std::path::PathBuf::new(),
        json: global.json,
        quiet: global.quiet,
        yes: global.yes,
    };
    finish(client::report(&repaired, true, &options))
}

/// The daemon does it.
fn ask(global: &Global, args: &Repair) -> Result<ExitCode, Failure> {
    let options = options(global)?;
    finish(client::repair(&args.aggregates, !args.no_wait, &options))
}

fn finish(outcome: Result<u8, everglade_cli::Failure>) -> Result<ExitCode, Failure> {
    match outcome {
        Ok(code) => Ok(ExitCode::from(code)),
        Err(failure) => Err(Failure::new(failure.code, failure.message)),
    }
}
