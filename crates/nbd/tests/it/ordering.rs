//! Pipelined requests whose operations complete in any order.

use std::collections::BTreeMap;

use everglade_nbd::Settings;
use everglade_nbd::wire::SimpleReply;
use everglade_target::conformance::Dice;
use proptest::prelude::*;

use crate::held::Held;
use crate::peer::{FLUSH, Peer, READ, pattern, reply, request, write};

const MIB: u64 = 1 << 20;

#[test]
fn replies_go_out_in_the_order_operations_finish() {
    let mut peer = Peer::in_transmission(Held::with_lun(MIB), Settings::default());
    peer.target.flowing = false;
    let messages: Vec<u8> = (0..5).flat_map(|c| write(0, c, c * 4096, b"abc")).collect();
    assert_eq!(peer.exchange(&messages), b"");
    for index in [3, 0, 2, 0, 0] {
        peer.target.release(index);
    }
    let expected: Vec<u8> = [3, 0, 4, 1, 2]
        .into_iter()
        .flat_map(|c| reply(0, c))
        .collect();
    assert_eq!(peer.exchange(b""), expected);
}

#[test]
fn reads_of_several_slices_are_put_together_in_order() {
    let mut peer = Peer::in_transmission(Held::with_lun(16 * MIB), Settings::default());
    let bytes = pattern(1, 8 << 20);
    peer.exchange(&write(0, 1, 5000, &bytes));
    peer.target.flowing = false;
    peer.exchange(&request(READ, 0, 2, 5000, 8 << 20));
    peer.target.held.reverse();
    peer.target.release_all();
    let answer = peer.exchange(b"");
    assert_eq!(answer[..16], reply(0, 2));
    assert!(answer[16..] == bytes);
}

#[test]
fn reads_that_came_together_are_announced_before_the_first_of_them_is_submitted() {
    let mut peer = Peer::in_transmission(Held::with_lun(MIB), Settings::default());
    let read = |number: u64| request(READ, 0, number, number * 4096, 4096);
    let reads = |numbers: std::ops::Range<u64>| -> Vec<(u64, u32)> {
        numbers.map(|number| (number * 4096, 4096)).collect()
    };
    peer.exchange(&read(0));
    assert_eq!(peer.target.expected, [[]; 0], "there is nothing to gain");
    let head: Vec<u8> = (1..4).flat_map(read).collect();
    let tail: Vec<u8> = (5..45).flat_map(read).collect();
    let answer = peer.exchange(&[head, write(0, 4, 0, b"abc"), tail].concat());
    let (three, forty) = (reads(1..4), reads(5..45));
    assert_eq!(
        peer.target.expected,
        [&three[..], &forty[..32], &forty[32..]]
    );
    assert_eq!(answer.len(), 43 * (16 + 4096) + 16);
    assert_eq!(peer.target.log.len(), 45, "each is submitted as ever");
}

#[test]
fn what_is_announced_may_be_refused_afterwards() {
    let mut peer = Peer::in_transmission(Held::with_lun(MIB), Settings::default());
    let messages = [
        request(READ, 0, 1, u64::MAX, u32::MAX),
        request(READ, 0, 2, 0, 4),
        request(READ, 0xff00, 3, 0, 4),
        request(READ, 0, 4, 0, 4),
    ];
    let answer = peer.exchange(&messages.concat());
    let zeroes = |cookie| [reply(0, cookie), vec![0; 4]].concat();
    let expected = [reply(22, 1), reply(22, 3), zeroes(2), zeroes(4)];
    assert_eq!(answer, expected.concat());
    assert_eq!(peer.target.expected.len(), 1, "all of them at once");
}

#[test]
fn cookies_may_repeat() {
    let mut peer = Peer::in_transmission(Held::with_lun(MIB), Settings::default());
    let messages = [request(FLUSH, 0, 1, 0, 0), request(FLUSH, 0, 1, 0, 0)].concat();
    assert_eq!(
        peer.exchange(&messages),
        [reply(0, 1), reply(0, 1)].concat()
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Reads of many lengths, completed in random order and sent in random portions: every reply
    /// carries its own bytes.
    #[test]
    fn every_reply_carries_its_own_data(seed: u64, count in 1usize..60, pieces in 1usize..40) {
        let mut dice = Dice::new(seed);
        let mut peer = Peer::in_transmission(Held::with_lun(4 * MIB), Settings::default());
        let ground = pattern(seed, 4 << 20);
        peer.exchange(&write(0, 0, 0, &ground));
        peer.target.flowing = false;
        peer.pieces = pieces;
        let mut asked = BTreeMap::new();
        let mut answers = Vec::new();
        for cookie in 0..count as u64 {
            let length_max = if dice.once_in(8) { 3 << 20 } else { 9000 };
            let length = 1 + dice.below(length_max);
            let offset = dice.below(4 * MIB - length);
            let length = u32::try_from(length).unwrap();
            asked.insert(cookie, (usize::try_from(offset).unwrap(), length as usize));
            let message = request(READ, 0, cookie, offset, length);
            let mut sent = 0;
            while sent < message.len() {
                sent += peer.send(&message[sent..]);
                if sent < message.len() || dice.once_in(3) {
                    let held = peer.target.held.len() as u64;
                    if held > 0 {
                        peer.target.release(usize::try_from(dice.below(held)).unwrap());
                    }
                    peer.work();
                    peer.chunk = 1 + usize::try_from(dice.below(100_000)).unwrap();
                    answers.extend(peer.take());
                    peer.chunk = usize::MAX;
                }
            }
        }
        while !peer.target.held.is_empty() || peer.session.wants_write() {
            let held = peer.target.held.len() as u64;
            if held > 0 {
                peer.target.release(usize::try_from(dice.below(held)).unwrap());
            }
            peer.work();
            answers.extend(peer.take());
        }
        let mut rest = &answers[..];
        while let Some((head, after)) = rest.split_first_chunk() {
            let answer = SimpleReply::parse(head).unwrap();
            prop_assert_eq!(answer.error, 0);
            let (offset, length) = asked.remove(&answer.cookie).unwrap();
            prop_assert!(after[..length] == ground[offset..offset + length]);
            rest = &after[length..];
        }
        prop_assert!(rest.is_empty() && asked.is_empty());
        prop_assert_eq!(peer.session.payload_in_flight(), 0);
    }
}
