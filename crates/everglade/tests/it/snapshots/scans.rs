//! Scans rest and go on as an operator says, also after a restart.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::clients::assert_clean;
use crate::manage::{ask, ask_json, refused, serve};
use crate::running::TestDir;
use crate::wire::Client;

fn scan(dir: &TestDir, args: &[&str]) -> Value {
    ask_json(dir, &[&["snapshot", "scan", "vol0"], args].concat())
}

/// Looks until it is so.
fn until(dir: &TestDir, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let began = Instant::now();
    loop {
        let shown = scan(dir, &[]);
        if is_so(&shown) {
            return shown;
        }
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "never {what}: {shown}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

const PAUSED: &str =
    "the scan of volume vol0 is paused; run 'everglade snapshot scan vol0 --resume'";

/// A pause that somebody forgot held deletions for ever, and nothing said why.
#[track_caller]
fn assert_says_why(dir: &TestDir) {
    let status = ask_json(dir, &["status"]);
    assert_eq!(status["health"], "warning", "{status}");
    let conditions = status["conditions"].as_array().expect("a list");
    let found = conditions.iter().find(|it| it["code"] == "EVG-4016");
    let found = found.unwrap_or_else(|| panic!("no such condition: {status}"));
    assert_eq!(found["object"], "volume vol0");
    let what = found["what"].as_str().expect("a text");
    assert!(what.contains("the space of 2 deleted snapshots"), "{what}");
    let action = found["action"].as_str().expect("a text");
    assert!(
        action.contains("'everglade snapshot scan vol0 --resume'"),
        "{action}"
    );
    let jobs = ask_json(dir, &["job", "show"]);
    let running = jobs["jobs"].as_array().expect("a list").iter();
    let running: Vec<_> = running.filter(|job| job["state"] == "running").collect();
    assert!(!running.is_empty(), "{jobs}");
    for job in running {
        assert_eq!(
            (&job["percent"], &job["detail"]),
            (&0.into(), &PAUSED.into())
        );
    }
}

#[test]
fn a_scan_that_rests_goes_on_when_it_is_told_to() {
    let dir = TestDir::new();
    let server = serve(&dir);
    let (mut client, _) = Client::open(&server.tcp, "vol0/lun0").expect("a client");
    for name in ["vol0@a", "vol0@b", "vol0@c"] {
        client
            .write(0, &vec![name.as_bytes()[5]; 4 << 20])
            .expect("written");
        ask(&dir, &["snapshot", "create", name]);
    }
    client.write(0, &vec![0; 4 << 20]).expect("written");
    client.flush().expect("flushed");
    let shown = scan(&dir, &["--pause"]);
    assert_eq!(
        (&shown["kind"], &shown["pace_percent"]),
        (&"none".into(), &0.into())
    );
    assert_eq!(ask_json(&dir, &["status"])["health"], "healthy", "no harm");
    for name in ["vol0@a", "vol0@b"] {
        let deleted = ask_json(&dir, &["snapshot", "delete", name, "--purge", "--yes"]);
        assert_eq!(deleted["detail"], PAUSED, "{deleted}");
    }
    assert_says_why(&dir);
    let rests = |shown: &Value| {
        assert!(
            shown["pending_free_bytes"].as_u64() >= Some(8 << 20),
            "{shown}"
        );
        assert_eq!(
            (&shown["waiting_count"], &shown["pace_percent"]),
            (&2.into(), &0.into())
        );
    };
    rests(&scan(&dir, &[]));
    // More consistency points change nothing about that, nor does a restart.
    ask(&dir, &["snapshot", "create", "vol0@d"]);
    rests(&scan(&dir, &[]));
    drop(client);
    server.stop();
    let server = serve(&dir);
    rests(&scan(&dir, &[]));
    assert_says_why(&dir);
    let shown = ask(
        &dir,
        &[
            "snapshot",
            "scan",
            "vol0",
            "--columns",
            "volume,waiting,pace",
        ],
    );
    assert_eq!(shown, "VOLUME  WAITING  PACE\nvol0          2    0%\n");
    assert_eq!(scan(&dir, &["--pace", "1"])["pace_percent"], 1);
    let done = until(&dir, "done", |shown| {
        shown["kind"] == "none" && shown["waiting_count"] == 0 && shown["deleted_count"] == 0
    });
    assert_eq!(done["pending_free_bytes"], 0);
    assert_eq!(ask_json(&dir, &["status"])["health"], "healthy");
    let ways = ["subtracted_maps", "added_maps"].map(|way| done[way].as_u64().expect("a number"));
    assert!(ways.iter().sum::<u64>() > 0, "{done}");
    assert_eq!(scan(&dir, &["--resume"])["pace_percent"], 100);
    refused(
        &dir,
        &["snapshot", "scan", "vol0", "--pace", "101"],
        2,
        &["101"],
    );
    refused(&dir, &["snapshot", "scan", "nix"], 4, &["nix", "EVG-2001"]);
    server.stop();
    assert_clean(&dir);
}
