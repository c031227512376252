//! Splits that take a dozen consistency points: the volume gets another name meanwhile, and the
//! daemon ends.

use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;

use crate::manage::{ask, ask_json, assert_clean, refused};
use crate::operate::http;
use crate::running::{Server, TestDir};
use crate::waiting::within;
use crate::wire::{CMD_FLUSH, CMD_WRITE, Client};

const MIB: u64 = 1 << 20;
/// A consistency point copies 32 of them.
const LUN_MIB: u64 = 384;
const SERVE: [&str; 4] = ["--lun-size", "384MiB", "--aggregate-size", "4GiB"];
/// Blocks that a writer rewrites in each pass, the last of every fourth MiB.
const WRITTEN: u64 = LUN_MIB / 4;
const BLOCK: u64 = 4096;
const PATIENCE: Duration = Duration::from_secs(120);

fn open(server: &Server, export: &str) -> Client {
    Client::open(&server.tcp, export).expect("a client").0
}

/// What `vol0@s` has there.
fn byte(mib: u64) -> u8 {
    u8::try_from(mib % 250 + 1).expect("below 251")
}

/// All of `vol0/lun0` is written; `test` is a clone of it.
fn with_clone(server: &Server, dir: &TestDir) {
    let mut parent = open(server, "vol0/lun0");
    for mib in 0..LUN_MIB {
        parent
            .write(mib * MIB, &vec![byte(mib); 1 << 20])
            .expect("written");
    }
    ask(dir, &["snapshot", "create", "vol0@s"]);
    ask(dir, &["clone", "create", "test", "--from", "vol0@s"]);
}

/// Begins a split; the number of its job.
fn start(dir: &TestDir) -> String {
    let path = "/v1/volumes/test/actions/split";
    let answer = http::unix(dir, "POST", path, "", "");
    assert_eq!(answer.status, 202, "{answer:?}");
    answer.json()["id"].to_string()
}

/// Jobs that split clones, as they are now.
fn splits(dir: &TestDir) -> Vec<Value> {
    let shown = ask_json(dir, &["job", "show"]);
    let mut jobs = shown["jobs"].as_array().expect("a list").clone();
    jobs.retain(|job| job["kind"] == "clone split");
    jobs
}

#[test]
fn a_split_goes_on_when_its_volume_gets_another_name() {
    let dir = TestDir::new();
    let server = dir.serve(&SERVE);
    with_clone(&server, &dir);
    let id = start(&dir);
    ask(&dir, &["volume", "rename", "test", "mine"]);
    ask(&dir, &["job", "wait", &id]);
    let jobs = splits(&dir);
    assert_eq!(jobs.len(), 1, "one split is one job: {jobs:?}");
    assert_eq!(
        (&jobs[0]["object"], &jobs[0]["state"]),
        (&"mine".into(), &"done".into())
    );
    let mut clone = open(&server, "mine/lun0");
    for mib in (0..LUN_MIB).step_by(7) {
        let found = clone.read(mib * MIB, 4096).expect("read");
        assert!(found.iter().all(|it| *it == byte(mib)), "MiB {mib}");
    }
    drop(clone);
    server.stop();
    assert_clean(&dir, 1);
}

#[test]
fn a_clone_that_is_being_split_can_be_cloned_and_what_it_needs_stays() {
    let dir = TestDir::new();
    let server = dir.serve(&SERVE);
    with_clone(&server, &dir);
    let id = start(&dir);
    ask(&dir, &["snapshot", "create", "test@t"]);
    ask(&dir, &["clone", "create", "second", "--from", "test@t"]);
    // While it goes on, or for the sake of the second clone afterwards.
    let delete = |name: &'static str| ["snapshot", "delete", name, "--yes"];
    refused(
        &dir,
        &delete("test@t"),
        5,
        &["test@t", "second", "EVG-2010"],
    );
    ask(&dir, &["job", "wait", &id]);
    refused(
        &dir,
        &delete("test@t"),
        5,
        &["test@t", "second", "EVG-2010"],
    );
    // The first of them needs nobody any more.
    ask(&dir, &["volume", "delete", "vol0", "--yes", "--wait"]);
    for volume in ["test", "second"] {
        let mut clone = open(&server, &format!("{volume}/lun0"));
        for mib in (0..LUN_MIB).step_by(13) {
            let found = clone.read(mib * MIB, 4096).expect("read");
            assert!(
                found.iter().all(|it| *it == byte(mib)),
                "{volume} MiB {mib}"
            );
        }
    }
    server.stop();
    assert_clean(&dir, 1);
}

#[test]
fn a_split_that_somebody_stops_says_so_and_goes_on_when_it_is_told_to() {
    let dir = TestDir::new();
    let server = dir.serve(&SERVE);
    with_clone(&server, &dir);
    start(&dir);
    let path = "/v1/volumes/test/actions/stop-split";
    let answer = http::unix(&dir, "POST", path, "", "");
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.json()["state"], "stopped");
    let jobs = ask(&dir, &["job", "show"]);
    let goes_on = "stopped; 'clone split start test' goes on from there";
    assert!(jobs.contains("DETAIL") && jobs.contains(goes_on), "{jobs}");
    let events = ask(&dir, &["event", "show", "--where", "kind=job"]);
    assert!(events.contains(goes_on), "{events}");
    assert!(!events.contains("error"), "nothing failed: {events}");
    // Of all clones.
    let all = ask(
        &dir,
        &["clone", "split", "show", "--columns", "volume,split"],
    );
    assert_eq!(all, "VOLUME  SPLIT\ntest    stopped\n");
    ask(&dir, &["clone", "split", "start", "test", "--wait"]);
    let all = ask_json(&dir, &["clone", "split", "show"]);
    assert_eq!(all["splits"], Value::Array(Vec::new()), "{all}");
    server.stop();
}

