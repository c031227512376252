//! `snapshot restore --lun`: one LUN goes back, and connected clients see all of it.

use super::names;
use crate::manage::{ask, ask_json, assert_clean, refused, serve};
use crate::operate::http;
use crate::running::{Server, TestDir};
use crate::wire::Client;

const MIB: u64 = 1 << 20;

fn open(server: &Server, export: &str) -> Client {
    Client::open(&server.tcp, export).expect("a client").0
}

#[test]
fn one_lun_goes_back_with_its_size_and_the_other_stays() {
    let dir = TestDir::new();
    let server = serve(&dir);
    ask(&dir, &["lun", "create", "vol0/other", "--size", "8MiB"]);
    let (mut one, mut other) = (open(&server, "vol0/lun0"), open(&server, "vol0/other"));
    one.write(40 * MIB, &[1; 8192]).expect("written");
    other.write(0, &[1; 8192]).expect("written");
    ask(&dir, &["snapshot", "create", "vol0@s"]);
    one.write(40 * MIB, &[2; 8192]).expect("written");
    other.write(0, &[2; 8192]).expect("written");
    let shrink = ["lun", "resize", "vol0/lun0", "--size", "16MiB", "--yes"];
    ask(&dir, &shrink);
    assert!(one.read(40 * MIB, 4096).is_err(), "it is shorter now");

    let restore = ["snapshot", "restore", "vol0@s", "--lun", "lun0"];
    let plan = ask(&dir, &[&restore[..], &["--dry-run"]].concat());
    assert!(plan.contains("LUN vol0/lun0 would become"), "{plan}");
    assert_eq!(names(&dir, "vol0"), ["s"]);
    let named = [&restore[..], &["--safety-snapshot", "mine"]].concat();
    let done = ask_json(&dir, &named);
    assert_eq!(
        (&done["lun"], &done["safety_snapshot"]),
        (&"lun0".into(), &"mine".into())
    );
    // The same connections.
    assert_eq!(one.read(40 * MIB, 8192), Ok(vec![1; 8192]));
    assert_eq!(other.read(0, 8192), Ok(vec![2; 8192]));
    let shown = ask_json(&dir, &["lun", "show", "vol0/lun0"]);
    assert_eq!(shown["size_bytes"], 64 * MIB);
    one.write(40 * MIB, &[3; 4096]).expect("it is longer again");
    assert_eq!(names(&dir, "vol0"), ["s", "mine"]);
    let history = ask(&dir, &["history", "--where", "what=snapshot restore"]);
    assert!(
        history.contains("LUN lun0; what was active is vol0@mine"),
        "{history}"
    );

    // One that was deleted comes back.
    drop(one);
    ask(&dir, &["lun", "delete", "vol0/lun0", "--yes"]);
    ask(&dir, &restore);
    assert_eq!(
        open(&server, "vol0/lun0").read(40 * MIB, 8192),
        Ok(vec![1; 8192])
    );
    assert_eq!(other.read(0, 8192), Ok(vec![2; 8192]));
    drop(other);
    server.stop();
    assert_clean(&dir, 1);
    let server = serve(&dir);
    assert_eq!(
        open(&server, "vol0/lun0").read(40 * MIB, 8192),
        Ok(vec![1; 8192])
    );
    server.stop();
}

#[test]
fn a_lun_that_cannot_be_restored_is_named() {
    let dir = TestDir::new();
    let server = serve(&dir);
    ask(&dir, &["snapshot", "create", "vol0@s"]);
    ask(&dir, &["lun", "create", "vol0/new", "--size", "1MiB"]);
    let restore = |lun| ["snapshot", "restore", "vol0@s", "--lun", lun];
    let dry = |lun| [&restore(lun)[..], &["--dry-run"]].concat();
    for (lun, exit, parts) in [
        ("nix", 4, &["nix in snapshot vol0@s"][..]),
        ("new", 4, &["new in snapshot vol0@s"][..]),
        ("a/b", 2, &["is not a name"][..]),
        ("", 2, &["is not a name"][..]),
    ] {
        refused(&dir, &restore(lun), exit, parts);
        refused(&dir, &dry(lun), exit, parts);
    }
    let both = [&restore("lun0")[..], &["--discard-newer"]].concat();
    refused(&dir, &both, 2, &["--discard-newer"]);
    let path = "/v1/volumes/vol0/snapshots/s/actions/restore";
    let body = r#"{"lun": "lun0", "discard_newer": true}"#;
    let answer = http::unix(&dir, "POST", path, "", body);
    assert_eq!(answer.status, 422, "{answer:?}");
    assert_eq!(answer.json()["field"], "discard_newer");
    // Another LUN has the name.
    ask(&dir, &["lun", "delete", "vol0/lun0", "--yes"]);
    ask(&dir, &["lun", "create", "vol0/lun0", "--size", "2MiB"]);
    let another = ["vol0/lun0 is another one", "EVG-2010"];
    refused(&dir, &restore("lun0"), 5, &another);
    refused(&dir, &dry("lun0"), 5, &another);
    assert_eq!(names(&dir, "vol0"), ["s"]);
    server.stop();
}
