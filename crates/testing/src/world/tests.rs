//! The world keeps flushed changes, may lose unflushed ones, and repeats itself.

use std::cell::RefCell;
use std::collections::BTreeSet;

use everglade_env::{BLOCK_SIZE, Completion, DeviceId, DiskError, Op, Outside, Page, PageRef};

use super::*;

const DISK: DeviceId = DeviceId(0);
const BLOCK: u64 = BLOCK_SIZE as u64;

fn page(byte: u8) -> PageRef {
    let mut page = Page::zeroed();
    page.fill(byte);
    page.freeze()
}

fn write(block: u64, byte: u8) -> Op {
    Op::Write {
        device: DISK,
        offset: block * BLOCK,
        pages: vec![page(byte)],
        durable: false,
    }
}

fn durable_write(block: u64, byte: u8) -> Op {
    Op::Write {
        device: DISK,
        offset: block * BLOCK,
        pages: vec![page(byte)],
        durable: true,
    }
}

fn world(seed: u64) -> SimWorld {
    SimWorld::new(Seed(seed), 1, &[DeviceSpec::thin(1 << 20)])
}

/// Submits everything at once and waits for all of it.
fn perform(world: &SimWorld, outside: &mut SimOutside, ops: Vec<Op>) -> Vec<Completion> {
    let count = ops.len();
    for (token, op) in ops.into_iter().enumerate() {
        outside.submit(op, token as u64);
    }
    let mut done = Vec::new();
    while done.len() < count && !world.is_cut() {
        outside.poll(&mut done);
        if done.len() < count && !world.step() && !world.is_cut() {
            outside.poll(&mut done);
        }
    }
    done
}

fn perform_one(world: &SimWorld, outside: &mut SimOutside, op: Op) -> Completion {
    perform(world, outside, vec![op])
        .pop()
        .expect("one completion")
}

fn bytes_at(images: &Images, block: u64) -> u8 {
    images.image(0).read(block)[0]
}

#[test]
fn unflushed_write_may_vanish_and_flushed_write_never_does() {
    let world = world(1);
    let mut outside = world.reactor(0);
    perform(&world, &mut outside, vec![write(1, 11)]);
    perform(&world, &mut outside, vec![Op::Flush { device: DISK }]);
    perform(&world, &mut outside, vec![write(2, 22)]);
    let seen: BTreeSet<(u8, u8)> = world
        .cut_point()
        .singles(9)
        .map(|cut| world.after_cut(cut))
        .map(|images| (bytes_at(&images, 1), bytes_at(&images, 2)))
        .collect();
    assert!(
        seen.iter().all(|&(flushed, _)| flushed == 11),
        "a flushed write vanished: {seen:?}"
    );
    assert!(
        seen.contains(&(11, 0)),
        "an unflushed write cannot vanish: {seen:?}"
    );
    assert!(
        seen.contains(&(11, 22)),
        "an unflushed write cannot survive: {seen:?}"
    );
}

#[test]
fn flush_covers_only_writes_completed_before_its_submission() {
    let mut uncovered = 0;
    for seed in 0..50 {
        let world = world(seed);
        let mut outside = world.reactor(0);
        let ops = vec![write(1, 1), Op::Flush { device: DISK }];
        assert_eq!(perform(&world, &mut outside, ops).len(), 2);
        let images = world.after_cut(Cut::whole(Keep::Nothing));
        assert_eq!(
            bytes_at(&images, 1),
            0,
            "seed {seed}: the flush covered a write under way"
        );
        uncovered += 1;
    }
    assert_eq!(uncovered, 50);
}

#[test]
fn durable_write_makes_itself_durable_and_nothing_else() {
    let world = world(3);
    let mut outside = world.reactor(0);
    perform(&world, &mut outside, vec![write(1, 1)]);
    perform(&world, &mut outside, vec![durable_write(2, 2)]);
    let images = world.after_cut(Cut::whole(Keep::Nothing));
    assert_eq!((bytes_at(&images, 1), bytes_at(&images, 2)), (0, 2));
}

#[test]
fn older_write_that_survives_does_not_cover_a_newer_durable_one() {
    let world = world(4);
    let mut outside = world.reactor(0);
    perform(&world, &mut outside, vec![write(1, 1)]);
    perform(&world, &mut outside, vec![durable_write(1, 2)]);
    let images = world.after_cut(Cut::whole(Keep::Everything));
    assert_eq!(bytes_at(&images, 1), 2);
}

