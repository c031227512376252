//! House checks as code (docs/contributing/house-style.md §9): few, cheap, and each failure
//! explains itself.
//!
//! A check is a function from the repository's texts to problems. It sees only what git would: no
//! build output. To add one: a file here, a line in [`CHECKS`].

mod citations;
mod columns;
mod dependencies;
mod folders;
mod headers;
mod imports;
mod leftovers;
mod links;
mod mechanisms;
mod names;
mod outside;
mod planted;
mod size;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::planted::bug::EXTENSION;
use crate::step::{begin, end};
use crate::tally::Tally;
use crate::{Usage, place};

/// The script of CI. It has no extension, so it is named here to be checked, too.
const CI: &str = ".ci/run";

/// A text file of the repository.
struct Source {
    /// Relative to the root.
    path: PathBuf,
    text: String,
}

/// Something to put right.
struct Problem {
    path: PathBuf,
    /// 1-based; 0 where the whole file is meant.
    line: usize,
    /// What is wrong, why that matters, what to do.
    explanation: String,
}

impl Problem {
    fn new(source: &Source, line: usize, explanation: impl Into<String>) -> Problem {
        Problem {
            path: source.path.clone(),
            line,
            explanation: explanation.into(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path.display(), self.explanation),
            line => write!(f, "{}:{line}: {}", self.path.display(), self.explanation),
        }
    }
}

impl Source {
    fn is(&self, extension: &str) -> bool {
        self.path
            .extension()
            .is_some_and(|found| found == extension)
    }

    /// Lines with their numbers, from 1.
    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }
}

/// A check.
type Check = fn(&[Source]) -> Vec<Problem>;

const CHECKS: [(&str, Check); 12] = [
    ("tidy: citations lead somewhere", citations::check),
    ("tidy: crate table respected", dependencies::check),
    ("tidy: no room imports a higher one", folders::check),
    ("tidy: module headers present", headers::check),
    ("tidy: no leftovers", leftovers::check),
    ("tidy: links alive", links::check),
    ("tidy: mechanisms are as their rows say", mechanisms::check),
    ("tidy: names say something", names::check),
    ("tidy: the outside comes in through env", outside::check),
    PLANTED,
    ("tidy: files are short", size::check),
    ("tidy: lines are short", columns::check),
];

const PLANTED: (&str, Check) = ("tidy: planted bugs fit the sources", planted::check);

/// The verb.
pub(crate) fn run(words: &[String]) -> Result<ExitCode, Usage> {
    Usage::none_expected(words)?;
    let mut tally = Tally::default();
    all(&mut tally);
    Ok(tally.finish())
}

/// Part of `check`.
pub(crate) fn all(tally: &mut Tally) {
    let sources = sources();
    for (name, check) in CHECKS {
        one(tally, name, check, &sources);
    }
    println!("{}", folders::summary(&sources));
}

/// What `planted --check` does.
pub(crate) fn planted(tally: &mut Tally) {
    let (name, check) = PLANTED;
    one(tally, name, check, &sources());
}

fn one(tally: &mut Tally, name: &str, check: Check, sources: &[Source]) {
    let problems = check(sources);
    if problems.is_empty() {
        return tally.pass(1);
    }
    let begun = begin(name);
    for problem in &problems {
        println!("{problem}");
    }
    end(name, begun, false);
    tally.fail(format!("{name}: {} problems", problems.len()));
}

fn sources() -> Vec<Source> {
    let root = place::root();
    let is_text = |path: &PathBuf| {
        let extension = path
            .extension()
            .map(|text| text.to_string_lossy().into_owned());
        let is_known = matches!(
            extension.as_deref(),
            Some("rs" | "md" | "toml" | "sh" | "yml" | EXTENSION)
        );
        is_known || path == Path::new(CI)
    };
    let read = |path: PathBuf| {
        let text = fs::read_to_string(root.join(&path)).ok()?;
        Some(Source { path, text })
    };
    place::files()
        .into_iter()
        .filter(is_text)
        .filter_map(read)
        .collect()
}

/// A source made up for a test of a check.
#[cfg(test)]
fn source(path: &str, text: &str) -> Source {
    Source {
        path: PathBuf::from(path),
        text: text.to_owned(),
    }
}

#[cfg(test)]
fn lines_of(problems: &[Problem]) -> Vec<String> {
    problems
        .iter()
        .map(|problem| format!("{}:{}", problem.path.display(), problem.line))
        .collect()
}
