//! Data of writes and reads: bursts, windows, digests, and everything that may be wrong with them.

use everglade_iscsi::Settings;
use everglade_iscsi::wire::request::{self, Request};
use everglade_iscsi::wire::{Numbers, Response};

use crate::held::Held;
use crate::initiator::{Answer, CHECK, GOOD, Initiator, KEYS, ping};

const DIGESTS: &[(&str, &str)] = &[
    ("HeaderDigest", "CRC32C"),
    ("DataDigest", "CRC32C"),
    ("MaxRecvDataSegmentLength", "8192"),
    ("MaxBurstLength", "16384"),
    ("MaxOutstandingR2T", "2"),
];

fn bytes(count: usize) -> Vec<u8> {
    (0..count)
        .map(|place| u8::try_from(place / 3 % 251).unwrap())
        .collect()
}

#[test]
fn long_data_is_asked_for_in_bursts_within_the_window() {
    for chunk in [1, 1000, usize::MAX] {
        for (keys, burst, most) in [(KEYS, 262_144, 2), (DIGESTS, 16_384, 2)] {
            let target = Held::with_lun(4 << 20);
            let mut initiator = Initiator::logged_in(target, Settings::default(), keys);
            // One byte at a time is slow: once is enough.
            let count = if chunk == 1 { 40_960 } else { 1 << 20 };
            initiator.chunk = chunk;
            let data = bytes(count);
            let blocks = u32::try_from(count / 512).unwrap();
            let length = u32::try_from(count).unwrap();
            let command = initiator.next_command(&Initiator::write_16(3, blocks), 0, length);
            let mut asked: Vec<Answer> = initiator.send(&Request::Command(command), false, &[]);
            let mut count_max = 0;
            while !matches!(asked[0].response, Response::Status { .. }) {
                count_max = count_max.max(asked.len());
                let Response::ReadyToTransfer {
                    ttt,
                    offset,
                    length,
                    ..
                } = asked.remove(0).response
                else {
                    panic!("a request for data");
                };
                assert!(length <= burst);
                let part = &data[offset as usize..][..length as usize];
                let (first, second) = part.split_at(part.len() / 8 * 4);
                let split = u32::try_from(first.len()).unwrap();
                let one = initiator.data_out(command.itt, ttt, 0, offset, false);
                assert_eq!(
                    initiator.send(&Request::DataOut(one), false, first).len(),
                    0
                );
                let two = initiator.data_out(command.itt, ttt, 1, offset + split, true);
                asked.extend(initiator.send(&Request::DataOut(two), false, second));
            }
            assert!(count_max <= most);
            assert_eq!(Initiator::outcome(&asked).0, GOOD);
            let stored = initiator.target.model.bytes("vol0/lun0", 3 * 512, length);
            assert_eq!(stored, data);
            assert_eq!(initiator.target.log.len(), 1, "one operation");
            let read = initiator.read(&Initiator::read_16(3, blocks), length);
            assert_eq!(read, (GOOD, data));
        }
    }
}

#[test]
fn data_comes_with_the_command_and_after_it_without_being_asked_for() {
    let mut initiator = Initiator::standard(1 << 20);
    let data = bytes(65_536);
    let mut command = initiator.next_command(&Initiator::write_16(0, 128), 0, 65_536);
    command.is_final = false;
    let (first, rest) = data.split_at(8192);
    assert_eq!(
        initiator
            .send(&Request::Command(command), false, first)
            .len(),
        0
    );
    let (second, third) = rest.split_at(8192);
    let message = initiator.data_out(command.itt, 0xffff_ffff, 0, 8192, false);
    assert_eq!(
        initiator
            .send(&Request::DataOut(message), false, second)
            .len(),
        0
    );
    let message = initiator.data_out(command.itt, 0xffff_ffff, 1, 16_384, true);
    let answers = initiator.send(&Request::DataOut(message), false, third);
    assert_eq!(Initiator::outcome(&answers).0, GOOD);
    assert_eq!(initiator.target.model.bytes("vol0/lun0", 0, 65_536), data);
}

/// A write of 1,024 blocks that waits for data: its tag and the first request for data.
fn waiting(initiator: &mut Initiator) -> (u32, u32, u32) {
    let command = initiator.next_command(&Initiator::write_16(0, 1024), 0, 524_288);
    let asked = initiator.send(&Request::Command(command), false, &[]);
    let Response::ReadyToTransfer { ttt, length, .. } = asked[0].response else {
        panic!("a request for data");
    };
    (command.itt, ttt, length)
}

