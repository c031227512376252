//! `everglade repair`: what can be derived is derived before anybody needs it, while a daemon
//! serves and while none runs; what cannot is listed.

use std::thread;
use std::time::Duration;

use everglade_format::indirect::BlockKind;
use everglade_format::metafile::ACTIVE_MAP;

use super::blocks::headed;
use super::readonly::level1;
use super::{
    BLOCK, BLOCK_U32, Medium, assert_serves, noise, open, serve, with_blocks, write_blocks,
};
use crate::clients::assert_clean;
use crate::manage::{ask, ask_json, refused};
use crate::operate::http;
use crate::running::{TestDir, code, stderr, stdout};
use crate::waiting::{event, within};

const BLOCKS: [u64; 3] = [1, 300, 600];

fn at(number: u64) -> u64 {
    number * BLOCK as u64
}

/// Damages the pointers to the active maps of the aggregate and of the volume.
fn damage_maps(medium: &Medium) {
    for kind in [BlockKind::AggregateIndirect, BlockKind::VolumeIndirect] {
        medium.flip(level1(medium, kind, ACTIVE_MAP));
    }
}

#[test]
fn without_a_daemon_what_is_damaged_is_derived() {
    let dir = with_blocks(&BLOCKS);
    let medium = Medium::of(&dir);
    damage_maps(&medium);
    assert_eq!(code(&dir.run(&["check"])), 1, "it is damaged");
    let output = dir.run(&["repair", "--json"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let told: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    let repair = &told["repairs"][0];
    assert_eq!(repair["state"], "done", "{told}");
    assert_eq!(repair["damaged_blocks"], 0, "{told}");
    assert!(repair["read_blocks"].as_u64() > Some(10), "{told}");
    assert_eq!(told["errors"], serde_json::json!([]));
    assert_clean(&dir);
    // Nothing is left to mend.
    let output = dir.run(&["repair", "aggr0"]);
    let said = stdout(&output);
    assert!(said.starts_with("aggr0: "), "{said}");
    assert!(said.contains(" 0 mended, 0 cannot be mended"), "{said}");
    assert_serves(&dir, &BLOCKS);
    // The history has both.
    let server = serve(&dir);
    let history = ask(&dir, &["history", "--where", "what=repair"]);
    assert_eq!(history.matches("everglade repair").count(), 2, "{history}");
    server.stop();
}

#[test]
fn a_daemon_repairs_what_it_has_in_memory_while_clients_write() {
    let dir = with_blocks(&BLOCKS);
    let server = serve(&dir);
    let mut client = open(&server);
    // The maps are in memory from now on.
    client.write(at(2), &noise(2)).expect("written");
    client.flush().expect("flushed");
    ask(&dir, &["snapshot", "create", "vol0@s"]);
    let medium = Medium::of(&dir);
    damage_maps(&medium);
    let writer = thread::spawn(move || {
        for number in 1000..1500 {
            client.write(at(number), &noise(number)).expect("written");
            client.flush().expect("flushed");
        }
        client
    });
    let output = dir.run(&["repair"]);
    assert_eq!(code(&output), 0, "{}{}", stdout(&output), stderr(&output));
    let mut client = writer.join().expect("it writes");
    let said = stdout(&output);
    assert!(said.contains(" 0 cannot be mended"), "{said}");
    let shown = ask_json(&dir, &["aggregate", "show", "aggr0"]);
    let mended = shown["damage"]["mended"].as_object().expect("an object");
    assert!(!mended.is_empty(), "{shown}");
    let jobs = ask_json(&dir, &["job", "show"]);
    assert_eq!(jobs["jobs"][0]["kind"], "repair", "{jobs}");
    within(Duration::from_secs(10), "the job is done", || {
        ask_json(&dir, &["job", "show"])["jobs"][0]["state"] == "done"
    });
    for number in [1, 2, 300, 600, 1000, 1499] {
        assert_eq!(client.read(at(number), BLOCK_U32), Ok(noise(number)));
    }
    drop(client);
    server.stop();
    assert_clean(&dir);
}

#[test]
fn what_is_known_in_memory_is_put_back_whatever_it_is() {
    let dir = with_blocks(&BLOCKS);
    let server = serve(&dir);
    // Inodes cannot be derived. Those of the aggregate are in memory since the start.
    ask(&dir, &["repair"]);
    let medium = Medium::of(&dir);
    let inodes = headed(&medium, |header| header.kind == BlockKind::Inodes);
    inodes.iter().for_each(|at| medium.flip(*at));
    let output = dir.run(&["repair"]);
    assert_eq!(code(&output), 0, "{}{}", stdout(&output), stderr(&output));
    server.stop();
    assert_clean(&dir);
    assert_serves(&dir, &BLOCKS);
}

#[test]
fn a_repair_is_cancelled_and_what_cannot_be_repaired_is_refused() {
    let dir = with_blocks(&[]);
    refused(&dir, &["repair", "nobody"], 4, &["nobody", "aggr0"]);
    refused(
        &dir,
        &["repair", "aggr0", "--no-wait"],
        3,
        &["everglade serve"],
    );
    let empty = TestDir::new();
    refused(&empty, &["repair"], 1, &["holds no aggregates"]);
    assert!(!empty.data_dir().exists(), "nothing was made");

    write_blocks(&dir, &BLOCKS);
    let server = serve(&dir);
    refused(&dir, &["repair", "nobody"], 4, &["nobody", "EVG-2001"]);
    let path = "/v1/aggregates/aggr0/actions/stop-repair";
    let answer = http::unix(&dir, "POST", path, "", "");
    assert_eq!(
        answer.status, 200,
        "nothing to stop is no error: {answer:?}"
    );
    assert_eq!(answer.json()["state"], "none");
    let begun = http::unix(&dir, "POST", "/v1/aggregates/aggr0/actions/repair", "", "");
    assert_eq!(begun.status, 202, "{begun:?}");
    event(&dir, "repair by");
    let shown = http::unix(&dir, "GET", "/v1/aggregates/aggr0/repair", "", "");
    assert_eq!(shown.json()["aggregate"], "aggr0");
    server.stop();
    assert_clean(&dir);
}
