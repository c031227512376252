//! Compare and write as one.

use everglade_nvme_tcp::wire::opcode::io;
use everglade_nvme_tcp::wire::{Command, Digests, Status};

use crate::host::{
    LUN, Link, World, blocks, command, flush, in_capsule, pattern, read, transport, write,
};
use crate::pdu::{capsule, host_data};

const MIB: u64 = 1 << 20;

fn first(id: u16, at: u64, count: u32) -> Command {
    Command {
        flags: 0x41,
        ..command(io::COMPARE, id, in_capsule(count * 512), blocks(at, count))
    }
}

fn second(id: u16, at: u64, count: u32) -> Command {
    Command {
        flags: 0x42,
        ..write(id, at, count)
    }
}

/// Ids and statuses of what both halves, sent together, are answered with.
fn both(world: &mut World, link: &mut Link, halves: [(Command, &[u8]); 2]) -> Vec<(u16, Status)> {
    let digests = link.digests;
    let messages = halves.map(|(command, data)| capsule(&command, data, digests));
    statuses(world, link, &messages.concat())
}

fn statuses(world: &mut World, link: &mut Link, messages: &[u8]) -> Vec<(u16, Status)> {
    let answers = world.ask(link, messages);
    let ends = answers.iter().map(|it| it.completion());
    ends.map(|it| (it.command_id, it.status)).collect()
}

const DONE: Status = Status::SUCCESS;

#[test]
fn what_is_equal_is_replaced() {
    let mut world = World::with_lun(MIB);
    let (mut link, _admin) = world.queue();
    let (old, new) = (vec![0; 4096], pattern(1, 4096));
    let ends = both(
        &mut world,
        &mut link,
        [(first(1, 8, 8), &old), (second(2, 8, 8), &new)],
    );
    assert_eq!(ends, [(1, DONE), (2, DONE)]);
    assert_eq!(world.fetch(&mut link, read(3, 8, 8)), new);
    let ends = both(
        &mut world,
        &mut link,
        [(first(1, 8, 8), &old), (second(2, 8, 8), &old)],
    );
    assert_eq!(
        ends,
        [(1, Status::COMPARE_FAILURE), (2, Status::FAILED_FUSED)]
    );
    assert_eq!(
        world.fetch(&mut link, read(3, 8, 8)),
        new,
        "it was not replaced"
    );
}

#[test]
fn long_halves_are_asked_for() {
    let mut world = World::with_lun(MIB);
    let (mut link, _admin) = world.queue();
    let new = pattern(2, 64 << 10);
    let long = |command: Command| Command {
        sgl: transport(64 << 10),
        ..command
    };
    let none = Digests::default();
    for is_in_order in [true, false] {
        let old = world.model.bytes(LUN, 0, 64 << 10);
        let messages = [long(first(1, 0, 128)), long(second(2, 0, 128))];
        let asked = world.ask(
            &mut link,
            &messages.map(|it| capsule(&it, &[], none)).concat(),
        );
        let tags = [0, 1].map(|half: usize| asked[half].u16_at(10));
        let compare = host_data(1, tags[0], 0, &old, true, none);
        let data = host_data(2, tags[1], 0, &new, true, none);
        let messages = match is_in_order {
            true => [compare, data],
            false => [data, compare],
        };
        assert!(world.ask(&mut link, &messages[0]).is_empty());
        let ends = statuses(&mut world, &mut link, &messages[1]);
        assert_eq!(ends, [(1, DONE), (2, DONE)]);
        assert_eq!(world.model.bytes(LUN, 0, 64 << 10), new);
    }
    let longer = Command {
        sgl: transport(129 * 512),
        ..first(1, 0, 129)
    };
    assert_eq!(world.refused(&mut link, longer, &[]), Status::INVALID_FIELD);
}

#[test]
fn a_half_alone_is_missing_the_other() {
    let mut world = World::with_lun(MIB);
    let (mut link, _admin) = world.queue();
    let data = [0; 512];
    let missing = Status::MISSING_FUSED;
    assert_eq!(world.refused(&mut link, second(1, 0, 1), &data), missing);
    // Another command comes.
    assert!(world.command(&mut link, first(1, 0, 1), &data).is_empty());
    let ends = both(&mut world, &mut link, [(flush(2), &[]), (flush(3), &[])]);
    assert_eq!(ends, [(1, missing), (2, DONE), (3, DONE)]);
    // Another first half comes.
    let ends = both(
        &mut world,
        &mut link,
        [(first(1, 0, 1), &data), (first(2, 0, 1), &data)],
    );
    assert_eq!(ends, [(1, missing)]);
    let answer = world.command(&mut link, second(3, 0, 1), &data);
    let ends: Vec<_> = answer.iter().map(|it| it.completion()).collect();
    assert_eq!((ends[0].command_id, ends[1].command_id), (2, 3));
    assert!(ends.iter().all(|end| end.status == DONE));
    // A command is refused.
    assert!(world.command(&mut link, first(1, 0, 1), &data).is_empty());
    let ends = both(
        &mut world,
        &mut link,
        [(read(2, MIB, 1), &[]), (flush(3), &[])],
    );
    let mut sorted = ends.clone();
    sorted.sort_unstable_by_key(|end| end.0);
    assert_eq!(
        sorted,
        [(1, missing), (2, Status::LBA_OUT_OF_RANGE), (3, DONE)]
    );
    // The first half's data has not come.
    let long = Command {
        sgl: transport(512),
        ..first(1, 0, 1)
    };
    let asked = world.command(&mut link, long, &[]);
    assert_eq!(world.done(&mut link, flush(2)), 0);
    let late = host_data(1, asked[0].u16_at(10), 0, &data, true, link.digests);
    assert_eq!(statuses(&mut world, &mut link, &late), [(1, missing)]);
}