#[test]
fn data_that_was_not_asked_for_like_this_fails_the_command() {
    type Mistake = fn(u32, u32) -> (u32, u32, u32, bool, u32);
    // Tag, number, place, the last, length.
    let mistakes: [Mistake; 7] = [
        |ttt, _| (ttt + 7, 0, 0, false, 512),
        |ttt, _| (ttt, 1, 0, false, 512),
        |ttt, _| (ttt, 0, 512, false, 512),
        |ttt, _| (ttt, 0, 0, true, 512),
        |ttt, length| (ttt, 0, 0, false, length),
        |ttt, length| (ttt, 0, 0, true, length + 4),
        |_, _| (0xffff_ffff, 0, 0, true, 512),
    ];
    for mistake in mistakes {
        let mut initiator = Initiator::standard(1 << 20);
        let (itt, ttt, length) = waiting(&mut initiator);
        let (ttt, data_sn, offset, is_final, length) = mistake(ttt, length);
        let message = initiator.data_out(itt, ttt, data_sn, offset, is_final);
        let answers = initiator.send(&Request::DataOut(message), false, &vec![1; length as usize]);
        let (status, data) = Initiator::outcome(&answers);
        assert_eq!(Initiator::codes(status, &data), (11, 0x4b, 0));
        assert_eq!(initiator.target.log.len(), 0, "nothing was written");
        // The rest of the data is for nobody, and harms nobody.
        let message = initiator.data_out(itt, ttt, 1, 512, true);
        assert_eq!(
            initiator
                .send(&Request::DataOut(message), false, &[1; 512])
                .len(),
            0
        );
        assert_eq!(initiator.read(&[0; 6], 0).0, GOOD);
        assert_eq!(initiator.session.operations_in_flight(), 0);
    }
}

#[test]
fn data_that_was_not_agreed_on_fails_the_command() {
    let keys = &[("InitialR2T", "Yes"), ("ImmediateData", "No")];
    for (keys, is_final, count) in [
        (&keys[..], true, 512),
        (&keys[..], false, 0),
        (KEYS, true, 65_540),
        (KEYS, true, 1024),
    ] {
        let target = Held::with_lun(1 << 20);
        let mut initiator = Initiator::logged_in(target, Settings::default(), keys);
        let length = if count == 1024 { 512 } else { 131_072 };
        let blocks = length / 512;
        let mut command = initiator.next_command(&Initiator::write_16(0, blocks), 0, length);
        command.is_final = is_final;
        let answers = initiator.send(&Request::Command(command), false, &vec![1; count]);
        let (status, data) = Initiator::outcome(&answers);
        assert_eq!(Initiator::codes(status, &data), (11, 0x0c, 0x0c));
        assert_eq!(initiator.read(&[0; 6], 0).0, GOOD, "the stream is in step");
        assert_eq!(initiator.target.log.len(), 0);
    }
}

#[test]
fn a_wrong_digest_of_data_fails_the_command_and_of_a_header_the_connection() {
    let target = Held::with_lun(1 << 20);
    let mut initiator = Initiator::logged_in(target, Settings::default(), DIGESTS);
    let command = initiator.next_command(&Initiator::write_16(0, 1), 0, 512);
    let mut message = initiator.message(&Request::Command(command), false, &[1; 512]);
    let last = message.len() - 1;
    message[last] ^= 1;
    let answers = initiator.send_bytes(&message);
    assert!(matches!(
        answers[0].response,
        Response::Reject { reason: 2 }
    ));
    assert_eq!(answers[0].data.len(), 48);
    let (status, data) = Initiator::outcome(&answers[1..]);
    assert_eq!(Initiator::codes(status, &data), (11, 0x47, 5));
    assert_eq!(initiator.target.log.len(), 0, "nothing was written");
    assert_eq!(
        initiator.write(&Initiator::write_16(0, 1), &[2; 512]).0,
        GOOD
    );
    let command = initiator.next_command(&Initiator::write_16(0, 1), 0, 512);
    let mut message = initiator.message(&Request::Command(command), false, &[3; 512]);
    message[50] ^= 1;
    assert_eq!(initiator.send_bytes(&message).len(), 0);
    assert!(initiator.session.is_closed());
    assert_eq!(initiator.target.model.bytes("vol0/lun0", 0, 1), [2]);
}

