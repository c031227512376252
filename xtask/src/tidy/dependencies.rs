//! The crate table is the architecture (docs/contributing/house-style.md §1,
//! docs/reference/conventions.md#crates).
//!
//! Every manifest below `crates/` may name only those of our crates that its row allows, in every
//! section but the development one, which may also name `testing`, `torture` and whatever `testing`
//! may: tests look at a crate from outside. A crate without a row has no place in the architecture.

use super::{Problem, Source};

/// A crate and ours it may depend on.
const TABLE: [(&str, &[&str]); 26] = [
    ("format", &[]),
    ("env", &[]),
    // Spans of a request carry the pages that devices fill (docs/design/design.md §2: owned buffers
    // in and out).
    ("target", &["env"]),
    ("api", &[]),
    ("affinity", &["env"]),
    ("raid", &["env", "format"]),
    ("journal", &["env", "format"]),
    // Pages are allocated by `env`, because devices read and write them.
    ("pagecache", &["format", "env"]),
    ("freespace", &["format"]),
    ("readpath", &["pagecache", "raid", "env", "format"]),
    (
        "engine",
        &[
            "format",
            "env",
            "target",
            "affinity",
            "raid",
            "journal",
            "pagecache",
            "freespace",
            "readpath",
        ],
    ),
    ("nbd", PROTOCOL),
    ("nvme_tcp", PROTOCOL),
    ("iscsi", PROTOCOL),
    ("nfs", PROTOCOL),
    ("fuse", PROTOCOL),
    (
        "server",
        &[
            "format",
            "env",
            "target",
            "api",
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
            "fuse",
            "console",
        ],
    ),
    ("cli", &["api"]),
    ("console", &["api"]),
    ("check", &["format", "env", "raid"]),
    ("everglade", &["server", "cli", "check"]),
    // Switches of mistakes. Crates of the product depend on it in the copy that
    // `cargo xtask planted` makes, and nowhere else.
    ("planted", &[]),
    ("testing", TESTING),
    // Judges the finished program from outside, so it shares nothing with it.
    ("torture", &[]),
    // Feeds the decoders of disk and wire.
    (
        "fuzz",
        &[
            "format", "env", "target", "api", "journal", "nbd", "iscsi", "nvme_tcp", "server",
        ],
    ),
    ("xtask", &[]),
];

const PROTOCOL: &[&str] = &["target", "env"];

/// Crates that `testing` may depend on: it simulates everything from the protocols down to the
/// devices.
const TESTING: &[&str] = &[
    "engine", "target", "env", "api", "format", "check", "nbd", "nvme_tcp", "iscsi", "nfs", "fuse",
    "planted",
];

pub(super) fn check(sources: &[Source]) -> Vec<Problem> {
    let manifests = sources
        .iter()
        .filter(|source| source.path.ends_with("Cargo.toml"));
    manifests.flat_map(manifest).collect()
}

/// Problems of one manifest. The root's has no dependencies of its own and is passed over.
fn manifest(source: &Source) -> Vec<Problem> {
    let folder = source.path.parent().and_then(|folder| folder.file_name());
    let Some(name) = folder.map(|folder| folder.to_string_lossy().into_owned()) else {
        return Vec::new();
    };
    let Some((_, allowed)) = TABLE.iter().find(|(known, _)| *known == name) else {
        let explanation = format!(
            "crate '{name}' has no row in the crate table; a new crate is a design conversation \
             first, then a row in xtask/src/tidy/dependencies.rs"
        );
        return vec![Problem::new(source, 0, explanation)];
    };
    let mut problems = Vec::new();
    let mut section = "";
    for (number, line) in source.lines() {
        let line = line.trim();
        if line.starts_with('[') {
            section = line;
        }
        let Some(dependency) = ours(line) else {
            continue;
        };
        let is_for_tests = section.contains("dev-dependencies")
            && (["testing", "torture"].contains(&dependency) || TESTING.contains(&dependency));
        if section.contains("dependencies") && !allowed.contains(&dependency) && !is_for_tests {
            let may = if allowed.is_empty() {
                "none of ours".to_owned()
            } else {
                allowed.join(", ")
            };
            let explanation = format!(
                "'{name}' depends on '{dependency}', which the crate table does not allow (it may \
                 use: {may}); the table is the architecture, so move the code, or discuss the table"
            );
            problems.push(Problem::new(source, number, explanation));
        }
    }
    problems
}

/// The crate of ours that a line of a manifest names: `everglade-env.workspace = true`,
/// `[dependencies.everglade-env]`, `everglade-env = { … }`.
fn ours(line: &str) -> Option<&str> {
    let from = match line.strip_prefix('[') {
        Some(section) => section.rsplit_once("dependencies.")?.1,
        None => line,
    };
    let name = from.strip_prefix("everglade-")?;
    let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-');
    Some(&name[..end.unwrap_or(name.len())])
}

#[cfg(test)]
mod tests {
    use super::super::{lines_of, source};
    use super::*;

    #[test]
    fn rows_name_crates_of_the_table_and_have_no_cycle() {
        let rank = |name: &str| TABLE.iter().position(|(known, _)| *known == name);
        for (name, allowed) in TABLE {
            for dependency in allowed {
                assert!(rank(dependency).is_some(), "{dependency}");
                assert_ne!(*dependency, name);
            }
        }
    }

    #[test]
    fn a_dependency_outside_the_row_is_found_in_any_spelling() {
        let problems = check(&[source(
            "crates/format/Cargo.toml",
            "[package]\nname = \"everglade-format\"\n[dependencies]\neverglade-env.workspace = \
            true\n\
            [dependencies.everglade-engine]\nworkspace = true\n[build-dependencies]\n\
            everglade-nbd = { path = \"../nbd\" }\n",
        )]);
        let at = ["4", "5", "8"].map(|line| format!("crates/format/Cargo.toml:{line}"));
        assert_eq!(lines_of(&problems), at);
    }

    #[test]
    fn tests_may_look_from_outside() {
        let text = "[dev-dependencies]\neverglade-testing.workspace = true\n";
        assert!(check(&[source("crates/nbd/Cargo.toml", text)]).is_empty());
        let text = "[dependencies]\neverglade-testing.workspace = true\n";
        assert_eq!(check(&[source("crates/nbd/Cargo.toml", text)]).len(), 1);
        let text = "[dev-dependencies]\neverglade-server.workspace = true\n";
        assert_eq!(check(&[source("crates/nbd/Cargo.toml", text)]).len(), 1);
    }

    #[test]
    fn a_crate_without_a_row_is_found() {
        let found = check(&[source("crates/util/Cargo.toml", "")]);
        assert_eq!(lines_of(&found), ["crates/util/Cargo.toml:0"]);
        assert!(check(&[source("Cargo.toml", "everglade-env = 1")]).is_empty());
    }
}
