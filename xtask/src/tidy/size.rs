//! Files are short (docs/contributing/house-style.md §2): split before 1,000 lines, tests included.

use super::{Problem, Source};

const LINES_MAX: usize = 1000;

pub(super) fn check(sources: &[Source]) -> Vec<Problem> {
    let sizes = sources
        .iter()
        .map(|source| (source, source.text.lines().count()));
    let long = sizes.filter(|(source, lines)| source.is("rs") && *lines > LINES_MAX);
    let explain = |(source, lines)| {
        let explanation = format!(
            "{lines} lines, more than {LINES_MAX}; find the seam: data stays, verbs move to files \
             of their own, tests to tests.rs"
        );
        Problem::new(source, 0, explanation)
    };
    long.map(explain).collect()
}

#[cfg(test)]
mod tests {
    use super::super::source;
    use super::*;

    #[test]
    fn a_thousand_lines_are_the_limit() {
        assert!(check(&[source("a.rs", &"\n".repeat(1000))]).is_empty());
        assert_eq!(check(&[source("a.rs", &"\n".repeat(1001))]).len(), 1);
    }
}
