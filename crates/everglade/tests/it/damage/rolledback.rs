//! All devices of an aggregate are put back as they were: nothing on them tells, so the data
//! directory does (decision 0031).

use std::fs;
use std::path::Path;

use super::{
    BLOCK, assert_refused_untouched, assert_serves, copy, noise, open, serve, write_blocks,
};
use crate::manage::{ask, ask_json, refused};
use crate::running::{TestDir, stderr};

/// The option that a refusal names.
fn option(said: &str) -> Vec<String> {
    let (_, rest) = said.rsplit_once("--accept-rollback ").expect("an option");
    let value = rest.split_whitespace().next().expect("a value");
    vec!["--accept-rollback".to_owned(), value.to_owned()]
}

#[test]
fn an_older_copy_of_all_devices_is_refused_until_somebody_accepts_it() {
    let dir = TestDir::new();
    write_blocks(&dir, &[1]);
    let device = dir.data_dir().join("aggregates/aggr0/dev0");
    let (old, new) = (dir.file("old"), dir.file("new"));
    copy(&device, &old);
    write_blocks(&dir, &[2]);
    copy(&device, &new);
    let put = |from: &Path| {
        fs::remove_dir_all(&device).expect("removed");
        copy(from, &device);
    };
    put(&old);
    let parts = [
        "the devices of aggregate aggr0 are at consistency point",
        "which was seen before",
        "put the current devices in place",
        "--accept-rollback aggr0@",
    ];
    assert_refused_untouched(&dir, &parts);
    // The check reads it, and says what it is.
    let checked = dir.run(&["check"]);
    assert!(
        stderr(&checked).contains("was seen before"),
        "{}",
        stderr(&checked)
    );
    // The current devices are fine.
    put(&new);
    assert_serves(&dir, &[1, 2]);
    // Another number accepts nothing.
    put(&old);
    let said = stderr(&dir.serve_in_vain(&["--accept-rollback", "aggr0@1"]));
    assert!(said.contains("has no effect"), "{said}");
    let accept = option(&said);
    let accept: Vec<&str> = accept.iter().map(String::as_str).collect();
    let server = dir.serve(&accept);
    let mut client = open(&server);
    assert_eq!(client.read(BLOCK as u64, 4096), Ok(noise(1)));
    drop(client);
    let history = ask_json(&dir, &["history"]);
    let last = history["changes"]
        .as_array()
        .expect("a list")
        .last()
        .cloned();
    let last = last.expect("an entry");
    assert_eq!(last["what"], "aggregate accept-rollback");
    assert_eq!(last["object"], "aggr0");
    server.stop();
    // From now on that is where it is, and the same holds from there.
    assert_serves(&dir, &[1]);
    copy(&device, &dir.file("later"));
    write_blocks(&dir, &[3]);
    assert_serves(&dir, &[1, 3]);
    put(&dir.file("later"));
    let said = stderr(&dir.serve_in_vain(&accept));
    assert!(said.contains("which was seen before"), "{said}");
}

#[test]
fn the_other_aggregates_serve() {
    let dir = TestDir::new();
    let server = serve(&dir);
    ask(&dir, &["aggregate", "create", "other", "--size", "2GiB"]);
    ask(&dir, &["volume", "create", "v", "--aggregate", "other"]);
    server.stop();
    let device = dir.data_dir().join("aggregates/other/dev0");
    let old = dir.file("old");
    copy(&device, &old);
    let server = serve(&dir);
    ask(&dir, &["lun", "create", "v/l", "--size", "1M"]);
    // Also what a crash leaves behind is recognised, from the last time that it was noted.
    server.kill();
    let server = serve(&dir);
    server.kill();
    fs::remove_dir_all(&device).expect("removed");
    copy(&old, &device);
    let server = serve(&dir);
    let status = dir.run(&["status", "--json"]);
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).expect("JSON");
    let conditions = status["conditions"].as_array().expect("a list");
    let found = conditions.iter().find(|it| it["code"] == "EVG-4011");
    let found = found.unwrap_or_else(|| panic!("{status}"));
    assert_eq!(found["object"], "aggregate other");
    assert_eq!(found["health"], "unhealthy");
    refused(&dir, &["lun", "show", "v/l"], 4, &[]);
    ask(&dir, &["lun", "show", "vol0/lun0"]);
    server.stop();
}
