//! What hosts ask a controller.

use everglade_nvme_tcp::wire::Status;

use crate::host::{
    World, command, get_feature, identify, in_capsule, log_page, nothing, property_get,
    property_set, read, set_feature, subsystem, transport, write,
};

const MIB: u64 = 1 << 20;

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(*bytes[at..].first_chunk().unwrap())
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*bytes[at..].first_chunk().unwrap())
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*bytes[at..].first_chunk().unwrap())
}

#[test]
fn properties_are_those_of_the_standard() {
    let mut world = World::with_lun(MIB);
    let (mut admin, _) = world.admin();
    let capabilities = world.done(&mut admin, property_get(0));
    assert_eq!(capabilities & 0xffff, 255, "entries less one");
    assert_eq!(capabilities >> 16 & 1, 1);
    assert_eq!(capabilities >> 37 & 0xff, 1, "the NVM command set");
    assert_eq!(capabilities >> 48, 0, "pages of 4 KiB");
    assert_eq!(world.done(&mut admin, property_get(8)), 0x0002_0000);
    assert_eq!(world.done(&mut admin, property_get(0x14)), 0x0046_0001);
    for unknown in [4, 0x20, 0x24, 0xffff_ffff] {
        let status = world.refused(&mut admin, property_get(unknown), &[]);
        assert_eq!(status, Status::INVALID_FIELD);
    }
    let status = world.refused(&mut admin, property_set(0x1c, 1), &[]);
    assert_eq!(status, Status::INVALID_FIELD);
}

#[test]
fn the_controller_says_what_it_can() {
    let mut world = World::with_lun(MIB);
    let (mut admin, controller) = world.admin();
    let bytes = world.fetch(&mut admin, identify(1, 0));
    assert_eq!(bytes.len(), 4096);
    assert_eq!(bytes[4..24].trim_ascii_end().len(), 20, "a serial number");
    assert_eq!(&bytes[24..33], b"Everglade");
    assert_eq!(bytes[77], 8, "256 pages");
    assert_eq!(u16_at(&bytes, 78), controller);
    assert_eq!(u32_at(&bytes, 80), 0x0002_0000);
    assert_eq!(bytes[111], 1);
    assert_eq!(u32_at(&bytes, 516), 1, "one namespace");
    assert_eq!(u16_at(&bytes, 526), 2047, "1 MiB is atomic");
    assert_eq!(u16_at(&bytes, 528), 2047, "after a power cut, too");
    assert_eq!(u16_at(&bytes, 532), 127, "64 KiB are compared and written");
    let name = subsystem();
    assert_eq!(&bytes[768..768 + name.len()], name.as_bytes());
    assert_eq!(bytes[768 + name.len()], 0);
    assert_eq!(u32_at(&bytes, 1792), (64 + (64 << 10)) / 16);
    let limits = world.fetch(&mut admin, identify(6, 0));
    assert_eq!(limits[..2], [13, 13], "32 MiB");
}

