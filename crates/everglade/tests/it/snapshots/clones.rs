//! Clones: what the verbs make and show, what clients read and write, and in which order things go
//! again.

use serde_json::Value;

use super::names;
use crate::manage::{ask, ask_json, assert_clean, refused, serve};
use crate::operate::http;
use crate::running::{Server, TestDir};
use crate::wire::Client;

const MIB: u64 = 1 << 20;

fn open(server: &Server, export: &str) -> Client {
    Client::open(&server.tcp, export).expect("a client").0
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

#[test]
fn a_clone_begins_as_its_snapshot_and_is_written_on_its_own() {
    let dir = TestDir::new();
    let server = serve(&dir);
    let mut parent = open(&server, "vol0/lun0");
    parent.write(0, &[1; 4 << 20]).expect("written");
    ask(&dir, &["snapshot", "create", "vol0@s"]);
    parent.write(0, &[2; 1 << 20]).expect("written");
    let made = ask_json(&dir, &["clone", "create", "test", "--from", "vol0@s"]);
    assert_eq!(made["clone_of"], "vol0@s");
    assert_eq!(made["lun_count"], 1);
    assert!(number(&made["used_bytes"]) > 4 * MIB, "{made}");
    assert!(number(&made["allocated_bytes"]) < MIB, "{made}");
    let shown = ask(&dir, &["clone", "show", "--columns", "name,from"]);
    assert_eq!(shown, "NAME  FROM\ntest  vol0@s\n");
    let lun = ask_json(&dir, &["lun", "show", "test/lun0"]);
    assert!(number(&lun["used_bytes"]) > 4 * MIB, "{lun}");
    refused(&dir, &["clone", "show", "vol0"], 4, &["vol0 is no clone"]);

    // Both are written; neither sees the other, nor does the snapshot.
    let mut clone = open(&server, "test/lun0");
    assert_eq!(clone.read(0, 8192), Ok(vec![1; 8192]));
    clone.write(4096, &[3; 4096]).expect("written");
    parent.write(8192, &[4; 4096]).expect("written");
    clone.flush().expect("flushed");
    for (export, expected) in [
        ("vol0/lun0", [2, 2, 4]),
        ("vol0/lun0@s", [1, 1, 1]),
        ("test/lun0", [1, 3, 1]),
        ("test/lun0@s", [1, 1, 1]),
    ] {
        let found = open(&server, export).read(0, 12288).expect("read");
        let found: Vec<u8> = found.chunks(4096).map(|block| block[0]).collect();
        assert_eq!(found, expected, "{export}");
    }

    // What is shared is taken once.
    ask(&dir, &["snapshot", "create", "test@t"]);
    let aggregates = ask_json(&dir, &["df"]);
    let aggregate = &aggregates["aggregates"][0];
    assert!(number(&aggregate["shared_bytes"]) > 4 * MIB, "{aggregate}");
    let volumes = ask_json(&dir, &["df", "--volumes"]);
    let volumes = volumes["volumes"].as_array().expect("a list").clone();
    let allocated = volumes.iter().map(|it| number(&it["allocated_bytes"]));
    assert!(allocated.sum::<u64>() < number(&aggregate["used_bytes"]));
    let used = volumes.iter().map(|it| number(&it["used_bytes"]));
    assert!(used.sum::<u64>() > 8 * MIB, "{volumes:?}");

    // Whoever has it open keeps it while the parent is restored.
    ask(&dir, &["snapshot", "restore", "vol0@s"]);
    assert_eq!(parent.read(0, 4096), Ok(vec![1; 4096]));
    assert_eq!(clone.read(4096, 4096), Ok(vec![3; 4096]));
    drop((parent, clone));
    server.stop();
    assert_clean(&dir, 1);
    let server = serve(&dir);
    assert_eq!(
        open(&server, "test/lun0").read(4096, 4096),
        Ok(vec![3; 4096])
    );
    assert_eq!(
        ask_json(&dir, &["clone", "show", "test"])["clone_of"],
        "vol0@s"
    );
    // A name that changes is followed.
    ask(&dir, &["snapshot", "rename", "vol0@s", "u"]);
    assert_eq!(
        ask_json(&dir, &["volume", "show", "test"])["clone_of"],
        "vol0@u"
    );
    server.stop();
}

#[test]
fn what_is_cloned_goes_after_its_clones_and_refusals_name_them() {
    let dir = TestDir::new();
    let server = serve(&dir);
    ask(&dir, &["snapshot", "create", "vol0@s"]);
    ask(&dir, &["snapshot", "create", "vol0@later"]);
    for (name, from) in [("c", "vol0@s"), ("d", "vol0@s"), ("e", "c@s")] {
        ask(&dir, &["clone", "create", name, "--from", from]);
    }
    let base = ask_json(&dir, &["snapshot", "show", "vol0@s"]);
    assert_eq!(base["clones"], serde_json::json!(["c", "d"]));
    assert_eq!(base["is_clone_base"], false);
    let held = ask(&dir, &["snapshot", "show", "--columns", "name,holds"]);
    for line in [
        "vol0@s      clone:c,clone:d",
        "c@s         clone:e,clone:base",
    ] {
        assert!(held.contains(line), "{held}");
    }
    let first = ask_json(&dir, &["snapshot", "show", "c@s"]);
    assert_eq!(first["clones"], serde_json::json!(["e"]));
    assert_eq!(first["is_clone_base"], true);
    assert_eq!(first["exclusive_bytes"], 0);

    let delete = |name: &'static str| ["snapshot", "delete", name, "--yes"];
    for (words, parts) in [
        (
            &delete("vol0@s")[..],
            &["base of c, d", "delete what is cloned", "EVG-2010"][..],
        ),
        (
            &delete("c@s")[..],
            &["this clone is based on", "EVG-2010"][..],
        ),
        (
            &["volume", "delete", "vol0", "--yes"][..],
            &["c, d", "cloned", "EVG-2010"][..],
        ),
        (
            &["volume", "delete", "c", "--yes"][..],
            &["e is cloned", "EVG-2010"][..],
        ),
    ] {
        refused(&dir, words, 5, parts);
    }
    for (words, part) in [
        (
            ["snapshot", "delete", "vol0@s", "--dry-run"],
            "not now: it is the base of c, d",
        ),
        (
            ["snapshot", "delete", "c@s", "--dry-run"],
            "not now: the volume is a clone of it",
        ),
        (
            ["volume", "delete", "vol0", "--dry-run"],
            "not now: c is a clone of vol0@s",
        ),
    ] {
        let said = ask(&dir, &words);
        assert!(said.contains(part), "{words:?}: {said}");
    }
    // A restore that would discard a base is refused before anything happens.
    ask(&dir, &["clone", "create", "f", "--from", "vol0@later"]);
    let discard = ["snapshot", "restore", "vol0@s", "--discard-newer", "--yes"];
    refused(
        &dir,
        &discard,
        5,
        &["vol0@later is the base of f", "EVG-2010"],
    );
    assert_eq!(names(&dir, "vol0"), ["s", "later"]);

    for name in ["f", "e", "c", "d", "vol0"] {
        ask(
            &dir,
            &["volume", "delete", name, "--yes", "--purge", "--wait"],
        );
    }
    assert_eq!(ask(&dir, &["volume", "show", "--no-header"]), "");
    server.stop();
    assert_clean(&dir, 1);
}

#[test]
fn wrong_clones_are_refused_with_what_is_wrong_and_nothing_is_made() {
    let dir = TestDir::new();
    let server = serve(&dir);
    ask(&dir, &["snapshot", "create", "vol0@s"]);
    for (name, from, exit, parts) in [
        ("vol0", "vol0@s", 5, &["volume vol0 exists", "EVG-2002"][..]),
        ("c", "vol0@nix", 4, &["no snapshot vol0@nix"][..]),
        ("c", "nix@s", 4, &["no volume nix"][..]),
        ("c", "vol0", 2, &["VOLUME@SNAPSHOT"][..]),
        ("c", "vol0/lun0@s", 2, &["without a LUN"][..]),
        ("c@x", "vol0@s", 2, &["is not a name"][..]),
        ("", "vol0@s", 2, &["is not a name"][..]),
    ] {
        refused(
            &dir,
            &["clone", "create", name, "--from", from],
            exit,
            parts,
        );
    }
    refused(&dir, &["clone", "create", "c"], 2, &["--from"]);
    let volumes = "/v1/volumes";
    for (body, status, code, field) in [
        (
            r#"{"name": "c", "clone_of": "vol0@s", "sync": "always"}"#,
            422,
            "EVG-1004",
            "sync",
        ),
        (
            r#"{"name": "c", "clone_of": "vol0@s", "aggregate": "b"}"#,
            422,
            "EVG-1004",
            "aggregate",
        ),
        (
            r#"{"name": "c", "clone_of": "vol0"}"#,
            422,
            "EVG-1004",
            "clone_of",
        ),
        (
            r#"{"name": "c", "clone_of": 7}"#,
            422,
            "EVG-1004",
            "clone_of",
        ),
    ] {
        let answer = http::unix(&dir, "POST", volumes, "", body);
        assert_eq!(answer.status, status, "{body}: {answer:?}");
        assert_eq!(answer.json()["code"], code, "{body}");
        assert_eq!(answer.json()["field"], field, "{body}");
    }
    assert_eq!(ask(&dir, &["clone", "show", "--no-header"]), "");
    // What the parent has may be said; and twice is once.
    let body = r#"{"clone_of": "vol0@s", "sync": "standard", "aggregate": "aggr0"}"#;
    let put = |body: &str| http::unix(&dir, "PUT", "/v1/volumes/c", "", body).status;
    assert_eq!(put(body), 201);
    assert_eq!(put(body), 200);
    assert_eq!(put("{}"), 409, "an empty volume is something else");
    let again = ["clone", "create", "c", "--from", "vol0@s", "--if-missing"];
    ask(&dir, &again);
    ask(&dir, &["snapshot", "create", "vol0@t"]);
    let other = ["clone", "create", "c", "--from", "vol0@t", "--if-missing"];
    refused(&dir, &other, 5, &["as a clone of vol0@s", "EVG-2002"]);
    // A snapshot that is deleted cannot be cloned any more.
    ask(&dir, &["snapshot", "delete", "vol0@t", "--yes"]);
    refused(
        &dir,
        &["clone", "create", "g", "--from", "vol0@t"],
        4,
        &["vol0@t"],
    );
    server.stop();
}
