//! Segment files that went away or became shorter while no daemon ran. The daemon says so at each
//! start, serves the rest, and puts nothing in their place: the files can come back at any time.

use std::fs::{self, File};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::open;
use crate::clients::assert_clean;
use crate::host_space::{assert_reads_back, payload};
use crate::manage::{ask, ask_json};
use crate::running::{Server, TestDir, code, stderr, stdout};
use crate::waiting::{event, within};
use crate::wire::EIO;

const MIB_U32: u32 = 1 << 20;
const MIB: u64 = MIB_U32 as u64;
const GIB: u64 = 1 << 30;
const ARGS: [&str; 4] = ["--lun-size", "2GiB", "--aggregate-size", "4GiB"];
/// More than the first segment has room for. The second has no metadata that a start needs, as long
/// as no later daemon writes a consistency point, which goes to a new area.
const WRITTEN: u64 = 1000;

fn segment(dir: &TestDir, index: u64) -> PathBuf {
    let device = dir.data_dir().join("aggregates/aggr0/dev0");
    device.join(format!("{index:08}.seg"))
}

fn write(server: &Server, numbers: Range<u64>) {
    let mut client = open(server);
    for number in numbers {
        let written = client.write(number * MIB, &payload(number, 1));
        written.unwrap_or_else(|error| panic!("MiB {number}: {error}: {}", server.log()));
    }
    client.flush().expect("flushed");
}

/// A directory whose LUN fills the first segment and a part of the second.
fn filled() -> TestDir {
    let dir = TestDir::new();
    let server = dir.serve(&ARGS);
    write(&server, 0..WRITTEN);
    server.stop();
    dir
}

fn cut(path: &Path, length: u64) {
    let file = File::options().write(true).open(path);
    file.and_then(|file| file.set_len(length)).expect("cut");
}

fn length(path: &Path) -> u64 {
    path.metadata().expect("a file").len()
}

/// Returns which MiBs can be read, and which cannot. Those that can are as they were written.
fn readable(server: &Server) -> (Vec<u64>, Vec<u64>) {
    let mut client = open(server);
    (0..WRITTEN).partition(|number| match client.read(number * MIB, MIB_U32) {
        Ok(bytes) => {
            assert!(bytes == payload(*number, 1), "MiB {number}");
            true
        }
        Err(error) => {
            assert_eq!(error, EIO, "MiB {number}");
            false
        }
    })
}

/// Returns the condition of a lost segment, if there is one.
fn condition(dir: &TestDir) -> Option<(String, String, String)> {
    // The exit code says how bad it is.
    let output = dir.run(&["status", "--json"]);
    let status: Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    let conditions = status["conditions"].as_array().expect("a list");
    let found = conditions.iter().find(|it| it["code"] == "EVG-4015")?;
    let text = |name: &str| found[name].as_str().expect("a text").to_owned();
    Some((text("object"), text("what"), text("action")))
}

/// Nobody has read anything yet. `starts` daemons have found it so.
#[track_caller]
fn assert_is_told(dir: &TestDir, server: &Server, what: &str, starts: usize) {
    let status = dir.run(&["status", "--json"]);
    assert_eq!(code(&status), 0, "it is a warning");
    let status = ask_json(dir, &["status"]);
    assert_eq!(status["health"], "warning", "{status}");
    let (object, said, action) = condition(dir).expect("a condition");
    assert_eq!(object, "aggregate aggr0");
    assert!(said.starts_with(what), "{what}: {said}");
    let path = what.split(' ').next().expect("a path");
    let making = format!("truncate -s {GIB} '{path}'");
    assert!(action.contains(&making), "{making}: {action}");
    let times = |text: &str| text.lines().filter(|line| line.contains(what)).count();
    event(dir, what);
    within(Duration::from_secs(30), "an event", || {
        times(&ask(dir, &["event", "show"])) == starts
    });
    let log = server.log();
    assert_eq!(times(&log), starts, "{log}");
    assert!(
        log.contains(&format!("WARN aggregate aggr0: {what}")),
        "{log}"
    );
}

