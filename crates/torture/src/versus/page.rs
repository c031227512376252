//! The results as a page for people. [`store`](super::store) has them for programs.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use super::bootstrap::Ratio;
use super::facts::{Cap, Start};
use super::fill::{self, Level};
use super::plot::{self, Bar};
use super::row::{self, Row};
use super::server::Arm;
use super::tail::{self, Tail, TailTurn};
use super::turns::RowResult;
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
    /// True if the turns were too short and too few for anybody to believe them.
    pub is_quick: bool,
    /// Rows of rates.
    pub outcomes: Vec<RowResult>,
    /// The tail of reads.
    pub tail: Option<Tail>,
    /// Starts, the smaller pool first.
    pub starts: Vec<Start>,
    /// Memory caps.
    pub caps: Vec<Cap>,
    /// Share of a core without requests.
    pub idle: Option<f64>,
    /// Rows as the pool fills, the lowest level first.
    pub levels: Vec<Level>,
}

impl Results {
    /// True if a row is there.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        let is_level = |level: &Level| fill::LEVELS.contains(&(level.percent, key));
        match key {
            "tail" => self.tail.is_some(),
            "start" => self.starts.len() > 1,
            "memory" => self.caps.len() > 2,
            "idle" => self.idle.is_some(),
            _ => {
                self.outcomes.iter().any(|outcome| outcome.row.key == key)
                    || self.levels.iter().any(is_level)
            }
        }
    }

    /// Adds a row; it replaces an older one, and the order stays that of [`row::all`].
    pub fn put(&mut self, outcome: RowResult) {
        self.outcomes
            .retain(|known| known.row.key != outcome.row.key);
        self.outcomes.push(outcome);
        let keys: Vec<&str> = row::all().into_iter().map(|row| row.key).collect();
        self.outcomes
            .sort_by_key(|known| keys.iter().position(|key| *key == known.row.key));
    }

    /// The same for a level.
    pub fn put_level(&mut self, level: Level) {
        self.levels.retain(|known| known.percent != level.percent);
        self.levels.push(level);
        self.levels.sort_by_key(|known| known.percent);
    }
}

/// A goal and whether it was reached.
pub(super) struct Verdict {
    pub(super) what: String,
    pub(super) goal: String,
    pub(super) reached: String,
    pub(super) is_met: bool,
}

