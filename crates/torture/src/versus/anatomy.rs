//! Where the time of a request goes: system calls, wake-ups and CPU by function, counted by `perf`
//! while the server runs a load. Tracepoints and the clock are enough for that, so it works in a
//! guest too.

use std::fmt::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::load::{self, Kind, Load, Order};
use super::row::CACHED_BYTES;
use super::server::Server;
use crate::Failure;

/// Adds a line. Writing to memory does not fail.
macro_rules! line {
    ($text:expr, $($word:tt)*) => {
        let _ = writeln!($text, $($word)*);
    };
}

const SECONDS: u64 = 4;
/// Functions shown of each load.
const FUNCTIONS: usize = 3;
/// What is counted.
const EVENTS: [(&str, &str); 9] = [
    ("syscalls:sys_enter_epoll_pwait", "epoll_pwait (wake-ups)"),
    ("syscalls:sys_enter_readv", "readv"),
    ("syscalls:sys_enter_writev", "writev"),
    ("syscalls:sys_enter_io_uring_enter", "io_uring_enter"),
    ("syscalls:sys_enter_epoll_ctl", "epoll_ctl"),
    ("syscalls:sys_enter_write", "write (wakes a reactor)"),
    ("syscalls:sys_enter_futex", "futex"),
    ("context-switches", "context switches"),
    ("page-faults", "page faults"),
];

