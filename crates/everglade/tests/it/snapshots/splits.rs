//! Splits of clones: what the verbs say and refuse, and what clients read when nobody is left to
//! share with.

use crate::manage::{ask, ask_json, assert_clean, refused, serve};
use crate::operate::http;
use crate::running::{Server, TestDir};
use crate::wire::Client;

const MIB: usize = 1 << 20;

fn open(server: &Server, export: &str) -> Client {
    Client::open(&server.tcp, export).expect("a client").0
}

/// `vol0@s` has 8 MiB of ones; its clone `test` has twos from 1 MiB to 2 MiB.
fn with_clone(server: &Server, dir: &TestDir) {
    let mut parent = open(server, "vol0/lun0");
    parent.write(0, &[1; 8 * MIB]).expect("written");
    ask(dir, &["snapshot", "create", "vol0@s"]);
    ask(dir, &["clone", "create", "test", "--from", "vol0@s"]);
    let mut clone = open(server, "test/lun0");
    clone.write(MIB as u64, &[2; MIB]).expect("written");
    clone.flush().expect("flushed");
}

fn expect_clone(server: &Server) {
    let mut clone = open(server, "test/lun0");
    for (mib, byte) in [(0, 1), (1, 2), (2, 1), (7, 1)] {
        let found = clone.read(mib * MIB as u64, 1 << 20).expect("read");
        assert!(found.iter().all(|it| *it == byte), "MiB {mib} of test/lun0");
    }
    let mut base = open(server, "test/lun0@s");
    let found = base.read(MIB as u64, 1 << 20).expect("read");
    assert!(found.iter().all(|it| *it == 1), "MiB 1 of test/lun0@s");
}

#[test]
fn a_clone_that_was_split_outlives_what_it_was_cloned_from() {
    let dir = TestDir::new();
    let server = serve(&dir);
    with_clone(&server, &dir);
    let told = ask_json(&dir, &["clone", "split", "show", "test"]);
    assert_eq!(told["state"], "none");
    assert_eq!(told["clone_of"], "vol0@s");
    assert_eq!(told["percent"], 0);
    let total = told["total_bytes"].as_u64().expect("a number");
    assert!(total > 8 * MIB as u64, "{told}");
    let said = ask(&dir, &["clone", "split", "start", "test", "--dry-run"]);
    assert!(said.contains("would copy 8."), "{said}");
    assert!(said.contains("would not need vol0@s"), "{said}");
    assert_eq!(
        ask_json(&dir, &["clone", "split", "show", "test"]),
        told,
        "a dry run does nothing"
    );

    let job = ask_json(&dir, &["clone", "split", "start", "test", "--wait"]);
    assert_eq!(job["kind"], "clone split");
    assert_eq!(job["object"], "test");
    assert_eq!(
        (&job["state"], &job["percent"]),
        (&"done".into(), &100.into())
    );
    assert_eq!(job["total_bytes"], total);
    let told = ask_json(&dir, &["clone", "split", "show", "test"]);
    assert_eq!(
        (&told["state"], &told["percent"]),
        (&"done".into(), &100.into())
    );
    assert_eq!(told.get("clone_of"), None);
    assert_eq!(ask(&dir, &["clone", "show", "--no-header"]), "");
    let base = ask_json(&dir, &["snapshot", "show", "test@s"]);
    assert_eq!(base["is_clone_base"], false);
    assert!(
        base["exclusive_bytes"].as_u64() >= Some(MIB as u64),
        "{base}"
    );
    let id = job["id"].to_string();
    refused(&dir, &["job", "cancel", &id], 5, &["has ended"]);

    // What it was cloned from goes, and its blocks are used for something else.
    ask(
        &dir,
        &["snapshot", "delete", "vol0@s", "--purge", "--yes", "--wait"],
    );
    ask(&dir, &["volume", "delete", "vol0", "--yes", "--wait"]);
    ask(&dir, &["volume", "create", "other"]);
    ask(&dir, &["lun", "create", "other/l", "--size", "64MiB"]);
    let mut other = open(&server, "other/l");
    for mib in 0..32 {
        other.write(mib * MIB as u64, &[9; MIB]).expect("written");
    }
    other.flush().expect("flushed");
    drop(other);
    expect_clone(&server);
    server.stop();
    assert_clean(&dir, 1);
    let server = serve(&dir);
    expect_clone(&server);
    let told = ask_json(&dir, &["clone", "split", "show", "test"]);
    assert_eq!(told["state"], "done");
    // The snapshot that it began as is one like others.
    ask(
        &dir,
        &["snapshot", "delete", "test@s", "--purge", "--yes", "--wait"],
    );
    let mut clone = open(&server, "test/lun0");
    assert_eq!(clone.read(0, 4096), Ok(vec![1; 4096]));
    drop(clone);
    server.stop();
    assert_clean(&dir, 1);
}

#[test]
fn refusals_of_splits_name_the_volume_and_say_what_to_do() {
    let dir = TestDir::new();
    let server = serve(&dir);
    with_clone(&server, &dir);
    let split = |verb: &'static str, name: &'static str| ["clone", "split", verb, name];
    for verb in ["start", "stop", "show"] {
        refused(&dir, &split(verb, "nix"), 4, &["no volume nix"]);
        refused(&dir, &split(verb, "a@b"), 2, &["is not a name"]);
    }
    let no_clone = ["vol0 is no clone", "its own already", "EVG-1004"];
    refused(&dir, &split("start", "vol0"), 2, &no_clone);
    let not_split = ["is not being split", "clone split show", "EVG-2010"];
    refused(&dir, &split("stop", "vol0"), 5, &not_split);
    refused(&dir, &split("stop", "test"), 5, &not_split);
    let said = ask(&dir, &["clone", "split", "start", "vol0", "--dry-run"]);
    assert!(said.contains("vol0 is no clone"), "{said}");
    let base = ["snapshot", "delete", "test@s", "--yes"];
    refused(&dir, &base, 5, &["split the clone first", "EVG-2010"]);
    let delete = ["volume", "delete", "vol0", "--yes"];
    refused(&dir, &delete, 5, &["split or delete", "EVG-2010"]);

    let post = |path: &str| http::unix(&dir, "POST", path, "", "");
    let answer = post("/v1/volumes/test/actions/stop-split");
    assert_eq!(
        (answer.status, &answer.json()["code"]),
        (409, &"EVG-2010".into())
    );
    let answer = post("/v1/volumes/vol0/actions/split");
    assert_eq!(
        (answer.status, &answer.json()["field"]),
        (422, &"volume".into())
    );
    let answer = post("/v1/volumes/test/actions/split");
    assert_eq!(
        (answer.status, &answer.json()["kind"]),
        (202, &"clone split".into())
    );
    let id = answer.json()["id"].to_string();
    ask(&dir, &["job", "wait", &id]);
    refused(&dir, &split("start", "test"), 2, &["test is no clone"]);
    ask(&dir, &["volume", "delete", "vol0", "--yes", "--wait"]);
    expect_clone(&server);
    server.stop();
    assert_clean(&dir, 1);
}
