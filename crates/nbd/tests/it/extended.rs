//! Extended headers: 64-bit lengths, payloads that are announced, chunks that repeat the offset.

use everglade_nbd::wire::{Chunk, Request};

use crate::held::Held;
use crate::peer::{
    BLOCK_STATUS, DISC, FLUSH, PAYLOAD_LEN, Peer, READ, TRIM, WRITE, WRITE_ZEROES, at,
    context_data, info_data, option, option_reply, pattern,
};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const HEADERS: u32 = 11;
const INVALID: u32 = (1 << 31) + 3;
const HEADER_REQUIRED: u32 = (1 << 31) + 10;

fn extended(size_bytes: u64) -> Peer {
    let set = option(10, &context_data("vol0/lun0", &["base:allocation"]));
    Peer::after_options(Held::with_lun(size_bytes), &[option(HEADERS, b""), set])
}

fn ask(command: u16, flags: u16, cookie: u64, offset: u64, length: u64) -> Vec<u8> {
    Request {
        flags,
        command,
        cookie,
        offset,
        length,
    }
    .encode_extended()
    .to_vec()
}

fn told(kind: u16, cookie: u64, offset: u64, data: &[u8]) -> Vec<u8> {
    let length = u32::try_from(data.len()).unwrap();
    let chunk = Chunk {
        done: true,
        kind,
        cookie,
        offset,
        length,
    };
    [&chunk.encode_extended()[..], data].concat()
}

fn is_refused(answer: &[u8], code: u32) -> bool {
    answer[6..8] == [0x80, 1] && answer[32..36] == code.to_be_bytes()
}

#[test]
fn extended_headers_take_precedence() {
    let mut peer = Peer::new(Held::with_lun(MIB), everglade_nbd::Settings::default());
    peer.exchange(&3u32.to_be_bytes());
    assert_eq!(peer.exchange(&option(8, b"")), option_reply(8, 1, b""));
    let answer = peer.exchange(&option(HEADERS, b"x"));
    let text = b"EXTENDED_HEADERS takes no data";
    assert_eq!(answer, option_reply(HEADERS, INVALID, text));
    let answer = peer.exchange(&option(HEADERS, b""));
    assert_eq!(answer, option_reply(HEADERS, 1, b""));
    let answer = peer.exchange(&option(8, b""));
    let text = b"extended headers were negotiated already";
    assert_eq!(answer, option_reply(8, HEADER_REQUIRED, text));
    let answer = peer.exchange(&option(HEADERS, b""));
    assert_eq!(answer, option_reply(HEADERS, INVALID, text));
    // EXPORT_NAME cannot be refused, only cut off.
    assert!(peer.exchange(&option(1, b"vol0/lun0")).is_empty());
    assert!(peer.session.is_closed());
}

#[test]
fn requests_on_the_wire() {
    let mut peer = extended(MIB);
    let bytes = pattern(1, 5000);
    let message = [ask(WRITE, PAYLOAD_LEN, 1, 4096, 5000), bytes.clone()].concat();
    assert_eq!(peer.exchange(&message), told(0, 1, 4096, b""));
    assert_eq!(peer.exchange(&ask(FLUSH, 0, 2, 0, 0)), told(0, 2, 0, b""));
    let answer = peer.exchange(&ask(READ, 0, 3, 5000, 3000));
    let data = at(5000, &bytes[904..3904]);
    assert_eq!(answer, told(1, 3, 5000, &data));
    assert!(peer.exchange(&ask(DISC, 0, 4, 0, 0)).is_empty());
    assert!(peer.session.is_closed());
}

#[test]
fn ranges_of_more_than_32_bits() {
    let mut peer = extended(16 * GIB);
    peer.exchange(&[ask(WRITE, PAYLOAD_LEN, 1, 9 * GIB, 3), b"abc".to_vec()].concat());
    let answer = peer.exchange(&ask(BLOCK_STATUS, 0, 2, 0, 16 * GIB));
    let mut extents = vec![0, 0, 0, 1, 0, 0, 0, 3];
    for (length, state) in [(9 * GIB, 3u64), (4096, 0), (7 * GIB - 4096, 3)] {
        extents.extend(length.to_be_bytes());
        extents.extend(state.to_be_bytes());
    }
    assert_eq!(answer, told(6, 2, 0, &extents));
    let answer = peer.exchange(&ask(TRIM, 0, 3, 0, 12 * GIB));
    assert_eq!(answer, told(0, 3, 0, b""));
    let answer = peer.exchange(&ask(WRITE_ZEROES, 0, 4, GIB, 15 * GIB));
    assert_eq!(answer, told(0, 4, GIB, b""));
    assert_eq!(
        peer.target.log[2..],
        ["discard 0+12884901888", "zeroes 1073741824+16106127360"]
    );
    assert!(is_refused(
        &peer.exchange(&ask(TRIM, 0, 5, 1, u64::MAX)),
        22
    ));
    assert!(is_refused(&peer.exchange(&ask(READ, 0, 5, 0, 5 * GIB)), 22));
}

#[test]
fn payloads_nobody_wants_are_skipped() {
    let mut peer = extended(MIB);
    let status = ask(BLOCK_STATUS, PAYLOAD_LEN, 1, 0, 12);
    let answer = peer.exchange(&[status, vec![7; 12]].concat());
    assert!(is_refused(&answer, 22));
    let answer = peer.exchange(&[ask(99, PAYLOAD_LEN, 1, 0, 50), vec![7; 50]].concat());
    assert!(is_refused(&answer, 22));
    let bare = ask(WRITE, 0, 2, 0, 50);
    assert!(is_refused(&peer.exchange(&bare), 22), "it has no payload");
    let next = ask(FLUSH, 0, 3, 0, 0);
    assert_eq!(peer.exchange(&next), told(0, 3, 0, b""), "still in step");
    let answer = peer.exchange(&ask(TRIM, PAYLOAD_LEN, 4, 0, 1 << 40));
    assert!(is_refused(&answer, 22));
    assert!(peer.session.is_closed(), "a terabyte is not skipped");
}

#[test]
fn a_compact_request_cannot_be_followed() {
    let mut peer = extended(MIB);
    let compact = crate::peer::request(READ, 0, 1, 0, 512);
    assert!(peer.exchange(&[&compact[..], &[0; 4]].concat()).is_empty());
    assert!(peer.session.is_closed());
}

#[test]
fn go_works_after_info() {
    let mut peer = Peer::new(Held::with_lun(MIB), everglade_nbd::Settings::default());
    peer.exchange(&3u32.to_be_bytes());
    peer.exchange(&option(HEADERS, b""));
    let info = peer.exchange(&option(6, &info_data("", &[])));
    let go = peer.exchange(&option(7, &info_data("", &[])));
    assert_eq!(info[20..32], go[20..32]);
    assert_eq!(info[30..32], [0x0d, 0xed]);
}
