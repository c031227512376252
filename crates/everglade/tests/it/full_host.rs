//! A host without a free byte: the daemon starts, serves, deletes and gives space back; and a first
//! start that has no room is refused before it writes anything.
//!
//! The story: a pool took the last of its host, was killed, and could not be started again, because
//! `run/endpoints.json` was a new file at each start. Neither was there a way to delete anything
//! then.

use std::fs::{self, File};
use std::io::Write;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use crate::clients::{LUN, assert_clean};
use crate::host_space::{SmallHost, assert_reads_back, host_bytes, payload, write_until_full};
use crate::running::{Server, TestDir, code, stderr, stdout};
use crate::waiting::within;
use crate::wire::Client;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const ARGS: [&str; 6] = [
    "--aggregate-size",
    "4GiB",
    "--lun-size",
    "3GiB",
    "--cp-interval",
    "1s",
];
/// Space returns as fast as it is found free, not when somebody looks after a while.
const PROMPTLY: Duration = Duration::from_secs(15);

/// Takes all of the host's space, to the last block.
fn fill(host: &SmallHost, name: &str) {
    let mut file = File::create(host.folder().join(name)).expect("create");
    for bytes in [MIB, 64 << 10, 4096, 512] {
        let chunk = vec![0xA5; usize::try_from(bytes).expect("small")];
        while file.write_all(&chunk).is_ok() && file.sync_data().is_ok() {}
    }
}

/// A pool that clients have filled, on a host that somebody else has filled then, killed.
fn killed_when_full(host: &SmallHost, dir: &TestDir) -> u64 {
    let server = dir.serve(&ARGS);
    let (mut client, _) = Client::open(&server.tcp, LUN).expect("opened");
    let full = write_until_full(&mut client, 0, 3072, 1);
    client.flush().expect("what was accepted is stored");
    overwrite(&mut client, full);
    fill(host, "squatter");
    server.kill();
    assert_eq!(host.free_bytes(), 0, "the host is full");
    full
}

/// Overwrites blocks with what is there, each durably.
fn overwrite(client: &mut Client, full: u64) {
    const UNIT: usize = 16 << 10;
    for number in 0..60 {
        let mib = number * 37 % full;
        let at = usize::try_from(number).expect("small") % 64 * UNIT;
        let offset = mib * MIB + at as u64;
        let written = client.write(offset, &payload(mib, 1)[at..at + UNIT]);
        written.expect("overwriting goes on when the host is full");
        client.flush().expect("flushed");
    }
}

fn trim(client: &mut Client, numbers: Range<u64>) {
    for number in numbers {
        client
            .trim(number * MIB, 1 << 20)
            .expect("trimming always works");
    }
    client.flush().expect("flushed");
}

fn has_endpoints(dir: &TestDir, server: &Server) -> bool {
    let path = dir.data_dir().join("run/endpoints.json");
    let Ok(text) = fs::read_to_string(path) else {
        return false;
    };
    let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(value["pid"], server.pid());
    assert_eq!(value["nbd_tcp"], server.tcp);
    true
}

fn delete_lun(dir: &TestDir) {
    let deleted = dir.run(&["lun", "delete", LUN, "--yes", "--purge", "--wait"]);
    assert_eq!(
        code(&deleted),
        0,
        "{}{}",
        stdout(&deleted),
        stderr(&deleted)
    );
}

#[test]
fn a_full_host_starts_serves_deletes_and_gets_its_space_back() {
    let Some(host) = SmallHost::new(1300 * MIB) else {
        return;
    };
    let dir = TestDir::within(&host.folder());
    let full = killed_when_full(&host, &dir);

    // Everything but new space, at 0 bytes free, twice: each start writes what the next one needs.
    for _ in 0..2 {
        let server = dir.serve(&ARGS);
        assert!(has_endpoints(&dir, &server));
        let (mut client, _) = Client::open(&server.tcp, LUN).expect("opened");
        assert_reads_back(&mut client, 0..full, 1);
        overwrite(&mut client, full);
        server.kill();
    }
    let server = dir.serve(&ARGS);
    let (mut client, _) = Client::open(&server.tcp, LUN).expect("opened");
    trim(&mut client, 0..full / 4);
    assert_reads_back(&mut client, full / 4..full, 1);
    drop(client);
    // A file system may find a block or two of its own.
    assert!(host.free_bytes() < 1 << 20, "nobody made room");
    server.stop();
    assert!(!dir.data_dir().join("run/endpoints.json").exists());
    assert_clean(&dir);

    // What a stop leaves free, somebody else takes.
    fill(&host, "another");
    assert_eq!(host.free_bytes(), 0, "the host is full");
    let server = dir.serve(&ARGS);
    assert!(has_endpoints(&dir, &server));
    let before = host_bytes(&dir);
    delete_lun(&dir);
    within(
        PROMPTLY,
        "the host gets space back after a deletion",
        || host.free_bytes() >= 256 * MIB,
    );
    assert!(host_bytes(&dir) <= before - 256 * MIB);
    let history = stdout(&dir.run(&["history"]));
    assert!(history.contains("lun delete"), "{history}");
    server.stop();
    assert_clean(&dir);
}

