//! All planted bugs together: their files read, their edits applied to the sources.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::bug::{Bug, Edit, FOLDER, Plan, name_of};
use super::edit;

/// The source that names the kinds of simulation.
const KINDS: &str = "crates/testing/src/sim/kind.rs";

/// What the copy differs in.
#[derive(Debug)]
pub(crate) struct Planting {
    /// By name.
    pub(crate) bugs: Vec<Bug>,
    /// Sources with the edits of all bugs.
    pub(crate) sources: BTreeMap<PathBuf, String>,
}

/// Something to put right in a bug's file.
#[derive(Debug)]
pub(crate) struct Mistake {
    pub(crate) path: PathBuf,
    /// 1-based; 0 where the whole file is meant.
    pub(crate) line: usize,
    pub(crate) explanation: String,
}

impl Planting {
    /// Plants all bugs of the repository whose texts these are.
    ///
    /// # Errors
    /// Whatever must be put right before the copy can be made.
    pub(crate) fn of(texts: &BTreeMap<&Path, &str>) -> Result<Planting, Vec<Mistake>> {
        let (mut bugs, mut mistakes) = (Vec::new(), Vec::new());
        for (path, text) in texts {
            let Some(name) = name_of(path) else { continue };
            let bug = Bug::parse(&name, text).and_then(|bug| has_kind(bug, texts));
            match bug {
                Ok(bug) => bugs.push(bug),
                Err((line, explanation)) => mistakes.push(Mistake {
                    path: path.to_path_buf(),
                    line,
                    explanation,
                }),
            }
        }
        let mut by_source: BTreeMap<&Path, Vec<(&str, &Edit)>> = BTreeMap::new();
        for bug in &bugs {
            for edit in &bug.edits {
                let edits = by_source.entry(&edit.path).or_default();
                edits.push((&bug.name, edit));
            }
        }
        let mut sources = BTreeMap::new();
        for (path, edits) in by_source {
            // A source that is gone has none of the texts.
            let text = texts.get(path).copied().unwrap_or_default();
            match edit::apply(text, &edits) {
                Ok(edited) => _ = sources.insert(path.to_owned(), edited),
                Err(told) => {
                    mistakes.extend(told.into_iter().map(|(name, edit, explanation)| Mistake {
                        path: Path::new(FOLDER).join(name + ".edit"),
                        line: edit.line,
                        explanation,
                    }))
                }
            }
        }
        match mistakes.is_empty() {
            true => Ok(Planting { bugs, sources }),
            false => Err(mistakes),
        }
    }
}

/// The bug, if there is the kind of simulation that finds it.
fn has_kind(bug: Bug, texts: &BTreeMap<&Path, &str>) -> Result<Bug, (usize, String)> {
    if let Plan::Simulation { kind, .. } = &bug.plan {
        let kinds = texts.get(Path::new(KINDS)).copied().unwrap_or_default();
        let variant = format!("kind::{kind},");
        if !kinds.to_lowercase().contains(&variant) {
            return Err((0, format!("{KINDS} has no kind '{kind}'")));
        }
    }
    Ok(bug)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORGOTTEN: &str = "It forgets.\n\nfound by: cuts from seed 7\n\n\
        --- crates/a/src/b.rs\nkeep(it);\n+++\nif !PLANTED {\n    keep(it);\n}\n";

    fn planting(path: &str, bug: &str, source: &str) -> Result<Planting, Vec<Mistake>> {
        let texts = [
            (path, bug),
            ("crates/a/src/b.rs", source),
            (KINDS, "[Kind::Long, Kind::Cuts, Kind::Small]"),
        ];
        let texts = texts.map(|(path, text)| (Path::new(path), text));
        Planting::of(&texts.into_iter().collect())
    }

    #[test]
    fn sources_get_their_edits_and_a_text_that_is_gone_is_told_of() {
        let file = "crates/planted/bugs/Forgotten.edit";
        let planted = planting(file, FORGOTTEN, "keep(it);").unwrap();
        assert_eq!(planted.bugs.len(), 1);
        let source = &planted.sources[Path::new("crates/a/src/b.rs")];
        assert!(source.contains("named(\"Forgotten\")"), "{source}");
        let told = |bug: &str, source: &str| {
            let mistakes = planting(file, bug, source).unwrap_err();
            assert_eq!(mistakes.len(), 1, "{mistakes:?}");
            assert_eq!(mistakes[0].path, Path::new(file));
            (mistakes[0].line, mistakes[0].explanation.clone())
        };
        assert_eq!(told(FORGOTTEN, "drop(it);").0, 5);
        let gone = FORGOTTEN.replace("b.rs", "c.rs");
        assert!(
            told(&gone, "")
                .1
                .contains("crates/a/src/c.rs no longer has")
        );
        let kind = FORGOTTEN.replace("cuts", "luck");
        assert!(told(&kind, "keep(it);").1.contains("no kind 'luck'"));
        assert_eq!(told("found by: torture\n", "keep(it);").0, 1);
        // Another file is no bug.
        let other = planting("crates/planted/Cargo.toml", FORGOTTEN, "").unwrap();
        assert!(other.bugs.is_empty() && other.sources.is_empty());
    }
}
