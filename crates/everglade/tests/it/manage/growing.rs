//! Aggregates that become larger while clients write: by more devices, and with their devices. What
//! is refused changes nothing; what was cut is finished, or taken back, by the next start.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use super::devices::{Loop, sparse};
use super::{
    GIB, MIB, TestDir, ask, ask_json, assert_clean, everything, noise, refused, serve, text,
};
use crate::host_space::{SmallHost, assert_reads_back, payload, write_until_full};
use crate::operate::http;
use crate::running::{Server, code, stderr};
use crate::wire::Client;

const LUN: &str = "vol0/big";

fn aggregate(dir: &TestDir, name: &str) -> Value {
    ask_json(dir, &["aggregate", "show", name])
}

fn size_of(dir: &TestDir, name: &str) -> u64 {
    aggregate(dir, name)["size_bytes"].as_u64().expect("a size")
}

fn state_of(dir: &TestDir) -> String {
    let path = dir.data_dir().join("state.toml");
    fs::read_to_string(path).expect("a state")
}

/// A daemon with a LUN that is larger than its pool.
fn serve_big(dir: &TestDir, size: &str) -> Server {
    let server = dir.serve(&[
        "--aggregate-size",
        size,
        "--lun-size",
        "16MiB",
        "--cp-interval",
        "1s",
    ]);
    ask(dir, &["lun", "create", LUN, "--size", "8GiB"]);
    server
}

/// Ends the writer also if a test fails meanwhile.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Does `grow` while a client writes and flushes one MiB after the other, and returns how many it
/// wrote.
fn while_writing(server: &Server, grow: impl FnOnce()) -> u64 {
    let (mut client, _) = Client::open(&server.tcp, LUN).expect("opened");
    let (begun, done) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut number = 0;
            // It goes on for a while after the growth.
            let mut left = 20;
            while left > 0 {
                client
                    .write(number, &payload(number / MIB, 1))
                    .expect("written");
                client.flush().expect("flushed");
                number += MIB;
                begun.store(true, Ordering::Release);
                left -= u64::from(done.load(Ordering::Acquire));
                // As much as fits into the pool, again and again.
                number %= 256 * MIB;
            }
            number / MIB
        });
        while !begun.load(Ordering::Acquire) && !writer.is_finished() {
            std::thread::yield_now();
        }
        let ended = Done(&done);
        grow();
        drop(ended);
        writer.join().expect("the client was not disturbed")
    })
}

#[test]
fn a_file_is_added_while_a_client_writes_and_is_there_after_restarts() {
    let dir = TestDir::new();
    let server = serve_big(&dir, "1GiB");
    let before = size_of(&dir, "aggr0");
    let file = sparse(&dir, "more", 2 * GIB);
    let written = while_writing(&server, || {
        let said = ask(
            &dir,
            &["aggregate", "add", "aggr0", "--devices", text(&file)],
        );
        assert!(said.starts_with("aggregate aggr0 grew from "), "{said}");
        assert!(said.contains(text(&file)) && said.contains("new"), "{said}");
    });
    let grown = aggregate(&dir, "aggr0");
    let size = grown["size_bytes"].as_u64().expect("a size");
    assert!(size > before + GIB, "{size}");
    let devices = grown["devices"].as_array().expect("a list");
    assert_eq!(devices.len(), 2);
    assert_eq!(
        (
            &devices[1]["path"],
            &devices[1]["kind"],
            &devices[1]["size_bytes"]
        ),
        (&text(&file).into(), &"file".into(), &(2 * GIB).into())
    );
    let state = state_of(&dir);
    assert!(
        state.contains("epoch = 2") && !state.contains("joining"),
        "{state}"
    );
    let history = ask(&dir, &["history", "--no-header"]);
    assert!(
        history.contains("aggregate add") && history.contains(text(&file)),
        "{history}"
    );
    let events = ask(&dir, &["event", "show"]);
    assert!(events.contains("aggregate add by"), "{events}");

    // More than the old device has room for.
    let (mut client, _) = Client::open(&server.tcp, LUN).expect("opened");
    for number in written..1200 {
        client
            .write(number * MIB, &payload(number, 1))
            .expect("there is room now");
    }
    client.flush().expect("flushed");
    assert_reads_back(&mut client, 0..1200, 1);
    drop(client);
    server.kill();
    assert_clean(&dir, 1);
    for _ in 0..2 {
        let server = dir.serve(&["--cp-interval", "1s"]);
        assert_eq!(size_of(&dir, "aggr0"), size);
        let (mut client, _) = Client::open(&server.tcp, LUN).expect("opened");
        assert_reads_back(&mut client, 0..1200, 1);
        drop(client);
        server.stop();
        assert_clean(&dir, 1);
    }
}