#[test]
fn read_overlapping_a_write_returns_either_content_and_later_reads_the_new_one() {
    let mut seen = BTreeSet::new();
    for seed in 0..64 {
        let world = world(seed);
        let mut outside = world.reactor(0);
        let read = || Op::Read {
            device: DISK,
            offset: BLOCK,
            pages: vec![Page::zeroed()],
        };
        let done = perform(&world, &mut outside, vec![write(1, 7), read()]);
        let both = done
            .iter()
            .find(|c| c.token == 1)
            .expect("the read completed");
        seen.insert(both.pages[0][0]);
        let after = perform_one(&world, &mut outside, read());
        assert_eq!(after.pages[0][0], 7);
    }
    assert_eq!(seen, BTreeSet::from([0, 7]));
}

#[test]
fn completions_are_reordered_and_each_comes_exactly_once() {
    let world = world(5);
    let mut outside = world.reactor(0);
    let count = u64::try_from(
        perform(
            &world,
            &mut outside,
            (0..100).map(|b| write(b, 1)).collect(),
        )
        .len(),
    );
    assert_eq!(count, Ok(100));
    assert!(
        world.reordered() > 10,
        "only {} completions were reordered",
        world.reordered()
    );
    assert!(!world.step(), "an event is left over");
}

/// A little run with every kind of operation on two reactors.
fn busy_run(seed: u64, cut_at: Option<u64>) -> SimWorld {
    let devices = [DeviceSpec::thin(1 << 20), DeviceSpec::block(1 << 20)];
    let world = SimWorld::new(Seed(seed), 2, &devices);
    if let Some(write) = cut_at {
        world.cut_at_write(write);
    } else {
        world.watch_cuts(1, 1000);
    }
    let storage = world.storage();
    let _ = storage.write(DISK, 0, &[9; BLOCK_SIZE]);
    let _ = storage.flush(DISK);
    let outsides = RefCell::new([(world.reactor(0), 0_u64), (world.reactor(1), 0)]);
    let mut done = Vec::new();
    world.run(10_000, &mut |reactor| {
        let (outside, turns) = &mut outsides.borrow_mut()[reactor];
        outside.poll(&mut done);
        for completion in done.drain(..) {
            let first = completion.pages.first().map_or(0, |page| page[0]);
            world.record_reply(completion.token, &[first]);
        }
        *turns += 1;
        if *turns > 20 {
            return Turn::Idle { until: None };
        }
        let block = outside.random() % 64;
        let device = DeviceId(u32::try_from(reactor).expect("two reactors"));
        let (offset, pages) = (
            block * BLOCK,
            vec![page(u8::try_from(*turns).expect("small")); 2],
        );
        outside.submit(
            Op::Write {
                device,
                offset,
                pages,
                durable: false,
            },
            *turns,
        );
        let read = Op::Read {
            device,
            offset,
            pages: vec![Page::zeroed()],
        };
        outside.submit(read, 100 + *turns);
        if turns.is_multiple_of(5) {
            outside.submit(Op::Flush { device }, 200 + *turns);
            outside.submit(
                Op::Punch {
                    device,
                    offset,
                    length: BLOCK,
                },
                300 + *turns,
            );
        }
        outside.wake(1 - reactor);
        Turn::Idle {
            until: Some(outside.now() + 100_000),
        }
    });
    world
}

#[test]
fn two_runs_of_a_seed_are_identical_and_two_seeds_are_not() {
    let digests: BTreeSet<String> = (0..20)
        .map(|_| busy_run(7, None).digest().to_string())
        .collect();
    assert_eq!(digests.len(), 1, "one seed gave {digests:?}");
    assert_ne!(busy_run(7, None).digest(), busy_run(8, None).digest());
}

#[test]
fn every_write_can_be_cut_at_and_a_watched_run_finds_the_same_cuts() {
    let whole = busy_run(9, None);
    let points = whole.take_cuts();
    assert_eq!(points.len() as u64, whole.writes());
    assert!(points.len() > 40);
    for (index, point) in points.iter().enumerate() {
        let stopped = busy_run(9, Some(index as u64 + 1));
        assert!(stopped.is_cut());
        assert_eq!(stopped.writes(), point.writes);
        let again = stopped.cut_point();
        assert_eq!(again.unflushed(), point.unflushed());
        for keep in [Keep::Nothing, Keep::Everything, Keep::Random(3)] {
            let (a, b) = (
                point.images(Cut::whole(keep)),
                again.images(Cut::whole(keep)),
            );
            for device in 0..2 {
                let same = a
                    .image(device)
                    .blocks()
                    .map(|(b, p)| (b, p[0]))
                    .eq(b.image(device).blocks().map(|(b, p)| (b, p[0])));
                assert!(same, "write {index}, {keep:?}: the two cuts differ");
            }
        }
    }
}