#[test]
fn a_namespace_says_what_it_is() {
    let mut world = World::with_lun(6 * MIB);
    let (mut admin, _) = world.admin();
    let bytes = world.fetch(&mut admin, identify(0, 1));
    for at in [0, 8, 16] {
        assert_eq!(u64_at(&bytes, at), 6 * MIB / 512);
    }
    assert_eq!(bytes[130], 9, "blocks of 512 bytes");
    assert_eq!(u16_at(&bytes, 64), 7, "in units of 4 KiB");
    let names = world.fetch(&mut admin, identify(3, 1));
    assert_eq!(names[..4], [1, 8, 0, 0]);
    assert_eq!(names[4..12], bytes[120..128]);
    assert_eq!(names[12..16], [2, 16, 0, 0]);
    assert_eq!(names[16..32], bytes[104..120]);
    assert_eq!(names[32..36], [3, 16, 0, 0]);
    assert_eq!(names[52..57], [4, 1, 0, 0, 0], "the NVM command set");
    assert!(bytes[104..128].iter().any(|byte| *byte != 0));
    assert_eq!(u32_at(&world.fetch(&mut admin, identify(2, 0)), 0), 1);
    assert_eq!(u32_at(&world.fetch(&mut admin, identify(7, 0)), 0), 1);
    assert_eq!(
        u32_at(&world.fetch(&mut admin, identify(2, 1)), 0),
        0,
        "none above"
    );
    assert_eq!(world.fetch(&mut admin, identify(8, 1))[14], 1, "ready");
    assert_eq!(world.fetch(&mut admin, identify(5, 1)), vec![0; 4096]);
    let common = world.fetch(&mut admin, identify(0, u32::MAX));
    assert_eq!((common[130], u64_at(&common, 0)), (9, 0));
    for (kind, namespace) in [
        (0, 0),
        (0, 2),
        (3, 2),
        (8, 7),
        (2, u32::MAX),
        (2, u32::MAX - 1),
    ] {
        let status = world.refused(&mut admin, identify(kind, namespace), &[]);
        assert_eq!(status, Status::INVALID_NAMESPACE);
    }
    for kind in [4, 0x10, 0x11, 0x14, 0xff] {
        let status = world.refused(&mut admin, identify(kind, 1), &[]);
        assert_eq!(status, Status::INVALID_FIELD);
    }
}

#[test]
fn controllers_of_the_subsystem_are_listed() {
    let mut world = World::with_lun(MIB);
    let (mut admin, first) = world.admin();
    let (_other, second) = world.admin();
    let list = world.fetch(&mut admin, identify(0x13, 0));
    assert_eq!([0, 2, 4].map(|at| u16_at(&list, at)), [2, first, second]);
    let from = u32::from(second) << 16;
    let list = world.fetch(&mut admin, identify(0x12 | from, 1));
    assert_eq!([0, 2, 4].map(|at| u16_at(&list, at)), [1, second, 0]);
}

#[test]
fn log_pages_are_read_in_parts() {
    let mut world = World::with_lun(MIB);
    let (mut queue, mut admin) = world.queue();
    world.complete(&mut queue, write(1, 0, 8), &[1; 4096]);
    world.fetch(&mut queue, read(2, 0, 16));
    world.fetch(&mut queue, read(3, 0, 16));
    world.second_passes();
    let health = world.fetch(&mut admin, log_page(2, 0, 512));
    assert_eq!(
        (u64_at(&health, 64), u64_at(&health, 80)),
        (2, 1),
        "reads and writes"
    );
    assert_eq!(
        (u64_at(&health, 32), u64_at(&health, 48)),
        (1, 1),
        "in units"
    );
    let part = world.fetch(&mut admin, log_page(2, 64, 24));
    assert_eq!(part, health[64..88]);
    let longer = world.fetch(&mut admin, log_page(2, 500, 64));
    assert_eq!(longer[12..], [0; 52], "nothing behind the end");
    for offset in [2, 516, u64::MAX - 3] {
        let status = world.refused(&mut admin, log_page(2, offset, 64), &[]);
        assert_eq!(status, Status::INVALID_FIELD);
    }
    let effects = world.fetch(&mut admin, log_page(5, 0, 4096));
    assert_eq!(u32_at(&effects, 4 * 6), 1, "identify");
    assert_eq!(u32_at(&effects, 1024 + 4), 3, "a write changes blocks");
    assert_eq!(u32_at(&effects, 1024 + 4 * 2), 1);
    let access = world.fetch(&mut admin, log_page(0x0c, 0, 64));
    assert_eq!(
        (u16_at(&access, 8), u32_at(&access, 20)),
        (1, 1),
        "one group, one namespace"
    );
    assert_eq!((access[32], u32_at(&access, 48)), (1, 1), "optimized");
    let supported = world.fetch(&mut admin, log_page(0, 0, 1024));
    for page in 0..=0xff {
        let is_there = u32_at(&supported, 4 * usize::from(page)) == 1;
        if is_there {
            world.fetch(&mut admin, log_page(page, 0, 16));
        } else {
            let status = world.refused(&mut admin, log_page(page, 0, 16), &[]);
            assert_eq!(status, Status::INVALID_LOG_PAGE);
        }
    }
    let enormous = world.refused(&mut admin, log_page(2, 0, (1 << 20) + 4), &[]);
    assert_eq!(enormous, Status::INVALID_FIELD);
    let short = everglade_nvme_tcp::wire::Command {
        sgl: transport(256),
        ..log_page(2, 0, 512)
    };
    assert_eq!(
        world.refused(&mut admin, short, &[]),
        Status::SGL_LENGTH_INVALID
    );
}

