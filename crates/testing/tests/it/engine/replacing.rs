//! A drive of a mirror is replaced by another one while the pool serves (decision 0044).

use everglade_engine::admin::{Change, Error as Refusal};
use everglade_engine::{Engine, Expected, GrowError, Growth, GrowthInfo};
use everglade_env::{BLOCK_SIZE, DeviceId};
use everglade_format::label::LABEL_BLOCKS;
use everglade_testing::engine::{EngineMaker, EngineSystem, Opening};
use everglade_testing::sim::mirror::{Everywhere, everywhere};
use everglade_testing::sim::{Mirrored as Met, Report};
use everglade_testing::system::{Admin, Maker, Replacement, System};
use everglade_testing::workload::{Action, contents};
use everglade_testing::world::{Breakage, Cut, DeviceSpec, Faults, Keep};
use everglade_testing::{Seed, SimWorld};

use super::rig::{Rig, change_all, create_volume, write};
use super::share;

const BLOCK: u64 = BLOCK_SIZE as u64;
const POOL_BYTES: u64 = 12 << 20;

fn mirror(copies: usize) -> EngineMaker {
    EngineMaker {
        copies,
        ..EngineMaker::SMALL_LOGGED
    }
}

fn without_journal(maker: EngineMaker) -> EngineMaker {
    EngineMaker {
        journal_half_blocks: 0,
        ..maker
    }
}

fn new_drive(seat: usize) -> Replacement {
    Replacement {
        seat,
        more_bytes: 0,
        breaks: None,
    }
}

fn replace(seat: usize) -> Action {
    Action::Admin(Admin::ReplaceDrive(new_drive(seat)))
}

/// Cuts some writes of a replacement, until the new drive has caught up, with any set of drives.
fn cut(
    maker: EngineMaker,
    breaks: Vec<(usize, u64, Breakage)>,
    replaced: Replacement,
    most: usize,
) -> Report {
    let plan = Everywhere {
        maker,
        pool_bytes: POOL_BYTES,
        breaks,
        is_return: false,
        replaced: Some(replaced),
        most: share(most),
    };
    let report = everywhere(Seed(71), &plan);
    report.unwrap_or_else(|failure| panic!("{plan:?}: {failure}"))
}

fn expect_met(report: &Report, all: &[Met]) {
    for met in all {
        let name = met.name();
        assert!(report.mirrors[*met] > 0, "{name}: {}", report.mirrors);
    }
}

#[test]
fn a_healthy_drive_is_replaced_and_any_write_may_be_the_last_with_any_drives() {
    for (maker, seat) in [
        (mirror(2), 0),
        (without_journal(mirror(2)), 1),
        (mirror(3), 1),
    ] {
        let report = cut(maker, Vec::new(), new_drive(seat), 16);
        expect_met(
            &report,
            &[
                Met::Replaced,
                Met::CaughtUp,
                Met::CutReplacement,
                Met::OldIsThere,
                Met::Returned,
                Met::Without,
                Met::StaleRefused,
            ],
        );
    }
}

#[test]
fn a_drive_that_vanished_is_replaced_and_any_write_may_be_the_last_with_any_drives() {
    let larger = Replacement {
        more_bytes: 5 * BLOCK,
        ..new_drive(0)
    };
    let report = cut(mirror(2), vec![(0, 3, Breakage::Vanishes)], larger, 16);
    expect_met(
        &report,
        &[Met::Replaced, Met::CaughtUp, Met::CutReplacement],
    );
}

/// The loss is recorded with the replacement, before it or after it. If it comes between the label
/// of the new drive and the change, that is refused, and can be asked for again.
#[test]
fn another_drive_is_lost_while_one_is_replaced() {
    let mut all = Report::default();
    for after in [10, 20, 26, 40] {
        let fails = Breakage::Fails(Faults::no_writes());
        let report = cut(mirror(3), vec![(2, after, fails)], new_drive(0), 4);
        expect_met(&report, &[Met::Broken]);
        all.add(&report);
    }
    expect_met(&all, &[Met::Replaced, Met::NotReplaced]);
}

/// It may break while its label is written, in the consistency point that gives it the seat, and
/// while it catches up.
#[test]
fn a_new_drive_that_breaks_costs_nothing() {
    let mut all = Report::default();
    for after in [0, 3, 8, 12, 20, 24, 30, 40] {
        let replaced = Replacement {
            breaks: Some((after, Breakage::Vanishes)),
            ..new_drive(1)
        };
        all.add(&cut(mirror(2), Vec::new(), replaced, 4));
    }
    expect_met(&all, &[Met::Replaced, Met::NotReplaced]);
}

