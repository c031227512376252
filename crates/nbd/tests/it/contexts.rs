//! Metadata contexts: their choice, and the answers of `BLOCK_STATUS`.

use everglade_nbd::Settings;
use everglade_target::model::Model;

use crate::held::Held;
use crate::peer::{
    BLOCK_STATUS, Peer, REQ_ONE, TRIM, chunk, context_data, info_data, option, option_reply,
    pattern, request, write,
};

const MIB: u64 = 1 << 20;
const LIST: u32 = 9;
const SET: u32 = 10;
const CONTEXT: u32 = 4;
const ACK: u32 = 1;
const INVALID: u32 = (1 << 31) + 3;
const UNKNOWN: u32 = (1 << 31) + 6;
const ALLOCATION: &str = "base:allocation";
const STATUS: u16 = 5;
const ERROR: u16 = 0x8001;

fn haggling() -> Peer {
    let mut model = Model::with_lun("vol0/lun0", MIB);
    model.add_lun("vol0/other", MIB);
    let mut peer = Peer::new(Held::new(model), Settings::default());
    peer.exchange(&3u32.to_be_bytes());
    peer.exchange(&option(8, b""));
    peer
}

fn with_context(size_bytes: u64) -> Peer {
    let set = option(SET, &context_data("", &[ALLOCATION]));
    Peer::after_options(Held::with_lun(size_bytes), &[option(8, b""), set])
}

fn named(option: u32, id: u32) -> Vec<u8> {
    let data = [&id.to_be_bytes()[..], ALLOCATION.as_bytes()].concat();
    option_reply(option, CONTEXT, &data)
}

fn status(extents: &[(u32, u32)]) -> Vec<u8> {
    status_of(1, extents)
}

fn status_of(context: u8, extents: &[(u32, u32)]) -> Vec<u8> {
    let mut bytes = vec![0, 0, 0, context];
    for (length, state) in extents {
        bytes.extend(length.to_be_bytes());
        bytes.extend(state.to_be_bytes());
    }
    bytes
}

#[test]
fn contexts_are_listed_by_name_by_namespace_and_all() {
    let mut peer = haggling();
    let ack = option_reply(LIST, ACK, b"");
    for (queries, is_there) in [
        (&[][..], true),
        (&[ALLOCATION], true),
        (&["base:"], true),
        (&["base:", ALLOCATION, "x-y:z"], true),
        (&["base:other"], false),
        (&["qemu:"], false),
        (&["nonsense"], false),
    ] {
        let answer = peer.exchange(&option(LIST, &context_data("vol0/lun0", queries)));
        let expected = if is_there { named(LIST, 0) } else { Vec::new() };
        assert_eq!(answer, [&expected[..], &ack].concat(), "{queries:?}");
    }
}

#[test]
fn contexts_need_structured_replies_a_known_export_and_sound_data() {
    let mut peer = Peer::new(Held::with_lun(MIB), Settings::default());
    peer.exchange(&3u32.to_be_bytes());
    for number in [LIST, SET] {
        let answer = peer.exchange(&option(number, &context_data("", &[ALLOCATION])));
        let text = b"structured replies must be negotiated first";
        assert_eq!(answer, option_reply(number, INVALID, text));
    }
    let mut peer = haggling();
    let good = context_data("vol0/lun0", &[ALLOCATION]);
    for data in [
        &b""[..],
        &good[..good.len() - 1],
        &[&good[..], b"x"].concat(),
        &[&good[..13], &[255; 4], &good[17..]].concat(),
    ] {
        let answer = peer.exchange(&option(SET, data));
        assert_eq!(answer, option_reply(SET, INVALID, b"malformed option data"));
    }
    let answer = peer.exchange(&option(SET, &context_data("vol0/none", &[ALLOCATION])));
    assert_eq!(answer[12..16], UNKNOWN.to_be_bytes());
}

#[test]
fn a_wildcard_chooses_nothing() {
    let mut peer = haggling();
    let answer = peer.exchange(&option(SET, &context_data("vol0/lun0", &["base:"])));
    assert_eq!(answer, option_reply(SET, ACK, b""));
    let answer = peer.exchange(&option(SET, &context_data("vol0/lun0", &[ALLOCATION])));
    let expected = [named(SET, 1), option_reply(SET, ACK, b"")].concat();
    assert_eq!(answer, expected);
}

