//! A volume of several blocks of the maps, each of 128 MiB: scans go over all of them, and are
//! killed on the way.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::clients::assert_clean;
use crate::manage::{ask, ask_json};
use crate::running::TestDir;
use crate::wire::Client;

const MIB: u64 = 1 << 20;
const LUN_MIB: u64 = 400;

/// How often the MiBs are written that a snapshot follows, and its name. What b and c wrote is
/// overwritten by the next.
const WRITERS: [(u64, &str); 5] = [(1, "a"), (2, "b"), (2, "c"), (2, "d"), (3, "e")];

/// The byte of a MiB after some of the writers.
fn byte(mib: u64, writers: usize) -> u8 {
    let mut so_far = WRITERS[..writers].iter();
    let last = so_far
        .rposition(|(every, _)| mib.is_multiple_of(*every))
        .expect("the first writes all") as u64;
    u8::try_from((mib + 7 * last) % 251).expect("below 251")
}

fn scan(dir: &TestDir, args: &[&str]) -> Value {
    ask_json(dir, &[&["snapshot", "scan", "vol0"], args].concat())
}

fn number(shown: &Value, key: &str) -> u64 {
    shown[key]
        .as_u64()
        .unwrap_or_else(|| panic!("{key}: {shown}"))
}

/// Consistency points so far.
fn points(dir: &TestDir) -> u64 {
    let shown = ask_json(dir, &["aggregate", "show", "aggr0"]);
    number(&shown, "committed_cp")
}

/// Lets the pass go on at one percent for a moment, and stops it again: how it stands, and how many
/// seconds were said to be left on the way.
fn nudge(dir: &TestDir) -> (Value, Option<u64>) {
    scan(dir, &["--pace", "1"]);
    let eta = scan(dir, &[])["eta_seconds"].as_u64();
    (scan(dir, &["--pause"]), eta)
}

/// Until so many percent of a delete pass are done, and it rests there.
fn halt_at(dir: &TestDir, percent: u64) -> Value {
    let began = Instant::now();
    let mut was_told = false;
    loop {
        let (shown, eta) = nudge(dir);
        was_told |= eta > Some(0);
        if shown["kind"] == "delete" && number(&shown, "percent") >= percent && was_told {
            return shown;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "never: {shown}");
    }
}

#[test]
fn scans_of_a_large_volume_are_killed_on_the_way_and_go_on() {
    let dir = TestDir::new();
    let lun = format!("{LUN_MIB}MiB");
    let mut server = dir.serve(&["--lun-size", &lun, "--aggregate-size", "4GiB"]);
    let (mut client, _) = Client::open(&server.tcp, "vol0/lun0").expect("a client");
    for (count, (step, name)) in (1..).zip(WRITERS) {
        for mib in (0..LUN_MIB).filter(|mib| mib.is_multiple_of(step)) {
            let bytes = vec![byte(mib, count); 1 << 20];
            client.write(mib * MIB, &bytes).expect("written");
        }
        client.flush().expect("flushed");
        ask(&dir, &["snapshot", "create", &format!("vol0@{name}")]);
    }
    drop(client);
    scan(&dir, &["--pause"]);
    for name in ["vol0@b", "vol0@c"] {
        ask(&dir, &["snapshot", "delete", name, "--purge", "--yes"]);
    }
    let slowly = points(&dir);
    let mut percent = 1;
    for kill in 0..3 {
        let before = halt_at(&dir, percent);
        percent = number(&before, "percent") + 5;
        server.kill();
        assert_clean(&dir);
        server = dir.serve(&[]);
        let shown = scan(&dir, &[]);
        // It is where it was, and rests as it did.
        for key in ["kind", "percent", "way", "pace_percent"] {
            assert_eq!(shown[key], before[key], "kill {kill}, {key}: {shown}");
        }
        if kill == 1 {
            // One more while the pass is under way: the next pass is for it.
            ask(&dir, &["snapshot", "delete", "vol0@a", "--purge", "--yes"]);
            assert_eq!(number(&scan(&dir, &[]), "waiting_count"), 1);
        }
    }
    let fast = points(&dir);
    scan(&dir, &["--resume"]);
    let began = Instant::now();
    let done = loop {
        let shown = scan(&dir, &[]);
        let left = shown["deleted_count"]
            .as_u64()
            .zip(shown["waiting_count"].as_u64());
        if shown["kind"] == "none" && left == Some((0, 0)) {
            break shown;
        }
        assert!(
            began.elapsed() < Duration::from_secs(120),
            "never done: {shown}"
        );
        std::thread::sleep(Duration::from_millis(50));
    };
    assert_eq!(done["pending_free_bytes"], 0, "{done}");
    // Some ten percent took longer at one percent than all that was left, and the pass for a, with
    // nothing held back.
    let (slow, fast) = (fast - slowly, points(&dir) - fast);
    assert!(slow > 2 * fast, "{slow} consistency points, then {fast}");
    for (export, count) in [("vol0/lun0@d", 4), ("vol0/lun0@e", 5), ("vol0/lun0", 5)] {
        let (mut client, _) = Client::open(&server.tcp, export).expect("a client");
        for mib in 0..LUN_MIB {
            let bytes = client
                .read(mib * MIB + 4096 * (mib % 256), 4096)
                .expect("read");
            let expected = byte(mib, count);
            assert!(bytes.iter().all(|it| *it == expected), "{export} MiB {mib}");
        }
    }
    server.stop();
    assert_clean(&dir);
}
