//! Mirrors: made from files and directories, and served while a drive fails, is missing, is behind,
//! or has wrong blocks. No client notices any of it, and the administrator is told all of it.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;

use super::devices::sparse;
use super::{GIB, MIB, TestDir, ask, ask_json, assert_clean, everything, refused, text};
use crate::host_space::{assert_reads_back, payload};
use crate::operate::http;
use crate::operate::metrics::value;
use crate::running::{Server, code, stderr, stdout};
use crate::tools::{have, skip};
use crate::waiting::{event, within};
use crate::wire::Client;

pub(super) const LUN: &str = "v/l";
pub(super) const BLOCK: usize = 4096;
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
const SERVE: [&str; 6] = [
    "--lun-size",
    "16MiB",
    "--aggregate-size",
    "1GiB",
    "--cp-interval",
    "1s",
];

/// A file that cannot be written, not even through descriptors that are open: the writes of a
/// daemon fail from now on, until this goes.
pub(super) struct Unwritable {
    path: PathBuf,
}

impl Unwritable {
    /// Whether the host can do this, after counting the skip if not.
    pub(super) fn is_possible(dir: &TestDir) -> bool {
        if !have(&["chattr"]) {
            return false;
        }
        let mut file = File::create(dir.file("probe")).expect("create");
        let path = dir.file("probe");
        let is_set = Unwritable::set(&path, "+i");
        let refuses = is_set && file.write_all(b"x").is_err();
        if is_set {
            assert!(Unwritable::set(&path, "-i"), "it can be written again");
        }
        if !refuses {
            skip("this host has no files that cannot be written");
        }
        refuses
    }

    pub(super) fn new(path: &Path) -> Unwritable {
        assert!(Unwritable::set(path, "+i"), "it was possible before");
        let path = path.to_owned();
        Unwritable { path }
    }

    fn set(path: &Path, mode: &str) -> bool {
        let told = Command::new("chattr").arg(mode).arg(path).output();
        told.expect("chattr runs").status.success()
    }
}

impl Drop for Unwritable {
    fn drop(&mut self) {
        if !Unwritable::set(&self.path, "-i") {
            eprintln!("{} stays unwritable", self.path.display());
        }
    }
}

pub(super) fn serve(dir: &TestDir, more: &[&str]) -> Server {
    dir.serve(&[&SERVE[..], more].concat())
}

/// The names of paths, as a request has them.
pub(super) fn list(paths: &[PathBuf]) -> String {
    let paths: Vec<&str> = paths.iter().map(|path| text(path)).collect();
    paths.join(",")
}

/// So many files of a GiB.
pub(super) fn files(dir: &TestDir, count: usize) -> Vec<PathBuf> {
    let name = |number| format!("drive{number}");
    (0..count)
        .map(|number| sparse(dir, &name(number), GIB))
        .collect()
}

/// Makes the mirror `m` with a volume and a LUN.
pub(super) fn make(dir: &TestDir, devices: &[PathBuf], more: &[&str]) {
    let devices = list(devices);
    let create = ["aggregate", "create", "m", "--raid", "mirror", "--devices"];
    ask(dir, &[&create[..], &[devices.as_str()], more].concat());
    ask(dir, &["volume", "create", "v", "--aggregate", "m"]);
    ask(dir, &["lun", "create", LUN, "--size", "64MiB"]);
}

pub(super) fn mirror(dir: &TestDir) -> Value {
    ask_json(dir, &["aggregate", "show", "m"])
}

/// The states of its drives.
pub(super) fn states(dir: &TestDir) -> Vec<String> {
    let found = mirror(dir);
    let devices = found["devices"].as_array().expect("a list");
    let state = |device: &Value| device["state"].as_str().expect("a state").to_owned();
    devices.iter().map(state).collect()
}

/// The membership epoch of the mirror in the data directory.
pub(super) fn epoch(dir: &TestDir) -> u64 {
    let state = state_of(dir);
    let (_, mine) = state.split_once("name = \"m\"").expect("its record");
    let line = mine.lines().find_map(|line| line.strip_prefix("epoch = "));
    line.expect("an epoch").trim().parse().expect("a number")
}

pub(super) fn state_of(dir: &TestDir) -> String {
    fs::read_to_string(dir.data_dir().join("state.toml")).expect("a state")
}

pub(super) fn open(server: &Server) -> Client {
    Client::open(&server.tcp, LUN).expect("opened").0
}

