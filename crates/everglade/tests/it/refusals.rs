//! Starts that are refused: exit code 1, one line on stderr, nothing on stdout, nothing written.

use std::fs;
use std::process::Output;

use crate::running::{TestDir, code, everglade, stderr, stdout};

/// Refused with one line that has all these parts. The log may have said more before it.
#[track_caller]
pub(crate) fn assert_refused(output: &Output, parts: &[&str]) {
    let (out, err) = (stdout(output), stderr(output));
    assert_eq!(code(output), 1, "{err}");
    assert!(out.is_empty(), "{out}");
    let line = err.lines().last().unwrap_or_default();
    assert!(line.starts_with("everglade: "), "{err}");
    for part in parts {
        assert!(line.contains(part), "'{part}' is not in: {err}");
    }
}

#[test]
fn a_directory_that_is_not_ours_is_refused_and_left_alone() {
    let dir = TestDir::new();
    fs::create_dir(dir.data_dir()).expect("create");
    fs::write(dir.data_dir().join("thesis.tex"), "years of work").expect("write");
    let output = dir.run(&["serve", "--nbd-tcp", ":0"]);
    assert_refused(
        &output,
        &["does not belong to everglade", "thesis.tex", "--data-dir"],
    );
    let left: Vec<_> = fs::read_dir(dir.data_dir()).expect("list").collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn a_newer_directory_is_refused() {
    let dir = TestDir::new();
    fs::create_dir(dir.data_dir()).expect("create");
    let format = "everglade data directory\nversion 9\n";
    fs::write(dir.data_dir().join("FORMAT"), format).expect("write");
    assert_refused(&dir.run(&["serve"]), &["format version 9", "newer"]);
    assert!(!dir.data_dir().join("LOCK").exists());
}

#[test]
fn values_out_of_bounds_are_refused_with_the_bounds() {
    let dir = TestDir::new();
    for (args, part) in [
        (["--memory", "1MiB"], "at least 256.0 MiB"),
        (["--reactors", "0"], "expected 1 to 64"),
        (["--lun-size", "5000"], "multiple of 4096"),
        (["--aggregate-size", "1KiB"], "aggregate-size is 1.0 KiB"),
        (["--cp-interval", "0"], "cp.interval is 0s"),
    ] {
        assert_refused(&dir.run(&["serve", args[0], args[1]]), &[part]);
    }
    let output = dir.run(&["serve", "--nbd-tcp", "off", "--nbd-unix", "off"]);
    assert_refused(&output, &["no client could connect"]);
    assert!(!dir.data_dir().exists());
}

#[test]
fn a_mistyped_key_in_the_file_is_refused_with_its_line() {
    let dir = TestDir::new();
    let file = dir.file("e.toml");
    fs::write(&file, "memory = '1GiB'\nreactor = 1\n").expect("write");
    let output = dir.run(&["serve", "--config", file.to_str().expect("UTF-8")]);
    assert_refused(
        &output,
        &[
            "e.toml:2: unknown key 'reactor'",
            "did you mean 'reactors'?",
        ],
    );
    assert!(!dir.data_dir().exists());
}

#[test]
fn a_flag_wins_over_the_environment_and_the_environment_over_the_file() {
    let dir = TestDir::new();
    let file = dir.file("e.toml");
    fs::write(&file, "memory = '1MiB'\n").expect("write");
    let serve = |environment: Option<&str>, flag: Option<&str>| {
        let mut command = everglade(&dir.data_dir());
        command.env("EVERGLADE_CONFIG", &file).arg("serve");
        if let Some(value) = environment {
            command.env("EVERGLADE_MEMORY", value);
        }
        if let Some(value) = flag {
            command.args(["--memory", value]);
        }
        command.output().expect("runs")
    };
    assert_refused(&serve(None, None), &["memory is 1.0 MiB"]);
    assert_refused(&serve(Some("2MiB"), None), &["memory is 2.0 MiB"]);
    assert_refused(&serve(Some("2MiB"), Some("3MiB")), &["memory is 3.0 MiB"]);
}

#[test]
fn a_busy_port_is_refused_with_a_way_out() {
    let dir = TestDir::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("bind");
    let address = taken.local_addr().expect("address").to_string();
    let output = dir.run(&["serve", "--nbd-tcp", &address]);
    assert_refused(
        &output,
        &["cannot listen on", &address, "':0' picks a free port"],
    );
}