/// A load and what it shows.
fn loads(bytes: u64) -> [(&'static str, Load); 5] {
    let load = |kind, bytes| Load {
        kind,
        order: Order::Random,
        block: 4096,
        depth: 32,
        jobs: 1,
        bytes,
        pace: None,
    };
    [
        ("read hit", load(Kind::Read, CACHED_BYTES)),
        ("read miss", load(Kind::Read, bytes)),
        ("overwrite", load(Kind::Write, bytes)),
        (
            "overwrite, a flush after every 8",
            load(Kind::WriteFlush(8), bytes),
        ),
        (
            "a write and its flush, alone",
            Load {
                depth: 1,
                ..load(Kind::WriteThenFlush, bytes)
            },
        ),
    ]
}

/// Runs the loads and returns the measured part of the page.
///
/// # Errors
/// If the server fails, or `perf` may not be used here.
pub fn run(server: &Server, bytes: u64) -> Result<String, Failure> {
    let problem = |error: std::io::Error| Failure::rig("load", &error);
    load::fill(&server.socket, &server.export, bytes).map_err(problem)?;
    let mut looks = Vec::new();
    for (name, load) in loads(bytes) {
        if load.bytes == CACHED_BYTES {
            load::read_all(&server.socket, &server.export, CACHED_BYTES).map_err(problem)?;
        }
        // Twice, so that neither way of looking costs the other.
        let (counts, _, counted) = watched(server, &load, Look::Count)?;
        let before = server.cpu_by_subsystem()?;
        let (functions, cpu_us, sampled) = watched(server, &load, Look::Sample)?;
        let subsystems = server.cpu_by_subsystem()?.into_iter().zip(before);
        let subsystems =
            subsystems.map(|((name, now), (_, before))| (name, (now - before) * 1e6 / sampled));
        looks.push(Seen {
            name: format!("{name}, q{}", load.depth),
            cpu_us,
            every_us: Duration::from_secs(SECONDS).as_secs_f64() * 1e6 / counted,
            events: counts_of(&counts)
                .into_iter()
                .map(|count| count / counted)
                .collect(),
            functions: shares(&functions),
            subsystems: subsystems.collect(),
        });
    }
    Ok(tables(&looks))
}

/// What `perf` saw of one load.
struct Seen {
    name: String,
    /// Of the server, for a request.
    cpu_us: f64,
    /// Between two answers.
    every_us: f64,
    /// For a request, in the order of [`EVENTS`].
    events: Vec<f64>,
    /// Share in percent, and name; the largest first.
    functions: Vec<(f64, String)>,
    /// Name, and CPU microseconds of a request.
    subsystems: Vec<(String, f64)>,
}

/// One table of events, one of functions.
fn tables(looks: &[Seen]) -> String {
    let row = |word: &str, cell: &dyn Fn(&Seen) -> String| {
        let cells: Vec<String> = looks.iter().map(cell).collect();
        format!("| {word} | {} |\n", cells.join(" | "))
    };
    let mut text = String::from("\n## One request of 4 KiB in numbers\n\n");
    text.push_str(&row("for one request", &|seen| seen.name.clone()));
    text.push_str(&row("---", &|_| "---".to_owned()));
    text.push_str(&row("CPU of the server, µs", &|seen| {
        format!("{:.2}", seen.cpu_us)
    }));
    text.push_str(&row("time between answers, µs", &|seen| {
        format!("{:.1}", seen.every_us)
    }));
    for (index, (_, words)) in EVENTS.iter().enumerate() {
        text.push_str(&row(words, &|seen| format!("{:.4}", seen.events[index])));
    }
    text.push_str(&row("requests per wake-up", &|seen| {
        let wakeups = seen.events[0];
        if wakeups > 0.0 {
            format!("{:.1}", 1.0 / wakeups)
        } else {
            String::new()
        }
    }));
    text.push_str(
        "\n## CPU time by subsystem\n\n\
        µs of a request, by the server's own count (`everglade_cpu_seconds_total`). What a load\n\
        leaves to a later consistency point is counted with the next load.\n\n",
    );
    text.push_str(&row("subsystem", &|seen| seen.name.clone()));
    text.push_str(&row("---", &|_| "---".to_owned()));
    let names = looks.first().map_or(&[][..], |seen| &seen.subsystems);
    for (index, (name, _)) in names.iter().enumerate() {
        text.push_str(&row(name, &|seen| {
            let us = seen.subsystems.get(index).map_or(0.0, |(_, us)| *us);
            format!("{us:.2}")
        }));
    }
    line!(
        text,
        "\n## Where the CPU time goes\n\n\
         The first {FUNCTIONS} functions of each load; `[k]` is the kernel.\n\n\
         | load | function | share | µs of a request |\n| --- | --- | --- | --- |"
    );
    for seen in looks {
        for (share, function) in seen.functions.iter().take(FUNCTIONS) {
            line!(
                text,
                "| {} | `{function}` | {share:.1} % | {:.2} |",
                seen.name,
                share * seen.cpu_us / 100.0
            );
        }
    }
    text
}

enum Look {
    Count,
    Sample,
}

/// Runs a load while `perf` looks. What it said, CPU microseconds and the number of requests.
fn watched(server: &Server, load: &Load, look: Look) -> Result<(String, f64, f64), Failure> {
    let pid = server.pid().to_string();
    let data = std::env::temp_dir().join(format!("everglade-anatomy-{pid}"));
    let mut command = Command::new("perf");
    match look {
        Look::Count => {
            let events = EVENTS.map(|(event, _)| event).join(",");
            command.args(["stat", "-x", ";", "-e", &events, "-p", &pid]);
        }
        Look::Sample => {
            command
                .args(["record", "-q", "-F", "1999", "-p", &pid, "-o"])
                .arg(&data);
        }
    }
    command.args(["--", "sleep", &SECONDS.to_string()]);
    let before = server.cpu()?;
    let watcher = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let watcher = watcher.map_err(|error| Failure::rig("start perf", &error))?;
    let sample = load
        .run(
            &server.socket,
            &server.export,
            Duration::from_secs(SECONDS),
            1,
        )
        .map_err(|error| Failure::rig("load", &error))?;
    let cpu = server.cpu()?.saturating_sub(before);
    let output = watcher
        .wait_with_output()
        .map_err(|error| Failure::rig("perf", &error))?;
    let mut said = String::from_utf8_lossy(&output.stderr).into_owned();
    if matches!(look, Look::Sample) {
        let report = Command::new("perf")
            .args([
                "report",
                "--no-children",
                "--sort",
                "symbol",
                "--stdio",
                "-i",
            ])
            .arg(&data)
            .output();
        let report = report.map_err(|error| Failure::rig("perf report", &error))?;
        said = String::from_utf8_lossy(&report.stdout).into_owned();
        // It is in the folder for what may be lost.
        let _ = std::fs::remove_file(&data);
    }
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    let operations = sample.operations.max(1) as f64;
    Ok((said, cpu.as_secs_f64() * 1e6 / operations, operations))
}

/// The counts in the order of the events.
fn counts_of(said: &str) -> Vec<f64> {
    let count = |event: &str| {
        let is_it = |line: &&str| line.split(';').nth(2) == Some(event);
        let line = said.lines().find(is_it)?;
        line.split(';').next()?.parse().ok()
    };
    EVENTS
        .iter()
        .map(|(event, _)| count(event).unwrap_or(0.0))
        .collect()
}

/// `  12.34%  [k] function` as share and function.
fn shares(report: &str) -> Vec<(f64, String)> {
    let share = |line: &str| {
        let (share, rest) = line.trim().split_once('%')?;
        let name = rest.trim().trim_end_matches(['-', ' ']).to_owned();
        Some((share.parse().ok()?, name))
    };
    report
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(share)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_rows_and_loads_are_columns() {
        let seen = |name: &str, wakeups: f64| Seen {
            name: name.to_owned(),
            cpu_us: 2.0,
            every_us: 4.0,
            events: vec![wakeups; EVENTS.len()],
            functions: vec![(25.0, format!("[.] of {name}")); FUNCTIONS + 1],
            subsystems: vec![("client".to_owned(), wakeups), ("journal".to_owned(), 1.0)],
        };
        let text = tables(&[seen("read", 0.5), seen("write", 0.0)]);
        assert!(text.contains("| for one request | read | write |\n| --- | --- | --- |\n"));
        assert!(text.contains("| readv | 0.5000 | 0.0000 |\n"));
        assert!(text.contains("| client | 0.50 | 0.00 |\n| journal | 1.00 | 1.00 |\n"));
        assert!(text.contains("| requests per wake-up | 2.0 |  |\n"));
        let row = "| read | `[.] of read` | 25.0 % | 0.50 |\n";
        assert_eq!(text.matches(row).count(), FUNCTIONS, "{text}");
    }

    #[test]
    fn what_perf_says_is_understood() {
        let said = "120;;syscalls:sys_enter_readv;1;100.00;;\n\
                    7;;syscalls:sys_enter_writev;1;100.00;;\n\
                    <not counted>;;page-faults;0;;;\n";
        assert_eq!(counts_of(said)[1], 120.0);
        assert_eq!(counts_of(said)[5], 0.0, "writev is not write");
        assert_eq!(counts_of(said)[8], 0.0);
        let report = "# head\n\n    24.42%  [k] _copy_from_iter      -      -  \n";
        assert_eq!(shares(report), [(24.42, "[k] _copy_from_iter".to_owned())]);
    }
}