#[test]
fn nothing_happens_after_a_cut() {
    let world = world(10);
    let mut outside = world.reactor(0);
    world.cut_at_write(2);
    assert_eq!(perform(&world, &mut outside, vec![write(1, 1)]).len(), 1);
    assert_eq!(
        perform(&world, &mut outside, vec![write(2, 2), write(3, 3)]).len(),
        0
    );
    assert_eq!(world.writes(), 2, "the write after the cut was counted");
    assert_eq!(
        world.storage().write(DISK, 0, &[0; BLOCK_SIZE]),
        Err(DiskError::Gone)
    );
    let images = world.after_cut(Cut::whole(Keep::Everything));
    assert_eq!((bytes_at(&images, 2), bytes_at(&images, 3)), (2, 0));
}

#[test]
fn blocking_writes_count_and_stay_unflushed() {
    let world = world(11);
    let storage = world.storage();
    storage
        .write(DISK, 0, &[1; 2 * BLOCK_SIZE])
        .expect("no fault");
    assert_eq!((world.writes(), world.cut_point().unflushed()), (1, 1));
    let mut back = vec![0; BLOCK_SIZE];
    storage.read(DISK, BLOCK, &mut back).expect("no fault");
    assert_eq!(back[0], 1);
    assert_eq!(bytes_at(&world.after_cut(Cut::whole(Keep::Nothing)), 0), 0);
    storage.flush(DISK).expect("no fault");
    assert_eq!(bytes_at(&world.after_cut(Cut::whole(Keep::Nothing)), 0), 1);
    world.cut_at_write(2);
    assert_eq!(
        storage.write(DISK, 0, &[2; BLOCK_SIZE]),
        Err(DiskError::Gone)
    );
    assert_eq!(
        bytes_at(&world.after_cut(Cut::whole(Keep::Everything)), 0),
        2
    );
}

#[test]
fn torn_writes_leave_old_and_new_sectors() {
    let world = world(12);
    let mut outside = world.reactor(0);
    perform(
        &world,
        &mut outside,
        vec![durable_write(1, 1), durable_write(2, 1)],
    );
    let pages = vec![page(2), page(2)];
    let op = Op::Write {
        device: DISK,
        offset: BLOCK,
        pages,
        durable: false,
    };
    perform(&world, &mut outside, vec![op]);
    let mut mixed = 0;
    for seed in 0..100 {
        let images = world.after_cut(Cut {
            keep: Keep::Random(seed),
            tear: Some(Grain::Sector),
        });
        for block in 1..3 {
            let page = images.image(0).read(block);
            for sector in page.chunks(512) {
                assert!(sector.iter().all(|&b| b == sector[0]), "a sector is torn");
            }
            mixed += usize::from(page.contains(&1) && page.contains(&2));
        }
    }
    assert!(mixed > 5, "no block was torn");
}

#[test]
fn restart_goes_on_from_what_the_cut_left() {
    let world = world(13);
    let mut outside = world.reactor(0);
    perform(&world, &mut outside, vec![durable_write(1, 1)]);
    perform(&world, &mut outside, vec![write(2, 2)]);
    let images = world.after_cut(Cut::whole(Keep::Nothing));
    let again = SimWorld::restart(images, Seed(99), 1);
    assert!(again.now() > world.now());
    let mut outside = again.reactor(0);
    let pages = vec![Page::zeroed(), Page::zeroed()];
    let back = perform_one(
        &again,
        &mut outside,
        Op::Read {
            device: DISK,
            offset: BLOCK,
            pages,
        },
    );
    assert_eq!((back.pages[0][0], back.pages[1][0]), (1, 0));
    perform(&again, &mut outside, vec![durable_write(1, 3)]);
    assert_eq!(
        bytes_at(&again.after_cut(Cut::whole(Keep::Everything)), 1),
        3
    );
}

