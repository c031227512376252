//! The `everglade` binary: one grammar over the daemon and the offline tools
//! (docs/reference/conventions.md#running).
//!
//! This crate only parses arguments, calls one crate per verb, and turns outcomes into exit codes;
//! the table of those is [`exit`]. stdout carries data, stderr everything else.

mod args;
mod check;
mod client;
mod completing;
mod config;
mod exit;
mod explain;
mod help;
mod manual;
mod profile;
#[cfg(test)]
mod quoted;
mod reference;
mod repair;
mod serve;
mod usage;
mod version;

use std::process::ExitCode;

use clap::Parser;

use args::{Args, Verb};

fn main() -> ExitCode {
    exit::stop_on_broken_invariants();
    completing::answer_shell();
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => match usage::line(&error) {
            Some(line) => {
                exit::Failure::new(exit::USAGE, line).say(usage::asks_for_json());
                return ExitCode::from(exit::USAGE);
            }
            None => error.exit(),
        },
    };
    let outcome = match &args.verb {
        Verb::Help(help) => help::run(help),
        Verb::Serve(serve) => serve::run(&args.global, serve),
        Verb::Check(check) => check::run(&args.global, check),
        Verb::Repair(repair) => repair::run(&args.global, repair),
        Verb::Explain(code) => explain::run(&args.global, code),
        Verb::Version => version::run(&args.global),
        Verb::Config { verb } => config::run(&args.global, verb),
        Verb::Completion(completion) => completing::script(completion),
        Verb::Man(man) => manual::run(man),
        Verb::Reference(reference) => reference::run(reference),
        Verb::Client(verb) => client::run(&args.global, verb),
    };
    outcome.unwrap_or_else(|failure| {
        failure.say(args.global.json);
        ExitCode::from(failure.code)
    })
}
