//! What is asked of storage: durability, hints, and what its errors become.

use everglade_nvme_tcp::wire::opcode::io;
use everglade_nvme_tcp::wire::{Command, Status};
use everglade_target::Error;

use crate::host::{
    LUN, World, blocks, command, in_capsule, nothing, property_set, read, set_feature, write,
};
use crate::pdu::capsule;

const MIB: u64 = 1 << 20;
const FORCE: u32 = 1 << 30;

/// A command whose third word has more bits.
fn with(command: Command, bits: u32) -> Command {
    let mut words = command.words;
    words[2] |= bits;
    Command { words, ..command }
}

/// One change of each kind; returns which were durable.
fn changes(
    world: &mut World,
    link: &mut crate::host::Link,
    bits: u32,
) -> Vec<(&'static str, bool)> {
    world.model.take_changes();
    let zeroes = [0; 512];
    world.complete(link, with(write(1, 0, 1), bits), &zeroes);
    let zero = command(io::WRITE_ZEROES, 2, nothing(), blocks(0, 1));
    world.done(link, with(zero, bits));
    let compare = Command {
        flags: 0x41,
        ..command(io::COMPARE, 3, in_capsule(512), blocks(0, 1))
    };
    let replace = Command {
        flags: 0x42,
        ..with(write(4, 0, 1), bits)
    };
    let digests = link.digests;
    let messages = [(compare, &zeroes), (replace, &zeroes)];
    let messages = messages.map(|(command, data)| capsule(&command, data, digests));
    world.ask(link, &messages.concat());
    let copy = command(io::COPY, 5, in_capsule(32), [16, 0, 0, 0, 0, 0]);
    world.complete(link, with(copy, bits), &[0; 32]);
    world.model.take_changes()
}

#[test]
fn a_forced_change_is_durable_when_it_is_answered() {
    let mut world = World::with_lun(MIB);
    let (mut link, mut admin) = world.queue();
    let all = ["write", "zeroes", "compare and write", "write"];
    assert_eq!(
        changes(&mut world, &mut link, 0),
        all.map(|name| (name, false))
    );
    assert_eq!(
        changes(&mut world, &mut link, FORCE),
        all.map(|name| (name, true))
    );
    // The host turns the write cache off: what was answered before becomes durable.
    world.model.take_changes();
    world.done(&mut admin, set_feature(6, 0));
    assert_eq!(world.model.take_changes(), [("flush", true)]);
    assert_eq!(
        changes(&mut world, &mut link, 0),
        all.map(|name| (name, true))
    );
    let discard = command(
        io::DATASET_MANAGEMENT,
        1,
        in_capsule(16),
        [0, 4, 0, 0, 0, 0],
    );
    let range = [&[0; 4][..], &8_u32.to_le_bytes(), &[0; 8]].concat();
    world.complete(&mut link, discard, &range);
    assert_eq!(world.model.take_changes(), [("discard", true)]);
    world.done(&mut admin, set_feature(6, 1));
    world.complete(&mut link, discard, &range);
    assert_eq!(world.model.take_changes(), [("discard", false)]);
}

#[test]
fn a_forced_read_flushes_before_it_reads() {
    let mut world = World::with_lun(MIB);
    let (mut link, _admin) = world.queue();
    world.model.take_changes();
    assert_eq!(
        world.fetch(&mut link, with(read(1, 0, 8), FORCE)),
        [0; 4096]
    );
    assert_eq!(world.model.take_changes(), [("flush", true)]);
}

#[test]
fn a_write_whose_data_comes_after_the_cache_was_turned_off_is_durable() {
    let mut world = World::with_lun(MIB);
    let (mut link, mut admin) = world.queue();
    let asked = world.command(&mut link, crate::host::long_write(1, 0, 1), &[]);
    world.done(&mut admin, set_feature(6, 0));
    world.model.take_changes();
    let data = crate::pdu::host_data(1, asked[0].u16_at(10), 0, &[1; 512], true, link.digests);
    world.ask(&mut link, &data);
    assert_eq!(world.model.take_changes(), [("write", true)]);
}