/// Writes and flushes so many MiB.
pub(super) fn fill(server: &Server, numbers: std::ops::Range<u64>, round: u64) {
    let mut client = open(server);
    for number in numbers {
        let written = client.write(number * MIB, &payload(number, round));
        assert_eq!(written, Ok(()), "MiB {number}");
    }
    assert_eq!(client.flush(), Ok(()));
}

#[track_caller]
pub(super) fn assert_holds(server: &Server, numbers: std::ops::Range<u64>, round: u64) {
    assert_reads_back(&mut open(server), numbers, round);
}

/// The condition of a mirror that lost drives has these parts; the daemon is not unhealthy.
#[track_caller]
fn assert_degraded(dir: &TestDir, parts: &[&str]) {
    let output = dir.run(&["status"]);
    let said = stdout(&output);
    assert_eq!(code(&output), 0, "{said}");
    for part in ["health: warning", "aggregate m", "EVG-4017"]
        .iter()
        .chain(parts)
    {
        assert!(said.contains(part), "'{part}' is not in: {said}");
    }
}

/// Writes, flushes and reads MiB after MiB while `happening` runs and for a while after it. No
/// request may fail.
pub(super) fn while_used(server: &Server, happening: impl FnOnce(&AtomicU64)) {
    let (rounds, done) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let user = scope.spawn(|| {
            let mut client = open(server);
            let mut left = 20;
            while left > 0 {
                let round = rounds.load(Ordering::Acquire);
                let (number, length) = (round % 48, u32::try_from(MIB).expect("short"));
                let bytes = payload(number, round);
                assert_eq!(client.write(number * MIB, &bytes), Ok(()), "write {round}");
                assert_eq!(client.flush(), Ok(()), "flush {round}");
                let found = client.read(number * MIB, length);
                assert!(found == Ok(bytes), "read {round}");
                left -= u64::from(done.load(Ordering::Acquire));
                rounds.store(round + 1, Ordering::Release);
            }
        });
        let ended = Ended(&done);
        happening(&rounds);
        drop(ended);
        user.join().expect("no client notices");
    });
}

/// Ends the user also if a test fails meanwhile.
struct Ended<'a>(&'a AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

#[test]
fn a_drive_fails_while_a_client_works_and_the_client_does_not_notice() {
    let dir = TestDir::new();
    if !Unwritable::is_possible(&dir) {
        return;
    }
    let server = serve(&dir, &[]);
    let drives = files(&dir, 2);
    make(&dir, &drives, &[]);
    assert_eq!((states(&dir), epoch(&dir)), (both("online", "online"), 1));
    let mut broken = None;
    while_used(&server, |rounds| {
        within(PATIENCE, "the client works", || {
            rounds.load(Ordering::Acquire) > 5
        });
        broken = Some(Unwritable::new(&drives[1]));
        within(PATIENCE, "the drive failed", || {
            states(&dir) == both("online", "failed")
        });
        within(PATIENCE, "the loss is recorded", || epoch(&dir) == 2);
    });
    let parts = [
        "group 1 has 1 of 2 drives left",
        &format!("{} failed", text(&drives[1])),
        "aggregate replace",
        "codes/EVG-4017.md",
    ];
    assert_degraded(&dir, &parts);
    event(&dir, "failed and is not used any more");
    let lines = server
        .log()
        .matches("failed and is not used any more")
        .count();
    assert_eq!(lines, 1, "{}", server.log());
    let page = http::tcp(&server.metrics, "GET", "/metrics", "").body;
    let drives_in = |state: &str| {
        let sample = format!("everglade_drives{{aggregate=\"m\",state=\"{state}\"}}");
        value(&page, &sample)
    };
    assert_eq!((drives_in("online"), drives_in("failed")), (1.0, 1.0));
    fill(&server, 0..8, 1000);
    assert_holds(&server, 0..8, 1000);
    // A crash: what was flushed is there, on the drive that is left.
    server.kill();
    assert_clean(&dir, 2);
    let server = serve(&dir, &[]);
    assert_eq!(states(&dir), both("online", "missing"));
    assert_eq!(mirror(&dir)["devices"][1]["path"], text(&drives[1]));
    assert_degraded(&dir, &["is missing"]);
    assert_holds(&server, 0..8, 1000);
    fill(&server, 8..16, 1000);
    server.stop();

    // The drive is back: it lacks what was written meanwhile, and catches up.
    drop(broken);
    let server = serve(&dir, &[]);
    fill(&server, 16..24, 1000);
    assert_catches_up(&dir, 3);
    assert_holds(&server, 0..24, 1000);
    server.kill();
    assert_clean(&dir, 2);
    assert_has_all(&dir, &drives, 0..24, 1000);
}

