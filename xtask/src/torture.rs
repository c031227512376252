//! `cargo xtask torture`: the real server killed, and robbed of its power, under load; a program of
//! its own in `crates/torture`.
//!
//! Without options it does what the short versions in CI stand for: 50 kills, then 20 power cuts.
//! With `--planted BUG` the server is built with the feature `planted`, and the run passes if it
//! finds the bug.

use std::process::{Command, ExitCode};

use crate::step::{cargo, counted, whole};
use crate::tally::Tally;
use crate::{Usage, place};

/// The long run.
const LONG: [&str; 4] = ["--kills", "50", "--cuts", "20"];
/// Few cuts are enough: without flushes the first one loses nearly everything.
const PLANTED: [&str; 4] = ["--cuts", "3", "--planted", "flush-skipped"];

/// The verb.
pub(crate) fn run(words: &[String]) -> Result<ExitCode, Usage> {
    let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
    if !words.contains(&"--kills") && !words.contains(&"--cuts") {
        words.extend(if words.contains(&"--planted") {
            &PLANTED[..2]
        } else {
            &LONG
        });
    }
    let mut tally = Tally::default();
    torture(&mut tally, "torture", &words);
    Ok(tally.finish())
}

/// Part of `test`: shows that the power cuts there would notice a server that does not flush.
/// [`crate::planted`] has built it.
pub(crate) fn planted(tally: &mut Tally) {
    let name = "torture of a server that does not flush";
    let rig = Command::new(place::program("everglade-torture"));
    drive(tally, name, rig, (&PLANTED, "everglade-planted"));
}

fn torture(tally: &mut Tally, name: &str, words: &[&str]) {
    let (server, features): (&str, &[&str]) = if words.contains(&"--planted") {
        ("everglade-planted", &["--features", "planted"])
    } else {
        ("everglade", &[])
    };
    let mut build = cargo(&["build", "--quiet", "--release", "--package", "everglade"]);
    build.args(["--bin", server]).args(features);
    let failed_before = tally.failed();
    whole(tally, &format!("building {server}"), &mut build);
    if tally.failed() > failed_before {
        return;
    }
    let mut run = cargo(&[
        "run",
        "--quiet",
        "--release",
        "--package",
        "everglade-torture",
    ]);
    run.args(["--bin", "everglade-torture", "--"]);
    drive(tally, name, run, (words, server));
}

fn drive(tally: &mut Tally, name: &str, mut rig: Command, (words, server): (&[&str], &str)) {
    rig.args(words).args(["--server", server]);
    counted(tally, name, &mut rig, |tally, line| {
        tally.read_plain_line(line);
    });
}
