//! Lines of `[nbd.allow]` that can never be about anything refuse the start; those that are about
//! nothing now are told.

use std::fs;

use super::http;
use crate::manage::ask_json;
use crate::running::{TestDir, code, stderr};
use crate::tools::have;

fn file(dir: &TestDir, lines: &str) -> String {
    let path = dir.file("config.toml");
    fs::write(&path, format!("[nbd.allow]\n{lines}\n")).expect("written");
    path.to_str().expect("UTF-8").to_owned()
}

/// Once, a slash too many made a line that never fits, and the LUN stayed open to all.
#[test]
fn a_malformed_pattern_refuses_the_start_and_the_check() {
    let dir = TestDir::new();
    for pattern in [
        "vol0/lun0/",
        "/lun0",
        "vol0/",
        "vol0",
        " vol0/lun0",
        "vol0/lun0@",
        "vol0//lun0",
        "*/lun0",
    ] {
        let config = file(&dir, &format!("\"{pattern}\" = \"local\""));
        for verb in [&["config", "check"][..], &["serve", "--nbd-tcp", ":0"]] {
            let output = dir.run(&[verb, &["--config", &config]].concat());
            let said = stderr(&output);
            assert_eq!(code(&output), 1, "{pattern}: {said}");
            assert!(said.contains("names no exports"), "{pattern}: {said}");
            assert!(said.contains("config.toml:2"), "{pattern}: {said}");
        }
    }
    assert!(!dir.data_dir().exists(), "nothing was begun");
}

fn unmatched(dir: &TestDir) -> Vec<String> {
    let status = ask_json(dir, &["status"]);
    let conditions = status["conditions"].as_array().expect("a list").clone();
    let ours = conditions.iter().filter(|it| it["code"] == "EVG-4013");
    ours.map(|it| it["object"].as_str().expect("an object").to_owned())
        .collect()
}

#[test]
fn a_pattern_that_is_about_nothing_is_a_warning_until_it_is() {
    let dir = TestDir::new();
    let lines = "\"vol0/lun0\" = \"local\"\n\"vol0/Lun0\" = \"local\"\n\"vol0/db*\" = \"local\"\n\
                 \"vol0/lun0@*\" = \"local\"\n\"*\" = [\"127.0.0.1\", \"local\"]";
    let config = file(&dir, lines);
    let server = dir.serve(&[
        "--lun-size",
        "64MiB",
        "--aggregate-size",
        "2GiB",
        "--config",
        &config,
    ]);
    assert_eq!(
        unmatched(&dir),
        ["nbd.allow \"vol0/Lun0\"", "nbd.allow \"vol0/db*\""]
    );
    let log = server.log();
    assert!(log.contains("nbd.allow \"vol0/Lun0\": no LUN"), "{log}");
    assert!(!log.contains("nbd.allow \"vol0/lun0\""), "{log}");
    let made = http::unix(
        &dir,
        "PUT",
        "/v1/volumes/vol0/luns/db1",
        "",
        "{\"size_bytes\": 4096}",
    );
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(unmatched(&dir), ["nbd.allow \"vol0/Lun0\""]);
    // Of a LUN that is gone there are snapshots, which the line still closes.
    crate::manage::ask(&dir, &["snapshot", "create", "vol0@s"]);
    crate::manage::ask(&dir, &["lun", "delete", "vol0/db1", "--yes"]);
    assert_eq!(unmatched(&dir), ["nbd.allow \"vol0/Lun0\""]);
    crate::manage::ask(&dir, &["snapshot", "delete", "vol0@s", "--yes"]);
    assert_eq!(
        unmatched(&dir),
        ["nbd.allow \"vol0/Lun0\"", "nbd.allow \"vol0/db*\""]
    );
    if have(&["nbdinfo"]) {
        let closed = crate::tools::run("nbdinfo", &[&server.uri("vol0/lun0")]);
        assert_ne!(code(&closed), 0, "it is for the Unix socket only");
    }
    server.stop();
}
