//! `sim`: simulates the engine under one seed, or under as many as fit into some minutes.
//!
//! A seed decides everything, also the kind of simulation: most are long lives, some a short run
//! that is cut at each of its writes. Prints the seed first, the work and its cost at the end, and
//! on failure the command that repeats it. The clocks decide only how many seeds are run, never
//! what a seed does.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use everglade_testing::Seed;
use everglade_testing::sim::{self, Beside, Cost, Failure, Kind, Report, exhaustive};

const USAGE: &str = "usage: sim [--seed N] [--minutes M] [--kind KIND] [--groups] [--cleaning]
           [--trace LINES] [--json]
       sim --kind exhaustive [--from N] [--shard I/N] [--minutes M] [--seed N] [--json]
       sim --kind histories|clonings|corrupted --shard I/N [--from N] [--minutes M] [--json]

  --seed N       run this seed (decimal or 0x…); with --minutes, start the series there
  --minutes M    run seeds until M minutes have passed; without --seed from a fresh one
  --kind KIND    long, tight, fill, faults, silent, cuts, small, creation, snapshots, grouped,
                 moments, histories, clonings, corrupted, growth, groups, mirror, parity,
                 compared or cleaned, instead of what the seed says
  --groups       a mirror or a parity group instead of each device of the aggregate
  --cleaning     areas are emptied meanwhile
  --trace LINES  on failure, print the last LINES events of the world
  --json         print what was done as one line of JSON
  --kind exhaustive
                 all sequences of up to three operations from all start states, cut at each
                 write; --from N begins with case N, --shard I/N does every N-th from the
                 I-th (counted from 0) on, and what is printed at the end says how to go on
  --kind histories|clonings|corrupted --shard I/N
                 the same of all sequences with snapshot verbs, or with clones of volumes and
                 their splits; or every block of metadata is damaged, one at a time; --shard 0/1
                 is all of them
";

struct Wish {
    seed: Option<Seed>,
    minutes: Option<f64>,
    kind: Option<Kind>,
    beside: Beside,
    trace_lines: usize,
    json: bool,
    /// Cases, one after the other, instead of seeds.
    cases: Option<(Cases, Share)>,
}

/// The sets of numbered cases.
#[derive(Clone, Copy)]
enum Cases {
    Exhaustive,
    /// The cases of a kind.
    Of(Kind, fn() -> Result<sim::Cases, Failure>),
}

/// Which of them: the first, and each `of`-th from the `index`-th on.

#[derive(Clone, Copy)]
struct Share {
    from: u64,
    index: u64,
    of: u64,
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Wish, String> {
    let mut wish = Wish {
        seed: None,
        minutes: None,
        kind: None,
        beside: Beside::default(),
        trace_lines: 0,
        json: false,
        cases: None,
    };
    let mut is_exhaustive = false;
    let mut is_share = false;
    let mut share = Share {
        from: 0,
        index: 0,
        of: 1,
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
            "--kind" => match value()?.as_str() {
                "exhaustive" => is_exhaustive = true,
                name => {
                    let kind = Kind::named(name).ok_or(format!("there is no kind {name}"))?;
                    wish.kind = Some(kind);
                }
            },
            "--from" => {
                is_share = true;
                share.from = value()?.parse().map_err(|_| "not a number of a case")?;
            }
            "--shard" => {
                is_share = true;
                let text = value()?;
                let parts = text
                    .split_once('/')
                    .and_then(|(index, of)| Some((index.parse().ok()?, of.parse().ok()?)));
                (share.index, share.of) = parts
                    .filter(|(index, of)| index < of)
                    .ok_or("a shard is I/N with I below N")?;
            }
            "--trace" => {
                wish.trace_lines = value()?.parse().map_err(|_| "not a number of lines")?;
            }
            "--groups" => wish.beside.groups = true,
            "--cleaning" => wish.beside.cleaning = true,
            "--json" => wish.json = true,
            _ => return Err(format!("what is {option}?")),
        }
    }
    wish.cases = match wish.kind {
        _ if is_exhaustive => Some((Cases::Exhaustive, share)),
        Some(kind) if is_share => kind
            .cases()
            .map(|prepare| (Cases::Of(kind, prepare), share)),
        _ => None,
    };
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
    match wish.cases {
        Some((Cases::Exhaustive, share)) => {
            let seed = wish.seed.unwrap_or(Seed(1));
            println!("seed {seed}");
            return match exhaustive::Exhaustive::new(seed) {
                Ok(all) => exhaust(&wish, share, exhaustive::count(), "exhaustive", &|number| {
                    all.run(number)
                }),
                Err(failure) => explain(seed, &wish, &failure, 0),
            };
        }
        Some((Cases::Of(kind, prepare), share)) => {
            return match prepare() {
                Ok(all) => exhaust(&wish, share, all.count(), &kind.name(), &|number| {
                    all.run(number)
                }),
                Err(failure) => explain(Seed(0), &wish, &failure, 0),
            };
        }
        None => {}
    }
    let first = wish.seed.unwrap_or_else(Seed::fresh);
    println!("seed {first}");
    let limit = Duration::from_secs_f64(wish.minutes.unwrap_or(0.0) * 60.0);
    let begin = Instant::now();
    let mut all = Report::default();
    let mut runs = 0;
    while runs == 0 || begin.elapsed() < limit {
        let seed = first.nth(runs);
        let kind = wish.kind.unwrap_or_else(|| Kind::of_seed(seed));
        match kind.run_beside(seed, wish.beside, wish.trace_lines) {
            Ok(report) => {
                all.add(&report);
                all.digest = report.digest;
            }
            Err(failure) => return explain(seed, &wish, &failure, runs),
        }
        runs += 1;
    }
    tell(&wish, begin, &all, runs);
    println!("{runs} passed, 0 failed");
    ExitCode::SUCCESS
}