#[test]
fn numbers_outside_of_the_window_are_ignored_and_gaps_end_the_connection() {
    let mut initiator = Initiator::standard(1 << 20);
    let numbers: Numbers = initiator.send(&ping(9, initiator.cmd_sn), true, &[])[0].numbers;
    assert_eq!(numbers.exp_cmd_sn, initiator.cmd_sn);
    for wrong in [
        numbers.max_cmd_sn.wrapping_add(1),
        numbers.exp_cmd_sn.wrapping_sub(1),
        numbers.exp_cmd_sn.wrapping_sub(1000),
    ] {
        let mut command = initiator.next_command(&Initiator::write_16(0, 1), 0, 512);
        initiator.cmd_sn -= 1;
        command.cmd_sn = wrong;
        assert_eq!(
            initiator
                .send(&Request::Command(command), false, &[1; 512])
                .len(),
            0
        );
    }
    assert_eq!(initiator.read(&[0; 6], 0).0, GOOD);
    let mut command = initiator.next_command(&[0; 6], 0, 0);
    command.cmd_sn += 1;
    let answers = initiator.send(&Request::Command(command), false, &[]);
    assert!(matches!(
        answers[0].response,
        Response::Reject { reason: 4 }
    ));
    assert!(initiator.session.is_closed());
    assert_eq!(initiator.target.log.len(), 0);
}

