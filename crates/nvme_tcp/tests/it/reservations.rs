//! Hosts agree on who may use a namespace.

use std::sync::Arc;

use everglade_nvme_tcp::wire::opcode::io;
use everglade_nvme_tcp::wire::{Command, Digests, Status};

use everglade_target::reservations::{Existing, Host, Kind, Registry};

use crate::host::{
    LUN, Link, World, command, connect, flush, get_feature, in_capsule, long_write, nothing, read,
    set_feature, subsystem, transport, write,
};
use crate::pdu::host_data;

const MIB: u64 = 1 << 20;
const CONFLICT: Status = Status::RESERVATION_CONFLICT;

/// Queues of two hosts, and their admin queues.
fn two_hosts() -> (World, [Link; 2], Vec<Link>) {
    let mut world = World::with_lun(MIB);
    let mut admins = Vec::new();
    let queues = [1_u8, 2].map(|host| {
        let data = |controller: u16| {
            let mut data = crate::host::connect_data(controller, &subsystem());
            data[..16].fill(host);
            data
        };
        let mut admin = world.initialized(Digests::default());
        let done = world.complete(&mut admin, connect(0, 32), &data(u16::MAX));
        world.enable(&mut admin);
        admins.push(admin);
        let mut queue = world.initialized(Digests::default());
        let controller = u16::try_from(done.result).unwrap();
        world.complete(&mut queue, connect(1, 32), &data(controller));
        queue
    });
    (world, queues, admins)
}

fn keys(opcode: u8, word: u32, keys: &[u64]) -> (Command, Vec<u8>) {
    let data: Vec<u8> = keys.iter().flat_map(|key| key.to_le_bytes()).collect();
    let length = u32::try_from(data.len()).unwrap();
    let words = [word, 0, 0, 0, 0, 0];
    (command(opcode, 7, in_capsule(length), words), data)
}

fn said(world: &mut World, link: &mut Link, (command, data): (Command, Vec<u8>)) -> Status {
    world.complete(link, command, &data).status
}

fn register(new: u64) -> (Command, Vec<u8>) {
    keys(io::RESERVATION_REGISTER, 0, &[0, new])
}

fn acquire(key: u64, kind: u32) -> (Command, Vec<u8>) {
    keys(io::RESERVATION_ACQUIRE, kind << 8, &[key, 0])
}

const OK: Status = Status::SUCCESS;

#[test]
fn a_writer_that_does_not_hold_the_reservation_is_refused() {
    let (mut world, [mut a, mut b], _admins) = two_hosts();
    assert_eq!(
        said(&mut world, &mut a, acquire(10, 1)),
        CONFLICT,
        "not registered"
    );
    assert_eq!(said(&mut world, &mut a, register(10)), OK);
    assert_eq!(said(&mut world, &mut a, acquire(10, 1)), OK);
    let data = [1; 512];
    assert_eq!(world.complete(&mut a, write(1, 0, 1), &data).status, OK);
    assert_eq!(world.refused(&mut b, write(1, 0, 1), &data), CONFLICT);
    assert_eq!(world.refused(&mut b, flush(1), &[]), CONFLICT);
    let zeroes = command(io::WRITE_ZEROES, 1, nothing(), [0; 6]);
    assert_eq!(world.refused(&mut b, zeroes, &[]), CONFLICT);
    assert_eq!(world.fetch(&mut b, read(1, 0, 1)), data, "it may read");
    // Exclusive access.
    let release = keys(io::RESERVATION_RELEASE, 1 << 8, &[10]);
    assert_eq!(said(&mut world, &mut a, release), OK);
    assert_eq!(world.complete(&mut b, write(1, 0, 1), &data).status, OK);
    assert_eq!(said(&mut world, &mut a, acquire(10, 2)), OK);
    assert_eq!(world.refused(&mut b, read(1, 0, 1), &[]), CONFLICT);
}

#[test]
fn a_registered_host_takes_the_reservation_away() {
    let (mut world, [mut a, mut b], _admins) = two_hosts();
    assert_eq!(said(&mut world, &mut a, register(10)), OK);
    assert_eq!(said(&mut world, &mut b, register(20)), OK);
    assert_eq!(said(&mut world, &mut a, acquire(10, 1)), OK);
    assert_eq!(said(&mut world, &mut b, acquire(20, 1)), CONFLICT);
    let preempt = keys(io::RESERVATION_ACQUIRE, 1 << 8 | 1, &[20, 10]);
    assert_eq!(said(&mut world, &mut b, preempt), OK);
    assert_eq!(world.refused(&mut a, write(1, 0, 1), &[1; 512]), CONFLICT);
    assert_eq!(world.complete(&mut b, write(1, 0, 1), &[1; 512]).status, OK);
    let clear = keys(io::RESERVATION_RELEASE, 1, &[20]);
    assert_eq!(said(&mut world, &mut b, clear), OK);
    assert_eq!(world.complete(&mut a, write(1, 0, 1), &[1; 512]).status, OK);
}

