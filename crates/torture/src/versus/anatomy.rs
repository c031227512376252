//! Where the time of a request goes: system calls, wake-ups and CPU by function, counted by `perf` while the
//! server runs a load. Tracepoints and the clock are enough for that, so it works in a guest too.

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
const FUNCTIONS: usize = 40;
/// What is counted.
const EVENTS: [(&str, &str); 9] = [
    ("syscalls:sys_enter_epoll_pwait", "epoll_pwait (wake-ups)"),
    ("syscalls:sys_enter_readv", "readv"),
    ("syscalls:sys_enter_writev", "writev"),
    ("syscalls:sys_enter_io_uring_enter", "io_uring_enter"),
    ("syscalls:sys_enter_epoll_ctl", "epoll_ctl"),
    ("syscalls:sys_enter_write", "write (bells)"),
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
    let mut text = String::new();
    for (name, load) in loads(bytes) {
        if load.bytes == CACHED_BYTES {
            load::read_all(&server.socket, &server.export, CACHED_BYTES).map_err(problem)?;
        }
        // Twice, so that neither way of looking costs the other.
        let (counts, _, counted) = watched(server, &load, Look::Count)?;
        let (functions, cpu_us, _) = watched(server, &load, Look::Sample)?;
        line!(
            text,
            "\n## {name}, 4 KiB q{}\n\nCPU {cpu_us:.2} µs a request; one is done every {:.1} µs.\n",
            load.depth,
            Duration::from_secs(SECONDS).as_secs_f64() * 1e6 / counted
        );
        line!(text, "| event | for one request |\n| --- | --- |");
        let mut wakeups = None;
        for ((event, words), count) in EVENTS.iter().zip(counts_of(&counts)) {
            let each = count / counted;
            if event.ends_with("epoll_pwait") {
                wakeups = Some(each);
            }
            line!(text, "| {words} | {each:.4} |");
        }
        if let Some(wakeups) = wakeups.filter(|wakeups| *wakeups > 0.0) {
            line!(text, "| requests for one wake-up | {:.1} |", 1.0 / wakeups);
        }
        line!(
            text,
            "\n| function | share | µs of a request |\n| --- | --- | --- |"
        );
        for (share, function) in shares(&functions).into_iter().take(FUNCTIONS) {
            line!(
                text,
                "| `{function}` | {share:.1} % | {:.2} |",
                share * cpu_us / 100.0
            );
        }
    }
    Ok(text)
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
    fn what_perf_says_is_understood() {
        let said = "120;;syscalls:sys_enter_readv;1;100.00;;\n7;;syscalls:sys_enter_writev;1;100.00;;\n<not counted>;;page-faults;0;;;\n";
        assert_eq!(counts_of(said)[1], 120.0);
        assert_eq!(counts_of(said)[5], 0.0, "writev is not write");
        assert_eq!(counts_of(said)[8], 0.0);
        let report = "# head\n\n    24.42%  [k] _copy_from_iter      -      -  \n";
        assert_eq!(shares(report), [(24.42, "[k] _copy_from_iter".to_owned())]);
    }
}
