//! `sim`: runs simulations of one seed, or of as many as fit into some minutes.
//!
//! Prints the seed before anything else, and on failure the command that fails again. The wall clock
//! decides only how many seeds are run, never what a seed does.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use everglade_testing::Seed;
use everglade_testing::sim::{Failure, Report, long};
use everglade_testing::toy::ToyMaker;

const USAGE: &str = "usage: sim [--seed N] [--minutes M] [--trace LINES]

  --seed N       run this seed (decimal or 0x…); with --minutes, start the series there
  --minutes M    run seeds until M minutes have passed; without --seed from a fresh one
  --trace LINES  on failure, print the last LINES events of the world
";

struct Wish {
    seed: Option<Seed>,
    minutes: Option<f64>,
    trace_lines: usize,
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Wish, String> {
    let mut wish = Wish {
        seed: None,
        minutes: None,
        trace_lines: 0,
    };
    while let Some(option) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{option} needs a value"));
        match option.as_str() {
            "--seed" => wish.seed = Some(value()?.parse().map_err(|error| format!("{error}"))?),
            "--minutes" => {
                let minutes: f64 = value()?.parse().map_err(|_| "not a number of minutes")?;
                if !(0.0..=1e6).contains(&minutes) {
                    return Err("not a number of minutes".to_owned());
                }
                wish.minutes = Some(minutes);
            }
            "--trace" => {
                wish.trace_lines = value()?.parse().map_err(|_| "not a number of lines")?;
            }
            _ => return Err(format!("what is {option}?")),
        }
    }
    Ok(wish)
}

fn main() -> ExitCode {
    let wish = match parse(std::env::args().skip(1)) {
        Ok(wish) => wish,
        Err(error) => {
            eprint!("sim: {error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let first = wish.seed.unwrap_or_else(Seed::fresh);
    println!("seed {first}");
    let Some(minutes) = wish.minutes else {
        return match run(first, wish.trace_lines) {
            Ok(report) => {
                println!("ok {report}");
                ExitCode::SUCCESS
            }
            Err(failure) => explain(first, &failure),
        };
    };
    let (begin, limit) = (Instant::now(), Duration::from_secs_f64(minutes * 60.0));
    let mut all = Report::default();
    let mut runs = 0;
    while runs == 0 || begin.elapsed() < limit {
        let seed = first.nth(runs);
        match run(seed, wish.trace_lines) {
            Ok(report) => all.add(&report),
            Err(failure) => return explain(seed, &failure),
        }
        runs += 1;
    }
    println!("ok {runs} seeds, {all}");
    ExitCode::SUCCESS
}

fn run(seed: Seed, trace_lines: usize) -> Result<Report, Failure> {
    let plan = long::Plan {
        trace_lines,
        ..long::Plan::of_seed(seed)
    };
    // A failed assertion is a verdict as well; its message has been printed already.
    let verdict = std::panic::catch_unwind(|| long::run(seed, plan, &ToyMaker::default()));
    verdict.unwrap_or_else(|_| Err(Failure::panicked()))
}

fn explain(seed: Seed, failure: &Failure) -> ExitCode {
    failure.trace.iter().for_each(|line| println!("{line}"));
    println!("FAILED seed {seed}\n{failure}");
    println!("again: cargo xtask sim --seed {seed} --trace 200");
    ExitCode::FAILURE
}