#[test]
fn a_directory_becomes_larger_while_a_client_writes_and_a_full_pool_goes_on() {
    let dir = TestDir::new();
    let server = serve_big(&dir, "1GiB");
    let before = size_of(&dir, "aggr0");
    let (mut client, _) = Client::open(&server.tcp, LUN).expect("opened");
    let full = write_until_full(&mut client, 0, 8192, 1);
    assert!(full < 1024, "{full}");
    client.flush().expect("flushed");
    drop(client);
    let resize = ["aggregate", "resize", "aggr0", "--size", "3GiB"];
    let plan = ask_json(&dir, &[&resize[..], &["--dry-run"]].concat());
    assert_eq!(
        (&plan["dry_run"], &plan["former_size_bytes"]),
        (&true.into(), &before.into())
    );
    assert_eq!(size_of(&dir, "aggr0"), before, "it was only asked");
    let grown = ask_json(&dir, &resize);
    assert_eq!(grown["size_bytes"], plan["size_bytes"]);
    assert_eq!(
        size_of(&dir, "aggr0"),
        plan["size_bytes"].as_u64().expect("a size")
    );
    let (mut client, _) = Client::open(&server.tcp, LUN).expect("opened");
    for number in full..full + 256 {
        client
            .write(number * MIB, &payload(number, 1))
            .expect("there is room now");
    }
    client.flush().expect("flushed");
    drop(client);
    // Once more, now while somebody writes; inside the segment and over its end.
    for size in ["3300MiB", "5GiB"] {
        while_writing(&server, || {
            ask(&dir, &["aggregate", "resize", "aggr0", "--size", size]);
        });
    }
    let state = state_of(&dir);
    assert!(state.contains("epoch = 4"), "{state}");
    assert!(
        state.contains(&format!("size_bytes = {}", 5 * GIB)),
        "{state}"
    );
    let history = ask(&dir, &["history", "--no-header"]);
    assert!(
        history.contains("aggregate resize") && history.contains("5.0 GiB"),
        "{history}"
    );
    let size = size_of(&dir, "aggr0");
    server.kill();
    assert_clean(&dir, 1);
    let server = dir.serve(&[]);
    assert_eq!(size_of(&dir, "aggr0"), size);
    let (mut client, _) = Client::open(&server.tcp, LUN).expect("opened");
    assert_reads_back(&mut client, 0..full + 256, 1);
    drop(client);
    server.stop();
    assert_clean(&dir, 1);
}

