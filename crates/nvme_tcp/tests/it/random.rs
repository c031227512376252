//! Random operations through whole sessions, compared with what they should do to bytes.

use everglade_nvme_tcp::wire::opcode::io;
use everglade_nvme_tcp::wire::{Command, Digests, Status};
use everglade_target::conformance::Dice;

use crate::host::{LUN, World, blocks, command, in_capsule, long_write, nothing, read, write};
use crate::pdu::{READY_TO_TRANSFER, capsule, host_data};

const LUN_BYTES: u64 = 2 << 20;
const BLOCKS: u64 = LUN_BYTES / 512;

/// A range of blocks.
fn range(dice: &mut Dice, longest: u64) -> (u64, u32) {
    let first = dice.below(BLOCKS);
    let count = 1 + dice.below(longest.min(BLOCKS - first));
    (first, u32::try_from(count).unwrap())
}

#[test]
fn bytes_are_what_the_operations_made_them() {
    for seed in 0..40 {
        let mut dice = Dice::new(seed);
        let digests = Digests {
            header: dice.once_in(2),
            data: dice.once_in(2),
        };
        let mut world = World::with_lun(LUN_BYTES);
        let (mut link, _admin) = world.queue_with(digests);
        let mut bytes = vec![0_u8; usize::try_from(LUN_BYTES).unwrap()];
        for step in 0..120 {
            let id = u16::try_from(step).unwrap();
            let (first, count) = range(&mut dice, 200);
            let place = usize::try_from(first * 512).unwrap();
            let length = count as usize * 512;
            match dice.below(9) {
                0 | 1 => {
                    let got = world.fetch(&mut link, read(id, first, count));
                    assert_eq!(
                        got,
                        bytes[place..place + length],
                        "seed {seed}, step {step}"
                    );
                }
                2 if length <= 16 << 10 => {
                    let data = dice.bytes(length);
                    let done = world.complete(&mut link, write(id, first, count), &data);
                    assert_eq!(done.status, Status::SUCCESS);
                    bytes[place..place + length].copy_from_slice(&data);
                }
                2..=4 => {
                    let data = dice.bytes(length);
                    let asked = world.command(&mut link, long_write(id, first, count), &[]);
                    assert_eq!(asked[0].kind, READY_TO_TRANSFER);
                    let tag = asked[0].u16_at(10);
                    let cut = usize::try_from(dice.below(length as u64)).unwrap();
                    let mut message = Vec::new();
                    if cut > 0 {
                        message.extend(host_data(id, tag, 0, &data[..cut], false, digests));
                    }
                    let offset = u32::try_from(cut).unwrap();
                    message.extend(host_data(id, tag, offset, &data[cut..], true, digests));
                    assert!(crate::host::are_done(&world.ask(&mut link, &message)));
                    bytes[place..place + length].copy_from_slice(&data);
                }
                5 => {
                    let mut words = blocks(first, count);
                    words[2] |= if dice.once_in(2) { 1 << 25 } else { 0 };
                    world.done(&mut link, command(io::WRITE_ZEROES, id, nothing(), words));
                    bytes[place..place + length].fill(0);
                }
                6 => {
                    let entry = [&[0; 4][..], &count.to_le_bytes(), &first.to_le_bytes()].concat();
                    let words = [0, 4, 0, 0, 0, 0];
                    let discard = command(io::DATASET_MANAGEMENT, id, in_capsule(16), words);
                    let done = world.complete(&mut link, discard, &entry);
                    assert_eq!(done.status, Status::SUCCESS);
                    // Whole blocks of 4 KiB read as zeroes; the others keep their contents.
                    let from = place.next_multiple_of(4096);
                    let to = (place + length) / 4096 * 4096;
                    if from < to {
                        bytes[from..to].fill(0);
                    }
                }
                7 => {
                    let (to, _) = range(&mut dice, 1);
                    let count = u32::try_from(u64::from(count).min(BLOCKS - to)).unwrap();
                    let length = count as usize * 512;
                    let source = bytes[place..place + length].to_vec();
                    let last = u16::try_from(count - 1).unwrap().to_le_bytes();
                    let entry = [&[0; 8][..], &first.to_le_bytes(), &last, &[0; 14]].concat();
                    let to_low = u32::try_from(to).unwrap();
                    let copy = command(io::COPY, id, in_capsule(32), [to_low, 0, 0, 0, 0, 0]);
                    let done = world.complete(&mut link, copy, &entry);
                    let distance = first.abs_diff(to);
                    if distance < u64::from(count) {
                        assert_eq!(done.status, Status::INVALID_FIELD, "they overlap");
                        continue;
                    }
                    assert_eq!(done.status, Status::SUCCESS);
                    let to = usize::try_from(to * 512).unwrap();
                    bytes[to..to + length].copy_from_slice(&source);
                }
                _ => {
                    let count = count.min(30);
                    let length = count as usize * 512;
                    let mut expected = bytes[place..place + length].to_vec();
                    let is_wrong = dice.once_in(2);
                    if is_wrong {
                        let at = usize::try_from(dice.below(length as u64)).unwrap();
                        expected[at] ^= 1;
                    }
                    let new = dice.bytes(length);
                    let compare = Command {
                        flags: 0x41,
                        ..command(
                            io::COMPARE,
                            id,
                            in_capsule(u32::try_from(length).unwrap()),
                            blocks(first, count),
                        )
                    };
                    let replace = Command {
                        flags: 0x42,
                        ..write(id + 1000, first, count)
                    };
                    let messages = [
                        capsule(&compare, &expected, digests),
                        capsule(&replace, &new, digests),
                    ];
                    let answers = world.ask(&mut link, &messages.concat());
                    let statuses: Vec<_> =
                        answers.iter().map(|it| it.completion().status).collect();
                    if is_wrong {
                        let failed = [Status::COMPARE_FAILURE, Status::FAILED_FUSED];
                        assert_eq!(statuses, failed);
                    } else {
                        assert_eq!(statuses, [Status::SUCCESS; 2]);
                        bytes[place..place + length].copy_from_slice(&new);
                    }
                }
            }
        }
        let all = world.model.bytes(LUN, 0, u32::try_from(LUN_BYTES).unwrap());
        assert!(all == bytes, "seed {seed}");
    }
}
