//! Structured replies: chunk by chunk, holes, errors with texts.

use everglade_nbd::Settings;
use everglade_target::Error;

use crate::held::Held;
use crate::peer::{
    CACHE, DF, FAST_ZERO, FLUSH, NO_HOLE, Peer, READ, TRIM, WRITE_ZEROES, at, chunk, option,
    option_reply, pattern, request, write,
};

const MIB: u64 = 1 << 20;
const NONE: u16 = 0;
const DATA: u16 = 1;
const HOLE: u16 = 2;
const ERROR: u16 = 0x8001;
const ERROR_OFFSET: u16 = 0x8002;

fn structured(target: Held) -> Peer {
    Peer::after_options(target, &[option(8, b"")])
}

fn error(code: u32, text: &str) -> Vec<u8> {
    let length = u16::try_from(text.len()).unwrap();
    let mut bytes = code.to_be_bytes().to_vec();
    bytes.extend(length.to_be_bytes());
    bytes.extend(text.as_bytes());
    bytes
}

#[test]
fn structured_replies_are_negotiated_once_and_without_data() {
    let mut peer = Peer::new(Held::with_lun(MIB), Settings::default());
    peer.exchange(&3u32.to_be_bytes());
    let invalid = (1 << 31) + 3;
    let answer = peer.exchange(&option(8, b"x"));
    let text = b"STRUCTURED_REPLY takes no data";
    assert_eq!(answer, option_reply(8, invalid, text));
    assert_eq!(peer.exchange(&option(8, b"")), option_reply(8, 1, b""));
    let answer = peer.exchange(&option(8, b""));
    let text = b"structured replies were negotiated already";
    assert_eq!(answer, option_reply(8, invalid, text));
    // The flag that is only there with chunks.
    let answer = peer.exchange(&option(1, b"vol0/lun0"));
    assert_eq!(answer[8..10], [0x0d, 0xed]);
}

#[test]
fn success_without_data_is_one_empty_chunk() {
    let mut peer = structured(Held::with_lun(MIB));
    let messages = [
        write(0, 1, 0, b"abc"),
        request(FLUSH, 0, 2, 0, 0),
        request(TRIM, 0, 3, 0, 4096),
        request(WRITE_ZEROES, FAST_ZERO, 4, 0, 4096),
        request(CACHE, 0, 5, 10, 5000),
        request(READ, 0, 6, 0, 0),
    ];
    for (message, cookie) in messages.iter().zip(1..) {
        let answer = peer.exchange(message);
        assert_eq!(answer, chunk(true, NONE, cookie, b""));
    }
    assert_eq!(peer.target.log.last().unwrap(), "read 10+5000");
}

#[test]
fn cache_reads_no_more_than_a_request_may_move_and_frees_it() {
    let mut peer = structured(Held::with_lun(128 * MIB));
    let answer = peer.exchange(&request(CACHE, 0, 1, 0, 100 << 20));
    assert_eq!(answer, chunk(true, NONE, 1, b""));
    assert_eq!(peer.target.log.len(), 32);
    assert_eq!(peer.session.payload_in_flight(), 0);
}

#[test]
fn holes_are_told_apart_from_data() {
    let mut peer = structured(Held::with_lun(MIB));
    let bytes = pattern(1, 8192);
    peer.exchange(&write(0, 1, 10 * 4096, &bytes));
    // A hole, two blocks of data, a short hole that is sent as data, a block, a hole.
    peer.exchange(&write(0, 1, 14 * 4096, &bytes[..4096]));
    let answer = peer.exchange(&request(READ, 0, 2, 100, 100 * 4096));
    let middle = [&bytes[..], &[0; 8192], &bytes[..4096]].concat();
    let expected = [
        chunk(false, HOLE, 2, &at(100, &(40_960u32 - 100).to_be_bytes())),
        chunk(false, DATA, 2, &at(40_960, &middle)),
        chunk(
            true,
            HOLE,
            2,
            &at(15 * 4096, &(85u32 * 4096 + 100).to_be_bytes()),
        ),
    ];
    assert_eq!(answer, expected.concat());
    assert_eq!(peer.session.payload_in_flight(), 0);
    // A read of a hole alone is sent as a hole, however short.
    let answer = peer.exchange(&request(READ, 0, 3, 5, 6));
    assert_eq!(answer, chunk(true, HOLE, 3, &at(5, &6u32.to_be_bytes())));
}