#[test]
fn files_are_taken_as_large_as_they_are_and_directories_are_named() {
    let dir = TestDir::new();
    let server = serve(&dir);
    let (first, second) = (sparse(&dir, "f", GIB), sparse(&dir, "g", GIB));
    let folder = dir.file("folder");
    fs::create_dir(&folder).expect("create");
    let files = format!("{},{}", text(&first), text(&second));
    ask(&dir, &["aggregate", "create", "b", "--devices", &files]);
    let resize = ["aggregate", "resize", "b"];
    refused(
        &dir,
        &resize,
        1,
        &["no file or block device", "larger", "EVG-2005"],
    );
    refused(
        &dir,
        &[&resize[..], &["--size", "2GiB"]].concat(),
        2,
        &["has no directory"],
    );
    let before = size_of(&dir, "b");
    for (file, bytes) in [(&first, 2 * GIB), (&second, 3 * GIB)] {
        let file = File::options().write(true).open(file).expect("open");
        file.set_len(bytes).expect("longer");
    }
    // One of them, then what is left.
    let plan = ask_json(&dir, &[&resize[..], &["--dry-run"]].concat());
    assert_eq!(plan["devices"].as_array().map(Vec::len), Some(2));
    let one = [&resize[..], &["--device", text(&first)]].concat();
    ask(&dir, &one);
    refused(
        &dir,
        &one,
        1,
        &["--device", "too little more", text(&first)],
    );
    let grown = ask_json(&dir, &resize);
    let devices = grown["devices"].as_array().expect("a list");
    assert_eq!(devices.len(), 1);
    assert_eq!(devices[0]["path"], text(&second));
    assert_eq!(devices[0]["former_size_bytes"], GIB);
    assert!(size_of(&dir, "b") > before + 2 * GIB);
    assert_eq!(grown["size_bytes"], plan["size_bytes"]);

    // A directory beside them is the only one that takes a size; then there are two.
    let add = ["aggregate", "add", "b", "--size", "1GiB"];
    ask(&dir, &[&add[..], &["--devices", text(&folder)]].concat());
    ask(&dir, &["aggregate", "resize", "b", "--size", "2GiB"]);
    ask(&dir, &add);
    let own = dir.data_dir().join("aggregates/b/dev0");
    assert!(own.join("DEVICE").exists());
    let more = ["aggregate", "resize", "b", "--size", "3GiB"];
    refused(
        &dir,
        &more,
        2,
        &["--device", "several", text(&folder), text(&own)],
    );
    ask(&dir, &[&more[..], &["--device", text(&own)]].concat());
    refused(&dir, &resize[..2], 2, &["AGGREGATE"]);
    let devices = aggregate(&dir, "b")["devices"].clone();
    let sizes = [2 * GIB, 3 * GIB, 2 * GIB, 3 * GIB].map(Value::from);
    let found: Vec<_> = devices.as_array().expect("a list").iter().collect();
    let found: Vec<_> = found
        .iter()
        .map(|device| device["size_bytes"].clone())
        .collect();
    assert_eq!(found, sizes);
    server.stop();
    assert_clean(&dir, 2);
    let server = serve(&dir);
    assert_eq!(aggregate(&dir, "b")["devices"], devices);
    // All of it is cleared with the aggregate.
    ask(&dir, &["aggregate", "delete", "b", "--yes"]);
    assert!(!own.exists() && !folder.join("DEVICE").exists());
    ask(&dir, &["aggregate", "add", "aggr0", "--devices", &files]);
    server.stop();
    assert_clean(&dir, 1);
}

