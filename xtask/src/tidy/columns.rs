//! Lines have at most 100 columns (docs/contributing/house-style.md §4), in code and in prose.
//!
//! `rustfmt` wraps code, but neither comments nor the insides of macros and strings. A column is a
//! character, not a byte.
//!
//! | may be longer | because |
//! | --- | --- |
//! | a row of a table, in a document or in a comment of documentation | a row cannot be wrapped |
//! | a line in a fence of a document | it shows what a program prints |
//! | a line that begins with an address (`https://…`) | an address cannot be wrapped |
//! | what `cargo xtask` wrote | its generator decides |

use super::{Problem, Source};

const COLUMNS_MAX: usize = 100;

pub(super) fn check(sources: &[Source]) -> Vec<Problem> {
    let explain = |source, (number, columns)| {
        let explanation = format!(
            "{columns} columns, more than {COLUMNS_MAX}; fill the paragraph anew, break the \
             string with '\\', or make the diagram narrower"
        );
        Problem::new(source, number, explanation)
    };
    let of_source = |source| {
        let lines = long_lines(source).into_iter();
        lines.map(move |line| explain(source, line))
    };
    sources.iter().flat_map(of_source).collect()
}

/// Numbers and columns of the lines that are too long.
fn long_lines(source: &Source) -> Vec<(usize, usize)> {
    let is_document = source.is("md");
    let mut is_in_fence = false;
    let mut long = Vec::new();
    for (number, line) in source.lines() {
        if is_document && line.starts_with("<!--") && line.contains("ritten by `cargo xtask") {
            break;
        }
        if is_document && line.trim_start().starts_with("```") {
            is_in_fence = !is_in_fence;
        }
        let columns = line.chars().count();
        if columns > COLUMNS_MAX && !is_in_fence && !is_whole(line, is_document) {
            long.push((number, columns));
        }
    }
    long
}

/// A row or an address, which cannot be wrapped.
fn is_whole(line: &str, is_document: bool) -> bool {
    let line = line.trim_start();
    let comment = line
        .strip_prefix("//!")
        .or_else(|| line.strip_prefix("///"));
    let is_row = match comment {
        Some(text) => text.trim_start().starts_with("| "),
        None => is_document && line.starts_with('|'),
    };
    let mark = |letter: char| "/!#-*<([ ".contains(letter);
    let first = line.trim_start_matches(mark).split(' ').next();
    is_row || first.is_some_and(|word| word.contains("://"))
}

#[cfg(test)]
mod tests {
    use super::super::{lines_of, source};
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        lines_of(&check(&[source(path, text)]))
    }

    #[test]
    fn a_hundred_characters_are_the_limit() {
        let text = format!("{}\n{}\n", "ä".repeat(100), "ä".repeat(101));
        for path in ["a.rs", "a.md", "a.toml", "a.sh", "a.yml", ".ci/run"] {
            assert_eq!(found(path, &text), [format!("{path}:2")]);
        }
    }

    #[test]
    fn rows_fences_and_addresses_cannot_be_wrapped() {
        let words = "word ".repeat(30);
        let row = format!("| {words}|\n");
        let comment = format!("//! | {words}|\n    /// | {words}|\n// {words}\n");
        assert_eq!(found("a.rs", &comment), ["a.rs:3"]);
        assert_eq!(found("a.rs", &row), ["a.rs:1"], "a pattern of a match");
        let document = format!("{row}```text\n{words}\n```\n{words}\n");
        assert_eq!(found("a.md", &document), ["a.md:5"]);
        let address = format!("https://example.org/{}", "a".repeat(100));
        assert!(found("a.rs", &format!("    // <{address}>\n")).is_empty());
        assert_eq!(found("a.rs", &format!("// See {address}\n")), ["a.rs:1"]);
    }

    #[test]
    fn what_a_program_wrote_is_its_own() {
        let mark = "<!-- Written by `cargo xtask gen`. -->";
        let text = format!("{0}\n{mark}\n{0}\n", "word ".repeat(30));
        assert_eq!(found("a.md", &text), ["a.md:1"]);
    }
}
