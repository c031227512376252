//! Messages that make no sense: the controller says why, and ends the connection. Others go on.

use everglade_nvme_tcp::wire::Digests;
use everglade_nvme_tcp::wire::pdu::{Fatal, fatal_status as status, parse_termination};

use crate::host::{Link, World, connect, long_write, read, write};
use crate::pdu::{TERMINATION, capsule, host_data, initialize, read_all};

const MIB: u64 = 1 << 20;
const NONE: Digests = Digests {
    header: false,
    data: false,
};

/// Sends bytes that end the connection; returns the reason.
fn ended_by(world: &mut World, link: &mut Link, bytes: &[u8]) -> Fatal {
    let digests = link.digests;
    let answer = world.exchange(link, bytes);
    assert!(link.is_closed, "the connection ends");
    let messages = read_all(&answer, digests);
    let last = messages.last().expect("a reason");
    assert_eq!(last.kind, TERMINATION);
    let about = bytes.len().min(128).min(last.data.len());
    assert!(about >= 8, "the header that it is about");
    parse_termination(last.header[..].first_chunk().unwrap())
}

fn field(at: u32) -> Fatal {
    Fatal {
        status: status::INVALID_HEADER_FIELD,
        information: at,
    }
}

fn because(status: u16) -> Fatal {
    Fatal {
        status,
        information: 0,
    }
}

/// What a change of a valid first message leads to.
fn first_message(change: impl Fn(&mut Vec<u8>)) -> Fatal {
    let mut world = World::with_lun(MIB);
    let mut link = world.open();
    let mut message = initialize(NONE, 0);
    change(&mut message);
    ended_by(&mut world, &mut link, &message)
}

/// What a change of a valid read leads to, on a queue for input and output.
fn changed_read(digests: Digests, change: impl Fn(&mut Vec<u8>)) -> Fatal {
    let mut world = World::with_lun(MIB);
    let (mut link, mut admin) = world.queue_with(digests);
    let mut message = capsule(&read(1, 0, 8), &[], digests);
    change(&mut message);
    let fatal = ended_by(&mut world, &mut link, &message);
    let kept = world.done(&mut admin, crate::host::property_get(0x1c));
    assert_eq!(kept, 1, "the controller's other queues stay");
    fatal
}

#[test]
fn the_first_message_must_be_in_order() {
    assert_eq!(
        first_message(|it| it[0] = 4),
        field(2),
        "a command has another length"
    );
    assert_eq!(first_message(|it| it[0] = 8), field(0), "no such kind");
    assert_eq!(first_message(|it| it[2] = 127), field(2));
    assert_eq!(first_message(|it| it[4] = 127), field(4));
    assert_eq!(first_message(|it| it[4] = 132), field(4), "it has no data");
    assert_eq!(first_message(|it| it[1] = 1), field(1), "it has no digest");
    assert_eq!(first_message(|it| it[10] = 32), field(10));
    let unsupported = Fatal {
        status: status::UNSUPPORTED,
        information: 8,
    };
    assert_eq!(first_message(|it| it[8] = 1), unsupported);
}

#[test]
fn messages_must_come_in_order() {
    let mut world = World::with_lun(MIB);
    let mut link = world.open();
    let early = capsule(&read(1, 0, 8), &[], NONE);
    let fatal = ended_by(&mut world, &mut link, &early);
    assert_eq!(fatal, because(status::SEQUENCE));

    let mut link = world.initialized(NONE);
    let fatal = ended_by(&mut world, &mut link, &initialize(NONE, 0));
    assert_eq!(fatal, because(status::SEQUENCE));

    let mut link = world.initialized(NONE);
    let early = host_data(1, 0, 0, &[0; 512], true, NONE);
    let fatal = ended_by(&mut world, &mut link, &early);
    assert_eq!(fatal, because(status::SEQUENCE));

    let (mut link, _admin) = world.queue();
    let fatal = ended_by(&mut world, &mut link, &initialize(NONE, 0));
    assert_eq!(fatal, because(status::SEQUENCE));
}

