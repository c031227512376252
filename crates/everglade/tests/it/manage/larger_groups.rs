//! Aggregates of mirrors and parity groups become larger while clients use them, by groups that are
//! added and by drives that became larger, and drives fail before and afterwards (decision 0050).

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use super::devices::sparse;
use super::mirrors::{
    PATIENCE, assert_holds, files, fill, list, make, mirror, serve, states, while_used,
};
use super::parity::{self, all_online};
use super::{GIB, TestDir, ask, ask_json, assert_clean, refused, text};
use crate::running::Server;
use crate::waiting::within;

fn size(dir: &TestDir) -> u64 {
    mirror(dir)["size_bytes"].as_u64().expect("a size")
}

fn enlarge(drives: &[PathBuf], bytes: u64) {
    for drive in drives {
        let file = File::options().write(true).open(drive).expect("open");
        file.set_len(bytes).expect("a sparse file");
    }
}

fn take_away(dir: &TestDir, drives: &[PathBuf], which: &[usize]) {
    for drive in which {
        fs::rename(&drives[*drive], dir.file(&format!("away{drive}"))).expect("renamed");
    }
}

fn bring_back(dir: &TestDir, drives: &[PathBuf], which: &[usize]) {
    for drive in which {
        fs::rename(dir.file(&format!("away{drive}")), &drives[*drive]).expect("renamed");
    }
}

/// Some drives of a group are taken away and come back. What was written before the group got
/// others (48 to 64, round 1), since then, and without these drives is all there.
#[track_caller]
fn assert_survives(dir: &TestDir, server: Server, drives: &[PathBuf], away: &[usize]) {
    fill(&server, 0..32, 2);
    server.stop();
    assert_clean(dir, 2);
    take_away(dir, drives, away);
    let server = serve(dir, &[]);
    assert_holds(&server, 0..32, 2);
    assert_holds(&server, 48..64, 1);
    fill(&server, 0..20, 3);
    server.stop();
    bring_back(dir, drives, away);
    let server = serve(dir, &[]);
    within(PATIENCE, "they have everything", || all_online(dir));
    assert_holds(&server, 0..20, 3);
    assert_holds(&server, 48..64, 1);
    server.stop();
    assert_clean(dir, 2);
}

#[test]
fn a_mirror_gets_another_one_and_each_may_lose_a_drive() {
    let dir = TestDir::new();
    let server = serve(&dir, &[]);
    let drives = files(&dir, 4);
    make(&dir, &drives[..2], &[]);
    let before = size(&dir);
    let add = ["aggregate", "add", "m", "--devices"];
    let one = [&add[..], &[text(&drives[2])]].concat();
    refused(&dir, &one, 2, &["groups of 2"]);
    let two = list(&drives[2..]);
    let both = [&add[..], &[two.as_str()]].concat();
    let planned = ask_json(&dir, &[&both[..], &["--dry-run"]].concat());
    while_used(&server, |_| _ = ask(&dir, &both));
    assert_eq!(planned["size_bytes"], size(&dir));
    assert!(size(&dir) > before * 19 / 10, "twice as large");
    fill(&server, 0..48, 3);
    server.stop();
    // One drive of each.
    take_away(&dir, &drives, &[1, 2]);
    let server = serve(&dir, &[]);
    assert_eq!(states(&dir), ["online", "missing", "missing", "online"]);
    assert_holds(&server, 0..48, 3);
    fill(&server, 40..60, 4);
    server.stop();
    bring_back(&dir, &drives, &[1, 2]);
    let server = serve(&dir, &[]);
    within(PATIENCE, "they have everything", || all_online(&dir));
    server.stop();
    assert_clean(&dir, 2);
}

