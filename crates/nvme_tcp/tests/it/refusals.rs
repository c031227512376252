//! Commands of input and output that are refused, each with its status, and the data of each is
//! passed over.

use everglade_nvme_tcp::wire::opcode::io;
use everglade_nvme_tcp::wire::{Command, Digests, Sgl, SglKind, Status};

use crate::host::{
    LUN, World, blocks, command, flush, in_capsule, long_write, nothing, read, transport, write,
};
use crate::pdu::capsule;

const MIB: u64 = 1 << 20;
const BLOCKS: u64 = MIB / 512;

/// The status of a command on a LUN of 1 MiB, which is usable afterwards.
fn status_of(command: Command, data: &[u8]) -> Status {
    let digests = Digests {
        header: false,
        data: true,
    };
    let mut world = World::with_lun(MIB);
    let (mut link, _admin) = world.queue_with(digests);
    let status = world.refused(&mut link, command, data);
    assert_eq!(world.model.blocks_in_use(LUN), 0, "nothing was changed");
    assert_eq!(world.fetch(&mut link, read(9, 0, 1)), vec![0; 512]);
    status
}

#[test]
fn ranges_must_be_within_the_namespace() {
    let beyond = Status::LBA_OUT_OF_RANGE;
    assert_eq!(status_of(read(1, BLOCKS, 1), &[]), beyond);
    assert_eq!(status_of(read(1, BLOCKS - 1, 2), &[]), beyond);
    assert_eq!(status_of(read(1, u64::MAX, 1), &[]), beyond);
    assert_eq!(
        status_of(read(1, 1 << 55, 1), &[]),
        beyond,
        "not a multiple of 2⁶⁴ bytes"
    );
    assert_eq!(status_of(write(1, BLOCKS, 1), &[1; 512]), beyond);
    let zeroes = command(io::WRITE_ZEROES, 1, nothing(), blocks(1, 1 << 16));
    assert_eq!(status_of(zeroes, &[]), beyond);
    let verify = command(io::VERIFY, 1, nothing(), blocks(BLOCKS, 1));
    assert_eq!(status_of(verify, &[]), beyond);
    let range =
        |count: u32, first: u64| [&[0; 4][..], &count.to_le_bytes(), &first.to_le_bytes()].concat();
    let discard = command(
        io::DATASET_MANAGEMENT,
        1,
        in_capsule(32),
        [1, 4, 0, 0, 0, 0],
    );
    let two = [range(8, 0), range(9, BLOCKS - 8)].concat();
    assert_eq!(status_of(discard, &two), beyond);
    let two = [range(8, 0), range(u32::MAX, u64::MAX)].concat();
    assert_eq!(status_of(discard, &two), beyond);
}

#[test]
fn transfers_have_a_longest_length() {
    let words = blocks(0, 2049);
    let long = command(io::READ, 1, transport(2049 * 512), words);
    let mut world = World::with_lun(4 * MIB);
    let (mut link, _admin) = world.queue();
    assert_eq!(world.refused(&mut link, long, &[]), Status::INVALID_FIELD);
    let long = command(io::WRITE, 1, transport(2049 * 512), words);
    assert_eq!(world.refused(&mut link, long, &[]), Status::INVALID_FIELD);
}

#[test]
fn the_descriptor_of_data_must_fit_the_command() {
    let with = |command: Command, sgl: Sgl| Command { sgl, ..command };
    let length = Status::SGL_LENGTH_INVALID;
    assert_eq!(status_of(with(read(1, 0, 8), transport(4095)), &[]), length);
    assert_eq!(status_of(with(read(1, 0, 8), transport(8192)), &[]), length);
    assert_eq!(
        status_of(with(read(1, 0, 8), in_capsule(4096)), &[]),
        Status::SGL_KIND_INVALID
    );
    assert_eq!(
        status_of(with(write(1, 0, 8), in_capsule(4096)), &[1; 2048]),
        length
    );
    assert_eq!(
        status_of(with(write(1, 0, 8), in_capsule(512)), &[1; 4096]),
        length
    );
    assert_eq!(status_of(write(1, 0, 8), &[]), length);
    assert_eq!(
        status_of(long_write(1, 0, 8), &[1; 4096]),
        length,
        "data nobody asked for"
    );
    let keyed = Sgl {
        kind: SglKind::Other(0x40),
        ..in_capsule(4096)
    };
    assert_eq!(
        status_of(with(write(1, 0, 8), keyed), &[1; 4096]),
        Status::SGL_KIND_INVALID
    );
    let behind = Sgl {
        address: 512,
        ..in_capsule(4096)
    };
    assert_eq!(
        status_of(with(write(1, 0, 8), behind), &[1; 4096]),
        Status::SGL_OFFSET_INVALID
    );
    let pages = Command {
        flags: 0,
        ..read(1, 0, 8)
    };
    assert_eq!(status_of(pages, &[]), Status::INVALID_FIELD);
    assert_eq!(status_of(read(1, 0, 8), &[1; 64]), Status::INVALID_FIELD);
    assert_eq!(status_of(flush(1), &[1; 64]), Status::INVALID_FIELD);
}

