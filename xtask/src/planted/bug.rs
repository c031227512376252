//! One planted bug: a file `crates/planted/bugs/NAME.edit`.
//!
//! ```text
//! What is wrong, in plain English.
//!
//! found by: KIND from seed N          (a kind of simulation), or
//! found by: torture                   (power cuts of the real server)
//!
//! --- crates/NAME/src/FILE.rs
//! text that the file has once
//! +++
//! text that takes its place, with PLANTED or PLANTED_NOW
//! ```
//!
//! A bug may have several edits. The rules for their texts are in [`super::edit`].

use std::path::{Path, PathBuf};

/// Where the files are.
pub(crate) const FOLDER: &str = "crates/planted/bugs";
/// How their names end.
pub(crate) const EXTENSION: &str = "edit";

const FOUND_BY: &str = "found by: ";
const TORTURE: &str = "torture";

/// Who finds a bug.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// This kind of simulation, from this seed on.
    Simulation { kind: String, seed: u64 },
    /// Power cuts of the real server.
    Torture,
}

/// A text of a source and what takes its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Edit {
    /// Line of the bug's file, for messages.
    pub(crate) line: usize,
    /// The source, relative to the root.
    pub(crate) path: PathBuf,
    pub(crate) find: String,
    pub(crate) replace: String,
}

/// A file of [`FOLDER`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bug {
    pub(crate) name: String,
    pub(crate) plan: Plan,
    pub(crate) edits: Vec<Edit>,
}

/// What is wrong with a file, and in which line.
pub(crate) type Mistake = (usize, String);

/// The name of the bug whose file this is.
pub(crate) fn name_of(path: &Path) -> Option<String> {
    let is_one = path.parent() == Some(Path::new(FOLDER))
        && path.extension().is_some_and(|found| found == EXTENSION);
    let stem = path.file_stem().filter(|_| is_one)?;
    Some(stem.to_string_lossy().into_owned())
}

impl Bug {
    /// Reads a file.
    pub(crate) fn parse(name: &str, text: &str) -> Result<Bug, Mistake> {
        if !name.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err((0, "the name of a bug is letters and digits".to_owned()));
        }
        let lines: Vec<&str> = text.lines().collect();
        let is_edit = |line: &&str| line.starts_with("--- ");
        let head = lines.iter().position(is_edit).unwrap_or(lines.len());
        let plan = (1..).zip(&lines[..head]);
        let mut plan = plan.filter_map(|(line, text)| Some((line, text.strip_prefix(FOUND_BY)?)));
        let Some((line, words)) = plan.next() else {
            let expected = format!("the head has no line '{FOUND_BY}KIND from seed N' or");
            return Err((1, format!("{expected} '{FOUND_BY}{TORTURE}'")));
        };
        let plan = Plan::parse(words).map_err(|mistake| (line, mistake))?;
        if line == 1 || lines[0].trim().is_empty() {
            let mistake = "the file begins with what is wrong, in plain English";
            return Err((1, mistake.to_owned()));
        }
        let mut edits = Vec::new();
        let mut from = head;
        while from < lines.len() {
            let next = lines[from + 1..].iter().position(is_edit);
            let to = next.map_or(lines.len(), |count| from + 1 + count);
            edits.push(Edit::parse(from + 1, &lines[from..to])?);
            from = to;
        }
        if edits.is_empty() {
            return Err((head, "there is no edit: a line '--- PATH'".to_owned()));
        }
        let name = name.to_owned();
        Ok(Bug { name, plan, edits })
    }
}

impl Plan {
    fn parse(words: &str) -> Result<Plan, String> {
        match words.split_whitespace().collect::<Vec<_>>()[..] {
            [TORTURE] => Ok(Plan::Torture),
            [kind, "from", "seed", seed] => Ok(Plan::Simulation {
                kind: kind.to_owned(),
                seed: seed
                    .parse()
                    .map_err(|_| format!("'{seed}' is not a number"))?,
            }),
            _ => Err(format!(
                "did not understand '{words}'; write 'KIND from seed N' or '{TORTURE}'"
            )),
        }
    }
}

