//! `cargo xtask gen`: documents made from the program itself, so that they cannot drift.
//!
//! The program prints each part (`everglade reference PART`); here it is put under a heading and
//! into its file. `--check` writes nothing and fails if a document is not what would be written.
//! Manual pages and completion scripts need no check: `cargo xtask dist` makes them whenever it
//! makes a package.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use crate::step::{begin, cargo, end};
use crate::tally::Tally;
use crate::{Usage, place};

/// A generated document: its file, the part of the reference that it has, and the text above that
/// part.
struct Document {
    path: &'static str,
    part: &'static str,
    header: &'static str,
}

const DOCUMENTS: [Document; 4] = [
    Document {
        path: "docs/operating/command-line.md",
        part: "command-line",
        header: "# Command line\n\n\
            <!-- Written by `cargo xtask gen`. The text is in crates/everglade/src/args.rs and \
            crates/cli. -->\n\n\
            Flags win over `EVERGLADE_*` in the environment, and those win over the configuration\n\
            file. Every verb takes the global options; this page lists them once.\n",
    },
    Document {
        path: "docs/reference/openapi.json",
        part: "openapi",
        header: "",
    },
    Document {
        path: "docs/reference/paths.md",
        part: "paths",
        header: "# Paths\n\n\
            <!-- Written by `cargo xtask gen`. Change crates/api/src/openapi/route.rs instead. \
            -->\n\n\
            All paths of [REST](rest.md); [openapi.json](openapi.json) has the schemas. \
            Collections take\n\
            `fields`, `order_by`, `max_records`, `cursor` and filters by field.\n\n",
    },
    Document {
        path: "docs/reference/metrics.md",
        part: "metrics",
        header: "# Metrics\n\n\
            <!-- Written by `cargo xtask gen`. Change crates/server/src/metrics/table.rs instead. \
            -->\n\n\
            The daemon serves them on `http://127.0.0.1:9810/metrics`; `[metrics] tcp` changes \
            the\n\
            address. Counters begin at 0 when the daemon starts. A\n\
            protocol that is off has no metrics.\n\
            [Monitoring](../operating/monitoring.md) says which of them matter.\n\n",
    },
];

/// The program to ask.
pub(crate) enum Binary {
    /// Cargo makes sure that it is fresh.
    ToBuild,
    /// The tests have just built it. Building it alone would build it again, because its
    /// dependencies are made with other features when tests are not among those who want them.
    Built(PathBuf),
}

impl Binary {
    /// Where the tests leave it.
    pub(crate) fn built_by_tests() -> Binary {
        place::built_by_tests("everglade").map_or(Binary::ToBuild, Binary::Built)
    }

    /// To run it with these words. Without a terminal and `COLUMNS`, help is as wide on every
    /// machine.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = match self {
            Binary::Built(path) => Command::new(path),
            Binary::ToBuild => cargo(&[
                "run",
                "--quiet",
                "--release",
                "--package",
                "everglade",
                "--bin",
                "everglade",
                "--",
            ]),
        };
        command
            .args(words)
            .env_remove("COLUMNS")
            .stdin(Stdio::null())
            .stderr(Stdio::piped());
        command
    }

    /// What it prints.
    pub(crate) fn print(&self, words: &[&str]) -> Result<String, String> {
        let title = words.join(" ");
        let output = self
            .command(words)
            .output()
            .map_err(|error| format!("run 'everglade {title}': {error}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("'everglade {title}' failed: {said}"));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// The verb.
pub(crate) fn run(words: &[String]) -> Result<ExitCode, Usage> {
    let mut tally = Tally::default();
    match words {
        [] => each(&mut tally, &Binary::ToBuild, write),
        [word] if word == "--check" => verify(&mut tally, &Binary::ToBuild),
        [word, ..] => return Err(Usage(format!("unexpected '{word}'"))),
    }
    Ok(tally.finish())
}

/// Part of `test`.
pub(crate) fn verify(tally: &mut Tally, binary: &Binary) {
    each(tally, binary, compare);
}

fn each(tally: &mut Tally, binary: &Binary, settle: fn(&str, &str) -> Result<(), String>) {
    let begun = begin("generated documents");
    let mut is_good = true;
    for document in &DOCUMENTS {
        let text = binary.print(&["reference", document.part]);
        let outcome =
            text.and_then(|text| settle(document.path, &format!("{}{text}", document.header)));
        is_good &= outcome.is_ok();
        match outcome {
            Ok(()) => tally.pass(1),
            Err(problem) => tally.fail(problem),
        }
    }
    end("generated documents", begun, is_good);
}

fn write(path: &str, text: &str) -> Result<(), String> {
    fs::write(place::root().join(path), text).map_err(|error| format!("write {path}: {error}"))
}

fn compare(path: &str, text: &str) -> Result<(), String> {
    let current = fs::read_to_string(place::root().join(path)).unwrap_or_default();
    if current == text {
        return Ok(());
    }
    Err(format!(
        "{path} is stale; run 'cargo xtask gen' and commit the result"
    ))
}
