//! What is wrong is refused with the object and the remedy, and nothing changes.

use std::sync::atomic::{AtomicU32, Ordering};

use super::names;
use crate::manage::{ask, ask_json, refused, serve};
use crate::operate::http;
use crate::running::TestDir;

/// Texts that are no names of anything.
fn no_names() -> Vec<String> {
    let short = [
        "",
        "a@b",
        "a/b",
        "é",
        "snap shot",
        "-a",
        ".",
        "..",
        "a\tb",
        "a%41",
    ];
    let short = short.into_iter().map(str::to_owned);
    short.chain(["s".repeat(1024)]).collect()
}

#[test]
fn clones_and_policies_are_not_called_anything_either() {
    let dir = TestDir::new();
    let server = serve(&dir);
    ask(&dir, &["snapshot", "create", "vol0@good"]);
    for name in no_names() {
        if !name.starts_with('-') {
            let lun = format!("vol0/{name}");
            for words in [
                vec!["clone", "create", &name, "--from", "vol0@good"],
                vec!["lun", "clone", "vol0/lun0", &lun],
                vec!["policy", "create", &name, "--daily", "1"],
                vec!["volume", "rename", "vol0", &name],
            ] {
                refused(&dir, &words, 2, &["name"]);
            }
        }
        for (path, more) in [
            ("/v1/volumes", ("clone_of", serde_json::json!("vol0@good"))),
            ("/v1/policies", ("daily", serde_json::json!(1))),
        ] {
            let mut body = serde_json::json!({"name": name});
            body[more.0] = more.1;
            let answer = http::unix(&dir, "POST", path, "", &body.to_string());
            assert_eq!(answer.status, 422, "{path} {name:?}: {answer:?}");
            assert_eq!(answer.json()["field"], "name", "{path} {name:?}");
        }
    }
    let count = |noun: &str, field: &str| {
        let shown = ask_json(&dir, &[noun, "show"]);
        shown[field].as_array().expect("a list").len()
    };
    assert_eq!(count("volume", "volumes"), 1);
    assert_eq!(count("lun", "luns"), 1);
    assert_eq!(count("policy", "policies"), 1);
    server.stop();
}

#[test]
fn a_volume_with_a_held_snapshot_stays_until_the_hold_is_released() {
    let dir = TestDir::new();
    let server = serve(&dir);
    for name in ["vol0@a", "vol0@b"] {
        ask(&dir, &["snapshot", "create", name]);
    }
    ask(&dir, &["snapshot", "hold", "vol0@b", "audit"]);
    let delete = ["volume", "delete", "vol0", "--yes"];
    let remedy = ["vol0@b is held by audit", "release", "EVG-2010"];
    refused(&dir, &delete, 5, &remedy);
    let would = ask_json(&dir, &["volume", "delete", "vol0", "--dry-run"]);
    assert_eq!(
        would["obstacle"], "vol0@b is held by audit, release the holds first",
        "{would}"
    );
    let shown = ask_json(&dir, &["snapshot", "list", "vol0"]);
    assert_eq!(shown["snapshots"].as_array().map(Vec::len), Some(2));
    ask(&dir, &["snapshot", "release", "vol0@b", "audit"]);
    ask(&dir, &delete);
    server.stop();
}

#[test]
fn the_seventeenth_hold_is_refused_and_room_comes_back() {
    let dir = TestDir::new();
    let server = serve(&dir);
    ask(&dir, &["snapshot", "create", "vol0@a"]);
    for number in 1..=16 {
        let tag = format!("t{number}");
        ask(&dir, &["snapshot", "hold", "vol0@a", &tag]);
    }
    let more = ["snapshot", "hold", "vol0@a", "more"];
    let remedy = ["vol0@a has 16 holds", "release one", "EVG-2006"];
    refused(&dir, &more, 5, &remedy);
    let shown = ask_json(&dir, &["snapshot", "show", "vol0@a"]);
    let holds = shown["holds"].as_array().map(Vec::len);
    assert_eq!(holds, Some(16), "{shown}");
    ask(&dir, &["snapshot", "release", "vol0@a", "t7"]);
    ask(&dir, &more);
    server.stop();
}

#[test]
fn names_that_are_none_are_refused_everywhere() {
    let dir = TestDir::new();
    let server = serve(&dir);
    ask(&dir, &["snapshot", "create", "vol0@good"]);
    for name in &no_names() {
        let full = format!("vol0@{name}");
        for words in [
            vec!["snapshot", "create", &full],
            vec!["snapshot", "create", &full, "--if-missing"],
            vec!["snapshot", "delete", &full, "--yes"],
            vec!["snapshot", "restore", &full],
            vec!["snapshot", "show", &full],
        ] {
            refused(&dir, &words, 2, &["name"]);
        }
        if !name.starts_with('-') {
            refused(
                &dir,
                &["snapshot", "rename", "vol0@good", name.as_str()],
                2,
                &["name"],
            );
            refused(
                &dir,
                &["snapshot", "hold", "vol0@good", name.as_str()],
                2,
                &["name"],
            );
        }
        let body = serde_json::json!({"name": name}).to_string();
        let answer = http::unix(&dir, "POST", "/v1/volumes/vol0/snapshots", "", &body);
        assert_eq!(answer.status, 422, "{name:?}: {answer:?}");
        assert_eq!(answer.json()["field"], "name");
        let answer = http::unix(&dir, "PATCH", "/v1/volumes/vol0/snapshots/good", "", &body);
        assert_eq!(answer.status, 422, "{name:?}");
    }
    assert_eq!(names(&dir, "vol0"), ["good"]);
    server.stop();
}

