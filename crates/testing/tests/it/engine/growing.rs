//! A pool grows, by devices that are added and by devices that became larger.

use everglade_engine::admin::{Change, Error as ChangeError};
use everglade_engine::{Engine, GrowError, Growth, GrowthInfo, Options, ParityPlan, State};
use everglade_env::{BLOCK_SIZE, DeviceId};
use everglade_format::label::{LABEL_BLOCKS, size_for};
use everglade_testing::engine::EngineMaker;
use everglade_testing::sim::growth::{Everywhere, everywhere, returning};
use everglade_testing::sim::{Growth as Met, Kind, Report};
use everglade_testing::system::{Admin, Maker, PoolGrowth, System};
use everglade_testing::workload::Action;
use everglade_testing::world::{Cut, DeviceSpec, Keep};
use everglade_testing::{Seed, SimWorld};

use super::lives::run_kind;
use super::rig::{Rig, consistency_point, create_lun, create_volume, read, write};

const BLOCK: u64 = BLOCK_SIZE as u64;
const POOL_BYTES: u64 = 12 << 20;
const AREA: u64 = EngineMaker::SMALL_LOGGED.area_blocks;

/// Bytes by which a device gets a few areas.
const MORE: u64 = (LABEL_BLOCKS + 6 * AREA) * BLOCK;

fn new_device() -> u64 {
    size_for(5, AREA, 0) * BLOCK
}

/// Cuts one growth at each of its writes.
fn cut(maker: EngineMaker, growth: PoolGrowth) -> Report {
    let plan = Everywhere {
        maker,
        pool_bytes: POOL_BYTES,
        growth,
        again: 61,
    };
    let report = everywhere(Seed(51), &plan).unwrap_or_else(|failure| panic!("{failure}"));
    for met in [Met::Committed, Met::CutBefore, Met::CutAfter, Met::Again] {
        assert!(report.growths[met] > 0, "{}: {report}", met.name());
    }
    report
}

fn of_devices(devices: u64) -> EngineMaker {
    EngineMaker {
        devices,
        ..EngineMaker::SMALL_LOGGED
    }
}

#[test]
fn a_second_device_joins_and_a_cut_at_any_write_leaves_one_pool_or_the_other() {
    let report = cut(of_devices(1), PoolGrowth::New(vec![new_device()]));
    for met in [Met::Healed, Met::TwoEpochs, Met::WithoutJoining] {
        assert!(report.growths[met] > 0, "{}: {report:?}", met.name());
    }
}

/// Without a journal a start has nothing to repeat, so it makes no consistency point: the next
/// growth meets a member that has no superblock yet.
#[test]
fn a_second_device_joins_a_pool_without_journal_and_any_write_may_be_the_last() {
    let maker = EngineMaker {
        journal_half_blocks: 0,
        ..of_devices(1)
    };
    cut(maker, PoolGrowth::New(vec![new_device()]));
}

#[test]
fn a_third_device_joins_and_a_cut_at_any_write_leaves_one_pool_or_the_other() {
    let maker = EngineMaker {
        owns_space: true,
        ..of_devices(2)
    };
    cut(maker, PoolGrowth::New(vec![new_device()]));
}

#[test]
fn two_devices_join_at_once_beside_a_journal_of_its_own_and_any_write_may_be_the_last() {
    let maker = EngineMaker {
        journal_device: true,
        ..of_devices(1)
    };
    cut(maker, PoolGrowth::New(vec![new_device(), new_device()]));
}

#[test]
fn a_device_becomes_larger_and_a_cut_at_any_write_leaves_one_pool_or_the_other() {
    cut(of_devices(1), PoolGrowth::Larger(vec![(0, MORE)]));
}

#[test]
fn two_devices_become_larger_at_once_and_any_write_may_be_the_last() {
    let larger = vec![(0, MORE), (1, 2 * MORE)];
    cut(of_devices(2), PoolGrowth::Larger(larger));
}

/// The superblock of the growth is on the device that joins, and nowhere else; then the pool has
/// another one of the same number.
#[test]
fn a_device_that_was_away_while_the_pool_went_on_without_it_is_no_member() {
    for maker in [of_devices(1), of_devices(2)] {
        let report = returning(Seed(53), &maker, POOL_BYTES);
        let report = report.unwrap_or_else(|failure| panic!("{failure}"));
        assert!(report.growths[Met::Away] >= 3, "{report:?}");
        assert!(report.growths[Met::Committed] >= 3, "{report:?}");
    }
}