#[test]
fn a_parity_group_becomes_larger_with_its_drives() {
    let dir = TestDir::new();
    let server = serve(&dir, &[]);
    let drives = files(&dir, 4);
    parity::make(&dir, "double", &drives, &[]);
    fill(&server, 0..32, 1);
    let before = size(&dir);
    let resize = ["aggregate", "resize", "m"];
    enlarge(&drives[..3], 2 * GIB);
    refused(&dir, &resize, 1, &["all drives of one", "drive3"]);
    enlarge(&drives[3..], 2 * GIB);
    while_used(&server, |_| _ = ask(&dir, &resize));
    let larger = size(&dir);
    assert!(larger > before * 19 / 10, "twice as large");
    fill(&server, 0..48, 2);
    server.stop();
    take_away(&dir, &drives, &[0, 3]);
    let server = serve(&dir, &[]);
    assert_eq!(size(&dir), larger);
    assert_holds(&server, 0..48, 2);
    // A group without all of its drives does not grow; another one may be added.
    enlarge(&drives[1..3], 3 * GIB);
    refused(&dir, &resize, 1, &["drive0", "bring it back"]);
    let more: Vec<PathBuf> = (0..4)
        .map(|number| sparse(&dir, &format!("more{number}"), GIB))
        .collect();
    let more = list(&more);
    ask(&dir, &["aggregate", "add", "m", "--devices", more.as_str()]);
    assert!(size(&dir) > larger * 14 / 10, "half as large again");
    fill(&server, 0..60, 5);
    server.stop();
    let server = serve(&dir, &[]);
    assert_holds(&server, 0..60, 5);
    server.stop();
    bring_back(&dir, &drives, &[0, 3]);
    let server = serve(&dir, &[]);
    within(PATIENCE, "they have everything", || all_online(&dir));
    server.stop();
    assert_clean(&dir, 2);
}

#[test]
fn a_parity_group_gets_one_more_data_drive() {
    let dir = TestDir::new();
    let server = serve(&dir, &[]);
    let drives = files(&dir, 5);
    parity::make(&dir, "double", &drives[..4], &[]);
    fill(&server, 0..64, 1);
    let before = size(&dir);
    // It held something else before, all over.
    let rubbish = vec![0xee; 1 << 20];
    let file = File::options().write(true).open(&drives[4]).expect("open");
    for at in (0..900).step_by(7) {
        let written = file.write_all_at(&rubbish, at << 20);
        written.expect("room");
    }
    let one = text(&drives[4]);
    let add = ["aggregate", "add", "m", "--devices", one];
    let of = |group| [&add[..], &["--group", group]].concat();
    refused(
        &dir,
        &[&add[..], &["--yes"]].concat(),
        2,
        &["groups of 4", "--group"],
    );
    refused(&dir, &of("2"), 2, &["no group 2"]);
    let small = sparse(&dir, "small", 600 << 20);
    let too_small = ["aggregate", "add", "m", "--devices", text(&small)];
    let too_small = [&too_small[..], &["--group", "1"]].concat();
    refused(&dir, &too_small, 1, &["too small"]);
    let wider = of("1");
    refused(&dir, &wider, 6, &["--yes"]);
    let planned = ask_json(&dir, &[&wider[..], &["--dry-run"]].concat());
    assert_eq!(size(&dir), before);
    while_used(&server, |_| {
        _ = ask(&dir, &[&wider[..], &["--yes"]].concat())
    });
    assert_eq!(planned["size_bytes"], size(&dir));
    assert!(
        size(&dir) > before * 14 / 10,
        "three columns instead of two"
    );
    // The new drive and an old one.
    assert_survives(&dir, server, &drives, &[0, 4]);
}

