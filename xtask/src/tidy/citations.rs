//! Citations lead somewhere: a document that a comment or a text names by its path exists, with the
//! section.
//!
//! `docs/design/design.md §5` and `docs/reference/conventions.md#exit-codes` are the two forms, in
//! code and in documents. (Links of documents: `links`. Ids of mechanisms: `mechanisms`.) Papers
//! have short names, such as S003, and each of them a heading in `docs/design/papers.md`.
//!
//! Names of documents that are in no clone are refused, with what to write instead.

use std::fmt;
use std::path::Path;

use super::links::{headings, titles};
use super::{Problem, Source};
use crate::place;

const PAPERS: &str = "docs/design/papers.md";
const HERE: &str = "xtask/src/tidy";

/// A name that leads nowhere, and what to write instead. Spelled in two halves, or this file would
/// find itself.
const NOWHERE: [(&str, &str); 6] = [
    (concat!("DESIGN", " §"), "docs/design/design.md §n"),
    (concat!("DESIGN", " section"), "docs/design/design.md §n"),
    (
        concat!("CONVEN", "TIONS"),
        "docs/reference/conventions.md#heading",
    ),
    (
        concat!("house style", " §"),
        "docs/contributing/house-style.md §n",
    ),
    (concat!("notes/", "dependencies"), "a document below docs/"),
    (concat!("seed-", "mechanisms"), "docs/design/mechanisms.md"),
];

pub(super) fn check(sources: &[Source]) -> Vec<Problem> {
    let text_of = |path: &Path| {
        let found = sources.iter().find(|source| source.path == path);
        found.map(|source| source.text.as_str())
    };
    let exists = |path: &Path| place::root().join(path).exists();
    let mut problems = Vec::new();
    for source in sources {
        // Tests of these checks make up citations.
        let is_ours = |line: &str| !source.path.starts_with(HERE) || line.trim().starts_with("//");
        for (number, line) in source.lines().filter(|(_, line)| is_ours(line)) {
            for (name, instead) in NOWHERE.iter().filter(|(name, _)| line.contains(name)) {
                let explanation =
                    format!("'{name}' names a document that no clone has; write {instead}");
                problems.push(Problem::new(source, number, explanation));
            }
            for citation in citations(line) {
                if let Err(explanation) = follow(&citation, &exists, &text_of) {
                    problems.push(Problem::new(source, number, explanation));
                }
            }
            for paper in papers(line) {
                let known = text_of(Path::new(PAPERS)).map(titles);
                if known.is_some_and(|known| !known.contains(&paper)) {
                    let explanation = format!("'{paper}' is no paper of {PAPERS}");
                    problems.push(Problem::new(source, number, explanation));
                }
            }
        }
    }
    problems
}

/// A document, and what of it.
#[derive(Debug, PartialEq, Eq)]
struct Citation<'a> {
    path: &'a str,
    part: Part<'a>,
}

#[derive(Debug, PartialEq, Eq)]
enum Part<'a> {
    Whole,
    /// `#anchor`
    Heading(&'a str),
    /// ` §number`
    Section(&'a str),
}

impl fmt::Display for Part<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Whole => Ok(()),
            Part::Heading(anchor) => write!(f, "#{anchor}"),
            Part::Section(number) => write!(f, "§{number}"),
        }
    }
}

/// Paths in a line that begin at `docs/`. In relative links and in addresses something stands
/// before it, and they are not ours to follow.
fn citations(line: &str) -> Vec<Citation<'_>> {
    let is_of_path = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-');
    let mut found = Vec::new();
    for (at, _) in line.match_indices("docs/") {
        if line[..at].ends_with(|c: char| is_of_path(c) || c == '~') {
            continue;
        }
        let rest = &line[at..];
        let end = rest.find(|c: char| !is_of_path(c)).unwrap_or(rest.len());
        let (path, after) = rest.split_at(end);
        let trimmed = path.trim_end_matches('.');
        let part = match path.len() == trimmed.len() {
            true => part(after),
            false => Part::Whole,
        };
        found.push(Citation {
            path: trimmed,
            part,
        });
    }
    found
}