impl Edit {
    /// `lines` begin with the path; `line` is the number of that line.
    fn parse(line: usize, lines: &[&str]) -> Result<Edit, Mistake> {
        let path = Path::new(lines[0].trim_start_matches("--- ").trim());
        let mut parts = path.iter();
        let is_ours = parts.next() == Some("crates".as_ref())
            && parts.nth(1) == Some("src".as_ref())
            && path.extension() == Some("rs".as_ref());
        if !is_ours {
            let mistake = format!("'{}' is no source below crates/NAME/src", path.display());
            return Err((line, mistake));
        }
        let Some(middle) = lines.iter().position(|line| line.trim_end() == "+++") else {
            return Err((line, "this edit has no line '+++'".to_owned()));
        };
        let find = lines[1..middle].join("\n").trim().to_owned();
        let replace = lines[middle + 1..].join("\n").trim().to_owned();
        if find.is_empty() {
            return Err((line, "this edit does not say which text".to_owned()));
        }
        if !super::edit::has_token(&replace) {
            let mistake = "the new text has neither PLANTED nor PLANTED_NOW, so the mistake would \
                           be made in every run";
            return Err((line, mistake.to_owned()));
        }
        Ok(Edit {
            line,
            path: path.to_owned(),
            find,
            replace,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "It forgets\nthings.\n\nfound by: cuts from seed 7\n\n\
        --- crates/a/src/b.rs\nkeep(it);\n+++\nif !PLANTED {\n    keep(it);\n}\n\n\
        --- crates/a/src/c.rs\n1\n+++\nu64::from(PLANTED_NOW)\n";

    #[test]
    fn a_file_has_a_plan_and_edits() {
        let bug = Bug::parse("Forgotten", GOOD).unwrap();
        let kind = "cuts".to_owned();
        assert_eq!(bug.plan, Plan::Simulation { kind, seed: 7 });
        assert_eq!(bug.edits.len(), 2);
        assert_eq!(bug.edits[0].path, Path::new("crates/a/src/b.rs"));
        assert_eq!(bug.edits[0].find, "keep(it);");
        assert_eq!(bug.edits[0].replace, "if !PLANTED {\n    keep(it);\n}");
        assert_eq!((bug.edits[0].line, bug.edits[1].line), (6, 13));
        let torture = GOOD.replace("cuts from seed 7", "torture");
        assert_eq!(Bug::parse("A", &torture).unwrap().plan, Plan::Torture);
    }

    #[test]
    fn each_mistake_is_told_with_its_line() {
        let told = |from: &str, to: &str| Bug::parse("A", &GOOD.replace(from, to)).unwrap_err();
        assert_eq!(told("found by", "by").0, 1);
        assert_eq!(told("seed 7", "seed x").0, 4);
        assert_eq!(told("cuts from seed 7", "luck").0, 4);
        assert_eq!(told("It forgets\nthings.\n\n", "").0, 1);
        assert_eq!(told("a/src/c.rs", "a/tests/c.rs").0, 13);
        assert_eq!(told("+++\nif", "++\nif").0, 6);
        assert_eq!(told("keep(it);\n+++", "+++").0, 6);
        assert_eq!(told("PLANTED_NOW", "1").0, 13);
        assert_eq!(Bug::parse("A b", GOOD).unwrap_err().0, 0);
        let head = &GOOD[..GOOD.find("---").unwrap()];
        assert!(Bug::parse("A", head).unwrap_err().1.contains("no edit"));
    }

    #[test]
    fn files_of_the_folder_are_bugs() {
        let name = |path: &str| name_of(Path::new(path));
        let good = "crates/planted/bugs/Forgotten.edit";
        assert_eq!(name(good), Some("Forgotten".to_owned()));
        assert_eq!(name("crates/planted/bugs/a/B.edit"), None);
        assert_eq!(name("crates/planted/src/lib.rs"), None);
    }
}