#[test]
fn data_that_comes_after_the_reservation_is_not_written() {
    let (mut world, [mut a, mut b], _admins) = two_hosts();
    let asked = world.command(&mut b, long_write(3, 0, 1), &[]);
    said(&mut world, &mut a, register(10));
    assert_eq!(said(&mut world, &mut a, acquire(10, 1)), OK);
    let late = host_data(3, asked[0].u16_at(10), 0, &[9; 512], true, b.digests);
    let answers = world.ask(&mut b, &late);
    assert_eq!(answers[0].completion().status, CONFLICT);
    assert_eq!(world.model.blocks_in_use(LUN), 0);
}

#[test]
fn registrations_are_reported_and_outlive_connections() {
    let (mut world, [mut a, mut b], mut admins) = two_hosts();
    said(&mut world, &mut a, register(10));
    said(&mut world, &mut b, register(20));
    said(&mut world, &mut b, acquire(20, 5));
    world.close(&mut b);
    world.close(&mut admins[1]);
    let report = |extended: u32| {
        let words = [63, extended, 0, 0, 0, 0];
        command(io::RESERVATION_REPORT, 8, transport(256), words)
    };
    let bytes = world.fetch(&mut a, report(1));
    assert_eq!((bytes[4], bytes[5], bytes.len()), (5, 2, 256));
    let entry = |index: usize| &bytes[64 * (index + 1)..][..64];
    assert_eq!((entry(0)[8], entry(1)[8]), (10, 20), "keys");
    assert_eq!((entry(0)[16], entry(1)[16]), (1, 2), "hosts");
    assert_eq!(
        (entry(0)[2], entry(1)[2]),
        (1, 1),
        "all registrants hold it"
    );
    let short = world.refused(&mut a, report(0), &[]);
    assert_eq!(short, Status::HOST_ID_INCONSISTENT);
}

#[test]
fn a_key_is_replaced_by_who_knows_it() {
    let (mut world, [mut a, _b], _admins) = two_hosts();
    let replace = |current: u64, new: u64| keys(io::RESERVATION_REGISTER, 2, &[current, new]);
    let remove = |current: u64| keys(io::RESERVATION_REGISTER, 1, &[current, 0]);
    assert_eq!(
        said(&mut world, &mut a, replace(0, 5)),
        CONFLICT,
        "there is none"
    );
    assert_eq!(said(&mut world, &mut a, register(0)), Status::INVALID_FIELD);
    assert_eq!(said(&mut world, &mut a, register(5)), OK);
    assert_eq!(said(&mut world, &mut a, register(5)), OK, "the same again");
    assert_eq!(said(&mut world, &mut a, register(6)), CONFLICT);
    assert_eq!(said(&mut world, &mut a, replace(4, 6)), CONFLICT);
    assert_eq!(said(&mut world, &mut a, replace(5, 6)), OK);
    let ignoring = keys(io::RESERVATION_REGISTER, 2 | 1 << 3, &[0, 7]);
    assert_eq!(said(&mut world, &mut a, ignoring), OK);
    assert_eq!(said(&mut world, &mut a, remove(6)), CONFLICT);
    assert_eq!(said(&mut world, &mut a, remove(7)), OK);
    let outliving = keys(io::RESERVATION_REGISTER, 3 << 30, &[0, 1]);
    assert_eq!(said(&mut world, &mut a, outliving), Status::INVALID_FIELD);
    for wrong in [acquire(7, 0), acquire(7, 7)] {
        assert_eq!(said(&mut world, &mut a, wrong), Status::INVALID_FIELD);
    }
}

#[test]
fn reservations_of_other_protocols_count_although_none_are_offered() {
    let registry = Arc::new(Registry::default());
    let model = everglade_target::model::Model::with_lun(LUN, MIB);
    let uuid = everglade_target::Target::exports(&model)[0].uuid;
    let mut world = World::with(model, |settings| {
        settings.offers_reservations = false;
        settings.reservations = Arc::clone(&registry);
    });
    let (mut link, _admin) = world.queue();
    let other = Host::new(b"iscsi\0other");
    let reserved = registry.lun(&uuid).change(|state| {
        state.register(&other, Existing::Ignored, 7)?;
        state.acquire(&other, 7, Kind::WriteExclusive)
    });
    assert_eq!(reserved, Ok(()));
    let refused = world.refused(&mut link, write(1, 0, 1), &[1; 512]);
    assert_eq!(refused, CONFLICT);
    let cleared = registry.lun(&uuid).change(|state| state.clear(&other, 7));
    assert_eq!(cleared, Ok(()));
    let written = world.complete(&mut link, write(1, 0, 1), &[1; 512]);
    assert_eq!(written.status, OK);
}