#[test]
fn the_window_closes_while_commands_are_under_way_and_opens_with_their_statuses() {
    let settings = Settings {
        commands_max: 4,
        ..Settings::default()
    };
    let mut initiator = Initiator::logged_in(Held::with_lun(1 << 20), settings, KEYS);
    initiator.target.flowing = false;
    for _ in 0..4 {
        let command = initiator.next_command(&Initiator::read_16(0, 1), 512, 0);
        assert_eq!(
            initiator.send(&Request::Command(command), false, &[]).len(),
            0
        );
    }
    // The fifth is outside of the window.
    let command = initiator.next_command(&[0; 6], 0, 0);
    initiator.cmd_sn -= 1;
    assert_eq!(
        initiator.send(&Request::Command(command), false, &[]).len(),
        0
    );
    let numbers = initiator.send(&ping(9, initiator.cmd_sn), true, &[])[0].numbers;
    assert_eq!(
        numbers.max_cmd_sn.wrapping_add(1),
        numbers.exp_cmd_sn,
        "closed"
    );
    initiator.target.flowing = true;
    let answers = initiator.send_bytes(&[]);
    let windows = answers
        .iter()
        .map(|it| it.numbers.max_cmd_sn - it.numbers.exp_cmd_sn + 1);
    assert_eq!(windows.collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert_eq!(initiator.read(&[0; 6], 0).0, GOOD);
}

#[test]
fn a_tag_in_use_is_rejected() {
    let mut initiator = Initiator::standard(1 << 20);
    let (itt, ..) = waiting(&mut initiator);
    let mut command = initiator.next_command(&[0; 6], 0, 0);
    command.itt = itt;
    let answers = initiator.send(&Request::Command(command), false, &[]);
    assert!(matches!(
        answers[0].response,
        Response::Reject { reason: 7 }
    ));
}

fn manage(initiator: &mut Initiator, function: u8, referenced: u32) -> Vec<Answer> {
    let request = Request::TaskManagement(request::TaskManagement {
        function,
        lun: 0,
        itt: 5000,
        referenced,
        cmd_sn: initiator.cmd_sn,
        referenced_cmd_sn: 0,
    });
    initiator.send(&request, true, &[])
}

#[test]
fn an_aborted_command_has_no_status_and_does_nothing_after_the_answer() {
    let mut initiator = Initiator::standard(1 << 20);
    let (itt, ttt, _) = waiting(&mut initiator);
    let answers = manage(&mut initiator, 1, itt);
    assert!(matches!(
        answers[..],
        [Answer {
            response: Response::TaskManagement { response: 0, .. },
            ..
        }]
    ));
    let message = initiator.data_out(itt, ttt, 0, 0, false);
    assert_eq!(
        initiator
            .send(&Request::DataOut(message), false, &[1; 512])
            .len(),
        0
    );
    let answers = manage(&mut initiator, 1, itt);
    assert!(matches!(
        answers[0].response,
        Response::TaskManagement { response: 1, .. }
    ));
    // One whose operation is under way keeps the answer waiting.
    initiator.target.flowing = false;
    let command = initiator.next_command(&Initiator::write_16(0, 1), 0, 512);
    assert_eq!(
        initiator
            .send(&Request::Command(command), false, &[1; 512])
            .len(),
        0
    );
    assert_eq!(manage(&mut initiator, 2, 0).len(), 0);
    initiator.target.flowing = true;
    let answers = initiator.send_bytes(&[]);
    assert!(matches!(
        answers[..],
        [Answer {
            response: Response::TaskManagement { response: 0, .. },
            ..
        }]
    ));
    assert_eq!(initiator.read(&[0; 6], 0).0, GOOD);
    for (function, expected) in [(3, 5), (8, 4), (7, 5)] {
        let answers = manage(&mut initiator, function, 0);
        let Response::TaskManagement { response, .. } = answers[0].response else {
            panic!("{answers:?}");
        };
        assert_eq!(response, expected);
    }
}

#[test]
fn a_reset_aborts_all_and_everybody_is_told() {
    let mut initiator = Initiator::standard(1 << 20);
    waiting(&mut initiator);
    waiting(&mut initiator);
    let answers = manage(&mut initiator, 5, 0);
    assert!(matches!(
        answers[..],
        [Answer {
            response: Response::TaskManagement { response: 0, .. },
            ..
        }]
    ));
    assert_eq!(initiator.sense(&[0; 6]), (6, 0x29, 3));
    assert_eq!(initiator.read(&[0; 6], 0).0, GOOD);
}

#[test]
fn a_logout_waits_for_commands_under_way_and_closes() {
    let mut initiator = Initiator::standard(1 << 20);
    initiator.target.flowing = false;
    let command = initiator.next_command(&Initiator::write_16(0, 1), 0, 512);
    initiator.send(&Request::Command(command), false, &[1; 512]);
    let logout = |reason, cmd_sn| {
        Request::Logout(request::Logout {
            reason,
            itt: 6000,
            cid: 0,
            cmd_sn,
        })
    };
    let answers = initiator.send(&logout(2, initiator.cmd_sn), true, &[]);
    assert!(matches!(
        answers[0].response,
        Response::Logout { response: 2, .. }
    ));
    assert_eq!(
        initiator
            .send(&logout(0, initiator.cmd_sn), false, &[])
            .len(),
        0
    );
    initiator.target.flowing = true;
    let answers = initiator.send_bytes(&[]);
    assert!(matches!(
        answers[..],
        [Answer {
            response: Response::Logout { response: 0, .. },
            ..
        }]
    ));
    assert!(initiator.session.is_closed());
    assert_eq!(initiator.target.open, 0);
}

#[test]
fn what_is_not_understood_is_rejected() {
    let mut initiator = Initiator::standard(1 << 20);
    let mut snack = [0; 48];
    snack[0] = 0x10;
    let answers = initiator.send_bytes(&snack);
    assert!(matches!(
        answers[0].response,
        Response::Reject { reason: 3 }
    ));
    assert_eq!(answers[0].data, snack);
    snack[0] = 0x1c;
    let answers = initiator.send_bytes(&snack);
    assert!(matches!(
        answers[0].response,
        Response::Reject { reason: 5 }
    ));
    assert_eq!(initiator.read(&[0; 6], 0).0, GOOD);
    // Longer than a message may be.
    let mut long = [0; 48];
    (long[0], long[5]) = (1, 0xff);
    initiator.send_bytes(&long);
    assert!(initiator.session.is_closed());
}

/// Random operations through whole sessions, compared with an array.
#[test]
fn random_commands_do_what_an_array_would_do() {
    for (seed, keys) in [(1, KEYS), (2, DIGESTS), (3, KEYS), (4, DIGESTS)] {
        let mut dice = everglade_target::conformance::Dice::new(seed);
        const BLOCKS: u64 = 4096;
        let target = Held::with_lun(BLOCKS * 512);
        let mut initiator = Initiator::logged_in(target, Settings::default(), keys);
        initiator.chunk = usize::try_from(1 + dice.below(70_000)).unwrap();
        let mut array = vec![0; usize::try_from(BLOCKS).unwrap() * 512];
        for _ in 0..300 {
            let most = if dice.once_in(8) { 2048 } else { 40 };
            let blocks = 1 + dice.below(most);
            let lba = dice.below(BLOCKS - blocks + 1);
            let at = usize::try_from(lba).unwrap() * 512;
            let count = usize::try_from(blocks).unwrap() * 512;
            let blocks = u32::try_from(blocks).unwrap();
            let range = at..at + count;
            match dice.below(6) {
                0 | 1 => {
                    let data = dice.bytes(count);
                    let cdb = Initiator::cdb_16(dice.pick(&[0x8a, 0x8e]), 0, lba, blocks);
                    assert_eq!(initiator.write(&cdb, &data).0, GOOD);
                    array[range].copy_from_slice(&data);
                }
                2 => {
                    let block = if dice.once_in(2) {
                        vec![0; 512]
                    } else {
                        dice.bytes(512)
                    };
                    let cdb = Initiator::cdb_16(0x93, 8, lba, blocks);
                    assert_eq!(initiator.write(&cdb, &block).0, GOOD);
                    array[range]
                        .chunks_mut(512)
                        .for_each(|place| place.copy_from_slice(&block));
                }
                3 => {
                    let blocks = blocks.min(128);
                    let count = blocks as usize * 512;
                    let mut both = array[at..at + count].to_vec();
                    let is_right = dice.once_in(2);
                    both[count - 1] ^= u8::from(!is_right);
                    let data = dice.bytes(count);
                    both.extend(&data);
                    let mut cdb = Initiator::cdb_16(0x89, 0, lba, 0);
                    cdb[13] = u8::try_from(blocks).unwrap();
                    let (status, _) = initiator.write(&cdb, &both);
                    assert_eq!(status, if is_right { GOOD } else { CHECK });
                    if is_right {
                        array[at..at + count].copy_from_slice(&data);
                    }
                }
                4 => {
                    let data = dice.bytes(count);
                    let cdb = Initiator::cdb_16(0x8b, 0, lba, blocks);
                    assert_eq!(initiator.write(&cdb, &data).0, GOOD);
                    array[range]
                        .iter_mut()
                        .zip(data)
                        .for_each(|(place, byte)| *place |= byte);
                }
                _ => {
                    let length = u32::try_from(count).unwrap();
                    let (status, data) = initiator.read(&Initiator::read_16(lba, blocks), length);
                    assert_eq!(status, GOOD);
                    assert!(data == array[range], "seed {seed}");
                }
            }
        }
        assert_eq!(
            initiator.session.payload_in_flight(),
            0,
            "all memory was given back"
        );
    }
}

#[test]
fn an_abandoned_session_closes_although_an_abort_waits_for_its_answer() {
    let mut initiator = Initiator::standard(1 << 20);
    initiator.target.flowing = false;
    let command = initiator.next_command(&Initiator::write_16(0, 1), 0, 512);
    initiator.send(&Request::Command(command), false, &[1; 512]);
    assert_eq!(manage(&mut initiator, 1, command.itt).len(), 0);
    initiator.session.abandon(&mut initiator.target);
    assert!(!initiator.session.is_closed(), "its write is under way");
    initiator.target.flowing = true;
    initiator.send_bytes(&[]);
    assert!(initiator.session.is_closed());
    assert_eq!(initiator.target.open, 0);
    assert_eq!(initiator.session.payload_in_flight(), 0);
}

/// Two hosts of one LUN; the first has a write under way, and one that waits for data.
fn two_hosts() -> (Initiator, Initiator, (u32, u32)) {
    let node: std::sync::Arc<everglade_iscsi::Node> = std::sync::Arc::default();
    let settings = || Settings {
        node: std::sync::Arc::clone(&node),
        ..Settings::default()
    };
    let mut victim = Initiator::logged_in(Held::with_lun(1 << 20), settings(), KEYS);
    let mut other = Initiator::new(Held::with_lun(1 << 20), settings());
    let name = everglade_iscsi::names::target_name("vol0/lun0").unwrap();
    let text = crate::initiator::text(&[("InitiatorName", "iqn.other"), ("TargetName", &name)]);
    let login = crate::initiator::login(1, 3, true);
    other.send(&Request::Login(login), true, &text);
    other.sense(&[0; 6]);
    let key = |old: u8, new: u8| {
        let mut bytes = [0; 24];
        (bytes[7], bytes[15]) = (old, new);
        bytes
    };
    let register = [0x5f, 6, 0, 0, 0, 0, 0, 0, 24];
    assert_eq!(victim.write(&register, &key(0, 1)).0, GOOD);
    assert_eq!(other.write(&register, &key(0, 2)).0, GOOD);
    let reserve = [0x5f, 1, 1, 0, 0, 0, 0, 0, 24];
    assert_eq!(victim.write(&reserve, &key(1, 0)).0, GOOD);
    let (itt, ttt, _) = waiting(&mut victim);
    victim.target.flowing = false;
    let command = victim.next_command(&Initiator::write_16(0, 1), 0, 512);
    assert_eq!(
        victim
            .send(&Request::Command(command), false, &[1; 512])
            .len(),
        0
    );
    (victim, other, (itt, ttt))
}

#[test]
fn who_preempts_and_aborts_is_answered_when_nothing_of_the_other_can_happen_any_more() {
    let (mut victim, mut other, (itt, ttt)) = two_hosts();
    let mut bytes = [0; 24];
    (bytes[7], bytes[15]) = (2, 1);
    let preempt = [0x5f, 5, 1, 0, 0, 0, 0, 0, 24];
    let command = other.next_command(&preempt, 0, 24);
    assert_eq!(
        other.send(&Request::Command(command), false, &bytes).len(),
        0
    );
    other.wait(1);
    assert_eq!(other.send_bytes(&[]).len(), 0, "the other has not looked");
    let submitted = victim.target.log.len();
    // Data for a write that was accepted before does no harm any more.
    victim.wait(1);
    let message = victim.data_out(itt, ttt, 0, 0, true);
    victim.send(&Request::DataOut(message), false, &vec![9; 262_144]);
    assert_eq!(victim.target.log.len(), submitted);
    other.wait(1);
    assert_eq!(other.send_bytes(&[]).len(), 0, "a write is under way");
    victim.target.flowing = true;
    assert_eq!(victim.send_bytes(&[]).len(), 0, "no status");
    other.wait(1);
    assert_eq!(Initiator::outcome(&other.send_bytes(&[])).0, GOOD);
    assert_eq!(victim.sense(&[0; 6]), (6, 0x2a, 5));
    assert_eq!(victim.write(&Initiator::write_16(0, 1), &[1; 512]).0, 0x18);
}

#[test]
fn a_write_that_was_accepted_before_a_reservation_is_not_carried_out_after_it() {
    let (mut victim, mut other, (itt, ttt)) = two_hosts();
    victim.target.flowing = true;
    assert_eq!(Initiator::outcome(&victim.send_bytes(&[])).0, GOOD);
    let mut bytes = [0; 24];
    (bytes[7], bytes[15]) = (2, 1);
    assert_eq!(
        other.write(&[0x5f, 4, 1, 0, 0, 0, 0, 0, 24], &bytes).0,
        GOOD
    );
    let submitted = victim.target.log.len();
    let mut answers = Vec::new();
    for part in 0..2 {
        let message = victim.data_out(itt, ttt + part, 0, part * 262_144, true);
        answers = victim.send(&Request::DataOut(message), false, &vec![9; 262_144]);
    }
    assert_eq!(Initiator::outcome(&answers).0, 0x18);
    assert_eq!(victim.target.log.len(), submitted, "nothing was written");
}

#[test]
fn a_reset_is_answered_when_the_tasks_of_all_hosts_are_gone() {
    let (mut victim, mut other, _) = two_hosts();
    assert_eq!(manage(&mut other, 5, 0).len(), 0);
    victim.wait(1);
    other.wait(1);
    assert_eq!(other.send_bytes(&[]).len(), 0, "a write is under way");
    victim.target.flowing = true;
    victim.send_bytes(&[]);
    other.wait(1);
    let answers = other.send_bytes(&[]);
    assert!(matches!(
        answers[0].response,
        Response::TaskManagement { response: 0, .. }
    ));
    // A session that has ended keeps nobody waiting.
    victim.session.abandon(&mut victim.target);
    assert_eq!(manage(&mut other, 5, 0).len(), 1);
}

#[test]
fn a_lun_that_shrinks_before_the_data_arrives_refuses_the_command() {
    let mut initiator = Initiator::standard(1 << 20);
    let mut command = initiator.next_command(&Initiator::cdb_16(0x93, 0, 2000, 0), 0, 512);
    command.is_final = true;
    let asked = initiator.send(&Request::Command(command), false, &[]);
    let Response::ReadyToTransfer { ttt, .. } = asked[0].response else {
        panic!("a request for data");
    };
    initiator.target.model.resize("vol0/lun0", 4096);
    assert_eq!(initiator.sense(&[0; 6]), (6, 0x2a, 9));
    let message = initiator.data_out(command.itt, ttt, 0, 0, true);
    let answers = initiator.send(&Request::DataOut(message), false, &[7; 512]);
    let (status, data) = Initiator::outcome(&answers);
    assert_eq!(Initiator::codes(status, &data), (5, 0x21, 0));
}
