//! Programs of others that tests need, and saying so when they are missing.
//!
//! A skipped test prints why and is counted: it appends a line to the file named by
//! `EVERGLADE_SKIPS`, which `cargo xtask test` reads, because cargo would count it as passed.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output};

/// Folders with programs of administrators, which are not in everybody's PATH.
const MORE_FOLDERS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Where a program is, by PATH and in folders of administrators.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .chain(MORE_FOLDERS.map(PathBuf::from))
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

/// Whether all are installed; if not, the calling test is to return, and has been counted.
pub(crate) fn have(programs: &[&str]) -> bool {
    let missing: Vec<_> = programs
        .iter()
        .filter(|name| find(name).is_none())
        .copied()
        .collect();
    if !missing.is_empty() {
        skip(&format!("not installed: {}", missing.join(", ")));
    }
    missing.is_empty()
}

/// Counts the calling test as skipped.
pub(crate) fn skip(reason: &str) {
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    let line = format!("everglade {test}: {reason}\n");
    eprint!("skipped {line}");
    if let Some(path) = std::env::var_os("EVERGLADE_SKIPS") {
        let file = std::fs::File::options()
            .append(true)
            .create(true)
            .open(path);
        file.and_then(|mut file| file.write_all(line.as_bytes()))
            .expect("the list of skips");
    }
}

/// Runs a program to its end; a hang is ended by `timeout` from coreutils.
pub(crate) fn run(program: &str, args: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", "120", program]).args(args);
    command.output().expect("timeout is part of every Debian")
}

/// Runs a program that must succeed, and returns its stdout.
#[track_caller]
pub(crate) fn must(program: &str, args: &[&str]) -> String {
    let output = run(program, args);
    let (stdout, stderr) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(
        output.status.success(),
        "{program} {args:?}: {}\n{stdout}{stderr}",
        output.status
    );
    stdout.into_owned()
}

/// Runs a program that must fail, and returns its stderr.
#[track_caller]
pub(crate) fn must_fail(program: &str, args: &[&str]) -> String {
    let output = run(program, args);
    assert!(!output.status.success(), "{program} {args:?} succeeded");
    assert_ne!(output.status.code(), Some(124), "{program} {args:?} hung");
    String::from_utf8_lossy(&output.stderr).into_owned()
}