fn offset(number: u64) -> u64 {
    number * 4 * MIB + MIB - BLOCK
}

/// A block that says its number and the pass that wrote it, in every word.
fn content(number: u64, pass: u64) -> Vec<u8> {
    (pass << 16 | number).to_le_bytes().repeat(512)
}

/// Rewrites its blocks, pass after pass, each of them flushed, until the server is gone. Returns
/// the last pass that was flushed, and the next one may have begun.
fn write(server: &Server, export: &str, mut pass: u64) -> JoinHandle<u64> {
    let mut client = open(server, export);
    let mut ask = move |number: u64, pass: u64| -> std::io::Result<bool> {
        let error = match number < WRITTEN {
            true => client.request(CMD_WRITE, offset(number), 4096, &content(number, pass))?,
            false => client.request(CMD_FLUSH, 0, 0, &[])?,
        };
        Ok(error == 0)
    };
    std::thread::spawn(move || {
        loop {
            let mut numbers = 0..=WRITTEN;
            if !numbers.all(|number| ask(number, pass + 1).unwrap_or(false)) {
                return pass;
            }
            pass += 1;
        }
    })
}

/// What a writer wrote is of the pass it flushed last or the next; all else is as it was.
fn expect(server: &Server, export: &str, flushed: Option<u64>) {
    let mut client = open(server, export);
    for mib in 0..LUN_MIB {
        let found = client.read(mib * MIB, 1 << 20).expect("read");
        let (before, last) = found.split_at(found.len() - 4096);
        let is_as_it_was = before.iter().all(|it| *it == byte(mib));
        assert!(is_as_it_was, "{export}: MiB {mib}");
        let is_untouched = last.iter().all(|it| *it == byte(mib));
        let is_right = match flushed {
            Some(flushed) if mib % 4 == 0 => {
                let mut passes = flushed..=flushed + 1;
                let is_first = flushed == 0 && is_untouched;
                is_first || passes.any(|pass| last == content(mib / 4, pass))
            }
            _ => is_untouched,
        };
        assert!(
            is_right,
            "{export}: the last block of MiB {mib}, {:?}, flushed was {flushed:?}",
            &last[..8]
        );
    }
}

fn shown(dir: &TestDir) -> Value {
    let answer = http::unix(dir, "GET", "/v1/volumes/test/split", "", "");
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

fn done_bytes(shown: &Value) -> u64 {
    shown["done_bytes"].as_u64().expect("a number")
}

#[test]
fn a_split_goes_on_after_kills_and_an_orderly_end_under_writes() {
    let dir = TestDir::new();
    let mut server = dir.serve(&SERVE);
    with_clone(&server, &dir);
    start(&dir);
    let (mut met, mut followed) = (0, 0);
    let (mut parent, mut clone) = (0, 0);
    let mut copied = 0;
    for is_killed in [true, true, false] {
        let writers = [
            write(&server, "vol0/lun0", parent),
            write(&server, "test/lun0", clone),
        ];
        within(PATIENCE, "it gets on", || {
            let now = shown(&dir);
            now["state"] == "done" || done_bytes(&now) > copied
        });
        let before = shown(&dir);
        match is_killed {
            true => server.kill(),
            false => _ = server.stop(),
        }
        [parent, clone] = writers.map(|writer| writer.join().expect("it ends with the server"));
        assert_clean(&dir, 1);
        server = dir.serve(&[]);
        let after = shown(&dir);
        if after["state"] == "done" {
            continue;
        }
        met += 1;
        assert_ne!(before["state"], "done", "{before}, and then {after}");
        assert_eq!(after["clone_of"], "vol0@s");
        copied = done_bytes(&after);
        assert!(copied >= done_bytes(&before), "{before}, and then {after}");
        within(PATIENCE, "somebody follows it", || {
            !splits(&dir).is_empty() || shown(&dir)["state"] == "done"
        });
        for job in splits(&dir) {
            assert_eq!((&job["id"], &job["object"]), (&1.into(), &"test".into()));
            followed += 1;
        }
    }
    assert!(met > 0, "no end met the split on its way");
    assert!(
        followed > 0,
        "no daemon had a job for a split that it found"
    );
    within(PATIENCE, "it is done", || shown(&dir)["state"] == "done");
    expect(&server, "vol0/lun0", Some(parent));
    expect(&server, "test/lun0", Some(clone));
    for base in ["vol0/lun0@s", "test/lun0@s"] {
        expect(&server, base, None);
    }
    // It needs nothing of what it was cloned from.
    ask(
        &dir,
        &["snapshot", "delete", "vol0@s", "--purge", "--yes", "--wait"],
    );
    ask(&dir, &["volume", "delete", "vol0", "--yes", "--wait"]);
    server.stop();
    assert_clean(&dir, 1);
    server = dir.serve(&[]);
    expect(&server, "test/lun0", Some(clone));
    expect(&server, "test/lun0@s", None);
    server.stop();
}
