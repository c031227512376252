//! Two devices, one of which is put back as it was some consistency points ago.
//!
//! With one device an old copy cannot be told from the truth; with two, the other one knows better.
//! The first start makes one device, so the aggregate is made here, in the way the daemon makes it.

use std::fs;
use std::path::Path;
use std::time::Duration;

use everglade_engine::admin::Change;
use everglade_engine::{Core, Engine, Options, Plan, State as Online, create};
use everglade_env::{IoMode, World, WorldOptions};
use everglade_format::volume::Sync;
use everglade_server::DataDir;
use everglade_server::datadir::{AggregateState, Phase, State, Uuid};

use super::{assert_refused_untouched, assert_serves, copy, write_blocks};
use crate::running::TestDir;

const NAME: &str = "aggr0";
const DEVICE_BYTES: u64 = 1 << 30;
const IDENTITY: [u8; 16] = [0x5E; 16];

/// A data directory with an aggregate of two devices, and the volume and LUN of a first start.
fn with_two_devices() -> TestDir {
    let dir = TestDir::new();
    let mut directory = DataDir::open(&dir.data_dir()).expect("a new directory");
    let devices = [0, 1].map(|number| DataDir::directory_device(NAME, number, DEVICE_BYTES));
    let mut aggregate = AggregateState {
        name: NAME.to_owned(),
        phase: Phase::Creating,
        read_only: false,
        garden_paused: false,
        epoch: 0,
        uuid: None,
        devices: devices.to_vec(),
    };
    let record = |directory: &mut DataDir, aggregate: &AggregateState| {
        let aggregates = vec![aggregate.clone()];
        directory
            .record(State {
                aggregates,
                ..State::default()
            })
            .expect("recorded");
    };
    record(&mut directory, &aggregate);
    let paths = devices.map(|device| directory.make_directory(&device).expect("made"));
    fill(&paths);
    aggregate.phase = Phase::Ready;
    aggregate.epoch = 1;
    aggregate.uuid = Some(Uuid(IDENTITY));
    record(&mut directory, &aggregate);
    directory.close();
    dir
}

/// Makes the aggregate, its volume and its LUN.
fn fill(paths: &[impl AsRef<Path>]) {
    let options = WorldOptions {
        io: IoMode::Threads,
        ..WorldOptions::default()
    };
    let world = World::new(&options).expect("a world");
    let devices: Vec<_> = paths
        .iter()
        .map(|path| world.open_directory(path.as_ref(), DEVICE_BYTES, true))
        .collect::<Result<_, _>>()
        .expect("new devices");
    let plan = Plan::new(NAME, IDENTITY, [7; 32], vec![[1; 16], [2; 16]]);
    create(&world, &devices, &plan).expect("created");
    let engine = Engine::new(Options {
        reactors: 1,
        memory_bytes: 256 << 20,
        cp_interval: 10_000_000_000,
        ..Options::default()
    });
    engine.open(&world, &devices, &[], None).expect("opened");
    let mut core = Core::new(&engine, 0, world.reactor(0).expect("a reactor"));
    let mut turns_until = |done: &mut dyn FnMut(&mut Core<_>) -> bool| {
        for _ in 0..100_000 {
            core.turn();
            if done(&mut core) {
                return;
            }
            let mut ready = Vec::new();
            let pause = Some(Duration::from_millis(1));
            core.outside().wait(pause, &mut ready);
        }
        panic!("it never came about");
    };
    turns_until(&mut |_| engine.aggregates()[0].state == Online::Online);
    let changes = [
        Change::CreateVolume {
            name: "vol0".to_owned(),
            sync: Sync::Standard,
        },
        Change::CreateLun {
            volume: "vol0".to_owned(),
            name: "lun0".to_owned(),
            size_bytes: 64 << 20,
        },
    ];
    for change in changes {
        let mut change = Some(change);
        turns_until(&mut |core| {
            if let Some(change) = change.take() {
                core.change(0, change, 1);
            }
            let mut done = Vec::new();
            core.poll_admin(&mut done);
            done.pop().is_some_and(|it| it.result == Ok(()))
        });
    }
    engine.request_stop();
    turns_until(&mut |_| engine.is_stopped());
    devices.into_iter().for_each(|device| world.close(device));
}

#[test]
fn an_old_copy_of_a_device_is_refused_whichever_it_is() {
    let dir = with_two_devices();
    let folder = dir.data_dir().join("aggregates").join(NAME);
    let devices = [0, 1].map(|number| folder.join(format!("dev{number}")));
    let old = [0, 1].map(|number| dir.file(&format!("old{number}")));
    for (device, old) in devices.iter().zip(&old) {
        copy(device, old);
    }
    // Each orderly end is a consistency point.
    for number in 1..5 {
        write_blocks(&dir, &[number]);
    }

    let aside = dir.file("aside");
    for (device, old) in devices.iter().zip(&old) {
        fs::rename(device, &aside).expect("rename");
        copy(old, device);
        let parts = [
            "was last written by consistency point",
            "expected consistency point",
            "as on the other devices",
            "put the current device in its place",
        ];
        assert_refused_untouched(&dir, &parts);
        fs::remove_dir_all(device).expect("remove");
        fs::rename(&aside, device).expect("rename");
    }
    crate::clients::assert_clean(&dir);
    assert_serves(&dir, &[1, 2, 3, 4]);

    // Two copies of one device instead of two devices.
    fs::rename(&devices[1], &aside).expect("rename");
    copy(&devices[0], &devices[1]);
    assert_refused_untouched(&dir, &["two devices say that they are member 0"]);
    fs::remove_dir_all(&devices[1]).expect("remove");
    fs::rename(&aside, &devices[1]).expect("rename");

    // The two in each other's place are still the two.
    fs::rename(&devices[0], &aside).expect("rename");
    fs::rename(&devices[1], &devices[0]).expect("rename");
    fs::rename(&aside, &devices[1]).expect("rename");
    assert_serves(&dir, &[1, 2, 3, 4]);
}
