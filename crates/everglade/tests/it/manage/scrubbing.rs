//! Scrubs with a daemon: what one drive of a mirror has wrong is found, mended, and charged to it.

use std::fs::File;
use std::os::unix::fs::FileExt;

use serde_json::Value;

use super::mirrors::{BLOCK, PATIENCE, assert_holds, files, fill, find, make, mirror, serve};
use super::{TestDir, ask, ask_json, assert_clean, refused, text};
use crate::host_space::payload;
use crate::operate::http;
use crate::operate::metrics::value;
use crate::waiting::{event, within};

fn status(dir: &TestDir) -> Value {
    ask_json(dir, &["aggregate", "scrub", "status", "m"])
}

#[test]
fn a_scrub_mends_what_nobody_reads_and_charges_the_drive() {
    let dir = TestDir::new();
    let server = serve(&dir, &[]);
    let drives = files(&dir, 2);
    make(&dir, &drives, &[]);
    assert_eq!(status(&dir)["state"], "none");
    fill(&server, 0..8, 1);
    server.stop();
    let wanted: Vec<u8> = (0..8).flat_map(|number| payload(number, 1)).collect();
    let places = find(&drives[1], &wanted);
    let file = File::options().write(true).open(&drives[1]).expect("open");
    for place in &places {
        file.write_all_at(&[0xEE; BLOCK], *place).expect("damaged");
    }
    file.sync_all().expect("damaged");
    drop(file);
    let server = serve(&dir, &[]);
    let said = ask(&dir, &["aggregate", "scrub", "start", "m"]);
    assert!(said.starts_with("scrub of aggregate m: "), "{said}");
    within(PATIENCE, "the scrub has ended", || {
        status(&dir)["state"] == "done"
    });
    let done = status(&dir);
    // The journal has some of them, which nothing reads.
    let blocks = (wanted.len() / BLOCK) as u64;
    assert_eq!(done["wrong_block_count"], blocks, "{done}");
    assert_eq!(done["lost_block_count"], 0, "{done}");
    assert_eq!(done["percent"], 100, "{done}");
    let faults = |drive: usize, what: &str| mirror(&dir)["devices"][drive]["faults"][what].as_u64();
    within(PATIENCE, "all are written again", || {
        faults(1, "mended_block_count") == Some(blocks)
    });
    assert_eq!(faults(1, "wrong_block_count"), Some(blocks));
    assert_eq!(faults(0, "wrong_block_count"), Some(0));
    event(&dir, &format!("drive {} had", text(&drives[1])));
    let page = http::tcp(&server.metrics, "GET", "/metrics", "").body;
    let path = text(&drives[1]);
    let sample = format!(
        "everglade_drive_faults_total{{aggregate=\"m\",device=\"{path}\",kind=\"mended\"}}"
    );
    assert!(value(&page, &sample) >= 1.0, "{sample}");
    let history = ask(&dir, &["history"]);
    assert!(history.contains("scrub start"), "{history}");
    assert_holds(&server, 0..8, 1);
    server.stop();
    // No copy is wrong any more.
    assert_clean(&dir, 2);
}

#[test]
fn a_scrub_is_paused_and_goes_on() {
    let dir = TestDir::new();
    let server = serve(&dir, &[]);
    make(&dir, &files(&dir, 2), &[]);
    fill(&server, 0..8, 1);
    ask(&dir, &["aggregate", "scrub", "pause", "m"]);
    assert_eq!(status(&dir)["state"], "none", "there is nothing to pause");
    ask(&dir, &["aggregate", "scrub", "start", "m"]);
    ask(&dir, &["aggregate", "scrub", "pause", "m"]);
    let paused = status(&dir);
    let state = paused["state"].as_str().expect("a word");
    assert!(["paused", "done"].contains(&state), "{paused}");
    ask(&dir, &["aggregate", "scrub", "start", "m"]);
    within(PATIENCE, "it goes on to its end", || {
        status(&dir)["state"] == "done"
    });
    let words = ["aggregate", "scrub", "start", "x"];
    refused(&dir, &words, 4, &["there is no aggregate x"]);
    // One without redundancy is read, too.
    ask(&dir, &["aggregate", "scrub", "start", "aggr0"]);
    server.stop();
    assert_clean(&dir, 2);
}

/// Scrubs of several processes of the daemon, which begin and go on by themselves.
#[test]
fn scrubs_begin_by_themselves_and_outlive_the_daemon() {
    let dir = TestDir::new();
    let server = serve(&dir, &["--scrub-interval", "0s"]);
    make(&dir, &files(&dir, 2), &[]);
    fill(&server, 0..8, 1);
    assert!(status(&dir)["next"].is_null(), "never");
    ask(&dir, &["aggregate", "scrub", "start", "m"]);
    within(PATIENCE, "it has ended", || status(&dir)["state"] == "done");
    event(&dir, "the scrub has found all blocks right");
    let first = status(&dir);
    assert!(first["next"].is_null(), "{first}");
    server.stop();
    // What it found is known after a restart, and after a kill, too.
    let server = serve(&dir, &[]);
    let known = status(&dir);
    for what in ["state", "started", "ended", "read_copy_count", "percent"] {
        assert_eq!(known[what], first[what], "{what}: {known}");
    }
    assert!(known["next"].is_string(), "in a week: {known}");
    let said = ask(&dir, &["aggregate", "scrub", "status", "m"]);
    assert!(said.contains("the next one begins "), "{said}");
    server.kill();
    // It was due long ago.
    let server = serve(&dir, &["--scrub-interval", "1s"]);
    let started = |dir: &TestDir| status(dir)["started"].clone();
    within(PATIENCE, "another one has begun", || {
        started(&dir) != first["started"]
    });
    server.stop();
    assert_clean(&dir, 2);
}

#[test]
fn a_scrub_that_a_stop_ended_goes_on() {
    let dir = TestDir::new();
    let server = serve(&dir, &[]);
    make(&dir, &files(&dir, 2), &[]);
    fill(&server, 0..64, 1);
    ask(&dir, &["aggregate", "scrub", "start", "m"]);
    ask(&dir, &["aggregate", "scrub", "pause", "m"]);
    let paused = status(&dir);
    if paused["state"] == "done" {
        // It was faster than we are.
        return;
    }
    // The clerk notes that within seconds.
    std::thread::sleep(std::time::Duration::from_secs(7));
    server.kill();
    let server = serve(&dir, &[]);
    let known = status(&dir);
    assert_eq!(known["state"], "paused", "{known}");
    assert_eq!(known["started"], paused["started"], "{known}");
    ask(&dir, &["aggregate", "scrub", "start", "m"]);
    within(PATIENCE, "it goes on to its end", || {
        status(&dir)["state"] == "done"
    });
    assert_eq!(status(&dir)["started"], paused["started"]);
    server.stop();
    assert_clean(&dir, 2);
}
