//! The edits of planted bugs fit the sources (docs/design/simulation.md, "Planted bugs").
//!
//! Every file of `crates/planted/bugs` says what is wrong and who finds it, and each of its edits
//! finds its text exactly once. Whether the edited sources can be built, and the bugs are found, is
//! shown by `cargo xtask planted`.

use super::{Problem, Source};
use crate::planted::planting::Planting;

pub(super) fn check(sources: &[Source]) -> Vec<Problem> {
    let texts = sources
        .iter()
        .map(|source| (source.path.as_path(), source.text.as_str()));
    let mistakes = Planting::of(&texts.collect()).err().unwrap_or_default();
    let problems = mistakes.into_iter().map(|mistake| Problem {
        path: mistake.path,
        line: mistake.line,
        explanation: mistake.explanation,
    });
    problems.collect()
}
