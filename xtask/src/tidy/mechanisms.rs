//! Ids of mechanisms resolve: what code and documents cite is in `docs/design/mechanisms.md`, and
//! the rows there are true as far as a program can tell.
//!
//! The pages below `docs/design/mechanisms/` have one table row for each id: what it is, status,
//! home, tests, switch. The index has a table of counts.
//!
//! 1. An id that is cited has a row, and only one.
//! 2. A row that *works* has a home that cites the id, and a test.
//! 3. A row that *differs*, or is built *partly*, says how.
//! 4. Tests and planted bugs that a row names exist. (Files do, because links do: `links`.)
//! 5. The counts of the index are those of the rows.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::links::{links_of, resolve};
use super::{Problem, Source};
use crate::planted::bug::{FOLDER, name_of};

const INDEX: &str = "docs/design/mechanisms.md";
const PAGES: &str = "docs/design/mechanisms";
const STATUSES: [&str; 4] = ["works", "differs", "partly", "planned"];

pub(super) fn check(sources: &[Source]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut known = BTreeSet::new();
    for page in sources.iter().filter(|source| is_page(source)) {
        for row in rows(page) {
            if !known.insert(row.id.clone()) {
                problems.push(row.problem("it has a row already; an id has one meaning"));
            }
            let mistakes = mistakes(&row, sources);
            problems.extend(mistakes.into_iter().map(|mistake| row.problem(&mistake)));
        }
    }
    for source in sources.iter().filter(|source| is_text(source)) {
        for (number, line) in source.lines() {
            for id in ids(line).difference(&known) {
                let explanation =
                    format!("'{id}' has no row in {INDEX}; cite an id that is there, or add a row");
                problems.push(Problem::new(source, number, explanation));
            }
        }
    }
    problems.extend(counts(sources));
    problems
}

fn is_page(source: &Source) -> bool {
    source.is("md") && source.path.parent() == Some(Path::new(PAGES))
}

fn is_text(source: &Source) -> bool {
    (source.is("rs") || source.is("md")) && !is_page(source)
}

/// A mechanism.
struct Row<'a> {
    page: &'a Source,
    number: usize,
    id: String,
    status: &'a str,
    home: &'a str,
    tests: &'a str,
}

impl Row<'_> {
    fn problem(&self, mistake: &str) -> Problem {
        Problem::new(self.page, self.number, format!("{}: {mistake}", self.id))
    }

    /// One of [`STATUSES`], without the explanation.
    fn word(&self) -> &str {
        self.status.split(':').next().unwrap_or_default().trim()
    }
}

/// Rows of a page: lines of a table that begin with an id.
fn rows(page: &Source) -> impl Iterator<Item = Row<'_>> {
    page.lines().filter_map(|(number, line)| {
        let cells: Vec<&str> = cells(line)?;
        let [id, _, status, home, tests, _] = cells[..] else {
            return None;
        };
        is_id(id).then(|| Row {
            page,
            number,
            id: id.to_owned(),
            status,
            home,
            tests,
        })
    })
}

/// Cells of a line of a table.
fn cells(line: &str) -> Option<Vec<&str>> {
    let inside = line.strip_prefix('|')?.strip_suffix('|')?;
    Some(inside.split('|').map(str::trim).collect())
}

/// What is wrong with a row.
fn mistakes(row: &Row<'_>, sources: &[Source]) -> Vec<String> {
    let mut mistakes = Vec::new();
    let needs_words = matches!(row.word(), "differs" | "partly");
    if !STATUSES.contains(&row.word()) {
        mistakes.push(format!(
            "'{}' is no status; use {}",
            row.word(),
            STATUSES.join(", ")
        ));
    } else if needs_words != row.status.contains(": ") {
        mistakes.push("a row that differs, or is built partly, says how; no other does".to_owned());
    }
    let tests = links(row.page, row.tests);
    for (text, path) in &tests {
        mistakes.extend(missing(text, path, sources));
    }
    if row.word() == "works" {
        let homes = links(row.page, row.home);
        let cites = |path: &PathBuf| {
            text_of(path, sources).is_some_and(|text| covered(text).contains(&row.id))
        };
        if !homes.iter().any(|(_, path)| cites(path)) {
            mistakes.push("it works, but no home of it cites the id".to_owned());
        }
        if !tests
            .iter()
            .any(|(_, path)| path.extension() == Some("rs".as_ref()))
        {
            mistakes.push("it works, but no test is named that would fail without it".to_owned());
        }
    }
    mistakes
}