#[test]
fn unknown_commands_and_namespaces_are_refused() {
    for opcode in [0x03, 0x04, 0x0f, 0x7e, 0x99, 0xff] {
        let unknown = command(opcode, 1, nothing(), [0; 6]);
        assert_eq!(status_of(unknown, &[]), Status::INVALID_OPCODE);
    }
    for namespace in [0, 2, u32::MAX] {
        let elsewhere = Command {
            namespace,
            ..read(1, 0, 8)
        };
        assert_eq!(status_of(elsewhere, &[]), Status::INVALID_NAMESPACE);
    }
    let every = Command {
        namespace: u32::MAX,
        ..flush(1)
    };
    let mut world = World::with_lun(MIB);
    let (mut link, _admin) = world.queue();
    assert_eq!(world.done(&mut link, every), 0);
    let reserved = Command {
        flags: 0x43,
        ..read(1, 0, 8)
    };
    assert_eq!(status_of(reserved, &[]), Status::INVALID_FIELD);
}

#[test]
fn copies_have_bounds() {
    let range = |first: u64, count: u16| {
        let count = (count - 1).to_le_bytes();
        [&[0; 8][..], &first.to_le_bytes(), &count, &[0; 14]].concat()
    };
    let copy = |to: u32, count: u32| {
        command(
            io::COPY,
            1,
            in_capsule(count * 32),
            [to, 0, count - 1, 0, 0, 0],
        )
    };
    let beyond = Status::LBA_OUT_OF_RANGE;
    assert_eq!(status_of(copy(4096, 1), &range(0, 1)), beyond);
    assert_eq!(status_of(copy(2040, 1), &range(0, 9)), beyond);
    assert_eq!(status_of(copy(0, 1), &range(2048, 1)), beyond);
    let many: Vec<u8> = (0..129).flat_map(|at| range(at, 1)).collect();
    assert_eq!(status_of(copy(0, 129), &many), Status::SIZE_LIMIT_EXCEEDED);
    let other_format = command(io::COPY, 1, in_capsule(32), [0, 0, 1 << 8, 0, 0, 0]);
    assert_eq!(status_of(other_format, &range(0, 1)), Status::INVALID_FIELD);
}

#[test]
fn an_id_is_used_once_at_a_time() {
    let mut world = World::with_lun(MIB);
    let (mut link, _admin) = world.queue();
    let asked = world.command(&mut link, long_write(5, 0, 1), &[]);
    let tag = asked[0].u16_at(10);
    let conflict = Status::COMMAND_ID_CONFLICT;
    assert_eq!(world.refused(&mut link, read(5, 0, 1), &[]), conflict);
    assert_eq!(
        world.refused(&mut link, write(5, 0, 1), &[1; 512]),
        conflict
    );
    let data = crate::pdu::host_data(5, tag, 0, &[1; 512], true, link.digests);
    assert_eq!(
        world.ask(&mut link, &data)[0].completion().status,
        Status::SUCCESS
    );
    assert_eq!(world.fetch(&mut link, read(5, 0, 1)), [1; 512]);
}

#[test]
fn a_namespace_that_cannot_be_written_to_says_so() {
    let mut world = World::with_lun(MIB);
    world.model.set_read_only(LUN, true);
    let (mut link, mut admin) = world.queue();
    let protected = Status::WRITE_PROTECTED;
    assert_eq!(
        world.refused(&mut link, write(1, 0, 1), &[1; 512]),
        protected
    );
    let zeroes = command(io::WRITE_ZEROES, 1, nothing(), blocks(0, 1));
    assert_eq!(world.refused(&mut link, zeroes, &[]), protected);
    let structure = world.fetch(&mut admin, crate::host::identify(0, 1));
    assert_eq!(structure[99], 1);
    // It has become read-only since.
    world.model.set_read_only(LUN, false);
    let (mut link, _admin) = world.queue();
    world.model.set_read_only(LUN, true);
    assert_eq!(
        world.refused(&mut link, write(1, 0, 1), &[1; 512]),
        protected
    );
    assert_eq!(world.done(&mut link, flush(2)), 0);
}

#[test]
fn a_refused_command_is_answered_before_its_data_has_come() {
    let mut world = World::with_lun(MIB);
    let (mut link, _admin) = world.queue();
    let message = capsule(&write(1, BLOCKS, 8), &[1; 4096], link.digests);
    let answer = world.ask(&mut link, &message[..100]);
    assert_eq!(answer[0].completion().status, Status::LBA_OUT_OF_RANGE);
    assert!(world.ask(&mut link, &message[100..]).is_empty());
    assert_eq!(world.done(&mut link, flush(1)), 0);
}
