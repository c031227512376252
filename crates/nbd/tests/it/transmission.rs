//! Requests that are carried out, byte for byte.

use everglade_nbd::Settings;
use everglade_target::Error;

use crate::held::Held;
use crate::peer::{
    DISC, FLUSH, FUA, NO_HOLE, Peer, READ, TRIM, WRITE_ZEROES, pattern, reply, request, write,
};

const MIB: u64 = 1 << 20;

fn peer(size_bytes: u64) -> Peer {
    Peer::in_transmission(Held::with_lun(size_bytes), Settings::default())
}

#[test]
fn write_and_read_on_the_wire() {
    let mut peer = peer(MIB);
    let write = b"\x25\x60\x95\x13\x00\x00\x00\x01COOKIE!!\
        \x00\x00\x00\x00\x00\x00\x0f\xfe\x00\x00\x00\x04data";
    assert_eq!(
        peer.exchange(write),
        b"\x67\x44\x66\x98\x00\x00\x00\x00COOKIE!!"
    );
    let read = b"\x25\x60\x95\x13\x00\x00\x00\x00cookie??\
        \x00\x00\x00\x00\x00\x00\x0f\xfd\x00\x00\x00\x06";
    assert_eq!(
        peer.exchange(read),
        b"\x67\x44\x66\x98\x00\x00\x00\x00cookie??\x00data\x00"
    );
    assert_eq!(peer.target.log, ["write 4094+4", "read 4093+6"]);
}

#[test]
fn every_command_becomes_its_operation() {
    let mut peer = peer(MIB);
    let messages = [
        write(FUA, 1, 0, &[1; 512]),
        request(FLUSH, 0, 2, 0, 0),
        request(FLUSH, FUA, 3, 0, 0),
        request(TRIM, 0, 4, 4096, 8192),
        request(TRIM, FUA, 5, 1, 9),
        request(WRITE_ZEROES, 0, 6, 10, 20),
        request(WRITE_ZEROES, NO_HOLE, 7, 10, 20),
        request(WRITE_ZEROES, NO_HOLE | FUA, 8, 0, 1 << 20),
        request(READ, FUA, 9, 0, 1),
    ];
    let answers = peer.exchange(&messages.concat());
    let mut expected: Vec<u8> = (1..=9).flat_map(|cookie| reply(0, cookie)).collect();
    expected.push(0);
    assert_eq!(answers, expected);
    let log = [
        "write 0+512 durable",
        "flush",
        "flush",
        "discard 4096+8192",
        "discard 1+9 durable",
        "zeroes 10+20",
        "zeroes 10+20 allocate",
        "zeroes 0+1048576 allocate durable",
        "read 0+1",
    ];
    assert_eq!(peer.target.log, log);
}

#[test]
fn commands_without_payload_may_be_longer_than_the_largest_payload() {
    let mut peer = peer(8 << 30);
    let messages = [
        request(TRIM, 0, 1, 0, u32::MAX),
        request(WRITE_ZEROES, 0, 2, 4096, 0x8000_0000),
    ];
    assert_eq!(
        peer.exchange(&messages.concat()),
        [reply(0, 1), reply(0, 2)].concat()
    );
    assert_eq!(
        peer.target.log,
        ["discard 0+4294967295", "zeroes 4096+2147483648"]
    );
}

#[test]
fn requests_of_no_length_do_nothing_and_succeed() {
    let mut peer = peer(MIB);
    let messages = [
        request(READ, 0, 1, 0, 0),
        write(0, 2, MIB, b""),
        request(TRIM, 0, 3, 0, 0),
        request(WRITE_ZEROES, FUA, 4, 7, 0),
    ];
    let expected: Vec<u8> = (1..=4).flat_map(|cookie| reply(0, cookie)).collect();
    assert_eq!(peer.exchange(&messages.concat()), expected);
    assert!(peer.target.log.is_empty());
}

