//! What the files of a crate import from each other, read from their text.
//!
//! A path counts wherever it stands, in a `use` or in an expression, if it begins with `crate`,
//! `super` or `self`. Comments and unit tests (`mod tests` at the end of a file, files called
//! `tests`) do not count: documents may point anywhere, and tests look at their surroundings.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::Source;

/// One file of a crate, and where its paths lead.
pub(super) struct File<'a> {
    pub(super) source: &'a Source,
    /// Its module path below the crate: `["cp", "clean"]`; of `cp/mod.rs` `["cp"]`, of `lib.rs`
    /// nothing.
    pub(super) module: Vec<String>,
    /// Each with the line it begins in.
    pub(super) paths: Vec<(usize, Vec<String>)>,
}

/// The files below `crates/NAME/src`.
pub(super) fn files<'a>(sources: &'a [Source], name: &str) -> Vec<File<'a>> {
    let root = Path::new("crates").join(name).join("src");
    let mut files = Vec::new();
    for source in sources.iter().filter(|source| source.is("rs")) {
        let Ok(below) = source.path.strip_prefix(&root) else {
            continue;
        };
        let mut module: Vec<String> = below
            .with_extension("")
            .iter()
            .map(|part| part.to_string_lossy().into_owned())
            .collect();
        if module.iter().any(|part| part == "tests") {
            continue;
        }
        if module
            .last()
            .is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str()))
        {
            module.pop();
        }
        let paths = paths(&source.text, &module);
        files.push(File {
            source,
            module,
            paths,
        });
    }
    files
}

/// The paths of a text inside its crate, absolute.
fn paths(text: &str, module: &[String]) -> Vec<(usize, Vec<String>)> {
    let mut found = Vec::new();
    let mut statement: Option<(usize, String)> = None;
    for (number, line) in (1..).zip(text.lines()) {
        if line.starts_with("mod tests {") {
            break;
        }
        let line = line.split("//").next().unwrap_or_default();
        let words = line.trim_start();
        let words = words.strip_prefix("pub ").unwrap_or(words);
        let words = words.strip_prefix("pub(crate) ").unwrap_or(words);
        if statement.is_none() && words.starts_with("use ") {
            statement = Some((number, String::new()));
        }
        match &mut statement {
            Some((first, so_far)) => {
                so_far.push_str(line.trim());
                so_far.push(' ');
                if line.contains(';') {
                    let tree = so_far.split_once("use ").map_or("", |(_, tree)| tree);
                    let tree = tree.split(';').next().unwrap_or_default();
                    let mut flat = Vec::new();
                    flatten("", tree.trim(), &mut flat);
                    found.extend(flat.into_iter().map(|path| (*first, path)));
                    statement = None;
                }
            }
            None => found.extend(inline(line).into_iter().map(|path| (number, path))),
        }
    }
    let absolute = |(line, path): (usize, String)| Some((line, absolute(&path, module)?));
    found.into_iter().filter_map(absolute).collect()
}

/// The paths that a tree of imports names.
fn flatten(before: &str, tree: &str, flat: &mut Vec<String>) {
    let Some((prefix, rest)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or_default().trim();
        if !path.is_empty() {
            flat.push(format!("{before}{path}"));
        }
        return;
    };
    let inner = rest.rsplit_once('}').map_or(rest, |(inner, _)| inner);
    let before = format!("{before}{}", prefix.trim());
    let (mut depth, mut from) = (0_u32, 0);
    for (at, character) in inner.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                flatten(&before, inner[from..at].trim(), flat);
                from = at + 1;
            }
            _ => {}
        }
    }
    flatten(&before, inner[from..].trim(), flat);
}

/// Paths in an expression or a type.
fn inline(line: &str) -> Vec<String> {
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    let mut found = Vec::new();
    for start in ["crate::", "super::"] {
        for (at, _) in line.match_indices(start) {
            if line[..at].ends_with(|character| is_word(character) || character == ':') {
                continue;
            }
            let rest = &line[at..];
            let end = rest
                .find(|character| !is_word(character) && character != ':')
                .unwrap_or(rest.len());
            found.push(rest[..end].trim_end_matches(':').to_owned());
        }
    }
    found
}