#[test]
fn a_block_device_that_became_larger_is_taken_as_large_as_it_is() {
    let dir = TestDir::new();
    let image = sparse(&dir, "image", GIB);
    let Some(device) = Loop::over(&image) else {
        return;
    };
    let server = serve(&dir);
    ask(
        &dir,
        &["aggregate", "add", "aggr0", "--devices", &device.path],
    );
    let before = size_of(&dir, "aggr0");
    let file = File::options().write(true).open(&image).expect("open");
    file.set_len(2 * GIB).expect("longer");
    let told = Command::new("losetup")
        .args(["--set-capacity", &device.path])
        .status();
    assert!(told.expect("losetup runs").success());
    ask(&dir, &["aggregate", "resize", "aggr0"]);
    let size = size_of(&dir, "aggr0");
    assert!(size > before + GIB / 2, "{size}");
    server.stop();
    assert_clean(&dir, 1);
    let server = serve(&dir);
    assert_eq!(size_of(&dir, "aggr0"), size);
    server.stop();
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let dir = TestDir::new();
    let server = serve(&dir);
    let (file, small, held) = (
        sparse(&dir, "file", GIB),
        sparse(&dir, "small", MIB),
        noise(&dir, "held", MIB),
    );
    let longer = File::options().write(true).open(&held).expect("open");
    longer.set_len(GIB).expect("longer");
    let (used, foreign) = (sparse(&dir, "used", GIB), sparse(&dir, "foreign", GIB));
    ask(
        &dir,
        &["aggregate", "create", "b", "--devices", text(&used)],
    );
    {
        let other = TestDir::new();
        let server = serve(&other);
        ask(
            &other,
            &["aggregate", "create", "c", "--devices", text(&foreign)],
        );
        server.stop();
    }
    let (empty, filled) = (dir.file("empty"), dir.file("filled"));
    for folder in [&empty, &filled] {
        fs::create_dir(folder).expect("create");
    }
    fs::write(filled.join("thesis.tex"), "years of work").expect("write");
    let twice = format!("{},{}", text(&file), text(&file));
    let data = dir.data_dir();
    let own = data.join("aggregates/aggr0/dev0");
    let before = (everything(&dir), state_of(&dir));
    let add: &[(&[&str], i32, &[&str])] = &[
        (&[], 2, &["--devices", "missing"]),
        (&["--devices", text(&empty)], 2, &["--size", "directory"]),
        (
            &["--devices", text(&file), "--size", "1GiB"],
            2,
            &["only directories"],
        ),
        (
            &["--devices", text(&empty), "--size", "1M"],
            2,
            &["1.0 GiB to"],
        ),
        (
            &["--devices", text(&empty), "--size", "16000P"],
            2,
            &["EVG-1004"],
        ),
        (&["--size", "4P"], 2, &["together"]),
        (&["--devices", &twice], 2, &["twice"]),
        (&["--devices", "/dev/null"], 1, &["EVG-2005"]),
        (&["--devices", "/nix"], 1, &["No such file"]),
        (
            &["--devices", text(&small)],
            1,
            &["is too small", "EVG-2005"],
        ),
        (&["--devices", text(&used)], 5, &["device of aggregate b"]),
        (
            &["--devices", text(&used), "--yes"],
            5,
            &["device of aggregate b"],
        ),
        (
            &["--devices", text(&own), "--size", "1GiB"],
            5,
            &["device of aggregate aggr0"],
        ),
        (
            &["--devices", text(&foreign), "--yes"],
            5,
            &["carries the label", "EVG-2003"],
        ),
        (&["--devices", text(&held)], 6, &["holds data", "--yes"]),
        (
            &["--devices", text(&filled), "--size", "1GiB"],
            6,
            &["not empty"],
        ),
        (&["--devices", text(&data)], 5, &["data directory"]),
        (&["--frob"], 2, &["--frob"]),
    ];
    let resize: &[(&[&str], i32, &[&str])] = &[
        (&[], 2, &["--size", "directory"]),
        (
            &["--size", "2GiB"],
            2,
            &["--size", "2.0 GiB", "too little more"],
        ),
        (&["--size", "2052MiB"], 2, &["areas of 128 MiB", "at least"]),
        (
            &["--size", "1GiB"],
            2,
            &["never becomes smaller", "EVG-1004"],
        ),
        (&["--size", "3000000001"], 2, &["multiple of 4096"]),
        (&["--size", "0"], 2, &["--size"]),
        (&["--size", "8P"], 2, &["EVG-1004"]),
        (
            &["--size", "5GiB", "--device", text(&file)],
            2,
            &["--device", "no device of", text(&own)],
        ),
        (&["--device", text(&own)], 2, &["--size", "directory"]),
        (&["--device", "/nix"], 2, &["no device of aggregate aggr0"]),
    ];
    for (verb, rows) in [("add", add), ("resize", resize)] {
        for (args, exit, parts) in rows {
            for more in [&[][..], &["--dry-run"]] {
                // A plan says what would be lost instead of refusing.
                if *exit == 6 && parts.contains(&"--yes") && !more.is_empty() {
                    continue;
                }
                let args = [&["aggregate", verb, "aggr0"], *args, more].concat();
                refused(&dir, &args, *exit, parts);
            }
        }
        let verb = ["aggregate", verb, "nix", "--size", "3GiB"];
        refused(&dir, &verb, 4, &["no aggregate nix", "EVG-2001"]);
    }
    refused(
        &dir,
        &["aggregate", "resize", "b", "--size", "3GiB"],
        2,
        &["has no directory"],
    );
    let plan = [
        "aggregate",
        "add",
        "aggr0",
        "--devices",
        text(&held),
        "--dry-run",
    ];
    let said = ask(&dir, &plan);
    assert!(
        said.contains("would grow") && said.contains("needs --yes"),
        "{said}"
    );
    assert_eq!(ask_json(&dir, &plan)["devices"][0]["holds_data"], true);
    assert_eq!((everything(&dir), state_of(&dir)), before);
    assert!(fs::read_dir(&empty).expect("list").next().is_none());
    let held_bytes = fs::read(&held).expect("read");
    assert!(
        held_bytes[..1 << 20].iter().any(|byte| *byte != 0),
        "it was overwritten"
    );
    // With leave it is overwritten.
    ask(
        &dir,
        &[
            "aggregate",
            "add",
            "aggr0",
            "--devices",
            text(&held),
            "--yes",
        ],
    );
    server.stop();
    assert_clean(&dir, 2);
}