#[test]
fn one_chunk_if_the_client_wants_one() {
    let mut peer = structured(Held::with_lun(8 * MIB));
    let bytes = pattern(1, 4096);
    peer.exchange(&write(0, 1, 2 * MIB, &bytes));
    let answer = peer.exchange(&request(READ, DF, 2, 0, 4 << 20));
    let mut data = vec![0; 4 << 20];
    data[2 << 20..(2 << 20) + 4096].copy_from_slice(&bytes);
    assert!(answer == chunk(true, DATA, 2, &at(0, &data)));
    let answer = peer.exchange(&request(READ, DF, 3, 4 * MIB, 4 << 20));
    let hole = at(4 * MIB, &(4u32 << 20).to_be_bytes());
    assert_eq!(answer, chunk(true, HOLE, 3, &hole));
    assert_eq!(peer.session.payload_in_flight(), 0);
}

#[test]
fn slices_are_sent_as_they_are_there_and_the_last_one_ends_the_reply() {
    let mut peer = structured(Held::with_lun(8 * MIB));
    let bytes = pattern(1, 3 << 20);
    peer.exchange(&write(0, 1, 0, &bytes));
    peer.target.flowing = false;
    assert!(peer.exchange(&request(READ, 0, 2, 0, 3 << 20)).is_empty());
    for (index, slice, done) in [(2, 2, false), (0, 0, false), (0, 1, true)] {
        peer.target.release(index);
        let place = slice << 20;
        let data = at(place as u64, &bytes[place..][..1 << 20]);
        assert!(peer.exchange(b"") == chunk(done, DATA, 2, &data));
    }
    assert_eq!(peer.session.payload_in_flight(), 0);
}

#[test]
fn a_slice_that_cannot_be_read_spoils_only_itself() {
    let mut peer = structured(Held::with_lun(8 * MIB));
    let bytes = pattern(1, 2 << 20);
    peer.exchange(&write(0, 1, 0, &bytes));
    peer.target.errors = vec![Error::Io("bad block".into())];
    let answer = peer.exchange(&request(READ, 0, 2, 0, 2 << 20));
    let mut refused = error(5, "input/output error: bad block");
    refused.extend(0u64.to_be_bytes());
    let expected = [
        chunk(false, ERROR_OFFSET, 2, &refused),
        chunk(true, DATA, 2, &at(MIB, &bytes[1 << 20..])),
    ];
    assert!(answer == expected.concat());
    assert_eq!(peer.session.payload_in_flight(), 0);
}

#[test]
fn errors_have_texts() {
    let mut peer = structured(Held::with_lun(MIB));
    let cases = [
        (
            request(READ, 0, 1, MIB, 1),
            22,
            "the range ends beyond the export of 1048576 bytes",
        ),
        (
            request(READ, NO_HOLE, 1, 0, 1),
            22,
            "a flag does not belong to the command",
        ),
        (request(99, 0, 1, 0, 1), 22, "the command is not known"),
        (
            request(WRITE_ZEROES, FAST_ZERO | NO_HOLE, 1, 0, 1),
            95,
            "zeroes that take space are not faster than a write",
        ),
    ];
    for (message, code, text) in cases {
        let answer = peer.exchange(&message);
        assert_eq!(answer, chunk(true, ERROR, 1, &error(code, text)), "{text}");
    }
    peer.target.errors = vec![Error::NoSpace];
    let answer = peer.exchange(&write(0, 2, 0, b"abc"));
    let refused = error(28, "no space left in the pool");
    assert_eq!(answer, chunk(true, ERROR, 2, &refused));
}

#[test]
fn texts_are_cut_between_characters() {
    let mut peer = structured(Held::with_lun(MIB));
    let long = "ü".repeat(5000);
    peer.target.errors = vec![Error::Io(long)];
    let answer = peer.exchange(&request(FLUSH, 0, 2, 0, 0));
    let text = &answer[26..];
    assert!(text.len() <= 1024);
    assert!(std::str::from_utf8(text).is_ok());
}

#[test]
fn chunks_of_one_reply_count_as_one_request() {
    let settings = Settings {
        requests_in_flight_max: 2,
        ..Settings::default()
    };
    let mut peer = Peer::new(Held::with_lun(4 * MIB), settings);
    peer.exchange(&3u32.to_be_bytes());
    peer.exchange(&option(8, b""));
    peer.exchange(&option(1, b"vol0/lun0"));
    for block in 0..20 {
        let bytes = pattern(block, 4096);
        peer.exchange(&write(0, 1, block * 40_960, &bytes));
    }
    peer.send(&request(READ, 0, 1, 0, 1 << 20));
    peer.work();
    assert!(peer.session.wants_read(), "one of two, in forty chunks");
    peer.send(&request(READ, 0, 2, 0, 1 << 20));
    peer.work();
    peer.send(&request(READ, 0, 3, 0, 1 << 20));
    assert!(!peer.session.wants_read(), "the third waits");
    peer.take();
    assert!(peer.session.wants_read());
}
