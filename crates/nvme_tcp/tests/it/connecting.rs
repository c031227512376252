//! Connect: which parameters join a connection to a queue, and which do not.

use everglade_nvme_tcp::wire::{Connect, Digests, Status, nqn};
use everglade_target::Target;

use crate::host::{
    HOST, LUN, World, command, connect, connect_data, connect_with, disconnect, flush, in_capsule,
    log_page, nothing, property_get, property_set, read, subsystem, subsystem_of,
};
use crate::pdu::capsule;

const MIB: u64 = 1 << 20;
const NONE: Digests = Digests {
    header: false,
    data: false,
};

/// The result of a refused Connect, and its status.
fn refused(world: &mut World, parameters: Connect, data: &[u8]) -> (Status, u64) {
    let mut link = world.initialized(NONE);
    let done = world.complete(&mut link, connect_with(parameters), data);
    assert!(!link.is_closed, "the host may try again");
    let again = world.complete(
        &mut link,
        connect(0, 32),
        &connect_data(u16::MAX, &subsystem()),
    );
    assert_eq!(again.status, Status::SUCCESS);
    world.close(&mut link);
    (done.status, done.result)
}

const ADMIN: Connect = Connect {
    format: 0,
    queue: 0,
    entries: 31,
    disables_flow_control: false,
    keep_alive_ms: 0,
};

#[test]
fn wrong_parameters_of_an_admin_queue_are_named() {
    let mut world = World::with_lun(MIB);
    let good = connect_data(u16::MAX, &subsystem());
    let wrong = |at: u64| (Status::CONNECT_PARAMETERS, at);
    let in_data = |at: u64| wrong(1 << 16 | at);
    let mut check = |parameters, data: &[u8]| refused(&mut world, parameters, data);
    let format = Connect { format: 1, ..ADMIN };
    assert_eq!(check(format, &good), (Status::CONNECT_FORMAT, 0));
    for entries in [0, 128, 0xffff] {
        assert_eq!(check(Connect { entries, ..ADMIN }, &good), wrong(44));
    }
    assert_eq!(check(ADMIN, &connect_data(1, &subsystem())), in_data(16));
    let elsewhere = subsystem_of("vol0/lun0", 9);
    for unknown in ["", &subsystem_of("vol0/other", 1), &elsewhere, "nqn.x"] {
        assert_eq!(check(ADMIN, &connect_data(u16::MAX, unknown)), in_data(256));
    }
    let mut nameless = good.clone();
    nameless[512] = 0;
    assert_eq!(check(ADMIN, &nameless), in_data(512));
    let mut endless = good.clone();
    endless[512..768].fill(b'x');
    assert_eq!(check(ADMIN, &endless), in_data(512));
    let mut no_text = good;
    no_text[256] = 0xff;
    assert_eq!(check(ADMIN, &no_text), in_data(256));
    assert_eq!(world.registry.len(), 0, "no controller is left");
    assert_eq!(world.model.open_handles(), 0);
}

#[test]
fn a_queue_belongs_to_the_host_and_the_controller_that_it_names() {
    let mut world = World::with_lun(MIB);
    let (_admin, controller) = world.admin();
    let (_other, disabled) = world.connect_to(&subsystem(), NONE);
    let queue = |queue| Connect { queue, ..ADMIN };
    let good = connect_data(controller, &subsystem());
    let in_data = |at: u64| (Status::CONNECT_PARAMETERS, 1 << 16 | at);
    let mut check = |parameters, data: &[u8]| refused(&mut world, parameters, data);
    assert_eq!(
        check(queue(1), &connect_data(77, &subsystem())),
        in_data(16)
    );
    assert_eq!(
        check(queue(1), &connect_data(controller, nqn::DISCOVERY)),
        in_data(256)
    );
    let mut stranger = good.clone();
    stranger[512 + HOST.len()] = b'1';
    assert_eq!(check(queue(1), &stranger), in_data(512));
    let mut stranger = good.clone();
    stranger[3] ^= 1;
    assert_eq!(check(queue(1), &stranger), in_data(0));
    let numbered = (Status::CONNECT_PARAMETERS, 42);
    assert_eq!(check(queue(65), &good), numbered);
    assert_eq!(check(queue(0xffff), &good), numbered);
    let entries = Connect {
        entries: 1024,
        ..queue(1)
    };
    assert_eq!(check(entries, &good), (Status::CONNECT_PARAMETERS, 44));
    let early = connect_data(disabled, &subsystem());
    assert_eq!(check(queue(1), &early), (Status::COMMAND_SEQUENCE, 0));
    let mut link = world.queue_of(controller, 1, NONE);
    let twice = refused(&mut world, queue(1), &good);
    assert_eq!(twice, (Status::CONNECT_BUSY, 0));
    world.close(&mut link);
    world.queue_of(controller, 1, NONE);
}

