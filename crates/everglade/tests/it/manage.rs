//! Administering a running daemon (issue 4, items 1 and 2): the command line and the REST interface
//! against the real binary, with real clients on what they make.

mod connected;
mod deletion;
pub(crate) mod devices;
mod failing;
mod garden;
mod growing;
mod hanging;
mod hosts;
mod larger_groups;
mod limits;
mod mirrors;
mod modifying;
mod moving;
mod parity;
mod rebalancing;
mod refusals;
mod remedies;
mod removing;
mod renaming;
mod replacing;
mod rest;
mod scrubbing;
mod space;
mod sparing;
mod trash;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::running::{Server, TestDir, code, stderr, stdout};
use crate::tools::must;

const MIB: u64 = 1 << 20;
pub(crate) const GIB: u64 = 1 << 30;

/// A small first start.
pub(crate) fn serve(dir: &TestDir) -> Server {
    dir.serve(&["--lun-size", "64MiB", "--aggregate-size", "2GiB"])
}

/// Runs a verb that must succeed, and returns its stdout.
#[track_caller]
pub(crate) fn ask(dir: &TestDir, args: &[&str]) -> String {
    let output = dir.run(args);
    assert_eq!(code(&output), 0, "{args:?}: {}", stderr(&output));
    stdout(&output)
}

/// The same as JSON.
#[track_caller]
pub(crate) fn ask_json(dir: &TestDir, args: &[&str]) -> Value {
    let text = ask(dir, &[args, &["--json"]].concat());
    let value: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(value["schema_version"], 1, "{args:?}");
    value
}

/// Runs a verb that must be refused with this code, and one line that has these parts.
#[track_caller]
pub(crate) fn refused(dir: &TestDir, args: &[&str], exit: i32, parts: &[&str]) {
    let output = dir.run(args);
    let said = stderr(&output);
    assert_eq!(code(&output), exit, "{args:?}: {said}");
    assert!(stdout(&output).is_empty(), "{args:?}");
    assert!(!said.is_empty(), "{args:?}");
    assert!(said.starts_with("everglade: "), "{args:?}: {said}");
    assert_eq!(said.lines().count(), 1, "{args:?}: {said}");
    for part in parts {
        assert!(said.contains(part), "{args:?}: '{part}' is not in: {said}");
    }
}

/// Everything the daemon says there is.
pub(crate) fn everything(dir: &TestDir) -> [Value; 3] {
    let mut aggregates = ask_json(dir, &["aggregate", "show"]);
    for aggregate in aggregates["aggregates"].as_array_mut().expect("a list") {
        // What the host has left is nobody's doing here, and a request is refused inside a
        // consistency point.
        for name in [
            "host_free_bytes",
            "committed_cp",
            "used_bytes",
            "free_bytes",
            "cp",
            "journal",
        ] {
            aggregate[name] = Value::Null;
        }
    }
    let volumes = ask_json(dir, &["volume", "show"]);
    let luns = ask_json(dir, &["lun", "show"]);
    [aggregates, volumes, luns]
}

/// `everglade check` finds nothing wrong, in as many aggregates as there are.
#[track_caller]
pub(crate) fn assert_clean(dir: &TestDir, aggregates: usize) {
    let report = ask_json(dir, &["check"]);
    let checked = report["aggregates"].as_array().expect("a list");
    assert_eq!(checked.len(), aggregates, "{report:#}");
}

/// A file of noise.
pub(crate) fn noise(dir: &TestDir, name: &str, bytes: u64) -> PathBuf {
    let path = dir.file(name);
    let mut state = 0x9e37_79b9_7f4a_7c15 ^ name.len() as u64;
    let mut contents = Vec::new();
    while (contents.len() as u64) < bytes {
        // xorshift64, by Marsaglia.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        contents.extend_from_slice(&state.to_le_bytes());
    }
    fs::write(&path, contents).expect("write");
    path
}

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary paths are UTF-8")
}

pub(crate) fn copy_in(server: &Server, image: &Path, lun: &str) {
    must("nbdcopy", &["--flush", text(image), &server.uri(lun)]);
}

#[track_caller]
fn assert_holds(dir: &TestDir, server: &Server, lun: &str, image: &Path) {
    let copy = dir.file("copy.img");
    must("nbdcopy", &[&server.uri(lun), text(&copy)]);
    let (found, expected) = (fs::read(&copy), fs::read(image));
    let (found, expected) = (found.expect("read"), expected.expect("read"));
    let same = found.get(..expected.len()) == Some(&expected[..]);
    assert!(same, "{lun} does not hold {}", image.display());
    let rest = &found[expected.len()..];
    assert!(
        rest.iter().all(|byte| *byte == 0),
        "{lun}: beyond the image"
    );
}

#[track_caller]
fn assert_size(server: &Server, lun: &str, bytes: u64) {
    let size = must("nbdinfo", &["--size", &server.uri(lun)]);
    assert_eq!(size.trim(), bytes.to_string(), "{lun}");
}
