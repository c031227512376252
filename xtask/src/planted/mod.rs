//! `cargo xtask planted`: mistakes in a copy of the workspace, and the rigs that must find them
//! (docs/design/simulation.md, "Planted bugs").
//!
//! A bug is a file of edits ([`bug`], [`edit`]). The sources of the product know nothing of them.
//! The [`copy`] has all of them, each asleep until the rig switches it on (`crates/planted`). It is
//! built for release, like everything that CI tests. Its programs are in `target/planted-built/`,
//! where nobody takes them for those of the repository; what cargo builds on the way is where it
//! is for the repository, too.
//!
//! Then the program `planted` of `testing` hunts the bugs that a simulation finds, one by one. The
//! power cuts of `everglade-torture` hunt the others in the server, and a test shows what one of
//! them proves besides ([`TEST`]).

pub(crate) mod bug;
mod copy;
mod edit;
pub(crate) mod planting;

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::UNIX_EPOCH;

use crate::step::{begin, cargo, counted, end, whole};
use crate::tally::Tally;
use crate::{Usage, place, sim, tidy, torture};
use bug::{Bug, Plan};

/// What is built: the simulation's hunt, the server, and the rig that robs it of its power.
const PROGRAMS: [&str; 3] = ["planted", "everglade", "everglade-torture"];
/// A test of `testing` that plants bugs itself, and is ignored where there are none.
const TEST: &str = "without_the_redirect";

/// The verb.
pub(crate) fn run(words: &[String]) -> Result<ExitCode, Usage> {
    let mut tally = Tally::default();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["--check"] => tidy::planted(&mut tally),
        [] => verify(&mut tally, &[]),
        _ => hunt(&mut tally, &words)?,
    }
    Ok(tally.finish())
}

/// Part of `test`: the third of the simulation's bugs whose turn it is today, and all others.
pub(crate) fn verify_third(tally: &mut Tally) {
    const DAY: u64 = 24 * 60 * 60;
    let since = UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs());
    let third = (since / DAY % 3).to_string();
    verify(tally, &["--third", &third]);
}

/// All bugs are found, or those that options of the program `planted` leave.
fn verify(tally: &mut Tally, words: &[&str]) {
    let Some(bugs) = build(tally) else { return };
    sim::hunt(tally, hunter(words));
    for bug in bugs.iter().filter(|bug| bug.plan == Plan::Torture) {
        torture::hunt(tally, &bug.name);
    }
    // The same selection of packages as in the build, or cargo would build with other features.
    let mut test = in_copy(&["test", "--quiet", "--release", "--workspace"]);
    test.args(["--test", copy::TESTS, "--", "--ignored", TEST]);
    let name = "a test that plants a bug";
    let (failed, mut has_run) = (tally.failed(), false);
    counted(tally, name, &mut test, |tally, line| {
        has_run |= line.starts_with("test result: ok. 1 passed");
        tally.read_harness_line(line);
    });
    if !has_run && tally.failed() == failed {
        tally.fail(format!("{name}: there is none called {TEST}"));
    }
}

/// With options of the program `planted`, which explains them.
fn hunt(tally: &mut Tally, words: &[&str]) -> Result<(), Usage> {
    if words.contains(&"--check") {
        return Err(Usage("'--check' has no other options".to_owned()));
    }
    let named = words.iter().position(|word| *word == "--bug");
    let named = named.and_then(|at| words.get(at + 1));
    if let Some(name) = named.filter(|name| !is_known(name)) {
        return Err(Usage(format!(
            "there is no bug '{name}' in {}",
            bug::FOLDER
        )));
    }
    let Some(bugs) = build(tally) else {
        return Ok(());
    };
    match bugs.iter().find(|bug| Some(&bug.name.as_str()) == named) {
        Some(Bug { name, plan, .. }) if *plan == Plan::Torture => {
            torture::hunt(tally, name);
        }
        _ => sim::hunt(tally, hunter(words)),
    }
    Ok(())
}

/// Makes the copy and builds the programs; `None` if that failed.
pub(crate) fn build(tally: &mut Tally) -> Option<Vec<Bug>> {
    let name = "planting bugs in a copy";
    let begun = begin(name);
    let made = copy::make();
    for mistake in made.as_ref().err().into_iter().flatten() {
        let path = mistake.path.display();
        println!("{path}:{}: {}", mistake.line, mistake.explanation);
    }
    end(name, begun, made.is_ok());
    let Ok(bugs) = made else {
        tally.fail(name);
        return None;
    };
    tally.pass(1);
    let failed = tally.failed();
    let mut build = in_copy(&["build", "--quiet", "--release", "--workspace"]);
    build.args(PROGRAMS.iter().flat_map(|name| ["--bin", name]));
    build.args(["--test", copy::TESTS]);
    whole(tally, "building planted bugs", &mut build);
    (tally.failed() == failed).then_some(bugs)
}

/// True if there is a bug of this name.
pub(crate) fn is_known(name: &str) -> bool {
    let file = format!("{name}.{}", bug::EXTENSION);
    place::root().join(bug::FOLDER).join(file).is_file()
}

/// A program of the copy.
pub(crate) fn program(name: &str) -> PathBuf {
    let folder = place::target().join("planted-built");
    folder.join("release").join(name)
}

/// The program that hunts bugs in the simulation.
fn hunter(words: &[&str]) -> Command {
    let mut command = Command::new(program("planted"));
    command.arg("--plans").arg(copy::root().join(copy::PLANS));
    command.args(words);
    command
}

/// `cargo` in the copy. The server there is only robbed of its power, which needs no optimisation;
/// the simulation does.
fn in_copy(words: &[&str]) -> Command {
    let mut command = cargo(words);
    for package in ["everglade-server", "everglade", "everglade-torture"] {
        let less = format!("profile.release.package.{package}.opt-level=1");
        command.args(["--config", &less]);
    }
    command
        .current_dir(copy::root())
        .env("CARGO_TARGET_DIR", place::target().join("planted-built"))
        .env("CARGO_BUILD_BUILD_DIR", place::target());
    command
}