/// Texts and targets of a cell's links.
fn links<'a>(page: &Source, cell: &'a str) -> Vec<(&'a str, PathBuf)> {
    let folder = page.path.parent().unwrap_or(Path::new(""));
    let target = |link: &str| resolve(folder, link.split('#').next().unwrap_or_default());
    let pairs = links_of(cell).into_iter();
    pairs
        .filter_map(|(text, link)| Some((text, target(link)?)))
        .collect()
}

/// What a link to tests names and is not there: tests of a source, or planted bugs, which are
/// linked to the document about them.
fn missing(text: &str, path: &Path, sources: &[Source]) -> Vec<String> {
    // A dead link is told by another check.
    let Some(target) = text_of(path, sources) else {
        return Vec::new();
    };
    let is_code = path.extension() == Some("rs".as_ref());
    let has = |name: &str| match is_code {
        true => target.contains(&format!("fn {name}(")),
        false => sources
            .iter()
            .any(|source| name_of(&source.path).as_deref() == Some(name)),
    };
    let names = text.split(',').map(str::trim);
    let absent = names.filter(|name| !has(name));
    let place = match is_code {
        true => path.display().to_string(),
        false => FOLDER.to_owned(),
    };
    absent
        .map(|name| format!("there is no '{name}' in {place}"))
        .collect()
}

fn text_of<'a>(path: &Path, sources: &'a [Source]) -> Option<&'a str> {
    let found = sources.iter().find(|source| source.path == path)?;
    Some(&found.text)
}

/// Whether the index counts its pages rightly.
fn counts(sources: &[Source]) -> Vec<Problem> {
    let Some(index) = sources
        .iter()
        .find(|source| source.path == Path::new(INDEX))
    else {
        return Vec::new();
    };
    let mut problems = Vec::new();
    let mut all = [0; STATUSES.len() + 1];
    for (number, line) in index.lines() {
        let Some(cells) = cells(line).filter(|cells| cells.len() == all.len() + 1) else {
            continue;
        };
        let page = links(index, cells[0]).into_iter().find_map(|(_, path)| {
            sources
                .iter()
                .find(|source| is_page(source) && source.path == path)
        });
        let right = match page {
            Some(page) => {
                let counted = count(page);
                all.iter_mut().zip(counted).for_each(|(sum, n)| *sum += n);
                counted
            }
            None if cells[0] == "all" => all,
            None => continue,
        };
        let right = right.map(|count| count.to_string());
        if cells[1..] != right {
            let explanation = format!("the rows say {}", right.join(" | "));
            problems.push(Problem::new(index, number, explanation));
        }
    }
    problems
}

/// Rows of a page by status, and all of them.
fn count(page: &Source) -> [usize; STATUSES.len() + 1] {
    let mut by_word: BTreeMap<String, usize> = BTreeMap::new();
    for row in rows(page) {
        *by_word.entry(row.word().to_owned()).or_default() += 1;
    }
    let mut counted = [0; STATUSES.len() + 1];
    for (place, status) in STATUSES.iter().enumerate() {
        counted[place] = by_word.get(*status).copied().unwrap_or(0);
    }
    counted[STATUSES.len()] = by_word.values().sum();
    counted
}

/// A letter, a dash, two digits.
fn is_id(text: &str) -> bool {
    let bytes = text.as_bytes();
    matches!(bytes, [letter, b'-', tens, ones] if letter.is_ascii_uppercase()
        && tens.is_ascii_digit() && ones.is_ascii_digit())
}

/// Ids in a text, each a word of its own.
fn ids(text: &str) -> BTreeSet<String> {
    let is_inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let words = text.split(|c: char| !is_inside(c));
    words
        .filter(|word| is_id(word))
        .map(str::to_owned)
        .collect()
}

/// Ids that a text cites, those inside ranges too.
fn covered(text: &str) -> BTreeSet<String> {
    let mut covered = ids(text);
    for (before, _) in text.match_indices('…') {
        let after = text[before..].trim_start_matches('…').trim_start();
        let first = text[..before].trim_end();
        let (Some(first), Some(last)) = (
            first.len().checked_sub(4).and_then(|at| first.get(at..)),
            after.get(..4),
        ) else {
            continue;
        };
        let number = |id: &str| id[2..].parse::<u32>().unwrap_or(0);
        if is_id(first) && is_id(last) && first[..1] == last[..1] {
            let letter = &first[..1];
            let between = number(first)..=number(last);
            covered.extend(between.map(|number| format!("{letter}-{number:02}")));
        }
    }
    covered
}

