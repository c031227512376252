//! `everglade serve`: flags and environment become a configuration; the rest is the server's.

use std::process::ExitCode;

use everglade_server::ready::Output;
use everglade_server::{Config, Settings, StartError, log};

use crate::args::{Global, Serve};
use crate::exit::{self, Failure};

pub(crate) fn run(global: &Global, serve: &Serve) -> Result<ExitCode, Failure> {
    log::start(global.quiet);
    let settings = Settings {
        data_dir: global.data_dir.clone(),
        memory: serve.memory,
        reactors: serve.reactors,
        io: serve.io,
        nbd_tcp: serve.nbd_tcp,
        nbd_unix: serve.nbd_unix.clone(),
        nbd_connections_max: None,
        api_unix: serve.api_unix.clone(),
        aggregate_size: serve.aggregate_size,
        lun_size: serve.lun_size,
        cp_interval: serve.cp_interval,
    };
    let config = Config::resolve(settings, global.config.as_deref())
        .map_err(|error| Failure::new(exit::FAILED, StartError::from(error)))?;
    let output = Output {
        json: global.json,
        quiet: global.quiet,
    };
    everglade_server::serve(&config, output).map_err(|error| Failure::new(exit::FAILED, error))?;
    Ok(ExitCode::from(exit::OK))
}
