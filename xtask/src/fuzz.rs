//! `cargo xtask fuzz`: every decoder of disk and wire, by the program in `fuzz/`, built with LLVM's
//! coverage counters by flags that a stable compiler takes.
//!
//! The flags would be for build scripts too if no target were named, and these cannot be linked
//! with them; the results go to a folder of their own, so that nothing else is built twice.

use std::process::{Command, ExitCode};

use crate::step::{cargo, counted, whole};
use crate::tally::Tally;
use crate::{Usage, place};

const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=3 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters";
/// Of all targets together, in CI.
const SHORT_SECONDS: u64 = 20;

/// The verb.
pub(crate) fn run(words: &[String]) -> Result<ExitCode, Usage> {
    let mut words = words.to_vec();
    let at = words.iter().position(|word| word == "--minutes");
    if let Some(at) = at {
        let minutes = words.get(at + 1).and_then(|word| word.parse::<u64>().ok());
        let Some(minutes) = minutes else {
            return Err(Usage("--minutes needs a number".to_owned()));
        };
        words[at] = "--seconds".to_owned();
        words[at + 1] = (minutes * 60).to_string();
    }
    let mut tally = Tally::default();
    fuzz(&mut tally, &["--features", "config"], &words);
    Ok(tally.finish())
}

/// Part of `test`: without the configuration file, whose crate takes minutes to build once more.
pub(crate) fn short(tally: &mut Tally) {
    let words = ["--seconds".to_owned(), SHORT_SECONDS.to_string()];
    fuzz(tally, &[], &words);
}

fn fuzz(tally: &mut Tally, features: &[&str], words: &[String]) {
    let Some(host) = host() else {
        tally.fail("fuzzing: rustc does not say what it builds for");
        return;
    };
    let mut build = with_counters("build", &host, features);
    let failed_before = tally.failed();
    whole(tally, "building the fuzzer", &mut build);
    if tally.failed() > failed_before {
        return;
    }
    let mut run = with_counters("run", &host, features);
    run.arg("--").args(words);
    counted(tally, "fuzzing", &mut run, |tally, line| {
        tally.read_plain_line(line);
    });
}

fn with_counters(verb: &str, host: &str, features: &[&str]) -> Command {
    let words = [verb, "--quiet", "--release", "--package", "everglade-fuzz"];
    let mut command = cargo(&words);
    command.args(["--target", host]).args(features);
    command.env("RUSTFLAGS", FLAGS);
    command.env("CARGO_TARGET_DIR", place::target().join("fuzz"));
    command
}

/// As rustc names it.
fn host() -> Option<String> {
    let output = Command::new("rustc").arg("-vV").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "))?;
    Some(host.to_owned())
}
