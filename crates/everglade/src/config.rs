//! `everglade config check|show`: what a daemon would make of flags, environment and file, without
//! starting one.

use std::process::ExitCode;

use everglade_server::Config;
use serde_json::json;

use crate::args::{ConfigVerb, Global, Serve};
use crate::exit::{self, Failure};

pub(crate) fn run(global: &Global, verb: &ConfigVerb) -> Result<ExitCode, Failure> {
    match verb {
        ConfigVerb::Check(serve) => {
            let config = resolve(global, serve)?;
            config.check_files().map_err(refused)?;
            config.check_place().map_err(refused)?;
            let warnings = config.warnings();
            if !global.quiet && !global.json {
                for warning in &warnings {
                    eprintln!("everglade: warning: {warning}");
                }
            }
            if global.json {
                let checked = json!({"schema_version": 1, "good": true, "warnings": warnings});
                println!("{checked:#}");
            } else if !global.quiet {
                println!("the configuration is good");
            }
        }
        ConfigVerb::Show(serve) => {
            let config = resolve(global, serve)?;
            if global.json {
                println!("{:#}", config.to_json());
            } else {
                print!("{}", config.to_toml());
            }
        }
    }
    Ok(ExitCode::from(exit::OK))
}

fn resolve(global: &Global, serve: &Serve) -> Result<Config, Failure> {
    Config::resolve(serve.settings(global), global.config.as_deref()).map_err(refused)
}

fn refused(error: impl std::fmt::Display) -> Failure {
    Failure::new(exit::FAILED, error)
}
