//! `everglade repair`: asks the daemon if one runs, and does it itself if none does.

use std::process::ExitCode;

use everglade_cli::Output;
use everglade_cli::progress::Progress;
use everglade_cli::repair::{self as client, Repaired};
use everglade_server::config::UnixListen;
use everglade_server::log;
use everglade_server::repair::{RepairError, repair};

use crate::args::{Global, Repair};
use crate::client::{configured, finish, options};
use crate::exit::{self, Failure};

pub(crate) fn run(global: &Global, args: &Repair) -> Result<ExitCode, Failure> {
    if global.names_daemon() || args.no_wait {
        return ask(global, args);
    }
    log::start(true);
    let config = configured(global, Some(UnixListen::Off))?;
    let mut progress = Progress::new(global.quiet);
    let outcome = repair(&config, &args.aggregates, &mut |repair| {
        progress.show(&client::line(repair));
    });
    progress.clear();
    match outcome {
        // A daemon, which can be asked; or some other program.
        Err(RepairError::InUse(error)) => ask(global, args).map_err(|failure| match failure.code {
            everglade_cli::exit::UNREACHABLE => Failure::new(exit::FAILED, error),
            _ => failure,
        }),
        Err(error @ RepairError::NotFound { .. }) => {
            Err(Failure::new(everglade_cli::exit::NOT_FOUND, error))
        }
        Err(error) => Err(Failure::new(exit::FAILED, error)),
        Ok(repaired) => {
            let outcomes = repaired.into_iter();
            let repaired: Vec<Repaired> = outcomes
                .map(|(name, outcome)| (name, outcome.map_err(Into::into)))
                .collect();
            let output = Output::new(global.json, global.quiet);
            finish(client::report(&repaired, true, &output))
        }
    }
}

/// The daemon does it.
fn ask(global: &Global, args: &Repair) -> Result<ExitCode, Failure> {
    let options = options(global)?;
    finish(client::repair(&args.aggregates, !args.no_wait, &options))
}