/// The same with mirrors and parity groups (decision 0050).
#[test]
fn a_group_that_was_away_while_the_pool_went_on_without_it_is_no_member() {
    let mirror = EngineMaker {
        copies: 2,
        ..of_devices(1)
    };
    let parity = EngineMaker {
        parity: Some(ParityPlan {
            drives: 3,
            parity: 1,
        }),
        ..of_devices(1)
    };
    for maker in [mirror, parity] {
        let report = returning(Seed(53), &maker, POOL_BYTES);
        let report = report.unwrap_or_else(|failure| panic!("{failure}"));
        assert!(report.growths[Met::Away] >= 3, "{report:?}");
        assert!(report.growths[Met::Committed] >= 3, "{report:?}");
    }
}

#[test]
fn groups_grow_while_clients_work_and_any_write_may_be_the_last() {
    let all = run_kind(Kind::Groups, (0..3).map(|number| Seed(54).nth(number)));
    for met in [Met::Committed, Met::CutBefore, Met::CutAfter] {
        assert!(all.growths[met] > 0, "{}: {all}", met.name());
    }
}

/// Without a journal, an operation is in a consistency point or lost. A start after a cut growth
/// commits consistency points of its own, under the numbers that lost operations had for theirs;
/// then the power fails again. The judge took these for the lost ones.
#[test]
fn a_start_that_is_cut_has_consistency_points_of_its_own() {
    let lived = Kind::Growth.run(Seed(0x936a_f77c_40ae_d70d), 0);
    lived.unwrap_or_else(|failure| panic!("{failure}"));
}

/// Each state that a growth can be cut in is met by a few seeds.
#[test]
fn pools_grow_while_clients_work_and_any_write_may_be_the_last() {
    let all = run_kind(Kind::Growth, (0..5).map(|number| Seed(52).nth(number)));
    for met in Met::ALL {
        assert!(
            all.growths[met] > 0,
            "{} never: {}",
            met.name(),
            all.growths
        );
    }
    assert!(all.refused > 0 && all.cuts_in_recovery > 0, "{all}");
}

fn grow(growth: PoolGrowth) -> Action {
    Action::Admin(Admin::GrowPool(growth))
}

/// A full pool refuses clients; after a growth it takes as much as it got.
#[test]
fn a_full_pool_grows_and_takes_what_clients_write() {
    for growth in [
        PoolGrowth::New(vec![20 << 20]),
        PoolGrowth::Larger(vec![(0, 20 << 20)]),
    ] {
        let mut rig = Rig::new(EngineMaker::SMALL_LOGGED, POOL_BYTES, 1);
        let writes = |rig: &mut Rig, from: u64, count: u64| {
            let system = rig.mount();
            let before = [create_volume("v"), create_lun("v/l", 64 << 20)];
            let writes = (from..from + count).map(|n| write("v/l", n << 18, 1 << 18, n + 1));
            let mut driver = everglade_testing::sim::driver::Driver::new(
                &rig.world,
                system,
                &mut rig.model,
                everglade_testing::sim::driver::Manners::STRICT,
                1,
            );
            let mut actions = before.into_iter().chain(writes);
            driver
                .run(&mut |_| actions.next())
                .unwrap_or_else(|failure| panic!("{failure}"));
            let refused = driver.report.refused;
            (driver.into_system(), refused)
        };
        let (system, refused) = writes(&mut rig, 0, 60);
        assert!(refused > 8, "the pool is full after {refused} refusals");
        let before = system.usage();
        let (system, ()) = rig.run(system, [grow(growth.clone())], |_| {});
        let after = system.usage();
        assert!(
            after.total_blocks >= before.total_blocks + 4_000,
            "{after:?}"
        );
        drop(system);
        rig.restart();
        // 12 MiB more in a pool that got 17 or more.
        let (system, refused) = writes(&mut rig, 60, 48);
        assert_eq!(refused, 0, "{growth:?}");
        let (system, ()) = rig.run(
            system,
            [consistency_point(), read("v/l", 0, 1 << 20)],
            |_| {},
        );
        assert!(
            system.usage().used_blocks > before.total_blocks,
            "it uses what is new"
        );
        drop(system);
        rig.restart();
        rig.mount();
    }
}

