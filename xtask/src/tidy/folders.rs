//! The table of rooms: what a crate's folders and top files may import from each other (decision
//! 0034).
//!
//! A crate of [`TABLE`] lists its rooms from the lowest to the highest. A room is a folder below
//! `src`, or a file there. It may import rooms that come before it and none that comes after, so no
//! two rooms import each other. A room that is not listed has no place in the crate.
//!
//! [`CIRCLES`] says how many groups of files may import each other in a circle, crate by crate. The
//! number only goes down: a new circle is a design conversation first.

use super::{Problem, Source, imports};

/// A crate and its rooms, the lowest first.
const TABLE: [(&str, &[&str]); 8] = [
    (
        "env",
        &[
            "lock", "action", "prefetch", "page", "disk", "outside", "clock", "transfer", "device",
            "gauge", "ring", "io_mode", "net", "random", "waker", "workers", "threads", "shared",
            "reactor", "world", "storage",
        ],
    ),
    (
        "engine",
        &[
            "read",
            "media",
            "tree",
            "change",
            "holders",
            "pool",
            "alloc",
            "mend",
            "home",
            "background",
            "snapshot",
            "admin",
            "ops",
            "cp",
            "mount",
            "shared",
            "open",
            "reactor",
        ],
    ),
    (
        "check",
        &[
            "problem",
            "side_kinds",
            "unreadable",
            "findings",
            "labels",
            "notes",
            "rows",
            "media",
            "report",
            "filesystem",
            "journal",
            "tree",
            "reference",
            "contents",
            "inodes",
            "names",
            "files",
            "bad",
            "sides",
            "usage",
            "superblock",
            "clones",
            "snapshots",
            "volume",
            "aggregate",
            "describe",
        ],
    ),
    ("nbd", &["wire", "metrics", "session"]),
    ("nvme_tcp", &["wire", "metrics", "controllers", "session"]),
    (
        "iscsi",
        &[
            "wire", "names", "metrics", "login", "scsi", "node", "settings", "session",
        ],
    ),
    (
        "server",
        &[
            "background",
            "interval",
            "config",
            "access",
            "datadir",
            "tls",
            "error",
            "devices",
            "descriptors",
            "records",
            "schedule",
            "stop",
            "listen",
            "seldom",
            "signal",
            "fronts",
            "plane",
            "administrator",
            "start",
            "ready",
            "rest",
            "checkup",
            "clerk",
            "keeper",
            "log",
            "metrics",
            "offline",
            "repair",
            "losses",
            "watch",
            "serve",
        ],
    ),
    (
        "testing",
        &[
            "counts", "digest", "rng", "seed", "model", "world", "system", "engine", "toy",
            "workload", "sim", "bin",
        ],
    ),
];

/// Circles across files, for crates that have any, each argued for in decision 0034.
const CIRCLES: [(&str, usize); 1] = [("engine", 1)];

pub(super) fn check(sources: &[Source]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (name, rooms) in TABLE {
        problems.extend(upward(sources, name, rooms));
    }
    for name in crates(sources) {
        let found = imports::circles(&imports::files(sources, &name));
        let allowed = CIRCLES.iter().find(|(known, _)| *known == name);
        let allowed = allowed.map_or(0, |(_, count)| *count);
        if found.len() != allowed {
            let circles: Vec<String> = found
                .iter()
                .map(|circle| circle.iter().cloned().collect::<Vec<_>>().join(", "))
                .collect();
            let explanation = format!(
                "crate '{name}' has {} circles of files that import each other, and {allowed} in \
                the table of xtask/src/tidy/folders.rs: {}; break the circle, or argue for it in \
                decision 0034",
                found.len(),
                circles.join(" | ")
            );
            let manifest = format!("crates/{name}/Cargo.toml");
            problems.push(Problem {
                path: manifest.into(),
                line: 0,
                explanation,
            });
        }
    }
    problems
}

/// One line for people: how many circles each crate has.
pub(super) fn summary(sources: &[Source]) -> String {
    let counts = crates(sources).into_iter().map(|name| {
        let count = imports::circles(&imports::files(sources, &name)).len();
        format!("{name} {count}")
    });
    format!(
        "circles across files: {}",
        counts.collect::<Vec<_>>().join(", ")
    )
}

/// Names of the crates.
fn crates(sources: &[Source]) -> Vec<String> {
    let mut names: Vec<String> = sources
        .iter()
        .filter_map(|source| {
            let mut parts = source.path.iter();
            (parts.next()? == "crates").then_some(())?;
            Some(parts.next()?.to_string_lossy().into_owned())
        })
        .collect();
    names.sort();
    names.dedup();
    names
}

/// Imports of a crate that lead to a higher room, and rooms that are not in the table.
fn upward(sources: &[Source], name: &str, rooms: &[&str]) -> Vec<Problem> {
    let rank = |room: &str| rooms.iter().position(|known| *known == room);
    let mut problems = Vec::new();
    for file in imports::files(sources, name) {
        let Some(own) = file.module.first() else {
            continue;
        };
        let Some(place) = rank(own) else {
            let explanation = format!(
                "'{own}' is no room of crate '{name}'; give it a line in \
                xtask/src/tidy/folders.rs, above what it imports"
            );
            problems.push(Problem::new(file.source, 0, explanation));
            continue;
        };
        for (line, path) in &file.paths {
            let Some(room) = path.first() else { continue };
            if rank(room).is_some_and(|other| other > place) {
                let explanation = format!(
                    "room '{own}' imports {}, which is in the higher room '{room}'; move the \
                    definition down, or hand the value in",
                    path.join("::")
                );
                problems.push(Problem::new(file.source, *line, explanation));
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
    fn an_import_of_a_higher_room_is_found() {
        let sources = [
            source("crates/x/src/lib.rs", "mod low;\nmod high;\n"),
            source("crates/x/src/low/mod.rs", "use crate::high::H;\n"),
            source(
                "crates/x/src/low/deep.rs",
                "use crate::low::L;\nfn f() { crate::high::g() }\n",
            ),
            source("crates/x/src/high.rs", "use crate::low::L;\n"),
        ];
        let found = upward(&sources, "x", &["low", "high"]);
        assert_eq!(
            lines_of(&found),
            ["crates/x/src/low/mod.rs:1", "crates/x/src/low/deep.rs:2"]
        );
    }

    #[test]
    fn a_room_without_a_line_is_found() {
        let sources = [source("crates/x/src/attic.rs", "")];
        assert_eq!(
            lines_of(&upward(&sources, "x", &["low"])),
            ["crates/x/src/attic.rs:0"]
        );
    }
}
