//! The results as a page for people, as JSON for programs, and as a plot.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::results::{Figure, OURS, Results};
use super::{creation, deletion, depth, first_write, full, restoring};
use crate::bench::Summary;
use crate::versus::page::{about_json, goals, goals_json};
use crate::versus::plot::{self, Bar};

/// What each job does, for people.
const JOBS: [(&str, &str, &str); 6] = [
    (
        creation::KEY,
        "Taking snapshots",
        "A volume with a LUN of 1 GiB, filled, and one with a LUN of 10 TiB, its first GiB filled and a block written\n\
         every 128 MiB; random overwrites of the first GiB at half of the rate that the slower of them saturates at. *Taken*:\n\
         from the request to the moment whose image it is; *durable*: to its commit. Medians of windows of sixteen.",
    ),
    (
        first_write::KEY,
        "The first write",
        "One connection, one write at a time. After a snapshot, or another change that needs a consistency point (a LUN\n\
         resized; `filesystem sync`), by turns: the first write, and the mean of those in the following 120 ms.",
    ),
    (
        restoring::KEY,
        "Restoring 10 TiB",
        "After 4,096 random overwrites, while a volume beside it is written with half of what it can do. Of btrfs: the\n\
         exchange of the subvolume for a snapshot of its snapshot, and the commit, with the server stopped.",
    ),
    (
        depth::KEY,
        "Reads with a long history",
        "Volumes of 512 MiB that were written alike: filled, then 1,000 times 32 blocks overwritten, with a snapshot after\n\
         the last of these, after every tenth, or after each. The twin is written like the first one and says what noise is.",
    ),
    (
        deletion::KEY,
        "Deleting 1,000 snapshots",
        "All of them, 16 requests at a time (btrfs: 100 with one call), while the volume is overwritten at random, q32, as\n\
         fast as possible. Turns with the deletion last until all space is back.",
    ),
    (
        full::KEY,
        "A full pool",
        "2 GiB, written until nothing goes through, with 1 MiB and with 4 KiB writes; then one deletion. Afterwards\n\
         drained to about half, and compared with a pool that was filled as far and never full.",
    ),
];

/// The page. `plot` is the name of the picture beside it.
#[must_use]
pub fn page(results: &Results, plot: &str) -> String {
    let mut text = String::from(
        "# Snapshots\n\n\
         <!-- Written by `cargo xtask bench snapshots --write docs/benchmarks/snapshots.md`. -->\n\n",
    );
    for (name, value) in &results.about {
        let _ = writeln!(text, "- {name}: {value}");
    }
    let _ = writeln!(
        text,
        "\nIn every round both stores have their turns, and who of those that are compared begins changes. Figures are\n\
         medians with the range of the rounds; ratios are medians of the rounds' ratios with their 95 % confidence\n\
         interval (bootstrap). btrfs is on a loop device (direct I/O) of the same disk, its files are served by\n\
         `qemu-storage-daemon` (raw, `O_DIRECT`, io_uring), and the client is the same for both. A goal that names no\n\
         statistic is judged by the median; \"the longest\" is that of all rounds.\n\n![figures]({plot})\n"
    );
    goals(&mut text, &results.verdicts);
    for (key, title, about) in JOBS {
        let figures: Vec<_> = results
            .figures
            .iter()
            .filter(|one| one.job == key)
            .collect();
        if figures.is_empty() {
            continue;
        }
        let _ = writeln!(
            text,
            "\n## {title}\n\n{about}\n\n| | unit | everglade | qsd raw on btrfs |\n| --- | --- | --- | --- |"
        );
        for figure in figures {
            let of = |is_ours: bool| {
                let mut values = figure.values.iter();
                let found = values.find(|(store, _)| (*store == OURS) == is_ours);
                found.map_or(String::new(), |(_, values)| shown(values))
            };
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} |",
                figure.what,
                figure.unit,
                of(true),
                of(false)
            );
        }
    }
    text
}

fn shown(values: &[f64]) -> String {
    let summary = Summary::of(values);
    match summary.median {
        median if median >= 100.0 => format!("{summary:.0}"),
        median if median >= 10.0 => format!("{summary:.1}"),
        _ => format!("{summary:.2}"),
    }
}

/// All figures as a plot.
#[must_use]
pub fn picture(results: &Results) -> String {
    let groups: Vec<(String, Vec<Bar>)> = results.figures.iter().map(group).collect();
    plot::bars("snapshots of everglade, and of btrfs", &groups)
}

fn group(figure: &Figure) -> (String, Vec<Bar>) {
    let bars = figure.values.iter().map(|(store, values)| {
        let Summary { min, median, max } = Summary::of(values);
        Bar {
            name: (*store).to_owned(),
            value: median,
            min,
            max,
            is_ours: *store == OURS,
        }
    });
    (format!("{}, {}", figure.what, figure.unit), bars.collect())
}

/// All of it for programs.
#[must_use]
pub fn json(results: &Results) -> Value {
    let figures: Vec<Value> = results
        .figures
        .iter()
        .map(|figure| {
            let values: serde_json::Map<String, Value> = figure
                .values
                .iter()
                .map(|(store, values)| ((*store).to_owned(), json!(values)))
                .collect();
            json!({ "job": figure.job, "what": figure.what, "unit": figure.unit, "values": values })
        })
        .collect();
    json!({ "about": about_json(&results.about), "goals": goals_json(&results.verdicts), "figures": figures })
}
