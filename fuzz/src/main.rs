//! Fuzzing of every decoder of disk and wire, with nothing but a stable compiler.
//!
//! `everglade-fuzz [TARGET …] [--seconds N] [--seed N]` runs each target for its share of the time
//! and prints executions and coverage; `cargo xtask fuzz` builds it with coverage and starts it.
//! Inputs are what encoders make (`targets`), mutated (`mutation`) and kept when they reach
//! something new (`coverage`). Checksums are set right again after a mutation, or nothing behind
//! them would ever be reached.
//!
//! A target fails by a panic. Its input is then written to `found-TARGET` in the current folder,
//! and `--replay FILE` with the target's name runs it alone. The last line is `N passed, N failed`.

mod arguments;
mod coverage;
mod driver;
mod mutation;
mod targets;

use std::process::ExitCode;

use arguments::Arguments;
use driver::Driver;
use targets::TARGETS;

fn main() -> ExitCode {
    let arguments = match Arguments::read(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(problem) => {
            eprintln!("everglade-fuzz: {problem}; usage: {}", arguments::USAGE);
            return ExitCode::from(2);
        }
    };
    let chosen: Vec<_> = TARGETS
        .iter()
        .filter(|target| arguments.chooses(target.name))
        .collect();
    if chosen.is_empty() {
        eprintln!("everglade-fuzz: no such target; there are:");
        TARGETS
            .iter()
            .for_each(|target| eprintln!("  {}", target.name));
        return ExitCode::from(2);
    }
    if let Some(file) = &arguments.replay {
        let input =
            std::fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        chosen.iter().for_each(|target| (target.run)(&input));
        println!("{} passed, 0 failed", chosen.len());
        return ExitCode::SUCCESS;
    }
    println!("seed {}", arguments.seed);
    if coverage::places() == 0 {
        println!("built without coverage: mutation is blind");
    }
    println!("{}", driver::HEADER);
    let time = arguments.time / u32::try_from(chosen.len()).expect("targets are few");
    let mut failed = 0;
    let mut executions = 0;
    for target in &chosen {
        let result = Driver::new(target, arguments.seed).run(time);
        println!("{result}");
        executions += result.executions;
        failed += u64::from(result.found.is_some());
    }
    println!(
        "{executions} executions; {} of {} places in the code reached",
        coverage::reached(),
        coverage::places()
    );
    println!("{} passed, {failed} failed", chosen.len() as u64 - failed);
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
