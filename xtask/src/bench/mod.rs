//! `cargo xtask bench RIG`: what is measured, and how to measure it again.
//!
//! | rig | program | page |
//! | --- | --- | --- |
//! | `flush` | `everglade-bench` of `torture` | `docs/benchmarks/flush.md` |
//! | `nbd` | `everglade-versus` of `torture` | `docs/benchmarks/nbd.md` |
//! | `steady` | the same | `docs/benchmarks/steady.md` |
//! | `protocols` | `everglade-bench` of `torture` | – |
//! | `raid` | the same | `docs/benchmarks/raid.md` |
//! | `oltp` | the same | `docs/benchmarks/oltp.md` |
//! | `paper s001`, `paper s002` | the same | `docs/benchmarks/paper-s001.md`, `…-s002.md` |
//! | `snapshots` | `everglade-versus` | `docs/benchmarks/snapshots.md` |
//! | `anatomy` | the same, with `perf` | `docs/benchmarks/anatomy.md` |
//! | `parity` | `parity` of `raid` | `docs/benchmarks/parity.md` |
//! | `instructions` | `hotpath` of `testing`, under callgrind | `docs/benchmarks/instructions.txt` |
//! | `lines` | the same | `docs/benchmarks/lines.txt` |
//!
//! Everything after the rig is passed on to its program.

pub(crate) mod instructions;
mod lines;

use std::process::ExitCode;

use crate::Usage;
use crate::step::{cargo, whole};
use crate::tally::Tally;

/// The verb.
pub(crate) fn run(words: &[String]) -> Result<ExitCode, Usage> {
    let rigs = "there are 'nbd', 'steady', 'anatomy', 'snapshots', 'flush', 'protocols', 'raid', \
        'oltp', 'paper', 'parity', 'instructions' and 'lines'";
    let Some((rig, rest)) = words.split_first() else {
        return Err(Usage(format!("which rig? {rigs}")));
    };
    let mut tally = Tally::default();
    match rig.as_str() {
        "flush" | "protocols" | "raid" | "oltp" | "paper" => {
            driven(&mut tally, "everglade-bench", words)
        }
        "nbd" | "steady" | "anatomy" | "snapshots" => driven(&mut tally, "everglade-versus", words),
        "parity" => parity(&mut tally, rest),
        "instructions" => match rest {
            [] => instructions::verify(&mut tally),
            [word] if word == "--update" => instructions::update(&mut tally),
            [word, ..] => return Err(Usage(format!("unexpected '{word}'"))),
        },
        "lines" => match rest {
            [] => lines::write(&mut tally),
            [word, ..] => return Err(Usage(format!("unexpected '{word}'"))),
        },
        _ => return Err(Usage(format!("no rig '{rig}'; {rigs}"))),
    }
    Ok(tally.finish())
}

/// The rig of the parity kernels.
fn parity(tally: &mut Tally, rest: &[String]) {
    let mut bench = cargo(&[
        "bench",
        "--quiet",
        "--package",
        "everglade-raid",
        "--bench",
        "parity",
        "--",
    ]);
    // The program runs in the folder of its package.
    let here = std::env::current_dir().unwrap_or_default();
    bench.args(rest.iter().map(|word| match word.ends_with(".md") {
        true => here.join(word).display().to_string(),
        false => word.clone(),
    }));
    whole(tally, "benchmark", &mut bench);
}

/// A rig that drives the real server with a client: a program of `torture`.
fn driven(tally: &mut Tally, program: &str, words: &[String]) {
    if !built(tally) {
        return;
    }
    let mut bench = cargo(&[
        "run",
        "--quiet",
        "--release",
        "--package",
        "everglade-torture",
    ]);
    bench.args(["--bin", program, "--"]).args(words);
    whole(tally, "benchmark", &mut bench);
}

/// Builds everything that a rig starts.
fn built(tally: &mut Tally) -> bool {
    let mut server = cargo(&["build", "--quiet", "--release", "--package", "everglade"]);
    whole(tally, "building everglade", &mut server);
    let mut null = cargo(&[
        "build",
        "--quiet",
        "--release",
        "--package",
        "everglade-testing",
    ]);
    null.args(["--bin", "null", "--bin", "inprocess"]);
    whole(
        tally,
        "building the null target and the engine alone",
        &mut null,
    );
    tally.failed() == 0
}
