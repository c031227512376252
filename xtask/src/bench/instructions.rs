//! Instructions of the hot paths, counted by callgrind: a guard against regressions that a noisy
//! machine cannot fool. Part of `cargo xtask test`.
//!
//! `docs/benchmarks/instructions.txt` has the limits. A path may be [`SLACK_PERCENT`] above its
//! limit: the tables of the server hash with a key that differs from run to run. Whoever makes a
//! path longer on purpose, or shorter, runs `cargo xtask bench instructions --update` and says why
//! in the commit.
//!
//! Counts are of one compiler and one kind of CPU (the C library copies memory differently on
//! another), so the file names both, and elsewhere nothing is judged.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use crate::place;
use crate::step::{begin, cargo, end, whole};
use crate::tally::Tally;
use crate::tools;

/// The paths whose instructions are counted, and the number of requests of each.
pub(super) const PATHS: [(&str, u64); 7] = [
    ("cached-read", 8192),
    ("read-miss", 4096),
    ("overwrite", 4096),
    ("flushed-overwrite", 4096),
    ("clean", 4096),
    ("stream", 4096),
    ("stream-clean", 4096),
];
/// A count more than this above its limit is a failure.
const SLACK_PERCENT: u64 = 3;
/// A count more than this below its limit is reported, so that the limit is lowered.
const GAIN_PERCENT: u64 = 5;

/// Where the limits are.
const FILE: &str = "instructions.txt";

fn file(name: &str) -> PathBuf {
    place::root().join("docs/benchmarks").join(name)
}

/// Counts the instructions of each path, and fails where a limit is exceeded.
pub(crate) fn verify(tally: &mut Tally) {
    let text = std::fs::read_to_string(file(FILE)).unwrap_or_default();
    let (limits, ground) = read(&text);
    if ground.as_deref() != Some(this_ground().as_str()) {
        let reason = format!("instruction limits are of {}", ground.unwrap_or_default());
        println!(
            "skipped instructions: {reason}; here it is {}",
            this_ground()
        );
        return tally.skip(reason);
    }
    if !has_valgrind(tally) || place::built_by_tests(PROGRAM).is_none() && !is_ready(tally) {
        return;
    }
    let Some(counts) = count(tally) else { return };
    let begun = begin("instructions of the hot paths");
    let mut all = true;
    for (path, count) in counts {
        let limit = limits.get(path).copied().unwrap_or(0);
        let passed = count <= limit + limit * SLACK_PERCENT / 100;
        let note = if !passed {
            "  TOO MANY: find out why, or `cargo xtask bench instructions --update` and say why"
        } else if count + limit * GAIN_PERCENT / 100 < limit {
            "  fewer than written down: `cargo xtask bench instructions --update`"
        } else {
            ""
        };
        println!("{path:<20} {count:>8} of {limit:>8}{note}");
        if passed {
            tally.pass(1);
        } else {
            tally.fail(format!("instructions of {path}"));
        }
        all &= passed;
    }
    end("instructions of the hot paths", begun, all);
}

/// Counts the instructions of each path, and writes the counts as the new limits.
pub(crate) fn update(tally: &mut Tally) {
    if !is_ready(tally) {
        return;
    }
    let Some(counts) = count(tally) else { return };
    let mut text = String::from(
        "# Instructions for one request of each hot path; a limit of `cargo xtask test`.\n\
         # Written by `cargo xtask bench instructions --update`; see \
         xtask/src/bench/instructions.rs.\n",
    );
    text.push_str(&format!("ground {}\n", this_ground()));
    for (path, count) in counts {
        println!("{path:<20} {count:>8}");
        text.push_str(&format!("{path} {count}\n"));
    }
    put(tally, FILE, &text);
}

/// Writes a file of `docs/benchmarks`.
pub(super) fn put(tally: &mut Tally, name: &str, text: &str) {
    let file = file(name);
    match std::fs::write(&file, text) {
        Ok(()) => tally.pass(1),
        Err(error) => tally.fail(format!("write {}: {error}", file.display())),
    }
}

/// Limits by path, and what they were counted on.
fn read(text: &str) -> (BTreeMap<&str, u64>, Option<String>) {
    let mut limits = BTreeMap::new();
    let mut ground = None;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        match line.split_once(' ') {
            Some(("ground", rest)) => ground = Some(rest.to_owned()),
            Some((path, count)) => {
                limits.insert(path, count.parse().unwrap_or(0));
            }
            None => {}
        }
    }
    (limits, ground)
}