/// What consistency points it takes until a new drive has caught up.
fn until_caught_up() -> Vec<Action> {
    let names = ["a", "b", "c", "d", "e", "f"];
    names.map(create_volume).into()
}

fn is_current(system: &EngineSystem, seat: usize) -> bool {
    let member = system.members()[seat];
    member.is_used && member.seat.is_current()
}

/// Nothing is started anew: the new drive catches up while the aggregate serves. Then it alone has
/// everything, and the old one is not even looked at.
#[test]
fn a_new_drive_catches_up_at_once_and_has_everything_then() {
    for maker in [mirror(2), without_journal(mirror(2))] {
        let mut rig = Rig::with_blocks(maker);
        let system = rig.mount();
        let (system, ()) = rig.run(system, [replace(0)], |_| {});
        assert_eq!(system.members()[0].device, Some(DeviceId(2)));
        let (system, ()) = rig.run(system, until_caught_up(), |_| {});
        assert!(is_current(&system, 0) && is_current(&system, 1));
        assert_eq!(system.members()[0].seat.returns, 1);
        let (system, ()) = rig.run(system, [write("v/l", 0, BLOCK, 9)], |_| {});
        let (system, ()) = rig.run(system, [create_volume("last")], |_| {});
        drop(system);
        let images = rig.world.after_cut(Cut::whole(Keep::Nothing));
        rig.restart_from(images.with_away(&[]));
        let system = rig.mount();
        assert_eq!(system.copies().read_elsewhere, 0);
        let devices = system.members().into_iter().map(|it| it.device);
        assert_eq!(
            devices.collect::<Vec<_>>(),
            [Some(DeviceId(2)), Some(DeviceId(1))]
        );
        drop(system);
        let world = SimWorld::restart(images.with_away(&[0, 1]), Seed(3), 1);
        let by_hand = Opening {
            is_degraded: true,
            expected: None,
            ..Opening::default()
        };
        let system = rig.maker.mount_as(&world, &by_hand).expect("by hand");
        let volumes = system.volumes().expect("an engine tells");
        assert!(volumes.contains(&"last".to_owned()), "{volumes:?}");
        assert_eq!(system.copies().read_elsewhere, 0);
    }
}

/// The new drive is tried before the old one is taken out.
#[test]
fn a_new_drive_that_cannot_be_written_leaves_the_old_one_in_use() {
    for (after, breakage) in [
        (0, Breakage::Vanishes),
        (0, Breakage::Fails(Faults::no_writes())),
        (6, Breakage::Vanishes),
    ] {
        let mut rig = Rig::with_blocks(mirror(2));
        let system = rig.mount();
        let broken = Replacement {
            breaks: Some((after, breakage)),
            ..new_drive(0)
        };
        let actions = [
            Action::Admin(Admin::ReplaceDrive(broken)),
            create_volume("w"),
        ];
        let (system, epoch) = rig.run(system, actions, |system| system.epoch());
        assert_eq!(epoch, 1, "nothing is recorded");
        assert!(is_current(&system, 0) && is_current(&system, 1));
        assert_eq!(system.members()[0].device, Some(DeviceId(0)));
        // Another one is fine.
        let actions = [replace(0)].into_iter().chain(until_caught_up());
        let (system, ()) = rig.run(system, actions, |_| {});
        assert!(is_current(&system, 0) && system.members()[0].device == Some(DeviceId(3)));
    }
}

/// The only drive in use has two blocks wrong: the new one lacks them, too, and that is counted.
#[test]
fn blocks_that_the_new_drive_cannot_get_are_counted() {
    let mut rig = Rig::with_blocks(without_journal(mirror(2)));
    let images = rig.world.after_cut(Cut::whole(Keep::Nothing));
    let written = contents(5, 64 * BLOCK);
    let place_of = |block: usize| {
        let bytes = &written[block * BLOCK_SIZE..][..BLOCK_SIZE];
        let mut blocks = images.image(1).blocks();
        let found = blocks.find(|(_, page)| page[..] == *bytes);
        found.expect("it is written").0
    };
    rig.world = SimWorld::restart(images.with_away(&[0]), Seed(8), 1);
    for block in [3, 40] {
        rig.world.flip_bit(DeviceId(1), place_of(block), 77);
    }
    let by_hand = Opening {
        is_degraded: true,
        expected: None,
        ..Opening::default()
    };
    let system = rig.maker.mount_as(&rig.world, &by_hand).expect("by hand");
    let actions = [replace(0)].into_iter().chain(until_caught_up());
    let (system, ()) = rig.run(system, actions, |_| {});
    assert!(is_current(&system, 0));
    let not_copied = system.members().into_iter().map(|it| it.faults.not_copied);
    assert_eq!(not_copied.collect::<Vec<_>>(), [2, 0]);
}

