//! A queue for input and output asks on which reactor to run.

use std::sync::Arc;

use everglade_nvme_tcp::wire::Digests;
use everglade_nvme_tcp::{Sessions, Settings};
use everglade_target::model::Model;

use crate::host::{LUN, World, connect, connect_data, read, subsystem, write};
use crate::pdu::capsule;

const MIB: u64 = 1 << 20;

#[test]
fn a_queue_asks_about_its_lun_and_goes_on_elsewhere() {
    let model = Model::with_lun(LUN, MIB);
    let mut world = World::with(model, |settings| settings.asks_for_home = true);
    let digests = Digests {
        header: true,
        data: true,
    };
    // The admin queue does not ask.
    let (mut admin, controller) = world.admin_with(digests);
    let mut link = world.initialized(digests);
    let data = connect_data(controller, &subsystem());
    let mut messages = capsule(&connect(1, 32), &data, digests);
    messages.extend(capsule(&write(1, 0, 8), &[6; 4096], digests));
    let asking = world.sessions.interest(link.id).home;
    assert!(!asking);
    world.receive_only(&mut link, &messages);
    assert!(world.sessions.interest(link.id).home);
    let moving = world.sessions.release(link.id);
    let mut settings = Settings::new(Arc::clone(&world.registry));
    settings.asks_for_home = true;
    let mut elsewhere = Sessions::new(settings, 64 << 20);
    elsewhere.tick(world.now);
    std::mem::swap(&mut world.sessions, &mut elsewhere);
    link.id = world
        .sessions
        .adopt(world.now, moving, &mut world.model)
        .unwrap();
    let answers = world.heard(&mut link);
    assert!(answers.len() == 2 && crate::host::are_done(&answers));
    assert_eq!(world.fetch(&mut link, read(2, 0, 8)), [6; 4096]);
    // The controller's admin queue is on the other reactor, and ends both.
    std::mem::swap(&mut world.sessions, &mut elsewhere);
    world.close(&mut admin);
    std::mem::swap(&mut world.sessions, &mut elsewhere);
    world.second_passes();
    world.turn(&mut link);
    assert!(link.is_closed);
    assert_eq!(world.model.open_handles(), 0);
}