#[test]
fn a_parity_group_survives_more_losses_when_it_gets_more_parity() {
    let dir = TestDir::new();
    let server = serve(&dir, &[]);
    let drives = files(&dir, 5);
    parity::make(&dir, "single", &drives[..3], &[]);
    fill(&server, 0..64, 1);
    let before = size(&dir);
    for (drive, level) in [(3, "double"), (4, "triple")] {
        let add = ["aggregate", "add", "m", "--group", "1", "--parity"];
        let add = [&add[..], &["--devices", text(&drives[drive])]].concat();
        while_used(&server, |_| _ = ask(&dir, &add));
        assert_eq!(mirror(&dir)["raid"], level);
        assert_eq!(size(&dir), before, "parity is no space");
        within(PATIENCE, "it has caught up", || all_online(&dir));
    }
    let other = sparse(&dir, "other", GIB);
    let fourth = ["aggregate", "add", "m", "--devices", text(&other)];
    let fourth = [&fourth[..], &["--group", "1", "--parity"]].concat();
    refused(&dir, &fourth, 2, &["3 drives with parity already"]);
    // Three of five.
    assert_survives(&dir, server, &drives, &[0, 1, 3]);
}

#[test]
fn a_mirror_gets_a_third_copy() {
    let dir = TestDir::new();
    let server = serve(&dir, &[]);
    let drives = files(&dir, 3);
    make(&dir, &drives[..2], &[]);
    fill(&server, 0..64, 1);
    let add = ["aggregate", "add", "m", "--group", "1", "--devices"];
    let add = [&add[..], &[text(&drives[2])]].concat();
    let parity = [&add[..], &["--parity"]].concat();
    refused(&dir, &parity, 2, &["is a mirror"]);
    while_used(&server, |_| _ = ask(&dir, &add));
    within(PATIENCE, "it has caught up", || all_online(&dir));
    assert_survives(&dir, server, &drives, &[0, 1]);
}

#[test]
fn all_directories_of_a_mirror_are_given_the_size() {
    let dir = TestDir::new();
    let server = serve(&dir, &[]);
    let drives = [dir.file("one"), dir.file("two")];
    drives
        .iter()
        .for_each(|path| fs::create_dir(path).expect("made"));
    make(&dir, &drives, &["--size", "1GiB"]);
    let before = size(&dir);
    ask(&dir, &["aggregate", "resize", "m", "--size", "2GiB"]);
    let larger = size(&dir);
    assert!(larger > before * 19 / 10, "twice as large");
    let one = text(&drives[0]);
    ask(
        &dir,
        &[
            "aggregate",
            "resize",
            "m",
            "--device",
            one,
            "--size",
            "3GiB",
        ],
    );
    let largest = size(&dir);
    assert!(largest > larger * 14 / 10, "half as large again");
    // Another copy is as large as the others, unless somebody says otherwise.
    let third = dir.file("three");
    fs::create_dir(&third).expect("made");
    let add = ["aggregate", "add", "m", "--group", "1", "--devices"];
    ask(&dir, &[&add[..], &[text(&third)]].concat());
    assert_eq!(size(&dir), largest);
    within(PATIENCE, "it has caught up", || all_online(&dir));
    fill(&server, 0..48, 1);
    server.stop();
    assert_clean(&dir, 2);
}

#[test]
fn a_mirror_moves_to_larger_drives() {
    let dir = TestDir::new();
    let server = serve(&dir, &[]);
    let drives = files(&dir, 2);
    make(&dir, &drives, &[]);
    fill(&server, 0..48, 1);
    let before = size(&dir);
    let news = [sparse(&dir, "new0", 2 * GIB), sparse(&dir, "new1", 2 * GIB)];
    for (old, new) in drives.iter().zip(&news) {
        let (old, new) = (text(old), text(new));
        ask(&dir, &["aggregate", "replace", "m", old, "--with", new]);
        within(PATIENCE, "it has everything", || all_online(&dir));
    }
    assert_eq!(size(&dir), before, "nobody asked");
    while_used(&server, |_| _ = ask(&dir, &["aggregate", "resize", "m"]));
    assert!(size(&dir) > before * 19 / 10, "twice as large");
    refused(
        &dir,
        &["aggregate", "resize", "m"],
        1,
        &["no mirror or parity group", "by an area of 128 MiB"],
    );
    fill(&server, 0..60, 2);
    server.kill();
    let server = serve(&dir, &[]);
    assert_holds(&server, 0..60, 2);
    server.stop();
    assert_clean(&dir, 2);
}