/// A drive that was replaced went on alone, started by hand. Then all are there.
#[test]
fn a_drive_that_was_replaced_and_went_on_by_itself_does_not_win() {
    let mut rig = Rig::with_blocks(mirror(2));
    let system = rig.mount();
    let actions = [replace(0)].into_iter().chain(until_caught_up());
    let (system, ()) = rig.run(system, actions, |_| {});
    assert!(is_current(&system, 0));
    let (epoch, cp) = (system.epoch(), system.committed_cp());
    drop(system);
    let images = rig.world.after_cut(Cut::whole(Keep::Nothing));
    let old = images.with_away(&[1, 2]);
    let uuid = rig.maker.plan().uuid;
    let remembered = Opening {
        is_degraded: false,
        expected: Some(Expected { uuid, epoch, cp }),
        ..Opening::default()
    };
    let world = SimWorld::restart(old.clone(), Seed(4), 1);
    for opening in [Opening::default(), remembered] {
        assert!(rig.maker.mount_as(&world, &opening).is_err(), "{opening:?}");
    }
    let by_hand = Opening {
        is_degraded: true,
        expected: None,
        ..Opening::default()
    };
    let mut system = rig.maker.mount_as(&world, &by_hand).expect("by hand");
    let create = |number: u64| Change::CreateVolume {
        name: format!("apart{number}"),
        sync: rig.maker.sync,
    };
    // It is far ahead by its number.
    for number in 0..30 {
        let done = change_all(&world, &mut system, 1_000_000, [create(number)]);
        assert_eq!(done, [Ok(())]);
    }
    assert!(system.committed_cp() > cp);
    drop(system);
    let apart = world.after_cut(Cut::whole(Keep::Nothing));
    let all = SimWorld::restart(apart.with_away(&[]), Seed(5), 1);
    let system = rig.maker.mount(&all).expect("the old one is no member");
    let volumes = system.volumes().expect("an engine tells");
    assert!(volumes.contains(&"f".to_owned()), "{volumes:?}");
    assert!(!volumes.contains(&"apart0".to_owned()), "{volumes:?}");
    assert_eq!(system.members()[0].device, Some(DeviceId(2)));
}

/// Runs an engine without clients until it is online, and lets `look` use it.
fn with_engine(maker: &EngineMaker, look: impl FnOnce(&SimWorld, &mut EngineSystem, &Engine)) {
    let world = SimWorld::new(Seed(6), 1, &maker.devices(POOL_BYTES));
    maker.format(&world).expect("fresh devices");
    let mut system = maker.mount(&world).expect("it was just made");
    let engine = system.engine().clone();
    look(&world, &mut system, &engine);
}