#[cfg(test)]
mod tests {
    use super::super::{lines_of, source};
    use super::*;

    const CODE: &str = "//! Does it (A-01 … A-03).\n";
    const TEST: &str = "#[test]\nfn it_is_done() {}\n";

    /// A page with a row of its own beside others.
    fn page(row: &str) -> Source {
        let rest = "| A-02 | what | planned | – | – | – |\n| A-03 | what | planned | – | – | – |\n";
        source("docs/design/mechanisms/a.md", &format!("{row}\n{rest}"))
    }

    fn told(row: &str) -> Vec<String> {
        let sources = [
            page(row),
            source("crates/a/src/lib.rs", CODE),
            source("crates/a/src/tests.rs", TEST),
            source("docs/design/simulation.md", ""),
            source("crates/planted/bugs/Forgotten.edit", ""),
        ];
        let problems = check(&sources).into_iter();
        problems.map(|problem| problem.explanation).collect()
    }

    const HOME: &str = "[a](../../../crates/a/src/lib.rs)";
    const TESTS: &str = "[it_is_done](../../../crates/a/src/tests.rs)";

    #[test]
    fn a_row_that_works_needs_a_home_that_cites_it_and_a_test_that_exists() {
        let good = format!("| A-01 | what | works | {HOME} | {TESTS} | – |");
        assert_eq!(told(&good), Vec::<String>::new());
        let elsewhere = good.replace("src/lib.rs", "src/tests.rs");
        assert!(told(&elsewhere)[0].contains("no home of it cites"));
        let renamed = good.replace("it_is_done", "it_is_gone");
        assert!(told(&renamed)[0].contains("there is no 'it_is_gone'"));
        let untested = format!("| A-01 | what | works | {HOME} | – | – |");
        assert!(told(&untested)[0].contains("no test is named"));
        let bug = "; planted: [Forgotten, Unknown](../simulation.md#planted-bugs)";
        let planted = format!("| A-01 | what | works | {HOME} | {TESTS}{bug} | – |");
        assert_eq!(told(&planted).len(), 1, "{:?}", told(&planted));
        assert!(told(&planted)[0].contains("there is no 'Unknown'"));
    }

    #[test]
    fn a_status_is_one_of_four_and_says_how_where_that_matters() {
        for good in ["planned", "differs: so", "partly: so"] {
            assert!(told(&format!("| A-01 | what | {good} | – | – | – |")).is_empty());
        }
        for bad in ["done", "differs", "partly", "planned: later", ""] {
            let told = told(&format!("| A-01 | what | {bad} | – | – | – |"));
            assert_eq!(told.len(), 1, "{bad}: {told:?}");
        }
    }

    #[test]
    fn an_id_has_one_row_and_what_is_cited_has_one() {
        let unknown = concat!("//! Nobody knows (A-", "09).\n");
        let sources = [
            page("| A-02 | what | planned | – | – | – |"),
            source("a.rs", unknown),
            source("b.md", "EVG-4006, UTF-16, 2026-11-24, xA-03, A-03.\n"),
        ];
        assert_eq!(
            lines_of(&check(&sources)),
            ["docs/design/mechanisms/a.md:2", "a.rs:1"]
        );
    }

    #[test]
    fn ranges_cite_what_is_between() {
        let covered = covered("A-01 … A-03, A-02…A-04 and A-01 … C-03");
        let expected = ["A-01", "A-02", "A-03", "A-04", "C-03"];
        assert_eq!(covered.into_iter().collect::<Vec<_>>(), expected);
        assert!(super::covered("…").is_empty());
    }

    #[test]
    fn counts_are_those_of_the_rows() {
        let told = |line: &str, all: &str| {
            let index = format!("| [A](mechanisms/a.md) | {line} |\n| all | {all} |\n");
            let sources = [
                page("| A-01 | what | differs: so | – | – | – |"),
                source(INDEX, &index),
            ];
            lines_of(&check(&sources))
        };
        let right = "0 | 1 | 0 | 2 | 3";
        assert!(told(right, right).is_empty());
        assert_eq!(
            told("1 | 0 | 0 | 2 | 3", right),
            ["docs/design/mechanisms.md:1"]
        );
        assert_eq!(
            told(right, "0 | 1 | 0 | 2 | 4"),
            ["docs/design/mechanisms.md:2"]
        );
    }
}
