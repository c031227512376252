//! The command line's client: verbs that ask a running daemon over its Unix socket or from afar
//! (docs/reference/conventions.md#running).
//!
//! One verb is one or two requests. Data goes to stdout, as an aligned table or as the daemon's own
//! JSON; everything else to stderr. What would be lost is said, and needs `--yes`. Errors become
//! one line and an exit code ([`Failure`]).
//!
//! Nothing here knows where the data directory is: the caller says where the daemon is.

mod aggregate;
mod clone;
mod daemon;
mod df;
mod diff;
mod drawing;
mod event;
mod failure;
mod garden;
mod growth;
mod host;
mod interrupt;
mod job;
mod listing;
mod lun;
mod moving;
pub mod names;
mod output;
mod path;
mod policy;
pub mod progress;
mod qos;
mod rate;
mod rebalance;
mod removal;
pub mod repair;
mod replacement;
mod scan;
mod scrub;
mod session;
mod sessions;
mod snapshot;
mod space_map;
mod spare;
mod split;
mod status;
mod table;
mod token;
mod top;
mod trash;
mod used;
mod verb;
mod volume;
mod wait;

pub use daemon::{Daemon, Endpoint};
pub use failure::{Failure, document, exit};
pub use verb::Verb;

pub use output::Output;
use session::Session;

/// Options that every verb has.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the daemon is.
    pub daemon: Daemon,
    /// Print JSON.
    pub json: bool,
    /// Print nothing but results and errors.
    pub quiet: bool,
    /// Confirms the loss of the data named.
    pub yes: bool,
}

/// Runs a verb; returns the exit code.
///
/// # Errors
/// The failure, with its exit code.
pub fn run(verb: &Verb, options: &Options) -> Result<u8, Failure> {
    let session = Session::new(options.daemon.clone());
    let output = Output::new(options.json, options.quiet);
    match verb {
        Verb::Aggregate { verb } => aggregate::run(verb, &session, &output, options.yes),
        Verb::Volume { verb } => volume::run(verb, &session, &output, options.yes),
        Verb::Lun { verb } => lun::run(verb, &session, &output, options.yes),
        Verb::Snapshot { verb } => snapshot::run(verb, &session, &output, options.yes),
        Verb::Clone { verb } => clone::run(verb, &session, &output),
        Verb::Trash { verb } => trash::run(verb, &session, &output, options.yes),
        Verb::Garden { verb } => garden::run(verb, &session, &output),
        Verb::Qos { verb } => qos::run(verb, &session, &output),
        Verb::QosPolicy { verb } => qos::run_policy(verb, &session, &output),
        Verb::Host { verb } => host::run(verb, &session, &output),
        Verb::HostGroup { verb } => host::run_group(verb, &session, &output),
        Verb::Mapping { verb } => host::run_mapping(verb, &session, &output),
        Verb::Session { verb } => sessions::run(verb, &session, &output),
        Verb::Token { verb } => token::run(verb, &session, &output),
        Verb::Policy { verb } => policy::run(verb, &session, &output),
        Verb::Status => status::run(&session, &output),
        Verb::Df(df) => df::run(df, &session, &output),
        Verb::Job { verb } => job::run(verb, &session, &output),
        Verb::Event { verb } => event::run(verb, &session, &output),
        Verb::History(show) => event::run_history(show, &session, &output),
        Verb::Top(top) => top::run(top, &session, &output),
    }
}