impl Verdict {
    /// One about a peer that this machine could not run.
    fn unknown(what: String, goal: String) -> Verdict {
        Verdict {
            what,
            goal,
            reached: "not measured".to_owned(),
            is_met: false,
        }
    }
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
        .map(|one| {
            json!({ "what": one.what, "goal": one.goal, "reached": one.reached,
                "met": one.is_met })
        })
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

fn verdicts(outcome: &RowResult) -> Vec<Verdict> {
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
        let what = format!("{} / {}", outcome.row.title, arm.name());
        let goal_text = format!("≥ {goal}");
        let Some(theirs) = outcome.records.get(arm) else {
            verdicts.push(Verdict::unknown(what, goal_text));
            continue;
        };
        let ratio = Ratio::of(&ours.rates, &theirs.rates);
        verdicts.push(Verdict {
            what,
            goal: goal_text,
            reached: ratio.to_string(),
            is_met: ratio.median >= *goal,
        });
    }
    if let Some((arm, goal)) = cpu_goal {
        let what = format!("{}: CPU per operation / {}", outcome.row.title, arm.name());
        let goal_text = format!("≤ {goal}");
        let theirs = outcome.records.get(arm);
        verdicts.push(match theirs {
            None => Verdict::unknown(what, goal_text),
            Some(theirs) => {
                let ratio = Ratio::of(&ours.cpu_us, &theirs.cpu_us);
                Verdict {
                    what,
                    goal: goal_text,
                    reached: ratio.to_string(),
                    is_met: ratio.median <= *goal,
                }
            }
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

pub(super) fn all_verdicts(results: &Results) -> Vec<Verdict> {
    let mut all: Vec<Verdict> = results.outcomes.iter().flat_map(verdicts).collect();
    if let Some(tail) = &results.tail {
        let what = "p99.9 of reads while consistency points run / qsd raw, with the same writes";
        let (what, goal) = (what.to_owned(), "≤ 3".to_owned());
        let p999 = |arm| {
            let turns = tail.turns.get(&arm)?.iter();
            Some(turns.map(|turn| turn.points.p999.as_secs_f64()).collect())
        };
        let both: Option<(Vec<f64>, Vec<f64>)> = p999(Arm::Everglade).zip(p999(Arm::QemuRaw));
        all.push(match both {
            None => Verdict::unknown(what, goal),
            Some((ours, theirs)) => {
                let ratio = Ratio::of(&ours, &theirs);
                Verdict {
                    what,
                    goal,
                    reached: ratio.to_string(),
                    is_met: ratio.median <= 3.0,
                }
            }
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
         same client. [The rig](README.md) says how each figure is measured and what limits it;\n\
         [shortfalls](shortfalls.md) says which goals are not reached, and why.\n\n",
    );
    if results.is_quick {
        line!(
            text,
            "**A quick run for work on the rig: its turns are too short and too few. Do not\n\
             compare its figures with those of a whole run.**\n"
        );
    }
    goals(&mut text, &all_verdicts(results));
    line!(text, "\n![rates]({plot})\n\n## How\n");
    about_table(&mut text, &results.about);
    others(&mut text, results);
    definitions(&mut text);
    if !results.outcomes.is_empty() {
        line!(text, "\n## Loads\n\n{LOADS}");
        results
            .outcomes
            .iter()
            .for_each(|one| row(&mut text, one, ""));
    }
    if let Some(tail) = &results.tail {
        tail_table(&mut text, tail);
    }
    levels(&mut text, &results.levels);
    if !results.outcomes.is_empty() {
        line!(text, "\n## What the loads cost\n\n{COSTS}");
        results
            .outcomes
            .iter()
            .for_each(|one| costs(&mut text, one, ""));
    }
    if !results.levels.is_empty() {
        line!(
            text,
            "\n## What the loads cost as the pool fills\n\n{COSTS}"
        );
    }
    for level in &results.levels {
        let at = format!(", {} % in use", level.percent);
        level
            .outcomes
            .iter()
            .for_each(|one| costs(&mut text, one, &at));
    }
    alone(&mut text, results);
    text
}

const LOADS: &str = "| server | requests/s | ours / theirs | MB/s | p50 µs | p99 | p99.9 | max |\n\
                     | --- | --- | --- | --- | --- | --- | --- | --- |";
const COSTS: &str = "| server | CPU µs/request | of it kernel threads | device read, bytes per \
                     byte | device written, bytes per byte | device written, MB | host space, MiB \
                     |\n\
                     | --- | --- | --- | --- | --- | --- | --- |";

fn definitions(text: &mut String) {
    line!(
        text,
        "\n| figure | what it is |\n| --- | --- |\n\
         | rate | the median of the rounds, with their range |\n\
         | ratio | the median of the rounds' ratios, with its 95 % confidence interval \
         (bootstrap) |\n\
         | latency until answered | from sending a request to its answer, all rounds together |\n\
         | latency until durable | from sending a write to the answer that says that it is on the \
         disk: its own with FUA, otherwise that of the first flush sent after the write's \
         answer |\n\
         | latency of fio | without a socket; the median of the rounds; none where it flushes |\n\
         | CPU | user and system time of the whole server process and of all kernel threads, from \
         the first request until everything that the turn left behind is on the disk |\n\
         | device read, written | at the disk below all servers, over the same time, per byte of \
         the requests |\n\
         | host space | blocks that the host gave for the server's data, after the last round |"
    );
}

/// Whether the machine was quiet.
fn others(text: &mut String, results: &Results) {
    let filled = results.levels.iter().flat_map(|level| &level.outcomes);
    let outcomes: Vec<&RowResult> = results.outcomes.iter().chain(filled).collect();
    let share = |outcome: &&RowResult| {
        let (others, wall) = outcome.records.values().fold(
            (Duration::ZERO, Duration::ZERO),
            |(others, wall), record| (others + record.cost.others, wall + record.cost.wall),
        );
        others.as_secs_f64() * 100.0 / wall.as_secs_f64().max(f64::MIN_POSITIVE)
    };
    let shares: Vec<f64> = outcomes.iter().map(share).collect();
    if shares.is_empty() {
        return;
    }
    let records = outcomes.iter().flat_map(|outcome| outcome.records.values());
    let restless: u64 = records.map(|record| record.restless).sum();
    line!(
        text,
        "| CPU of processes with no part in a turn | {:.1} % of one processor, by row |\n\
         | turns after which the disk did not come to rest | {restless} |",
        Summary::of(&shares)
    );
}

fn heading(text: &mut String, outcome: &RowResult, at: &str, columns: usize) {
    let latency = match outcome.row.load.is_durable() {
        true => "durable",
        false => "answered",
    };
    line!(
        text,
        "| **{}{at}**: `{}`, turns of {:.1} s, latency until {latency} |{}",
        outcome.row.title,
        outcome.row.key,
        outcome.seconds,
        " |".repeat(columns - 1)
    );
}

fn row(text: &mut String, outcome: &RowResult, at: &str) {
    heading(text, outcome, at, 8);
    let ours = &outcome.records[&outcome.row.arms[0]];
    for arm in &outcome.row.arms {
        let Some(record) = outcome.records.get(arm) else {
            line!(text, "| {} | not measured | | | | | | |", arm.name());
            continue;
        };
        let summary = Summary::of(&record.rates);
        let ratio = if std::ptr::eq(record, ours) {
            String::new()
        } else {
            Ratio::of(&ours.rates, &record.rates).to_string()
        };
        let points = record.points.map_or("– | – | – | –".to_owned(), |points| {
            let all = [points.p50, points.p99, points.p999, points.max];
            all.map(us).join(" | ")
        });
        line!(
            text,
            "| {} | {summary} | {ratio} | {:.0} | {points} |",
            arm.name(),
            summary.median * f64::from(outcome.row.load.block) / 1e6,
        );
    }
}

fn costs(text: &mut String, outcome: &RowResult, at: &str) {
    heading(text, outcome, at, 7);
    for arm in &outcome.row.arms {
        let Some(record) = outcome.records.get(arm) else {
            continue;
        };
        let unknown = || "–".to_owned();
        let share = record.device_share(outcome.row.load.block);
        let device = record.cost.device;
        line!(
            text,
            "| {} | {:.2} | {:.2} | {} | {} | {} | {} |",
            arm.name(),
            record.cpu_us_for_one(),
            record.kernel_us_for_one(),
            share.map_or_else(unknown, |(read, _)| format!("{read:.2}")),
            share.map_or_else(unknown, |(_, written)| format!("{written:.2}")),
            device.map_or_else(unknown, |it| format!("{}", it.written / 1_000_000)),
            record
                .host_bytes
                .map_or_else(unknown, |it| (it >> 20).to_string()),
        );
    }
}

fn tail_table(text: &mut String, tail: &Tail) {
    line!(
        text,
        "\n## Reads while consistency points run\n\n\
         Random reads, queue 4, beside random writes, queue 32, at most 25,000 a second (100\n\
         MB/s). Turns of {:.0} s; each figure is the median of the rounds, with their range.\n\n\
         {TAILS}",
        tail.seconds
    );
    tails(text, tail, &tail::ARMS, "");
}

const TAILS: &str = "| server | p50 µs | p99 | p99.9 | max | reads/s | writes/s |\n\
                     | --- | --- | --- | --- | --- | --- | --- |";

fn tails(text: &mut String, tail: &Tail, arms: &[Arm], at: &str) {
    for arm in arms {
        let Some(turns) = tail.turns.get(arm) else {
            line!(text, "| {}{at} | not measured | | | | | |", arm.name());
            continue;
        };
        let of =
            |value: fn(&TailTurn) -> f64| Summary::of(&turns.iter().map(value).collect::<Vec<_>>());
        line!(
            text,
            "| {}{at} | {} | {} | {} | {} | {} | {} |",
            arm.name(),
            of(|turn| turn.points.p50.as_secs_f64() * 1e6),
            of(|turn| turn.points.p99.as_secs_f64() * 1e6),
            of(|turn| turn.points.p999.as_secs_f64() * 1e6),
            of(|turn| turn.points.max.as_secs_f64() * 1e6),
            of(|turn| turn.reads),
            of(|turn| turn.writes)
        );
    }
}

fn levels(text: &mut String, levels: &[Level]) {
    let [first, ..] = levels else {
        return;
    };
    line!(
        text,
        "\n## As the pool fills\n\n\
         The pool has {} GiB; the measured LUN has {} MiB of it, `--memory` is half of that. More\n\
         LUNs in the same pool hold real data and fill it, untimed: each is written in order,\n\
         then one block in eight is overwritten at random places. The raw file does not fill.\n\n\
         | level | in use before the first row |\n| --- | --- |",
        first.pool_bytes >> 30,
        (first.pool_bytes / fill::PARTS) >> 20
    );
    for level in levels {
        line!(text, "| {} % | {:.1} % |", level.percent, level.reached);
    }
    line!(text, "\n{LOADS}");
    for number in 0..first.outcomes.len() {
        for level in levels {
            let at = format!(", {} % in use", level.percent);
            level
                .outcomes
                .get(number)
                .iter()
                .for_each(|one| row(text, one, &at));
        }
    }
    line!(
        text,
        "\nReads beside at most 25,000 writes a second, turns of {:.0} s:\n\n{TAILS}",
        first.tail.seconds
    );
    for level in levels {
        let arms: Vec<Arm> = level.tail.turns.keys().copied().collect();
        tails(
            text,
            &level.tail,
            &arms,
            &format!(", {} % in use", level.percent),
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
            let arms = outcome.row.arms.iter().enumerate();
            let arms = arms.filter(|(_, arm)| outcome.records.contains_key(arm));
            let bars = arms.map(|(index, arm)| {
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
