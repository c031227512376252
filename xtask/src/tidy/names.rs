//! File and folder names are nouns that say what is inside (docs/contributing/house-style.md §3).

use std::path::Component;

use super::{Problem, Source};

/// Words that say nothing. Whatever is behind them belongs to the noun it serves.
const EMPTY_WORDS: [&str; 10] = [
    "util",
    "utils",
    "utility",
    "utilities",
    "common",
    "manager",
    "managers",
    "helper",
    "helpers",
    "misc",
];

pub(super) fn check(sources: &[Source]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for source in sources
        .iter()
        .filter(|source| source.is("rs") || source.is("toml"))
    {
        for part in source.path.components() {
            let Component::Normal(name) = part else {
                continue;
            };
            let name = name.to_string_lossy().to_lowercase();
            let mut words = name.split(|c: char| !c.is_ascii_alphanumeric());
            if let Some(word) = words.find(|word| EMPTY_WORDS.contains(word)) {
                let explanation = format!(
                    "'{word}' in a name says nothing about what is inside; name it after the noun \
                     it serves, or move its contents there"
                );
                problems.push(Problem::new(source, 0, explanation));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::super::source;
    use super::*;

    #[test]
    fn words_that_say_nothing_are_found_as_words() {
        for bad in [
            "a/util.rs",
            "a/string_utils.rs",
            "common/b.rs",
            "a/pool-manager/mod.rs",
        ] {
            assert_eq!(check(&[source(bad, "")]).len(), 1, "{bad}");
        }
        for good in [
            "a/utilisation.rs",
            "commons/b.rs",
            "a/bucket.rs",
            "docs/common.md",
        ] {
            assert!(check(&[source(good, "")]).is_empty(), "{good}");
        }
    }
}