/// What counts depend on beside our code.
pub(super) fn this_ground() -> String {
    let said = Command::new("rustc").arg("--version").output();
    let compiler = said.map_or_else(
        |error| error.to_string(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    );
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let has = |flag: &str| cpu.split_whitespace().any(|word| word == flag);
    let wide = if has("avx2") { "avx2" } else { "no avx2" };
    let carryless = if has("pclmulqdq") {
        "pclmulqdq"
    } else {
        "no pclmulqdq"
    };
    format!(
        "{compiler}, {}, {wide}, {carryless}",
        std::env::consts::ARCH
    )
}

/// Instructions for one request of each path.
fn count(tally: &mut Tally) -> Option<Vec<(&'static str, u64)>> {
    let begun = begin("counting instructions");
    let counts: Option<Vec<_>> = PATHS
        .into_iter()
        .map(|(path, times)| {
            let counts = counted(path, times, &[])?;
            let total = counts.first().filter(|total| **total > 0)?;
            Some((path, total / times))
        })
        .collect();
    end("counting instructions", begun, counts.is_some());
    if counts.is_none() {
        tally.fail("counting instructions");
    }
    counts
}

/// The program that runs them.
const PROGRAM: &str = "hotpath";

/// The program is built, and there is something to run it under. Otherwise the tally says why not.
pub(super) fn is_ready(tally: &mut Tally) -> bool {
    if !has_valgrind(tally) {
        return false;
    }
    let mut build = cargo(&[
        "build",
        "--quiet",
        "--release",
        "--package",
        "everglade-testing",
    ]);
    build.args(["--bin", "hotpath"]);
    let failed = tally.failed();
    whole(tally, "building the hot paths", &mut build);
    tally.failed() == failed
}

fn has_valgrind(tally: &mut Tally) -> bool {
    let found = tools::find("valgrind").is_some();
    if !found {
        tally.skip("not installed: valgrind".to_owned());
    }
    found
}

/// What callgrind counts inside of the function that is measured, by kind of event; instructions
/// come first.
pub(super) fn counted(path: &str, times: u64, options: &[&str]) -> Option<Vec<u64>> {
    let output = Command::new("valgrind")
        .args([
            "--tool=callgrind",
            "--callgrind-out-file=/dev/null",
            "--toggle-collect=hotpath::measured",
        ])
        .args(options)
        .arg(program())
        .args([path, &times.to_string()])
        .output();
    let output = match output {
        Ok(output) => output,
        Err(error) => {
            println!("cannot start valgrind: {error}");
            return None;
        }
    };
    let said = String::from_utf8_lossy(&output.stderr);
    let counts = collected(&said).filter(|_| output.status.success());
    if counts.is_none() {
        println!("{path}: {}\n{said}", output.status);
    }
    counts
}

fn program() -> PathBuf {
    place::program(PROGRAM)
}

/// What callgrind says at its end: `==1== Collected : 123`, or more numbers.
fn collected(said: &str) -> Option<Vec<u64>> {
    let line = said.lines().find(|line| line.contains("Collected :"))?;
    let (_, counts) = line.split_once("Collected :")?;
    counts
        .split_whitespace()
        .map(|count| count.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_callgrind_says_is_understood() {
        let said = "==7== Events    : Ir\n==7== Collected : 21365282\n==7==\n";
        assert_eq!(collected(said), Some(vec![21_365_282]));
        assert_eq!(collected("==7== Collected : 5 6"), Some(vec![5, 6]));
        assert_eq!(collected("nothing"), None);
    }

    #[test]
    fn limits_are_read_with_what_they_hold_for() {
        let (limits, ground) = read("# words\nground rustc 1, x86_64\nclean 12\nread 3\n");
        assert_eq!(limits["clean"], 12);
        assert_eq!(limits.len(), 2);
        assert_eq!(ground.as_deref(), Some("rustc 1, x86_64"));
    }

    #[test]
    fn every_path_has_a_limit() {
        let text = std::fs::read_to_string(file(FILE)).unwrap();
        let (limits, ground) = read(&text);
        assert!(ground.is_some());
        assert!(PATHS.iter().all(|(path, _)| limits.contains_key(path)));
    }
}