#[test]
fn requests_over_rest_are_strict_and_can_be_conditional() {
    let dir = TestDir::new();
    let server = serve(&dir);
    let file = sparse(&dir, "more", GIB);
    let post = |verb: &str, headers: &str, body: &str| {
        let path = format!("/v1/aggregates/aggr0/actions/{verb}");
        http::unix(&dir, "POST", &path, headers, body)
    };
    for (verb, body, code) in [
        ("add", "", "EVG-1001"),
        ("add", "{}", "EVG-1003"),
        ("add", "{\"devices\": \"/f\"}", "EVG-1004"),
        ("add", "{\"device\": \"/f\"}", "EVG-1002"),
        ("add", "{\"devices\": [\"f\"]}", "EVG-1004"),
        ("resize", "[]", "EVG-1001"),
        ("resize", "{\"size_bytes\": -1}", "EVG-1004"),
        ("resize", "{\"size\": 1}", "EVG-1002"),
        (
            "resize",
            "{\"size_bytes\": 5368709120, \"device\": 3}",
            "EVG-1004",
        ),
    ] {
        let answer = post(verb, "", body);
        assert_eq!(answer.json()["code"], code, "{verb} {body}");
        assert_eq!(answer.json()["outcome"], "not-done", "{verb} {body}");
    }
    let show = || http::unix(&dir, "GET", "/v1/aggregates/aggr0", "", "");
    let tag = show().header("etag").expect("a tag").to_owned();
    let add = format!("{{\"devices\": [{:?}]}}", text(&file));
    let stale = "If-Match: \"0\"\r\n";
    assert_eq!(post("add", stale, &add).status, 412);
    let plan = format!("{{\"devices\": [{:?}], \"dry_run\": true}}", text(&file));
    assert_eq!(post("add", stale, &plan).status, 412);
    let planned = post("add", "", &plan).json();
    let fresh = format!("If-Match: {tag}\r\n");
    let added = post("add", &fresh, &add);
    assert_eq!(added.status, 200, "{added:?}");
    let same = |value: &Value| (value["size_bytes"].clone(), value["devices"].clone());
    assert_eq!(same(&added.json()), same(&planned));
    assert_eq!(added.header("etag"), show().header("etag"));
    let resize = "{\"size_bytes\": 5368709120}";
    assert_eq!(
        post("resize", &fresh, resize).status,
        412,
        "it has changed since"
    );
    let tag = show().header("etag").expect("a tag").to_owned();
    let fresh = format!("If-Match: {tag}\r\n");
    let key = "Idempotency-Key: once\r\n";
    assert_eq!(post("resize", &format!("{fresh}{key}"), resize).status, 200);
    assert_eq!(post("resize", &fresh, resize).status, 412, "sizes count");
    let again = post("resize", &format!("{fresh}{key}"), resize);
    assert_eq!(again.status, 200, "the same key does it once: {again:?}");
    server.stop();
    assert_clean(&dir, 1);
}

