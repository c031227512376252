//! Links between documents lead somewhere: files exist, headings too.
//!
//! Relative links only; nobody wants a build that fails because a server on the other side of the
//! world does. A link that leaves the repository is dead for everybody who has only a clone.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use super::{Problem, Source};
use crate::place;

pub(super) fn check(sources: &[Source]) -> Vec<Problem> {
    let documents: Vec<_> = sources.iter().filter(|source| source.is("md")).collect();
    let anchors = |path: &Path| {
        documents
            .iter()
            .find(|source| source.path == path)
            .map(|source| headings(&source.text))
    };
    let exists = |path: &Path| place::root().join(path).exists();
    let mut problems = Vec::new();
    for source in &documents {
        for (number, target) in links(&source.text) {
            if let Err(explanation) = follow(&source.path, &target, &exists, &anchors) {
                problems.push(Problem::new(source, number, explanation));
            }
        }
    }
    problems
}

/// Where a link leads, or why nowhere.
fn follow(
    from: &Path,
    target: &str,
    exists: &dyn Fn(&Path) -> bool,
    anchors: &dyn Fn(&Path) -> Option<BTreeSet<String>>,
) -> Result<(), String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return Ok(());
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = if file.is_empty() {
        from.to_owned()
    } else {
        let folder = from.parent().unwrap_or(Path::new(""));
        resolve(folder, file).ok_or_else(|| {
            format!("the link '{target}' leaves the repository; a clone does not have its target")
        })?
    };
    if !exists(&path) {
        return Err(format!(
            "the link '{target}' is dead: there is no {}",
            path.display()
        ));
    }
    match anchors(&path) {
        Some(known) if !anchor.is_empty() && !known.contains(anchor) => Err(format!(
            "the link '{target}' is dead: {} has no such heading",
            path.display()
        )),
        _ => Ok(()),
    }
}

/// `folder/link` without `..`, or `None` if that is above the root.
pub(super) fn resolve(folder: &Path, link: &str) -> Option<PathBuf> {
    let mut path = folder.to_owned();
    for part in Path::new(link.trim_start_matches('/')).components() {
        let is_inside = match part {
            Component::ParentDir => path.pop(),
            Component::Normal(name) => {
                path.push(name);
                true
            }
            _ => true,
        };
        if !is_inside {
            return None;
        }
    }
    Some(path)
}

/// Targets of `[text](target)` and `[name]: target`, with lines, outside code.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut in_code = false;
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code {
            continue;
        }
        let line = without_code_spans(line);
        let targets = links_of(&line).into_iter();
        found.extend(targets.map(|(_, target)| (number, target.to_owned())));
        if let Some((_, target)) = line
            .strip_prefix('[')
            .and_then(|rest| rest.split_once("]: "))
        {
            found.push((number, target.trim().trim_matches(['<', '>']).to_owned()));
        }
    }
    found
}

/// Texts and targets of `[text](target)` in a line.
pub(super) fn links_of(line: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("](") {
        let text = before.rsplit('[').next().unwrap_or_default();
        let target = after.split(')').next().unwrap_or_default();
        let target = target.split_whitespace().next().unwrap_or_default();
        found.push((text, target.trim_matches(['<', '>'])));
        rest = after;
    }
    found
}

/// The line with everything between backticks blanked.
fn without_code_spans(line: &str) -> String {
    let parts = line.split('`').enumerate();
    parts
        .map(|(index, part)| if index % 2 == 0 { part } else { "" })
        .collect()
}

/// Titles of a document's headings.
pub(super) fn titles(text: &str) -> Vec<&str> {
    let mut in_code = false;
    let mut titles = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        let title = line.trim_start_matches('#');
        if !in_code && title.len() < line.len() && title.starts_with(' ') {
            titles.push(title.trim());
        }
    }
    titles
}

/// Anchors of a document's headings, as the usual forges make them: lower case, spaces to dashes,
/// other signs dropped.
pub(super) fn headings(text: &str) -> BTreeSet<String> {
    let anchor = |title: &str| {
        let letters = title.to_lowercase();
        let kept = letters
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    titles(text).into_iter().map(anchor).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_outside_code() {
        let text = "See [a](b.md) and [c](d.md#e \"title\"), not `[x](y)`.\n```\n[no](no)\n```\n\
                    [ref]: <f.md>\n![image](g.png)\n";
        let targets: Vec<_> = links(text).into_iter().map(|(_, target)| target).collect();
        assert_eq!(targets, ["b.md", "d.md#e", "f.md", "g.png"]);
    }

    #[test]
    fn headings_become_anchors() {
        let anchors = headings("# A b: *C*\n## 2. D-e_f\n#no\n```\n# code\n```\n");
        assert_eq!(
            anchors.into_iter().collect::<Vec<_>>(),
            ["2-d-e_f", "a-b-c"]
        );
    }

    #[test]
    fn dead_links_are_told_from_living_ones() {
        let exists = |path: &Path| path == Path::new("docs/a.md") || path == Path::new("README.md");
        let anchors = |path: &Path| exists(path).then(|| headings("# Here\n"));
        let follow = |target| follow(Path::new("docs/a.md"), target, &exists, &anchors).is_ok();
        for alive in [
            "../README.md",
            "a.md",
            "#here",
            "a.md#here",
            "https://x/y",
            "/a.md",
        ] {
            assert!(follow(alive), "{alive}");
        }
        for dead in [
            "b.md",
            "../docs/b.md",
            "#there",
            "../../shared/DESIGN.md",
            "../README.md#no",
        ] {
            assert!(!follow(dead), "{dead}");
        }
    }
}
