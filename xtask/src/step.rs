//! Running one program: said aloud, timed, its output passed on while lines of it are read.
//!
//! A step that hangs would hang CI, so without a terminal each counted step gets a process group of
//! its own, which is killed when the time is up. On a terminal nothing is killed: Ctrl-C has to
//! reach the programs, and somebody is watching.

use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::place;
use crate::tally::Tally;

/// All of CI has 35 minutes on two cores, and no step is more than a part of it.
const TIME_MAX: Duration = Duration::from_secs(25 * 60);

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
    let is_watched = !std::io::stdin().is_terminal();
    if is_watched {
        command.process_group(0);
    }
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    // Dropped at the end, which ends the watch.
    let _watch = is_watched.then(|| watch(&child, TIME_MAX));
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

/// Kills the group that `child` leads when `time_max` is up and the returned end is still held.
fn watch(child: &Child, time_max: Duration) -> Sender<()> {
    let group = format!("-{}", child.id());
    let (alive, ended) = channel();
    thread::spawn(move || {
        if ended.recv_timeout(time_max) == Err(RecvTimeoutError::Timeout) {
            println!("== not finished after {} s: killed", time_max.as_secs());
            // If it has just ended by itself, there is nothing left to kill.
            let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
        }
    });
    alive
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_hangs_is_killed_with_its_children() {
        let mut command = Command::new("sh");
        let mut child = command
            .args(["-c", "sleep 600 & wait"])
            .process_group(0)
            .spawn()
            .unwrap();
        let watch = watch(&child, Duration::from_millis(50));
        assert!(!child.wait().unwrap().success());
        drop(watch);
    }

    #[test]
    fn lines_are_read_and_a_failure_without_a_summary_is_one() {
        let mut tally = Tally::default();
        let script = "echo 2 passed, 0 failed; exit 3";
        let mut lines = Vec::new();
        counted(
            &mut tally,
            "a step",
            Command::new("sh").args(["-c", script]),
            |tally, line| {
                tally.read_plain_line(line);
                lines.push(line.to_owned());
            },
        );
        assert_eq!(lines, ["2 passed, 0 failed"]);
        assert_eq!(tally.line(), "2 passed, 1 failed");
    }
}
