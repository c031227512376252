//! LUNs, snapshots and volumes are deleted and come back.

use std::time::Duration;

use super::{ask, ask_json, refused, serve};
use crate::running::{Server, TestDir};
use crate::waiting::{event, within};
use crate::wire::Client;

fn open(server: &Server, lun: &str) -> Client {
    Client::open(&server.tcp, lun).expect("open").0
}

/// Names in the trash.
fn trashed(dir: &TestDir) -> Vec<String> {
    let told = ask_json(dir, &["trash", "list"]);
    let items = told["trash"].as_array().expect("a list").iter();
    items
        .map(|item| item["name"].as_str().expect("a name").to_owned())
        .collect()
}

#[test]
fn a_lun_that_was_deleted_by_mistake_comes_back_as_it_was() {
    let dir = TestDir::new();
    let server = serve(&dir);
    let uuid = ask_json(&dir, &["lun", "show", "vol0/lun0"])["uuid"].clone();
    ask(&dir, &["qos", "set", "vol0/lun0", "--iops", "5000"]);
    let mut client = open(&server, "vol0/lun0");
    client.write(4096, &[7; 8192]).expect("written");
    client.flush().expect("flushed");
    drop(client);
    refused(
        &dir,
        &["lun", "delete", "vol0/lun0"],
        6,
        &["stay in the trash for 1d 0h", "--yes"],
    );
    let delete = ["lun", "delete", "vol0/lun0", "--yes", "--disconnect"];
    let job = ask_json(&dir, &delete);
    assert_eq!(job["state"], "done", "{job}");
    let detail = job["detail"].as_str().expect("a text");
    assert!(detail.contains("in the trash until 20"), "{detail}");
    assert_eq!(trashed(&dir), ["vol0/lun0"]);
    assert!(Client::open(&server.tcp, "vol0/lun0").is_err());
    // The name is free, and the daemon may end meanwhile.
    ask(&dir, &["lun", "create", "vol0/lun0", "--size", "1MiB"]);
    server.stop();
    let server = serve(&dir);
    assert_eq!(trashed(&dir), ["vol0/lun0"]);
    refused(
        &dir,
        &["lun", "undelete", "vol0/lun0"],
        5,
        &["vol0/lun0 exists", "--as"],
    );
    let back = ask_json(&dir, &["lun", "undelete", "vol0/lun0", "--as", "back"]);
    assert_eq!(back["name"], "vol0/back", "{back}");
    let mut client = open(&server, "vol0/back");
    assert_eq!(client.read(4096, 8192).expect("read"), [7; 8192]);
    let back = ask_json(&dir, &["lun", "show", "vol0/back"]);
    assert_eq!(back["uuid"], uuid, "hosts know it again");
    let limits = ask_json(&dir, &["qos", "show"]);
    assert_eq!(limits["limits"][0]["name"], "vol0/back", "{limits}");
    assert_eq!(limits["limits"][0]["iops"], 5000);
    refused(
        &dir,
        &["lun", "undelete", "vol0/lun0"],
        4,
        &["not in the trash", "trash show"],
    );
    let history = ask_json(&dir, &["history", "--where", "what=undelete"]);
    assert_eq!(history["changes"][0]["detail"], "as back", "{history}");
    server.stop();
}

#[test]
fn a_volume_comes_back_with_its_snapshots() {
    let dir = TestDir::new();
    let sizes = ["--lun-size", "64MiB", "--aggregate-size", "2GiB"];
    let policy = ["--snapshot-policy", "default"];
    let server = dir.serve(&[sizes.as_slice(), &policy].concat());
    open(&server, "vol0/lun0")
        .write(0, &[1; 4096])
        .expect("written");
    ask(&dir, &["snapshot", "create", "vol0@monday"]);
    let dry = ["volume", "delete", "vol0", "--dry-run"];
    let said = ask(&dir, &dry);
    assert!(said.contains("stay in the trash"), "{said}");
    let said = ask_json(&dir, &dry);
    assert_eq!(said["trash"]["volume"]["name"], "vol0", "{said}");
    ask(&dir, &["volume", "delete", "vol0", "--yes", "--disconnect"]);
    assert_eq!(trashed(&dir), ["vol0"]);
    let all = ask_json(&dir, &["volume", "show"]);
    assert_eq!(all["volumes"], serde_json::json!([]));
    // Neither is the aggregate deleted while its trash has something.
    ask(&dir, &["aggregate", "create", "other", "--size", "1GiB"]);
    refused(
        &dir,
        &["aggregate", "delete", "aggr0", "--yes"],
        6,
        &["1 object in its trash"],
    );
    ask(&dir, &["volume", "undelete", "vol0"]);
    assert_eq!(trashed(&dir), Vec::<String>::new());
    let back = ask_json(&dir, &["volume", "show", "vol0"]);
    assert_eq!(back["snapshot_policy"], "default", "{back}");
    let mut client = open(&server, "vol0/lun0@monday");
    assert_eq!(client.read(0, 4096).expect("read"), [1; 4096]);
    server.stop();
}

