//! Turns of a reactor: how long its clients wait while it is busy with something else, and what
//! for.

use everglade_engine::admin::Change;
use everglade_engine::{Core, Engine, Options, Plan, State};
use everglade_env::{BLOCK_SIZE, DeviceId};
use everglade_format::volume::Sync;
use everglade_target::{LunHandle, Op, Target, WriteSpan};
use everglade_testing::workload::contents;
use everglade_testing::world::{DeviceSpec, SimOutside, Turn};
use everglade_testing::{Seed, SimWorld};

const TURNS_MAX: u64 = 1_000_000;
const MIB: u64 = 1 << 20;
/// MiB of the LUN, with one block written in each: many more regions than a consistency point may
/// clean in one turn.
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

/// An engine of one reactor with the least memory, and a LUN to write to.
struct Rig {
    world: SimWorld,
    engine: Engine,
    core: Core<SimOutside>,
    lun: LunHandle,
}

impl Rig {
    fn new(pool_bytes: u64, lun_bytes: u64) -> Rig {
        let world = SimWorld::new(Seed(1), 1, &[DeviceSpec::thin(pool_bytes)]);
        let plan = Plan {
            area_blocks: 8192,
            ..Plan::new("a", [1; 16], [1; 32], vec![[101; 16]])
        };
        everglade_engine::create(&*world.storage(), &[DeviceId(0)], &plan).expect("a fresh device");
        let engine = Engine::new(Options {
            reactors: 1,
            memory_bytes: 256 << 20,
            // Consistency points only on request.
            cp_interval: 1_000_000_000_000,
            ..Options::default()
        });
        let opened = engine.open(&*world.storage(), &[DeviceId(0)], &[], None);
        assert_eq!(opened.expect("it was just made"), 0);
        let mut core = Core::new(&engine, 0, world.reactor(0));
        until(&world, &mut core, |_| {
            engine.aggregates()[0].state == State::Online
        });
        let volume = Change::CreateVolume {
            name: "v".to_owned(),
            sync: Sync::Standard,
        };
        let lun = Change::CreateLun {
            volume: "v".to_owned(),
            name: "l".to_owned(),
            size_bytes: lun_bytes,
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
        let (lun, _) = core.open("v/l").expect("it was just made");
        Rig {
            world,
            engine,
            core,
            lun,
        }
    }

    /// Asks for writes, each with contents of its own, and waits for all of them.
    fn write(&mut self, offsets: impl IntoIterator<Item = u64>, length: u64) {
        let mut asked = 0;
        for offset in offsets {
            let data = WriteSpan::copy_of(offset, &contents(asked, length));
            let durable = false;
            self.core
                .submit(self.lun, Op::Write { data, durable }, asked);
            asked += 1;
        }
        let mut done = Vec::new();
        until(&self.world, &mut self.core, |core| {
            core.poll(&mut done);
            done.len() as u64 == asked
        });
        assert!(done.iter().all(|one| one.result.is_ok()));
    }
}

#[test]
fn a_consistency_point_that_used_its_slice_lets_clients_have_their_turn() {
    let mut rig = Rig::new(1 << 30, LUN_MIB * MIB);
    rig.write((0..LUN_MIB).map(|number| number * MIB), BLOCK_SIZE as u64);
    rig.core.consistency_point(0, 2);
    let mut answers = Vec::new();
    let busy = until(&rig.world, &mut rig.core, |core| {
        core.poll_admin(&mut answers);
        !answers.is_empty()
    });
    assert!(u64::from(busy) >= TURNS, "all was done in {busy} turns");
}

#[test]
fn who_overwrites_the_same_blocks_for_long_waits_for_no_journal() {
    // A half of the journal takes more than memory does.
    let mut rig = Rig::new(8 << 30, 4 * MIB);
    let journal = |rig: &Rig| rig.engine.aggregates()[0].journal.expect("it has one");
    assert!(journal(&rig).half_bytes > 128 * MIB);
    let mut used = 0;
    let mut begun = 0;
    for mebibyte in 0..400 {
        rig.write((0..16).map(|place| place * (MIB / 16)), MIB / 16);
        let info = &rig.engine.aggregates()[0];
        begun = info
            .cp_counts
            .by_trigger
            .iter()
            .map(|(_, count)| count)
            .sum();
        match mebibyte {
            // The journal does not know yet that this client never requests durability.
            0..=70 => used = journal(&rig).used_bytes,
            _ => assert!(
                journal(&rig).used_bytes <= used,
                "logged after {mebibyte} MiB"
            ),
        }
    }
    assert!(
        begun > 6u64,
        "consistency points let go of what was overwritten: {begun}"
    );
}
