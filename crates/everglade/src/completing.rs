//! Completion of words in a shell: verbs and options from the grammar, names from the daemon.
//!
//! The shell's script calls the program with the words so far. The daemon is the one that these
//! words, the environment and the configuration name, as for a verb.

use std::env;
use std::ffi::OsStr;
use std::process::ExitCode;

use clap::{Arg, Command, CommandFactory, FromArgMatches};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::{CompleteEnv, Shells};
use everglade_cli::names::{Kind, names};

use crate::args::{Args, Completion, Global};
use crate::client;
use crate::exit::{self, Failure};
use crate::manual;

/// A script sets this variable to the name of its shell.
const VARIABLE: &str = "EVERGLADE_COMPLETE";
const PROGRAM: &str = "everglade";

/// If a shell asks how a word can be completed, prints that and ends the process.
pub(crate) fn answer_shell() {
    if env::var_os(VARIABLE).is_some() {
        CompleteEnv::with_factory(grammar).var(VARIABLE).complete();
    }
}

/// `everglade completion`: prints the script of a shell.
pub(crate) fn script(completion: &Completion) -> Result<ExitCode, Failure> {
    let shell = completion.shell.to_string();
    let mut script = Vec::new();
    let shells = Shells::builtins();
    let written = shells
        .completer(&shell)
        .map(|shell| shell.write_registration(VARIABLE, PROGRAM, PROGRAM, PROGRAM, &mut script));
    match written {
        Some(Ok(())) => manual::print(&script),
        _ => Err(Failure::new(
            exit::FAILED,
            format!("there is no script for {shell}"),
        )),
    }
}

/// The grammar of the program, in which words that name something know what.
fn grammar() -> Command {
    with_names(Args::command(), "")
}

fn with_names(command: Command, noun: &str) -> Command {
    let name = command.get_name().to_owned();
    let (noun, verb) = (noun.to_owned(), name.clone());
    command
        .mut_args(|arg| with_name(arg, &noun, &verb))
        .mut_subcommands(|inner| with_names(inner, &name))
}

fn with_name(arg: Arg, noun: &str, verb: &str) -> Arg {
    // What is created has no name yet.
    if verb == "create" && arg.is_positional() {
        return arg;
    }
    let value = arg.get_value_names().and_then(<[_]>::first);
    let kind = value.and_then(|value| kind(value.as_str(), noun));
    match kind {
        Some(kind) => arg.add(ArgValueCompleter::new(move |word: &OsStr| {
            candidates(kind, word)
        })),
        None => arg,
    }
}

/// What the value of an argument names.
fn kind(value: &str, noun: &str) -> Option<Kind> {
    Some(match (value, noun) {
        ("AGGREGATE", _) | ("NAME", "aggregate") => Kind::Aggregate,
        ("VOLUME", _) | ("NAME", "volume" | "clone") => Kind::Volume,
        ("VOLUME/LUN" | "OBJECT", _) => Kind::Lun,
        ("VOLUME@SNAPSHOT", _) => Kind::Snapshot,
        ("VOLUME[/LUN]", _) => Kind::VolumeOrLun,
        ("VOLUME[@SNAPSHOT]", _) => Kind::VolumeOrSnapshot,
        ("POLICY", _) | ("NAME", "policy") => Kind::Policy,
        ("HOST", _) | ("NAME", "host") => Kind::Host,
        ("GROUP", _) | ("NAME", "host-group") => Kind::HostGroup,
        ("ID", "job") => Kind::Job,
        ("TOKEN", _) => Kind::Token,
        ("VOLUME/LUN|ID", _) => Kind::LunInTrash,
        ("VOLUME|ID", _) => Kind::VolumeInTrash,
        ("VOLUME@SNAPSHOT|ID", _) => Kind::SnapshotInTrash,
        ("NAME|ID", "trash") => Kind::InTrash,
        _ => return None,
    })
}

fn candidates(kind: Kind, word: &OsStr) -> Vec<CompletionCandidate> {
    let (Some(word), Some(global)) = (word.to_str(), global()) else {
        return Vec::new();
    };
    let Ok(daemon) = client::daemon(&global) else {
        return Vec::new();
    };
    let mut found = names(&daemon, kind, word);
    found.retain(|name| name.starts_with(word));
    found.into_iter().map(CompletionCandidate::new).collect()
}

/// The options of every verb that the words so far and the environment have.
fn global() -> Option<Global> {
    let words = env::args_os().skip_while(|word| word != "--").skip(1);
    let command = Args::command().ignore_errors(true);
    let matches = command.try_get_matches_from(words).ok()?;
    Global::from_arg_matches(&matches).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_name_something_are_known_in_the_whole_grammar() {
        let grammar = grammar();
        let has = |path: &[&str], id: &str| {
            let mut at = &grammar;
            for word in path {
                at = at.find_subcommand(word).expect("a verb");
            }
            let arg = at
                .get_arguments()
                .find(|arg| arg.get_id() == id)
                .expect("an argument");
            arg.get::<ArgValueCompleter>().is_some()
        };
        assert!(has(&["volume", "show"], "name"));
        assert!(has(&["lun", "resize"], "name"));
        assert!(has(&["snapshot", "restore"], "name"));
        assert!(has(&["volume", "create"], "aggregate"));
        assert!(has(&["job", "wait"], "id"));
        assert!(!has(&["volume", "create"], "name"), "it has no name yet");
        assert!(!has(&["lun", "resize"], "size"));
    }
}