#[test]
fn nothing_is_done_before_connect() {
    let mut world = World::with_lun(MIB);
    let mut link = world.initialized(NONE);
    for early in [
        read(1, 0, 8),
        flush(2),
        log_page(2, 0, 512),
        property_get(0x1c),
    ] {
        assert_eq!(
            world.refused(&mut link, early, &[]),
            Status::COMMAND_SEQUENCE
        );
    }
    let with_data = crate::host::write(3, 0, 16);
    assert_eq!(
        world.refused(&mut link, with_data, &[1; 8192]),
        Status::COMMAND_SEQUENCE
    );
    let mut elsewhere = connect(0, 32);
    elsewhere.sgl = crate::host::transport(1024);
    assert_eq!(
        world.refused(&mut link, elsewhere, &[]),
        Status::SGL_KIND_INVALID
    );
    let short = connect(0, 32);
    assert_eq!(
        world.refused(&mut link, short, &[0; 512]),
        Status::SGL_LENGTH_INVALID
    );
    let data = connect_data(u16::MAX, &subsystem());
    assert_eq!(
        world.complete(&mut link, connect(0, 32), &data).status,
        Status::SUCCESS
    );
    let again = world.refused(&mut link, connect(0, 32), &data);
    assert_eq!(again, Status::COMMAND_SEQUENCE, "a connection is one queue");
}

#[test]
fn a_wrong_digest_of_connect_can_be_tried_again() {
    let digests = Digests {
        header: true,
        data: true,
    };
    let mut world = World::with_lun(MIB);
    let mut link = world.initialized(digests);
    let data = connect_data(u16::MAX, &subsystem());
    let mut message = capsule(&connect(0, 32), &data, digests);
    message[100] ^= 1;
    let answer = world.ask(&mut link, &message);
    assert_eq!(answer[0].completion().status, Status::TRANSIENT_TRANSPORT);
    let done = world.complete(&mut link, connect(0, 32), &data);
    assert_eq!(done.status, Status::SUCCESS);
}

#[test]
fn commands_wait_until_the_controller_is_enabled() {
    let mut world = World::with_lun(MIB);
    let (mut admin, controller) = world.connect_to(&subsystem(), NONE);
    assert_eq!(world.done(&mut admin, property_get(0x1c)), 0);
    let early = world.refused(&mut admin, crate::host::identify(1, 0), &[]);
    assert_eq!(early, Status::COMMAND_SEQUENCE);
    // Pages of 8 KiB, another command set, another arbitration.
    for wrong in [1 << 7, 1 << 4, 1 << 11] {
        world.done(&mut admin, property_set(0x14, wrong | 1));
        assert_eq!(world.done(&mut admin, property_get(0x1c)), 2, "failed");
        world.done(&mut admin, property_set(0x14, 0));
        assert_eq!(world.done(&mut admin, property_get(0x1c)), 0);
    }
    world.enable(&mut admin);
    assert_eq!(
        world.fetch(&mut admin, crate::host::identify(1, 0)).len(),
        4096
    );
    let mut queue = world.queue_of(controller, 1, NONE);
    // A reset ends the queues, and the controller can be used again.
    world.done(&mut admin, property_set(0x14, 0));
    world.second_passes();
    world.turn(&mut queue);
    assert!(queue.is_closed);
    world.enable(&mut admin);
    world.queue_of(controller, 1, NONE);
}

#[test]
fn a_reset_ends_a_queue_at_its_next_command() {
    let mut world = World::with_lun(MIB);
    let (mut queue, mut admin) = world.queue();
    world.done(&mut admin, property_set(0x14, 0));
    world.enable(&mut admin);
    let answer = world.exchange(
        &mut queue,
        &capsule(&crate::host::write(1, 0, 1), &[1; 512], NONE),
    );
    assert!(answer.is_empty() && queue.is_closed);
    assert_eq!(world.model.blocks_in_use(LUN), 0, "it was not carried out");
}

