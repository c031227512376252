//! `cargo xtask gen`: documents made from the program itself, so that they cannot drift.
//!
//! Now: `docs/operating/command-line.md`, from the binary's own help. `--check` writes nothing and
//! fails if a document is not what would be written.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use crate::step::{begin, cargo, end};
use crate::tally::Tally;
use crate::{Usage, place};

const COMMAND_LINE: &str = "docs/operating/command-line.md";
const HEADER: &str = "# Command line\n\n\
    <!-- Written by `cargo xtask gen`. Change crates/everglade/src/args.rs or crates/cli/src/verb.rs instead. -->\n\n\
    Flags win over `EVERGLADE_*` in the environment, and those over the configuration file.\n";

/// Each becomes a section.
const HELP: [&[&str]; 15] = [
    &[],
    &["serve"],
    &["aggregate", "create"],
    &["aggregate", "show"],
    &["volume", "create"],
    &["volume", "show"],
    &["volume", "delete"],
    &["lun", "create"],
    &["lun", "show"],
    &["lun", "resize"],
    &["lun", "delete"],
    &["status"],
    &["df"],
    &["check"],
    &["version"],
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
    /// Where the tests leave it: beside this program's own folder.
    pub(crate) fn built_by_tests() -> Binary {
        let folder = std::env::current_exe()
            .ok()
            .and_then(|this| Some(this.parent()?.parent()?.to_owned()));
        match folder.map(|folder| folder.join("release/everglade")) {
            Some(path) if path.is_file() => Binary::Built(path),
            _ => Binary::ToBuild,
        }
    }
}

/// The verb.
pub(crate) fn run(words: &[String]) -> Result<ExitCode, Usage> {
    let mut tally = Tally::default();
    match words {
        [] => write(&mut tally),
        [word] if word == "--check" => verify(&mut tally, &Binary::ToBuild),
        [word, ..] => return Err(Usage(format!("unexpected '{word}'"))),
    }
    Ok(tally.finish())
}

fn write(tally: &mut Tally) {
    let begun = begin("generated documents");
    let outcome = command_line(&Binary::ToBuild).and_then(|text| {
        fs::write(place::root().join(COMMAND_LINE), text).map_err(|error| error.to_string())
    });
    conclude(tally, begun, outcome);
}

/// Part of `test`.
pub(crate) fn verify(tally: &mut Tally, binary: &Binary) {
    let begun = begin("generated documents");
    let outcome = command_line(binary).and_then(|text| {
        let current = fs::read_to_string(place::root().join(COMMAND_LINE)).unwrap_or_default();
        if current == text {
            Ok(())
        } else {
            Err(format!(
                "{COMMAND_LINE} is stale; run 'cargo xtask gen' and commit the result"
            ))
        }
    });
    conclude(tally, begun, outcome);
}

fn conclude(tally: &mut Tally, begun: std::time::Instant, outcome: Result<(), String>) {
    end("generated documents", begun, outcome.is_ok());
    match outcome {
        Ok(()) => tally.pass(1),
        Err(problem) => tally.fail(problem),
    }
}

/// The document, from the binary's own words.
fn command_line(binary: &Binary) -> Result<String, String> {
    let mut text = HEADER.to_owned();
    for words in HELP {
        let title = [&["everglade"], words].concat().join(" ");
        let output = help(binary, words)
            .output()
            .map_err(|error| format!("run '{title}': {error}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("'{title} --help' failed: {said}"));
        }
        let said = String::from_utf8_lossy(&output.stdout);
        let lines: Vec<_> = said.lines().map(str::trim_end).collect();
        text.push_str(&format!(
            "\n## {title}\n\n```text\n{}\n```\n",
            lines.join("\n").trim_end()
        ));
    }
    Ok(text)
}

/// Without a terminal and `COLUMNS`, help is 100 columns wide on every machine.
fn help(binary: &Binary, words: &[&str]) -> Command {
    let mut command = match binary {
        Binary::Built(path) => Command::new(path),
        Binary::ToBuild => cargo(&[
            "run",
            "--quiet",
            "--release",
            "--package",
            "everglade",
            "--",
        ]),
    };
    command.args(words).arg("--help");
    command
        .env_remove("COLUMNS")
        .stdin(Stdio::null())
        .stderr(Stdio::piped());
    command
}
