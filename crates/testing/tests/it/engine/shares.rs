//! What LUNs get beside each other: limits in a second, and shares of an aggregate that is busy,
//! both within a twentieth, however much more one of them asks for.

use std::collections::BTreeMap;

use everglade_engine::admin::Change;
use everglade_engine::{Core, Engine, LimitSettings, Options, Plan, State};
use everglade_env::{DeviceId, Nanos};
use everglade_format::volume::Sync;
use everglade_target::{Completion, LunHandle, Op, Target, WriteSpan};
use everglade_testing::workload::contents;
use everglade_testing::world::{DeviceSpec, SimOutside, Turn};
use everglade_testing::{Seed, SimWorld};

const TURNS_MAX: u64 = 10_000_000;
const REACTORS: usize = 2;
const SECOND: Nanos = 1_000_000_000;
const BLOCKS: u64 = 4096;
const LENGTH: u32 = 4096;

/// A client: the reactor of its connection, its LUN, and the requests that it always has open.
#[derive(Clone, Copy)]
struct Client {
    reactor: usize,
    lun: &'static str,
    queue: u64,
}

const fn client(reactor: usize, lun: &'static str, queue: u64) -> Client {
    Client {
        reactor,
        lun,
        queue,
    }
}

/// Two tenants with a usual client each, and a greedy one with several.
const TENANTS: [Client; 5] = [
    client(0, "v/a", 40),
    client(1, "v/b", 40),
    client(0, "w/greedy", 200),
    client(1, "w/greedy", 200),
    client(1, "w/greedy", 100),
];

struct Rig {
    world: SimWorld,
    engine: Engine,
    cores: Vec<Core<SimOutside>>,
}

impl Rig {
    fn new() -> Rig {
        let world = SimWorld::new(Seed(1), REACTORS, &[DeviceSpec::thin(4 << 30)]);
        let plan = Plan::new("a", [1; 16], [1; 32], vec![[101; 16]]);
        everglade_engine::create(&*world.storage(), &[DeviceId(0)], &plan).expect("a fresh device");
        let engine = Engine::new(Options {
            reactors: REACTORS,
            memory_bytes: 256 << 20,
            ..Options::default()
        });
        let opened = engine.open(&*world.storage(), &[DeviceId(0)], &[], None);
        assert_eq!(opened.expect("it was just made"), 0);
        let outsides = (0..REACTORS).map(|reactor| (reactor, world.reactor(reactor)));
        let cores = outsides.map(|(reactor, outside)| Core::new(&engine, reactor, outside));
        let mut rig = Rig {
            cores: cores.collect(),
            world,
            engine: engine.clone(),
        };
        rig.run(&mut |_, _| engine.aggregates()[0].state == State::Online);
        for volume in ["v", "w"] {
            rig.change(Change::CreateVolume {
                name: volume.to_owned(),
                sync: Sync::Standard,
            });
        }
        for lun in ["v/a", "v/b", "w/greedy"] {
            let (volume, name) = lun.split_once('/').expect("a full name");
            rig.change(Change::CreateLun {
                volume: volume.to_owned(),
                name: name.to_owned(),
                size_bytes: BLOCKS * u64::from(LENGTH),
            });
        }
        rig
    }

    /// Runs until something is done.
    fn run(&mut self, is_done: &mut dyn FnMut(&mut [Core<SimOutside>], usize) -> bool) {
        (0..REACTORS).for_each(|reactor| self.world.wake(reactor));
        let cores = &mut self.cores;
        self.world.run(TURNS_MAX, &mut |reactor| {
            let is_busy = cores[reactor].turn();
            if is_done(cores, reactor) {
                return Turn::Stop;
            }
            let until = cores[reactor].deadline();
            match is_busy || cores[reactor].is_busy() {
                true => Turn::Busy,
                false => Turn::Idle { until },
            }
        });
    }

    fn change(&mut self, change: Change) {
        self.cores[0].change(0, change, 1);
        let mut answers = Vec::new();
        self.run(&mut |cores, _| {
            cores[0].poll_admin(&mut answers);
            !answers.is_empty()
        });
        let answer = answers.pop().expect("it is answered");
        answer.result.expect("made");
    }

    fn limit_lun(&self, name: &str, settings: LimitSettings) {
        let luns = self.engine.luns().into_iter();
        let lun = luns.into_iter().find(|lun| lun.name == name);
        self.engine
            .set_limit(lun.expect("it is there").uuid, settings);
    }

    fn limit_volume(&self, name: &str, settings: LimitSettings) {
        let uuid = self.engine.volume_uuid(name).expect("it is there");
        self.engine.set_limit(uuid, settings);
    }