#[test]
fn data_that_comes_after_a_reset_is_not_written() {
    let mut world = World::with_lun(MIB);
    let (mut queue, mut admin) = world.queue();
    let asked = world.command(&mut queue, crate::host::long_write(1, 0, 1), &[]);
    world.done(&mut admin, property_set(0x14, 0));
    let tag = asked[0].u16_at(10);
    let late = crate::pdu::host_data(1, tag, 0, &[1; 512], true, NONE);
    assert!(world.exchange(&mut queue, &late).is_empty() && queue.is_closed);
    assert_eq!(world.model.blocks_in_use(LUN), 0);
}

#[test]
fn data_that_was_on_its_way_at_a_reset_is_not_written() {
    let mut world = World::with_lun(MIB);
    let (mut queue, mut admin) = world.queue();
    let asked = world.command(&mut queue, crate::host::long_write(1, 0, 8), &[]);
    let data = crate::pdu::host_data(1, asked[0].u16_at(10), 0, &[1; 4096], true, NONE);
    world.exchange(&mut queue, &data[..1000]);
    world.done(&mut admin, property_set(0x14, 0));
    assert!(world.exchange(&mut queue, &data[1000..]).is_empty() && queue.is_closed);
    assert_eq!(world.model.blocks_in_use(LUN), 0);
}

#[test]
fn a_controller_is_ready_until_its_operations_have_ended() {
    let mut world = World::with_lun(MIB);
    let (mut queue, mut admin) = world.queue();
    world.model.is_slow = true;
    assert!(
        world
            .command(&mut queue, crate::host::write(1, 0, 1), &[1; 512])
            .is_empty()
    );
    world.done(&mut admin, property_set(0x14, 0));
    assert_eq!(
        world.done(&mut admin, property_get(0x1c)),
        1,
        "a write is under way"
    );
    world.model.is_slow = false;
    world.turn(&mut queue);
    assert_eq!(world.done(&mut admin, property_get(0x1c)), 0);
}

#[test]
fn a_copy_ends_with_its_controller() {
    let mut world = World::with_lun(MIB);
    let (mut queue, mut admin) = world.queue();
    world.model.is_slow = true;
    let copy = command(0x19, 5, in_capsule(32), [1024, 0, 0, 0, 0, 0]);
    let entry = [&[0; 16][..], &1023_u16.to_le_bytes(), &[0; 14]].concat();
    assert!(world.command(&mut queue, copy, &entry).is_empty());
    world.model.take_changes();
    world.close(&mut admin);
    world.model.is_slow = false;
    world.turn(&mut queue);
    assert_eq!(
        world.model.take_changes(),
        [],
        "the piece that was read is not written"
    );
}

#[test]
fn queues_of_one_controller_come_from_one_address() {
    let mut world = World::with_lun(MIB);
    world.caller.address = "192.0.2.1".parse().ok();
    let (_admin, controller) = world.admin();
    world.caller.address = "192.0.2.2".parse().ok();
    let mut link = world.initialized(NONE);
    let data = connect_data(controller, &subsystem());
    let done = world.complete(&mut link, connect(1, 32), &data);
    assert_eq!(
        (done.status, done.result),
        (Status::CONNECT_PARAMETERS, 1 << 16 | 16)
    );
}

#[test]
fn a_shutdown_flushes_and_says_so() {
    let mut world = World::with_lun(MIB);
    let (_queue, mut admin) = world.queue();
    world.done(&mut admin, property_set(0x14, 0x0046_0001 | 1 << 14));
    assert_eq!(world.done(&mut admin, property_get(0x1c)), 1 | 2 << 2);
    world.done(&mut admin, property_set(0x14, 0));
    world.done(&mut admin, property_set(0x14, 0x0046_0001));
    assert_eq!(
        world.done(&mut admin, property_get(0x1c)),
        1,
        "it is used again"
    );
}