#[test]
fn a_device_that_was_never_finished_is_dropped_and_can_be_added_again() {
    let dir = TestDir::new();
    let server = serve(&dir);
    let size = size_of(&dir, "aggr0");
    server.stop();
    let file = sparse(&dir, "more", GIB);
    let folder = dir.file("folder");
    fs::create_dir(&folder).expect("create");
    // As the record is when power fails before anything is written to the devices: a file, a folder
    // that was not made yet, one of our own that was begun, and a disk that is gone since.
    let own = dir.data_dir().join("aggregates/aggr0/dev1");
    fs::create_dir(&own).expect("create");
    fs::write(own.join("DEVICE.new"), "half a card").expect("write");
    let joining = |path: &str, kind: &str| {
        format!(
            "[[aggregate.device]]\npath = {path:?}\nkind = \"{kind}\"\nsize_bytes = {GIB}\n\
            joining = true\n"
        )
    };
    let added = [
        joining(text(&file), "file"),
        joining(text(&folder), "directory"),
        joining("aggregates/aggr0/dev1", "directory"),
        joining("/dev/gone", "block"),
    ];
    let state = state_of(&dir);
    let end = "# end of state";
    let cut = state.replace(end, &format!("{}{end}", added.concat()));
    fs::write(dir.data_dir().join("state.toml"), cut).expect("write");
    assert_clean(&dir, 1);
    let server = serve(&dir);
    assert_eq!(size_of(&dir, "aggr0"), size);
    assert_eq!(
        aggregate(&dir, "aggr0")["devices"].as_array().map(Vec::len),
        Some(1)
    );
    assert_eq!(state_of(&dir).trim_end(), state.trim_end());
    assert!(!own.exists(), "what was begun in the data directory goes");
    let log = server.log();
    for path in [text(&file), text(&folder), text(&own), "/dev/gone"] {
        let line = format!("{path} was not added to aggregate aggr0 and is forgotten");
        assert!(log.contains(&line), "{line}: {log}");
    }
    for devices in [&["--devices", text(&file)][..], &["--size", "1GiB"]] {
        ask(&dir, &[&["aggregate", "add", "aggr0"], devices].concat());
    }
    server.stop();
    assert_clean(&dir, 1);
}

#[test]
fn a_device_whose_membership_was_not_recorded_any_more_is_a_member() {
    let dir = TestDir::new();
    let server = serve_big(&dir, "1GiB");
    let file = sparse(&dir, "more", GIB);
    ask(
        &dir,
        &["aggregate", "add", "aggr0", "--devices", text(&file)],
    );
    let size = size_of(&dir, "aggr0");
    let (mut client, _) = Client::open(&server.tcp, LUN).expect("opened");
    for number in 0..1000 {
        client
            .write(number * MIB, &payload(number, 1))
            .expect("written");
    }
    client.flush().expect("flushed");
    drop(client);
    server.kill();
    // As if power had failed between the commit and the record.
    let state = state_of(&dir);
    let (before, added) = state.split_once(text(&file)).expect("recorded");
    let size_line = format!("size_bytes = {GIB}\n");
    let added = added.replacen(&size_line, &format!("{size_line}joining = true\n"), 1);
    let cut = format!("{before}{}{added}", text(&file)).replace("epoch = 2", "epoch = 1");
    fs::write(dir.data_dir().join("state.toml"), &cut).expect("write");
    assert_clean(&dir, 1);
    let server = dir.serve(&[]);
    assert_eq!(size_of(&dir, "aggr0"), size);
    assert_eq!(state_of(&dir).trim_end(), state.trim_end());
    assert!(
        server.log().contains("was added to aggregate aggr0"),
        "{}",
        server.log()
    );
    let (mut client, _) = Client::open(&server.tcp, LUN).expect("opened");
    assert_reads_back(&mut client, 0..1000, 1);
    drop(client);
    server.stop();
    // Without the device there is no aggregate, and the message names it.
    fs::write(dir.data_dir().join("state.toml"), &cut).expect("write");
    let away = dir.file("away");
    fs::rename(&file, &away).expect("moved");
    let output = dir.serve_in_vain(&[]);
    assert_eq!(code(&output), 1);
    let said = stderr(&output);
    assert!(
        said.contains("missing") && said.contains(text(&file)),
        "{said}"
    );
    fs::rename(&away, &file).expect("moved back");
    let server = dir.serve(&[]);
    assert_eq!(size_of(&dir, "aggr0"), size);
    server.stop();
    assert_clean(&dir, 1);
}

/// Bytes of a file at an offset; none where it ends before.
fn bytes_at(path: &Path, offset: u64, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    let read = File::open(path).and_then(|file| file.read_at(&mut bytes, offset));
    bytes.truncate(read.unwrap_or(0));
    bytes
}

