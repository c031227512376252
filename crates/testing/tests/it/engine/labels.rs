//! Copies of labels that were lost are written anew, and a power cut at any write of that costs
//! nothing more.

use everglade_check::{Kind, Report};
use everglade_engine::{Engine, Expected, LostCopy, Options};
use everglade_env::DeviceId;
use everglade_format::Config;
use everglade_format::config::CONFIG_BYTES;
use everglade_format::label::{CONFIG_OFFSETS, LABEL_BYTES, config_slot, label_offsets};
use everglade_testing::engine::EngineMaker;
use everglade_testing::system::Maker;
use everglade_testing::{Seed, SimWorld};

const TWO: EngineMaker = EngineMaker {
    devices: 2,
    owns_space: true,
    ..EngineMaker::SMALL
};

fn world() -> SimWorld {
    let world = SimWorld::new(Seed(1), 1, &TWO.devices(16 << 20));
    TWO.format(&world).expect("fresh devices");
    world
}

fn engine() -> Engine {
    Engine::new(Options {
        reactors: 1,
        memory_bytes: 8 << 20,
        cp_interval: 200_000_000,
        ..Options::default()
    })
}

/// Opens the aggregate, and rewrites lost copies.
fn mend(world: &SimWorld) -> Vec<LostCopy> {
    let engine = engine();
    let storage = world.storage();
    let opened = engine.open(&*storage, &world.devices(), &[], None);
    let id = opened.expect("one copy is enough");
    let lost = engine.mend_labels(&*storage, id);
    engine.dissolve();
    lost
}

fn report(world: &SimWorld) -> Report {
    let report = everglade_check::check(&*world.storage(), &world.devices(), &mut |_| {});
    report.expect("a report")
}

/// Kinds of problems that the check finds.
fn found(world: &SimWorld) -> Vec<Kind> {
    let problems = report(world).problems.into_iter();
    problems.map(|problem| problem.kind).collect()
}

/// Kinds of warnings.
fn warned(world: &SimWorld) -> Vec<Kind> {
    let warnings = report(world).warnings.into_iter();
    warnings.map(|warning| warning.kind).collect()
}

/// Every copy: device, front or end, and the byte of its record.
fn records(world: &SimWorld) -> Vec<(DeviceId, bool, u64)> {
    let storage = world.storage();
    let of = |device: DeviceId| {
        let slot = CONFIG_OFFSETS[config_slot(1)];
        let [front, end] = label_offsets(storage.size_bytes(device));
        [(device, true, front + slot), (device, false, end + slot)]
    };
    world.devices().into_iter().flat_map(of).collect()
}

#[test]
fn whichever_copy_is_lost_comes_back_from_the_other() {
    let world = world();
    assert_eq!(mend(&world), [], "nothing is lost");
    let storage = world.storage();
    for (device, is_front, record) in records(&world) {
        let mut before = vec![0; CONFIG_BYTES];
        storage
            .read(device, record, &mut before)
            .expect("no faults");
        let mut torn = before.clone();
        torn[4096..8192].fill(7);
        for bad in [vec![0; CONFIG_BYTES], torn] {
            storage.write(device, record, &bad).expect("no faults");
            assert_eq!(found(&world), [Kind::LabelDamaged]);
            let lost = mend(&world);
            assert_eq!((lost.len(), lost[0].is_front), (1, is_front));
            assert_eq!(lost[0].failure, None);
            let mut after = vec![0; CONFIG_BYTES];
            storage.read(device, record, &mut after).expect("no faults");
            assert!(after == before);
            assert_eq!(found(&world), []);
        }
        // The whole MiB. The next consistency point would write its superblocks again, which this
        // test does without.
        let label = record - CONFIG_OFFSETS[config_slot(1)];
        let mut whole = vec![0; usize::try_from(LABEL_BYTES).expect("a MiB")];
        storage.read(device, label, &mut whole).expect("no faults");
        let nothing = vec![0; whole.len()];
        storage.write(device, label, &nothing).expect("no faults");
        assert_eq!(mend(&world).len(), 1);
        let mut after = vec![0; CONFIG_BYTES];
        storage.read(device, record, &mut after).expect("no faults");
        assert!(after == before);
        storage.write(device, label, &whole).expect("no faults");
        assert_eq!(found(&world), []);
        // Garbage in the slot that the next epoch will use: a change that was cut may leave it.
        let other = label + CONFIG_OFFSETS[1 - config_slot(1)];
        storage
            .write(device, other, &[9; CONFIG_BYTES])
            .expect("no faults");
        assert_eq!(
            (found(&world), warned(&world)),
            (vec![], vec![Kind::ChangeCut])
        );
        assert_eq!(mend(&world).len(), 1);
        assert_eq!((found(&world), warned(&world)), (vec![], vec![]));
    }
    // A copy with other content is never overwritten.
    let (device, _, record) = records(&world)[1];
    let mut bytes = vec![0; CONFIG_BYTES];
    storage.read(device, record, &mut bytes).expect("no faults");
    let mut config = Config::decode(&bytes).expect("whole").expect("there");
    config.reserve_blocks += 1;
    storage
        .write(device, record, &config.encode())
        .expect("no faults");
    assert_eq!(mend(&world), []);
    assert_eq!(found(&world), [Kind::LabelCopiesDiffer]);
}

#[test]
fn a_cut_at_any_write_leaves_the_other_copy_and_the_next_start_goes_on() {
    let mut cuts = 0;
    for (device, _, record) in records(&world()) {
        let world = world();
        let storage = world.storage();
        let lost = [0; CONFIG_BYTES];
        storage.write(device, record, &lost).expect("no faults");
        storage.flush(device).expect("no faults");
        world.watch_cuts(1, usize::MAX);
        assert_eq!(mend(&world).len(), 1);
        let mut points = world.take_cuts();
        points.push(world.cut_point());
        for point in points {
            for cut in point.singles(usize::MAX).chain(point.subsets(64, 5)) {
                cuts += 1;
                let next = SimWorld::restart(point.images(cut), Seed(2), 1);
                mend(&next);
                assert_eq!(mend(&next), [], "{cut:?}");
                assert_eq!(found(&next), [], "{cut:?}");
            }
        }
    }
    assert!(cuts > 20, "{cuts}");
}

#[test]
fn devices_that_are_older_than_what_was_seen_are_refused_with_both_numbers() {
    let world = world();
    let engine = engine();
    let storage = world.storage();
    let mut bytes = vec![0; CONFIG_BYTES];
    let (device, _, record) = records(&world)[0];
    storage.read(device, record, &mut bytes).expect("no faults");
    let config = Config::decode(&bytes).expect("whole").expect("there");
    let expected = |cp| Expected {
        uuid: config.uuid,
        epoch: 1,
        cp,
    };
    let writes = world.writes();
    let refusal = engine
        .open(&*storage, &world.devices(), &[], Some(&expected(3)))
        .expect_err("older");
    assert_eq!(refusal.rolled_back_to, Some(0));
    let said = refusal.to_string();
    assert!(
        said.contains("consistency point 0") && said.contains("at least 3"),
        "{said}"
    );
    assert_eq!(world.writes(), writes, "nothing is written");
    let opened = engine.open(&*storage, &world.devices(), &[], Some(&expected(0)));
    assert_eq!(opened, Ok(0));
    engine.dissolve();
}