#[test]
fn a_growth_that_cannot_be_is_refused_with_the_reason_and_writes_nothing() {
    let maker = of_devices(2);
    let world = SimWorld::new(Seed(3), 1, &maker.devices(POOL_BYTES));
    maker.format(&world).expect("fresh devices");
    let engine = Engine::new(Options {
        reactors: 1,
        memory_bytes: 8 << 20,
        cp_interval: 200_000_000,
        ..Options::default()
    });
    let storage = world.storage();
    let storage = &*storage;
    let id = engine
        .open(storage, &world.devices(), &[], None)
        .expect("it was just made");
    let mut core = everglade_engine::Core::new(&engine, 0, world.reactor(0));
    let run = |core: &mut everglade_engine::Core<_>, is_done: &mut dyn FnMut() -> bool| {
        world.wake(0);
        world.run(1_000_000, &mut |_| {
            let busy = core.turn();
            match is_done() {
                true => everglade_testing::world::Turn::Stop,
                false if busy => everglade_testing::world::Turn::Busy,
                false => everglade_testing::world::Turn::Idle {
                    until: core.deadline(),
                },
            }
        });
    };
    let early = Growth::Extend(vec![DeviceId(0)]);
    let refusal = engine.prepare_growth(storage, id, &early);
    assert!(
        matches!(refusal, Err(GrowError::Unavailable(_))),
        "{refusal:?}"
    );
    run(&mut core, &mut || {
        engine.aggregates()[0].state == State::Online
    });
    let writes = world.writes();
    let size = |device: u32| world.spec(DeviceId(device)).size_bytes;
    let small = world.add_device(DeviceSpec::thin((size_for(4, AREA, 0) - 1) * BLOCK));
    let other = world.add_device(DeviceSpec::thin(new_device()));
    let add = |device: DeviceId| Growth::Add(vec![(device, [7; 16])]);
    let both = |growth: &Growth| {
        let examined = engine.examine_growth(storage, id, growth);
        let prepared = engine.prepare_growth(storage, id, growth).map(|_| ());
        assert_eq!(examined.clone().map(|_| ()), prepared, "{growth:?}");
        examined.expect_err("it cannot be")
    };
    assert_eq!(
        both(&add(small)),
        GrowError::TooSmall {
            device: small,
            bytes: size(2),
            least: size(2) + BLOCK,
        }
    );
    assert_eq!(both(&add(DeviceId(1))), GrowError::InUse(DeviceId(1)));
    assert_eq!(
        both(&Growth::Extend(vec![other])),
        GrowError::NotMember(other)
    );
    let not_larger = both(&early);
    let GrowError::NotLarger {
        device,
        bytes,
        least,
    } = not_larger
    else {
        panic!("{not_larger:?}");
    };
    assert_eq!((device, bytes), (DeviceId(0), size(0)));
    assert!(least > bytes, "{least}");
    world.grow(DeviceId(0), least - BLOCK);
    assert!(matches!(both(&early), GrowError::NotLarger { .. }));
    assert_eq!(world.writes(), writes, "nothing is written");
    world.grow(DeviceId(0), least);
    let area = AREA;
    let total = engine.aggregates()[0].usage.total_blocks;
    let info = engine.examine_growth(storage, id, &early).expect("it can");
    assert_eq!(
        info,
        GrowthInfo {
            total_blocks_before: total,
            total_blocks_after: total + area,
            reserve_blocks_after: info.reserve_blocks_after,
            epoch_after: 2,
        }
    );
    assert_eq!(world.writes(), writes, "an examination writes nothing");
    let next = engine.prepare_growth(storage, id, &early).expect("it can");
    let busy = engine.prepare_growth(storage, id, &add(other));
    assert_eq!(busy.map(|_| ()), Err(GrowError::Busy));
    engine.abandon_growth(storage, id, next);
    // What was given up leaves nothing, and another growth takes its place.
    let next = engine
        .prepare_growth(storage, id, &add(other))
        .expect("it can");
    core.change(id, Change::Grow { next: next.clone() }, 1);
    drop(next);
    let mut done: Vec<Result<(), ChangeError>> = Vec::new();
    for _ in 0..1000 {
        run(&mut core, &mut || true);
        let mut polled = Vec::new();
        core.poll_admin(&mut polled);
        done.extend(polled.into_iter().map(|one| one.result));
        if !done.is_empty() {
            break;
        }
        world.pass(1_000_000);
    }
    assert_eq!(done, [Ok(())]);
    let known = engine.aggregates().swap_remove(0);
    assert_eq!((known.epoch, known.devices.len()), (2, 3));
    engine.dissolve();
    drop(core);
    let images = world.after_cut(Cut::whole(Keep::Nothing));
    let next = SimWorld::restart(images, Seed(4), 1);
    // The small one is no member, and was about to join as well.
    let system = maker.mount(&next).expect("it was committed");
    assert_eq!(system.geometry().map(|it| it.epoch), Some(2));
    assert_eq!(next.joining(), [small]);
}
