//! The discovery service.

use std::sync::Arc;

use everglade_nvme_tcp::wire::{Connect, Digests, Status, nqn};
use everglade_target::model::Model;
use everglade_target::sessions::{AllowList, Caller};

use crate::host::{
    LUN, World, command, connect_data, connect_with, identify, log_page, nothing, set_feature,
    subsystem, subsystem_of,
};

const MIB: u64 = 1 << 20;

fn two_luns() -> Model {
    let mut model = Model::with_lun(LUN, MIB);
    model.add_lun("vol0/secret", MIB);
    model
}

struct FirstOnly;

impl AllowList for FirstOnly {
    fn allows(&self, export: &str, _: &[u8; 16], _: &Caller) -> bool {
        export == LUN
    }
}

/// Subtype, port, name and address of an entry.
fn entry(page: &[u8], index: usize) -> (u8, String, String, String) {
    let entry = &page[1024 * (index + 1)..][..1024];
    assert_eq!(
        (entry[0], u16::from_le_bytes([entry[6], entry[7]])),
        (3, 0xffff)
    );
    let text = |from: usize, length: usize| {
        let field = &entry[from..from + length];
        let text = String::from_utf8(field.to_vec()).unwrap();
        text.trim_matches(['\0', ' ']).to_owned()
    };
    (entry[2], text(32, 32), text(256, 256), text(512, 256))
}

#[test]
fn subsystems_are_listed_that_the_host_may_see() {
    let mut world = World::with(two_luns(), |settings| settings.port = Some(4420));
    world.caller = Caller {
        local: Some("192.0.2.7:8009".parse().unwrap()),
        allow_list: Some(Arc::new(FirstOnly)),
        ..Caller::default()
    };
    let (mut link, _) = world.connect_to(nqn::DISCOVERY, Digests::default());
    world.enable(&mut link);
    let page = world.fetch(&mut link, log_page(0x70, 0, 8192));
    assert_eq!(page[..8], [1, 0, 0, 0, 0, 0, 0, 0], "the first generation");
    assert_eq!(page[8..16], [2, 0, 0, 0, 0, 0, 0, 0], "two records");
    let text = |text: &str| text.to_owned();
    let here = (3, text("8009"), text(nqn::DISCOVERY), text("192.0.2.7"));
    assert_eq!(entry(&page, 0), here);
    let name = &subsystem();
    assert_eq!(
        entry(&page, 1),
        (2, text("4420"), name.clone(), text("192.0.2.7"))
    );
    assert!(page[3072..].iter().all(|byte| *byte == 0));
    assert_eq!(
        world.fetch(&mut link, log_page(0x70, 2048, 1024)),
        page[2048..3072]
    );
    let hidden = connect_data(u16::MAX, &subsystem_of("vol0/secret", 2));
    let mut other = world.initialized(Digests::default());
    let done = world.complete(&mut other, crate::host::connect(0, 32), &hidden);
    assert_eq!(done.status, Status::CONNECT_PARAMETERS);
}

#[test]
fn the_service_has_no_namespaces_and_no_queues() {
    let mut world = World::with_lun(MIB);
    let (mut link, controller) = world.connect_to(nqn::DISCOVERY, Digests::default());
    world.enable(&mut link);
    let structure = world.fetch(&mut link, identify(1, 0));
    assert_eq!(structure[111], 2, "a discovery controller");
    assert_eq!(structure[516..520], [0; 4]);
    let status = world.refused(&mut link, identify(2, 0), &[]);
    assert_eq!(status, Status::INVALID_FIELD);
    assert_eq!(
        world.refused(&mut link, set_feature(7, 0), &[]),
        Status::INVALID_FIELD
    );
    assert_eq!(
        world.refused(&mut link, log_page(2, 0, 512), &[]),
        Status::INVALID_LOG_PAGE
    );
    let mut queue = world.initialized(Digests::default());
    let data = connect_data(controller, nqn::DISCOVERY);
    let done = world.complete(&mut queue, crate::host::connect(1, 32), &data);
    assert_eq!((done.status, done.result), (Status::CONNECT_PARAMETERS, 42));
}

#[test]
fn a_host_that_stays_hears_of_new_subsystems() {
    let mut world = World::with_lun(MIB);
    let mut link = world.initialized(Digests::default());
    let parameters = Connect {
        format: 0,
        queue: 0,
        entries: 31,
        disables_flow_control: false,
        keep_alive_ms: 30_000,
    };
    let data = connect_data(u16::MAX, nqn::DISCOVERY);
    world.complete(&mut link, connect_with(parameters), &data);
    world.enable(&mut link);
    world.done(&mut link, set_feature(0x0b, 1 << 31));
    let request = command(0x0c, 1, nothing(), [0; 6]);
    assert!(world.command(&mut link, request, &[]).is_empty());
    world.second_passes();
    assert!(world.heard(&mut link).is_empty(), "nothing is new");
    world.model.add_lun("vol0/new", MIB);
    world.second_passes();
    let heard = world.heard(&mut link);
    assert_eq!(heard[0].completion().result, 0x0070_f002);
    let page = world.fetch(&mut link, log_page(0x70, 0, 4096));
    assert_eq!(
        (page[0], page[8]),
        (2, 3),
        "the second generation, with three records"
    );
    let names: Vec<String> = (1..3).map(|index| entry(&page, index).2).collect();
    let expected = [subsystem(), subsystem_of("vol0/new", 2)];
    assert_eq!(names, expected);
}

#[test]
fn a_host_that_forgot_the_service_is_gone_after_two_minutes() {
    let mut world = World::with_lun(MIB);
    let (mut link, _) = world.connect_to(nqn::DISCOVERY, Digests::default());
    for second in 0..125 {
        world.second_passes();
        world.turn(&mut link);
        assert_eq!(link.is_closed, second >= 121, "{second}");
    }
}