/// The mirror gets all its drives back, and the data directory follows.
fn assert_catches_up(dir: &TestDir, wanted: u64) {
    within(PATIENCE, "the drive has caught up", || {
        states(dir) == both("online", "online")
    });
    within(PATIENCE, "that is recorded", || epoch(dir) == wanted);
    within(PATIENCE, "the condition is over", || {
        !ask(dir, &["status"]).contains("EVG-4017")
    });
}

/// Each drive alone has everything.
pub(super) fn assert_has_all(
    dir: &TestDir,
    drives: &[PathBuf],
    numbers: std::ops::Range<u64>,
    round: u64,
) {
    // A clean stop first, after which either drive may be missing.
    serve(dir, &[]).stop();
    let away = dir.file("elsewhere");
    fs::rename(&drives[0], &away).expect("rename");
    let server = serve(dir, &[]);
    assert_eq!(states(dir), both("missing", "online"));
    assert_holds(&server, numbers, round);
    server.stop();
    assert_clean(dir, 2);
    fs::rename(&away, &drives[0]).expect("rename");
}

pub(super) fn both(first: &str, second: &str) -> Vec<String> {
    vec![first.to_owned(), second.to_owned()]
}

#[test]
fn a_mirror_of_directories_starts_without_one_after_a_clean_stop() {
    let dir = TestDir::new();
    let server = serve(&dir, &[]);
    let folders = ["d0", "d1"].map(|name| dir.file(name)).to_vec();
    for folder in &folders {
        fs::create_dir(folder).expect("create");
    }
    make(&dir, &folders, &["--size", "1GiB"]);
    let made = mirror(&dir);
    assert_eq!(
        (&made["raid"], &made["group_size"]),
        (&"mirror".into(), &2.into())
    );
    fill(&server, 0..16, 1);
    server.stop();
    assert_clean(&dir, 2);

    // Nothing is newer than what the clean stop left on both, so either can go on alone.
    let away = dir.file("away");
    fs::rename(&folders[0], &away).expect("rename");
    let server = serve(&dir, &[]);
    assert_eq!(states(&dir), both("missing", "online"));
    assert_eq!(mirror(&dir)["devices"][0]["path"], text(&folders[0]));
    assert!(server.log().contains("is opened without a device"));
    assert_degraded(
        &dir,
        &["d0 is missing", "if the last drive of group 1 fails"],
    );
    within(PATIENCE, "the loss is recorded", || epoch(&dir) == 2);
    assert_holds(&server, 0..16, 1);
    fill(&server, 8..24, 2);
    server.kill();
    assert_clean(&dir, 2);

    // The older one is no pool by itself, whatever is asked for.
    fs::rename(&away, &folders[0]).expect("rename");
    fs::rename(&folders[1], &away).expect("rename");
    for options in [&[][..], &["--degraded", "m"]] {
        let server = serve(&dir, options);
        let status = dir.run(&["status"]);
        let said = stdout(&status);
        assert_eq!(code(&status), 8, "{said}");
        for part in ["EVG-4004", "d1 does not exist", "epoch"] {
            assert!(said.contains(part), "'{part}' is not in: {said}");
        }
        assert_eq!(mirror(&dir)["raid"], "unknown");
        server.stop();
    }
    // Both are there: the older one is behind, its content is not used, and it catches up.
    fs::rename(&away, &folders[1]).expect("rename");
    let server = serve(&dir, &[]);
    assert!(server.log().contains("d0 is behind"));
    assert_holds(&server, 0..8, 1);
    assert_holds(&server, 8..24, 2);
    assert_catches_up(&dir, 3);
    assert_holds(&server, 0..8, 1);
    assert_holds(&server, 8..24, 2);
    server.stop();
    assert_clean(&dir, 2);
}