/// A path below the crate; nothing if it leads out of it.
fn absolute(path: &str, module: &[String]) -> Option<Vec<String>> {
    let mut parts = path.split("::").map(str::trim).peekable();
    let mut at = match *parts.peek()? {
        "crate" => {
            parts.next();
            Vec::new()
        }
        "super" | "self" => module.to_vec(),
        _ => return None,
    };
    for part in parts {
        match part {
            "self" => {}
            "super" => {
                at.pop();
            }
            _ => at.push(part.to_owned()),
        }
    }
    Some(at)
}

/// Groups of files that import each other in a circle. A folder's `mod.rs` and its files do not
/// count as one: the front of a folder names what is in it.
pub(super) fn circles(files: &[File<'_>]) -> Vec<BTreeSet<String>> {
    let known: BTreeSet<&[String]> = files.iter().map(|file| file.module.as_slice()).collect();
    let mut reach: BTreeMap<&[String], BTreeSet<&[String]>> = BTreeMap::new();
    for file in files {
        let from = file.module.as_slice();
        let to = reach.entry(from).or_default();
        for (_, path) in &file.paths {
            let target = (0..=path.len())
                .rev()
                .find_map(|length| known.get(&path[..length]).copied());
            if let Some(target) = target
                && !from.starts_with(target)
                && !target.starts_with(from)
            {
                to.insert(target);
            }
        }
    }
    // What can be reached at all; crates are small.
    loop {
        let mut grown = false;
        let nodes: Vec<&[String]> = reach.keys().copied().collect();
        for node in nodes {
            let next: BTreeSet<&[String]> = reach[node]
                .iter()
                .flat_map(|step| reach.get(step).into_iter().flatten().copied())
                .collect();
            let known = reach.get_mut(node).expect("a key");
            let before = known.len();
            known.extend(next);
            grown |= known.len() > before;
        }
        if !grown {
            break;
        }
    }
    let mut circles = BTreeSet::new();
    for (node, targets) in &reach {
        let back = targets.iter().filter(|target| {
            reach
                .get(**target)
                .is_some_and(|targets| targets.contains(node))
        });
        let circle: BTreeSet<String> = back.map(|module| module.join("/")).collect();
        if !circle.is_empty() {
            circles.insert(circle);
        }
    }
    circles.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::super::source;
    use super::*;

    fn leads(text: &str, module: &[&str]) -> Vec<String> {
        let module: Vec<String> = module.iter().map(|part| (*part).to_owned()).collect();
        paths(text, &module)
            .into_iter()
            .map(|(line, path)| format!("{line} {}", path.join("/")))
            .collect()
    }

    #[test]
    fn paths_are_found_in_imports_and_in_expressions() {
        let text = "use std::fmt;\nuse crate::a::{self, b::{C, D as E}};\npub(crate) use \
            super::f::G;\n\
            fn g(h: crate::h::I) { super::k::l() } // crate::comment\nmod tests {\nuse crate::t;\n";
        assert_eq!(
            leads(text, &["cp", "clean"]),
            ["2 a", "2 a/b/C", "2 a/b/D", "3 cp/f/G", "4 h/I", "4 cp/k/l"]
        );
    }

    #[test]
    fn an_import_of_several_lines_is_one() {
        let text = "use crate::a::{\n    B,\n    c::{D, E},\n};\n";
        assert_eq!(leads(text, &["x"]), ["1 a/B", "1 a/c/D", "1 a/c/E"]);
    }

    #[test]
    fn circles_are_found_but_a_front_and_its_files_are_none() {
        let sources = [
            source("crates/x/src/lib.rs", "mod a;\nmod b;\n"),
            source("crates/x/src/a/mod.rs", "pub use crate::a::c::C;\n"),
            source(
                "crates/x/src/a/c.rs",
                "use crate::a::Front;\nuse crate::b::B;\n",
            ),
            source("crates/x/src/b.rs", "use crate::d::D;\n"),
            source(
                "crates/x/src/d.rs",
                "use crate::b::B;\nuse crate::a::c::C;\n",
            ),
            source("crates/x/src/e.rs", "use crate::a::c::C;\n"),
        ];
        let found = circles(&files(&sources, "x"));
        let circle: Vec<&str> = found[0].iter().map(String::as_str).collect();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(circle, ["a/c", "b", "d"]);
    }
}
