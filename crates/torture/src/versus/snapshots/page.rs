//! The results as a page for people, as JSON for programs, and as a plot.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::results::{Figure, OURS, Results};
use super::{creation, deletion, depth, first_write, full, restoring};
use crate::bench::Summary;
use crate::versus::page::{about_json, about_table, goals, goals_json};
use crate::versus::plot::{self, Bar};

/// What each job does, for people.
const JOBS: [(&str, &str, &str); 6] = [
    (
        creation::KEY,
        "Taking snapshots",
        "One volume has a LUN of 1 GiB, filled. The other has a LUN of 10 TiB: its first GiB is\n\
         filled, and one block is written every 128 MiB. Clients overwrite random blocks of the\n\
         first GiB, at half of the rate at which the slower volume saturates. *Taken* is the time\n\
         from the request to the moment that the snapshot shows, *durable* the time from the\n\
         request to the commit. Each figure is the median of windows of sixteen snapshots.",
    ),
    (
        first_write::KEY,
        "The first write",
        "One connection writes one block at a time. Snapshots alternate with another change that\n\
         needs a consistency point (a resized LUN; on btrfs `filesystem sync`). The table shows\n\
         the first write after each, and the mean of the writes in the following 120 ms.",
    ),
    (
        restoring::KEY,
        "Restoring 10 TiB",
        "Before each restore, 4,096 random blocks of the first GiB are overwritten. Meanwhile\n\
         clients write to another volume, at half of its full rate. On btrfs the server is\n\
         stopped; a restore replaces the subvolume by a new snapshot of its snapshot, and commits.",
    ),
    (
        depth::KEY,
        "Reads with a long history",
        "All volumes have 512 MiB and the same writes: they are filled, then 32 blocks are\n\
         overwritten, 1,000 times. Depth 1 has a snapshot after the last time, depth 100 after\n\
         every tenth, depth 1000 after each. The twin repeats depth 1 and shows the noise.",
    ),
    (
        deletion::KEY,
        "Deleting 1,000 snapshots",
        "All 1,000 snapshots are deleted, 16 requests at a time (btrfs: 100 with one call), while\n\
         clients overwrite random blocks at full speed, queue 32. A turn with the deletion ends\n\
         when all space is free again.",
    ),
    (
        full::KEY,
        "A full pool",
        "A pool of 2 GiB is filled with 1 MiB and then 4 KiB writes until none succeeds; then\n\
         one object is deleted. Afterwards the pool is drained to about half. It is compared\n\
         with a *fresh* pool, filled to the same level and never full.",
    ),
];

/// The page. `plot` is the name of the picture beside it.
#[must_use]
pub fn page(results: &Results, plot: &str) -> String {
    let mut text = String::from(
        "# Snapshots\n\n\
         <!-- Written by `cargo xtask bench snapshots --write \
         docs/benchmarks/snapshots.md`. -->\n\n\
         What snapshots cost while clients write, on Everglade and on btrfs.\n\
         [Shortfalls](shortfalls.md) says what limits the figures.\n\n",
    );
    let _ = writeln!(
        text,
        "![figures]({plot})\n\n\
         ## How\n\n\
         Each job runs in rounds. In each round both stores have their turns; their order changes\n\
         from round to round. btrfs is on a loop device (direct I/O) on the same disk, and\n\
         `qemu-storage-daemon` serves its files (raw, `O_DIRECT`, io_uring). One client drives\n\
         both stores.\n"
    );
    about_table(&mut text, &results.about);
    let _ = writeln!(
        text,
        "\n| figure | what it is |\n| --- | --- |\n\
         | figure (range) | the median of the rounds, with their range |\n\
         | ratio [interval] | the median of the rounds' ratios, with its 95 % confidence interval \
         (bootstrap) |\n\
         | the longest | the longest of all rounds |\n\
         | a goal without a statistic | a goal for the median |\n"
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
            "\n## {title}\n\n{about}\n\n| | unit | everglade | qsd raw on btrfs |\n| --- | --- | \
            --- | --- |"
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
    json!({ "about": about_json(&results.about), "goals": goals_json(&results.verdicts),
        "figures": figures })
}
