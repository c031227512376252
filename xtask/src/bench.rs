//! `cargo xtask bench RIG`: benchmark rigs are a binary of `testing`; `…` is passed on to it.

use std::process::ExitCode;

use crate::step::{cargo, whole};
use crate::tally::Tally;
use crate::{Usage, place};

/// The verb.
pub(crate) fn run(words: &[String]) -> Result<ExitCode, Usage> {
    if !place::has_binary("testing", "bench") {
        eprintln!("xtask bench: there is no rig yet: no binary 'bench' in crates/testing");
        return Ok(ExitCode::FAILURE);
    }
    let mut command = cargo(&["run", "--release", "--package", "everglade-testing"]);
    command.args(["--bin", "bench", "--"]).args(words);
    let mut tally = Tally::default();
    whole(&mut tally, "benchmark", &mut command);
    Ok(tally.finish())
}
