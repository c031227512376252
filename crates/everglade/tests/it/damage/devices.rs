//! Devices that are not there, or belong elsewhere.

use std::fs;
use std::path::PathBuf;

use super::{Medium, assert_refused_untouched, assert_serves, open, with_blocks};
use crate::host_space::payload;
use crate::manage::{ask, ask_json};
use crate::running::{Server, TestDir, code};
use crate::waiting::event;
use crate::wire::EIO;

fn device(dir: &TestDir) -> PathBuf {
    dir.data_dir().join("aggregates/aggr0/dev0")
}

#[test]
fn a_missing_device_is_refused_until_it_is_back() {
    let dir = with_blocks(&[1, 2]);
    let away = dir.file("away");
    fs::rename(device(&dir), &away).expect("rename");
    let parts = [
        "aggregates/aggr0/dev0 does not exist",
        "expected device 0 of aggregate aggr0",
        "attach it again",
    ];
    assert_refused_untouched(&dir, &parts);
    assert!(!device(&dir).exists(), "none is made in its place");

    // An empty folder, as a mount point whose file system is not mounted.
    fs::create_dir(device(&dir)).expect("create");
    assert_refused_untouched(&dir, &["DEVICE", "found", "expected", "attach it again"]);
    fs::remove_dir(device(&dir)).expect("remove");

    fs::rename(&away, device(&dir)).expect("rename");
    assert_serves(&dir, &[1, 2]);
}

#[test]
fn a_foreign_device_is_refused_and_neither_aggregate_suffers() {
    let (ours, theirs) = (with_blocks(&[1]), with_blocks(&[2]));
    let swap = || {
        let aside = ours.file("aside");
        fs::rename(device(&ours), &aside).expect("rename");
        fs::rename(device(&theirs), device(&ours)).expect("rename");
        fs::rename(&aside, device(&theirs)).expect("rename");
    };
    swap();
    for dir in [&ours, &theirs] {
        let parts = [
            "the devices hold aggregate aggr0 (",
            "expected the aggregate with UUID",
            "Put the right devices in place",
        ];
        assert_refused_untouched(dir, &parts);
    }
    swap();
    assert_serves(&ours, &[1]);
    assert_serves(&theirs, &[2]);
}

#[test]
fn a_device_without_its_first_segment_is_refused() {
    let dir = with_blocks(&[1]);
    let segment = device(&dir).join("00000000.seg");
    let away = dir.file("away");
    // The copy of the label at the end is whole, so the aggregate is known, and its blocks are
    // gone.
    fs::rename(&segment, &away).expect("rename");
    assert_refused_untouched(&dir, &["aggregate aggr0"]);
    fs::rename(&away, &segment).expect("rename");
    assert_serves(&dir, &[1]);
}

#[test]
fn a_device_that_became_smaller_is_refused() {
    let dir = with_blocks(&[1]);
    let card = device(&dir).join("DEVICE");
    let whole = fs::read_to_string(&card).expect("read");
    let size = Medium::of(&dir).size_bytes;
    let smaller = whole.replace(&size.to_string(), &(size - (1 << 20)).to_string());
    fs::write(&card, smaller).expect("write");
    let parts = [
        "aggregates/aggr0/dev0: expected a device of at least 2147483648 bytes",
        "found one of 2146435072 bytes",
        "expected device 0 of aggregate aggr0",
    ];
    assert_refused_untouched(&dir, &parts);
    fs::write(&card, "not a card").expect("write");
    assert_refused_untouched(&dir, &["DEVICE", "expected a file that begins with"]);
    fs::write(&card, whole).expect("write");
    assert_serves(&dir, &[1]);
}

const MIB: u32 = 1 << 20;
/// More than the first segment has room for. The second has no metadata that a start needs, as long
/// as no later daemon writes a consistency point, which goes to a new area.
const WRITTEN: u64 = 1000;

/// Returns which MiBs can be read, and which cannot. Those that can are as they were written.
fn readable(server: &Server) -> (Vec<u64>, Vec<u64>) {
    let mut client = open(server);
    (0..WRITTEN).partition(|number| match client.read(number * u64::from(MIB), MIB) {
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

/// The second segment was cut off or went away while no daemon ran. It took the first read of what
/// was there to find out, and a pool that nobody reads was healthy.
#[test]
fn a_segment_that_is_cut_off_or_missing_is_found_at_the_start_and_the_rest_is_served() {
    let dir = TestDir::new();
    let args = ["--lun-size", "2GiB", "--aggregate-size", "4GiB"];
    let server = dir.serve(&args);
    let mut client = open(&server);
    for number in 0..WRITTEN {
        let written = client.write(number * u64::from(MIB), &payload(number, 1));
        written.expect("written");
    }
    client.flush().expect("flushed");
    drop(client);
    server.stop();
    let server = dir.serve(&args);
    let shown = ask_json(&dir, &["status"]);
    assert_eq!(shown["health"], "healthy", "{shown}");
    server.kill();

    let segment = device(&dir).join("00000001.seg");
    let file = fs::File::options().write(true).open(&segment);
    file.and_then(|file| file.set_len(64 << 20)).expect("cut");
    let path = segment.display();
    let cut_off = format!("{path} has 67108864 bytes; expected a segment file of 1.0 GiB");
    let server = dir.serve(&args);
    assert_is_told(&dir, &server, &cut_off);
    let (some, others) = readable(&server);
    assert!(some.len() > 100 && others.len() > 100, "{others:?}");
    server.kill();

    fs::remove_file(&segment).expect("removed");
    let missing = format!("{path} is missing; expected a segment file of 1.0 GiB");
    let server = dir.serve(&args);
    assert_is_told(&dir, &server, &missing);
    let (less, _) = readable(&server);
    assert!(less.len() > 100 && less.len() < some.len(), "{less:?}");
    assert!(less.iter().all(|number| some.contains(number)));
    server.kill();
}

/// Nobody has read anything yet.
#[track_caller]
fn assert_is_told(dir: &TestDir, server: &Server, what: &str) {
    let status = dir.run(&["status", "--json"]);
    assert_eq!(code(&status), 0, "it is a warning");
    let status = ask_json(dir, &["status"]);
    assert_eq!(status["health"], "warning", "{status}");
    let conditions = status["conditions"].as_array().expect("a list");
    let found = conditions.iter().find(|it| it["code"] == "EVG-4015");
    let found = found.unwrap_or_else(|| panic!("no such condition: {status}"));
    assert_eq!(found["object"], "aggregate aggr0");
    let said = found["what"].as_str().expect("a text");
    assert!(said.starts_with(what), "{what}: {said}");
    let log = server.log();
    let line = format!("WARN aggregate aggr0: {what}");
    assert!(log.contains(&line), "{line}: {log}");
    event(dir, what);
    let events = ask(dir, &["event", "show", "--where", "kind=daemon"]);
    assert!(events.contains("EVG-4015"), "{events}");
}
