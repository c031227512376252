//! Splits that take a dozen consistency points: the volume gets another name meanwhile, and the daemon ends.

use serde_json::Value;

use crate::manage::{ask, ask_json, assert_clean};
use crate::operate::http;
use crate::running::{Place, Server};
use crate::wire::Client;

const MIB: u64 = 1 << 20;
/// A consistency point copies 32 of them.
const LUN_MIB: u64 = 384;
const SERVE: [&str; 4] = ["--lun-size", "384MiB", "--aggregate-size", "4GiB"];

fn open(server: &Server, export: &str) -> Client {
    Client::open(&server.tcp, export).expect("a client").0
}

/// What `vol0@s` has there.
fn byte(mib: u64) -> u8 {
    u8::try_from(mib % 250 + 1).expect("below 251")
}

/// All of `vol0/lun0` is written; `test` is a clone of it.
fn with_clone(server: &Server, place: &Place) {
    let mut parent = open(server, "vol0/lun0");
    for mib in 0..LUN_MIB {
        parent
            .write(mib * MIB, &vec![byte(mib); 1 << 20])
            .expect("written");
    }
    ask(place, &["snapshot", "create", "vol0@s"]);
    ask(place, &["clone", "create", "test", "--from", "vol0@s"]);
}

/// Begins a split; the number of its job.
fn start(place: &Place) -> String {
    let path = "/v1/volumes/test/actions/split";
    let answer = http::unix(place, "POST", path, "", "");
    assert_eq!(answer.status, 202, "{answer:?}");
    answer.json()["id"].to_string()
}

/// Jobs that split clones, as they are now.
fn splits(place: &Place) -> Vec<Value> {
    let shown = ask_json(place, &["job", "show"]);
    let mut jobs = shown["jobs"].as_array().expect("a list").clone();
    jobs.retain(|job| job["kind"] == "clone split");
    jobs
}

#[test]
fn a_split_goes_on_when_its_volume_gets_another_name() {
    let place = Place::new();
    let server = place.serve(&SERVE);
    with_clone(&server, &place);
    let id = start(&place);
    ask(&place, &["volume", "rename", "test", "mine"]);
    ask(&place, &["job", "wait", &id]);
    let jobs = splits(&place);
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
    assert_clean(&place, 1);
}