#[test]
fn a_queue_ends_when_the_host_disconnects_it() {
    let mut world = World::with_lun(MIB);
    let (mut queue, mut admin) = world.queue();
    let on_admin = world.refused(&mut admin, disconnect(1), &[]);
    assert_eq!(on_admin, Status::INVALID_FIELD);
    assert_eq!(world.done(&mut queue, disconnect(1)), 0);
    assert!(queue.is_closed && !admin.is_closed);
    assert_eq!(world.model.open_handles(), 1, "the admin queue's");
}

#[test]
fn all_queues_end_with_the_admin_queue() {
    let mut world = World::with_lun(MIB);
    let (mut queue, mut admin) = world.queue();
    world.close(&mut admin);
    assert_eq!(world.registry.len(), 0);
    let answer = world.exchange(&mut queue, &capsule(&flush(1), &[], NONE));
    assert!(answer.is_empty() && queue.is_closed);
    assert_eq!(world.model.open_handles(), 0);
}

#[test]
fn a_controller_ends_with_its_lun() {
    let mut world = World::with_lun(MIB);
    let (mut queue, mut admin) = world.queue();
    let (mut other, _) = world.admin();
    world.model.remove_lun(LUN);
    let answer = world.command(&mut queue, read(1, 0, 8), &[]);
    assert_eq!(answer[0].completion().status, Status::NAMESPACE_NOT_READY);
    world.second_passes();
    for link in [&mut queue, &mut admin, &mut other] {
        world.turn(link);
        assert!(link.is_closed);
    }
    assert_eq!((world.registry.len(), world.model.open_handles()), (0, 0));
    let mut late = world.initialized(NONE);
    let data = connect_data(u16::MAX, &subsystem());
    let done = world.complete(&mut late, connect(0, 32), &data);
    assert_eq!(
        (done.status, done.result),
        (Status::CONNECT_PARAMETERS, 1 << 16 | 256)
    );
    assert_eq!(done.status.code() >> 14, 0, "it may come back");
}

#[test]
fn a_silent_host_is_gone() {
    let mut world = World::with_lun(MIB);
    let mut admin = world.initialized(NONE);
    let parameters = Connect {
        keep_alive_ms: 5000,
        ..ADMIN
    };
    let data = connect_data(u16::MAX, &subsystem());
    let done = world.complete(&mut admin, connect_with(parameters), &data);
    let controller = u16::try_from(done.result).unwrap();
    world.enable(&mut admin);
    let mut queue = world.queue_of(controller, 1, NONE);
    // Keep-alive, and commands of other queues, keep it.
    for second in 0..30 {
        world.second_passes();
        match second % 8 {
            0 => drop(world.done(&mut admin, command(0x18, 9, nothing(), [0; 6]))),
            4 => drop(world.done(&mut queue, flush(1))),
            _ => {}
        }
    }
    let value = world.done(&mut admin, crate::host::get_feature(0x0f, 0));
    assert_eq!(value, 5000);
    for _ in 0..5 {
        world.second_passes();
        world.turn(&mut admin);
        assert!(!admin.is_closed);
    }
    for _ in 0..3 {
        world.second_passes();
    }
    for link in [&mut admin, &mut queue] {
        world.turn(link);
        assert!(link.is_closed);
    }
    assert_eq!((world.registry.len(), world.model.open_handles()), (0, 0));
}

#[test]
fn a_handshake_has_ten_seconds() {
    let mut world = World::with_lun(MIB);
    let mut silent = world.open();
    let mut slow = world.initialized(NONE);
    let (mut joined, _) = world.admin();
    for _ in 0..11 {
        world.second_passes();
    }
    for (link, is_closed) in [(&mut silent, true), (&mut slow, true), (&mut joined, false)] {
        world.turn(link);
        assert_eq!(link.is_closed, is_closed);
    }
}

#[test]
fn a_stop_ends_all_connections() {
    let mut world = World::with_lun(MIB);
    let (mut queue, mut admin) = world.queue();
    let mut late = world.initialized(NONE);
    world.sessions.stop(&mut world.model);
    for link in [&mut queue, &mut admin, &mut late] {
        world.turn(link);
        assert!(link.is_closed);
    }
    assert!(world.sessions.is_empty() && world.model.open_handles() == 0);
    assert_eq!(world.model.exports().len(), 1);
    let _ = in_capsule(0);
}
