//! A volume of several blocks of the maps, each of 128 MiB: scans go over all of them, and are killed on the way.

use std::time::{Duration, Instant};

use crate::clients::assert_clean;
use crate::manage::{ask, ask_json};
use crate::running::Place;
use crate::wire::Client;

const MIB: u64 = 1 << 20;
const LUN_MIB: u64 = 400;

/// The byte of a MiB that was written last by these.
fn byte(mib: u64, writers: &[u64]) -> u8 {
    let last = writers
        .iter()
        .rev()
        .find(|every| mib.is_multiple_of(**every));
    let last = last.expect("the first writes all");
    u8::try_from((mib + 7 * last) % 251).expect("below 251")
}

#[test]
fn scans_of_a_large_volume_are_killed_on_the_way_and_go_on() {
    let place = Place::new();
    let lun = format!("{LUN_MIB}MiB");
    let mut server = place.serve(&["--lun-size", &lun, "--aggregate-size", "4GiB"]);
    // Who writes every so many MiB, and the snapshot that follows.
    let writers = [(1, "a"), (3, "b"), (5, "c"), (7, "d"), (11, "e")];
    let every: Vec<u64> = writers.iter().map(|(every, _)| *every).collect();
    let (mut client, _) = Client::open(&server.tcp, "vol0/lun0").expect("a client");
    for (count, (step, name)) in (1..).zip(writers) {
        for mib in (0..LUN_MIB).filter(|mib| mib.is_multiple_of(step)) {
            let bytes = vec![byte(mib, &every[..count]); 1 << 20];
            client.write(mib * MIB, &bytes).expect("written");
        }
        client.flush().expect("flushed");
        ask(&place, &["snapshot", "create", &format!("vol0@{name}")]);
    }
    drop(client);
    let scan = |place: &Place| ask_json(place, &["snapshot", "scan", "vol0"]);
    // Little at a time, so that the kill meets the scan.
    ask(&place, &["snapshot", "scan", "vol0", "--pace", "1"]);
    for name in ["vol0@b", "vol0@c"] {
        ask(&place, &["snapshot", "delete", name, "--yes"]);
    }
    for kill in 0..3 {
        server.kill();
        assert_clean(&place);
        server = place.serve(&[]);
        let shown = scan(&place);
        assert_eq!(shown["pace_percent"], 1, "kill {kill}: {shown}");
        if kill == 1 {
            // One more while the pass is under way: the next pass is for it, or the same if it has not begun.
            ask(&place, &["snapshot", "delete", "vol0@a", "--yes"]);
        }
    }
    ask(&place, &["snapshot", "scan", "vol0", "--resume"]);
    let began = Instant::now();
    let done = loop {
        let shown = scan(&place);
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
    for (export, count) in [("vol0/lun0@d", 4), ("vol0/lun0@e", 5), ("vol0/lun0", 5)] {
        let (mut client, _) = Client::open(&server.tcp, export).expect("a client");
        for mib in 0..LUN_MIB {
            let bytes = client
                .read(mib * MIB + 4096 * (mib % 256), 4096)
                .expect("read");
            let expected = byte(mib, &every[..count]);
            assert!(bytes.iter().all(|it| *it == expected), "{export} MiB {mib}");
        }
    }
    server.stop();
    assert_clean(&place);
}