/// The second segment was cut off or went away while no daemon ran. It took the first read of what
/// was there to find out, and a pool that nobody reads was healthy.
#[test]
fn a_segment_that_is_cut_off_or_missing_is_found_at_the_start_and_the_rest_is_served() {
    let dir = filled();
    let server = dir.serve(&ARGS);
    let shown = ask_json(&dir, &["status"]);
    assert_eq!(shown["health"], "healthy", "{shown}");
    server.kill();

    let segment = segment(&dir, 1);
    cut(&segment, 64 * MIB);
    let path = segment.display();
    let cut_off = format!("{path} has 67108864 bytes; expected a segment file of 1.0 GiB");
    let server = dir.serve(&ARGS);
    assert_is_told(&dir, &server, &cut_off, 1);
    let (some, others) = readable(&server);
    assert!(some.len() > 100 && others.len() > 100, "{others:?}");
    server.kill();

    fs::remove_file(&segment).expect("removed");
    let missing = format!("{path} is missing; expected a segment file of 1.0 GiB");
    let server = dir.serve(&ARGS);
    assert_is_told(&dir, &server, &missing, 1);
    let (less, _) = readable(&server);
    assert!(less.len() > 100 && less.len() < some.len(), "{less:?}");
    assert!(less.iter().all(|number| some.contains(number)));
    server.kill();
}

/// The remedy that people read destroyed what was written while the file was away: the daemon made
/// a new file of its name, and the old one was put back over it.
#[test]
fn a_segment_that_is_put_back_has_all_that_was_in_it_whatever_was_written_meanwhile() {
    let dir = filled();
    let (segment, away) = (segment(&dir, 1), dir.file("away"));
    fs::rename(&segment, &away).expect("rename");
    // The last level-1 block of what was written is in the second segment.
    let new = WRITTEN + 1..WRITTEN + 600;
    let server = dir.serve(&ARGS);
    let missing = format!("{} is missing", segment.display());
    assert_is_told(&dir, &server, &missing, 1);
    // There is room in the second segment, and in those behind it.
    write(&server, new.clone());
    ask(&dir, &["aggregate", "rename", "aggr0", "other"]);
    let (object, ..) = condition(&dir).expect("a condition");
    assert_eq!(
        object, "aggregate other",
        "a condition follows its aggregate"
    );
    ask(&dir, &["aggregate", "rename", "other", "aggr0"]);
    server.stop();
    assert!(!segment.exists(), "nothing takes its place");

    let server = dir.serve(&ARGS);
    assert_reads_back(&mut open(&server), new.clone(), 1);
    let (_, gone) = readable(&server);
    // The pointers beside its own are away: they must not become lost in the tree.
    let mut client = open(&server);
    let _ = client.write(gone[10] * MIB, &payload(gone[10], 1));
    within(Duration::from_secs(30), "it is read-only", || {
        let _ = client.flush();
        let shown = ask_json(&dir, &["aggregate", "show", "aggr0"]).to_string();
        shown.contains("read-only") && shown.contains(&missing)
    });
    server.kill();
    assert!(!segment.exists());

    fs::rename(&away, &segment).expect("rename");
    let server = dir.serve(&ARGS);
    let status = ask_json(&dir, &["status"]);
    assert_eq!(status["health"], "healthy", "{status}");
    assert_reads_back(&mut open(&server), 0..WRITTEN, 1);
    assert_reads_back(&mut open(&server), new.clone(), 1);
    // What was left out is used again.
    write(&server, new.end..new.end + 200);
    server.stop();
    assert_clean(&dir);
}

