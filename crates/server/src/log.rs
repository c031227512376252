//! Logs: lines on stderr, written with `tracing`. Data plane threads log only start, stop and
//! errors.
//!
//! `EVERGLADE_LOG` takes the usual filter directives (`info`, `everglade_engine=debug`). Colour is
//! used on a terminal only, and not with `NO_COLOR`. Under systemd the journal adds its own time.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// Starts logging for the whole process. Later calls change nothing.
pub fn start(quiet: bool) {
    let level = if quiet {
        LevelFilter::WARN
    } else {
        LevelFilter::INFO
    };
    let filter = EnvFilter::builder()
        .with_default_directive(level.into())
        .with_env_var("EVERGLADE_LOG")
        .from_env_lossy();
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(colour)
        .with_target(false);
    // If the process has a subscriber already, the library keeps that and returns an error.
    let outcome = if std::env::var_os("JOURNAL_STREAM").is_some() {
        lines.without_time().try_init()
    } else {
        lines.try_init()
    };
    if outcome.is_err() {
        tracing::debug!("logging had already started");
    }
}
