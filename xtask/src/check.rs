//! `cargo xtask check`: format, lints, house checks, documentation.

use std::process::ExitCode;

use crate::step::{cargo, whole};
use crate::tally::Tally;
use crate::{Usage, tidy};

/// The verb.
pub(crate) fn run(words: &[String]) -> Result<ExitCode, Usage> {
    Usage::none_expected(words)?;
    let mut tally = Tally::default();
    all(&mut tally);
    Ok(tally.finish())
}

/// The steps, cheapest first. Warnings are errors here and nowhere else, so that work in progress
/// builds.
pub(crate) fn all(tally: &mut Tally) {
    whole(tally, "format", &mut cargo(&["fmt", "--all", "--check"]));
    tidy::all(tally);
    let lints = [
        "clippy",
        "--workspace",
        "--all-targets",
        "--quiet",
        "--",
        "-D",
        "warnings",
    ];
    whole(tally, "lints", &mut cargo(&lints));
    let mut documentation = cargo(&["doc", "--workspace", "--no-deps", "--quiet"]);
    documentation.env("RUSTDOCFLAGS", "-D warnings");
    whole(tally, "documentation", &mut documentation);
}
