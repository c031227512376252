//! What the verbs do, and what they say.

use serde_json::Value;

use super::names;
use crate::manage::{ask, ask_json, refused, serve};
use crate::operate::http;
use crate::running::Place;
use crate::wire::Client;

#[test]
fn a_snapshot_is_taken_shown_renamed_held_and_deleted() {
    let place = Place::new();
    let server = serve(&place);
    let (mut client, _) = Client::open(&server.tcp, "vol0/lun0").expect("a client");
    client.write(0, &[1; 1 << 20]).expect("written");
    let made = ask_json(&place, &["snapshot", "create", "vol0@a"]);
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
    ask(&place, &["snapshot", "create", "vol0@b"]);
    let shown = ask_json(&place, &["snapshot", "show", "vol0@a"]);
    assert!(
        shown["exclusive_bytes"].as_u64() >= Some(1 << 20),
        "{shown}"
    );
    assert!(
        shown["taken"].is_null(),
        "only the answer that made it has it"
    );
    assert_eq!(
        ask_json(&place, &["snapshot", "show", "vol0@b"])["parent"],
        "a"
    );
    let volume = ask_json(&place, &["volume", "show", "vol0"]);
    assert_eq!(volume["snapshot_count"], 2);
    assert!(volume["snapshot_exclusive_bytes"].as_u64() >= Some(1 << 20));

    let df = ask_json(&place, &["df", "--volumes"]);
    let row = &df["volumes"][0];
    assert!(row["used_bytes"].as_u64() > Some(1 << 20), "{df}");
    assert!(
        row["snapshot_exclusive_bytes"].as_u64() >= Some(1 << 20),
        "{df}"
    );
    let shown = ask(
        &place,
        &["df", "--volumes", "--columns", "volume,snapshots,pending"],
    );
    assert_eq!(
        shown,
        "VOLUME  SNAPSHOTS  PENDING\nvol0            2      0 B\n"
    );

    ask(&place, &["snapshot", "rename", "vol0@a", "first"]);
    assert_eq!(names(&place, "vol0"), ["first", "b"]);
    assert_eq!(
        ask_json(&place, &["snapshot", "show", "vol0@b"])["parent"],
        "first"
    );
    ask(&place, &["snapshot", "hold", "vol0@first", "backup"]);
    let delete = ["snapshot", "delete", "vol0@first", "--yes"];
    refused(
        &place,
        &delete,
        5,
        &["held by backup", "release", "EVG-2010"],
    );
    ask(&place, &["snapshot", "release", "vol0@first", "backup"]);
    let said = ask(&place, &["snapshot", "delete", "vol0@first", "--dry-run"]);
    assert!(said.contains("would be lost"), "{said}");
    refused(&place, &delete[..3], 6, &["vol0@first", "--yes"]);
    let job = ask_json(&place, &[&delete[..], &["--wait"]].concat());
    assert_eq!(
        (&job["kind"], &job["state"]),
        (&"snapshot delete".into(), &"done".into())
    );
    assert_eq!(names(&place, "vol0"), ["b"]);
    let history = ask(
        &place,
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
    let events = ask(&place, &["event", "show", "--where", "object=vol0@first"]);
    assert!(events.contains("snapshot delete by uid"), "{events}");
    drop(client);
    server.stop();
}

#[test]
fn lists_are_sorted_filtered_and_paged_and_one_volume_does_not_see_another() {
    let place = Place::new();
    let server = serve(&place);
    ask(&place, &["volume", "create", "w"]);
    for name in ["vol0@c", "vol0@a", "w@a", "vol0@b"] {
        ask(&place, &["snapshot", "create", name]);
    }
    assert_eq!(names(&place, "vol0"), ["c", "a", "b"]);
    assert_eq!(names(&place, "w"), ["a"]);
    let shown = ask(
        &place,
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
    let answer = http::unix(&place, "GET", path, "", "").json();
    assert_eq!(answer["snapshots"][0]["name"], "c");
    assert!(answer["snapshots"][0]["id"].is_null());
    assert_eq!(answer["next_cursor"], "2");
    // Twice is once.
    ask(&place, &["snapshot", "create", "w@a", "--if-missing"]);
    ask(&place, &["snapshot", "create", "w@d", "--if-missing"]);
    assert_eq!(names(&place, "w"), ["a", "d"]);
    let one = "/v1/volumes/w/snapshots/a";
    assert_eq!(http::unix(&place, "PUT", one, "", "").status, 200);
    assert_eq!(
        http::unix(&place, "PUT", "/v1/volumes/w/snapshots/e", "", "").status,
        201
    );
    // A volume goes with its snapshots, and says so.
    let said = ask(&place, &["volume", "delete", "w", "--dry-run"]);
    assert!(said.contains("its 3 snapshots"), "{said}");
    ask(&place, &["volume", "delete", "w", "--yes"]);
    refused(&place, &["snapshot", "show", "w"], 4, &["no volume w"]);
    server.stop();
}

#[test]
fn a_rename_heeds_the_tag_of_what_was_seen() {
    let place = Place::new();
    let server = serve(&place);
    ask(&place, &["snapshot", "create", "vol0@a"]);
    let path = "/v1/volumes/vol0/snapshots/a";
    let tag = |answer: &http::Answer| answer.header("etag").expect("a tag").to_owned();
    let seen = tag(&http::unix(&place, "GET", path, "", ""));
    ask(&place, &["snapshot", "hold", "vol0@a", "x"]);
    let held = tag(&http::unix(&place, "GET", path, "", ""));
    assert_ne!(seen, held, "holds are settings");
    let rename = |tag: &str| {
        let headers = format!("If-Match: {tag}\r\n");
        http::unix(&place, "PATCH", path, &headers, "{\"name\": \"b\"}")
    };
    let stale = rename(&seen);
    assert_eq!(
        (stale.status, &stale.json()["code"]),
        (412, &"EVG-2007".into())
    );
    assert_eq!(names(&place, "vol0"), ["a"]);
    assert_eq!(rename(&held).status, 200);
    assert_eq!(names(&place, "vol0"), ["b"]);
    server.stop();
}

#[test]
fn a_restore_says_what_it_keeps_and_what_it_would_lose() {
    let place = Place::new();
    let server = serve(&place);
    for name in ["vol0@a", "vol0@b", "vol0@c"] {
        ask(&place, &["snapshot", "create", name]);
    }
    let plan = ask_json(&place, &["snapshot", "restore", "vol0@a", "--dry-run"]);
    let safety = plan["safety_snapshot"].as_str().expect("a name").to_owned();
    assert!(safety.starts_with("before-restore-20"), "{safety}");
    assert_eq!(plan["discarded"].as_array().map(Vec::len), Some(0));
    assert_eq!(
        names(&place, "vol0"),
        ["a", "b", "c"],
        "a dry run does nothing"
    );
    let done = ask_json(
        &place,
        &["snapshot", "restore", "vol0@b", "--safety-snapshot", "mine"],
    );
    assert_eq!(done["safety_snapshot"], "mine");
    assert!(done["taken"]["taken_at"].is_string(), "{done}");
    assert_eq!(names(&place, "vol0"), ["a", "b", "c", "mine"]);
    assert_eq!(
        ask_json(&place, &["snapshot", "show", "vol0@mine"])["parent"],
        "c",
        "it descends from what was active"
    );

    let discard = ["snapshot", "restore", "vol0@a", "--discard-newer"];
    let said = ask(&place, &[&discard[..], &["--dry-run"]].concat());
    for part in ["active now would be lost", "vol0@b", "vol0@c", "vol0@mine"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    refused(&place, &discard, 6, &["3 newer snapshots", "--yes"]);
    ask(&place, &["snapshot", "hold", "vol0@c", "x"]);
    let sure = [&discard[..], &["--yes"]].concat();
    refused(&place, &sure, 5, &["vol0@c is held by x", "EVG-2010"]);
    assert_eq!(names(&place, "vol0"), ["a", "b", "c", "mine"]);
    ask(&place, &["snapshot", "release", "vol0@c", "x"]);
    let done = ask_json(&place, &sure);
    let lost: Vec<&Value> = done["discarded"]
        .as_array()
        .expect("a list")
        .iter()
        .collect();
    assert_eq!(lost.len(), 3, "{done}");
    assert!(done["safety_snapshot"].is_null(), "{done}");
    assert_eq!(names(&place, "vol0"), ["a"]);
    let history = ask(&place, &["history", "--where", "what=snapshot restore"]);
    assert!(
        history.contains("what was active is vol0@mine"),
        "{history}"
    );
    server.stop();
}
