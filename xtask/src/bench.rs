//! `cargo xtask bench RIG`: benchmark rigs are a program of `torture`, because they drive the real server
//! with its client; everything after the verb is passed on to it.

use std::process::ExitCode;

use crate::Usage;
use crate::step::{cargo, whole};
use crate::tally::Tally;

/// The verb.
pub(crate) fn run(words: &[String]) -> Result<ExitCode, Usage> {
    if words.is_empty() {
        return Err(Usage("which rig? There is 'flush'".to_owned()));
    }
    let mut tally = Tally::default();
    let mut server = cargo(&["build", "--quiet", "--release", "--package", "everglade"]);
    whole(&mut tally, "building everglade", &mut server);
    if tally.failed() == 0 {
        let mut bench = cargo(&[
            "run",
            "--quiet",
            "--release",
            "--package",
            "everglade-torture",
        ]);
        bench.args(["--bin", "everglade-bench", "--"]).args(words);
        whole(&mut tally, "benchmark", &mut bench);
    }
    Ok(tally.finish())
}