#[test]
fn headers_must_make_sense() {
    assert_eq!(
        changed_read(NONE, |it| it[0] = 5),
        field(2),
        "a response is shorter"
    );
    let response = changed_read(NONE, |it| (it[0], it[2], it[4]) = (5, 24, 24));
    assert_eq!(response, field(0), "hosts send no responses");
    assert_eq!(
        changed_read(NONE, |it| it[1] = 1),
        field(1),
        "no digests were agreed on"
    );
    assert_eq!(changed_read(NONE, |it| it[4] = 71), field(4));
    // Data that begins inside the header, or at an odd place, or behind the end.
    assert_eq!(
        changed_read(NONE, |it| (it[3], it[4]) = (68, 200)),
        field(3)
    );
    assert_eq!(
        changed_read(NONE, |it| (it[3], it[4]) = (74, 200)),
        field(3)
    );
    assert_eq!(
        changed_read(NONE, |it| (it[3], it[4]) = (200, 150)),
        field(4)
    );
    assert_eq!(
        changed_read(NONE, |it| (it[3], it[4]) = (100, 100)),
        field(4),
        "no data"
    );
    // 64 KiB and a little.
    let too_long = changed_read(NONE, |it| {
        it[3] = 72;
        it[4..8].copy_from_slice(&(72_u32 + (64 << 10) + 4).to_le_bytes());
    });
    assert_eq!(too_long, because(status::LIMIT_EXCEEDED));
    let enormous = changed_read(NONE, |it| {
        it[3] = 72;
        it[4..8].fill(0xff);
    });
    assert_eq!(enormous, because(status::LIMIT_EXCEEDED));
}

#[test]
fn a_wrong_header_digest_ends_the_connection() {
    let digests = Digests {
        header: true,
        data: false,
    };
    for at in [8, 40, 71, 72] {
        let mut world = World::with_lun(MIB);
        let (mut link, _admin) = world.queue_with(digests);
        let mut message = capsule(&read(1, 0, 8), &[], digests);
        message[at] ^= 1;
        let received = u32::from_le_bytes(*message[72..].first_chunk().unwrap());
        let fatal = ended_by(&mut world, &mut link, &message);
        let expected = Fatal {
            status: status::HEADER_DIGEST,
            information: received,
        };
        assert_eq!(fatal, expected);
    }
    let missing = changed_read(digests, |it| it[1] = 0);
    assert_eq!(missing, field(1), "a digest was agreed on");
}

/// Begins a write of 4 KiB whose data is asked for, then sends what the closure makes of its tag.
fn wrong_data(message: impl Fn(u16) -> Vec<u8>) -> Fatal {
    let mut world = World::with_lun(MIB);
    let (mut link, _admin) = world.queue();
    let asked = world.command(&mut link, long_write(7, 0, 8), &[]);
    let tag = asked[0].u16_at(10);
    let fatal = ended_by(&mut world, &mut link, &message(tag));
    assert_eq!(
        world.model.blocks_in_use(crate::host::LUN),
        0,
        "nothing was written"
    );
    fatal
}

