//! `sim`: simulates the engine under one seed, or under as many as fit into some minutes.
//!
//! A seed decides everything, also the kind of simulation: most are long lives, some a short run that is
//! cut at each of its writes. Prints the seed before anything else, at the end what was done and at what
//! price, and on failure the command that fails again. The clocks decide only how many seeds are run, never
//! what a seed does.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use everglade_testing::Rng;
use everglade_testing::Seed;
use everglade_testing::engine::EngineMaker;
use everglade_testing::sim::{Cost, Failure, Report, cuts, long, small};
use everglade_testing::workload::small::sequence_count;

const USAGE: &str = "usage: sim [--seed N] [--minutes M] [--kind KIND] [--trace LINES] [--json]

  --seed N       run this seed (decimal or 0x…); with --minutes, start the series there
  --minutes M    run seeds until M minutes have passed; without --seed from a fresh one
  --kind KIND    long, tight, fill, faults, silent, cuts or small, instead of what the seed
                 says
  --trace LINES  on failure, print the last LINES events of the world
  --json         print what was done as one line of JSON
";

/// A pool that small operations fill.
const TIGHT_BYTES: u64 = 20 << 20;

/// Operations in an enumerated sequence, and the pool they run on.
const SMALL_LENGTH: u32 = 3;
const SMALL_BYTES: u64 = 16 << 20;

/// A kind of simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Lives with restarts and cuts.
    Long,
    /// The same, in a pool that is always close to full.
    Tight,
    /// The same, and the pool fills up.
    Fill,
    /// The same, and devices fail and hosts are full.
    Faults,
    /// The same, and devices damage what they hold and say nothing.
    Silent,
    /// A short run, cut at each write.
    Cuts,
    /// One sequence of three operations, cut at each write; as many seeds in a row are all of them.
    Small,
}

struct Wish {
    seed: Option<Seed>,
    minutes: Option<f64>,
    kind: Option<Kind>,
    trace_lines: usize,
    json: bool,
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Wish, String> {
    let mut wish = Wish {
        seed: None,
        minutes: None,
        kind: None,
        trace_lines: 0,
        json: false,
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
            "--kind" => wish.kind = Some(kind_named(&value()?)?),
            "--trace" => {
                wish.trace_lines = value()?.parse().map_err(|_| "not a number of lines")?;
            }
            "--json" => wish.json = true,
            _ => return Err(format!("what is {option}?")),
        }
    }
    Ok(wish)
}

fn kind_named(name: &str) -> Result<Kind, String> {
    Ok(match name {
        "long" => Kind::Long,
        "tight" => Kind::Tight,
        "fill" => Kind::Fill,
        "faults" => Kind::Faults,
        "silent" => Kind::Silent,
        "cuts" => Kind::Cuts,
        "small" => Kind::Small,
        other => return Err(format!("there is no kind {other}")),
    })
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
    let limit = Duration::from_secs_f64(wish.minutes.unwrap_or(0.0) * 60.0);
    let begin = Instant::now();
    let mut all = Report::default();
    let mut runs = 0;
    while runs == 0 || begin.elapsed() < limit {
        let seed = first.nth(runs);
        match run(seed, &wish) {
            Ok(report) => {
                all.add(&report);
                all.digest = report.digest;
            }
            Err(failure) => return explain(seed, wish.kind, &failure, runs),
        }
        runs += 1;
    }
    let cost = Cost::since(begin);
    if wish.json {
        println!("{}", cost.json(&all, runs));
    } else {
        print!("{}", cost.table(&all, runs));
    }
    println!("{runs} passed, 0 failed");
    ExitCode::SUCCESS
}

fn kind_of(seed: Seed) -> Kind {
    let mut rng = Rng::for_part(seed.0, "kind");
    [
        Kind::Long,
        Kind::Long,
        Kind::Tight,
        Kind::Fill,
        Kind::Faults,
        Kind::Faults,
        Kind::Silent,
        Kind::Silent,
        Kind::Cuts,
        Kind::Small,
    ][rng.index(10)]
}

fn run(seed: Seed, wish: &Wish) -> Result<Report, Failure> {
    let kind = wish.kind.unwrap_or_else(|| kind_of(seed));
    let maker = EngineMaker::of_seed(seed);
    let plan = long::Plan {
        trace_lines: wish.trace_lines,
        faults: kind == Kind::Faults,
        silent: kind == Kind::Silent,
        ..long::Plan::of_seed(seed)
    };
    // A failed assertion is a verdict as well; its message has been printed already.
    let verdict = std::panic::catch_unwind(|| match kind {
        Kind::Cuts => cuts::run_of_seed(seed, &maker),
        Kind::Small => {
            let count = sequence_count(SMALL_LENGTH);
            let share = small::Share {
                length: SMALL_LENGTH,
                stride: usize::MAX,
                first: usize::try_from(seed.0 % count).expect("some thousand"),
            };
            small::run(seed, SMALL_BYTES, &maker, share, cuts::Thoroughness::SOME)
        }
        Kind::Tight => long::run(seed, plan.tight(TIGHT_BYTES), &maker),
        Kind::Fill => long::run(seed, plan.filling(), &maker),
        Kind::Long | Kind::Faults | Kind::Silent => long::run(seed, plan, &maker),
    });
    verdict.unwrap_or_else(|_| Err(Failure::panicked()))
}

fn explain(seed: Seed, kind: Option<Kind>, failure: &Failure, passed: u64) -> ExitCode {
    failure.trace.iter().for_each(|line| println!("{line}"));
    println!("FAILED seed {seed}\n{failure}");
    let kind = kind.map_or(String::new(), |kind| {
        format!(" --kind {}", format!("{kind:?}").to_lowercase())
    });
    println!(
        "again: cargo run --release -p everglade-testing --bin sim -- --seed {seed}{kind} --trace 200"
    );
    println!("{passed} passed, 1 failed");
    ExitCode::FAILURE
}
