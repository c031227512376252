//! `everglade version`: what to quote in a report, and what decides whether two builds can share
//! data.

use std::process::ExitCode;

use everglade_server::datadir::format_file;
use serde_json::json;

use crate::args::Global;
use crate::exit::{self, Failure};

/// The commit of the source; none if the program was built without its repository.
const COMMIT: Option<&str> = option_env!("EVERGLADE_COMMIT");

pub(crate) fn run(global: &Global) -> Result<ExitCode, Failure> {
    let program = env!("CARGO_PKG_VERSION");
    let directory = format_file::VERSION;
    let media = everglade_server::MEDIA_VERSION;
    if global.json {
        let value = json!({
            "schema_version": 1,
            "program": program,
            "commit": COMMIT,
            "data_directory_format": directory,
            "media_format": media,
        });
        println!("{value:#}");
    } else {
        match COMMIT {
            Some(commit) => println!("everglade {program} (commit {commit})"),
            None => println!("everglade {program}"),
        }
        println!("data directory format {directory} (0: not frozen), media format {media}");
    }
    Ok(ExitCode::from(exit::OK))
}