#[test]
fn full_host_refuses_new_blocks_and_takes_allocated_ones() {
    let world = world(14);
    let mut outside = world.reactor(0);
    world.set_host_capacity(Some(4 * BLOCK));
    let allocate = |block: u64| Op::Allocate {
        device: DISK,
        offset: block * BLOCK,
        length: 3 * BLOCK,
    };
    assert_eq!(
        perform_one(&world, &mut outside, allocate(0)).result,
        Ok(())
    );
    assert_eq!(outside.host_free_bytes(DISK), Some(BLOCK));
    assert_eq!(
        perform_one(&world, &mut outside, write(10, 1)).result,
        Ok(())
    );
    assert_eq!(
        perform_one(&world, &mut outside, write(11, 1)).result,
        Err(DiskError::NoSpace)
    );
    assert_eq!(
        perform_one(&world, &mut outside, write(2, 1)).result,
        Ok(())
    );
    assert_eq!(
        perform_one(&world, &mut outside, allocate(20)).result,
        Err(DiskError::NoSpace)
    );
    let punch = Op::Punch {
        device: DISK,
        offset: 0,
        length: 2 * BLOCK,
    };
    assert_eq!(perform_one(&world, &mut outside, punch).result, Ok(()));
    assert_eq!(
        perform_one(&world, &mut outside, write(11, 1)).result,
        Ok(())
    );
    assert_eq!(world.fault_counts(DISK).fired[Fault::NoSpace], 2);
}

/// Runs writes and reads under `faults` and returns what struck.
fn strike(faults: Faults) -> FaultCounts {
    let world = world(15);
    world.set_faults(DISK, faults);
    let mut outside = world.reactor(0);
    for round in 0..10 {
        let bytes = (0..100).map(|block| write(block, round)).collect();
        perform(&world, &mut outside, bytes);
        let read = |b: u64| Op::Read {
            device: DISK,
            offset: b * BLOCK,
            pages: vec![Page::zeroed()],
        };
        perform(&world, &mut outside, (0..100).map(read).collect());
        perform(&world, &mut outside, vec![Op::Flush { device: DISK }]);
    }
    world.fault_counts(DISK)
}

#[test]
fn every_fault_strikes_when_switched_on_and_never_otherwise() {
    assert_eq!(strike(Faults::default()), FaultCounts::default());
    let by_rate = Fault::ALL
        .into_iter()
        .filter(|fault| Faults::only(*fault, 2) != Faults::default());
    for fault in by_rate {
        let mut faults = Faults::only(fault, if fault == Fault::FlushError { 2 } else { 9 });
        let counts = strike(faults.clone());
        // A lost flush shows only after a power cut, and this device has all the space it asks for.
        let unmet = fault == Fault::LostFlush;
        assert!(counts.fired[fault] > 0, "{fault} never struck");
        assert!(unmet || counts.met[fault] > 0, "nobody met {fault}");
        faults.blocks = Some(200..201);
        let elsewhere = strike(faults);
        let unaimed = [Fault::FlushError, Fault::Slow, Fault::LostFlush].contains(&fault);
        assert!(
            unaimed || elsewhere.fired[fault] == 0,
            "{fault} struck outside its range"
        );
    }
}

#[test]
fn a_cut_damages_what_it_takes_until_that_is_written_again() {
    let world = world(16);
    let mut outside = world.reactor(0);
    perform(&world, &mut outside, vec![write(1, 1), write(2, 2)]);
    let images = world.after_cut(Cut::whole(Keep::Nothing));
    let again = SimWorld::restart(images, Seed(17), 1);
    let mut outside = again.reactor(0);
    perform(&again, &mut outside, vec![write(2, 3)]);
    for block in [1, 2] {
        let read = Op::Read {
            device: DISK,
            offset: block * BLOCK,
            pages: vec![Page::zeroed()],
        };
        perform(&again, &mut outside, vec![read]);
        assert_eq!(again.fault_counts(DISK).met[Fault::CutDropped], 1);
    }
}

#[test]
fn a_flush_that_lies_is_found_out_by_a_cut() {
    let world = world(18);
    let mut outside = world.reactor(0);
    world.set_faults(DISK, Faults::only(Fault::LostFlush, 1));
    perform(&world, &mut outside, vec![write(1, 1)]);
    perform(&world, &mut outside, vec![Op::Flush { device: DISK }]);
    let images = world.after_cut(Cut::whole(Keep::Nothing));
    assert_eq!(bytes_at(&images, 1), 0);
    let again = SimWorld::restart(images, Seed(19), 1);
    let mut bytes = vec![9; BLOCK_SIZE];
    again
        .storage()
        .read(DISK, BLOCK, &mut bytes)
        .expect("the device answers");
    assert_eq!(again.fault_counts(DISK).met[Fault::LostFlush], 1);
}

