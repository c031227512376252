//! Reservations against the real daemon: they hold for every protocol, and after a kill (decision
//! 0046).

use super::{LUN, assert_clean};
use crate::running::{Server, TestDir};
use crate::wire::{self, CMD_FLUSH, CMD_READ, CMD_WRITE};
use crate::wire_iscsi::{CLEAR, CONFLICT, GOOD, Initiator, REGISTER, RESERVE};

const SERVE: [&str; 6] = [
    "--lun-size",
    "64MiB",
    "--aggregate-size",
    "2GiB",
    "--iscsi-tcp",
    ":0",
];
const TARGET: &str = "iqn.2026-11.dev.everglade:vol0.lun0";
const ME: &str = "iqn.2026-11.test:me";
const OTHER: &str = "iqn.2026-11.test:other";
/// Write exclusive, registrants only.
const KIND: u8 = 5;
const KEY: u64 = 0x1234_5678_9abc_def0;

fn portal(server: &Server) -> String {
    let mut words = server.ready.split(' ');
    let word = words.find_map(|word| word.strip_prefix("iscsi="));
    word.expect("iSCSI is on").to_owned()
}

fn initiator(server: &Server, name: &str) -> Initiator {
    Initiator::log_in(&portal(server), name, TARGET)
}

/// What an NBD client gets for a read, a write and a flush.
fn nbd(server: &Server) -> [u32; 3] {
    let (mut client, _) = wire::Client::open(&server.tcp, LUN).expect("the export");
    let mut ask = |command, payload: &[u8]| {
        let length = if command == CMD_FLUSH { 0 } else { 512 };
        let reply = client.request(command, 0, length, payload);
        reply.expect("a reply")
    };
    [
        ask(CMD_READ, &[]),
        ask(CMD_WRITE, &[1; 512]),
        ask(CMD_FLUSH, &[]),
    ]
}

#[test]
fn a_reservation_that_is_to_last_lasts_for_all_protocols_and_ends_when_it_is_cleared() {
    let dir = TestDir::new();
    let server = dir.serve(&SERVE);
    let mut me = initiator(&server, ME);
    assert_eq!(me.reserve((REGISTER, 0), (0, KEY), true), GOOD);
    assert_eq!(me.reserve((RESERVE, KIND), (KEY, 0), false), GOOD);
    server.kill();
    for _ in 0..2 {
        let server = dir.serve(&SERVE);
        assert_eq!(nbd(&server), [0, wire::EPERM, 0]);
        let log = server.log();
        assert!(
            log.contains("an NBD client of 127.0.0.1 is kept out"),
            "{log}"
        );
        let mut other = initiator(&server, OTHER);
        assert_eq!(other.write(0, 7), CONFLICT);
        assert_eq!(other.keys(), [KEY]);
        let mut me = initiator(&server, ME);
        assert_eq!(me.write(0, 7), GOOD);
        server.kill();
    }
    let server = dir.serve(&SERVE);
    let mut me = initiator(&server, ME);
    assert_eq!(me.reserve((CLEAR, 0), (KEY, 0), false), GOOD);
    assert_eq!(nbd(&server), [0, 0, 0]);
    server.kill();
    let server = dir.serve(&SERVE);
    assert_eq!(initiator(&server, OTHER).keys(), Vec::<u64>::new());
    assert_eq!(nbd(&server), [0, 0, 0]);
    server.stop();
    assert_clean(&dir);
}

#[test]
fn a_reservation_that_is_not_to_last_ends_with_the_daemon() {
    let dir = TestDir::new();
    let server = dir.serve(&SERVE);
    let mut me = initiator(&server, ME);
    // First it is to last, and then not any more: what was stored is removed.
    for outlives in [true, false] {
        let existing = if outlives { 0 } else { KEY };
        let registered = me.reserve((REGISTER, 0), (existing, KEY), outlives);
        assert_eq!(registered, GOOD);
    }
    assert_eq!(me.reserve((RESERVE, KIND), (KEY, 0), false), GOOD);
    assert_eq!(nbd(&server), [0, wire::EPERM, 0]);
    server.kill();
    let server = dir.serve(&SERVE);
    assert_eq!(initiator(&server, ME).keys(), Vec::<u64>::new());
    assert_eq!(nbd(&server), [0, 0, 0]);
    server.stop();
    assert_clean(&dir);
}

#[test]
fn reservations_follow_a_renamed_lun() {
    let dir = TestDir::new();
    let server = dir.serve(&SERVE);
    let mut me = initiator(&server, ME);
    assert_eq!(me.reserve((REGISTER, 0), (0, KEY), true), GOOD);
    assert_eq!(me.reserve((RESERVE, KIND), (KEY, 0), false), GOOD);
    let renamed = dir.run(&["lun", "rename", LUN, "lun9"]);
    assert!(renamed.status.success(), "{renamed:?}");
    server.kill();
    let server = dir.serve(&SERVE);
    let (mut client, _) = wire::Client::open(&server.tcp, "vol0/lun9").expect("it");
    let written = client.request(CMD_WRITE, 0, 512, &[1; 512]);
    assert_eq!(written.expect("a reply"), wire::EPERM);
    server.stop();
    assert_clean(&dir);
}