#[test]
fn extents_are_told_to_the_block() {
    let mut peer = with_context(MIB);
    peer.exchange(&write(0, 1, 8192, &pattern(1, 4097)));
    let answer = peer.exchange(&request(BLOCK_STATUS, 0, 2, 0, 1 << 20));
    let all = [(8192, 3), (8192, 0), ((1 << 20) - 16_384, 3)];
    assert_eq!(answer, chunk(true, STATUS, 2, &status(&all)));
    let answer = peer.exchange(&request(BLOCK_STATUS, REQ_ONE, 3, 8190, 100));
    assert_eq!(answer, chunk(true, STATUS, 3, &status(&[(2, 3)])));
    peer.exchange(&request(TRIM, 0, 4, 8192, 8192));
    let answer = peer.exchange(&request(BLOCK_STATUS, 0, 5, 8190, 100));
    assert_eq!(answer, chunk(true, STATUS, 5, &status(&[(100, 3)])));
    assert_eq!(peer.session.payload_in_flight(), 0);
}

#[test]
fn an_answer_has_a_bound() {
    let mut peer = with_context(64 * MIB);
    for block in 0..4200 {
        peer.exchange(&write(0, 1, block * 8192, b"x"));
    }
    let answer = peer.exchange(&request(BLOCK_STATUS, 0, 2, 0, 64 << 20));
    assert_eq!(answer.len(), 20 + 4 + 4096 * 8);
}

#[test]
fn block_status_is_refused_without_a_context_for_this_export() {
    let refuses = |peer: &mut Peer| {
        let answer = peer.exchange(&request(BLOCK_STATUS, 0, 2, 0, 4096));
        let text = "no metadata context was chosen for this export";
        let mut data = 22u32.to_be_bytes().to_vec();
        data.extend(u16::try_from(text.len()).unwrap().to_be_bytes());
        data.extend(text.as_bytes());
        answer == chunk(true, ERROR, 2, &data)
    };
    let lun0 = |queries: &[&str]| option(SET, &context_data("vol0/lun0", queries));
    let other = option(SET, &context_data("vol0/other", &[ALLOCATION]));
    let failing = option(SET, &context_data("vol0/none", &[ALLOCATION]));
    let long = option(SET, &[0; 9000]);
    let listed = option(LIST, &context_data("vol0/lun0", &[ALLOCATION]));
    let good = lun0(&[ALLOCATION]);
    for (options, refused) in [
        (vec![], true),
        (vec![&good], false),
        (vec![&listed], true),
        (vec![&good, &lun0(&[])], true),
        (vec![&good, &other], true),
        (vec![&good, &failing], true),
        (vec![&good, &long], true),
        (vec![&good, &other, &good], false),
    ] {
        let mut peer = haggling();
        for message in &options {
            peer.exchange(message);
        }
        peer.exchange(&option(7, &info_data("vol0/lun0", &[])));
        assert_eq!(refuses(&mut peer), refused, "{options:?}");
    }
}

#[test]
fn no_extents_of_no_bytes_or_beyond_the_end() {
    let mut peer = with_context(MIB);
    for (offset, length) in [(0, 0), (MIB, 1), (0, (1 << 20) + 1), (u64::MAX, 5)] {
        let answer = peer.exchange(&request(BLOCK_STATUS, 0, 2, offset, length));
        assert_eq!(answer[6..8], ERROR.to_be_bytes());
        assert_eq!(answer[20..24], 22u32.to_be_bytes());
    }
}

fn changed(option: u32, id: u32, image: &str) -> Vec<u8> {
    let name = format!("everglade:changed:{image}");
    let data = [&id.to_be_bytes()[..], name.as_bytes()].concat();
    option_reply(option, CONTEXT, &data)
}

/// A LUN with the images `a` and `b`; one block was written before `b`, and another after it.
fn with_images() -> Held {
    let mut held = Held::with_lun(MIB);
    held.model.keep_image("vol0/lun0", "a");
    held.model.write("vol0/lun0", 4096, &[1; 4096]);
    held.model.keep_image("vol0/lun0", "b");
    held.model.write("vol0/lun0", 65_536, &[2; 4096]);
    held
}

