//! `planted`: the simulation must find every planted bug (docs/design/simulation.md, "Planted
//! bugs"). `cargo xtask planted` builds and starts this program in the copy of the workspace that
//! has the bugs.
//!
//! For each there is a kind of simulation and a seed to begin with, with which the bug was once
//! found; if the product has changed since, the search continues from that seed until the time for
//! one bug is up. No check is made for one bug: the checks run in every simulation. Before the bug
//! is planted the same seed must pass, or the result proves nothing. `--search` searches good seeds
//! in all kinds.

use std::num::NonZero;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use everglade_env::lock::Mutex;
use everglade_planted::{Bug, has_bugs, plant};
use everglade_testing::Seed;
use everglade_testing::sim::Kind;

const USAGE: &str = "usage: planted --plans FILE [--bug NAME] [--kind KIND [--from N]] [--search] \
[--seconds S] [--third 0|1|2]

  --plans FILE   lines 'BUG KIND SEED': what to find and where to look first
  --bug NAME     only this one
  --kind KIND    by this kind of simulation, from seed N on, 0 by default
  --search       try all kinds of simulation from seed 0 on, and print what finds it first
  --seconds S    time for one bug, and one kind when searching; 60 by default
  --third 0|1|2  every third one, from the first, second or third on; not with --bug
";

/// A bug, the kind of simulation that finds it, and the first seed to try.
struct Row {
    name: String,
    kind: Kind,
    seed: u64,
}

/// What came of a hunt.
struct Find {
    seed: u64,
    seeds: u64,
    time: Duration,
    checker: String,
    what: String,
}

/// The last panic, for the table.
static PANIC: Mutex<Option<String>> = Mutex::new(None);

/// The command line.
struct Options {
    plans: Vec<Row>,
    /// The words themselves.
    words: Vec<String>,
    search: bool,
    limit: Duration,
}

impl Options {
    fn read(all: Vec<String>) -> Result<Options, String> {
        let mut words = all.iter().cloned();
        let (mut plans, mut only, mut kind, mut search) = (None, None, None, false);
        let (mut seconds, mut from, mut third) = (60, 0, None);
        while let Some(option) = words.next() {
            if option == "--search" {
                search = true;
                continue;
            }
            let value = words.next().ok_or(format!("{option} needs a value"));
            let number = |value: &str| {
                let number = value.parse::<u64>();
                number.map_err(|_| format!("{option}: '{value}' is not a number"))
            };
            match option.as_str() {
                "--plans" => plans = Some(read_plans(&value?)?),
                "--bug" => only = Some(value?),
                "--kind" => kind = Some(kind_named(&value?)?),
                "--from" => from = number(&value?)?,
                "--seconds" => seconds = number(&value?)?,
                "--third" => third = Some(number(&value?)? % 3),
                _ => return Err(format!("what is {option}?")),
            }
        }
        let mut plans: Vec<Row> = plans.ok_or("--plans is missing")?;
        let mut number = 0_u64;
        plans.retain(|row| {
            let is_in_third = third.is_none_or(|third| number % 3 == third);
            number += 1;
            only.as_ref().map_or(is_in_third, |name| row.name == *name)
        });
        if plans.is_empty() {
            return Err("there is no such bug".to_owned());
        }
        if let Some(kind) = kind {
            let rows = plans.iter_mut();
            rows.for_each(|row| (row.kind, row.seed) = (kind, from));
        }
        Ok(Options {
            plans,
            words: all,
            search,
            limit: Duration::from_secs(seconds),
        })
    }
}

fn read_plans(path: &str) -> Result<Vec<Row>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let row = |line: &str| match line.split(' ').collect::<Vec<_>>()[..] {
        [name, kind, seed] => Ok(Row {
            name: name.to_owned(),
            kind: kind_named(kind)?,
            seed: seed.parse().map_err(|_| format!("{path}: '{line}'"))?,
        }),
        _ => Err(format!("{path}: '{line}'")),
    };
    text.lines().map(row).collect()
}

fn kind_named(name: &str) -> Result<Kind, String> {
    Kind::named(name).ok_or(format!("there is no kind {name}"))
}

