//! Two aggregates in one engine: what happens to one is nothing to the other.

use everglade_engine::admin::{self, Change};
use everglade_engine::{Core, Engine, Options, Plan, State};
use everglade_env::{BLOCK_SIZE, DeviceId};
use everglade_format::volume::Sync;
use everglade_target::{Error, Op, Target, WriteSpan};
use everglade_testing::workload::contents;
use everglade_testing::world::{Cut, DeviceSpec, Faults, Keep, SimOutside, Turn};
use everglade_testing::{Seed, SimWorld};

const TURNS_MAX: u64 = 1_000_000;
const REACTORS: usize = 2;

struct Rig {
    world: SimWorld,
    engine: Engine,
    cores: Vec<Core<SimOutside>>,
}

fn plan(number: u8) -> Plan {
    Plan {
        area_blocks: 256,
        ..Plan::new(
            &format!("a{number}"),
            [number; 16],
            [number; 32],
            vec![[number + 100; 16]],
        )
    }
}

fn start(world: SimWorld) -> Rig {
    let engine = Engine::new(Options {
        reactors: REACTORS,
        memory_bytes: 16 << 20,
        cp_interval: 100_000_000,
        ..Options::default()
    });
    for device in 0..2 {
        let opened = engine.open(&*world.storage(), &[DeviceId(device)], &[], None);
        assert_eq!(opened.expect("one of them"), device);
    }
    let cores = (0..REACTORS)
        .map(|reactor| Core::new(&engine, reactor, world.reactor(reactor)))
        .collect();
    let mut rig = Rig {
        world,
        engine,
        cores,
    };
    let engine = rig.engine.clone();
    rig.until(|_| {
        engine
            .aggregates()
            .iter()
            .all(|info| info.state == State::Online)
    });
    rig
}

impl Rig {
    fn until(&mut self, mut is_done: impl FnMut(&mut [Core<SimOutside>]) -> bool) {
        let world = self.world.clone();
        (0..REACTORS).for_each(|reactor| world.wake(reactor));
        let cores = &mut self.cores;
        world.run(TURNS_MAX, &mut |reactor| {
            let is_busy = cores[reactor].turn();
            let until = cores[reactor].deadline();
            if is_done(cores) {
                Turn::Stop
            } else if is_busy {
                Turn::Busy
            } else {
                Turn::Idle { until }
            }
        });
    }

    fn change(&mut self, aggregate: u32, change: Change) -> Result<(), admin::Error> {
        self.cores[1].change(aggregate, change, 1);
        let mut done = Vec::new();
        self.until(|cores| {
            cores[1].poll_admin(&mut done);
            !done.is_empty()
        });
        done.pop().expect("it is answered").result
    }

    fn write(&mut self, lun: &str, fill: u64) -> Result<(), Error> {
        let (handle, _) = self.cores[0].open(lun)?;
        let data = WriteSpan::copy_of(0, &contents(fill, BLOCK_SIZE as u64));
        let op = Op::Write {
            data,
            durable: true,
        };
        self.cores[0].submit(handle, op, 1);
        let mut done = Vec::new();
        self.until(|cores| {
            cores[0].poll(&mut done);
            !done.is_empty()
        });
        self.cores[0].close(handle);
        done.pop().expect("it is answered").result.map(drop)
    }
}

fn volume(name: &str) -> Change {
    Change::CreateVolume {
        name: name.to_owned(),
        sync: Sync::Standard,
    }
}

fn lun(volume: &str) -> Change {
    Change::CreateLun {
        volume: volume.to_owned(),
        name: "l".to_owned(),
        size_bytes: 1 << 20,
    }
}

#[test]
fn a_failed_aggregate_leaves_the_other_at_work() {
    let spec = DeviceSpec::thin(16 << 20);
    let world = SimWorld::new(Seed(1), REACTORS, &[spec, spec]);
    for device in 0..2 {
        let number = u8::try_from(device).expect("0 or 1");
        everglade_engine::create(&*world.storage(), &[DeviceId(device)], &plan(number))
            .expect("a fresh device");
    }
    let mut rig = start(world);
    rig.change(0, volume("v")).expect("a new name");
    rig.change(0, lun("v")).expect("a new name");
    let twin = rig.change(1, volume("v"));
    assert!(matches!(twin, Err(admin::Error::Exists(_))), "{twin:?}");
    rig.change(1, volume("w")).expect("a new name");
    rig.change(1, lun("w")).expect("a new name");
    rig.write("v/l", 1).expect("it works");
    rig.write("w/l", 2).expect("it works");

    let faults = Faults {
        write_error: 1,
        ..Faults::default()
    };
    rig.world.set_faults(DeviceId(0), faults);
    assert!(matches!(rig.write("v/l", 3), Err(Error::Io(_))));
    assert!(matches!(rig.write("v/l", 3), Err(Error::Io(_))));
    rig.write("w/l", 4).expect("it is another aggregate");
    let exports: Vec<String> = rig.cores[1]
        .exports()
        .into_iter()
        .map(|export| export.name)
        .collect();
    // The first can be read still.
    assert_eq!(exports, ["v/l", "w/l"]);

    let images = rig.world.after_cut(Cut::whole(Keep::Nothing));
    let mut rig = start(SimWorld::restart(images, Seed(2), REACTORS));
    rig.write("v/l", 5).expect("a restart recovers");
    rig.write("w/l", 6).expect("nothing ever happened to it");
}
