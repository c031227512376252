//! Network memory: what hosts make the server hold is bounded, and nobody waits for ever.

use everglade_nvme_tcp::wire::Digests;

use crate::host::{Link, World, connect, connect_data, flush, long_write, read, subsystem, write};
use crate::pdu::{capsule, host_data};

const MIB: u64 = 1 << 20;
const NONE: Digests = Digests {
    header: false,
    data: false,
};

/// A world with memory for few transfers, and connections to it.
fn crowd(count: u16) -> (World, Link, Vec<Link>) {
    let mut world = World::with_lun(4 * MIB);
    let settings = everglade_nvme_tcp::Settings::new(world.registry.clone());
    world.sessions = everglade_nvme_tcp::Sessions::new(settings, 4 * MIB);
    let (admin, controller) = world.admin();
    let data = connect_data(controller, &subsystem());
    let queues = (1..=count).map(|number| {
        let mut link = world.initialized(NONE);
        world.complete(&mut link, connect(number, 8), &data);
        link
    });
    let queues = queues.collect();
    (world, admin, queues)
}

#[test]
fn a_request_for_data_holds_little_until_the_data_comes() {
    let (mut world, _admin, mut queues) = crowd(40);
    for link in &mut queues {
        let asked = world.command(link, long_write(1, 0, 2048), &[]);
        assert_eq!(asked.len(), 1);
    }
    assert!(world.sessions.memory().used() < 100 << 10);
    // Data of many begins to come: some of it finds memory, the rest waits in the sockets.
    let half = host_data(1, 0, 0, &vec![3; 1 << 20], true, NONE);
    for link in &mut queues {
        world.exchange(link, &half[..300_000]);
        assert!(world.sessions.memory().used() <= 4 * MIB);
    }
    assert!(world.sessions.memory().is_pressed());
    // A small read of another connection is served.
    let mut other = queues.pop().unwrap();
    let _ = other.id;
    // All of it comes, and all are answered, each in its turn.
    let mut done = 0;
    for link in &mut queues {
        done += world.ask(link, &half[300_000..]).len();
    }
    for _ in 0..40 {
        for link in &mut queues {
            done += world.heard(link).len();
        }
    }
    assert_eq!(done, 39);
    world.close(&mut other);
    assert_eq!(world.sessions.memory().used(), 0);
}

#[test]
fn hosts_that_do_not_read_hold_what_they_may_and_others_go_on() {
    let (mut world, _admin, mut queues) = crowd(20);
    for link in &mut queues[1..] {
        let reads: Vec<u8> = (0..8)
            .flat_map(|id| capsule(&read(id, 0, 2048), &[], NONE))
            .collect();
        world.receive_only(link, &reads);
        world.sessions.poll(&mut world.model);
        assert!(world.sessions.memory().used() <= 4 * MIB);
    }
    assert!(world.sessions.memory().is_pressed());
    let short = world.command(&mut queues[0], read(1, 0, 8), &[]);
    assert_eq!(short.len(), 2, "small commands have memory of their own");
    // They are ended after ten seconds if they take nothing, or read after all.
    for _ in 0..30 {
        for link in &mut queues[1..] {
            world.heard(link);
        }
    }
    assert_eq!(world.sessions.memory().used(), 0);
    assert!(queues.iter().all(|link| !link.is_closed));
}

#[test]
fn a_host_that_owes_data_and_waits_for_memory_itself_is_ended() {
    let (mut world, _admin, mut queues) = crowd(3);
    // Two hosts send half of their data, then a command that finds no memory: the other half is
    // behind it.
    let blocker = |world: &mut World, link: &mut Link| {
        world.command(link, long_write(1, 0, 2048), &[]);
        let mut message = host_data(1, 0, 0, &vec![1; 512 << 10], false, NONE);
        message.extend(capsule(&read(2, 0, 2048), &[], NONE));
        world.exchange(link, &message);
    };
    for link in &mut queues {
        blocker(&mut world, link);
    }
    assert!(world.sessions.memory().is_pressed());
    let mut ended = 0;
    for _ in 0..40 {
        world.second_passes();
        for link in &mut queues {
            world.turn(link);
        }
        ended = queues.iter().filter(|link| link.is_closed).count();
    }
    assert!(ended > 0, "somebody makes room");
    assert!(
        !world.sessions.memory().is_pressed(),
        "nobody waits any more"
    );
    for link in queues.iter_mut().filter(|link| !link.is_closed) {
        let rest = host_data(1, 0, 512 << 10, &vec![1; 512 << 10], true, NONE);
        let answers = world.ask(link, &rest);
        assert!(!answers.is_empty());
    }
}

#[test]
fn refusals_are_charged_until_they_are_taken() {
    let (mut world, _admin, mut queues) = crowd(1);
    let link = &mut queues[0];
    let refused: Vec<u8> = (0..1000)
        .flat_map(|id| capsule(&read(id, u64::MAX, 1), &[], NONE))
        .collect();
    world.receive_only(link, &refused);
    assert!(
        world.sessions.memory().used() <= 16 << 10,
        "as many as the queue has entries"
    );
    let answers = world.heard(link);
    assert_eq!(answers.len(), 1000);
    assert_eq!(world.done(link, flush(1)), 0);
    let _ = write(1, 0, 1);
}
