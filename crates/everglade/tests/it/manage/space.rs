//! Volumes and LUNs come, grow, go and give their space back, while the daemon runs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{
    GIB, MIB, TestDir, Value, ask, ask_json, assert_clean, assert_holds, assert_size, copy_in,
    noise, refused, serve,
};
use crate::host_space::write_until_full;
use crate::tools::{have, must, must_fail};
use crate::waiting::event;
use crate::wire::Client;

/// Reclaiming goes on in the background, a slice with each consistency point.
const BACK_WITHIN: Duration = Duration::from_secs(60);

fn used_bytes(dir: &TestDir) -> u64 {
    let df = ask_json(dir, &["df"]);
    let used = |aggregate: &Value| aggregate["used_bytes"].as_u64().expect("a number");
    let aggregates = df["aggregates"].as_array().expect("a list");
    aggregates.iter().map(used).sum()
}

#[track_caller]
fn wait_until_used(dir: &TestDir, what: &str, holds: impl Fn(u64) -> bool) {
    let begun = Instant::now();
    loop {
        let used = used_bytes(dir);
        if holds(used) {
            return;
        }
        assert!(begun.elapsed() < BACK_WITHIN, "{what}: still {used}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_new_lun_serves_grows_survives_and_gives_its_space_back() {
    if !have(&["nbdcopy", "nbdinfo", "qemu-io"]) {
        return;
    }
    let dir = TestDir::new();
    let server = serve(&dir);
    let empty = used_bytes(&dir);
    ask(&dir, &["volume", "create", "vol1", "--sync", "always"]);
    let made = ask(&dir, &["lun", "create", "vol1/disk", "--size", "32MiB"]);
    assert!(made.contains(&server.uri("vol1/disk")), "{made}");
    assert_size(&server, "vol1/disk", 32 * MIB);
    let image = noise(&dir, "noise", 32 * MIB);
    copy_in(&server, &image, "vol1/disk");
    assert_holds(&dir, &server, "vol1/disk", &image);

    ask(&dir, &["lun", "resize", "vol1/disk", "--size", "1GiB"]);
    assert_size(&server, "vol1/disk", GIB);
    let uri = server.uri("vol1/disk");
    must("qemu-io", &["-f", "raw", "-c", "write -P 7 800M 1M", &uri]);
    must("qemu-io", &["-f", "raw", "-c", "read -P 7 800M 1M", &uri]);
    must("qemu-io", &["-f", "raw", "-c", "read -P 0 40M 100M", &uri]);
    wait_until_used(&dir, "written", |used| used >= empty + 33 * MIB);

    server.stop();
    assert_clean(&dir, 1);
    let server = serve(&dir);
    assert_size(&server, "vol1/disk", GIB);
    let volume = ask_json(&dir, &["volume", "show", "vol1"]);
    assert_eq!(volume["sync"], "always");
    assert_eq!(volume["logical_bytes"], GIB);
    let uri = server.uri("vol1/disk");
    must("qemu-io", &["-f", "raw", "-c", "read -P 7 800M 1M", &uri]);

    refused(
        &dir,
        &["lun", "delete", "vol1/disk"],
        6,
        &["1.0 GiB", "--yes"],
    );
    assert_size(&server, "vol1/disk", GIB);
    ask(&dir, &["lun", "delete", "vol1/disk", "--yes", "--purge"]);
    must_fail("nbdinfo", &["--size", &server.uri("vol1/disk")]);
    wait_until_used(&dir, "deleted", |used| used < empty + MIB);
    ask(&dir, &["volume", "delete", "vol1", "--yes", "--purge"]);
    refused(&dir, &["volume", "show", "vol1"], 4, &["no volume vol1"]);
    server.stop();
    assert_clean(&dir, 1);
}

#[test]
fn a_volume_takes_its_luns_with_it_and_its_name_is_free_again() {
    if !have(&["nbdcopy"]) {
        return;
    }
    let dir = TestDir::new();
    let server = serve(&dir);
    let empty = used_bytes(&dir);
    let image = noise(&dir, "noise", 8 * MIB);
    for round in 0..3 {
        ask(&dir, &["volume", "create", "v"]);
        for lun in ["v/a", "v/b"] {
            ask(&dir, &["lun", "create", lun, "--size", "8MiB"]);
            copy_in(&server, &image, lun);
        }
        refused(
            &dir,
            &["volume", "delete", "v"],
            6,
            &["its 2 LUNs", "16.0 MiB"],
        );
        ask(&dir, &["volume", "delete", "v", "--yes", "--purge"]);
        refused(&dir, &["lun", "show", "v/a"], 4, &["no volume v"]);
        wait_until_used(&dir, &format!("round {round}"), |used| used < empty + MIB);
    }
    server.kill();
    assert_clean(&dir, 1);
}

#[test]
fn what_was_answered_survives_a_kill() {
    let dir = TestDir::new();
    let server = serve(&dir);
    ask(&dir, &["volume", "create", "v"]);
    ask(&dir, &["lun", "create", "v/a", "--size", "1GiB"]);
    ask(&dir, &["lun", "create", "v/b", "--size", "1GiB"]);
    ask(&dir, &["lun", "resize", "v/a", "--size", "2GiB"]);
    ask(&dir, &["lun", "delete", "v/b", "--yes", "--purge"]);
    server.kill();
    let server = serve(&dir);
    let luns = ask_json(&dir, &["lun", "show", "v"]);
    let luns = luns["luns"].as_array().expect("a list");
    assert_eq!(luns.len(), 1);
    assert_eq!(luns[0]["nbd_export"], "v/a");
    assert_eq!(luns[0]["size_bytes"], 2 * GIB);
    server.stop();
    assert_clean(&dir, 1);
}

/// A client that gets ENOSPC often tells nobody, and nobody who administers it sees its machine.
#[test]
fn a_request_that_finds_no_space_is_one_line_of_the_log_and_an_event() {
    let dir = TestDir::new();
    let server = dir.serve(&["--lun-size", "2GiB", "--aggregate-size", "1GiB"]);
    let (mut client, _) = Client::open(&server.tcp, "vol0/lun0").expect("a client");
    let full = write_until_full(&mut client, 0, 2048, 1);
    event(&dir, "EVG-3001");
    event(&dir, "EVG-4002");
    let log = server.log();
    let lines: Vec<_> = log
        .lines()
        .filter(|line| line.contains("EVG-3001"))
        .collect();
    assert_eq!(lines.len(), 1, "{log}");
    let part = format!(
        "ERROR vol0/lun0: a request of a client, from byte {} on, was refused",
        full * MIB
    );
    assert!(lines[0].contains(&part), "{part}: {lines:?}");
    assert!(
        log.contains(" are left; the reserve is ") && log.contains("; delete or discard"),
        "the alert: {log}"
    );
    drop(client);
    server.stop();
}

/// Writes different blocks and reads them back, until told to end; how many.
fn work(address: &str, lun: &str, is_over: &AtomicBool) -> u64 {
    let (mut client, size) = Client::open(address, lun).expect("a client");
    let mut number = 0u64;
    while !is_over.load(Ordering::Relaxed) {
        let block: Vec<u8> = number.to_le_bytes().repeat(8192);
        let offset = number * 65_536 % size;
        client.write(offset, &block).expect("written");
        assert!(
            client.read(offset, 65_536).expect("read") == block,
            "{lun} at {offset}"
        );
        number += 1;
        if number.is_multiple_of(50) {
            client.flush().expect("flushed");
        }
    }
    number
}

/// Says that it is over when it is dropped.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn changes_under_load_disturb_no_client() {
    let dir = TestDir::new();
    let server = serve(&dir);
    let is_over = AtomicBool::new(false);
    ask(&dir, &["aggregate", "create", "b", "--size", "1GiB"]);
    ask(&dir, &["volume", "create", "v", "--aggregate", "b"]);
    ask(&dir, &["lun", "create", "v/l", "--size", "64MiB"]);
    std::thread::scope(|scope| {
        let (address, is_over) = (&server.tcp, &is_over);
        // Also if something fails: the clients would go on for ever.
        let over = Over(is_over);
        let clients =
            ["vol0/lun0", "v/l"].map(|lun| scope.spawn(move || work(address, lun, is_over)));
        for number in 0..8 {
            let name = format!("x{number}");
            let lun = format!("{name}/l");
            ask(&dir, &["aggregate", "create", &name, "--size", "1GiB"]);
            ask(&dir, &["volume", "create", &name, "--aggregate", "b"]);
            ask(&dir, &["lun", "create", &lun, "--size", "8MiB"]);
            let (mut client, _) = Client::open(address, &lun).expect("a client");
            client.write(0, &[7; 1 << 20]).expect("written");
            ask(
                &dir,
                &[
                    "lun",
                    "resize",
                    "v/l",
                    "--size",
                    &format!("{}MiB", 65 + number),
                ],
            );
            ask(
                &dir,
                &["lun", "delete", &lun, "--yes", "--purge", "--disconnect"],
            );
            ask(&dir, &["volume", "delete", &name, "--yes", "--purge"]);
        }
        drop(over);
        for client in clients {
            assert!(client.join().expect("no error") > 0);
        }
    });
    server.stop();
    assert_clean(&dir, 10);
}

#[test]
fn tables_are_for_people_and_exact_when_asked() {
    let dir = TestDir::new();
    let server = serve(&dir);
    let luns = ask(&dir, &["lun", "list"]);
    let uri = server.uri("vol0/lun0");
    let expected = format!("NAME           SIZE  USED  NBD\nvol0/lun0  64.0 MiB   0 B  {uri}\n");
    assert_eq!(luns, expected);
    let exact = ask(&dir, &["lun", "show", "vol0/lun0", "--exact"]);
    assert!(exact.contains(" 67108864 "), "{exact}");
    let df = ask(&dir, &["df"]);
    assert!(
        df.starts_with("AGGREGATE ") && df.contains("\naggr0 "),
        "{df}"
    );
    let status = ask(&dir, &["status"]);
    assert!(status.contains("health: healthy"), "{status}");
    let one = ask(&dir, &["aggregate", "show", "aggr0"]);
    assert!(one.contains("aggregates/aggr0/dev0"), "{one}");
    assert_eq!(ask(&dir, &["volume", "create", "quiet", "--quiet"]), "");
    server.stop();
}