#[test]
fn a_data_directory_without_space_set_aside_starts_on_a_full_host() {
    let Some(host) = SmallHost::new(1300 * MIB) else {
        return;
    };
    let dir = TestDir::within(&host.folder());
    let full = killed_when_full(&host, &dir);
    // As an earlier version leaves it.
    let data = dir.data_dir();
    for name in [
        "state.toml.spare",
        "seen.toml",
        "seen.toml.spare",
        "run/endpoints.json.spare",
        "run/endpoints.json",
    ] {
        fs::remove_file(data.join(name)).expect(name);
    }
    let state = fs::read_to_string(data.join("state.toml")).expect("read");
    fs::write(data.join("state.toml"), format!("{}\n", state.trim_end())).expect("shortened");
    fill(&host, "another");
    assert_eq!(host.free_bytes(), 0, "the host is full");

    let server = dir.serve(&ARGS);
    assert!(!has_endpoints(&dir, &server), "nowhere to write it");
    let (mut client, _) = Client::open(&server.tcp, LUN).expect("opened");
    assert_reads_back(&mut client, 0..full, 1);
    drop(client);
    // The deletion itself makes the room that is missing.
    delete_lun(&dir);
    within(
        PROMPTLY,
        "endpoints.json is written when there is space",
        || has_endpoints(&dir, &server),
    );
    within(PROMPTLY, "space is set aside", || {
        data.join("state.toml.spare").exists()
    });
    server.kill();
    fill(&host, "third");
    let server = dir.serve(&ARGS);
    assert!(has_endpoints(&dir, &server));
    server.stop();
    assert_clean(&dir);
}

#[test]
fn a_host_that_others_fill_gets_what_is_not_needed_soon() {
    let Some(host) = SmallHost::new(3000 * MIB) else {
        return;
    };
    let dir = TestDir::within(&host.folder());
    let server = dir.serve(&ARGS);
    let (mut client, _) = Client::open(&server.tcp, LUN).expect("opened");
    for number in 0..1024 {
        client
            .write(number * MIB, &payload(number, 1))
            .expect("written");
    }
    client.flush().expect("flushed");
    trim(&mut client, 0..1024);
    // The host has plenty, so some areas stay ready for what is written next.
    let (mut before, mut looks) = (0, 0);
    within(PROMPTLY, "nothing more goes back", || {
        let now = host_bytes(&dir);
        looks = if now == before { looks + 1 } else { 0 };
        before = now;
        looks == 10
    });
    assert!(before > GIB, "{before}");
    // What goes back meanwhile, the other takes too.
    fill(&host, "squatter");
    within(
        PROMPTLY,
        "areas that were kept go back, though nothing is written here",
        || host_bytes(&dir) <= before - 384 * MIB,
    );
    drop(client);
    server.stop();
    assert_clean(&dir);
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none())
}

#[test]
fn a_first_start_without_room_is_refused_before_it_writes() {
    let Some(host) = SmallHost::new(440 * MIB) else {
        return;
    };
    let dir = TestDir::within(&host.folder());
    fs::create_dir(dir.data_dir()).expect("create");
    let before = host.free_bytes();
    let refused = dir.serve_in_vain(&ARGS);
    assert_eq!(code(&refused), 1);
    let said = stderr(&refused);
    assert!(
        said.contains(" free; a new aggregate of this size needs 489.8 MiB there at once"),
        "{said}"
    );
    assert!(is_empty(&dir.data_dir()), "nothing was made");
    assert_eq!(host.free_bytes(), before);

    // The remedy: a smaller size.
    let smaller = ["--aggregate-size", "1GiB", "--lun-size", "512MiB"];
    let server = dir.serve(&smaller);
    let (mut client, _) = Client::open(&server.tcp, LUN).expect("opened");
    client.write(0, &payload(0, 1)).expect("written");
    client.flush().expect("flushed");
    drop(client);
    let made = dir.run(&["aggregate", "create", "second", "--size", "4GiB", "--yes"]);
    assert_ne!(code(&made), 0);
    let said = stderr(&made);
    assert!(said.contains("needs 489.8 MiB"), "{said}");
    server.stop();
    assert_clean(&dir);
}

#[test]
fn a_first_start_that_has_just_enough_room_serves_and_starts_again() {
    let Some(host) = SmallHost::new(700 * MIB) else {
        return;
    };
    let dir = TestDir::within(&host.folder());
    // What is left above the least that is needed goes to somebody else.
    let needed = 490 * MIB;
    let file = File::create(host.folder().join("squatter")).expect("create");
    let mut length = host.free_bytes() - needed;
    while host.free_bytes() > needed + MIB {
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, length)
            .expect("allocated");
        length += MIB / 2;
    }
    let server = dir.serve(&ARGS);
    let (mut client, _) = Client::open(&server.tcp, LUN).expect("opened");
    let full = write_until_full(&mut client, 0, 1024, 1);
    assert!(full >= 8, "{full} MiB");
    client.flush().expect("flushed");
    fill(&host, "another");
    server.kill();
    assert_eq!(host.free_bytes(), 0, "the host is full");
    let server = dir.serve(&ARGS);
    let (mut client, _) = Client::open(&server.tcp, LUN).expect("opened");
    assert_reads_back(&mut client, 0..full, 1);
    drop(client);
    server.stop();
    assert_clean(&dir);
}
