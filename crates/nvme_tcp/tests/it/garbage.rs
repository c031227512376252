//! Bytes nobody should send. The session answers or closes; it does not panic, and holds little.

use everglade_nvme_tcp::wire::{Command, Digests};
use everglade_target::conformance::Dice;

use crate::host::{
    Link, World, connect, connect_data, flush, identify, in_capsule, log_page, long_write,
    property_get, property_set, read, set_feature, subsystem, transport, write,
};
use crate::pdu::{capsule, host_data, initialize};

const MIB: u64 = 1 << 20;

/// Sends bytes, then the host leaves.
fn feed(world: &mut World, link: &mut Link, bytes: &[u8]) {
    world.exchange(link, bytes);
    assert!(world.sessions.memory().used() <= 64 << 20);
    if !link.is_closed {
        world.close(link);
    }
    world.second_passes();
    assert_eq!(
        world.sessions.memory().used(),
        0,
        "nothing is held for who has left"
    );
}

fn small(seed: u64) -> World {
    let mut world = World::with_lun(MIB);
    let mut dice = Dice::new(seed);
    if dice.once_in(3) {
        world.chunk = usize::try_from(1 + dice.below(100)).unwrap();
    }
    world
}

#[test]
fn random_bytes_from_the_first_on() {
    for seed in 0..5_000 {
        let mut dice = Dice::new(seed);
        let length = dice.below(300);
        let mut bytes = dice.bytes(usize::try_from(length).unwrap());
        if dice.once_in(2) {
            bytes.splice(0..0, initialize(Digests::default(), 0));
        }
        let mut world = small(seed);
        let mut link = world.open();
        feed(&mut world, &mut link, &bytes);
    }
}

/// A command of random fields, most of which are near to good ones.
fn random_command(dice: &mut Dice) -> (Command, Vec<u8>) {
    let id = u16::try_from(dice.below(12)).unwrap();
    let (first, count) = (dice.below(2100), u32::try_from(1 + dice.below(40)).unwrap());
    let mut command = match dice.below(12) {
        0 => write(id, first, count),
        1 => long_write(id, first, count),
        2 => read(id, first, count),
        3 => flush(id),
        4 => identify(u32::try_from(dice.below(40)).unwrap(), 1),
        5 => log_page(u8::try_from(dice.below(16)).unwrap(), 0, 512),
        6 => set_feature(u8::try_from(dice.below(32)).unwrap(), 7),
        7 => property_get(dice.pick(&[0, 8, 0x14, 0x1c, 3])),
        8 => property_set(0x14, dice.pick(&[0, 1, 0x4001, 0x46_0001])),
        _ => {
            let opcode = dice.pick(&[0x05, 0x08, 0x09, 0x0c, 0x19, 0x7f, 0x01, 0x02]);
            let words = [0; 6].map(|_: u32| u32::try_from(dice.below(1 << 32)).unwrap());
            Command {
                opcode,
                words,
                ..read(id, 0, 1)
            }
        }
    };
    command.id = id;
    if dice.once_in(5) {
        command.flags = dice.pick(&[0, 0x40, 0x41, 0x42, 0x43, 0xff]);
    }
    if dice.once_in(5) {
        let length = u32::try_from(dice.below(9000)).unwrap();
        command.sgl = dice.pick(&[in_capsule(length), transport(length)]);
    }
    if dice.once_in(8) {
        let word = usize::try_from(dice.below(6)).unwrap();
        command.words[word] = u32::try_from(dice.below(1 << 32)).unwrap();
    }
    if dice.once_in(20) {
        command.namespace = dice.pick(&[0, 2, u32::MAX]);
    }
    let is_in_message = command.sgl.kind == in_capsule(0).kind;
    let length = match (is_in_message, dice.once_in(10)) {
        (_, true) => dice.below(3000),
        (true, _) => u64::from(command.sgl.length),
        (false, _) => 0,
    };
    (command, dice.bytes(usize::try_from(length).unwrap()))
}

/// Messages of a host that forgets itself.
fn conversation(dice: &mut Dice, digests: Digests) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..dice.below(12) {
        if dice.once_in(4) {
            let (id, tag) = (dice.below(12), dice.below(6));
            let length = dice.pick(&[512, 512 * 8, 100]);
            let data = dice.bytes(length);
            let offset = dice.pick(&[0, 0, 512]);
            let [id, tag] = [id, tag].map(|number| u16::try_from(number).unwrap());
            bytes.extend(host_data(id, tag, offset, &data, dice.once_in(2), digests));
        } else {
            let (command, data) = random_command(dice);
            bytes.extend(capsule(&command, &data, digests));
        }
    }
    bytes
}

#[test]
fn random_commands_and_data() {
    for seed in 0..6_000 {
        let mut dice = Dice::new(seed);
        let mut world = small(seed);
        let digests = Digests {
            header: dice.once_in(4),
            data: dice.once_in(4),
        };
        let (mut link, mut other) = match dice.once_in(3) {
            true => {
                let (admin, controller) = world.admin_with(digests);
                let queue = world.queue_of(controller, 1, digests);
                (admin, queue)
            }
            false => world.queue_with(digests),
        };
        let bytes = conversation(&mut dice, digests);
        world.exchange(&mut link, &bytes);
        if !link.is_closed {
            world.close(&mut link);
        }
        world.turn(&mut other);
        if !other.is_closed {
            world.close(&mut other);
        }
        world.second_passes();
        assert_eq!(world.sessions.memory().used(), 0, "seed {seed}");
        assert_eq!((world.registry.len(), world.model.open_handles()), (0, 0));
    }
}

#[test]
fn valid_conversations_with_bytes_changed() {
    for seed in 0..6_000 {
        let mut dice = Dice::new(seed);
        let mut world = small(seed);
        let mut bytes = initialize(Digests::default(), 0);
        let data = connect_data(u16::MAX, &subsystem());
        bytes.extend(capsule(&connect(0, 32), &data, Digests::default()));
        bytes.extend(capsule(
            &property_set(0x14, 0x46_0001),
            &[],
            Digests::default(),
        ));
        bytes.extend(conversation(&mut dice, Digests::default()));
        for _ in 0..1 + dice.below(8) {
            let at = usize::try_from(dice.below(bytes.len() as u64)).unwrap();
            match dice.below(4) {
                0 => bytes[at] ^= 1 << dice.below(8),
                1 => bytes[at] = dice.pick(&[0, 1, 0x7f, 0x80, 0xff]),
                2 => drop(bytes.remove(at)),
                _ => bytes.insert(at, dice.pick(&[0, 0xff])),
            }
        }
        let mut link = world.open();
        feed(&mut world, &mut link, &bytes);
    }
}