#[test]
fn a_snapshot_that_was_deleted_by_mistake_comes_back() {
    let dir = TestDir::new();
    let server = serve(&dir);
    let mut client = open(&server, "vol0/lun0");
    client.write(0, &[1; 4096]).expect("written");
    ask(&dir, &["snapshot", "create", "vol0@monday"]);
    client.write(0, &[2; 4096]).expect("written");
    let refusal = ["vol0@monday", "stay in the trash for 1d 0h", "--yes"];
    refused(&dir, &["snapshot", "delete", "vol0@monday"], 6, &refusal);
    let job = ask_json(&dir, &["snapshot", "delete", "vol0@monday", "--yes"]);
    let detail = job["detail"].as_str().expect("a text");
    assert!(detail.contains("in the trash until 20"), "{job}");
    assert!(Client::open(&server.tcp, "vol0/lun0@monday").is_err());
    let item = ask_json(&dir, &["trash", "show"])["trash"][0].clone();
    assert_eq!(item["kind"], "snapshot", "{item}");
    assert_eq!(item["name"], "vol0@monday", "{item}");
    let none = ask_json(&dir, &["snapshot", "show", "vol0"]);
    assert_eq!(none["snapshots"], serde_json::json!([]));
    ask(&dir, &["snapshot", "create", "vol0@monday"]);
    server.stop();
    let server = serve(&dir);
    refused(
        &dir,
        &["snapshot", "undelete", "vol0@monday"],
        5,
        &["vol0@monday exists", "--as"],
    );
    let undelete = ["snapshot", "undelete", "vol0@monday", "--as", "back"];
    let back = ask_json(&dir, &undelete);
    assert_eq!(back["name"], "vol0@back", "{back}");
    assert_eq!(back["kind"], "snapshot", "{back}");
    let mut client = open(&server, "vol0/lun0@back");
    assert_eq!(client.read(0, 4096).expect("read"), [1; 4096]);
    drop(client);
    let mut client = open(&server, "vol0/lun0@monday");
    assert_eq!(client.read(0, 4096).expect("read"), [2; 4096]);
    server.stop();
}

#[test]
fn what_is_purged_is_gone_and_gives_its_space_back() {
    let dir = TestDir::new();
    let server = serve(&dir);
    let used = || ask_json(&dir, &["aggregate", "show", "aggr0"])["used_bytes"].as_u64();
    let before = used();
    for name in ["a", "b", "c"] {
        let lun = format!("vol0/{name}");
        ask(&dir, &["lun", "create", &lun, "--size", "8MiB"]);
        let mut client = open(&server, &lun);
        for mib in 0..8 {
            client.write(mib << 20, &vec![3; 1 << 20]).expect("written");
        }
        client.flush().expect("flushed");
    }
    ask(&dir, &["lun", "delete", "vol0/a", "--yes"]);
    ask(&dir, &["lun", "delete", "vol0/b", "--yes"]);
    // For good at once.
    let purge = ["lun", "delete", "vol0/c", "--purge", "--yes", "--wait"];
    let job = ask_json(&dir, &purge);
    assert_eq!(job["state"], "done", "{job}");
    assert!(
        job.get("detail").is_none_or(serde_json::Value::is_null),
        "{job}"
    );
    assert_eq!(trashed(&dir), ["vol0/a", "vol0/b"]);
    refused(&dir, &["trash", "empty", "vol0/a"], 6, &["vol0/a", "--yes"]);
    ask(&dir, &["trash", "empty", "vol0/a", "--yes", "--wait"]);
    assert_eq!(trashed(&dir), ["vol0/b"]);
    ask(&dir, &["trash", "empty", "--yes", "--wait"]);
    assert_eq!(trashed(&dir), Vec::<String>::new());
    let after = used();
    assert!(
        after <= before.map(|it| it + (2 << 20)),
        "{before:?} {after:?}"
    );
    server.stop();
}

#[test]
fn what_was_there_for_long_enough_leaves_by_itself() {
    let dir = TestDir::new();
    let server = dir.serve(&["--trash-keep", "1s", "--lun-size", "64MiB"]);
    ask(&dir, &["lun", "delete", "vol0/lun0", "--yes"]);
    let is_empty = || trashed(&dir).is_empty();
    within(Duration::from_secs(30), "the trash is empty", is_empty);
    // The round tells it when it is over.
    event(&dir, "left the trash, its time is over");
    server.stop();
    // Nothing goes there if nothing is kept.
    let server = dir.serve(&["--trash-keep", "0s"]);
    ask(&dir, &["lun", "create", "vol0/l", "--size", "1MiB"]);
    refused(&dir, &["lun", "delete", "vol0/l"], 6, &["lost for good"]);
    ask(&dir, &["lun", "delete", "vol0/l", "--yes"]);
    assert_eq!(trashed(&dir), Vec::<String>::new());
    server.stop();
}
