//! Reads and writes, with the data in all places where it may be.

use everglade_nvme_tcp::wire::opcode::io;
use everglade_nvme_tcp::wire::{Command, Connect, Digests, Status};

use crate::host::{
    LUN, Link, World, are_done, blocks, command, connect_data, connect_with, flush, in_capsule,
    long_write, nothing, pattern, read, subsystem, transport, write,
};
use crate::pdu::{DATA, READY_TO_TRANSFER, RESPONSE, host_data};

const MIB: u64 = 1 << 20;

const ALL_DIGESTS: [Digests; 4] = [
    Digests {
        header: false,
        data: false,
    },
    Digests {
        header: true,
        data: false,
    },
    Digests {
        header: false,
        data: true,
    },
    Digests {
        header: true,
        data: true,
    },
];

/// Answers the request for data of a command.
fn send_data(world: &mut World, link: &mut Link, command: Command, data: &[u8]) -> Status {
    let asked = world.command(link, command, &[]);
    let [request] = &asked[..] else {
        panic!("{asked:?}");
    };
    assert_eq!(
        (request.kind, request.u16_at(8)),
        (READY_TO_TRANSFER, command.id)
    );
    assert_eq!(
        (request.u32_at(12), request.u32_at(16) as usize),
        (0, data.len())
    );
    let tag = request.u16_at(10);
    let digests = link.digests;
    let message = host_data(command.id, tag, 0, data, true, digests);
    let answer = world.ask(link, &message);
    assert_eq!(answer.len(), 1);
    answer[0].completion().status
}

#[test]
fn what_was_written_is_read_with_and_without_digests() {
    for digests in ALL_DIGESTS {
        let mut world = World::with_lun(4 * MIB);
        let (mut link, _admin) = world.queue_with(digests);
        let short = pattern(1, 4096);
        let done = world.complete(&mut link, write(1, 3, 8), &short);
        assert_eq!(done.status, Status::SUCCESS);
        let long = pattern(2, 1 << 20);
        let status = send_data(&mut world, &mut link, long_write(2, 101, 2048), &long);
        assert_eq!(status, Status::SUCCESS);
        assert_eq!(world.fetch(&mut link, read(3, 3, 8)), short);
        assert_eq!(world.fetch(&mut link, read(4, 101, 2048)), long);
        assert_eq!(world.model.bytes(LUN, 3 * 512, 4096), short);
        assert_eq!(world.done(&mut link, flush(5)), 0);
    }
}

#[test]
fn bytes_may_come_and_go_in_pieces_of_any_size() {
    for (chunk, digests) in [1, 7, 4095].into_iter().zip(ALL_DIGESTS.into_iter().rev()) {
        let mut world = World::with_lun(MIB);
        let (mut link, _admin) = world.queue_with(digests);
        world.chunk = chunk;
        let data = pattern(chunk as u64, 24 << 9);
        let status = send_data(&mut world, &mut link, long_write(1, 5, 24), &data);
        assert_eq!(status, Status::SUCCESS);
        let done = world.complete(&mut link, write(2, 40, 3), &data[..1536]);
        assert_eq!(done.status, Status::SUCCESS);
        assert_eq!(world.fetch(&mut link, read(3, 5, 24)), data);
        assert_eq!(world.fetch(&mut link, read(4, 40, 3)), data[..1536]);
    }
}

#[test]
fn data_that_was_asked_for_may_come_in_several_messages_between_commands() {
    let mut world = World::with_lun(MIB);
    let (mut link, _admin) = world.queue();
    let data = pattern(3, 32 << 9);
    let asked = world.command(&mut link, long_write(1, 0, 32), &[]);
    let tag = asked[0].u16_at(10);
    let none = Digests::default();
    let first = host_data(1, tag, 0, &data[..5000], false, none);
    assert!(world.ask(&mut link, &first).is_empty());
    assert_eq!(
        world.fetch(&mut link, read(2, 0, 8)),
        vec![0; 4096],
        "not written yet"
    );
    let asked = world.command(&mut link, long_write(3, 64, 1), &[]);
    let other = host_data(3, asked[0].u16_at(10), 0, &[7; 512], true, none);
    let middle = host_data(1, tag, 5000, &data[5000..9000], false, none);
    let last = host_data(1, tag, 9000, &data[9000..], true, none);
    let answers = world.ask(&mut link, &[middle, other, last].concat());
    let ids: Vec<u16> = answers
        .iter()
        .map(|it| it.completion().command_id)
        .collect();
    assert_eq!((are_done(&answers), ids), (true, vec![3, 1]));
    assert_eq!(world.fetch(&mut link, read(4, 0, 32)), data);
}

