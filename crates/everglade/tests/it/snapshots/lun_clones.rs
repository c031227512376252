//! `lun clone`: another LUN of the volume with the same blocks; a job makes it.

use std::time::Duration;

use super::names;
use crate::host_space::write_until_full;
use crate::manage::{ask, ask_json, assert_clean, refused, serve};
use crate::operate::http;
use crate::running::{Server, TestDir, code, stderr};
use crate::waiting::within;
use crate::wire::Client;

const MIB: u64 = 1 << 20;

fn open(server: &Server, export: &str) -> Client {
    Client::open(&server.tcp, export).expect("a client").0
}

#[test]
fn a_lun_is_cloned_as_it_is_and_as_it_was() {
    let dir = TestDir::new();
    let server = serve(&dir);
    let mut one = open(&server, "vol0/lun0");
    one.write(40 * MIB, &[1; 1 << 20]).expect("written");
    ask(&dir, &["snapshot", "create", "vol0@s"]);
    one.write(40 * MIB, &[2; 8192]).expect("written");

    let job = ask_json(&dir, &["lun", "clone", "vol0/lun0", "vol0/now", "--wait"]);
    assert_eq!(
        (&job["kind"], &job["state"]),
        (&"lun clone".into(), &"done".into())
    );
    assert_eq!(job["object"], "vol0/now");
    let from = ["lun", "clone", "vol0/lun0", "vol0/old", "--from", "vol0@s"];
    ask(&dir, &[&from[..], &["--wait"]].concat());
    one.write(40 * MIB, &[3; 4096]).expect("written");
    let (mut now, mut old) = (open(&server, "vol0/now"), open(&server, "vol0/old"));
    assert_eq!(
        now.read(40 * MIB, 12288),
        Ok([[2; 8192].as_slice(), &[1; 4096]].concat())
    );
    assert_eq!(old.read(40 * MIB, 12288), Ok(vec![1; 12288]));
    now.write(40 * MIB, &[4; 4096]).expect("written");
    assert_eq!(one.read(40 * MIB, 4096), Ok(vec![3; 4096]));
    let shown = ask_json(&dir, &["lun", "show", "vol0/now"]);
    assert_eq!(shown["size_bytes"], 64 * MIB);
    // Nothing is left of what the clone was made from.
    assert_eq!(names(&dir, "vol0"), ["s"]);
    let history = ask(&dir, &["history", "--where", "what=lun clone"]);
    assert!(history.contains("of vol0/lun0@s"), "{history}");

    drop((one, now, old));
    ask(&dir, &["lun", "delete", "vol0/lun0", "--yes", "--wait"]);
    server.stop();
    assert_clean(&dir, 1);
    let server = serve(&dir);
    assert_eq!(
        open(&server, "vol0/now").read(40 * MIB, 4096),
        Ok(vec![4; 4096])
    );
    assert_eq!(
        open(&server, "vol0/old").read(40 * MIB, 8192),
        Ok(vec![1; 8192])
    );
    server.stop();
}

#[test]
fn what_cannot_be_cloned_is_refused_and_named() {
    let dir = TestDir::new();
    let server = serve(&dir);
    ask(&dir, &["snapshot", "create", "vol0@s"]);
    ask(&dir, &["volume", "create", "vol1"]);
    let refusals: [(&[&str], i32, &[&str]); 6] = [
        (
            &["vol0/lun0", "vol1/new"],
            2,
            &["vol1/new is in volume vol1", "clone create"],
        ),
        (
            &["vol0/lun0", "vol0/new", "--from", "vol1@s"],
            2,
            &["vol1@s is in volume vol1"],
        ),
        (
            &["vol0/lun0", "vol0/lun0"],
            5,
            &["LUN vol0/lun0 exists already"],
        ),
        (&["vol0/none", "vol0/new"], 4, &["no LUN vol0/none"]),
        (
            &["vol0/none", "vol0/new", "--from", "vol0@s"],
            4,
            &["LUN none in snapshot vol0@s"],
        ),
        (
            &["vol0/lun0", "vol0/new", "--from", "vol0@none"],
            4,
            &["snapshot vol0@none"],
        ),
    ];
    for (words, code, parts) in refusals {
        refused(&dir, &[&["lun", "clone"], words].concat(), code, parts);
    }
    let path = "/v1/volumes/vol0/luns/lun0/actions/clone";
    let answer = http::unix(&dir, "POST", path, "", "{\"name\": \"a/b\"}");
    assert_eq!(answer.status, 422, "{answer:?}");
    assert_eq!(answer.json()["field"], "name");
    assert_eq!(
        ask_json(&dir, &["lun", "show"])["luns"]
            .as_array()
            .map(Vec::len),
        Some(1)
    );
    server.stop();
}

/// The job said that there was no space, and the exit code that anything may have gone wrong.
#[test]
fn a_clone_that_finds_no_space_ends_with_the_exit_code_of_that() {
    let dir = TestDir::new();
    let server = dir.serve(&[
        "--lun-size",
        "2GiB",
        "--aggregate-size",
        "1GiB",
        "--cp-interval",
        "1s",
    ]);
    let mut client = open(&server, "vol0/lun0");
    write_until_full(&mut client, 0, 2048, 1);
    client.flush().expect("flushed");
    let (mut trimmed, mut said) = (0, String::new());
    // The beginning of a clone needs space, too, and is refused without a job.
    within(Duration::from_secs(60), "a clone begins", || {
        let failed = dir.run(&["lun", "clone", "vol0/lun0", "vol0/copy", "--wait"]);
        said = stderr(&failed);
        assert_eq!(code(&failed), 7, "{said}");
        client.trim(trimmed << 16, 1 << 16).expect("trimmed");
        client.flush().expect("flushed");
        trimmed += 1;
        said.contains("job ")
    });
    for part in ["failed: no space left in the pool", "(EVG-3001)"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let job = &ask_json(&dir, &["job", "show"])["jobs"][0];
    assert_eq!(
        (&job["kind"], &job["state"], &job["code"]),
        (&"lun clone".into(), &"failed".into(), &"EVG-3001".into())
    );
    let id = job["id"].to_string();
    refused(&dir, &["job", "wait", &id], 7, &["EVG-3001"]);
    drop(client);
    server.stop();
}
