//! Clock, threads, files and sockets come in through `env` (docs/contributing/house-style.md §6),
//! or a seed would not replay a run.
//!
//! The crates that run inside the simulation name none of the standard library's doors. Their tests
//! may, and so may the crates that *are* the outside: `env`, the daemon, the binary, the rigs.

use super::{Problem, Source};

/// Crates that run inside the simulation, or are pure.
const INSIDE: [&str; 14] = [
    "format",
    "target",
    "affinity",
    "raid",
    "journal",
    "pagecache",
    "freespace",
    "readpath",
    "engine",
    "nbd",
    "nvme_tcp",
    "iscsi",
    "nfs",
    "check",
];

/// A *door*, a name in the standard library that bypasses `env`, and what to use instead.
const DOORS: [(&str, &str); 9] = [
    ("Instant::now", "Outside::now"),
    ("SystemTime::now", "Outside::wall_seconds"),
    ("thread::spawn", "a reactor's turn, or a worker of env"),
    ("thread::Builder", "a reactor's turn, or a worker of env"),
    ("thread::sleep", "a timer of the reactor"),
    ("std::fs", "Outside::submit, or Storage at start-up"),
    ("std::net", "a socket of env"),
    ("std::os::unix::net", "a socket of env"),
    (
        "RandomState",
        "a hasher with a fixed seed, or Outside::random",
    ),
];

pub(super) fn check(sources: &[Source]) -> Vec<Problem> {
    sources
        .iter()
        .filter(|source| source.is("rs") && is_inside(source))
        .flat_map(doors)
        .collect()
}

/// Code of a crate that runs inside, and not a test.
fn is_inside(source: &Source) -> bool {
    let parts: Vec<_> = source
        .path
        .iter()
        .map(|part| part.to_string_lossy())
        .collect();
    let [crates, name, src, rest @ ..] = parts.as_slice() else {
        return false;
    };
    let is_test = rest
        .iter()
        .any(|part| part == "tests" || part == "tests.rs" || part == "bin");
    crates == "crates" && src == "src" && INSIDE.contains(&name.as_ref()) && !is_test
}

fn doors(source: &Source) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (number, line) in source.lines() {
        let line = line.trim_start();
        if line.starts_with("#[cfg(test)]") {
            // Unit tests come last in a file.
            break;
        }
        if line.starts_with("//") {
            continue;
        }
        for (door, instead) in DOORS {
            if line.contains(door) {
                let explanation = format!(
                    "'{door}' goes outside past env, so a seed would not replay; use {instead}"
                );
                problems.push(Problem::new(source, number, explanation));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::super::{lines_of, source};
    use super::*;

    #[test]
    fn doors_are_found_inside_only_and_not_in_tests() {
        let text =
            "//! std::fs\nuse std::fs;\nfn a() {}\n#[cfg(test)]\nmod tests { use std::fs; }\n";
        let found = check(&[source("crates/engine/src/cp/mod.rs", text)]);
        assert_eq!(lines_of(&found), ["crates/engine/src/cp/mod.rs:2"]);
        for elsewhere in [
            "crates/env/src/file.rs",
            "crates/engine/src/cp/tests.rs",
            "crates/engine/tests/it/main.rs",
            "xtask/src/main.rs",
        ] {
            assert!(check(&[source(elsewhere, text)]).is_empty(), "{elsewhere}");
        }
    }
}
