//! `everglade serve`: flags and environment become a configuration; the rest is the server's.

use std::process::ExitCode;

use everglade_server::ready::Output;
use everglade_server::{Config, StartError, log};

use crate::args::{Global, Serve};
use crate::exit::{self, Failure};

pub(crate) fn run(global: &Global, serve: &Serve) -> Result<ExitCode, Failure> {
    log::start(global.quiet);
    let mut config = Config::resolve(serve.settings(global), global.config.as_deref())
        .map_err(|error| Failure::new(exit::FAILED, StartError::from(error)))?;
    config.ablations.clone_from(&serve.ablation);
    let output = Output {
        json: global.json,
        quiet: global.quiet,
    };
    everglade_server::serve(&config, output).map_err(|error| Failure::new(exit::FAILED, error))?;
    Ok(ExitCode::from(exit::OK))
}