/// The second segment of one drive is gone. That is a warning, as in other aggregates, but no read
/// is an error, and the mirror can be written. When the file is back, the drive catches up.
#[test]
fn a_drive_that_lost_a_segment_is_left_out_until_the_file_is_back() {
    const BIG: &str = "v/big";
    /// More than the first segment has room for.
    const WRITTEN: u64 = 1000;
    let dir = TestDir::new();
    let server = serve(&dir, &[]);
    let folders = ["d0", "d1"].map(|name| dir.file(name)).to_vec();
    for folder in &folders {
        fs::create_dir(folder).expect("create");
    }
    make(&dir, &folders, &["--size", "4GiB"]);
    ask(&dir, &["lun", "create", BIG, "--size", "2GiB"]);
    let mut client = Client::open(&server.tcp, BIG).expect("opened").0;
    for number in 0..WRITTEN {
        assert_eq!(client.write(number * MIB, &payload(number, 1)), Ok(()));
    }
    assert_eq!(client.flush(), Ok(()));
    drop(client);
    server.stop();

    let segment = folders[1].join("00000001.seg");
    let away = dir.file("away.seg");
    fs::rename(&segment, &away).expect("rename");
    let server = serve(&dir, &[]);
    event(&dir, "EVG-4015");
    let lost = format!("aggregate m: {} is missing", segment.display());
    assert!(server.log().contains(&lost), "{lost}: {}", server.log());
    assert_degraded(&dir, &["EVG-4015"]);
    assert_eq!(states(&dir), both("online", "failed"));
    let mut client = Client::open(&server.tcp, BIG).expect("opened").0;
    assert_reads_back(&mut client, 0..WRITTEN, 1);
    for number in 0..8 {
        assert_eq!(client.write(number * MIB, &payload(number, 2)), Ok(()));
    }
    assert_eq!(client.flush(), Ok(()));
    drop(client);
    server.stop();
    assert!(!segment.exists(), "the daemon did not make it");

    fs::rename(&away, &segment).expect("rename");
    let server = serve(&dir, &[]);
    assert_catches_up(&dir, 3);
    server.stop();
    let first = dir.file("first");
    fs::rename(&folders[0], &first).expect("rename");
    let server = serve(&dir, &[]);
    let mut client = Client::open(&server.tcp, BIG).expect("opened").0;
    assert_reads_back(&mut client, 0..8, 2);
    assert_reads_back(&mut client, 8..WRITTEN, 1);
    drop(client);
    server.stop();
}

#[test]
fn a_half_is_refused_after_a_crash_until_somebody_accepts_it() {
    let dir = TestDir::new();
    let server = serve(&dir, &[]);
    let drives = files(&dir, 2);
    make(&dir, &drives, &[]);
    fill(&server, 0..8, 1);
    server.kill();
    let away = dir.file("away");
    fs::rename(&drives[1], &away).expect("rename");
    // The half that is missing may have more.
    let server = serve(&dir, &["--degraded", "aggr0"]);
    let status = dir.run(&["status"]);
    let said = stdout(&status);
    assert_eq!(code(&status), 8, "{said}");
    for part in [
        "EVG-4004",
        "drive1 does not exist",
        "expected device 1 of aggregate m",
        "1 of 2 devices of aggregate m are missing",
        "if the missing devices are lost, start once with --degraded m",
    ] {
        assert!(said.contains(part), "'{part}' is not in: {said}");
    }
    assert!(server.log().contains("--degraded aggr0 has no effect"));
    refused(&dir, &["lun", "show", LUN], 4, &[]);
    server.stop();

    let server = serve(&dir, &["--degraded", "m"]);
    assert!(server.log().contains("opened because of --degraded"));
    event(&dir, "what only they have is lost");
    let history = ask(&dir, &["history", "--no-header"]);
    assert!(
        history.contains("aggregate open-degraded") && history.contains("drive1"),
        "{history}"
    );
    assert_eq!(states(&dir), both("online", "missing"));
    assert_holds(&server, 0..8, 1);
    fill(&server, 4..12, 2);
    server.stop();
    assert_eq!(epoch(&dir), 2);
    assert_clean(&dir, 2);

    // It is known now that the other half is behind, so nothing has to be accepted any more.
    let server = serve(&dir, &["--degraded", "m"]);
    assert!(server.log().contains("--degraded m has no effect"));
    assert_holds(&server, 4..12, 2);
    server.stop();
    fs::rename(&away, &drives[1]).expect("rename");
    let server = serve(&dir, &[]);
    assert!(server.log().contains("drive1 is behind"));
    assert_catches_up(&dir, 3);
    assert_holds(&server, 0..4, 1);
    assert_holds(&server, 4..12, 2);
    server.stop();
    assert_clean(&dir, 2);
}