fn main() -> ExitCode {
    if !has_bugs() {
        eprintln!("planted: this program was built without bugs; use 'cargo xtask planted'");
        return ExitCode::from(2);
    }
    let options = match Options::read(std::env::args().skip(1).collect()) {
        Ok(options) => options,
        Err(problem) => {
            eprint!("planted: {problem}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    // A failed assertion is a way of being found; it goes into the table instead of onto the
    // terminal.
    std::panic::set_hook(Box::new(|panic| {
        let place = panic
            .location()
            .map_or(String::new(), |at| format!("{}:{}", at.file(), at.line()));
        let text = panic.payload_as_str().unwrap_or("");
        *PANIC.lock() = Some(format!("{place}: {text}"));
    }));
    if options.search {
        let plans = options.plans.iter();
        plans.for_each(|row| search_for(&row.name, options.limit));
        return ExitCode::SUCCESS;
    }
    println!(
        "{:<26} {:<11} {:>19} {:>5} {:>7}  found by",
        "bug", "kind", "seed", "seeds", "seconds"
    );
    let (passed, failed) = match &options.plans[..] {
        [row] => {
            let (is_found, line) = prove(row, options.limit);
            println!("{line}");
            (u64::from(is_found), u64::from(!is_found))
        }
        plans => prove_all(plans, &options.words),
    };
    println!("{passed} passed, {failed} failed");
    match failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// Proves each row in a process of its own, as many at once as there are processors: which bug is
/// planted is a fact of a process. Returns how many passed and failed.
fn prove_all(plans: &[Row], words: &[String]) -> (u64, u64) {
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    let next = AtomicUsize::new(0);
    let counts = Mutex::new((0, 0));
    std::thread::scope(|scope| {
        for _ in 0..processors {
            scope.spawn(|| {
                while let Some(row) = plans.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (is_found, said) = prove_apart(&row.name, words);
                    let mut counts = counts.lock();
                    println!("{said}");
                    *(if is_found {
                        &mut counts.0
                    } else {
                        &mut counts.1
                    }) += 1;
                }
            });
        }
    });
    let counts = counts.lock();
    *counts
}

/// Runs this program for one bug; returns what it says between its heading and its counts.
fn prove_apart(name: &str, words: &[String]) -> (bool, String) {
    let program = std::env::current_exe();
    let output = program.and_then(|program| {
        let mut command = Command::new(program);
        command.args(words).args(["--bug", name]).output()
    });
    match output {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stdout);
            let lines: Vec<&str> = said.lines().skip(1).collect();
            let said = lines[..lines.len().saturating_sub(1)].join("\n");
            (output.status.success(), said)
        }
        Err(error) => (false, format!("{name}: cannot start: {error}")),
    }
}

/// Proves that a bug is found by its row, and that the row's seed passes without it. Returns a line
/// for the table, too.
fn prove(row: &Row, limit: Duration) -> (bool, String) {
    let Row { name, kind, seed } = row;
    plant(None);
    if let Err(failure) = kind.run(Seed(*seed), 0) {
        let kind = kind.name();
        return (
            false,
            format!("{name}: seed {seed} of kind {kind} fails without it: {failure}"),
        );
    }
    let found = hunt(Bug::named(name), *kind, *seed, limit);
    let kind = kind.name();
    let line = match &found {
        Some(found) => format!(
            "{name:<26} {kind:<11} {:>19} {:>5} {:>7.2}  {}",
            found.seed,
            found.seeds,
            found.time.as_secs_f64(),
            found.checker
        ),
        None => format!(
            "{name:<26} {kind:<11} was not found in {} s",
            limit.as_secs()
        ),
    };
    (found.is_some(), line)
}

fn search_for(name: &str, limit: Duration) {
    let bug = Bug::named(name);
    let kinds = [
        Kind::Exhaustive,
        Kind::Cuts,
        Kind::Long,
        Kind::Faults,
        Kind::Silent,
        Kind::Tight,
        Kind::Fill,
        Kind::Small,
        Kind::Creation,
        Kind::Snapshots,
        Kind::Moments,
        Kind::Histories,
        Kind::Growth,
        Kind::Mirror,
        Kind::Parity,
    ];
    let mut best: Option<(Kind, Find)> = None;
    for kind in kinds {
        let Some(found) = hunt(bug, kind, 0, limit) else {
            continue;
        };
        // The cost of finding the bug with a known seed.
        let begin = Instant::now();
        plant(Some(bug));
        let _ = kind.run(Seed(found.seed), 0);
        plant(None);
        let time = begin.elapsed();
        println!(
            "  {name} {} seed {} after {} seeds, alone {:.2} s: {} | {}",
            kind.name(),
            found.seed,
            found.seeds,
            time.as_secs_f64(),
            found.checker,
            found
                .what
                .chars()
                .take(160)
                .collect::<String>()
                .replace('\n', " ")
        );
        let found = Find { time, ..found };
        if best
            .as_ref()
            .is_none_or(|(_, known)| found.time < known.time)
        {
            best = Some((kind, found));
        }
        if best
            .as_ref()
            .is_some_and(|(_, known)| known.time < Duration::from_millis(300))
        {
            break;
        }
    }
    match best {
        Some((kind, found)) => {
            println!("{name}: found by: {} from seed {}", kind.name(), found.seed)
        }
        None => println!("{name}: was not found"),
    }
}

/// Runs seeds with the bug planted until one fails or the time is up.
fn hunt(bug: Bug, kind: Kind, first: u64, limit: Duration) -> Option<Find> {
    plant(Some(bug));
    let begin = Instant::now();
    let mut found = None;
    let mut seeds = 0;
    while found.is_none() && (seeds == 0 || begin.elapsed() < limit) {
        let seed = first + seeds;
        seeds += 1;
        if let Err(failure) = kind.run(Seed(seed), 0) {
            let panic = PANIC.lock().take();
            plant(None);
            let alone = kind.run(Seed(seed), 0);
            plant(Some(bug));
            if let Err(failure) = alone {
                // The seed proves nothing about this bug, but fails for another reason.
                println!(
                    "seed {seed} of kind {} fails without a bug: {failure}",
                    kind.name()
                );
                continue;
            }
            let assertion = panic.filter(|_| failure.checker().starts_with("assertion"));
            found = Some(Find {
                seed,
                seeds,
                time: begin.elapsed(),
                checker: match assertion {
                    Some(place) => {
                        format!("assertion {}", place.chars().take(90).collect::<String>())
                    }
                    None => failure.checker().to_owned(),
                },
                what: failure.what,
            });
        }
    }
    plant(None);
    found
}
