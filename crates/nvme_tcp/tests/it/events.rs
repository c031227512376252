//! Requests that are answered when something happens.

use everglade_nvme_tcp::wire::{Command, Status};

use crate::host::{LUN, Link, World, command, log_page, nothing, property_set, set_feature};

const MIB: u64 = 1 << 20;

fn event_request(id: u16) -> Command {
    command(0x0c, id, nothing(), [0; 6])
}

fn wait(world: &mut World, link: &mut Link, id: u16) {
    assert!(world.command(link, event_request(id), &[]).is_empty());
}

#[test]
fn a_host_hears_of_a_new_size_once_until_it_looks() {
    let mut world = World::with_lun(MIB);
    let (mut admin, _) = world.admin();
    wait(&mut world, &mut admin, 1);
    world.model.resize(LUN, 2 * MIB);
    world.second_passes();
    assert!(world.heard(&mut admin).is_empty(), "it does not want to");
    world.done(&mut admin, set_feature(0x0b, 1 << 8));
    world.model.resize(LUN, 3 * MIB);
    world.second_passes();
    let heard = world.heard(&mut admin);
    assert_eq!(heard.len(), 1);
    let event = heard[0].completion();
    assert_eq!((event.command_id, event.result), (1, 0x0004_0002));
    wait(&mut world, &mut admin, 1);
    world.model.resize(LUN, 4 * MIB);
    world.second_passes();
    assert!(world.heard(&mut admin).is_empty(), "it has not looked yet");
    let keeps = Command {
        words: {
            let mut words = log_page(4, 0, 4096).words;
            words[0] |= 1 << 15;
            words
        },
        ..log_page(4, 0, 4096)
    };
    assert_eq!(
        world.fetch(&mut admin, keeps)[..8],
        [1, 0, 0, 0, 0, 0, 0, 0]
    );
    assert_eq!(world.fetch(&mut admin, log_page(4, 0, 4096))[0], 1);
    assert_eq!(
        world.fetch(&mut admin, log_page(4, 0, 4096))[0],
        0,
        "it was read"
    );
    world.model.resize(LUN, 5 * MIB);
    world.second_passes();
    assert_eq!(world.heard(&mut admin).len(), 1);
}

#[test]
fn requests_are_few_and_are_given_up() {
    let mut world = World::with_lun(MIB);
    let (mut admin, _) = world.admin();
    for id in 1..=4 {
        wait(&mut world, &mut admin, id);
    }
    assert_eq!(
        world.refused(&mut admin, event_request(5), &[]),
        Status::EVENT_LIMIT
    );
    assert_eq!(
        world.refused(&mut admin, event_request(4), &[]),
        Status::COMMAND_ID_CONFLICT
    );
    let abort = |queue: u16, id: u16| {
        let word = u32::from(queue) | u32::from(id) << 16;
        command(0x08, 9, nothing(), [word, 0, 0, 0, 0, 0])
    };
    assert_eq!(world.done(&mut admin, abort(0, 7)), 1, "there is none");
    assert_eq!(world.done(&mut admin, abort(1, 3)), 1);
    let answers = world.command(&mut admin, abort(0, 3), &[]);
    let ends: Vec<_> = answers.iter().map(|it| it.completion()).collect();
    assert_eq!(ends.len(), 2);
    assert_eq!(
        (ends[0].command_id, ends[0].status),
        (3, Status::ABORT_REQUESTED)
    );
    assert_eq!((ends[1].command_id, ends[1].result), (9, 0));
    wait(&mut world, &mut admin, 3);
    // A reset forgets them.
    world.done(&mut admin, property_set(0x14, 0));
    let early = world.refused(&mut admin, event_request(1), &[]);
    assert_eq!(early, Status::COMMAND_SEQUENCE);
    world.enable(&mut admin);
    wait(&mut world, &mut admin, 1);
}