#[test]
fn reservations_that_are_not_offered_do_not_exist() {
    let model = everglade_target::model::Model::with_lun(LUN, MIB);
    let mut world = World::with(model, |settings| settings.offers_reservations = false);
    let (mut link, mut admin) = world.queue();
    let (command, data) = register(1);
    assert_eq!(
        world.refused(&mut link, command, &data),
        Status::INVALID_OPCODE
    );
    let structure = world.fetch(&mut admin, crate::host::identify(1, 0));
    assert_eq!(structure[520] & 1 << 5, 0);
    assert_eq!(world.fetch(&mut admin, crate::host::identify(0, 1))[31], 0);
    assert_eq!(
        world.complete(&mut link, write(1, 0, 1), &[1; 512]).status,
        OK
    );
}

#[test]
fn who_cannot_abort_does_not_say_that_it_did() {
    let (mut world, [mut a, _b], _admins) = two_hosts();
    said(&mut world, &mut a, register(10));
    let preempt = keys(io::RESERVATION_ACQUIRE, 1 << 8 | 2, &[10, 20]);
    assert_eq!(said(&mut world, &mut a, preempt), Status::INVALID_FIELD);
}

/// A queue and its admin queue, where reservations are kept by the test.
fn with_keeper() -> (World, Arc<Registry>, Link, Link) {
    let registry = Arc::new(Registry::with_keeper(|| {}));
    let model = everglade_target::model::Model::with_lun(LUN, MIB);
    let mut world = World::with(model, |settings| {
        settings.reservations = Arc::clone(&registry);
    });
    let (queue, admin) = world.queue();
    (world, registry, queue, admin)
}

/// What the keeper's write comes to.
fn keep(registry: &Registry, outcome: Result<(), &str>) -> usize {
    let waiting = registry.to_keep();
    let count = waiting.len();
    let outcome = outcome.map_err(Arc::<str>::from);
    waiting.into_iter().for_each(|it| it.end(outcome.clone()));
    count
}

fn outliving(new: u64) -> (Command, Vec<u8>) {
    keys(io::RESERVATION_REGISTER, 3 << 30, &[0, new])
}

#[test]
fn what_is_to_outlive_the_power_is_answered_when_it_is_kept() {
    let (mut world, registry, mut queue, mut admin_queue) = with_keeper();
    let (command, data) = outliving(10);
    assert_eq!(world.command(&mut queue, command, &data).len(), 0);
    world.second_passes();
    assert_eq!(world.heard(&mut queue).len(), 0, "nobody has kept it");
    assert_eq!(keep(&registry, Ok(())), 1);
    world.second_passes();
    let heard = world.heard(&mut queue);
    assert_eq!(heard.len(), 1);
    assert_eq!(
        (
            heard[0].completion().status,
            heard[0].completion().command_id
        ),
        (OK, 7)
    );
    // What cannot be kept has not happened.
    let (command, data) = acquire(10, 1);
    assert_eq!(world.command(&mut queue, command, &data).len(), 0);
    assert_eq!(keep(&registry, Err("no space")), 1);
    world.second_passes();
    assert_eq!(
        world.heard(&mut queue)[0].completion().status,
        Status::INTERNAL
    );
    assert_eq!(registry.lun(&registry.uuids()[0]).report().kind, None);
    // The namespace says that it can, and the feature that it does.
    let structure = world.fetch(&mut admin_queue, crate::host::identify(0, 1));
    assert_eq!(structure[31], 0xff);
    let get = get_feature(0x83, 0);
    assert_eq!(world.done(&mut admin_queue, get), 1);
    // Turned off, nothing is kept any more: the removal of what was kept is.
    let off = set_feature(0x83, 0);
    assert_eq!(world.command(&mut admin_queue, off, &[]).len(), 0);
    assert_eq!(keep(&registry, Ok(())), 1);
    world.second_passes();
    assert_eq!(world.heard(&mut admin_queue)[0].completion().status, OK);
    assert_eq!(world.done(&mut admin_queue, get), 0);
    assert_eq!(said(&mut world, &mut queue, acquire(10, 1)), OK, "at once");
}

#[test]
fn a_host_that_leaves_before_its_change_is_kept_does_no_harm() {
    let (mut world, registry, mut queue, _admin) = with_keeper();
    let (command, data) = outliving(10);
    assert_eq!(world.command(&mut queue, command, &data).len(), 0);
    world.close(&mut queue);
    assert_eq!(keep(&registry, Ok(())), 1);
    world.second_passes();
    let lun = registry.lun(&registry.uuids()[0]);
    assert_eq!(lun.report().registrants.len(), 1, "it was carried out");
}
