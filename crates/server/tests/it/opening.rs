//! First starts, later starts, and the remains of an interrupted start.

use std::fs;

use everglade_server::DataDir;
use everglade_server::datadir::{Device, Phase, State};
use everglade_server::offline::Offline;

use crate::world::{World, make_aggregate, one_aggregate};

#[test]
fn a_missing_directory_is_created_with_its_parents() {
    let mut world = World::missing();
    world.path = world.path.join("deep/er");
    let directory = world.open().expect("a first start");
    assert_eq!(directory.state(), &State::default());
    assert_eq!(
        world.text("FORMAT"),
        "everglade data directory\nversion 0\n"
    );
    assert!(world.has("aggregates") && world.has("run"));
}

#[test]
fn a_fresh_file_system_counts_as_blank() {
    let world = World::empty();
    fs::create_dir(world.path.join("lost+found")).expect("create");
    world.open().expect("a first start");
}

#[test]
fn a_first_start_cut_short_anywhere_can_be_repeated() {
    let world = World::empty();
    world.put("LOCK", "");
    world.open().expect("cut after the lock");

    let world = World::empty();
    world.put("LOCK", "4711\n");
    world.put("FORMAT.new", "everglade da");
    world.open().expect("cut while writing FORMAT");
    assert!(!world.has("FORMAT.new"), "a leftover is removed");

    let world = World::empty();
    world.put("FORMAT", "everglade data directory\nversion 0\n");
    world.open().expect("cut before the folders");
}

#[test]
fn what_was_recorded_is_found_by_the_next_start() {
    let world = World::missing();
    let mut directory = world.open().expect("a first start");
    let device = make_aggregate(&mut directory);
    assert!(
        directory
            .device_path(&device)
            .ends_with("aggregates/aggr0/dev0")
    );
    assert!(directory.device_path(&device).is_dir());
    let state = one_aggregate(&device, Phase::Ready);
    assert_eq!(directory.state(), &state);
    drop(directory);
    assert_eq!(world.open().expect("a second start").state(), &state);
    assert_eq!(Offline::open(&world.path).expect("offline").state(), &state);
}

#[test]
fn an_aggregate_cut_short_while_it_was_created_is_made_again_from_nothing() {
    let world = World::missing();
    let mut directory = world.open().expect("a first start");
    let device = DataDir::directory_device("aggr0", 0, 64 << 30);
    directory
        .record(one_aggregate(&device, Phase::Creating))
        .expect("recorded");
    let path = directory.make_directory(&device).expect("made");
    fs::write(path.join("00000000.seg"), "half a label").expect("write");
    drop(directory);

    let mut directory = world.open().expect("a start after the power cut");
    assert_eq!(directory.state().aggregates[0].phase, Phase::Creating);
    let path = directory.make_directory(&device).expect("made again");
    assert_eq!(fs::read_dir(path).expect("list").count(), 0);
    directory
        .record(one_aggregate(&device, Phase::Ready))
        .expect("recorded");
}

#[test]
#[should_panic(expected = "a device is recorded before it is made")]
fn a_ready_device_is_never_made_again() {
    let world = World::missing();
    let mut directory = world.open().expect("a first start");
    let device = make_aggregate(&mut directory);
    let _ = directory.make_directory(&device);
}

#[test]
fn a_joining_device_is_made_in_a_served_aggregate_and_again_after_a_cut() {
    let world = World::served();
    let mut directory = world.open().expect("a later start");
    let mut state = directory.state().clone();
    let device = Device {
        joining: true,
        replaces: None,
        member: None,
        ..DataDir::directory_device("aggr0", 1, 64 << 30)
    };
    state.aggregates[0].devices.push(device.clone());
    directory.record(state.clone()).expect("recorded");
    let path = directory.make_directory(&device).expect("made");
    fs::write(path.join("00000000.seg"), "half a label").expect("write");
    drop(directory);

    let mut directory = world.open().expect("a start after the power cut");
    assert_eq!(directory.state(), &state);
    let path = directory.make_directory(&device).expect("made again");
    assert_eq!(fs::read_dir(path).expect("list").count(), 0);
    state.aggregates[0].devices[1].joining = false;
    directory.record(state).expect("recorded as a member");
    assert!(!world.text("state.toml").contains("joining"));
}

#[test]
#[should_panic(expected = "a device is recorded before it is made")]
fn a_device_that_has_joined_is_never_made_again() {
    let world = World::served();
    let mut directory = world.open().expect("a later start");
    let mut state = directory.state().clone();
    let device = DataDir::directory_device("aggr0", 1, 64 << 30);
    state.aggregates[0].devices.push(device.clone());
    directory.record(state).expect("recorded");
    let joining = Device {
        joining: true,
        replaces: None,
        member: None,
        ..device
    };
    let _ = directory.make_directory(&joining);
}

#[test]
fn a_state_that_was_being_replaced_when_power_failed_is_the_old_one() {
    let world = World::served();
    world.put("state.toml.new", "version = 0\n[[aggr");
    let directory = world.open().expect("a start after the power cut");
    assert_eq!(directory.state().aggregates.len(), 1);
    assert!(!world.has("state.toml.new"));
}

#[test]
fn offline_tools_write_nothing() {
    let world = World::served();
    let before = world.picture();
    drop(Offline::open(&world.path).expect("offline"));
    assert_eq!(world.picture(), before);
}
