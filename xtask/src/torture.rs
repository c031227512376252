//! `cargo xtask torture`: the real server killed, and robbed of its power, under load; a program of
//! its own in `crates/torture`.
//!
//! Without options it does what the short versions in CI stand for: 50 kills, then 20 power cuts.
//! With `--planted BUG` the server is built with planted bugs ([`planted`]), this one is switched
//! on, and the run passes if it finds the bug.

use std::process::{Command, ExitCode};

use crate::planted::bug::FOLDER;
use crate::step::{cargo, counted, whole};
use crate::tally::Tally;
use crate::{Usage, planted};

/// The long run.
const LONG: [&str; 4] = ["--kills", "50", "--cuts", "20"];
/// Few cuts are enough: without flushes the first one loses nearly everything.
const FEW: [&str; 2] = ["--cuts", "3"];
const RIG: &str = "everglade-torture";

/// The verb.
pub(crate) fn run(words: &[String]) -> Result<ExitCode, Usage> {
    let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
    let planted = words.iter().position(|word| *word == "--planted");
    let planted = planted.map(|at| words.get(at + 1).copied().unwrap_or_default());
    if !words.contains(&"--kills") && !words.contains(&"--cuts") {
        words.extend(match planted {
            Some(_) => &FEW[..],
            None => &LONG,
        });
    }
    let mut tally = Tally::default();
    match planted {
        None => torture(&mut tally, &words),
        Some(name) if !planted::is_known(name) => {
            return Err(Usage(format!("there is no bug '{name}' in {FOLDER}")));
        }
        Some(_) if planted::build(&mut tally).is_some() => {
            drive(&mut tally, "torture", rig_of_copy(), &words);
        }
        Some(_) => {}
    }
    Ok(tally.finish())
}

/// Part of `test`: shows that the power cuts there would notice this bug. [`crate::planted`] has
/// built everything.
pub(crate) fn hunt(tally: &mut Tally, bug: &str) {
    let name = format!("torture of a server with {bug}");
    let words = [&FEW[..], &["--planted", bug]].concat();
    drive(tally, &name, rig_of_copy(), &words);
}

/// The rig beside the server that has planted bugs.
fn rig_of_copy() -> Command {
    Command::new(planted::program(RIG))
}

fn torture(tally: &mut Tally, words: &[&str]) {
    let mut build = cargo(&["build", "--quiet", "--release", "--package", "everglade"]);
    build.args(["--bin", "everglade"]);
    let failed_before = tally.failed();
    whole(tally, "building everglade", &mut build);
    if tally.failed() > failed_before {
        return;
    }
    let mut run = cargo(&["run", "--quiet", "--release", "--package", RIG]);
    run.args(["--bin", RIG, "--"]);
    drive(tally, "torture", run, words);
}

fn drive(tally: &mut Tally, name: &str, mut rig: Command, words: &[&str]) {
    rig.args(words);
    counted(tally, name, &mut rig, |tally, line| {
        tally.read_plain_line(line);
    });
}
