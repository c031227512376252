//! What the verbs do, and what they say.

use serde_json::Value;

use super::names;
use crate::manage::{ask, ask_json, refused, serve};
use crate::operate::http;
use crate::running::TestDir;
use crate::wire::Client;

#[test]
fn a_snapshot_is_taken_shown_renamed_held_and_deleted() {
    let dir = TestDir::new();
    let server = serve(&dir);
    let (mut client, _) = Client::open(&server.tcp, "vol0/lun0").expect("a client");
    client.write(0, &[1; 1 << 20]).expect("written");
    let made = ask_json(&dir, &["snapshot", "create", "vol0@a"]);
    let taken = &made["taken"];
    let (frozen, durable) = (taken["taken_us"].as_u64(), taken["durable_us"].as_u64());
    assert!(
        frozen.expect("a number") <= durable.expect("a number"),
        "{made}"
    );
    assert!(taken["taken_at"].as_str() <= taken["durable_at"].as_str());
    assert_eq!(made["id"], 1);
    assert!(made["logical_bytes"].as_u64() > Some(1 << 20), "{made}");
    assert_eq!(made["nbd_exports"][0], "vol0/lun0@a");
    // What is overwritten now is the snapshot's own.
    client.write(0, &[2; 1 << 20]).expect("written");
    ask(&dir, &["snapshot", "create", "vol0@b"]);
    let shown = ask_json(&dir, &["snapshot", "show", "vol0@a"]);
    assert!(
        shown["exclusive_bytes"].as_u64() >= Some(1 << 20),
        "{shown}"
    );
    assert!(
        shown["taken"].is_null(),
        "only the answer that made it has it"
    );
    assert_eq!(
        ask_json(&dir, &["snapshot", "show", "vol0@b"])["parent"],
        "a"
    );
    let volume = ask_json(&dir, &["volume", "show", "vol0"]);
    assert_eq!(volume["snapshot_count"], 2);
    assert!(volume["snapshot_exclusive_bytes"].as_u64() >= Some(1 << 20));

    let df = ask_json(&dir, &["df", "--volumes"]);
    let row = &df["volumes"][0];
    assert!(row["used_bytes"].as_u64() > Some(1 << 20), "{df}");
    assert!(
        row["snapshot_exclusive_bytes"].as_u64() >= Some(1 << 20),
        "{df}"
    );
    let shown = ask(
        &dir,
        &["df", "--volumes", "--columns", "volume,snapshots,pending"],
    );
    assert_eq!(
        shown,
        "VOLUME  SNAPSHOTS  PENDING\nvol0            2      0 B\n"
    );

    ask(&dir, &["snapshot", "rename", "vol0@a", "first"]);
    assert_eq!(names(&dir, "vol0"), ["first", "b"]);
    assert_eq!(
        ask_json(&dir, &["snapshot", "show", "vol0@b"])["parent"],
        "first"
    );
    ask(&dir, &["snapshot", "hold", "vol0@first", "backup"]);
    let delete = ["snapshot", "delete", "vol0@first", "--yes"];
    refused(&dir, &delete, 5, &["held by backup", "release", "EVG-2010"]);
    ask(&dir, &["snapshot", "release", "vol0@first", "backup"]);
    let said = ask(&dir, &["snapshot", "delete", "vol0@first", "--dry-run"]);
    assert!(said.contains("would stay in the trash"), "{said}");
    let dry = ["snapshot", "delete", "vol0@first", "--purge", "--dry-run"];
    let said = ask(&dir, &dry);
    assert!(said.contains("would be lost for good"), "{said}");
    refused(&dir, &delete[..3], 6, &["vol0@first", "--yes"]);
    let job = ask_json(&dir, &[&delete[..], &["--wait"]].concat());
    assert_eq!(
        (&job["kind"], &job["state"]),
        (&"snapshot delete".into(), &"done".into())
    );
    assert_eq!(names(&dir, "vol0"), ["b"]);
    let history = ask(
        &dir,
        &["history", "--columns", "what,object", "--no-header"],
    );
    for part in [
        "snapshot create   vol0@a",
        "snapshot rename   vol0@a",
        "snapshot hold     vol0@first",
        "snapshot release  vol0@first",
        "snapshot delete   vol0@first",
    ] {
        assert!(history.contains(part), "{part}: {history}");
    }
    let events = ask(&dir, &["event", "show", "--where", "object=vol0@first"]);
    assert!(events.contains("snapshot delete by uid"), "{events}");
    drop(client);
    server.stop();
}