/// Asks for a growth and kills the daemon as soon as `is_time`, or when it has answered.
fn killed_while_growing(
    dir: &TestDir,
    server: Server,
    (verb, body): (&str, &str),
    is_time: impl Fn() -> bool,
) {
    let path = format!("/v1/aggregates/aggr0/actions/{verb}");
    let stream = http::open(dir);
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| http::over(stream, "POST", &path, "", body));
        while !is_time() && !asked.is_finished() {
            std::thread::yield_now();
        }
        server.kill();
        // Not made, or made and cut before the answer: there is none, or it is good.
        let answer = asked.join().expect("a request");
        assert!([0, 200].contains(&answer.status), "{answer:?}");
    });
}

#[test]
fn a_daemon_killed_at_any_moment_of_a_growth_has_the_old_size_or_the_new_one() {
    let dir = TestDir::new();
    let mut server = serve_big(&dir, "1GiB");
    let (mut client, _) = Client::open(&server.tcp, LUN).expect("opened");
    for number in 0..64 {
        client
            .write(number * MIB, &payload(number, 1))
            .expect("written");
    }
    client.flush().expect("flushed");
    drop(client);
    let own = dir.data_dir().join("aggregates/aggr0/dev0");
    let card = || fs::read_to_string(own.join("DEVICE")).unwrap_or_default();
    let file = sparse(&dir, "more", GIB);
    let add = format!("{{\"devices\": [{:?}]}}", text(&file));
    let has_label = || {
        let slots = [64 << 10, 128 << 10].map(|slot| bytes_at(&file, slot, 8));
        slots.iter().any(|bytes| bytes == b"EVGLCONF")
    };
    let has_superblock = || {
        let slots = [256 << 10, 512 << 10].map(|slot| bytes_at(&file, slot, 8));
        slots
            .iter()
            .any(|bytes| bytes.iter().any(|byte| *byte != 0))
    };
    let is_joining = || state_of_or_none(&dir).contains("joining");
    let is_member = || state_of_or_none(&dir).contains(text(&file)) && !is_joining();
    let moments: [&dyn Fn() -> bool; 4] = [&is_joining, &has_label, &has_superblock, &is_member];
    let mut size = size_of(&dir, "aggr0");
    for (round, is_time) in moments.into_iter().enumerate() {
        if aggregate(&dir, "aggr0")["devices"].as_array().map(Vec::len) == Some(1) {
            killed_while_growing(&dir, server, ("add", &add), is_time);
            server = dir.serve(&[]);
        }
        // A directory that was larger already is asked for its size again.
        let bytes = (2 + round as u64) * GIB;
        let resize = format!("{{\"size_bytes\": {bytes}}}");
        let is_larger = || card().contains(&format!("size_bytes {bytes}\n"));
        let is_recorded = || state_of_or_none(&dir).contains(&format!("size_bytes = {bytes}\n"));
        let is_time: &dyn Fn() -> bool = match round % 2 {
            0 => &is_larger,
            _ => &is_recorded,
        };
        killed_while_growing(&dir, server, ("resize", &resize), is_time);
        assert_clean(&dir, 1);
        server = dir.serve(&[]);
        let now = size_of(&dir, "aggr0");
        assert!(now >= size, "{now} after {size}");
        size = now;
        assert!(!state_of(&dir).contains("joining"), "{}", state_of(&dir));
        let (mut client, _) = Client::open(&server.tcp, LUN).expect("opened");
        assert_reads_back(&mut client, 0..64, 1);
    }
    // What was cut can be asked for again.
    if aggregate(&dir, "aggr0")["devices"].as_array().map(Vec::len) == Some(1) {
        ask(
            &dir,
            &["aggregate", "add", "aggr0", "--devices", text(&file)],
        );
    }
    ask(&dir, &["aggregate", "resize", "aggr0", "--size", "6GiB"]);
    assert!(size_of(&dir, "aggr0") > 5 * GIB);
    server.stop();
    assert_clean(&dir, 1);
}

/// While the daemon replaces it, the file may be read in any state.
fn state_of_or_none(dir: &TestDir) -> String {
    fs::read_to_string(dir.data_dir().join("state.toml")).unwrap_or_default()
}

fn write_card(folder: &Path, size_bytes: u64) {
    let text =
        format!("everglade directory device 1\nsize_bytes {size_bytes}\nsegment_bytes {GIB}\n");
    fs::write(folder.join("DEVICE"), text).expect("write");
}

