//! The handshake, message by message, byte for byte.

use everglade_nbd::Settings;
use everglade_target::Target;
use everglade_target::model::Model;

use crate::held::Held;
use crate::peer::{Peer, info_data, option, option_reply};

const MIB: u64 = 1 << 20;
/// HAS_FLAGS, SEND_FLUSH, SEND_FUA, SEND_TRIM, SEND_WRITE_ZEROES, CAN_MULTI_CONN, SEND_CACHE,
/// SEND_FAST_ZERO.
const FLAGS: [u8; 2] = [0x0d, 0x6d];

const ACK: u32 = 1;
const SERVER: u32 = 2;
const INFO: u32 = 3;
const UNSUP: u32 = 0x8000_0001;
const INVALID: u32 = 0x8000_0003;
const UNKNOWN: u32 = 0x8000_0006;
const TOO_BIG: u32 = 0x8000_0009;

fn greeted(target: Held) -> Peer {
    let mut peer = Peer::new(target, Settings::default());
    peer.take();
    peer.send(&[0, 0, 0, 3]);
    peer
}

fn two_luns() -> Held {
    let mut model = Model::with_lun("vol0/lun0", MIB);
    model.add_lun("vol1/data", 2 * MIB);
    Held::new(model)
}

#[test]
fn greeting_offers_fixed_newstyle_without_zeroes() {
    let mut peer = Peer::new(Held::with_lun(MIB), Settings::default());
    assert_eq!(peer.take(), b"NBDMAGICIHAVEOPT\x00\x03");
    assert!(peer.session.wants_read());
}

#[test]
fn export_name_is_answered_with_size_flags_and_zeroes() {
    let mut peer = Peer::new(Held::with_lun(MIB), Settings::default());
    peer.take();
    peer.send(&[0, 0, 0, 1]);
    let answer = peer.exchange(b"IHAVEOPT\x00\x00\x00\x01\x00\x00\x00\x09vol0/lun0");
    let mut expected = vec![0, 0, 0, 0, 0, 0x10, 0, 0];
    expected.extend(FLAGS);
    expected.extend([0; 124]);
    assert_eq!(answer, expected);
    assert!(!peer.session.is_in_handshake());
}

#[test]
fn export_name_sends_no_zeroes_if_the_client_wants_none() {
    let mut peer = greeted(Held::with_lun(MIB));
    let answer = peer.exchange(&option(1, b""));
    assert_eq!(answer, [0, 0, 0, 0, 0, 0x10, 0, 0, FLAGS[0], FLAGS[1]]);
}

#[test]
fn export_name_of_an_unknown_export_ends_the_session() {
    let mut peer = greeted(Held::with_lun(MIB));
    assert_eq!(peer.exchange(&option(1, b"nope")), b"");
    assert!(peer.session.is_closed());
}

#[test]
fn go_tells_what_was_asked_and_enters_transmission() {
    let mut peer = greeted(Held::with_lun(MIB));
    let answer = peer.exchange(&option(7, &info_data("vol0/lun0", &[3, 1, 2, 99])));
    let mut export = vec![0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0];
    export.extend(FLAGS);
    let sizes = [0, 3, 0, 0, 0, 1, 0, 0, 0x10, 0, 2, 0, 0, 0];
    let expected = [
        option_reply(7, INFO, &export),
        option_reply(7, INFO, b"\x00\x01vol0/lun0"),
        option_reply(7, INFO, &sizes),
        option_reply(7, ACK, b""),
    ];
    assert_eq!(answer, expected.concat());
    assert!(!peer.session.is_in_handshake());
    assert_eq!(peer.target.open, 1);
}

#[test]
fn info_describes_and_keeps_haggling() {
    let mut peer = greeted(two_luns());
    let answer = peer.exchange(&option(6, &info_data("vol1/data", &[])));
    let mut export = vec![0, 0, 0, 0, 0, 0, 0, 0x20, 0, 0];
    export.extend(FLAGS);
    let expected = [option_reply(6, INFO, &export), option_reply(6, ACK, b"")];
    assert_eq!(answer, expected.concat());
    assert!(peer.session.is_in_handshake());
    assert_eq!(peer.target.open, 0);
    peer.exchange(&option(7, &info_data("vol1/data", &[])));
    assert!(!peer.session.is_in_handshake());
}

#[test]
fn read_only_exports_say_so() {
    let mut target = Held::with_lun(MIB);
    target.model.set_read_only("vol0/lun0", true);
    let mut peer = greeted(target);
    let answer = peer.exchange(&option(1, b""));
    assert_eq!(answer[8..], [FLAGS[0], FLAGS[1] | 2]);
}

#[test]
fn empty_name_is_refused_when_there_are_two_luns_and_says_which() {
    let mut peer = greeted(two_luns());
    let answer = peer.exchange(&option(7, &info_data("", &[])));
    let text = b"name an export, there is more than one: vol0/lun0, vol1/data";
    assert_eq!(answer, option_reply(7, UNKNOWN, text));
    assert!(peer.session.is_in_handshake());
}

#[test]
fn unknown_name_is_refused_with_what_there_is() {
    let mut peer = greeted(two_luns());
    let answer = peer.exchange(&option(7, &info_data("vol0/lun9", &[])));
    let text = br#"no export "vol0/lun9"; there is vol0/lun0, vol1/data"#;
    assert_eq!(answer, option_reply(7, UNKNOWN, text));
    let mut empty = greeted(Held::new(Model::new()));
    let answer = empty.exchange(&option(6, &info_data("", &[])));
    assert_eq!(answer, option_reply(6, UNKNOWN, b"there is no LUN yet"));
}