#[test]
fn data_must_be_what_was_asked_for() {
    let data = [1; 4096];
    let all = |id, tag, offset, is_last| host_data(id, tag, offset, &data, is_last, NONE);
    assert_eq!(
        wrong_data(|tag| all(7, tag + 1, 0, true)),
        field(10),
        "no such tag"
    );
    assert_eq!(
        wrong_data(|tag| all(8, tag, 0, true)),
        field(8),
        "another command's"
    );
    let out_of_range = because(status::DATA_OUT_OF_RANGE);
    assert_eq!(wrong_data(|tag| all(7, tag, 512, true)), out_of_range);
    let longer = |tag| host_data(7, tag, 0, &[1; 4100], true, NONE);
    assert_eq!(wrong_data(longer), out_of_range);
    assert_eq!(
        wrong_data(|tag| all(7, tag, 0, false)),
        field(1),
        "it is the last"
    );
    let early = |tag| host_data(7, tag, 0, &data[..512], true, NONE);
    assert_eq!(wrong_data(early), field(1), "it is not the last");
    let twice = |tag| {
        let first = host_data(7, tag, 0, &data[..2048], false, NONE);
        [first.clone(), first].concat()
    };
    assert_eq!(wrong_data(twice), out_of_range);
    let other_length = |tag| {
        let mut message = all(7, tag, 0, true);
        message[16..20].copy_from_slice(&512_u32.to_le_bytes());
        message
    };
    assert_eq!(wrong_data(other_length), field(16));
    let nothing = |tag| {
        let mut message = host_data(7, tag, 0, &[], true, NONE);
        message[16] = 0;
        message
    };
    assert_eq!(wrong_data(nothing), field(1), "no data is never the last");
}

#[test]
fn nobody_sends_data_for_a_command_that_has_its_data() {
    let mut world = World::with_lun(MIB);
    let (mut link, _admin) = world.queue();
    let asked = world.command(&mut link, long_write(7, 0, 1), &[]);
    let tag = asked[0].u16_at(10);
    let data = host_data(7, tag, 0, &[1; 512], true, NONE);
    assert_eq!(world.ask(&mut link, &data).len(), 1);
    let fatal = ended_by(&mut world, &mut link, &data);
    assert_eq!(fatal, field(10), "it is answered");
}

#[test]
fn a_wrong_data_digest_fails_its_command_alone() {
    let digests = Digests {
        header: false,
        data: true,
    };
    let mut world = World::with_lun(MIB);
    let (mut link, _admin) = world.queue_with(digests);
    let mut message = capsule(&write(1, 0, 8), &[3; 4096], digests);
    message[72 + 100] ^= 4;
    let answers = world.ask(&mut link, &message);
    let failed = everglade_nvme_tcp::wire::Status::TRANSIENT_TRANSPORT;
    assert_eq!(answers[0].completion().status, failed);
    let asked = world.command(&mut link, long_write(2, 0, 8), &[]);
    let tag = asked[0].u16_at(10);
    let mut first = host_data(2, tag, 0, &[3; 2048], false, digests);
    first[24] ^= 1;
    assert!(
        world.ask(&mut link, &first).is_empty(),
        "the rest is still to come"
    );
    let last = host_data(2, tag, 2048, &[3; 2048], true, digests);
    let answers = world.ask(&mut link, &last);
    assert_eq!(answers[0].completion().status, failed);
    assert_eq!(
        world.model.blocks_in_use(crate::host::LUN),
        0,
        "nothing was written"
    );
    assert_eq!(world.fetch(&mut link, read(3, 0, 8)), vec![0; 4096]);
}

#[test]
fn a_host_that_ends_the_connection_gets_no_answer() {
    let mut world = World::with_lun(MIB);
    let (mut link, _admin) = world.queue();
    let mut message = vec![2, 0, 24, 0, 96, 0, 0, 0, 1, 0];
    message.resize(96, 0);
    assert!(world.exchange(&mut link, &message).is_empty());
    assert!(link.is_closed);
}

#[test]
fn more_commands_than_the_queue_has_entries_wait_or_end_it() {
    // The host does not take answers, so the commands behind them wait.
    let mut world = World::with_lun(MIB);
    let (_admin, controller) = world.admin();
    let mut link = world.initialized(NONE);
    let subsystem = crate::host::subsystem();
    let data = crate::host::connect_data(controller, &subsystem);
    world.complete(&mut link, connect(1, 4), &data);
    let writes: Vec<u8> = (0..7)
        .flat_map(|id| capsule(&long_write(id, 0, 1), &[], NONE))
        .collect();
    let fatal = ended_by(&mut world, &mut link, &writes);
    assert_eq!(
        fatal,
        because(status::LIMIT_EXCEEDED),
        "data would be behind the command"
    );
}
