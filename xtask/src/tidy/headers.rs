//! Every source file starts with its theory (docs/contributing/house-style.md §4): a `//!` header.

use super::{Problem, Source};

pub(super) fn check(sources: &[Source]) -> Vec<Problem> {
    let headless = sources
        .iter()
        .filter(|source| source.is("rs") && !has_header(source));
    let explain = |source| {
        Problem::new(
            source,
            1,
            "no module header; start with '//!': what this is, its invariants, the mechanism ids \
             it implements, and what is elsewhere on purpose",
        )
    };
    headless.map(explain).collect()
}

/// The first line that is neither empty nor an inner attribute is a `//!` with words after it.
fn has_header(source: &Source) -> bool {
    let lines = source.text.lines().map(str::trim);
    let mut relevant = lines.filter(|line| !line.is_empty() && !line.starts_with("#!["));
    relevant
        .next()
        .and_then(|line| line.strip_prefix("//!"))
        .is_some_and(|rest| !rest.is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::source;
    use super::*;

    #[test]
    fn a_header_comes_first() {
        for good in ["//! Words.\n", "#![no_std]\n\n//! Words.\n"] {
            assert!(check(&[source("a.rs", good)]).is_empty(), "{good}");
        }
        for bad in [
            "",
            "//!\n",
            "use std::fs;\n//! Late.\n",
            "// Words.\n",
            "/// Words.\n",
        ] {
            assert_eq!(check(&[source("a.rs", bad)]).len(), 1, "{bad}");
        }
        assert!(check(&[source("a.md", "")]).is_empty());
    }
}