#[test]
fn error_text_stays_short_whatever_was_asked_and_however_many_luns_there_are() {
    let mut model = Model::new();
    for number in 0..500 {
        model.add_lun(&format!("{}/{number:064}", "v".repeat(64)), MIB);
    }
    let mut peer = greeted(Held::new(model));
    let answer = peer.exchange(&option(7, &info_data(&"\u{1b}".repeat(4096), &[])));
    assert!(answer.len() < 20 + 4096, "{} bytes", answer.len());
    assert!(String::from_utf8_lossy(&answer).ends_with("and 488 more"));
}

#[test]
fn list_names_all_exports() {
    let mut peer = greeted(two_luns());
    let expected = [
        option_reply(3, SERVER, b"\x00\x00\x00\x09vol0/lun0"),
        option_reply(3, SERVER, b"\x00\x00\x00\x09vol1/data"),
        option_reply(3, ACK, b""),
    ];
    assert_eq!(peer.exchange(&option(3, b"")), expected.concat());
    let refused = peer.exchange(&option(3, b"x"));
    assert_eq!(refused, option_reply(3, INVALID, b"LIST takes no data"));
}

#[test]
fn abort_is_acknowledged_and_ends_the_session() {
    let mut peer = greeted(Held::with_lun(MIB));
    assert_eq!(
        peer.exchange(&option(2, b"whatever")),
        option_reply(2, ACK, b"")
    );
    assert!(peer.session.is_closed());
}

#[test]
fn unknown_options_are_unsupported_and_the_next_one_is_understood() {
    let mut peer = greeted(Held::with_lun(MIB));
    for number in [0, 4, 5, 12, 0xffff_ffff] {
        let answer = peer.exchange(&option(number, b"some data"));
        assert_eq!(answer, option_reply(number, UNSUP, b"option not supported"));
    }
    peer.exchange(&option(7, &info_data("", &[])));
    assert!(!peer.session.is_in_handshake());
}

#[test]
fn malformed_info_requests_are_invalid() {
    let good = info_data("vol0/lun0", &[3]);
    let mut bad = vec![
        b"".to_vec(),
        b"\x00".to_vec(),
        b"\xff\xff\xff\xff\x00\x00".to_vec(),
    ];
    bad.push(good[..good.len() - 1].to_vec());
    bad.push([&good[..], b"x"].concat());
    bad.push(info_data("nul\0nul", &[]));
    bad.push(b"\x00\x00\x00\x02\xff\xfe\x00\x00".to_vec());
    bad.push(info_data(&"x".repeat(4097), &[]));
    let mut peer = greeted(Held::with_lun(MIB));
    for data in bad {
        for number in [6, 7] {
            let answer = peer.exchange(&option(number, &data));
            assert_eq!(
                answer,
                option_reply(number, INVALID, b"malformed option data")
            );
        }
    }
    peer.exchange(&option(7, &good));
    assert!(!peer.session.is_in_handshake());
}

#[test]
fn options_that_are_too_long_are_skipped_and_answered() {
    let mut peer = greeted(Held::with_lun(MIB));
    for length in [8193, 100_000, 1 << 20] {
        let answer = peer.exchange(&option(7, &vec![0; length]));
        assert_eq!(
            answer,
            option_reply(7, TOO_BIG, b"option data above 8192 bytes")
        );
    }
    peer.exchange(&option(7, &info_data("", &[])));
    assert!(!peer.session.is_in_handshake());
}

#[test]
fn absurdly_long_options_end_the_session() {
    for (number, length) in [(7, (1u32 << 20) + 1), (99, u32::MAX), (1, 8193)] {
        let mut peer = greeted(Held::with_lun(MIB));
        let mut header = b"IHAVEOPT".to_vec();
        header.extend(u32::to_be_bytes(number));
        header.extend(length.to_be_bytes());
        assert_eq!(peer.exchange(&header), b"");
        assert!(peer.session.is_closed());
    }
}

#[test]
fn unknown_client_flags_end_the_session() {
    let mut peer = Peer::new(Held::with_lun(MIB), Settings::default());
    peer.take();
    peer.exchange(&[0, 0, 0, 7]);
    assert!(peer.session.is_closed());
}

#[test]
fn wrong_option_magic_ends_the_session() {
    let mut peer = greeted(Held::with_lun(MIB));
    peer.exchange(b"IHAVENOT\x00\x00\x00\x01\x00\x00\x00\x00");
    assert!(peer.session.is_closed());
}

#[test]
fn endless_haggling_ends_the_session() {
    let mut peer = greeted(Held::with_lun(MIB));
    let answers = peer.exchange(&option(3, b"").repeat(1000));
    let one = 2 * 20 + 4 + 9;
    assert_eq!(answers.len(), 64 * one);
    assert!(peer.session.is_closed());
}

#[test]
fn options_sent_ahead_wait_until_replies_are_sent() {
    let mut peer = greeted(two_luns());
    peer.send(&option(3, b"").repeat(20));
    assert!(!peer.session.wants_read(), "replies do not pile up");
    let answers = peer.exchange(b"");
    assert_eq!(answers.len(), 20 * (3 * 20 + 2 * 13));
}

#[test]
fn peer_that_leaves_during_the_handshake_is_forgotten() {
    let mut peer = greeted(Held::with_lun(MIB));
    peer.send(b"IHAVE");
    peer.session.received_end(&mut peer.target);
    assert!(peer.session.is_closed());
    assert!(peer.target.exports().len() == 1);
}
