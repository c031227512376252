//! Drives of a mirror are replaced while clients work. They notice nothing, and the old drive is
//! never used again.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::devices::sparse;
use super::mirrors::{
    PATIENCE, assert_has_all, assert_holds, both, epoch, files, fill, list, make, mirror, serve,
    state_of, states, while_used,
};
use super::{GIB, MIB, TestDir, ask, ask_json, assert_clean, everything, text};
use crate::operate::http;
use crate::operate::metrics::value;
use crate::running::{code, stderr};
use crate::waiting::{event, within};

/// Words of a command line, or parts of a message.
type Words<'a> = &'a [&'a str];

/// A request is refused with a message that has these parts.
fn declined(dir: &TestDir, words: &[&str], parts: &[&str]) {
    let output = dir.run(words);
    let said = stderr(&output);
    assert_ne!(code(&output), 0, "{words:?}: {said}");
    for part in parts {
        assert!(said.contains(part), "'{part}' is not in: {said}");
    }
}

/// Waits until both drives are in use.
fn caught_up(dir: &TestDir) {
    within(PATIENCE, "the new drive has caught up", || {
        states(dir) == both("online", "online")
    });
}

#[test]
fn a_drive_in_use_is_replaced_while_a_client_works() {
    let dir = TestDir::new();
    let server = serve(&dir, &[]);
    let drives = files(&dir, 2);
    make(&dir, &drives, &[]);
    let new = sparse(&dir, "new", GIB + 64 * MIB);
    let replace = [
        "aggregate",
        "replace",
        "m",
        text(&drives[0]),
        "--with",
        text(&new),
    ];
    let before = everything(&dir);
    let plan = ask_json(&dir, &[&replace[..], &["--dry-run"]].concat());
    assert_eq!(plan["was_in_use"], true);
    assert_eq!(plan["size_bytes"], GIB + 64 * MIB);
    assert_eq!(plan["group"], 1);
    let said = ask(&dir, &[&replace[..], &["--dry-run"]].concat());
    assert!(said.contains("would be taken out first"), "{said}");
    assert_eq!(everything(&dir), before, "a plan changes nothing");
    // Events come from a watch that looks once a second. It has to have seen the old drive.
    std::thread::sleep(Duration::from_millis(2500));
    while_used(&server, |rounds| {
        within(PATIENCE, "the client works", || {
            rounds.load(Ordering::Acquire) > 5
        });
        let said = ask(&dir, &replace);
        assert!(said.contains("replaces"), "{said}");
        caught_up(&dir);
        let seen = rounds.load(Ordering::Acquire);
        within(PATIENCE, "the client goes on", || {
            rounds.load(Ordering::Acquire) > seen + 5
        });
    });
    let paths = |number: usize| mirror(&dir)["devices"][number]["path"].clone();
    assert_eq!([paths(0), paths(1)], [text(&new), text(&drives[1])]);
    event(&dir, &format!("drive {} has caught up", text(&new)));
    let history = ask(&dir, &["history"]);
    assert!(history.contains("aggregate replace"), "{history}");
    // Loss, new drive, caught up.
    within(PATIENCE, "that is recorded", || epoch(&dir) == 4);
    let state = state_of(&dir);
    assert!(state.contains(text(&new)) && !state.contains(text(&drives[0])));
    assert!(!state.contains("joining") && !state.contains("replaces"));
    let page = http::tcp(&server.metrics, "GET", "/metrics", "").body;
    let online = value(&page, "everglade_drives{aggregate=\"m\",state=\"online\"}");
    assert_eq!(online, 2.0);
    fill(&server, 0..8, 1000);
    server.kill();
    assert_clean(&dir, 2);
    // The old drive is where it was, and nobody asks for it.
    let server = serve(&dir, &[]);
    assert_eq!(states(&dir), both("online", "online"));
    assert_holds(&server, 0..8, 1000);
    server.stop();
    assert_has_all(&dir, &[new, drives[1].clone()], 0..8, 1000);
}

/// The old drive is lost. The record of the data directory has it until then.
#[test]
fn a_missing_directory_is_replaced_by_another_one() {
    let dir = TestDir::new();
    let server = serve(&dir, &[]);
    let folders = ["d0", "d1"].map(|name| dir.file(name)).to_vec();
    folders
        .iter()
        .for_each(|folder| fs::create_dir(folder).expect("create"));
    make(&dir, &folders, &["--size", "1GiB"]);
    fill(&server, 0..8, 1);
    server.stop();
    fs::rename(&folders[1], dir.file("lost")).expect("rename");
    let server = serve(&dir, &[]);
    assert_eq!(states(&dir), both("online", "missing"));
    let new = dir.file("d2");
    fs::create_dir(&new).expect("create");
    let replace = ["aggregate", "replace", "m", text(&folders[1])];
    ask(&dir, &[&replace[..], &["--with", text(&new)]].concat());
    caught_up(&dir);
    assert_eq!(mirror(&dir)["devices"][1]["path"], text(&new));
    assert_eq!(mirror(&dir)["devices"][1]["size_bytes"], GIB);
    assert!(!ask(&dir, &["status"]).contains("EVG-4017"));
    fill(&server, 8..16, 1);
    server.kill();
    assert_clean(&dir, 2);
    // The lost one is back, and somebody puts its line back into the record.
    fs::rename(dir.file("lost"), &folders[1]).expect("rename");
    let path = dir.data_dir().join("state.toml");
    let line =
        |path: &str| format!("path = \"{path}\"\nkind = \"directory\"\nsize_bytes = {GIB}\n");
    let (old, now) = (line(text(&folders[1])), line(text(&new)));
    let state = state_of(&dir);
    assert!(state.contains(&now), "{state}");
    let both_lines = format!("{now}\n[[aggregate.device]]\n{old}");
    fs::write(&path, state.replace(&now, &both_lines)).expect("write");
    let server = serve(&dir, &[]);
    assert_eq!(states(&dir), both("online", "online"));
    assert_eq!(mirror(&dir)["devices"][1]["path"], text(&new));
    assert_holds(&server, 0..16, 1);
    server.stop();
    assert_clean(&dir, 2);
}

/// The daemon is killed when the new drive has its seat, and is not recorded as such yet. Nothing
/// is lost, and the record follows.
#[test]
fn a_replacement_whose_record_is_missing_is_found_by_the_next_start() {
    let dir = TestDir::new();
    let server = serve(&dir, &[]);
    let drives = files(&dir, 2);
    make(&dir, &drives, &[]);
    fill(&server, 0..8, 7);
    let new = sparse(&dir, "new", GIB);
    let line = |path: &Path| {
        let path = text(path);
        format!("path = \"{path}\"\nkind = \"file\"\nsize_bytes = {GIB}\n")
    };
    let path = dir.data_dir().join("state.toml");
    let before = state_of(&dir);
    let replace = ["aggregate", "replace", "m", text(&drives[1])];
    ask(&dir, &[&replace[..], &["--with", text(&new)]].concat());
    server.kill();
    // What the record was while the new drive got its seat.
    let old = line(&drives[1]);
    let joining = format!(
        "{old}\n[[aggregate.device]]\n{}joining = true\nreplaces = \"{}\"\n",
        line(&new),
        text(&drives[1])
    );
    assert!(before.contains(&old), "{before}");
    fs::write(&path, before.replace(&old, &joining)).expect("write");
    let server = serve(&dir, &[]);
    caught_up(&dir);
    assert_eq!(mirror(&dir)["devices"][1]["path"], text(&new));
    let state = state_of(&dir);
    assert!(
        !state.contains("joining") && !state.contains(text(&drives[1])),
        "{state}"
    );
    assert_holds(&server, 0..8, 7);
    server.stop();
    // And one that did not get the seat is forgotten.
    let other = sparse(&dir, "other", GIB);
    let now = line(&new);
    let joining = format!(
        "{now}\n[[aggregate.device]]\n{}joining = true\nreplaces = \"{}\"\n",
        line(&other),
        text(&new)
    );
    let state = state_of(&dir);
    assert!(state.contains(&now), "{state}");
    fs::write(&path, state.replace(&now, &joining)).expect("write");
    let server = serve(&dir, &[]);
    assert_eq!(states(&dir), both("online", "online"));
    assert!(!state_of(&dir).contains(text(&other)));
    server.stop();
    assert_clean(&dir, 2);
}

/// The UUID in the newest label at the front of a file, as the data directory writes it.
fn uuid_of(path: &Path) -> String {
    let mut bytes = vec![0; usize::try_from(MIB).expect("short")];
    let mut file = fs::File::open(path).expect("a drive");
    file.read_exact(&mut bytes).expect("a label");
    let records = bytes.chunks(4096);
    let records = records
        .enumerate()
        .filter(|(_, block)| block.starts_with(b"EVGLCONF"));
    let epoch = |block: &[u8]| u64::from_le_bytes(block[16..24].try_into().expect("eight"));
    let newest = records.max_by_key(|(_, block)| epoch(block));
    let (_, record) = newest.expect("a record");
    let index = u32::from_le_bytes(record[12..16].try_into().expect("four")) as usize;
    let uuid = &record[256 + 40 * index..][..16];
    uuid.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The new drive has its seat, that is not recorded, and the drive is away at the next start.
#[test]
fn a_new_drive_that_is_away_before_it_is_recorded_is_not_forgotten() {
    let dir = TestDir::new();
    let server = serve(&dir, &[]);
    let drives = files(&dir, 2);
    make(&dir, &drives, &[]);
    fill(&server, 0..8, 7);
    let new = sparse(&dir, "new", GIB);
    let before = state_of(&dir);
    let replace = ["aggregate", "replace", "m", text(&drives[1])];
    ask(&dir, &[&replace[..], &["--with", text(&new)]].concat());
    caught_up(&dir);
    server.kill();
    let line = |path: &Path| {
        let path = text(path);
        format!("path = \"{path}\"\nkind = \"file\"\nsize_bytes = {GIB}\n")
    };
    let old = line(&drives[1]);
    let joining = format!(
        "{old}\n[[aggregate.device]]\n{}joining = true\nreplaces = \"{}\"\nmember = \"{}\"\n",
        line(&new),
        text(&drives[1]),
        uuid_of(&new)
    );
    let path = dir.data_dir().join("state.toml");
    fs::write(&path, before.replace(&old, &joining)).expect("write");
    let away = dir.file("away");
    fs::rename(&new, &away).expect("rename");
    let server = serve(&dir, &["--degraded", "m"]);
    assert_eq!(states(&dir), both("online", "missing"));
    let state = state_of(&dir);
    assert!(
        state.contains(text(&new)) && !state.contains("joining"),
        "{state}"
    );
    server.stop();
    fs::rename(&away, &new).expect("rename");
    let server = serve(&dir, &[]);
    caught_up(&dir);
    assert_holds(&server, 0..8, 7);
    server.stop();
    assert_clean(&dir, 2);
}

/// Another disk is put into the bay of one that died.
#[test]
fn a_missing_drive_is_replaced_by_a_new_one_at_the_same_path() {
    let dir = TestDir::new();
    let server = serve(&dir, &[]);
    let drives = files(&dir, 2);
    make(&dir, &drives, &[]);
    fill(&server, 0..8, 3);
    server.stop();
    fs::rename(&drives[1], dir.file("dead")).expect("rename");
    sparse(&dir, "drive1", GIB);
    let server = serve(&dir, &[]);
    assert_eq!(states(&dir), both("online", "missing"));
    let same = text(&drives[1]);
    ask(&dir, &["aggregate", "replace", "m", same, "--with", same]);
    caught_up(&dir);
    let state = state_of(&dir);
    assert_eq!(state.matches(same).count(), 1, "{state}");
    assert!(!state.contains("joining"), "{state}");
    fill(&server, 8..16, 3);
    server.kill();
    let server = serve(&dir, &[]);
    assert_eq!(states(&dir), both("online", "online"));
    assert_holds(&server, 0..16, 3);
    server.stop();
    assert_clean(&dir, 2);
}

#[test]
fn what_cannot_replace_a_drive_is_refused_and_changes_nothing() {
    let dir = TestDir::new();
    let server = serve(&dir, &[]);
    let mut drives = files(&dir, 4);
    let other = drives.split_off(2);
    make(&dir, &drives, &[]);
    let create = ["aggregate", "create", "n", "--raid", "mirror", "--devices"];
    ask(&dir, &[&create[..], &[&list(&other)]].concat());
    let small = sparse(&dir, "small", 600 * MIB);
    let good = sparse(&dir, "good", GIB);
    let used = sparse(&dir, "used", GIB);
    fs::write(&used, b"somebody's data").expect("write");
    fs::OpenOptions::new()
        .write(true)
        .open(&used)
        .and_then(|file| file.set_len(GIB))
        .expect("its size");
    let linked = dir.file("link");
    std::os::unix::fs::symlink(&drives[0], &linked).expect("link");
    let before = everything(&dir);
    let old = text(&drives[0]);
    let cases: [(Words, Words); 11] = [
        (
            &["m", old, "--with", old],
            &["is the drive that is to be replaced"],
        ),
        (
            &["m", old, "--with", text(&linked)],
            &["is the drive that is to be replaced"],
        ),
        (
            &["m", old, "--with", text(&drives[1])],
            &["is a device of aggregate m"],
        ),
        (
            &["m", old, "--with", text(&other[0])],
            &["is a device of aggregate n"],
        ),
        (
            &["m", old, "--with", text(&small)],
            &["small", "too small", "at least"],
        ),
        (&["m", old, "--with", text(&used)], &["holds data", "--yes"]),
        (
            &["m", old, "--with", "/no/such/device"],
            &["/no/such/device"],
        ),
        (
            &["m", text(&good), "--with", text(&small)],
            &["is no device of aggregate m", old],
        ),
        (&["x", old, "--with", text(&good)], &["x"]),
        (
            &["m", old, "--with", text(&good), "--size", "2GiB"],
            &["only a directory is given a size"],
        ),
        (&["m", old], &["--with"]),
    ];
    for (options, parts) in cases {
        declined(&dir, &[&["aggregate", "replace"], options].concat(), parts);
    }
    assert_eq!(everything(&dir), before);
    // An aggregate without redundancy.
    let devices = ask_json(&dir, &["aggregate", "show", "aggr0"]);
    let only = devices["devices"][0]["path"]
        .as_str()
        .expect("a path")
        .to_owned();
    let words = [
        "aggregate",
        "replace",
        "aggr0",
        &only,
        "--with",
        text(&good),
    ];
    declined(&dir, &words, &["no redundancy", "copy the volumes"]);
    assert_eq!(everything(&dir), before);
    // The last drive that has everything.
    server.stop();
    fs::rename(&drives[1], dir.file("away")).expect("rename");
    let server = serve(&dir, &["--degraded", "m"]);
    let words = ["aggregate", "replace", "m", old, "--with", text(&good)];
    declined(
        &dir,
        &words,
        &["no other drive of the mirror has everything"],
    );
    assert_eq!(states(&dir), both("online", "missing"));
    // A used one is fine with --yes.
    let missing = text(&drives[1]);
    let words = [
        "aggregate",
        "replace",
        "m",
        missing,
        "--with",
        text(&used),
        "--yes",
    ];
    ask(&dir, &words);
    caught_up(&dir);
    server.stop();
    assert_clean(&dir, 3);
}
