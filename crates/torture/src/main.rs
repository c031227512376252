//! `everglade-torture`: the rigs as a program; `cargo xtask torture` builds everything and starts
//! it.
//!
//! The last line of its output is `N passed, N failed[, N skipped]`.

mod arguments;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use arguments::Arguments;
use everglade_torture::rig::{Installation, Power};
use everglade_torture::run::{self, Cuts, DEVICE_BYTES, Kills, Row};
use everglade_torture::{Failure, Tally};

/// Longest load of a round.
const LOAD_MAX: Duration = Duration::from_millis(1500);

fn main() -> ExitCode {
    let arguments = match Arguments::read(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(problem) => {
            eprintln!("everglade-torture: {problem}; usage: {}", arguments::USAGE);
            return ExitCode::from(2);
        }
    };
    println!("seed {}", arguments.seed);
    let mut results = Results::default();
    if arguments.kills > 0 {
        println!(
            "== {} SIGKILLs under load\n{}",
            arguments.kills,
            run::HEADER
        );
        let outcome = with_folder(&arguments, |folder| kills(&arguments, folder));
        results.take(&arguments, outcome);
    }
    if arguments.cuts > 0 {
        println!("== {} power cuts\n{}", arguments.cuts, run::HEADER);
        match Power::impossible() {
            Some(reason) => {
                println!("skipped: {reason}");
                results.skipped += 1;
            }
            None => {
                let outcome = with_folder(&arguments, |folder| cuts(&arguments, folder));
                results.take(&arguments, outcome);
            }
        }
    }
    results.finish()
}

fn kills(arguments: &Arguments, folder: &Path) -> Result<Tally, Failure> {
    let installation = Installation::new(&arguments.everglade, folder);
    let options = Kills {
        rounds: arguments.kills,
        seed: arguments.seed,
        load_max: LOAD_MAX,
    };
    run::kills(options, &installation, &mut print)
}

fn cuts(arguments: &Arguments, folder: &Path) -> Result<Tally, Failure> {
    let mut installation = Installation::new(&arguments.everglade, folder);
    let mut power = Power::new(folder, DEVICE_BYTES)?;
    let options = Cuts {
        rounds: arguments.cuts,
        seed: arguments.seed,
        load_max: LOAD_MAX,
        planted: arguments.planted.clone(),
    };
    run::cuts(&options, &mut installation, &mut power, &mut print)
}

fn print(row: &Row) {
    println!("{row}");
}

/// A folder that goes with the run, unless it failed: then somebody will want to look.
fn with_folder(
    arguments: &Arguments,
    run: impl FnOnce(&Path) -> Result<Tally, Failure>,
) -> Result<Tally, Failure> {
    let folder = tempfile::tempdir_in(&arguments.folder)
        .map_err(|error| Failure::rig("make a temporary folder", &error))?;
    let outcome = run(folder.path());
    if outcome.is_err() && arguments.planted.is_none() {
        println!("kept: {}", folder.keep().display());
    }
    outcome
}

#[derive(Default)]
struct Results {
    passed: u64,
    failed: u64,
    skipped: u64,
}

impl Results {
    /// With a planted bug, passing means that the run found it.
    fn take(&mut self, arguments: &Arguments, outcome: Result<Tally, Failure>) {
        let passed = match (outcome, &arguments.planted) {
            (Ok(tally), None) => {
                println!("{tally}");
                true
            }
            (Err(failure), None) => {
                println!("FAILED: {failure}");
                false
            }
            (Err(Failure::Broken(said)), Some(planted)) => {
                println!("the planted bug '{planted}' was found:\n  {said}");
                true
            }
            (Err(failure), Some(_)) => {
                println!("FAILED: {failure}");
                false
            }
            (Ok(_), Some(planted)) => {
                println!("FAILED: the planted bug '{planted}' was not found");
                false
            }
        };
        *(if passed {
            &mut self.passed
        } else {
            &mut self.failed
        }) += 1;
    }

    fn finish(&self) -> ExitCode {
        let Results {
            passed,
            failed,
            skipped,
        } = self;
        print!("{passed} passed, {failed} failed");
        if *skipped > 0 {
            print!(", {skipped} skipped");
        }
        println!();
        if *failed == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }
}
