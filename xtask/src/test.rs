//! `cargo xtask test`: everything CI runs, in at most 35 minutes on two cores.
//!
//! One profile: tests, the simulation and the server that real clients talk to are all built with
//! `--release`, because README's first command builds that anyway, and the simulation is useless
//! without. Overflow checks and our assertions are on in it. `test CRATE` is the inner loop and
//! uses the dev profile, which builds faster.
//!
//! A test that cannot run here returns early and appends its reason to the file named by
//! `EVERGLADE_SKIPS`; the Rust harness counts it as passed, so it is taken off again.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::step::{cargo, counted, whole};
use crate::tally::Tally;
use crate::{
    Usage, axe, bench, check, dist, fuzz, generate, guest, judge, place, planted, sim, tools,
};

/// The variable that names the file of skips.
const SKIPS: &str = "EVERGLADE_SKIPS";

/// The verb.
pub(crate) fn run(words: &[String]) -> Result<ExitCode, Usage> {
    let mut tally = Tally::default();
    match words {
        [] => everything(&mut tally),
        [name] => one_crate(&mut tally, name)?,
        [_, word, ..] => return Err(Usage(format!("unexpected '{word}'"))),
    }
    Ok(tally.finish())
}

fn everything(tally: &mut Tally) {
    tools::install(tally);
    check::all(tally);
    let kernel = guest::fetch(tally);
    let axe = axe::fetch(tally);
    let selection = ["--workspace", "--release"];
    // By itself: half of the time of tests would be the compiler's.
    let mut build = cargo(&["test", "--no-run", "--quiet"]);
    whole(tally, "building tests", build.args(selection));
    let fetched = [(guest::VARIABLE, kernel), (axe::VARIABLE, axe)];
    tests(tally, "tests", &selection, &fetched);
    bench::instructions::verify(tally);
    sim::short(tally);
    let binary = generate::Binary::built_by_tests();
    generate::verify(tally, &binary);
    judge::verify(tally, &binary);
    dist::verify(tally, &binary);
    planted::verify_third(tally);
    fuzz::short(tally);
}

/// `nbd`, `everglade-nbd`, `everglade` or `xtask`.
fn one_crate(tally: &mut Tally, name: &str) -> Result<(), Usage> {
    let folder = name.strip_prefix("everglade-").unwrap_or(name);
    let is_crate = place::root()
        .join("crates")
        .join(folder)
        .join("Cargo.toml")
        .is_file();
    let package = match folder {
        "everglade" | "xtask" => folder.to_owned(),
        _ if is_crate => format!("everglade-{folder}"),
        _ => return Err(Usage(format!("no crate '{name}' below crates/"))),
    };
    tests(
        tally,
        &format!("tests of {package}"),
        &["--package", &package],
        &[],
    );
    Ok(())
}

/// Runs the Rust harness over what `selection` selects. `fetched`: what tests need, by the variable
/// that tells where it is.
fn tests(tally: &mut Tally, name: &str, selection: &[&str], fetched: &[(&str, Option<PathBuf>)]) {
    let skips = Skips::new();
    let mut command = cargo(&["test", "--no-fail-fast"]);
    command.args(selection).env(SKIPS, &skips.path);
    // The least that a daemon accepts: whatever is tested works within it. Tests that need more say
    // so.
    command.env("EVERGLADE_MEMORY", "256MiB");
    for (variable, path) in fetched {
        command.envs(path.iter().map(|path| (variable, path)));
    }
    counted(tally, name, &mut command, |tally, line| {
        tally.read_harness_line(line);
    });
    for reason in skips.reasons() {
        println!("skipped {reason}");
        // Without the test's name, equal reasons are counted together in the summary.
        let reason = reason
            .split_once(": ")
            .map_or(reason.as_str(), |(_, reason)| reason);
        tally.skip_instead_of_pass(reason);
    }
}

/// The file tests append their reasons to.
struct Skips {
    path: PathBuf,
}

impl Skips {
    fn new() -> Skips {
        let name = format!("everglade-skips-{}", std::process::id());
        let skips = Skips {
            path: std::env::temp_dir().join(name),
        };
        skips.remove();
        skips
    }

    fn reasons(&self) -> Vec<String> {
        let text = fs::read_to_string(&self.path).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn remove(&self) {
        // Absent unless something was skipped.
        let _ = fs::remove_file(&self.path);
    }
}

impl Drop for Skips {
    fn drop(&mut self) {
        self.remove();
    }
}