/// What follows a path.
fn part(after: &str) -> Part<'_> {
    if let Some(anchor) = after.strip_prefix('#') {
        let is_of_anchor = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
        let end = anchor.find(|c| !is_of_anchor(c)).unwrap_or(anchor.len());
        return Part::Heading(&anchor[..end]);
    }
    let after = after.strip_prefix('`').unwrap_or(after);
    if let Some(number) = after.strip_prefix(" §") {
        let end = number.find(|c: char| !(c.is_ascii_digit() || c == '.'));
        let number = &number[..end.unwrap_or(number.len())];
        return Part::Section(number.trim_end_matches('.'));
    }
    Part::Whole
}

/// Where a citation leads, or why nowhere.
fn follow<'a>(
    citation: &Citation<'_>,
    exists: &dyn Fn(&Path) -> bool,
    text_of: &dyn Fn(&Path) -> Option<&'a str>,
) -> Result<(), String> {
    let path = Path::new(citation.path);
    if !exists(path) {
        return Err(format!("there is no {}", citation.path));
    }
    let is_there = match (text_of(path), &citation.part) {
        (Some(text), Part::Heading(anchor)) => headings(text).contains(*anchor),
        (Some(text), Part::Section(number)) => {
            let heading = format!("{number}.");
            let deeper = format!("{number} ");
            titles(text)
                .iter()
                .any(|title| title.starts_with(&heading) || title.starts_with(&deeper))
        }
        _ => true,
    };
    match is_there {
        true => Ok(()),
        false => Err(format!(
            "{} has no heading for '{}'; cite one that it has",
            citation.path, citation.part
        )),
    }
}

/// Short names of papers in a line.
fn papers(line: &str) -> impl Iterator<Item = &str> {
    let words = line.split(|c: char| !c.is_ascii_alphanumeric());
    words.filter(
        |word| matches!(word.as_bytes(), [b'S', b'0', b'0', digit] if digit.is_ascii_digit()),
    )
}

#[cfg(test)]
mod tests {
    use super::super::{lines_of, source};
    use super::*;

    #[test]
    fn paths_are_found_with_their_parts() {
        let line = "`docs/a.md` §3.1, (docs/b-c.md#d-e), docs/codes/EVG-{n}.md, docs/a.md. \
            https://x/docs/y";
        let found: Vec<_> = citations(line)
            .into_iter()
            .map(|citation| (citation.path, citation.part))
            .collect();
        let expected = [
            ("docs/a.md", Part::Section("3.1")),
            ("docs/b-c.md", Part::Heading("d-e")),
            ("docs/codes/EVG-", Part::Whole),
            ("docs/a.md", Part::Whole),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_section_is_a_heading_with_its_number() {
        let text = "# Title\n## 3. Bytes\n### 3.1 Tags\n## Exit codes\n";
        let exists = |path: &Path| path.starts_with("docs");
        let text_of = |path: &Path| (path == Path::new("docs/a.md")).then_some(text);
        let leads = |line| {
            let all = citations(line);
            assert_eq!(all.len(), 1, "{line}");
            follow(&all[0], &exists, &text_of).is_ok()
        };
        for good in [
            "docs/a.md",
            "docs/a.md §3",
            "docs/a.md §3.1",
            "docs/a.md#exit-codes",
            "docs/",
        ] {
            assert!(leads(good), "{good}");
        }
        for bad in ["docs/a.md §4", "docs/a.md §1", "docs/a.md#exit"] {
            assert!(!leads(bad), "{bad}");
        }
        let nowhere = citations("docs/a.md");
        assert!(follow(&nowhere[0], &|_| false, &text_of).is_err());
    }

    #[test]
    fn names_that_no_clone_has_are_refused() {
        for (name, _) in NOWHERE {
            let told = check(&[source("a.rs", &format!("//! As {name}4 has it.\n"))]);
            assert_eq!(lines_of(&told), ["a.rs:1"], "{name}");
        }
    }

    #[test]
    fn papers_have_headings() {
        let unknown = concat!("S00", "9");
        let sources = [
            source(PAPERS, "## S003\n"),
            source("a.rs", &format!("//! S003 §5, ES009, {unknown}.\n")),
        ];
        assert_eq!(lines_of(&check(&sources)), ["a.rs:1"]);
    }
}
