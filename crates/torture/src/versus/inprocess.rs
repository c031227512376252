//! The engine with the load inside of its reactors: the program `inprocess` of `everglade-testing`,
//! as claims of S001 need it. No client takes processors from the server.
//!
//! | claim | paper | here |
//! | --- | --- | --- |
//! | R001-05 | write allocation takes 6.23 of 20 processors | processors that consistency points take, by the engine's own count |
//! | R001-09 … R001-11 | random overwrites load the infrastructure, sequential ones the cleaners | CPU of each |

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use super::paper::Claim;
use crate::Failure;
use crate::bench::Summary;

/// How long a rate is measured, in seconds.
const SECONDS: &str = "10";

/// What a run says, by name.
type Figures = BTreeMap<String, f64>;

/// Two arms, each a list of arguments, and what is compared of them.
struct Comparison {
    arms: [&'static [&'static str]; 2],
    claims: fn(&[Figures; 2]) -> Vec<Claim>,
}

const RANDOM: &[&str] = &["random", "--seconds", SECONDS];
const SEQUENTIAL: &[&str] = &["sequential", "--lun-mib", "2048"];
const UNSTAGED: &[&str] = &["random", "--seconds", SECONDS, "--stage-blocks", "1"];
const ALONE: &[&str] = &["random", "--seconds", SECONDS, "--reactors", "1"];

/// Measures what can be compared in one process.
///
/// # Errors
/// What fails.
pub fn claims(program: &Path, folder: &Path, rounds: u64) -> Result<Vec<Claim>, Failure> {
    let comparisons = [
        Comparison {
            arms: [RANDOM, UNSTAGED],
            claims: staged,
        },
        Comparison {
            arms: [RANDOM, SEQUENTIAL],
            claims: loads,
        },
        Comparison {
            arms: [RANDOM, ALONE],
            claims: reactors,
        },
    ];
    let mut claims = Vec::new();
    for comparison in comparisons {
        let mut runs = [Vec::new(), Vec::new()];
        for round in 0..rounds.max(1) {
            for turn in 0..2 {
                let arm = usize::try_from((round + turn) % 2).unwrap_or(0);
                runs[arm].push(run(program, folder, comparison.arms[arm])?);
            }
        }
        claims.extend((comparison.claims)(&runs.map(|runs| medians(&runs))));
    }
    Ok(claims)
}

fn staged(figures: &[Figures; 2]) -> Vec<Claim> {
    let claim = |measured, of: fn(&Figures) -> f64, unit| Claim {
        ids: "D-10",
        claim: "freed numbers are collected, and committed to the maps in one go",
        published: "no figure",
        measured,
        arms: ["stages", "each step by itself"],
        figures: [of(&figures[0]), of(&figures[1])],
        unit,
    };
    vec![
        claim(
            "CPU of consistency points for each block, random overwrites",
            |it| it["cpu_us_cleaner"] + it["cpu_us_infrastructure"],
            "µs",
        ),
        claim("random overwrites of 4 KiB", thousands, "thousand/s"),
    ]
}

fn loads(figures: &[Figures; 2]) -> Vec<Claim> {
    let of = |figure: fn(&Figures) -> f64| [figure(&figures[0]), figure(&figures[1])];
    vec![
        Claim {
            ids: "R001-09 … R001-11",
            claim: "random overwrites load the infrastructure, others the cleaners (D-26)",
            published: "parallel infrastructure alone: +25 % beside +7 %",
            measured: "infrastructure ÷ cleaner, CPU of consistency points",
            arms: ["random", "in order"],
            figures: of(|it| it["cpu_us_infrastructure"] / it["cpu_us_cleaner"]),
            unit: "",
        },
        Claim {
            ids: "R001-05",
            claim: "write allocation takes a third of the processors at its peak",
            published: "6.23 of 20",
            measured: "processors, of two, that consistency points and devices take",
            arms: ["random", "in order"],
            figures: of(|it| {
                let names = ["cpu_us_cleaner", "cpu_us_infrastructure", "cpu_us_device"];
                let micros: f64 = names.iter().map(|name| it[*name]).sum();
                micros * it["blocks_per_second"] / 1e6
            }),
            unit: "",
        },
    ]
}

fn reactors(figures: &[Figures; 2]) -> Vec<Claim> {
    vec![Claim {
        ids: "A-04, C-11",
        claim: "clients' operations run beside write allocation, which has one reactor",
        published: "no figure",
        measured: "random overwrites of 4 KiB",
        arms: ["two reactors", "one"],
        figures: [thousands(&figures[0]), thousands(&figures[1])],
        unit: "thousand/s",
    }]
}

fn thousands(figures: &Figures) -> f64 {
    figures["blocks_per_second"] / 1000.0
}

fn run(program: &Path, folder: &Path, words: &[&str]) -> Result<Figures, Failure> {
    let mut command = Command::new(program);
    command.args(words).arg("--folder").arg(folder);
    let output = command
        .output()
        .map_err(|error| Failure::rig("start inprocess", &error))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(Failure::Rig(format!("inprocess: {said}")));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let figure = |line: &str| {
        let (name, value) = line.split_once(' ')?;
        Some((name.to_owned(), value.parse().ok()?))
    };
    Ok(text.lines().filter_map(figure).collect())
}

/// Of each figure that all runs have.
fn medians(runs: &[Figures]) -> Figures {
    let names = runs.first().into_iter().flat_map(|run| run.keys());
    let median = |name: &String| {
        let values: Option<Vec<f64>> = runs.iter().map(|run| run.get(name).copied()).collect();
        Some((name.clone(), Summary::of(&values?).median))
    };
    names.filter_map(median).collect()
}