#[test]
fn images_are_contexts_of_their_own() {
    let mut peer = Peer::new(with_images(), Settings::default());
    peer.exchange(&3u32.to_be_bytes());
    peer.exchange(&option(8, b""));
    let ack = option_reply(LIST, ACK, b"");
    let (a, b) = (changed(LIST, 0, "a"), changed(LIST, 0, "b"));
    let both = [&a[..], &b].concat();
    for (export, queries, expected) in [
        ("vol0/lun0", &[][..], [&named(LIST, 0)[..], &both].concat()),
        ("vol0/lun0", &["everglade:"], both.clone()),
        ("vol0/lun0", &["everglade:changed:"], both.clone()),
        ("vol0/lun0", &["everglade:changed:b"], b.clone()),
        ("vol0/lun0", &["everglade:changed:c"], Vec::new()),
        ("vol0/lun0@b", &["everglade:"], a.clone()),
    ] {
        let answer = peer.exchange(&option(LIST, &context_data(export, queries)));
        assert_eq!(
            answer,
            [&expected[..], &ack].concat(),
            "{export} {queries:?}"
        );
    }
    let none = ["everglade:changed:", "everglade:changed:c"];
    let answer = peer.exchange(&option(SET, &context_data("vol0/lun0", &none)));
    assert_eq!(
        answer,
        option_reply(SET, ACK, b""),
        "a wildcard chooses nothing"
    );
}

#[test]
fn what_changed_since_images_is_told_beside_what_takes_space() {
    let queries = ["everglade:changed:b", ALLOCATION, "everglade:changed:a"];
    let set = option(SET, &context_data("", &queries));
    let mut peer = Peer::after_options(with_images(), &[option(8, b""), set]);
    assert_eq!(peer.target.open, 3, "the LUN and its images");
    let answer = peer.exchange(&request(BLOCK_STATUS, 0, 2, 0, 1 << 20));
    let rest = (1 << 20) - 69_632;
    let space = [(4096, 3), (4096, 0), (57_344, 3), (4096, 0), (rest, 3)];
    let since_a = [(4096, 0), (4096, 1), (57_344, 0), (4096, 1), (rest, 0)];
    let since_b = [(65_536, 0), (4096, 1), (rest, 0)];
    let expected = [
        chunk(false, STATUS, 2, &status_of(1, &space)),
        chunk(false, STATUS, 2, &status_of(2, &since_a)),
        chunk(true, STATUS, 2, &status_of(3, &since_b)),
    ];
    assert_eq!(answer, expected.concat());
    assert_eq!(peer.session.payload_in_flight(), 0);
    peer.session.received_end(&mut peer.target);
    assert!(peer.session.is_closed());
    assert_eq!(peer.target.open, 0, "everything was closed");
}

#[test]
fn an_image_that_is_deleted_before_the_export_is_opened_is_said_to_be_gone() {
    let mut peer = Peer::new(with_images(), Settings::default());
    peer.exchange(&3u32.to_be_bytes());
    peer.exchange(&option(8, b""));
    peer.exchange(&option(SET, &context_data("", &["everglade:changed:a"])));
    peer.target.model.remove_lun("vol0/lun0@a");
    peer.exchange(&option(7, &info_data("vol0/lun0", &[])));
    let answer = peer.exchange(&request(BLOCK_STATUS, 0, 2, 0, 4096));
    assert_eq!(answer[6..8], ERROR.to_be_bytes());
    let text = String::from_utf8_lossy(&answer);
    assert!(
        text.contains("snapshot to tell changes since was deleted"),
        "{text}"
    );
}

#[test]
fn more_images_than_a_session_may_compare_with_are_refused() {
    let mut held = Held::with_lun(MIB);
    let names: Vec<String> = (10..27).map(|number| format!("s{number}")).collect();
    for name in &names {
        held.model.keep_image("vol0/lun0", name);
    }
    let queries: Vec<String> = names
        .iter()
        .map(|name| format!("everglade:changed:{name}"))
        .collect();
    let queries: Vec<&str> = queries.iter().map(String::as_str).collect();
    let mut peer = Peer::new(held, Settings::default());
    peer.exchange(&3u32.to_be_bytes());
    peer.exchange(&option(8, b""));
    let answer = peer.exchange(&option(SET, &context_data("", &queries)));
    assert_eq!(
        answer[12..16],
        ((1u32 << 31) + 9).to_be_bytes(),
        "ERR_TOO_BIG"
    );
    let answer = peer.exchange(&option(SET, &context_data("", &queries[..16])));
    assert!(answer.ends_with(&option_reply(SET, ACK, b"")));
}