#[test]
fn features_are_set_and_returned() {
    let mut world = World::with_lun(MIB);
    let (mut admin, _) = world.admin();
    let queues = world.done(&mut admin, set_feature(7, 0x0007_0007));
    assert_eq!(queues, 0x0007_0007);
    world.done(&mut admin, set_feature(0x0b, 1 << 8));
    assert_eq!(world.done(&mut admin, get_feature(0x0b, 0)), 1 << 8);
    assert_eq!(world.fetch(&mut admin, get_feature(0x81, 16)), [5; 16]);
    assert_eq!(
        world.refused(&mut admin, set_feature(0x81, 0), &[]),
        Status::NOT_CHANGEABLE
    );
    assert_eq!(
        world.refused(&mut admin, set_feature(0x55, 0), &[]),
        Status::INVALID_FIELD
    );
    let behaviour = command(0x09, 1, in_capsule(512), [0x16, 0, 0, 0, 0, 0]);
    let data: Vec<u8> = (0..=255).chain(0..=255).collect();
    let done = world.complete(&mut admin, behaviour, &data);
    assert_eq!(done.status, Status::SUCCESS);
    assert_eq!(world.fetch(&mut admin, get_feature(0x16, 512)), data);
    // The same, asked for.
    let behaviour = command(0x09, 1, transport(512), [0x16, 0, 0, 0, 0, 0]);
    let asked = world.command(&mut admin, behaviour, &[]);
    let none = admin.digests;
    let message = crate::pdu::host_data(1, asked[0].u16_at(10), 0, &[9; 512], true, none);
    assert!(crate::host::are_done(&world.ask(&mut admin, &message)));
    assert_eq!(world.fetch(&mut admin, get_feature(0x16, 512)), [9; 512]);
}

#[test]
fn a_write_cache_that_is_off_makes_writes_durable() {
    let mut world = World::with_lun(MIB);
    let (_queue, mut admin) = world.queue();
    assert_eq!(world.done(&mut admin, get_feature(6, 0)), 1);
    world.done(&mut admin, set_feature(6, 0));
    assert_eq!(world.done(&mut admin, get_feature(6, 0)), 0);
    world.done(&mut admin, set_feature(6, 1));
    assert_eq!(world.done(&mut admin, get_feature(6, 0)), 1);
}

#[test]
fn admin_commands_that_do_not_exist_are_refused() {
    let mut world = World::with_lun(MIB);
    let (mut queue, mut admin) = world.queue();
    for opcode in [0, 1, 4, 5, 0x0d, 0x10, 0x80, 0x84, 0xff] {
        let unknown = command(opcode, 1, nothing(), [0; 6]);
        assert_eq!(
            world.refused(&mut admin, unknown, &[]),
            Status::INVALID_OPCODE
        );
    }
    let on_queue = world.refused(&mut queue, property_get(0x1c), &[]);
    assert_eq!(on_queue, Status::INVALID_FIELD);
    let with_data = world.refused(&mut admin, property_get(0x1c), &[1; 64]);
    assert_eq!(with_data, Status::INVALID_FIELD);
}