#[test]
fn lists_are_sorted_filtered_and_paged_and_one_volume_does_not_see_another() {
    let dir = TestDir::new();
    let server = serve(&dir);
    ask(&dir, &["volume", "create", "w"]);
    for name in ["vol0@c", "vol0@a", "w@a", "vol0@b"] {
        ask(&dir, &["snapshot", "create", name]);
    }
    assert_eq!(names(&dir, "vol0"), ["c", "a", "b"]);
    assert_eq!(names(&dir, "w"), ["a"]);
    let shown = ask(
        &dir,
        &[
            "snapshot",
            "show",
            "--columns",
            "name",
            "--no-header",
            "--sort",
            "-name",
            "--where",
            "name~vol0",
        ],
    );
    assert_eq!(shown, "vol0@c\nvol0@b\nvol0@a\n");
    let path = "/v1/volumes/vol0/snapshots?order_by=-name&max_records=2&fields=name";
    let answer = http::unix(&dir, "GET", path, "", "").json();
    assert_eq!(answer["snapshots"][0]["name"], "c");
    assert!(answer["snapshots"][0]["id"].is_null());
    assert_eq!(answer["next_cursor"], "2");
    // Twice is once.
    ask(&dir, &["snapshot", "create", "w@a", "--if-missing"]);
    ask(&dir, &["snapshot", "create", "w@d", "--if-missing"]);
    assert_eq!(names(&dir, "w"), ["a", "d"]);
    let one = "/v1/volumes/w/snapshots/a";
    assert_eq!(http::unix(&dir, "PUT", one, "", "").status, 200);
    assert_eq!(
        http::unix(&dir, "PUT", "/v1/volumes/w/snapshots/e", "", "").status,
        201
    );
    // A volume goes with its snapshots, and says so.
    let said = ask(&dir, &["volume", "delete", "w", "--dry-run"]);
    assert!(said.contains("its 3 snapshots"), "{said}");
    ask(&dir, &["volume", "delete", "w", "--yes"]);
    refused(&dir, &["snapshot", "show", "w"], 4, &["no volume w"]);
    server.stop();
}

#[test]
fn a_rename_heeds_the_tag_of_what_was_seen() {
    let dir = TestDir::new();
    let server = serve(&dir);
    ask(&dir, &["snapshot", "create", "vol0@a"]);
    let path = "/v1/volumes/vol0/snapshots/a";
    let tag = |answer: &http::Answer| answer.header("etag").expect("a tag").to_owned();
    let seen = tag(&http::unix(&dir, "GET", path, "", ""));
    ask(&dir, &["snapshot", "hold", "vol0@a", "x"]);
    let held = tag(&http::unix(&dir, "GET", path, "", ""));
    assert_ne!(seen, held, "holds are settings");
    let rename = |tag: &str| {
        let headers = format!("If-Match: {tag}\r\n");
        http::unix(&dir, "PATCH", path, &headers, "{\"name\": \"b\"}")
    };
    let stale = rename(&seen);
    assert_eq!(
        (stale.status, &stale.json()["code"]),
        (412, &"EVG-2007".into())
    );
    assert_eq!(names(&dir, "vol0"), ["a"]);
    assert_eq!(rename(&held).status, 200);
    assert_eq!(names(&dir, "vol0"), ["b"]);
    server.stop();
}

#[test]
fn a_restore_says_what_it_keeps_and_what_it_would_lose() {
    let dir = TestDir::new();
    let server = serve(&dir);
    for name in ["vol0@a", "vol0@b", "vol0@c"] {
        ask(&dir, &["snapshot", "create", name]);
    }
    let plan = ask_json(&dir, &["snapshot", "restore", "vol0@a", "--dry-run"]);
    let safety = plan["safety_snapshot"].as_str().expect("a name").to_owned();
    assert!(safety.starts_with("before-restore-20"), "{safety}");
    assert_eq!(plan["discarded"].as_array().map(Vec::len), Some(0));
    assert_eq!(
        names(&dir, "vol0"),
        ["a", "b", "c"],
        "a dry run does nothing"
    );
    let done = ask_json(
        &dir,
        &["snapshot", "restore", "vol0@b", "--safety-snapshot", "mine"],
    );
    assert_eq!(done["safety_snapshot"], "mine");
    assert!(done["taken"]["taken_at"].is_string(), "{done}");
    assert_eq!(names(&dir, "vol0"), ["a", "b", "c", "mine"]);
    assert_eq!(
        ask_json(&dir, &["snapshot", "show", "vol0@mine"])["parent"],
        "c",
        "it descends from what was active"
    );

    let discard = ["snapshot", "restore", "vol0@a", "--discard-newer"];
    let said = ask(&dir, &[&discard[..], &["--dry-run"]].concat());
    for part in ["active now would be lost", "vol0@b", "vol0@c", "vol0@mine"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    refused(&dir, &discard, 6, &["3 newer snapshots", "--yes"]);
    ask(&dir, &["snapshot", "hold", "vol0@c", "x"]);
    let sure = [&discard[..], &["--yes"]].concat();
    refused(&dir, &sure, 5, &["vol0@c is held by x", "EVG-2010"]);
    assert_eq!(names(&dir, "vol0"), ["a", "b", "c", "mine"]);
    ask(&dir, &["snapshot", "release", "vol0@c", "x"]);
    let done = ask_json(&dir, &sure);
    let lost: Vec<&Value> = done["discarded"]
        .as_array()
        .expect("a list")
        .iter()
        .collect();
    assert_eq!(lost.len(), 3, "{done}");
    assert!(done["safety_snapshot"].is_null(), "{done}");
    assert_eq!(names(&dir, "vol0"), ["a"]);
    let history = ask(&dir, &["history", "--where", "what=snapshot restore"]);
    assert!(
        history.contains("what was active is vol0@mine"),
        "{history}"
    );
    server.stop();
}
