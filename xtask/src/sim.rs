//! `cargo xtask sim`: the engine in the seeded world, a binary of `testing`.
//!
//! Its contract: it prints the seed first, ends with `N passed, N failed`, and exits non-zero when
//! a checker found something. `--seed N` runs one world, `--minutes M` new ones until the time is
//! up.
//!
//! `--whole` runs the tests of the engine that judge some of all possible cuts, with all of them.

use std::process::{Command, ExitCode};

use crate::step::{cargo, counted};
use crate::tally::Tally;
use crate::{Usage, place};

/// Kinds that `test` gives time of their own.
const KINDS: [&str; 9] = [
    "histories",
    "clonings",
    "corrupted",
    "growth",
    "groups",
    "mirror",
    "parity",
    "compared",
    "cleaned",
];
/// With this variable, tests judge all cuts and not some.
const WHOLE: &str = "EVERGLADE_WHOLE";
const MISSING: &str = "the simulation is not there yet: no binary 'sim' in crates/testing";

/// The verb.
pub(crate) fn run(words: &[String]) -> Result<ExitCode, Usage> {
    if matches!(words, [word] if word == "--whole") {
        return Ok(whole());
    }
    understand(words)?;
    if !place::has_binary("testing", "sim") {
        eprintln!("xtask sim: {MISSING}");
        return Ok(ExitCode::FAILURE);
    }
    let mut tally = Tally::default();
    simulate(&mut tally, command(words));
    Ok(tally.finish())
}

/// Runs the enumerations of which tests do a part.
fn whole() -> ExitCode {
    let mut tally = Tally::default();
    let mut tests = cargo(&["test", "--release", "--package", "everglade-testing"]);
    tests.args(["--test", "it", "engine::"]).env(WHOLE, "1");
    counted(
        &mut tally,
        "whole enumerations",
        &mut tests,
        |tally, line| {
            tally.read_harness_line(line);
        },
    );
    tally.finish()
}

/// Part of `test`: runs new seeds for half a minute, the same on groups of drives, and then for a
/// quarter of a minute each of the kinds `histories` (short sequences with snapshot verbs),
/// `clonings` (the same with clones), `corrupted` (damaged metadata), `growth` and `groups` (pools
/// that grow), `mirror` and `parity` (drives that break), `compared` (clients that count by
/// compare-and-write) and `cleaned` (one of the others, while areas are emptied). The crates' own
/// tests run fixed seeds. The tests have built the program.
pub(crate) fn short(tally: &mut Tally) {
    if !place::has_binary("testing", "sim") {
        return tally.skip(MISSING);
    }
    simulate(tally, fresh(&["--minutes", "0.5"]));
    simulate(tally, fresh(&["--groups", "--minutes", "0.5"]));
    for kind in KINDS {
        simulate(tally, fresh(&["--kind", kind, "--minutes", "0.25"]));
    }
}

/// Hunts planted bugs with the program that [`crate::planted`] has built.
pub(crate) fn hunt(tally: &mut Tally, program: Command) {
    simulate(tally, program);
}

/// What the tests built, or else what cargo builds now.
fn fresh(words: &[&str]) -> Command {
    match place::built_by_tests("sim") {
        Some(program) => {
            let mut command = Command::new(program);
            command.args(words).current_dir(place::root());
            command
        }
        None => command(
            &words
                .iter()
                .map(|word| (*word).to_owned())
                .collect::<Vec<_>>(),
        ),
    }
}

/// Runs a binary of the simulation.
fn of_testing() -> Command {
    cargo(&[
        "run",
        "--quiet",
        "--release",
        "--package",
        "everglade-testing",
    ])
}

fn understand(words: &[String]) -> Result<(), Usage> {
    match words {
        [] => Ok(()),
        [option, value, rest @ ..] if option == "--seed" || option == "--minutes" => {
            let is_hex = value
                .strip_prefix("0x")
                .is_some_and(|hex| u64::from_str_radix(hex, 16).is_ok());
            if value.parse::<f64>().is_ok() || is_hex {
                understand(rest)
            } else {
                Err(Usage(format!("'{value}' is not a number")))
            }
        }
        // Understood by the simulation, which explains itself.
        [option, _, rest @ ..]
            if ["--kind", "--from", "--shard", "--trace"].contains(&option.as_str()) =>
        {
            understand(rest)
        }
        [option, rest @ ..] if option == "--json" => understand(rest),
        [word, ..] => Err(Usage(format!("did not understand '{word}'"))),
    }
}

fn command(words: &[String]) -> Command {
    let mut command = of_testing();
    command.args(["--bin", "sim", "--"]).args(words);
    command
}

fn simulate(tally: &mut Tally, mut command: Command) {
    let mut has_counted = false;
    counted(tally, "simulation", &mut command, |tally, line| {
        has_counted |= tally.read_plain_line(line);
    });
    if !has_counted && tally.failed() == 0 {
        tally.pass(1);
    }
}
