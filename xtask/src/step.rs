//! Running one program: said aloud, timed, its output passed on while lines of it are read.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::place;
use crate::tally::Tally;

/// `cargo` with these words, in the root.
pub(crate) fn cargo(words: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(words).current_dir(place::root());
    // Set for us by `cargo run`; the inner cargo would rebuild what depends on them.
    for name in [
        "CARGO_MANIFEST_DIR",
        "CARGO_MANIFEST_PATH",
        "CARGO_PKG_NAME",
        "CARGO_PKG_VERSION",
    ] {
        command.env_remove(name);
    }
    command
}

/// One that passes or fails as a whole.
pub(crate) fn whole(tally: &mut Tally, name: &str, command: &mut Command) {
    let begun = begin(name);
    let passed = match command.stdin(Stdio::null()).status() {
        Ok(status) => status.success(),
        Err(error) => {
            println!("cannot start: {error}");
            false
        }
    };
    end(name, begun, passed);
    if passed {
        tally.pass(1);
    } else {
        tally.fail(name);
    }
}

/// One that counts for itself: `read` is shown every line of its stdout. It must succeed too.
pub(crate) fn counted(
    tally: &mut Tally,
    name: &str,
    command: &mut Command,
    mut read: impl FnMut(&mut Tally, &str),
) {
    let begun = begin(name);
    let failed_before = tally.failed();
    let passed = stream(command, |line| read(tally, line)).unwrap_or_else(|error| {
        println!("cannot run: {error}");
        false
    });
    // A crash or a failed build has no summary of its own.
    if !passed && tally.failed() == failed_before {
        tally.fail(name);
    }
    end(name, begun, passed);
}

/// Runs to the end; passes stdout on, line by line, also to `read`.
fn stream(command: &mut Command, mut read: impl FnMut(&str)) -> std::io::Result<bool> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    if let Some(stdout) = child.stdout.take() {
        let mut reader = BufReader::new(stdout);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line)? > 0 {
            std::io::stdout().write_all(&line)?;
            read(String::from_utf8_lossy(&line).trim_end());
            line.clear();
        }
    }
    Ok(child.wait()?.success())
}

/// Announces a step.
pub(crate) fn begin(name: &str) -> Instant {
    println!("== {name}");
    Instant::now()
}

/// Says how it went, where that is not obvious.
pub(crate) fn end(name: &str, begun: Instant, passed: bool) {
    let outcome = if passed { "ok" } else { "FAILED" };
    println!(
        "== {name}: {outcome} after {:.1} s",
        begun.elapsed().as_secs_f64()
    );
}
