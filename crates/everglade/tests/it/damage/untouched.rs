//! Whether a refused start has left everything alone.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::refusals::assert_refused;
use crate::running::TestDir;

/// Length, and when content and metadata changed last: no write leaves all of them alone. Blocks
/// are not counted, because the host allocates in its own time what others wrote.
type Stamp = (u64, i64, i64, i64, i64);

/// The stamps of all that is below a directory.
///
/// Left out are the lock, which a start must take to look at anything, and the places of sockets,
/// which hold nothing.
fn stamps(data_dir: &Path) -> BTreeMap<PathBuf, Stamp> {
    let mut found = BTreeMap::new();
    let mut folders = vec![data_dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("list") {
            let entry = entry.expect("an entry");
            let name = entry.file_name();
            if folder == data_dir && (name == "LOCK" || name == "run") {
                continue;
            }
            let it = entry.metadata().expect("metadata");
            if it.is_dir() {
                folders.push(entry.path());
            }
            let stamp = (
                it.size(),
                it.mtime(),
                it.mtime_nsec(),
                it.ctime(),
                it.ctime_nsec(),
            );
            found.insert(entry.path(), stamp);
        }
    }
    found
}

/// A start is refused, in a line that has all these parts, and changes no file.
#[track_caller]
pub(super) fn assert_refused_untouched(dir: &TestDir, parts: &[&str]) {
    let before = stamps(&dir.data_dir());
    let output = dir.serve_in_vain(&super::SERVE);
    assert_refused(&output, parts);
    assert_eq!(stamps(&dir.data_dir()), before, "a refused start writes");
    // Spares hold nothing: they are space that is set aside.
    let left: Vec<_> = fs::read_dir(dir.data_dir().join("run"))
        .expect("list")
        .map(|entry| entry.expect("an entry").file_name())
        .filter(|name| !name.to_string_lossy().ends_with(".spare"))
        .collect();
    assert!(left.is_empty(), "a refused start leaves {left:?}");
}