#[test]
fn what_is_missing_taken_or_contradictory_is_named() {
    let dir = TestDir::new();
    let server = serve(&dir);
    for name in ["vol0@a", "vol0@b"] {
        ask(&dir, &["snapshot", "create", name]);
    }
    ask(&dir, &["snapshot", "hold", "vol0@a", "x"]);
    for (words, exit, parts) in [
        (
            vec!["create", "vol0@a"],
            5,
            vec!["vol0@a exists already", "EVG-2002"],
        ),
        (vec!["create", "nix@a"], 4, vec!["no volume nix"]),
        (vec!["create", "vol0"], 2, vec!["VOLUME@SNAPSHOT"]),
        (vec!["create", "vol0/lun0@a"], 2, vec!["without a LUN"]),
        (vec!["show", "vol0@nix"], 4, vec!["no snapshot vol0@nix"]),
        (vec!["rename", "vol0@a", "b"], 5, vec!["vol0@b exists"]),
        (vec!["rename", "vol0@nix", "c"], 4, vec!["vol0@nix"]),
        (vec!["delete", "vol0@nix", "--yes"], 4, vec!["vol0@nix"]),
        (
            vec!["delete", "vol0@a", "--yes"],
            5,
            vec!["held by x", "release"],
        ),
        (vec!["hold", "vol0@a", "x"], 5, vec!["hold x on vol0@a"]),
        (vec!["hold", "vol0@nix", "x"], 4, vec!["vol0@nix"]),
        (vec!["release", "vol0@a", "y"], 4, vec!["hold y on vol0@a"]),
        (vec!["restore", "vol0@nix"], 4, vec!["vol0@nix"]),
        (
            vec!["restore", "vol0@a", "--safety-snapshot", "b"],
            5,
            vec!["vol0@b exists", "another name"],
        ),
        (
            vec![
                "restore",
                "vol0@a",
                "--safety-snapshot",
                "c",
                "--discard-newer",
            ],
            2,
            vec!["--discard-newer"],
        ),
        (vec!["restore", "vol0@a", "--force"], 2, vec!["--force"]),
    ] {
        refused(&dir, &[&["snapshot"], &words[..]].concat(), exit, &parts);
    }
    let one = "/v1/volumes/vol0/snapshots/a";
    for (method, path, body, status, code) in [
        ("POST", "/v1/volumes/vol0/snapshots", "{}", 400, "EVG-1003"),
        (
            "POST",
            "/v1/volumes/nix/snapshots",
            "{\"name\": \"a\"}",
            404,
            "EVG-2001",
        ),
        (
            "POST",
            "/v1/volumes/vol0/snapshots",
            "{\"name\": \"a\"}",
            409,
            "EVG-2002",
        ),
        ("DELETE", one, "", 409, "EVG-2010"),
        (
            "PATCH",
            one,
            "{\"name\": \"c\", \"holds\": []}",
            400,
            "EVG-1002",
        ),
        (
            "GET",
            "/v1/volumes/vol0/snapshots?nmae=a",
            "",
            400,
            "EVG-1002",
        ),
        (
            "GET",
            "/v1/volumes/vol0/snapshots/a%40b",
            "",
            404,
            "EVG-1006",
        ),
        (
            "POST",
            &format!("{one}/actions/forget"),
            "{}",
            404,
            "EVG-1006",
        ),
        (
            "POST",
            &format!("{one}/actions/hold"),
            "{\"tag\": 7}",
            422,
            "EVG-1004",
        ),
        (
            "POST",
            &format!("{one}/actions/restore"),
            "{\"discard_newer\": true, \"safety_snapshot\": \"c\"}",
            422,
            "EVG-1004",
        ),
        (
            "POST",
            &format!("{one}/actions/restore"),
            "{\"dry_run\": \"yes\"}",
            422,
            "EVG-1004",
        ),
    ] {
        let answer = http::unix(&dir, method, path, "", body);
        assert_eq!(answer.status, status, "{method} {path} {body}: {answer:?}");
        assert_eq!(answer.json()["code"], code, "{method} {path} {body}");
    }
    assert_eq!(names(&dir, "vol0"), ["a", "b"]);
    server.stop();
}

#[test]
fn the_thousand_and_twenty_fourth_snapshot_is_refused_and_room_comes_back() {
    let dir = TestDir::new();
    let server = serve(&dir);
    // Several at a time share consistency points.
    let next = AtomicU32::new(1);
    std::thread::scope(|scope| {
        for _ in 0..12 {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number > 1023 {
                        return;
                    }
                    let path = format!("/v1/volumes/vol0/snapshots/s{number}");
                    let answer = http::unix(&dir, "PUT", &path, "", "");
                    assert_eq!(answer.status, 201, "{answer:?}");
                }
            });
        }
    });
    assert_eq!(names(&dir, "vol0").len(), 1023);
    let remedy = ["1023 snapshots", "delete one for good", "EVG-2006"];
    refused(&dir, &["snapshot", "create", "vol0@more"], 5, &remedy);
    refused(&dir, &["snapshot", "restore", "vol0@s7"], 5, &remedy);
    assert_eq!(names(&dir, "vol0").len(), 1023);
    ask(
        &dir,
        &[
            "snapshot",
            "delete",
            "vol0@s500",
            "--purge",
            "--yes",
            "--wait",
        ],
    );
    // The last of it is given back by the next consistency points.
    let made = (0..200).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        crate::running::code(&dir.run(&["snapshot", "create", "vol0@more"])) == 0
    });
    assert!(made);
    server.stop();
}