#[test]
fn many_commands_are_answered_together() {
    let mut world = World::with_lun(4 * MIB);
    let (mut link, _admin) = world.queue();
    let mut messages = Vec::new();
    for id in 0..60 {
        let data = pattern(u64::from(id), 4096);
        messages.extend(crate::pdu::capsule(
            &write(id, u64::from(id) * 8, 8),
            &data,
            link.digests,
        ));
    }
    let answers = world.ask(&mut link, &messages);
    assert!(answers.len() == 60 && are_done(&answers));
    let reads: Vec<u8> = (0..60)
        .flat_map(|id| crate::pdu::capsule(&read(id, u64::from(id) * 8, 8), &[], link.digests))
        .collect();
    let answers = world.ask(&mut link, &reads);
    for (id, pair) in answers.chunks(2).enumerate() {
        assert_eq!(pair[0].data, pattern(id as u64, 4096));
        assert_eq!(usize::from(pair[1].completion().command_id), id);
    }
    assert_eq!(answers.len(), 120);
}

#[test]
fn the_head_of_the_queue_is_told_unless_nobody_wants_it() {
    let mut world = World::with_lun(MIB);
    let (_admin, controller) = world.admin();
    let mut link = world.initialized(Digests::default());
    let parameters = |queue, disables_flow_control| Connect {
        format: 0,
        queue,
        entries: 3,
        disables_flow_control,
        keep_alive_ms: 0,
    };
    let data = connect_data(controller, &subsystem());
    let done = world.complete(&mut link, connect_with(parameters(1, false)), &data);
    assert_eq!(done.queue_head, 1);
    let heads = [2, 3, 0, 1].map(|_| world.complete(&mut link, flush(1), &[]).queue_head);
    assert_eq!(heads, [2, 3, 0, 1]);

    let mut link = world.initialized(Digests::default());
    let done = world.complete(&mut link, connect_with(parameters(2, true)), &data);
    assert_eq!(done.queue_head, 0xffff);
    // Data says that all is well, and no response follows.
    let answer = world.command(&mut link, read(1, 0, 8), &[]);
    assert_eq!((answer.len(), answer[0].kind), (1, DATA));
    assert_eq!(answer[0].flags, 4 | 8, "the last data, and success");
    let answer = world.command(&mut link, write(1, 0, 1), &[9; 512]);
    assert_eq!((answer.len(), answer[0].kind), (1, RESPONSE));
}

#[test]
fn data_begins_where_the_host_wants_it() {
    let mut world = World::with_lun(MIB);
    let (_admin, controller) = world.admin();
    for (number, alignment) in (1..).zip([0_u8, 1, 7, 31]) {
        let digests = ALL_DIGESTS[usize::from(number) % 4];
        let mut link = world.open();
        world.exchange(&mut link, &crate::pdu::initialize(digests, alignment));
        link.digests = digests;
        let data = connect_data(controller, &subsystem());
        world.complete(&mut link, crate::host::connect(number, 8), &data);
        let answer = world.command(&mut link, read(1, 0, 8), &[]);
        let unit = 4 * (usize::from(alignment) + 1);
        assert!(answer[0].data_at.is_multiple_of(unit) && answer[0].data_at >= 24);
        assert_eq!(answer[0].data, vec![0; 4096]);
    }
}

