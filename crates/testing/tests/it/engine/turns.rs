//! Turns of a reactor: how long its clients wait while it is busy with something else.

use everglade_engine::admin::Change;
use everglade_engine::{Core, Engine, Options, Plan, State};
use everglade_env::{BLOCK_SIZE, DeviceId};
use everglade_format::volume::Sync;
use everglade_target::{Op, Target, WriteSpan};
use everglade_testing::workload::contents;
use everglade_testing::world::{DeviceSpec, SimOutside, Turn};
use everglade_testing::{Seed, SimWorld};

const TURNS_MAX: u64 = 1_000_000;
const MIB: u64 = 1 << 20;
/// One block is written in each MiB: many more regions than a consistency point may clean in one turn.
const LUN_MIB: u64 = 3000;
/// Turns it takes at least: 32 regions in a step, 16 steps in a turn.
const TURNS: u64 = LUN_MIB / 32 / 16;

/// Runs until something is done, and returns how many turns ended although there was more to do.
fn until(
    world: &SimWorld,
    core: &mut Core<SimOutside>,
    mut is_done: impl FnMut(&mut Core<SimOutside>) -> bool,
) -> u32 {
    world.wake(0);
    let mut busy = 0;
    world.run(TURNS_MAX, &mut |_| {
        let is_busy = core.turn();
        let until = core.deadline();
        if is_done(core) {
            return Turn::Stop;
        }
        if !is_busy {
            return Turn::Idle { until };
        }
        busy += 1;
        Turn::Busy
    });
    busy
}

#[test]
fn a_consistency_point_that_used_its_slice_lets_clients_have_their_turn() {
    let world = SimWorld::new(Seed(1), 1, &[DeviceSpec::thin(1 << 30)]);
    let plan = Plan {
        area_blocks: 8192,
        ..Plan::new("a", [1; 16], [1; 32], vec![[101; 16]])
    };
    everglade_engine::create(&*world.storage(), &[DeviceId(0)], &plan).expect("a fresh device");
    let engine = Engine::new(Options {
        reactors: 1,
        memory_bytes: 256 << 20,
        // Only when it is asked for.
        cp_interval: 1_000_000_000_000,
        ..Options::default()
    });
    let opened = engine.open(&*world.storage(), &[DeviceId(0)], None);
    assert_eq!(opened.expect("it was just made"), 0);
    let mut core = Core::new(&engine, 0, world.reactor(0));
    let is_online = |engine: &Engine| engine.aggregates()[0].state == State::Online;
    until(&world, &mut core, |_| is_online(&engine));
    let volume = Change::CreateVolume {
        name: "v".to_owned(),
        sync: Sync::Standard,
    };
    let lun = Change::CreateLun {
        volume: "v".to_owned(),
        name: "l".to_owned(),
        size_bytes: LUN_MIB * MIB,
    };
    let mut answers = Vec::new();
    for change in [volume, lun] {
        core.change(0, change, 1);
        until(&world, &mut core, |core| {
            core.poll_admin(&mut answers);
            !answers.is_empty()
        });
        answers.pop().expect("it is answered").result.expect("made");
    }
    let (handle, _) = core.open("v/l").expect("it was just made");
    let mut done = Vec::new();
    for number in 0..LUN_MIB {
        let data = WriteSpan::copy_of(number * MIB, &contents(number, BLOCK_SIZE as u64));
        core.submit(
            handle,
            Op::Write {
                data,
                durable: false,
            },
            number,
        );
    }
    until(&world, &mut core, |core| {
        core.poll(&mut done);
        done.len() as u64 == LUN_MIB
    });
    core.consistency_point(0, 2);
    let busy = until(&world, &mut core, |core| {
        core.poll_admin(&mut answers);
        !answers.is_empty()
    });
    assert!(u64::from(busy) >= TURNS, "all was done in {busy} turns");
}