    /// Has clients at work until `is_over`, by what they did and how long that took; each asks for
    /// the next thing when one is answered. Returns how many operations each LUN has had answered.
    fn serve(
        &mut self,
        clients: &[Client],
        op: &dyn Fn(u64) -> Op,
        is_over: &dyn Fn(u64, Nanos) -> bool,
    ) -> BTreeMap<&'static str, u64> {
        let since = self.world.now();
        let mut handles: Vec<LunHandle> = Vec::new();
        let mut next = 0;
        let mut owners = BTreeMap::new();
        for (number, client) in clients.iter().enumerate() {
            let core = &mut self.cores[client.reactor];
            let (handle, _) = core.open(client.lun).expect("it is there");
            handles.push(handle);
            for _ in 0..client.queue {
                next += 1;
                owners.insert(next, number);
                core.submit(handle, op(next), next);
            }
        }
        let (mut counts, mut all) = (BTreeMap::new(), 0);
        let mut done: Vec<Completion> = Vec::new();
        let world = self.world.clone();
        let mut is_ended = false;
        self.run(&mut |cores, reactor| {
            cores[reactor].poll(&mut done);
            let answered = std::mem::take(&mut done);
            for one in &answered {
                one.result.as_ref().expect("nothing fails");
                let number = owners.remove(&one.token).expect("it was asked");
                if !is_ended {
                    *counts.entry(clients[number].lun).or_insert(0) += 1;
                    all += 1;
                    next += 1;
                    owners.insert(next, number);
                    cores[reactor].submit(handles[number], op(next), next);
                }
            }
            if !answered.is_empty() {
                // What is answered at once is looked at in the next turn.
                world.wake(reactor);
            }
            is_ended |= is_over(all, world.now() - since);
            is_ended && owners.is_empty()
        });
        assert!(owners.is_empty(), "{} are not answered", owners.len());
        counts
    }
}

fn within_a_twentieth(got: u64, due: f64, what: &str) {
    let part = got as f64 / due;
    assert!((0.95..=1.05).contains(&part), "{what}: {got}, not {due}");
}

fn read(number: u64) -> Op {
    Op::Read {
        offset: number * 37 % BLOCKS * u64::from(LENGTH),
        length: LENGTH,
    }
}

fn durable_write(number: u64) -> Op {
    let offset = number * 37 % BLOCKS * u64::from(LENGTH);
    Op::Write {
        data: WriteSpan::copy_of(offset, &contents(number, u64::from(LENGTH))),
        durable: true,
    }
}

fn weight(weight: u32) -> LimitSettings {
    LimitSettings {
        weight,
        ..LimitSettings::default()
    }
}

/// Reads that are answered from memory, which only wait for their reactors, and writes that wait
/// for the journal.
#[test]
fn tenants_get_parts_as_their_weights_beside_a_greedy_one() {
    for (op, count) in [
        (&read as &dyn Fn(u64) -> Op, 40_000),
        (&durable_write, 20_000),
    ] {
        let mut rig = Rig::new();
        let without = rig.serve(&TENANTS, op, &|all, _| all >= count);
        let greedy = without["w/greedy"] as f64 / count as f64;
        assert!(greedy > 0.5, "who asks for more gets more: {without:?}");

        rig.limit_lun("v/a", weight(500));
        rig.limit_lun("v/b", weight(300));
        rig.limit_volume("w", weight(200));
        let with = rig.serve(&TENANTS, op, &|all, _| all >= count);
        for (lun, part) in [("v/a", 0.5), ("v/b", 0.3), ("w/greedy", 0.2)] {
            within_a_twentieth(with[lun], count as f64 * part, lun);
        }
        let waits = rig.engine.waits();
        let operations: u64 = waits.values().map(|waits| waits.operations).sum();
        assert!(operations >= count / 2, "{waits:?}");
    }
}

#[test]
fn a_share_is_for_others_while_its_lun_asks_for_nothing() {
    let mut rig = Rig::new();
    rig.limit_lun("v/a", weight(10_000));
    let count = 20_000;
    let alone = [client(0, "w/greedy", 200), client(1, "v/b", 200)];
    let without = rig.serve(&alone, &durable_write, &|all, _| all >= count);
    within_a_twentieth(without["v/b"], count as f64 / 2.0, "equal weights");
    // One request at a time of a LUN with most of the weight is served at once.
    let all = [alone[0], alone[1], client(1, "v/a", 1)];
    let with = rig.serve(&all, &durable_write, &|all, _| all >= count);
    assert!(with["v/a"] > 300, "{with:?}");
    within_a_twentieth(
        with["v/b"],
        (count - with["v/a"]) as f64 / 2.0,
        "equal weights",
    );
}

#[test]
fn limits_of_luns_and_volumes_hold_within_a_twentieth_of_a_second() {
    let mut rig = Rig::new();
    let iops = |operations_per_second| LimitSettings {
        operations_per_second,
        ..LimitSettings::default()
    };
    rig.limit_lun("v/a", iops(1_000));
    rig.limit_volume("v", iops(4_000));
    rig.limit_lun(
        "w/greedy",
        LimitSettings {
            bytes_per_second: 20 << 20,
            ..LimitSettings::default()
        },
    );
    let counts = rig.serve(&TENANTS, &read, &|_, nanos| nanos >= 2 * SECOND);
    within_a_twentieth(counts["v/a"], 2_000.0, "a");
    within_a_twentieth(counts["v/b"], 6_000.0, "b, the rest of its volume");
    within_a_twentieth(counts["w/greedy"], 2.0 * 5_120.0, "greedy");
}

/// Everything that waits for its turn begins when nothing has a weight any more.
#[test]
fn what_waits_for_its_turn_is_not_lost_when_weights_go() {
    let mut rig = Rig::new();
    rig.limit_lun("v/a", weight(500));
    let engine = rig.engine.clone();
    let uuid = *engine.limits().keys().next().expect("one");
    let counts = rig.serve(&TENANTS, &durable_write, &|all, _| {
        if all.is_multiple_of(500) {
            let is_on = all.is_multiple_of(1_000);
            engine.set_limit(uuid, weight(u32::from(is_on) * 500));
        }
        all >= 10_000
    });
    assert_eq!(counts.len(), 3, "{counts:?}");
}