fn tell(wish: &Wish, begin: Instant, all: &Report, runs: u64) {
    let cost = Cost::since(begin);
    if wish.json {
        println!("{}", cost.json(all, runs));
    } else {
        print!("{}", cost.table(all, runs));
    }
}

/// Runs a share of the cases, until the time is up if there is a limit.
fn exhaust(
    wish: &Wish,
    share: Share,
    count: u64,
    kind: &str,
    run: &dyn Fn(u64) -> Result<Report, Failure>,
) -> ExitCode {
    let begin = Instant::now();
    let limit = wish
        .minutes
        .map(|minutes| Duration::from_secs_f64(minutes * 60.0));
    let mut all = Report::default();
    let mut passed = 0;
    let mut next = share.from + (share.index + share.of - share.from % share.of) % share.of;
    while next < count && limit.is_none_or(|limit| begin.elapsed() < limit) {
        let run = std::panic::AssertUnwindSafe(|| run(next));
        match std::panic::catch_unwind(run).unwrap_or_else(|_| Err(Failure::panicked())) {
            Ok(report) => all.add(&report),
            Err(failure) => {
                println!("FAILED case {next}\n{failure}");
                let seed = wish
                    .seed
                    .map_or(String::new(), |seed| format!(" --seed {seed}"));
                println!(
                    "again: cargo run --release -p everglade-testing --bin sim -- --kind \
                    {kind}{seed} --shard 0/1 --from {next}"
                );
                println!("{passed} passed, 1 failed");
                return ExitCode::FAILURE;
            }
        }
        passed += 1;
        next += share.of;
    }
    tell(wish, begin, &all, passed);
    if next < count {
        println!(
            "next: --from {next} --shard {}/{} of {count} cases",
            share.index, share.of
        );
    } else {
        println!("all of the share done, of {count} cases");
    }
    println!("{passed} passed, 0 failed");
    ExitCode::SUCCESS
}

fn explain(seed: Seed, wish: &Wish, failure: &Failure, passed: u64) -> ExitCode {
    failure.trace.iter().for_each(|line| println!("{line}"));
    println!("FAILED seed {seed}\n{failure}");
    let kind = wish.kind;
    let kind = kind.map_or(String::new(), |kind| format!(" --kind {}", kind.name()));
    let groups = if wish.beside.groups { " --groups" } else { "" };
    let cleaning = if wish.beside.cleaning {
        " --cleaning"
    } else {
        ""
    };
    println!(
        "again: cargo run --release -p everglade-testing --bin sim -- --seed {seed}{kind}{groups}\
        {cleaning} --trace 200"
    );
    println!("{passed} passed, 1 failed");
    ExitCode::FAILURE
}
