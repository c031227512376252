//! However the stream is cut, the outcome is the same.

use everglade_nbd::Settings;
use everglade_target::conformance::Dice;
use proptest::prelude::*;

use crate::held::Held;
use crate::peer::{
    BLOCK_STATUS, DISC, FLUSH, FUA, Peer, READ, TRIM, WRITE_ZEROES, context_data, info_data,
    option, pattern, request, write,
};

const MIB: u64 = 1 << 20;

/// A whole conversation: all kinds of options and requests, good and bad.
pub(crate) fn conversation(seed: u64) -> Vec<u8> {
    let mut dice = Dice::new(seed);
    let mut bytes = 3u32.to_be_bytes().to_vec();
    bytes.extend(option(8, b""));
    bytes.extend(option(3, b""));
    if dice.once_in(2) {
        bytes.extend(option(6, &info_data("nope", &[0, 1])));
        bytes.extend(option(10, &pattern(seed, 9000)));
    }
    bytes.extend(option(10, &context_data("", &["base:allocation"])));
    bytes.extend(option(7, &info_data("vol0/lun0", &[1, 3])));
    for cookie in 0..30 {
        let mut length = 1 + dice.below(10_000);
        if dice.once_in(10) {
            length = 1 + dice.below(3 * MIB / 2);
        }
        let beyond = if dice.once_in(10) { MIB } else { 0 };
        let offset = dice.below(3 * MIB - length + beyond);
        let length32 = u32::try_from(length).unwrap();
        bytes.extend(match dice.below(8) {
            0..3 => write(0, cookie, offset, &pattern(cookie, length32 as usize)),
            3..6 => request(READ, 0, cookie, offset, length32),
            6 if dice.once_in(2) => request(BLOCK_STATUS, 0, cookie, offset, length32),
            6 => request(TRIM, FUA, cookie, offset, length32),
            _ if dice.once_in(2) => request(FLUSH, 0, cookie, 0, 0),
            _ => request(WRITE_ZEROES, 0, cookie, offset, length32),
        });
    }
    bytes.extend(request(DISC, 0, 0, 0, 0));
    bytes
}

/// Whether the session asks for the reactor of its export.
#[derive(Clone, Copy, PartialEq)]
enum HomeQuestion {
    Asked,
    NotAsked,
}

/// One at a time, so that the order of replies does not depend on how bytes arrive.
fn settings(home: HomeQuestion) -> Settings {
    Settings {
        requests_in_flight_max: 1,
        asks_for_home: home == HomeQuestion::Asked,
        ..Settings::default()
    }
}

fn answers(
    bytes: &[u8],
    cuts: &mut dyn FnMut() -> usize,
    pieces: usize,
    home: HomeQuestion,
) -> (Vec<u8>, Vec<u8>) {
    let mut peer = Peer::new(Held::with_lun(3 * MIB), settings(home));
    peer.pieces = pieces;
    let mut rest = bytes;
    let mut answers = Vec::new();
    let mut idle = 0;
    while !peer.session.is_closed() {
        let now = cuts().min(rest.len());
        let sent = peer.send(&rest[..now]);
        rest = &rest[sent..];
        peer.work();
        peer.chunk = cuts();
        answers.extend(peer.take());
        peer.chunk = cuts();
        idle = if rest.is_empty() { idle + 1 } else { 0 };
        assert!(idle < 1000, "the conversation ends by itself");
    }
    (answers, peer.target.model.bytes("vol0/lun0", 0, 3 << 20))
}

#[test]
fn byte_by_byte_is_like_all_at_once() {
    let bytes = conversation(1);
    let whole = answers(&bytes, &mut || usize::MAX, 300, HomeQuestion::NotAsked);
    for home in [HomeQuestion::NotAsked, HomeQuestion::Asked] {
        assert!(whole == answers(&bytes, &mut || 1, 300, home));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn however_cut_the_outcome_is_the_same(
        seed: u64, cut_max in 1u64..20_000, pieces in 1usize..70,
    ) {
        let bytes = conversation(seed % 20);
        let whole = answers(&bytes, &mut || usize::MAX, 300, HomeQuestion::NotAsked);
        let mut dice = Dice::new(seed);
        let home = if dice.once_in(2) { HomeQuestion::Asked } else { HomeQuestion::NotAsked };
        let mut cuts = || 1 + usize::try_from(dice.below(cut_max)).unwrap();
        prop_assert!(whole == answers(&bytes, &mut cuts, pieces, home));
    }
}