#[test]
fn a_copy_that_fails_half_way_says_which_range_is_not_copied() {
    let mut world = World::with_lun(MIB);
    let (mut link, _admin) = world.queue();
    let entry = |first: u64| [&[0; 8][..], &first.to_le_bytes(), &[0, 0], &[0; 14]].concat();
    let copy = command(io::COPY, 5, in_capsule(64), [16, 0, 1, 0, 0, 0]);
    // The read of the first range succeeds, and its write does not.
    world.model.failure_after = 1;
    world.model.failure = Some(Error::NoSpace);
    let done = world.complete(&mut link, copy, &[entry(0), entry(1)].concat());
    assert_eq!((done.status, done.result), (Status::CAPACITY_EXCEEDED, 0));
    world.model.failure_after = 3;
    world.model.failure = Some(Error::NoSpace);
    let done = world.complete(&mut link, copy, &[entry(0), entry(1)].concat());
    assert_eq!((done.status, done.result), (Status::CAPACITY_EXCEEDED, 1));
}

#[test]
fn a_shutdown_flushes_before_it_is_complete() {
    let mut world = World::with_lun(MIB);
    let (_queue, mut admin) = world.queue();
    world.model.take_changes();
    world.done(&mut admin, property_set(0x14, 0x0046_0001 | 1 << 14));
    assert_eq!(world.model.take_changes(), [("flush", true)]);
}

#[test]
fn reads_that_came_together_are_announced() {
    let mut world = World::with_lun(MIB);
    let (mut link, _admin) = world.queue();
    let reads: Vec<u8> = (0..3)
        .flat_map(|id| capsule(&read(id, u64::from(id) * 8, 8), &[], link.digests))
        .collect();
    world.ask(&mut link, &reads);
    assert_eq!(
        world.model.expected,
        [(0, 4096), (4096, 4096), (8192, 4096)]
    );
    world.fetch(&mut link, read(1, 0, 8));
    assert_eq!(world.model.expected.len(), 3, "one alone is not");
}

#[test]
fn each_error_of_storage_has_its_status() {
    let io_error = || Error::Io("a broken disk".to_owned());
    for (error, of_read, of_write) in [
        (
            Error::NoSpace,
            Status::CAPACITY_EXCEEDED,
            Status::CAPACITY_EXCEEDED,
        ),
        (
            Error::ReadOnly,
            Status::WRITE_PROTECTED,
            Status::WRITE_PROTECTED,
        ),
        (io_error(), Status::READ_ERROR, Status::WRITE_FAULT),
        (
            Error::Invalid("short"),
            Status::LBA_OUT_OF_RANGE,
            Status::LBA_OUT_OF_RANGE,
        ),
    ] {
        let mut world = World::with_lun(MIB);
        let (mut link, mut admin) = world.queue();
        world.model.failure = Some(error.clone());
        assert_eq!(world.refused(&mut link, read(1, 0, 8), &[]), of_read);
        world.model.failure = Some(error);
        assert_eq!(
            world.refused(&mut link, write(1, 0, 1), &[1; 512]),
            of_write
        );
        assert_eq!(
            world.fetch(&mut link, read(1, 0, 1)),
            [0; 512],
            "the queue goes on"
        );
        world.second_passes();
        let health = world.fetch(&mut admin, crate::host::log_page(2, 0, 512));
        let media_errors = if of_read == Status::READ_ERROR { 2 } else { 0 };
        assert_eq!(health[160], media_errors);
    }
}

#[test]
fn a_copy_says_how_far_it_came() {
    let mut world = World::with_lun(MIB);
    let (mut link, _admin) = world.queue();
    let copy = command(io::COPY, 5, in_capsule(32), [16, 0, 0, 0, 0, 0]);
    world.model.failure = Some(Error::NoSpace);
    let done = world.complete(&mut link, copy, &[0; 32]);
    assert_eq!((done.status, done.result), (Status::CAPACITY_EXCEEDED, 0));
}

#[test]
fn a_queue_ends_with_its_aggregate() {
    let mut world = World::with_lun(MIB);
    let (mut link, mut admin) = world.queue();
    world.model.failure = Some(Error::Gone);
    let answer = world.command(&mut link, write(1, 0, 1), &[1; 512]);
    assert_eq!(answer[0].completion().status, Status::NAMESPACE_NOT_READY);
    assert!(
        link.is_closed,
        "unflushed data may be lost, so the host must connect again"
    );
    world.second_passes();
    world.turn(&mut admin);
    assert!(admin.is_closed);
    assert_eq!(world.model.blocks_in_use(LUN), 0);
}