#[test]
fn what_cannot_be_replaced_is_refused_and_nothing_is_written() {
    let maker = EngineMaker {
        devices: 2,
        ..mirror(2)
    };
    with_engine(&maker, |world, system, engine| {
        let storage = &*world.storage();
        let writes = world.writes();
        let size = world.spec(DeviceId(0)).size_bytes;
        let put = |member: u32, device: DeviceId| Growth::Replace {
            member,
            device,
            uuid: [7; 16],
        };
        let refused = |growth: &Growth| {
            let examined = engine.examine_growth(storage, 0, growth);
            let prepared = engine.prepare_growth(storage, 0, growth).map(|_| ());
            assert_eq!(examined.clone().map(|_| ()), prepared, "{growth:?}");
            examined.expect_err("it cannot be")
        };
        let new = world.add_device(DeviceSpec::thin(size));
        assert_eq!(refused(&put(4, new)), GrowError::NotMember(new));
        assert_eq!(refused(&put(u32::MAX, new)), GrowError::NotMember(new));
        for own in [0, 3] {
            let own = DeviceId(own);
            assert_eq!(refused(&put(0, own)), GrowError::InUse(own), "a member");
        }
        let small = world.add_device(DeviceSpec::thin((2 * LABEL_BLOCKS + 1) * BLOCK));
        let too_small = refused(&put(0, small));
        let GrowError::TooSmall { least, bytes, .. } = too_small else {
            panic!("{too_small:?}");
        };
        assert_eq!(bytes, (2 * LABEL_BLOCKS + 1) * BLOCK);
        assert!(least <= size, "{least} of {size}");
        let other = world.add_device(DeviceSpec::thin(size));
        let foreign = everglade_engine::Plan {
            area_blocks: 256,
            ..everglade_engine::Plan::new("b", [9; 16], [8; 32], vec![[3; 16]])
        };
        everglade_engine::create(storage, &[other], &foreign).expect("a fresh device");
        let writes = writes.max(world.writes());
        assert_eq!(refused(&put(0, other)), GrowError::InUse(other), "labelled");
        // It can, but the drive is in use.
        let info = engine.examine_growth(storage, 0, &put(0, new));
        let total = engine.aggregates()[0].usage.total_blocks;
        let epoch = engine.aggregates()[0].epoch;
        let reserve = info.clone().expect("it can").reserve_blocks_after;
        assert_eq!(
            info,
            Ok(GrowthInfo {
                total_blocks_before: total,
                total_blocks_after: total,
                reserve_blocks_after: reserve,
                epoch_after: epoch + 1,
            })
        );
        let prepared = engine.prepare_growth(storage, 0, &put(0, new));
        assert_eq!(prepared.map(|_| ()), Err(GrowError::SeatInUse));
        assert_eq!(world.writes(), writes, "nothing is written");
        // One that is smaller than the others and has room is fine.
        let least = world.add_device(DeviceSpec::thin(least));
        assert!(engine.examine_growth(storage, 0, &put(0, least)).is_ok());
        let take_out = |device| Change::TakeOut { device };
        let done = change_all(world, system, 1_000_000, [take_out(new)]);
        assert!(matches!(done[..], [Err(Refusal::NotFound(_))]), "{done:?}");
        let done = change_all(world, system, 1_000_000, [take_out(DeviceId(1))]);
        assert_eq!(done, [Ok(())]);
        // Drive 0 is the last one of its mirror now.
        assert_eq!(refused(&put(0, new)), GrowError::LastCopy);
        let done = change_all(world, system, 1_000_000, [take_out(DeviceId(0))]);
        assert!(matches!(done[..], [Err(Refusal::Busy(_))]), "{done:?}");
        let next = engine.prepare_growth(storage, 0, &put(1, new));
        let next = next.expect("drive 1 is out");
        let again = engine.prepare_growth(storage, 0, &put(1, least));
        assert_eq!(again.map(|_| ()), Err(GrowError::Busy));
        // Another drive is taken out meanwhile: the record would be of another epoch.
        let done = change_all(world, system, 1_000_000, [take_out(DeviceId(3))]);
        assert_eq!(done, [Ok(())]);
        let change = Change::Grow { next: next.clone() };
        let done = change_all(world, system, 1_000_000, [change]);
        assert!(matches!(done[..], [Err(Refusal::Busy(_))]), "{done:?}");
        engine.abandon_growth(storage, 0, next);
        // Nothing of it is left, so that it can be tried again.
        let next = engine.prepare_growth(storage, 0, &put(1, new));
        let change = Change::Grow {
            next: next.expect("the label is erased"),
        };
        let done = change_all(world, system, 1_000_000, [change]);
        assert_eq!(done, [Ok(())]);
        assert_eq!(system.members()[1].device, Some(new));
    });
}

#[test]
fn a_drive_without_a_mirror_is_not_replaced() {
    with_engine(&EngineMaker::SMALL_LOGGED, |world, system, engine| {
        let new = world.add_device(world.spec(DeviceId(0)));
        let put = Growth::Replace {
            member: 0,
            device: new,
            uuid: [7; 16],
        };
        let refused = engine.examine_growth(&*world.storage(), 0, &put);
        assert!(
            matches!(&refused, Err(GrowError::Unavailable(text)) if text.contains("redundancy")),
            "{refused:?}"
        );
        let take_out = Change::TakeOut {
            device: DeviceId(0),
        };
        let done = change_all(world, system, 1_000_000, [take_out]);
        assert!(matches!(done[..], [Err(Refusal::Busy(_))]), "{done:?}");
    });
}

/// Operations that are under way on the old drive end after it has lost its seat, with errors.
#[test]
fn what_the_old_drive_answers_late_has_no_effect() {
    let mut rig = Rig::with_blocks(without_journal(mirror(2)));
    let system = rig.mount();
    let faults = Faults {
        slow: 1,
        ..Faults::default()
    };
    rig.world.set_faults(DeviceId(0), faults);
    let reads = (0..8).map(|block| Action::Read {
        lun: "v/l".to_owned(),
        offset: block * 8 * BLOCK,
        length: BLOCK,
    });
    let actions = [replace(0)].into_iter().chain(reads);
    let (system, ()) = rig.run(system, actions.chain(until_caught_up()), |_| {});
    rig.world.vanish(DeviceId(0));
    let (system, ()) = rig.run(system, [create_volume("late")], |_| {});
    assert!(is_current(&system, 0) && is_current(&system, 1));
    drop(system);
    rig.restart();
    rig.mount();
}
