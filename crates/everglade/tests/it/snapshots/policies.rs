//! Policies: snapshots that volumes get by themselves. What a clock does to them is tested beside
//! the schedule; here a daemon finds that it was away, because its book was written back while it
//! was stopped.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use super::names;
use crate::manage::{ask, ask_json, refused, serve};
use crate::operate::http;
use crate::running::{Server, TestDir, code, everglade, stderr};
use crate::waiting::{event, within};
use crate::wire::Client;

/// The schedule looks at the clock every few seconds.
#[track_caller]
fn wait_until(what: &str, is_so: impl FnMut() -> bool) {
    within(Duration::from_secs(30), what, is_so);
}

/// Starts a daemon that finds a book of an earlier version, in which volume `vol0` has policy `p`,
/// these hourly and daily snapshots were taken for it, and everything was seen to long ago.
fn serve_after_absence(dir: &TestDir, hourly: &[&str], daily: &[&str]) -> Server {
    let mut book =
        "# Written by everglade.\nversion = 1\n[volume.vol0]\npolicy = \"p\"\n".to_owned();
    for (every, taken) in [("hourly", hourly), ("daily", daily)] {
        book += &format!("[volume.vol0.run.{every}]\nseen = 1700000000\n");
        for known in taken {
            let (id, name) = known.split_once(' ').expect("number and name");
            book += &format!("[[volume.vol0.run.{every}.taken]]\nid = {id}\nname = \"{name}\"\n");
        }
    }
    let path = dir.data_dir().join("policies.toml");
    fs::write(&path, book + "# end of policies\n").expect("write");
    let server = serve(dir);
    wait_until("the book is in the pool", || !path.exists());
    server
}

