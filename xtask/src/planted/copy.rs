//! The copy of the workspace that has the mistakes: `target/planted/`.
//!
//! It has the files of the repository, and differs in five ways.
//!
//! 1. The edits of all bugs are applied.
//! 2. Crates that they change depend on `everglade-planted`.
//! 3. The version ends with `-planted`. So cargo keeps our crates of the two apart, although it
//!    builds both in one folder, and builds other people's crates once for both.
//! 4. [`PLANS`] says who finds which bug.
//! 5. The tests of `testing` are a target with a name of their own ([`TESTS`]), so that one command
//!    can build them and programs of other crates, all with the same features of other people's
//!    crates.
//!
//! Only files whose content changes are written, so that the next build here is a short one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::bug::{Bug, Plan};
use super::planting::{Mistake, Planting};
use crate::place;

/// Lines `NAME KIND SEED` for the hunt of `testing`, relative to the copy.
pub(super) const PLANS: &str = "crates/planted/plans";

/// The target of the tests of `testing`.
pub(super) const TESTS: &str = "planted-tests";

/// Where it is.
pub(super) fn root() -> PathBuf {
    place::target().join("planted")
}

/// Makes it what the repository says. Returns its bugs.
pub(super) fn make() -> Result<Vec<Bug>, Vec<Mistake>> {
    let failed = |error: io::Error| {
        vec![Mistake {
            path: root(),
            line: 0,
            explanation: format!("cannot copy the repository to here: {error}"),
        }]
    };
    let mut files = BTreeMap::new();
    for path in place::files() {
        let content = fs::read(place::root().join(&path)).map_err(failed)?;
        files.insert(path, content);
    }
    let bugs = plant(&mut files)?;
    write(&root(), &files).map_err(failed)?;
    Ok(bugs)
}

/// Makes the repository's files those of the copy.
fn plant(files: &mut BTreeMap<PathBuf, Vec<u8>>) -> Result<Vec<Bug>, Vec<Mistake>> {
    let texts = files
        .iter()
        .filter_map(|(path, content)| Some((path.as_path(), str::from_utf8(content).ok()?)));
    let Planting { bugs, sources } = Planting::of(&texts.collect())?;
    let folders: BTreeSet<PathBuf> = sources
        .keys()
        .map(|path| path.iter().take(2).collect())
        .collect();
    for folder in folders {
        change(files, &folder.join("Cargo.toml"), depend);
    }
    change(files, Path::new("crates/testing/Cargo.toml"), name_tests);
    change(files, Path::new("Cargo.toml"), rename);
    files.insert(PLANS.into(), plans(&bugs).into_bytes());
    files.extend(
        sources
            .into_iter()
            .map(|(path, text)| (path, text.into_bytes())),
    );
    Ok(bugs)
}

fn change(files: &mut BTreeMap<PathBuf, Vec<u8>>, path: &Path, how: fn(&str) -> String) {
    let content = files.get_mut(path);
    let content = content.unwrap_or_else(|| panic!("{} is there", path.display()));
    *content = how(&String::from_utf8_lossy(content)).into_bytes();
}

/// The manifest of a crate, which depends on the switches.
fn depend(manifest: &str) -> String {
    let section = "\n[dependencies]\n";
    let line = "everglade-planted.workspace = true\n";
    match manifest.contains(section) {
        true => manifest.replace(section, &format!("{section}{line}")),
        false => format!("{manifest}{section}{line}"),
    }
}

/// The manifest of `testing`, with another name for its tests.
fn name_tests(manifest: &str) -> String {
    let alone = manifest.replacen("[package]\n", "[package]\nautotests = false\n", 1);
    format!("{alone}\n[[test]]\nname = \"{TESTS}\"\npath = \"tests/it/main.rs\"\n")
}

/// The manifest of the workspace, with the version of the copy.
fn rename(manifest: &str) -> String {
    let lines = manifest.lines().map(|line| {
        let version = line.strip_prefix("version = \"");
        match version.and_then(|rest| rest.strip_suffix('"')) {
            Some(version) => format!("version = \"{version}-planted\"\n"),
            None => format!("{line}\n"),
        }
    });
    lines.collect()
}

fn plans(bugs: &[Bug]) -> String {
    let lines = bugs.iter().filter_map(|bug| match &bug.plan {
        Plan::Simulation { kind, seed } => Some(format!("{} {kind} {seed}\n", bug.name)),
        Plan::Torture => None,
    });
    lines.collect()
}

/// Makes these the files of a folder.
fn write(folder: &Path, files: &BTreeMap<PathBuf, Vec<u8>>) -> io::Result<()> {
    for (path, content) in files {
        let path = folder.join(path);
        if fs::read(&path).is_ok_and(|known| known == *content) {
            continue;
        }
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, content)?;
    }
    let mut folders = vec![folder.to_owned()];
    while let Some(inner) = folders.pop() {
        for entry in fs::read_dir(inner)? {
            let path = entry?.path();
            let relative = path.strip_prefix(folder).unwrap_or(&path);
            if path.is_dir() {
                folders.push(path);
            } else if !files.contains_key(relative) {
                fs::remove_file(path)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edited_crate_depends_on_the_switches_and_the_version_is_another() {
        let manifest = "[package]\nname = \"a\"\n\n[dependencies]\nb = \"1\"\n";
        let line = "[dependencies]\neverglade-planted.workspace = true\n";
        let with = manifest.replace("[dependencies]\n", line);
        assert_eq!(depend(manifest), with);
        assert!(depend("[package]\n").ends_with(&format!("\n{line}")));
        let tests = name_tests(manifest);
        assert!(
            tests.starts_with("[package]\nautotests = false\nname"),
            "{tests}"
        );
        assert!(
            tests.ends_with("\npath = \"tests/it/main.rs\"\n"),
            "{tests}"
        );
        let workspace = "[workspace.package]\nversion = \"0.1.0\"\nrust-version = \"1.95\"\n";
        let renamed = workspace.replace("0.1.0", "0.1.0-planted");
        assert_eq!(rename(workspace), renamed);
    }

    #[test]
    fn only_what_changes_is_written_and_what_is_gone_goes() {
        let folder = place::target().join("tmp-planted-copy");
        let _ = fs::remove_dir_all(&folder);
        let files = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter();
            pairs
                .map(|(path, text)| (PathBuf::from(path), text.as_bytes().to_owned()))
                .collect::<BTreeMap<_, _>>()
        };
        write(&folder, &files(&[("a/b", "1"), ("a/c", "1"), ("d", "1")])).unwrap();
        let written = |path: &str| fs::metadata(folder.join(path)).unwrap().modified().unwrap();
        let before = written("a/b");
        let later = before - std::time::Duration::from_secs(60);
        for name in ["a/b", "a/c"] {
            let file = fs::File::options()
                .write(true)
                .open(folder.join(name))
                .unwrap();
            file.set_modified(later).unwrap();
        }
        write(&folder, &files(&[("a/b", "1"), ("a/c", "2")])).unwrap();
        assert_eq!(written("a/b"), later, "it is as it was");
        assert_ne!(written("a/c"), later);
        assert_eq!(fs::read_to_string(folder.join("a/c")).unwrap(), "2");
        assert!(!folder.join("d").exists());
        fs::remove_dir_all(&folder).unwrap();
    }
}