#[test]
fn flipped_bit_stays_flipped_and_a_bad_block_heals_by_writing() {
    let world = world(16);
    let mut outside = world.reactor(0);
    perform(&world, &mut outside, vec![write(1, 0)]);
    world.flip_bit(DISK, 1, 3);
    perform(&world, &mut outside, vec![Op::Flush { device: DISK }]);
    assert_eq!(bytes_at(&world.after_cut(Cut::whole(Keep::Nothing)), 1), 8);
    world.fail_block(DISK, 1);
    let read = || Op::Read {
        device: DISK,
        offset: BLOCK,
        pages: vec![Page::zeroed()],
    };
    assert_eq!(
        perform_one(&world, &mut outside, read()).result,
        Err(DiskError::Io(EIO))
    );
    perform(&world, &mut outside, vec![write(1, 5)]);
    assert_eq!(perform_one(&world, &mut outside, read()).pages[0][0], 5);
}

#[test]
fn vanished_device_fails_everything() {
    let world = world(17);
    let mut outside = world.reactor(0);
    world.vanish(DISK);
    assert_eq!(
        perform_one(&world, &mut outside, write(1, 1)).result,
        Err(DiskError::Gone)
    );
    assert_eq!(world.storage().flush(DISK), Err(DiskError::Gone));
    assert_eq!(world.fault_counts(DISK).met[Fault::Vanished], 2);
}

#[test]
fn device_breaks_at_the_write_that_was_named_and_a_restart_mends_it() {
    for (breakage, error) in [
        (Breakage::Vanishes, DiskError::Gone),
        (Breakage::Fails(Faults::no_writes()), DiskError::Io(EIO)),
    ] {
        let world = world(23);
        let mut outside = world.reactor(0);
        world.break_at(2, DISK, breakage.clone());
        assert_eq!(
            perform_one(&world, &mut outside, write(1, 1)).result,
            Ok(())
        );
        perform(&world, &mut outside, vec![write(2, 2)]);
        let allocate = Op::Allocate {
            device: DISK,
            offset: 8 * BLOCK_SIZE as u64,
            length: BLOCK_SIZE as u64,
        };
        let punch = Op::Punch {
            device: DISK,
            offset: 0,
            length: BLOCK_SIZE as u64,
        };
        for op in [write(3, 3), allocate, punch, Op::Flush { device: DISK }] {
            let done = perform_one(&world, &mut outside, op);
            assert_eq!(done.result, Err(error), "{breakage:?}");
        }
        let images = world.after_cut(Cut::whole(Keep::Everything));
        assert_eq!(bytes_at(&images, 1), 1);
        let world = SimWorld::restart(images, Seed(24), 1);
        let mut outside = world.reactor(0);
        assert_eq!(
            perform_one(&world, &mut outside, write(3, 3)).result,
            Ok(())
        );
    }
}

#[test]
fn device_that_was_taken_away_is_not_listed_and_comes_back_with_its_content() {
    let devices = [DeviceSpec::thin(1 << 20); 2];
    let world = SimWorld::new(Seed(25), 1, &devices);
    world
        .storage()
        .write(DISK, 0, &[7; BLOCK_SIZE])
        .expect("there");
    world.storage().flush(DISK).expect("there");
    let images = world.after_cut(Cut::whole(Keep::Nothing)).with_away(&[0]);
    assert!(images.is_away(0) && !images.is_away(1));
    let without = SimWorld::restart(images, Seed(26), 1);
    assert_eq!(without.devices(), [DeviceId(1)]);
    let mut block = [0; BLOCK_SIZE];
    let read = without.storage().read(DISK, 0, &mut block);
    assert_eq!(read, Err(DiskError::Gone));
    without
        .storage()
        .write(DeviceId(1), 0, &[8; BLOCK_SIZE])
        .expect("there");
    let images = without.after_cut(Cut::whole(Keep::Everything));
    assert!(images.is_away(0), "also over the next cut");
    let back = SimWorld::restart(images.with_away(&[]), Seed(27), 1);
    assert_eq!(back.devices(), [DISK, DeviceId(1)]);
    back.storage()
        .read(DISK, 0, &mut block)
        .expect("it is back");
    assert_eq!(block[0], 7);
    let now = back.after_cut(Cut::whole(Keep::Nothing));
    assert!(
        now.has_same_content(0, &images)
            && !now.has_same_content(1, &world.after_cut(Cut::whole(Keep::Nothing)))
    );
}