#[test]
fn the_halves_must_be_about_the_same_blocks() {
    let mut world = World::with_lun(MIB);
    let (mut link, _admin) = world.queue();
    let data = [0; 1024];
    for other in [second(2, 1, 2), second(2, 0, 1)] {
        let length = other.sgl.length as usize;
        let halves = [(first(1, 0, 2), &data[..]), (other, &data[..length])];
        let mut ends = both(&mut world, &mut link, halves);
        ends.sort_unstable_by_key(|end| end.0);
        assert_eq!(
            ends,
            [(1, Status::FAILED_FUSED), (2, Status::INVALID_FIELD)]
        );
    }
    let fused_read = Command {
        flags: 0x41,
        ..read(1, 0, 1)
    };
    assert_eq!(
        world.refused(&mut link, fused_read, &[]),
        Status::INVALID_FIELD
    );
    assert_eq!(world.model.blocks_in_use(LUN), 0);
}

/// Rows of commands are used again: a half that waits for its data must not name the row of the
/// other half, which was answered.
#[test]
fn a_half_that_was_answered_is_not_touched_again() {
    for broken in [0, 1] {
        let mut world = World::with_lun(MIB);
        let digests = Digests {
            header: false,
            data: true,
        };
        let (mut link, _admin) = world.queue_with(digests);
        let long = |command: Command| Command {
            sgl: transport(512),
            ..command
        };
        let messages = [long(first(1, 0, 1)), long(second(2, 0, 1))];
        let asked = world.ask(
            &mut link,
            &messages.map(|it| capsule(&it, &[], digests)).concat(),
        );
        let tags = [0, 1].map(|half: usize| asked[half].u16_at(10));
        let mut wrong = host_data([1, 2][broken], tags[broken], 0, &[0; 512], true, digests);
        wrong[30] ^= 1;
        let failed = Status::TRANSIENT_TRANSPORT;
        let ends = statuses(&mut world, &mut link, &wrong);
        assert_eq!(ends, [([1, 2][broken], failed)]);
        // Another command takes the row that is free, and is not answered yet.
        let asked = world.command(&mut link, crate::host::long_write(3, 8, 1), &[]);
        assert_eq!(asked[0].u16_at(10), tags[broken], "the same row");
        let other = 1 - broken;
        let late = host_data([1, 2][other], tags[other], 0, &[0; 512], true, digests);
        let ends = statuses(&mut world, &mut link, &late);
        assert_eq!(ends, [([1, 2][other], Status::FAILED_FUSED)]);
        let data = host_data(3, tags[broken], 0, &[7; 512], true, digests);
        assert_eq!(statuses(&mut world, &mut link, &data), [(3, DONE)]);
        assert_eq!(world.fetch(&mut link, read(4, 8, 1)), [7; 512]);
    }
}

#[test]
fn a_half_fails_with_the_other() {
    let mut world = World::with_lun(MIB);
    let digests = Digests {
        header: false,
        data: true,
    };
    let (mut link, _admin) = world.queue_with(digests);
    let data = [0; 512];
    let beyond = first(1, MIB, 1);
    let ends = both(
        &mut world,
        &mut link,
        [(beyond, &data), (second(2, MIB, 1), &data)],
    );
    assert_eq!(
        ends,
        [(1, Status::LBA_OUT_OF_RANGE), (2, Status::FAILED_FUSED)]
    );
    for broken in [0, 1] {
        let mut messages = [
            capsule(&first(1, 0, 1), &data, digests),
            capsule(&second(2, 0, 1), &[1; 512], digests),
        ];
        messages[broken][80] ^= 1;
        let ends = statuses(&mut world, &mut link, &messages.concat());
        let (wrong, failed) = (Status::TRANSIENT_TRANSPORT, Status::FAILED_FUSED);
        match broken {
            0 => assert_eq!(ends, [(1, wrong), (2, failed)]),
            _ => assert_eq!(ends, [(1, failed), (2, wrong)]),
        }
    }
    assert_eq!(world.model.blocks_in_use(LUN), 0, "nothing was written");
    let ends = both(
        &mut world,
        &mut link,
        [(first(1, 0, 1), &data), (second(2, 0, 1), &data)],
    );
    assert_eq!(ends, [(1, DONE), (2, DONE)]);
}