#[test]
fn long_requests_are_cut_at_boundaries_and_answered_whole() {
    let mut peer = peer(64 * MIB);
    let (offset, count) = (MIB - 100, 3 * (1 << 20) + 7);
    let bytes = pattern(1, count);
    assert_eq!(peer.exchange(&write(FUA, 1, offset, &bytes)), reply(0, 1));
    let answer = peer.exchange(&request(READ, 0, 2, offset, u32::try_from(count).unwrap()));
    assert_eq!(answer[..16], reply(0, 2));
    assert!(answer[16..] == bytes);
    assert_eq!(
        peer.target.log[..4],
        [
            "write 1048476+100 durable",
            "write 1048576+1048576 durable",
            "write 2097152+1048576 durable",
            "write 3145728+1048483 durable",
        ]
    );
    assert_eq!(peer.target.log[4], "read 1048476+100");
    assert_eq!(peer.target.log.len(), 8);
}

#[test]
fn largest_payload_is_accepted_both_ways() {
    let mut peer = peer(64 * MIB);
    let bytes = pattern(2, 32 << 20);
    assert_eq!(peer.exchange(&write(0, 1, 4096, &bytes)), reply(0, 1));
    let answer = peer.exchange(&request(READ, 0, 2, 4096, 32 << 20));
    assert!(answer[16..] == bytes);
    assert_eq!(peer.session.payload_in_flight(), 0);
}

/// The nbd project's `integrityhuge-test.tr` requests up to 50 MB, whatever maximum is advertised.
#[test]
fn twice_what_is_told_is_accepted_both_ways() {
    let mut peer = peer(128 * MIB);
    let bytes = pattern(3, 64 << 20);
    assert_eq!(peer.exchange(&write(FUA, 1, 512, &bytes)), reply(0, 1));
    assert!(peer.target.log.iter().all(|op| op.ends_with(" durable")));
    let answer = peer.exchange(&request(READ, 0, 2, 512, 64 << 20));
    assert_eq!(answer[..16], reply(0, 2));
    assert!(answer[16..] == bytes);
    assert_eq!(peer.session.payload_in_flight(), 0);
}

#[test]
fn slices_of_a_write_are_executed_as_they_arrive() {
    let mut peer = peer(64 * MIB);
    let message = write(0, 1, 0, &pattern(3, 4 << 20));
    peer.send(&message[..(2 << 20) + 100]);
    assert_eq!(
        peer.target.log,
        ["write 0+1048576", "write 1048576+1048576"]
    );
    peer.work();
    assert_eq!(peer.take(), b"", "the reply waits for the last slice");
    assert_eq!(peer.exchange(&message[(2 << 20) + 100..]), reply(0, 1));
}

#[test]
fn read_sends_nothing_before_all_slices_are_good() {
    let mut peer = peer(64 * MIB);
    peer.target.flowing = false;
    peer.exchange(&request(READ, 0, 1, 0, 3 << 20));
    for _ in 0..2 {
        peer.target.release(1);
        assert_eq!(peer.exchange(b""), b"");
        peer.target.held.rotate_left(1);
        peer.target.held.rotate_right(1);
    }
    peer.target.release(0);
    assert_eq!(peer.exchange(b"").len(), 16 + (3 << 20));
}

#[test]
fn one_bad_slice_spoils_the_whole_read() {
    let mut peer = peer(64 * MIB);
    peer.target.flowing = false;
    peer.exchange(&request(READ, 0, 1, 0, 1 << 20));
    peer.target.errors = vec![Error::Io("a bad block".to_owned())];
    peer.exchange(&request(READ, 0, 2, 0, 3 << 20));
    peer.target.release_all();
    let answers = peer.exchange(b"");
    assert_eq!(answers.len(), 16 + (1 << 20) + 16);
    assert_eq!(answers[16 + (1 << 20)..], reply(5, 2));
    assert_eq!(peer.session.payload_in_flight(), 0);
}

#[test]
fn target_errors_become_nbd_errors() {
    let errors = [
        (Error::Invalid("x"), 22),
        (Error::ReadOnly, 1),
        (Error::NoSpace, 28),
        (Error::Io("x".to_owned()), 5),
        (Error::NotFound("x".to_owned()), 22),
    ];
    let mut peer = peer(MIB);
    for (error, code) in errors {
        peer.target.errors = vec![error];
        assert_eq!(peer.exchange(&write(0, 5, 0, b"abc")), reply(code, 5));
    }
    assert!(peer.session.wants_read());
}

