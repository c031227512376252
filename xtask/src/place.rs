//! Where things are in the repository.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders that hold nothing of ours to look at.
const NOT_OURS: [&str; 4] = [".git", "target", "node_modules", ".cargo"];

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent()
        .map_or_else(|| here.to_owned(), Path::to_owned)
}

/// Where cargo puts what it builds.
pub(crate) fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => root().join(folder),
        None => root().join("target"),
    }
}

/// Where a build for release leaves a program.
pub(crate) fn program(name: &str) -> PathBuf {
    target().join("release").join(name)
}

/// The same, if there is one. The tests build most of ours; cargo would build many of their
/// dependencies again, because those are made with other features when tests are not among those
/// who want them.
pub(crate) fn built_by_tests(name: &str) -> Option<PathBuf> {
    Some(program(name)).filter(|path| path.is_file())
}

/// All files below the root, relative to it, sorted; build output and hidden folders left out. One
/// of our crates is called `target`, as build output is: a crate has a manifest.
pub(crate) fn files() -> Vec<PathBuf> {
    let root = root();
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder)
            .unwrap_or_else(|error| panic!("cannot list {}: {error}", folder.display()));
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            let is_crate = || entry.path().join("Cargo.toml").is_file();
            let is_ours = !NOT_OURS.contains(&name.as_str()) || is_crate();
            if kind.is_dir() && is_ours && !name.starts_with("target-") {
                folders.push(entry.path());
            } else if kind.is_file() {
                found.extend(entry.path().strip_prefix(&root).ok().map(Path::to_owned));
            }
        }
    }
    found.sort();
    found
}

/// Whether `crate_name` has a binary of this name, so that a verb can dispatch to it.
pub(crate) fn has_binary(crate_folder: &str, binary: &str) -> bool {
    let sources = root().join("crates").join(crate_folder).join("src/bin");
    let named_in_manifest = || {
        let manifest = root().join("crates").join(crate_folder).join("Cargo.toml");
        fs::read_to_string(manifest)
            .is_ok_and(|text| text.contains("[[bin]]") && text.contains(&format!("\"{binary}\"")))
    };
    sources.join(format!("{binary}.rs")).is_file()
        || sources.join(binary).join("main.rs").is_file()
        || named_in_manifest()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_called_target_is_looked_at_and_build_output_is_not() {
        let files = files();
        assert!(files.contains(&PathBuf::from("crates/target/src/lib.rs")));
        let output = Path::new("target");
        assert!(!files.iter().any(|file| file.starts_with(output)));
    }
}