#[test]
fn two_of_three_drives_start_by_themselves_after_a_crash() {
    let dir = TestDir::new();
    let server = serve(&dir, &[]);
    let drives = files(&dir, 3);
    make(&dir, &drives, &["--group-size", "3"]);
    fill(&server, 0..8, 1);
    server.kill();
    let away = dir.file("away");
    fs::rename(&drives[1], &away).expect("rename");
    let server = serve(&dir, &[]);
    assert_eq!(states(&dir), ["online", "missing", "online"]);
    assert_degraded(&dir, &["2 of 3 drives left", "each group can lose another"]);
    assert_holds(&server, 0..8, 1);
    server.stop();
    assert_clean(&dir, 2);
}

/// Where in a file blocks of these bytes are.
pub(super) fn find(path: &Path, wanted: &[u8]) -> Vec<u64> {
    let blocks: std::collections::BTreeSet<&[u8]> = wanted.chunks(BLOCK).collect();
    let mut file = File::open(path).expect("open");
    let mut found = Vec::new();
    let mut chunk = vec![0; usize::try_from(MIB).expect("short")];
    let mut at = 0;
    file.seek(SeekFrom::Start(0)).expect("seek");
    while file.read_exact(&mut chunk).is_ok() {
        for block in chunk.chunks(BLOCK) {
            if blocks.contains(block) {
                found.push(at);
            }
            at += BLOCK as u64;
        }
    }
    found
}

#[test]
fn blocks_that_are_wrong_on_one_drive_are_read_from_the_other_and_written_again() {
    let dir = TestDir::new();
    let server = serve(&dir, &[]);
    let drives = files(&dir, 2);
    make(&dir, &drives, &[]);
    fill(&server, 0..8, 1);
    server.stop();
    let wanted: Vec<u8> = (0..8).flat_map(|number| payload(number, 1)).collect();
    // The journal may have a copy of each, too.
    let places = find(&drives[0], &wanted);
    assert!(places.len() >= wanted.len() / BLOCK, "{}", places.len());
    assert_eq!(find(&drives[1], &wanted), places, "both have the same");
    let file = File::options().write(true).open(&drives[0]).expect("open");
    for place in &places {
        let wrong = [0xEE; BLOCK];
        file.write_all_at(&wrong, *place).expect("damaged");
    }
    file.sync_all().expect("damaged");
    drop(file);

    let server = serve(&dir, &[]);
    assert_holds(&server, 0..8, 1);
    let count = |what: &str| {
        let found = mirror(&dir)["copies"][what].as_u64();
        usize::try_from(found.expect("a number")).expect("few")
    };
    assert!(count("read_elsewhere_block_count") > 0);
    within(PATIENCE, "they are written again", || {
        count("rewritten_block_count") > 0
    });
    let page = http::tcp(&server.metrics, "GET", "/metrics", "").body;
    for what in ["read_elsewhere", "rewritten"] {
        let sample = format!("everglade_mirror_{what}_total{{aggregate=\"m\"}}");
        assert!(value(&page, &sample) >= 1.0, "{sample}");
    }
    event(&dir, "read from another");
    assert_eq!(states(&dir), both("online", "online"));
    let said = ask(&dir, &["aggregate", "show", "m"]);
    assert!(
        said.contains("copies: ") && said.contains("written again"),
        "{said}"
    );
    let rewritten = count("rewritten_block_count");
    server.stop();
    let right = find(&drives[0], &wanted);
    assert!(right.len() >= rewritten, "{} of {rewritten}", right.len());
    assert!(right.iter().all(|place| places.contains(place)));
    // What was not read yet is still wrong on one drive, and read from the other later.
    let server = serve(&dir, &[]);
    assert_holds(&server, 0..8, 1);
    server.stop();
}