#[test]
fn disconnect_awaits_operations_answers_them_and_closes() {
    let mut peer = peer(MIB);
    peer.target.flowing = false;
    peer.send(&[write(0, 1, 0, b"abc"), request(DISC, 0, 2, 0, 0)].concat());
    assert!(!peer.session.wants_read());
    assert!(!peer.session.is_closed());
    assert_eq!(peer.target.open, 1);
    peer.target.release_all();
    assert_eq!(peer.exchange(b""), reply(0, 1));
    assert!(peer.session.is_closed());
    assert_eq!(peer.target.open, 0);
}

#[test]
fn end_of_stream_is_like_a_disconnect() {
    let mut peer = peer(MIB);
    peer.target.flowing = false;
    peer.send(
        &[
            write(0, 1, 0, b"abc"),
            write(0, 2, 0, &[9; 4096])[..100].to_vec(),
        ]
        .concat(),
    );
    peer.session.received_end(&mut peer.target);
    peer.target.release_all();
    assert_eq!(peer.exchange(b""), reply(0, 1));
    assert!(peer.session.is_closed());
    assert_eq!(
        peer.target.log,
        ["write 0+3"],
        "an incomplete write never happened"
    );
}

#[test]
fn broken_stream_awaits_operations_and_sends_nothing() {
    let mut peer = peer(4 * MIB);
    peer.target.flowing = false;
    peer.send(&[request(READ, 0, 1, 0, 4096), write(0, 2, 0, &[9; 3 << 20])].concat()[..(2 << 20)]);
    peer.target.release(0);
    peer.work();
    assert!(peer.session.wants_write());
    peer.session.abandon(&mut peer.target);
    assert!(!peer.session.wants_write());
    assert!(!peer.session.is_closed());
    peer.target.release_all();
    peer.work();
    assert!(peer.session.is_closed());
    assert_eq!(peer.target.open, 0);
}

#[test]
fn deleted_lun_ends_the_session_with_shutdown() {
    let mut peer = peer(MIB);
    peer.target.model.remove_lun("vol0/lun0");
    let answer = peer.exchange(&[write(0, 1, 0, b"abc"), request(READ, 0, 2, 0, 1)].concat());
    assert_eq!(answer, reply(108, 1));
    assert!(peer.session.is_closed());
    assert_eq!(peer.target.open, 0);
}

#[test]
fn gone_while_in_flight_answers_the_others_and_closes() {
    let mut peer = peer(MIB);
    peer.target.flowing = false;
    peer.send(&write(0, 1, 0, b"abc"));
    peer.target.errors = vec![Error::Gone];
    peer.send(&write(0, 2, 0, b"abc"));
    peer.send(&write(0, 3, 0, b"abc"));
    peer.target.release(1);
    assert_eq!(peer.exchange(b""), reply(108, 2));
    assert!(!peer.session.is_closed());
    peer.target.release_all();
    assert_eq!(peer.exchange(b""), [reply(0, 1), reply(0, 3)].concat());
    assert!(peer.session.is_closed());
}

#[test]
fn an_error_of_a_lun_that_serves_no_more_ends_the_session_at_once() {
    let mut peer = peer(MIB);
    peer.target.flowing = false;
    peer.target.errors = vec![Error::Io("the aggregate failed".into())];
    peer.send(&request(FLUSH, 0, 1, 0, 0));
    peer.send(&write(0, 2, 0, b"abc"));
    peer.target.model.remove_lun("vol0/lun0");
    peer.target.release(0);
    assert_eq!(peer.exchange(b""), reply(5, 1));
    assert!(
        !peer.session.wants_read(),
        "whoever writes now is not heard"
    );
    peer.target.release_all();
    assert_eq!(peer.exchange(b""), reply(0, 2), "in flight, so answered");
    assert!(peer.session.is_closed());
}

#[test]
fn an_error_of_a_lun_that_serves_on_ends_nothing() {
    let mut peer = peer(MIB);
    peer.target.errors = vec![Error::Io("bad block".into())];
    assert_eq!(peer.exchange(&request(READ, 0, 1, 0, 1)), reply(5, 1));
    assert_eq!(peer.exchange(&request(FLUSH, 0, 2, 0, 0)), reply(0, 2));
}

#[test]
fn size_is_the_luns_current_size() {
    let mut peer = peer(MIB);
    assert_eq!(peer.exchange(&write(0, 1, MIB, b"abc")), reply(28, 1));
    peer.target.model.resize("vol0/lun0", 2 * MIB);
    assert_eq!(peer.exchange(&write(0, 2, MIB, b"abc")), reply(0, 2));
}
