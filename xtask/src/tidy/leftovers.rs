//! What must not be committed: placeholders that panic, notes to oneself, tests silenced without a
//! reason.

use super::{Problem, Source};

/// A text and why it must not be there. Spelled in two halves, or this file would find itself.
const LEFTOVERS: [(&str, &str); 4] = [
    (
        concat!("to", "do!("),
        "a placeholder that panics; finish it, or leave the feature out",
    ),
    (
        concat!("unimple", "mented!("),
        "a placeholder that panics; return an error a caller can see",
    ),
    (
        concat!("FIX", "ME"),
        "a note to oneself; fix it, or open an issue and cite it",
    ),
    (
        concat!("#[ig", "nore]"),
        "a test silenced without a reason; write #[ignore = \"why\"]",
    ),
];

pub(super) fn check(sources: &[Source]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for source in sources.iter().filter(|source| source.is("rs")) {
        for (number, line) in source.lines() {
            for (text, why) in LEFTOVERS {
                if line.contains(text) {
                    problems.push(Problem::new(source, number, format!("'{text}' is {why}")));
                }
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
    fn leftovers_are_found_with_their_line() {
        let text = [
            "fn a() {",
            concat!("  to", "do!()"),
            concat!("} // FIX", "ME: b"),
        ]
        .join("\n");
        assert_eq!(
            lines_of(&check(&[source("a.rs", &text)])),
            ["a.rs:2", "a.rs:3"]
        );
        let with_reason = concat!("#[ig", "nore = \"needs a disk\"]");
        assert!(check(&[source("a.rs", with_reason)]).is_empty());
    }
}