#[test]
fn zeroes_are_written_and_ranges_deallocated() {
    let mut world = World::with_lun(4 * MIB);
    let (mut link, _admin) = world.queue();
    let data = pattern(5, 16 << 10);
    for id in 0..4 {
        world.complete(&mut link, write(id, u64::from(id) * 32, 32), &data);
    }
    assert_eq!(world.model.blocks_in_use(LUN), 16);
    // All of it, deallocated.
    let mut words = blocks(0, 32);
    words[2] |= 1 << 25;
    world.done(&mut link, command(io::WRITE_ZEROES, 1, nothing(), words));
    assert_eq!(world.model.blocks_in_use(LUN), 12);
    // To the block of 512 bytes, keeping the space.
    world.done(
        &mut link,
        command(io::WRITE_ZEROES, 1, nothing(), blocks(33, 30)),
    );
    assert_eq!(world.model.blocks_in_use(LUN), 12);
    let bytes = world.fetch(&mut link, read(2, 32, 32));
    assert_eq!(bytes[..512], data[..512]);
    assert!(bytes[512..31 << 9].iter().all(|byte| *byte == 0));
    assert_eq!(bytes[31 << 9..], data[31 << 9..]);
    // Two ranges and an empty one.
    let range =
        |first: u64, count: u32| [&[0; 4][..], &count.to_le_bytes(), &first.to_le_bytes()].concat();
    let ranges = [range(64, 32), range(7, 0), range(96, 8)].concat();
    let discard = |attributes| {
        let words = [2, attributes, 0, 0, 0, 0];
        command(io::DATASET_MANAGEMENT, 1, in_capsule(48), words)
    };
    world.complete(&mut link, discard(0), &ranges);
    assert_eq!(world.model.blocks_in_use(LUN), 12, "hints change nothing");
    let done = world.complete(&mut link, discard(4), &ranges);
    assert_eq!(done.status, Status::SUCCESS);
    assert_eq!(world.model.blocks_in_use(LUN), 12 - 5);
    // Linux sends room for 256 ranges.
    let room = [range(64, 32), vec![0; 4080]].concat();
    let roomy = command(
        io::DATASET_MANAGEMENT,
        1,
        in_capsule(4096),
        [0, 4, 0, 0, 0, 0],
    );
    let done = world.complete(&mut link, roomy, &room);
    assert_eq!(done.status, Status::SUCCESS);
    let empty = range(0, 0);
    let nothing_at_all = command(
        io::DATASET_MANAGEMENT,
        1,
        in_capsule(16),
        [0, 4, 0, 0, 0, 0],
    );
    let done = world.complete(&mut link, nothing_at_all, &empty);
    assert_eq!(done.status, Status::SUCCESS);
}

#[test]
fn blocks_are_compared_and_verified() {
    let mut world = World::with_lun(4 * MIB);
    let (mut link, _admin) = world.queue();
    let data = pattern(6, 1 << 20);
    send_data(&mut world, &mut link, long_write(1, 1, 2048), &data);
    let compare = |count: u32| command(io::COMPARE, 2, transport(count * 512), blocks(1, count));
    assert_eq!(
        send_data(&mut world, &mut link, compare(2048), &data),
        Status::SUCCESS
    );
    for at in [0, 300_000, (1 << 20) - 1] {
        let mut other = data.clone();
        other[at] ^= 1;
        let status = send_data(&mut world, &mut link, compare(2048), &other);
        assert_eq!(status, Status::COMPARE_FAILURE);
    }
    world.done(
        &mut link,
        command(io::VERIFY, 3, nothing(), blocks(0, 8192)),
    );
}

#[test]
fn ranges_are_copied_in_order() {
    let mut world = World::with_lun(8 * MIB);
    let (mut link, _admin) = world.queue();
    let data = pattern(7, 1 << 20);
    send_data(&mut world, &mut link, long_write(1, 3, 2048), &data);
    let range = |first: u64, count: u16| {
        let count = (count - 1).to_le_bytes();
        [&[0; 8][..], &first.to_le_bytes(), &count, &[0; 14]].concat()
    };
    let ranges = [range(10, 1000), range(3, 1), range(1100, 5)].concat();
    let words = [4001, 0, 2, 0, 0, 0];
    let copy = command(io::COPY, 2, in_capsule(96), words);
    let done = world.complete(&mut link, copy, &ranges);
    assert_eq!((done.status, done.result), (Status::SUCCESS, 0));
    let part = |first: usize, count: usize| &data[(first - 3) << 9..][..count << 9];
    let expected = [part(10, 1000), part(3, 1), part(1100, 5)].concat();
    assert_eq!(world.model.bytes(LUN, 4001 << 9, 1006 << 9), expected);
}
