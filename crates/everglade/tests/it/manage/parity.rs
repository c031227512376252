//! Aggregates with parity: drives fail under load, are missing at a start, come back and are
//! replaced, with crashes on top (decision 0049).

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use super::devices::sparse;
use super::mirrors::{
    PATIENCE, Unwritable, assert_holds, files, fill, list, mirror, serve, states, while_used,
};
use super::{GIB, TestDir, ask, assert_clean, refused, text};
use crate::waiting::within;

/// Makes the aggregate `m` with parity, a volume and a LUN.
pub(super) fn make(dir: &TestDir, raid: &str, devices: &[PathBuf], more: &[&str]) {
    let devices = list(devices);
    let create = ["aggregate", "create", "m", "--raid", raid, "--devices"];
    ask(dir, &[&create[..], &[devices.as_str()], more].concat());
    ask(dir, &["volume", "create", "v", "--aggregate", "m"]);
    ask(dir, &["lun", "create", "v/l", "--size", "64MiB"]);
}

pub(super) fn all_online(dir: &TestDir) -> bool {
    states(dir).iter().all(|state| state == "online")
}

#[test]
fn two_drives_fail_under_load_and_others_take_their_places() {
    let dir = TestDir::new();
    if !Unwritable::is_possible(&dir) {
        return;
    }
    let server = serve(&dir, &[]);
    let drives = files(&dir, 5);
    make(&dir, "double", &drives, &[]);
    let made = mirror(&dir);
    assert_eq!(
        (&made["raid"], &made["group_size"]),
        (&"double".into(), &5.into())
    );
    fill(&server, 0..48, 1);
    let mut broken = Vec::new();
    let news = [sparse(&dir, "new0", GIB), sparse(&dir, "new4", GIB)];
    while_used(&server, |rounds| {
        within(PATIENCE, "the client works", || {
            rounds.load(Ordering::Acquire) > 5
        });
        // One with data, and one with parity.
        for drive in [0, 4] {
            broken.push(Unwritable::new(&drives[drive]));
            within(PATIENCE, "the drive failed", || {
                states(&dir)[drive] == "failed"
            });
        }
        let said = super::stdout(&dir.run(&["status"]));
        assert!(said.contains("group 1 has 3 of 5 drives left"), "{said}");
        assert!(said.contains("if another drive of group 1 fails"), "{said}");
        for (drive, new) in [(0, &news[0]), (4, &news[1])] {
            let old = text(&drives[drive]);
            let replace = ["aggregate", "replace", "m", old, "--with", text(new)];
            ask(&dir, &replace);
        }
        within(PATIENCE, "they have everything", || all_online(&dir));
    });
    fill(&server, 0..48, 1000);
    drop(broken);
    server.stop();
    assert_clean(&dir, 2);
    // The new ones have it, too: the other data drives may be away now.
    for drive in [1, 2] {
        fs::rename(&drives[drive], dir.file(&format!("away{drive}"))).expect("renamed");
    }
    let server = serve(&dir, &[]);
    assert_holds(&server, 0..48, 1000);
    server.stop();
}

#[test]
fn a_drive_is_gone_after_a_crash_and_comes_back() {
    let dir = TestDir::new();
    let server = serve(&dir, &[]);
    let drives = files(&dir, 3);
    make(&dir, "single", &drives, &[]);
    server.stop();
    for (drive, path) in drives.iter().enumerate() {
        let round = 10 + drive as u64;
        let server = serve(&dir, &[]);
        fill(&server, 0..32, round);
        server.kill();
        let away = dir.file("away");
        fs::rename(path, &away).expect("renamed");
        let without = serve(&dir, &[]);
        assert_eq!(states(&dir)[drive], "missing");
        assert_holds(&without, 0..32, round);
        fill(&without, 8..16, round);
        without.kill();
        fs::rename(&away, path).expect("renamed");
        let with = serve(&dir, &[]);
        within(PATIENCE, "it has everything", || all_online(&dir));
        assert_holds(&with, 0..32, round);
        with.stop();
        assert_clean(&dir, 2);
    }
}

#[test]
fn what_makes_no_group_is_refused() {
    let dir = TestDir::new();
    let server = serve(&dir, &[]);
    let drives = files(&dir, 4);
    let two = list(&drives[..2]);
    let create = |raid: &'static str, devices: &str, more: &[&str]| {
        let first = ["aggregate", "create", "m", "--raid", raid, "--devices"];
        let all = [&first[..], &[devices], more].concat();
        all.into_iter().map(str::to_owned).collect::<Vec<String>>()
    };
    let all = list(&drives);
    for (words, part) in [
        (create("double", &two, &[]), "2 make no group"),
        (
            create("double", &all, &["--group-size", "2"]),
            "use 3 to 30",
        ),
        (
            create("single", &all, &["--group-size", "3"]),
            "multiple of 3",
        ),
    ] {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        refused(&dir, &words, 2, &[part]);
    }
    let planned = create("single", &all, &["--group-size", "2", "--dry-run"]);
    let planned: Vec<&str> = planned.iter().map(String::as_str).collect();
    assert!(ask(&dir, &planned).contains("would have 2.0 GiB"));
    server.stop();
}