#[test]
fn a_directory_that_became_larger_without_its_aggregate_is_served_and_can_grow() {
    let dir = TestDir::new();
    let server = serve(&dir);
    let size = size_of(&dir, "aggr0");
    server.stop();
    let own = dir.data_dir().join("aggregates/aggr0/dev0");
    // As when power fails after the directory was made larger.
    write_card(&own, 4 * GIB);
    assert_clean(&dir, 1);
    let server = serve(&dir);
    assert_eq!(size_of(&dir, "aggr0"), size);
    let state = state_of(&dir);
    assert!(
        state.contains(&format!("size_bytes = {}", 4 * GIB)),
        "{state}"
    );
    let smaller = ["aggregate", "resize", "aggr0", "--size", "3GiB"];
    refused(&dir, &smaller, 2, &["never becomes smaller"]);
    ask(&dir, &["aggregate", "resize", "aggr0", "--size", "4GiB"]);
    assert!(size_of(&dir, "aggr0") > size + GIB);
    server.stop();
    assert_clean(&dir, 1);
    // Smaller than recorded is still refused.
    write_card(&own, 3 * GIB);
    let output = dir.serve_in_vain(&[]);
    assert_eq!(code(&output), 1);
    let said = stderr(&output);
    assert!(said.contains("expected 3 segments"), "{said}");
}

#[test]
fn a_full_host_refuses_growth_before_anything_is_written() {
    let Some(host) = SmallHost::new(500 * MIB) else {
        return;
    };
    let dir = TestDir::within(&host.folder());
    let server = dir.serve(&["--aggregate-size", "1GiB", "--lun-size", "64MiB"]);
    let before = (everything(&dir), state_of(&dir));
    let folder = dir.file("folder");
    fs::create_dir(&folder).expect("create");
    let filler = File::create(host.folder().join("squatter")).expect("create");
    let bytes = host.free_bytes() - 64 * MIB;
    rustix::fs::fallocate(&filler, rustix::fs::FallocateFlags::empty(), 0, bytes)
        .expect("allocated");
    for more in [&[][..], &["--dry-run"]] {
        let add = [
            "aggregate",
            "add",
            "aggr0",
            "--size",
            "4GiB",
            "--devices",
            text(&folder),
        ];
        refused(
            &dir,
            &[&add, more].concat(),
            7,
            &["a growth of this size needs", "EVG-3001"],
        );
        let resize = ["aggregate", "resize", "aggr0", "--size", "8GiB"];
        refused(
            &dir,
            &[&resize, more].concat(),
            7,
            &["a growth of this size needs"],
        );
    }
    assert_eq!((everything(&dir), state_of(&dir)), before);
    assert!(fs::read_dir(&folder).expect("list").next().is_none());
    server.stop();
    assert_clean(&dir, 1);
}

#[test]
fn a_plan_is_shown_for_people_and_what_was_done_too() {
    let dir = TestDir::new();
    let server = serve(&dir);
    let folder = dir.file("folder");
    fs::create_dir(&folder).expect("create");
    let add = [
        "aggregate",
        "add",
        "aggr0",
        "--devices",
        text(&folder),
        "--size",
        "2GiB",
    ];
    let plan = ask(&dir, &[&add[..], &["--dry-run"]].concat());
    let lines: Vec<&str> = plan.lines().collect();
    assert!(
        lines[0].starts_with("aggregate aggr0 would grow from "),
        "{plan}"
    );
    for word in ["DEVICE", "BEFORE", "AFTER", "WOULD LOSE"] {
        assert!(lines[2].contains(word), "{plan}");
    }
    for word in [text(&folder), "directory", "new", "2.0 GiB", "nothing"] {
        assert!(lines[3].contains(word), "{plan}");
    }
    let quiet = ask(&dir, &[&add[..], &["--quiet"]].concat());
    assert_eq!(quiet, "");
    let resize = [
        "aggregate",
        "resize",
        "aggr0",
        "--device",
        text(&folder),
        "--size",
        "3GiB",
    ];
    let said = ask(&dir, &resize);
    assert!(said.starts_with("aggregate aggr0 grew from "), "{said}");
    assert!(
        said.contains("2.0 GiB") && said.contains("3.0 GiB"),
        "{said}"
    );
    assert!(!said.contains("WOULD LOSE"), "{said}");
    server.stop();
}