#[test]
fn a_plan_and_a_list_show_the_groups() {
    let dir = TestDir::new();
    let server = serve(&dir, &[]);
    let mut drives = files(&dir, 4);
    drives[3] = sparse(&dir, "larger", 2 * GIB);
    let devices = list(&drives);
    let create = [
        "aggregate",
        "create",
        "m",
        "--raid",
        "mirror",
        "--devices",
        &devices,
    ];
    let dry = [&create[..], &["--dry-run"]].concat();
    let plan = ask_json(&dir, &dry);
    assert_eq!(plan["size_bytes"], 2 * GIB, "of the smaller drives");
    let groups = plan["devices"].as_array().expect("a list").iter();
    let groups: Vec<_> = groups.map(|device| device["group"].clone()).collect();
    assert_eq!(groups, [1, 1, 2, 2]);
    let said = ask(&dir, &dry);
    assert!(said.contains("GROUP"), "{said}");
    assert!(ask_json(&dir, &["aggregate", "show"])["aggregates"][1].is_null());

    let made = ask_json(&dir, &create);
    let seats = made["devices"].as_array().expect("a list").iter();
    let seats: Vec<_> = seats
        .map(|device| (device["group"].as_u64(), device["column"].as_u64()))
        .collect();
    let seat = |group, column| (Some(group), Some(column));
    assert_eq!(seats, [seat(1, 0), seat(1, 1), seat(2, 0), seat(2, 1)]);
    let said = ask(&dir, &["aggregate", "show", "m"]);
    for part in [
        "mirror, groups of 2 drives",
        "GROUP  COLUMN  STATE",
        "online",
    ] {
        assert!(said.contains(part), "'{part}' is not in: {said}");
    }
    let alone = ask(&dir, &["aggregate", "show", "aggr0"]);
    assert!(!alone.contains("GROUP"), "{alone}");
    let listed = ask(
        &dir,
        &[
            "aggregate",
            "show",
            "--columns",
            "name,raid,group-size,drives-lost",
            "--no-header",
        ],
    );
    let rows: Vec<Vec<&str>> = listed
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        rows,
        [["aggr0", "none", "-", "0"], ["m", "mirror", "2", "0"]]
    );
    // It is cleared like any other.
    ask(&dir, &["aggregate", "delete", "m", "--yes"]);
    ask(&dir, &create);
    server.stop();
    assert_clean(&dir, 2);
}

/// Words of a command line, or parts of a message.
type Words<'a> = &'a [&'a str];

#[test]
fn what_makes_no_mirror_is_refused_and_changes_nothing() {
    let dir = TestDir::new();
    let server = serve(&dir, &[]);
    let drives = files(&dir, 3);
    let (one, two, three) = (list(&drives[..1]), list(&drives[..2]), list(&drives));
    let small = list(&[drives[0].clone(), sparse(&dir, "small", 100 * MIB)]);
    let spare = dir.file("spare");
    fs::create_dir(&spare).expect("create");
    let before = everything(&dir);
    let create = ["aggregate", "create", "m"];
    let mirror = [&create[..], &["--raid", "mirror"]].concat();
    let cases: [(Words, Words, i32, Words); 7] = [
        (&mirror, &[], 2, &["--devices: missing", "2 devices"]),
        (
            &mirror,
            &["--devices", &one],
            2,
            &["1 device makes no groups of 2", "multiple of 2"],
        ),
        (
            &mirror,
            &["--devices", &three],
            2,
            &["3 devices make no groups of 2"],
        ),
        (
            &mirror,
            &["--devices", &two, "--group-size", "3"],
            2,
            &["2 devices make no groups of 3"],
        ),
        (
            &mirror,
            &["--devices", &two, "--journal-device", text(&spare)],
            2,
            &["--journal-device", "not possible in this version"],
        ),
        (
            &mirror,
            &["--devices", &small],
            1,
            &["small", "is too small"],
        ),
        (
            &create,
            &["--devices", &two, "--group-size", "2"],
            2,
            &["--group-size", "raid mirror"],
        ),
    ];
    for (start, options, exit, parts) in cases {
        refused(&dir, &[start, options].concat(), exit, parts);
    }
    for options in [["--group-size", "4"], ["--raid", "triple"]] {
        let words = [&mirror[..3], &options, &["--devices", two.as_str()]].concat();
        let output = dir.run(&words);
        assert_eq!(code(&output), 2, "{}", stderr(&output));
    }
    assert_eq!(everything(&dir), before);
    // It gets whole mirrors.
    make(&dir, &drives[..2], &[]);
    let add = ["aggregate", "add", "m", "--devices", text(&drives[2])];
    refused(&dir, &add, 2, &["--devices", "groups of 2"]);
    server.stop();
    assert_clean(&dir, 2);
}