/// Starts a daemon in an empty data directory and kills it as soon as `is_time`.
fn kill_first_start(dir: &TestDir, is_time: impl Fn() -> bool) {
    let first = ["serve", "--nbd-tcp", ":0", "--aggregate-size", "1GiB"];
    let mut daemon = everglade(&dir.data_dir())
        .args(first)
        .args(["--snapshot-policy", "default"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary starts");
    while !is_time() {
        let ended = daemon.try_wait().expect("a status");
        assert!(ended.is_none(), "{ended:?}");
    }
    daemon.kill().expect("our own child");
    daemon.wait().expect("an end");
}

#[test]
fn a_first_start_that_is_killed_leaves_no_volume_without_its_policy() {
    let first = |phase: &str| {
        let dir = TestDir::new();
        let state = dir.data_dir().join("state.toml");
        let phase = format!("phase = \"{phase}\"");
        kill_first_start(&dir, || {
            fs::read_to_string(&state).is_ok_and(|text| text.contains(&phase))
        });
        dir
    };
    let policy = |dir: &TestDir, usual: &str| {
        let server = dir.serve(&["--aggregate-size", "1GiB", "--snapshot-policy", usual]);
        let shown = ask_json(dir, &["volume", "show", "vol0"]);
        server.stop();
        shown["snapshot_policy"].clone()
    };
    for _ in 0..5 {
        // What is recorded as ready has all it should have, and nobody gives it more.
        assert_eq!(policy(&first("ready"), "none"), "default");
        // What is not is made anew.
        assert_eq!(policy(&first("creating"), "default"), "default");
    }
}

#[test]
fn a_first_start_with_a_policy_that_cannot_be_serves_nothing_and_the_next_begins_anew() {
    let dir = TestDir::new();
    let words = ["--aggregate-size", "1GiB", "--snapshot-policy", "office"];
    let refusal = dir.serve_in_vain(&words);
    assert_eq!(code(&refusal), 1, "{}", stderr(&refusal));
    let said = stderr(&refusal);
    for words in ["vol0", "no policy office", "default"] {
        assert!(said.contains(words), "no '{words}' in: {said}");
    }
    let server = dir.serve(&["--aggregate-size", "1GiB", "--snapshot-policy", "default"]);
    let shown = ask_json(&dir, &["volume", "show", "vol0"]);
    assert_eq!(shown["snapshot_policy"], "default");
    server.stop();
}

#[test]
fn a_volume_has_the_policy_that_was_asked_for_and_the_first_one_the_usual() {
    let dir = TestDir::new();
    let server = dir.serve(&["--aggregate-size", "2GiB", "--snapshot-policy", "default"]);
    let policy =
        |volume: &str| ask_json(&dir, &["volume", "show", volume])["snapshot_policy"].clone();
    assert_eq!(policy("vol0"), "default");
    ask(&dir, &["volume", "create", "a"]);
    ask(
        &dir,
        &["volume", "create", "b", "--snapshot-policy", "none"],
    );
    let make = [
        "policy",
        "create",
        "office",
        "--daily",
        "5",
        "--weekly",
        "4",
        "--at",
        "22:30",
        "--weekday",
        "friday",
        "--time-zone",
        "Europe/Berlin",
    ];
    ask(&dir, &make);
    ask(
        &dir,
        &["volume", "create", "c", "--snapshot-policy", "office"],
    );
    assert_eq!(
        [policy("a"), policy("b"), policy("c")],
        ["default", "none", "office"]
    );
    let shown = ask(&dir, &["policy", "show"]);
    for part in [
        "NAME     HOURLY  DAILY  WEEKLY  AT     WEEKDAY  TIME-ZONE      VOLUMES",
        "default       6      2       2  00:00  sunday   UTC                  2",
        "office        0      5       4  22:30  friday   Europe/Berlin        1",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let status = ask_json(&dir, &["policy", "status", "c"]);
    assert!(
        status["next"]
            .as_str()
            .expect("a time")
            .ends_with(":30:00Z"),
        "{status}"
    );
    let all = ask(&dir, &["policy", "status"]);
    for part in [
        "volume b: policy none",
        "volume c: policy office, next snapshot at",
    ] {
        assert!(all.contains(part), "{part}: {all}");
    }
    let all = ask_json(&dir, &["policy", "status"]);
    assert_eq!(all["volumes"].as_array().map(Vec::len), Some(4), "{all}");
    let modify = ["policy", "modify", "office", "--daily", "9"];
    let changed = ask_json(&dir, &modify);
    assert_eq!(changed["daily"], 9, "{changed}");
    let shown = ask_json(&dir, &["policy", "show", "office"]);
    assert_eq!(
        (&shown["daily"], &shown["volume_count"]),
        (&9.into(), &1.into())
    );
    let history = ask_json(&dir, &["history", "--where", "what=policy modify"]);
    assert_eq!(history["changes"][0]["detail"], "daily 9", "{history}");
    refused(&dir, &["policy", "modify", "office"], 2, &["--daily"]);
    refused(
        &dir,
        &["policy", "modify", "default", "--daily", "9"],
        5,
        &["never changes", "policy set"],
    );
    ask(&dir, &["policy", "set", "c", "none"]);
    assert_eq!(policy("c"), "none");
    ask(&dir, &["policy", "delete", "office"]);
    // Creating again says what is different.
    let again = ["volume", "create", "a", "--if-missing", "--snapshot-policy"];
    ask(&dir, &[&again[..], &["default"]].concat());
    refused(
        &dir,
        &[&again[..], &["none"]].concat(),
        5,
        &["snapshot policy default"],
    );
    // What a volume had is not what the next one of its name has.
    ask(&dir, &["volume", "delete", "a", "--yes"]);
    ask(
        &dir,
        &["volume", "create", "a", "--snapshot-policy", "none"],
    );
    assert_eq!(policy("a"), "none");
    // Said as a verb of snapshots it is the same.
    let show = ask(&dir, &["policy", "show"]);
    assert_eq!(ask(&dir, &["snapshot", "policy", "show"]), show);
    server.stop();
    let server = dir.serve(&[]);
    assert_eq!([policy("vol0"), policy("a")], ["default", "none"]);
    server.stop();
}

#[test]
fn a_daemon_that_was_away_takes_one_of_each_and_deletes_none_that_is_held_or_open() {
    let dir = TestDir::new();
    let server = dir.serve(&["--aggregate-size", "2GiB", "--lun-size", "64MiB"]);
    ask(
        &dir,
        &["policy", "create", "p", "--hourly", "1", "--daily", "1"],
    );
    ask(&dir, &["policy", "set", "vol0", "p"]);
    assert!(names(&dir, "vol0").is_empty(), "nothing at once");
    ask(&dir, &["policy", "set", "vol0", "none"]);
    server.stop();
    let server = serve_after_absence(&dir, &[], &[]);
    wait_until("both are taken", || names(&dir, "vol0").len() == 2);
    let first = names(&dir, "vol0");
    assert!(
        first[0].starts_with("hourly.20") && first[1].starts_with("daily.20"),
        "{first:?}"
    );
    event(&dir, "taken by policy p");
    event(&dir, "were missed");
    let hourly = format!("vol0@{}", first[0]);
    ask(&dir, &["snapshot", "hold", &hourly, "audit"]);
    ask(&dir, &["policy", "set", "vol0", "none"]);
    server.stop();
    let [hour, day] = [format!("1 {}", first[0]), format!("2 {}", first[1])];
    let server = serve_after_absence(&dir, &[&hour], &[&day]);
    // The older daily one goes, the held hourly one stays.
    wait_until("one is deleted", || {
        let found = names(&dir, "vol0");
        found.len() == 3 && !found.contains(&first[1])
    });
    let found = names(&dir, "vol0");
    assert!(found.contains(&first[0]), "{found:?}");
    let status = ask_json(&dir, &["status"]);
    assert_eq!(
        status["health"], "healthy",
        "that is how it is meant: {status}"
    );
    let conditions = status["conditions"].as_array().expect("a list").clone();
    let kept = conditions.iter().find(|found| found["code"] == "EVG-4007");
    let what = kept.expect("it is said")["what"]
        .as_str()
        .expect("words")
        .to_owned();
    assert!(
        what.contains(&first[0]) && what.contains("held by audit"),
        "{what}"
    );
    let status = ask_json(&dir, &["policy", "status", "vol0"]);
    assert_eq!(
        status["overdue"][0],
        Value::from(first[0].clone()),
        "{status}"
    );
    // Open in a client is as good as held.
    let export = format!("vol0/lun0@{}", first[0]);
    let (client, _) = Client::open(&server.tcp, &export).expect("a client");
    ask(&dir, &["snapshot", "release", &hourly, "audit"]);
    wait_until("the reason is the client", || {
        ask(&dir, &["status"]).contains("open in a client")
    });
    assert!(names(&dir, "vol0").contains(&first[0]));
    drop(client);
    wait_until("it goes", || !names(&dir, "vol0").contains(&first[0]));
    wait_until("all is said", || {
        !ask(&dir, &["status"]).contains("EVG-4007")
    });
    server.stop();
}

#[test]
fn a_policy_that_cannot_be_is_refused_with_the_remedy() {
    let dir = TestDir::new();
    let server = serve(&dir);
    ask(&dir, &["policy", "create", "p", "--hourly", "2"]);
    ask(&dir, &["policy", "set", "vol0", "p"]);
    for (words, exit, parts) in [
        (vec!["create", "q"], 2, vec!["--hourly", "no snapshots"]),
        (
            vec!["create", "none", "--daily", "1"],
            2,
            vec!["none", "another name"],
        ),
        (
            vec!["create", "a/b", "--daily", "1"],
            2,
            vec!["is not a name"],
        ),
        (
            vec!["create", "p", "--daily", "1"],
            5,
            vec!["policy p exists", "EVG-2002"],
        ),
        (vec!["create", "default", "--daily", "1"], 5, vec!["exists"]),
        (
            vec!["create", "q", "--daily", "1024"],
            2,
            vec!["--daily", "1023"],
        ),
        (
            vec!["create", "q", "--daily", "900", "--hourly", "200"],
            2,
            vec!["1100", "1023"],
        ),
        (vec!["create", "q", "--daily", "x"], 2, vec!["--daily"]),
        (
            vec!["create", "q", "--daily", "1", "--weekday", "monday"],
            2,
            vec!["--weekday", "weekly"],
        ),
        (
            vec!["create", "q", "--hourly", "1", "--at", "03:15"],
            2,
            vec!["--at"],
        ),
        (
            vec!["create", "q", "--daily", "1", "--at", "25:00"],
            2,
            vec!["HH:MM"],
        ),
        (
            vec!["create", "q", "--daily", "1", "--time-zone", "Mars/Olympus"],
            2,
            vec!["--time-zone", "IANA"],
        ),
        (
            vec![
                "create",
                "q",
                "--daily",
                "1",
                "--time-zone",
                "../../etc/passwd",
            ],
            2,
            vec!["--time-zone"],
        ),
        (
            vec!["delete", "p"],
            5,
            vec!["vol0", "policy set", "EVG-2010"],
        ),
        (
            vec!["delete", "default"],
            5,
            vec!["always there", "EVG-2009"],
        ),
        (vec!["delete", "nix"], 4, vec!["no policy nix"]),
        (
            vec!["set", "vol0", "nix"],
            4,
            vec!["no policy nix", "none", "default, p"],
        ),
        (vec!["set", "nix", "p"], 4, vec!["no volume nix"]),
        (vec!["status", "nix"], 4, vec!["no volume nix"]),
        (vec!["show", "nix"], 4, vec!["no policy nix"]),
    ] {
        refused(&dir, &[&["policy"], &words[..]].concat(), exit, &parts);
    }
    refused(
        &dir,
        &["volume", "create", "v", "--snapshot-policy", "nix"],
        4,
        &["no policy nix"],
    );
    refused(&dir, &["volume", "show", "v"], 4, &["no volume v"]);
    for (method, path, body, status, code) in [
        (
            "POST",
            "/v1/policies",
            "{\"name\": \"q\", \"daily\": \"2\"}",
            422,
            "EVG-1004",
        ),
        ("POST", "/v1/policies", "{\"daily\": 2}", 400, "EVG-1003"),
        (
            "POST",
            "/v1/policies",
            "{\"name\": \"q\", \"dayly\": 2}",
            400,
            "EVG-1002",
        ),
        ("PUT", "/v1/volumes/vol0/policy", "{}", 400, "EVG-1003"),
        ("DELETE", "/v1/policies/p", "", 409, "EVG-2010"),
    ] {
        let answer = http::unix(&dir, method, path, "", body);
        assert_eq!(answer.status, status, "{method} {path} {body}: {answer:?}");
        assert_eq!(answer.json()["code"], code, "{method} {path} {body}");
    }
    let left = ask_json(&dir, &["policy", "show"]);
    assert_eq!(left["policies"].as_array().map(Vec::len), Some(2), "{left}");
    server.stop();
}

#[test]
fn a_pool_takes_its_policies_to_another_data_directory() {
    let (dir, other) = (TestDir::new(), TestDir::new());
    let server = dir.serve(&["--aggregate-size", "2GiB", "--snapshot-policy", "default"]);
    ask(&dir, &["policy", "create", "office", "--hourly", "3"]);
    ask(&dir, &["volume", "create", "a"]);
    ask(&dir, &["policy", "set", "a", "office"]);
    server.stop();
    assert!(!dir.data_dir().join("policies.toml").exists());
    // Nothing but what says where the devices are, and the devices.
    fs::create_dir_all(other.data_dir()).expect("a directory");
    for name in ["FORMAT", "state.toml", "aggregates"] {
        let (from, to) = (dir.data_dir().join(name), other.data_dir().join(name));
        fs::rename(from, to).expect("moved");
    }
    let server = other.serve(&["--snapshot-policy", "none"]);
    let policy =
        |volume: &str| ask_json(&other, &["volume", "show", volume])["snapshot_policy"].clone();
    assert_eq!([policy("vol0"), policy("a")], ["default", "office"]);
    let status = ask_json(&other, &["policy", "status", "a"]);
    assert!(status["next"].is_string(), "{status}");
    assert!(!ask(&other, &["status"]).contains("EVG-4006"));
    server.stop();
}

#[test]
fn a_book_that_cannot_be_read_is_put_aside_and_data_is_served() {
    let dir = TestDir::new();
    let server = serve(&dir);
    server.stop();
    let path = dir.data_dir().join("policies.toml");
    fs::write(&path, "version = 1\n[volume.vol0]\npol").expect("torn");
    let server = serve(&dir);
    let status = ask(&dir, &["status"]);
    for part in [
        "health: warning",
        "EVG-4006",
        "policies.toml cannot be read",
        "policy set",
    ] {
        assert!(status.contains(part), "{part}: {status}");
    }
    assert!(dir.data_dir().join("policies.toml.unreadable").exists());
    assert_eq!(code(&dir.run(&["policy", "set", "vol0", "default"])), 0);
    assert!(!ask(&dir, &["status"]).contains("EVG-4006"));
    server.stop();
}
