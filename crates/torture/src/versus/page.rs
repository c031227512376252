//! The results as a page for people and as JSON for programs.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use super::bootstrap::Ratio;
use super::facts::{Cap, Start};
use super::plot::{self, Bar};
use super::row::Row;
use super::server::Arm;
use super::tail::{Tail, TailTurn};
use super::turns::{Outcome, Record};
use crate::bench::Summary;

/// Adds a line. Writing to memory does not fail.
macro_rules! line {
    ($text:expr, $($word:tt)*) => {
        let _ = writeln!($text, $($word)*);
    };
}

/// Everything that was measured.
#[derive(Default)]
pub struct Results {
    /// What it was measured on, and how.
    pub about: Vec<(&'static str, String)>,
    /// Rows of rates.
    pub outcomes: Vec<Outcome>,
    /// The tail of reads.
    pub tail: Option<Tail>,
    /// Starts, the smaller pool first.
    pub starts: Vec<Start>,
    /// Memory caps.
    pub caps: Vec<Cap>,
    /// Share of a core without requests.
    pub idle: Option<f64>,
}

/// A goal and whether it was reached.
pub(super) struct Verdict {
    pub(super) what: String,
    pub(super) goal: String,
    pub(super) reached: String,
    pub(super) is_met: bool,
}

/// The table of goals.
pub(super) fn goals(text: &mut String, verdicts: &[Verdict]) {
    line!(
        text,
        "## Goals\n\n| what | goal | reached | |\n| --- | --- | --- | --- |"
    );
    for verdict in verdicts {
        let mark = if verdict.is_met { "yes" } else { "**no**" };
        line!(
            text,
            "| {} | {} | {} | {mark} |",
            verdict.what,
            verdict.goal,
            verdict.reached
        );
    }
}

/// The same for programs.
pub(super) fn goals_json(verdicts: &[Verdict]) -> Vec<Value> {
    verdicts
        .iter()
        .map(|one| json!({ "what": one.what, "goal": one.goal, "reached": one.reached, "met": one.is_met }))
        .collect()
}

/// What it was measured on, as a table.
pub fn about_table(text: &mut String, about: &[(&'static str, String)]) {
    line!(text, "| | |\n| --- | --- |");
    for (name, value) in about {
        line!(text, "| {name} | {value} |");
    }
}

/// What it was measured on, for programs.
pub(super) fn about_json(about: &[(&'static str, String)]) -> serde_json::Map<String, Value> {
    about
        .iter()
        .map(|(name, value)| ((*name).to_owned(), json!(value)))
        .collect()
}

fn verdicts(outcome: &Outcome) -> Vec<Verdict> {
    let Row {
        goals,
        cpu_goal,
        cpu_us_goal,
        arms,
        ..
    } = &outcome.row;
    let ours = &outcome.records[&arms[0]];
    let mut verdicts = Vec::new();
    for (arm, goal) in *goals {
        let Some(theirs) = outcome.records.get(arm) else {
            continue;
        };
        let ratio = Ratio::of(&ours.rates, &theirs.rates);
        verdicts.push(Verdict {
            what: format!("{} / {}", outcome.row.title, arm.name()),
            goal: format!("≥ {goal}"),
            reached: ratio.to_string(),
            is_met: ratio.median >= *goal,
        });
    }
    if let Some((arm, goal)) = cpu_goal
        && let Some(theirs) = outcome.records.get(arm)
    {
        let ratio = Ratio::of(&ours.cpu_us, &theirs.cpu_us);
        verdicts.push(Verdict {
            what: format!("{}: CPU per operation / {}", outcome.row.title, arm.name()),
            goal: format!("≤ {goal}"),
            reached: ratio.to_string(),
            is_met: ratio.median <= *goal,
        });
    }
    if let Some(goal) = cpu_us_goal {
        let reached = ours.cpu_us_for_one();
        verdicts.push(Verdict {
            what: format!("{}: CPU per operation", outcome.row.title),
            goal: format!("≤ {goal} µs"),
            reached: format!("{reached:.2} µs"),
            is_met: reached <= *goal,
        });
    }
    verdicts
}

fn all_verdicts(results: &Results) -> Vec<Verdict> {
    let mut all: Vec<Verdict> = results.outcomes.iter().flat_map(verdicts).collect();
    if let Some(tail) = &results.tail {
        let p999 = |turns: &[TailTurn]| -> Vec<f64> {
            turns.iter().map(|turn| turn.p999.as_secs_f64()).collect()
        };
        let ratio = Ratio::of(&p999(&tail.ours), &p999(&tail.theirs));
        all.push(Verdict {
            what: "p99.9 of reads while consistency points run / qsd raw, with the same writes"
                .to_owned(),
            goal: "≤ 3".to_owned(),
            reached: ratio.to_string(),
            is_met: ratio.median <= 3.0,
        });
    }
    if let [small, .., large] = &results.starts[..] {
        all.push(Verdict {
            what: format!("first read of a {} LUN after a kill", large.size),
            goal: "≤ 1 s".to_owned(),
            reached: format!("{:.2} s", large.first_read.as_secs_f64()),
            is_met: large.first_read <= Duration::from_secs(1),
        });
        let more = large.peak_bytes.saturating_sub(small.peak_bytes);
        all.push(Verdict {
            what: format!("peak memory of that start, beyond a {} LUN", small.size),
            goal: "≤ 16 MiB".to_owned(),
            reached: mib(more),
            is_met: more <= 16 << 20,
        });
    }
    for cap in &results.caps {
        all.push(Verdict {
            what: format!(
                "peak memory under load with --memory {}",
                mib(cap.memory_bytes)
            ),
            goal: format!("≤ {}", mib(cap.memory_bytes + (64 << 20))),
            reached: mib(cap.peak_bytes),
            is_met: cap.peak_bytes <= cap.memory_bytes + (64 << 20),
        });
    }
    if let Some(idle) = results.idle {
        all.push(Verdict {
            what: "CPU without requests".to_owned(),
            goal: "< 1 % of a core".to_owned(),
            reached: format!("{:.2} %", idle * 100.0),
            is_met: idle < 0.01,
        });
    }
    all
}

fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

fn us(time: Duration) -> String {
    format!("{:.0}", time.as_secs_f64() * 1e6)
}

/// The page. `plot` is the name of the file beside it with [`picture`].
#[must_use]
pub fn page(results: &Results, plot: &str) -> String {
    let mut text = String::from(
        "# Against peers\n\n\
         <!-- Written by `cargo xtask bench nbd --write docs/benchmarks/nbd.md`. -->\n\n\
         Everglade and other servers run the same loads over NBD, on the same disk, with the\n\
         same client. [Shortfalls](shortfalls.md) says what limits the figures.\n\n",
    );
    line!(
        text,
        "![rates]({plot})\n\n\
         ## How\n\n\
         Each load runs in rounds. In each round every server has one turn; the order of the\n\
         servers changes from round to round.\n"
    );
    about_table(&mut text, &results.about);
    line!(
        text,
        "\n| figure | what it is |\n| --- | --- |\n\
         | rate | the median of the rounds, with their range |\n\
         | ratio | the median of the rounds' ratios, with its 95 % confidence interval \
         (bootstrap) |\n\
         | CPU | user and system time of the whole server process, all rounds together |\n\
         | CPU of everglade | includes the consistency point that a turn leaves behind; it runs \
         after the turn, outside of the measured time |\n\
         | latency | of all rounds together |\n"
    );
    goals(&mut text, &all_verdicts(results));
    if !results.outcomes.is_empty() {
        line!(
            text,
            "\n## Loads\n\n\
             | server | requests/s | ours / theirs | MB/s | CPU µs/request | p50 µs | p99 | p99.9 \
             | max |\n\
             | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
        );
    }
    for outcome in &results.outcomes {
        row(&mut text, outcome);
    }
    if let Some(tail) = &results.tail {
        tail_table(&mut text, tail);
    }
    alone(&mut text, results);
    text
}

fn row(text: &mut String, outcome: &Outcome) {
    line!(
        text,
        "| **{}**: `{}`, turns of {:.1} s | | | | | | | | |",
        outcome.row.title,
        outcome.row.key,
        outcome.seconds
    );
    let ours = &outcome.records[&outcome.row.arms[0]];
    for arm in &outcome.row.arms {
        let record = &outcome.records[arm];
        let summary = Summary::of(&record.rates);
        let ratio = if std::ptr::eq(record, ours) {
            String::new()
        } else {
            Ratio::of(&ours.rates, &record.rates).to_string()
        };
        let points = record.points;
        line!(
            text,
            "| {} | {summary} | {ratio} | {:.0} | {:.2} | {} | {} | {} | {} |",
            arm.name(),
            summary.median * f64::from(outcome.row.load.block) / 1e6,
            record.cpu_us_for_one(),
            us(points.p50),
            us(points.p99),
            us(points.p999),
            us(points.max)
        );
    }
}

fn tail_table(text: &mut String, tail: &Tail) {
    line!(
        text,
        "\n## Reads while consistency points run\n\n\
         Random reads, queue 4, beside random writes, queue 32, at most 25,000 a second (100\n\
         MB/s). Turns of {:.0} s.\n\n\
         | server | p50 µs | p99.9 µs | longest µs | reads/s | writes/s |\n\
         | --- | --- | --- | --- | --- | --- |",
        tail.seconds
    );
    for (name, turns) in [
        (Arm::Everglade.name(), &tail.ours),
        (Arm::QemuRaw.name(), &tail.theirs),
    ] {
        let of =
            |value: fn(&TailTurn) -> f64| Summary::of(&turns.iter().map(value).collect::<Vec<_>>());
        line!(
            text,
            "| {name} | {} | {} | {} | {} | {} |",
            of(|turn| turn.p50.as_secs_f64() * 1e6),
            of(|turn| turn.p999.as_secs_f64() * 1e6),
            of(|turn| turn.max.as_secs_f64() * 1e6),
            of(|turn| turn.reads),
            of(|turn| turn.writes)
        );
    }
}

fn alone(text: &mut String, results: &Results) {
    if !results.starts.is_empty() {
        line!(
            text,
            "\n## Start\n\n\
             After SIGKILL. Aggregate and LUN have the size of the first column; {} of it were\n\
             written and committed.\n\n\
             | size | ready | first read of 1 MiB | peak memory |\n| --- | --- | --- | --- |",
            mib(results.starts[0].written)
        );
        for start in &results.starts {
            line!(
                text,
                "| {} | {:.3} s | {:.3} s | {} |",
                start.size,
                start.ready.as_secs_f64(),
                start.first_read.as_secs_f64(),
                mib(start.peak_bytes)
            );
        }
    }
    if !results.caps.is_empty() {
        line!(
            text,
            "\n## Memory\n\n\
             A LUN of {} is filled and read. Then twelve connections, queue 32 each, read 128\n\
             KiB and write 64 KiB and 4 KiB at random places.\n\n\
             | --memory | peak | requests/s |\n| --- | --- | --- |",
            mib(results.caps[0].lun_bytes)
        );
        for cap in &results.caps {
            line!(
                text,
                "| {} | {} | {:.0} |",
                mib(cap.memory_bytes),
                mib(cap.peak_bytes),
                cap.rate
            );
        }
    }
    if let Some(idle) = results.idle {
        line!(
            text,
            "\n## Idle\n\nWith one client and no requests the server uses {:.2} % of a core.",
            idle * 100.0
        );
    }
}

/// The rates of all rows as a plot.
#[must_use]
pub fn picture(results: &Results) -> String {
    let groups: Vec<(String, Vec<Bar>)> = results
        .outcomes
        .iter()
        .map(|outcome| {
            let bars = outcome.row.arms.iter().enumerate().map(|(index, arm)| {
                let Summary { min, median, max } = Summary::of(&outcome.records[arm].rates);
                Bar {
                    name: arm.name().to_owned(),
                    value: median,
                    min,
                    max,
                    is_ours: index == 0,
                }
            });
            (format!("{}, requests/s", outcome.row.title), bars.collect())
        })
        .collect();
    plot::bars("everglade and peers", &groups)
}

/// All of it for programs.
#[must_use]
pub fn json(results: &Results) -> Value {
    let about = about_json(&results.about);
    let rows: Vec<Value> = results
        .outcomes
        .iter()
        .map(|outcome| {
            let servers: serde_json::Map<String, Value> = outcome
                .records
                .iter()
                .map(|(arm, record)| (arm.name().to_owned(), record_json(record)))
                .collect();
            json!({ "key": outcome.row.key, "title": outcome.row.title, "turn_seconds": outcome.seconds,
                "block_bytes": outcome.row.load.block, "depth": outcome.row.load.depth,
                "jobs": outcome.row.load.jobs, "servers": servers })
        })
        .collect();
    let goals = goals_json(&all_verdicts(results));
    let turns = |turns: &[TailTurn]| -> Vec<Value> { turns.iter().map(turn_json).collect() };
    let tail = results
        .tail
        .as_ref()
        .map(|tail| json!({ "everglade": turns(&tail.ours), "qsd raw": turns(&tail.theirs) }));
    let starts = results.starts.iter().map(|start| {
        json!({ "size": start.size, "written_bytes": start.written, "ready_seconds": start.ready.as_secs_f64(),
            "first_read_seconds": start.first_read.as_secs_f64(), "peak_bytes": start.peak_bytes })
    });
    let caps = results.caps.iter().map(|cap| {
        json!({ "memory_bytes": cap.memory_bytes, "lun_bytes": cap.lun_bytes, "peak_bytes": cap.peak_bytes,
            "requests_per_second": cap.rate })
    });
    json!({ "about": about, "goals": goals, "rows": rows, "reads_beside_writes": tail,
        "starts": starts.collect::<Vec<_>>(), "caps": caps.collect::<Vec<_>>(), "idle_cores": results.idle })
}

fn turn_json(turn: &TailTurn) -> Value {
    let us = |time: Duration| time.as_secs_f64() * 1e6;
    json!({ "p50_us": us(turn.p50), "p99.9_us": us(turn.p999), "max_us": us(turn.max),
        "reads_per_second": turn.reads, "writes_per_second": turn.writes })
}

fn record_json(record: &Record) -> Value {
    let us = |time: Duration| time.as_secs_f64() * 1e6;
    json!({
        "requests_per_second": record.rates,
        "cpu_us_per_request": record.cpu_us_for_one(),
        "cpu_seconds": record.cpu.as_secs_f64(),
        "wall_seconds": record.wall.as_secs_f64(),
        "requests": record.operations,
        "latency_us": { "p50": us(record.points.p50), "p99": us(record.points.p99),
            "p99.9": us(record.points.p999), "max": us(record.points.max) },
    })
}