#[test]
fn damage_that_a_read_met_is_unmended_until_it_is_written_again() {
    let world = world(28);
    let mut outside = world.reactor(0);
    perform(&world, &mut outside, vec![write(1, 1), write(2, 2)]);
    world.flip_bit(DISK, 1, 0);
    world.flip_bit(DISK, 2, 0);
    assert!(world.unmended(DISK).is_empty(), "no read met it");
    let read = Op::Read {
        device: DISK,
        offset: BLOCK_SIZE as u64,
        pages: vec![Page::zeroed()],
    };
    perform(&world, &mut outside, vec![read]);
    assert_eq!(world.unmended(DISK), [1]);
    perform(&world, &mut outside, vec![write(1, 1)]);
    assert!(world.unmended(DISK).is_empty());
}

#[test]
fn operation_beyond_the_end_fails_and_is_counted() {
    let world = world(18);
    let mut outside = world.reactor(0);
    assert_eq!(
        perform_one(&world, &mut outside, write(256, 1)).result,
        Err(DiskError::Io(EINVAL))
    );
    assert_eq!(world.fault_counts(DISK).out_of_range, 1);
}

#[test]
fn reactors_sleep_until_their_deadline_and_the_world_ends_quiet() {
    let world = world(19);
    let mut turns = 0;
    let end = world.run(100_000, &mut |_| {
        turns += 1;
        match turns {
            0..10 => Turn::Idle {
                until: Some(world.now() + 1_000_000_000),
            },
            _ => Turn::Idle { until: None },
        }
    });
    assert_eq!(end, End::Quiet);
    assert!(
        world.now() > 9_000_000_000,
        "deadlines did not move the clock"
    );
    let end = world.run(10, &mut |_| Turn::Busy);
    assert_eq!(end, End::Quiet, "nobody was woken");
    world.wake(0);
    assert_eq!(world.run(10, &mut |_| Turn::Busy), End::Exhausted);
}

#[test]
fn devices_that_appear_or_become_larger_stay_over_a_cut_and_what_is_new_is_zero() {
    let world = world(20);
    let mut outside = world.reactor(0);
    let before = world.cut_point();
    let other = world.add_device(DeviceSpec::block(2 << 20));
    assert_eq!((other, world.joining()), (DeviceId(1), vec![DeviceId(1)]));
    world.grow(DISK, 3 << 20);
    let storage = world.storage();
    storage.write(other, 0, &page(5)[..]).expect("it is there");
    storage.flush(other).expect("it is there");
    perform(&world, &mut outside, vec![write(256, 1)]);
    perform(&world, &mut outside, vec![Op::Flush { device: DISK }]);
    perform(&world, &mut outside, vec![write(257, 2)]);
    let images = world.after_cut(Cut::whole(Keep::Nothing));
    assert_eq!((bytes_at(&images, 256), bytes_at(&images, 257)), (1, 0));
    assert_eq!(images.image(1).read(0)[0], 5);
    let sizes = |world: &SimWorld| {
        let storage = world.storage();
        let devices = world.devices().into_iter();
        devices
            .map(|device| storage.size_bytes(device) >> 20)
            .collect::<Vec<_>>()
    };
    let next = SimWorld::restart(images.clone(), Seed(21), 1);
    assert_eq!((sizes(&next), next.joining()), (vec![3, 2], vec![other]));
    next.has_joined(other);
    assert_eq!(next.joining(), []);
    let alone = SimWorld::restart(images.without_joining(), Seed(21), 1);
    assert_eq!(sizes(&alone), [3]);
    let earlier = before.images(Cut::whole(Keep::Nothing));
    assert_eq!(sizes(&SimWorld::restart(earlier, Seed(21), 1)), [1]);
}

#[test]
fn footprints_of_other_devices_do_not_fit() {
    let world = world(22);
    let images = || world.after_cut(Cut::whole(Keep::Nothing));
    let tracked = SimWorld::restart(images(), Seed(1), 1);
    tracked.track();
    let mut block = [0; BLOCK_SIZE];
    tracked.storage().read(DISK, 0, &mut block).expect("there");
    let mark = tracked.take_footprint();
    assert!(mark.fits(&images()));
    world.grow(DISK, 2 << 20);
    assert!(!mark.fits(&images()), "it has another size");
    world.add_device(DeviceSpec::thin(1 << 20));
    assert!(!mark.fits(&images()), "there is one more");
}