/// An empty file got its length from the first flush, and was a whole file of zeroes from then on.
#[test]
fn an_empty_segment_stays_lost_until_somebody_makes_it_anew() {
    let dir = filled();
    let segment = segment(&dir, 1);
    cut(&segment, 0);
    let empty = format!(
        "{} is empty; expected a segment file of 1.0 GiB",
        segment.display()
    );
    for starts in 1..=2 {
        let server = dir.serve(&ARGS);
        assert_is_told(&dir, &server, &empty, starts);
        open(&server).flush().expect("flushed");
        let (some, others) = readable(&server);
        assert!(some.len() > 100 && others.len() > 100, "{others:?}");
        server.stop();
        assert_eq!(length(&segment), 0);
    }
    // As the remedy says.
    cut(&segment, GIB);
    let checked = dir.run(&["check"]);
    assert_eq!(code(&checked), 1, "{}", stderr(&checked));
    let report = stdout(&checked);
    assert!(report.contains("tag-mismatch: "), "{report}");
    let server = dir.serve(&ARGS);
    assert_eq!(condition(&dir), None);
    let (some, others) = readable(&server);
    assert!(some.len() > 100 && others.len() > 100, "{others:?}");
    // An overwritten MiB is whole again.
    let first = others[0];
    write(&server, first..first + 1);
    assert_reads_back(&mut open(&server), first..first + 1, 1);
    server.stop();
}

/// An absent segment of the journal looks like one that was never written: what was acknowledged
/// after the last consistency point was gone without a word.
#[test]
fn without_a_segment_of_its_journal_an_aggregate_is_refused_and_loses_nothing() {
    let dir = TestDir::new();
    let journal = dir.file("journal");
    fs::create_dir(&journal).expect("a folder");
    let device = journal.to_str().expect("UTF-8");
    let args = [
        "--lun-size",
        "64MiB",
        "--aggregate-size",
        "2GiB",
        "--journal-device",
        device,
        "--journal-half-size",
        "1GiB",
        "--cp-interval",
        "1h",
    ];
    let server = dir.serve(&args);
    // After this, the other half is in use.
    write(&server, 0..4);
    server.stop();
    let server = dir.serve(&args);
    write(&server, 4..20);
    server.kill();

    let (segment, away) = (journal.join("00000001.seg"), dir.file("away"));
    fs::rename(&segment, &away).expect("rename");
    let refused = dir.serve_in_vain(&args);
    assert_eq!(code(&refused), 1);
    let said = stderr(&refused);
    let missing = format!("{} is missing", segment.display());
    let making = format!("truncate -s {GIB} '{}'", segment.display());
    for part in [
        "aggregate aggr0",
        &missing,
        "the journal",
        "put back",
        &making,
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!segment.exists(), "nothing takes its place");

    fs::rename(&away, &segment).expect("rename");
    let server = dir.serve(&args);
    assert_reads_back(&mut open(&server), 0..20, 1);
    write(&server, 20..30);
    server.kill();

    fs::remove_file(&segment).expect("removed");
    let made = File::create(&segment).and_then(|file| file.set_len(GIB));
    made.expect("made anew");
    let server = dir.serve(&args);
    assert_reads_back(&mut open(&server), 0..4, 1);
    write(&server, 4..30);
    server.stop();
    assert_clean(&dir);
}

/// A copy of the superblock belongs to the end of a device.
#[test]
fn without_the_last_segment_an_aggregate_is_read_only_until_it_is_deleted() {
    let dir = TestDir::new();
    let server = dir.serve(&["--lun-size", "64MiB", "--aggregate-size", "2GiB"]);
    let other = dir.file("other");
    fs::create_dir(&other).expect("a folder");
    let path = other.to_str().expect("UTF-8");
    let create = [
        "aggregate",
        "create",
        "b",
        "--size",
        "3GiB",
        "--devices",
        path,
    ];
    ask(&dir, &create);
    server.stop();
    let last = other.join("00000002.seg");
    fs::remove_file(&last).expect("removed");
    let server = dir.serve(&[]);
    let (object, what, _) = condition(&dir).expect("a condition");
    assert_eq!(object, "aggregate b");
    assert!(what.contains("00000002.seg is missing"), "{what}");
    let shown = ask_json(&dir, &["aggregate", "show", "b"]);
    let shown = shown.to_string();
    let reason = "a copy of the superblock cannot be written; ";
    assert!(shown.contains(reason), "{shown}");
    assert!(shown.contains("00000002.seg is missing"), "{shown}");
    ask(&dir, &["aggregate", "delete", "b", "--yes"]);
    assert_eq!(condition(&dir), None, "it goes with its aggregate");
    let status = ask_json(&dir, &["status"]);
    assert_eq!(status["health"], "healthy", "{status}");
    server.stop();
}
