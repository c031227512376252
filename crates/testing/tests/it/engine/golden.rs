//! Pools as version 1 of the format has them (decision 0018): one with snapshots, one with
//! everything that is shared, one with everything that is going, one with a history of every shape.
//! `fixture` says how they are kept.

use std::ops::Range;

use everglade_check::check;
use everglade_engine::SplitState;
use everglade_engine::admin::Change;
use everglade_env::BLOCK_SIZE;
use everglade_format::config::CONFIG_BYTES;
use everglade_format::indirect::BlockKind;
use everglade_format::label::{CONFIG_OFFSETS, SUPERBLOCK_OFFSETS, label_offsets};
use everglade_format::snapshot::State;
use everglade_format::{
    BITS_PER_BLOCK, Block, Config, Header, SnapshotRecord, Superblock, TagKey, release,
};
use everglade_target::{Op, Reply, WriteSpan};
use everglade_testing::engine::{EngineMaker, EngineSystem};
use everglade_testing::system::{Maker, NotMounted};
use everglade_testing::workload::contents;
use everglade_testing::world::{Cut, Images, Keep};
use everglade_testing::{Seed, SimWorld};

use super::clones::{self, BLOCKS, own};
use super::deletion::Rig;
use super::fixture;
use super::rig::ask;

const POOL_BYTES: u64 = 16 << 20;
const LUN_BYTES: u64 = 1 << 20;
/// Settings with a small release budget, so that the image has a scan in the middle.
const MAKER: EngineMaker = EngineMaker {
    reclaim_regions: 1,
    ..EngineMaker::SMALL_LOGGED
};

/// Snapshots with a branch, a hold, and a deletion that is under way.
fn make() -> Images {
    let mut rig = Rig::new(MAKER, POOL_BYTES, LUN_BYTES);
    for (number, name) in (1u64..).zip(["one", "two", "three", "four"]) {
        rig.write(number * 2, 5, number * 1_000)
            .expect("there is space");
        rig.snapshot(name).expect("there is space");
    }
    let (volume, name, tag) = (own("v"), own("two"), own("golden"));
    rig.change(Change::HoldSnapshot { volume, name, tag })
        .expect("it is there");
    let (volume, snapshot, safety) = (own("v"), own("two"), own("before"));
    rig.change(Change::RestoreVolume {
        volume,
        snapshot,
        safety,
    })
    .expect("it is there");
    rig.rest();
    rig.write(0, 1, 7_000).expect("there is space");
    rig.snapshot("five").expect("there is space");
    rig.write(1, 1, 8_000).expect("there is space");
    let (volume, percent) = (own("v"), 1);
    rig.change(Change::SetScanPace { volume, percent })
        .expect("it is there");
    let (volume, name) = (own("v"), own("one"));
    rig.change(Change::DeleteSnapshot { volume, name })
        .expect("nobody holds it");
    rig.world.after_cut(Cut::whole(Keep::Nothing))
}

/// Opens images that were clean and served when they were written, and checks that they still are.
fn opened(images: Images) -> (SimWorld, EngineSystem) {
    let offline = SimWorld::restart(images.clone(), Seed(2), 1);
    MAKER
        .check(&offline)
        .expect("it was clean when it was written");
    let world = SimWorld::restart(images, Seed(3), 1);
    let system = MAKER
        .mount(&world)
        .expect("it was served when it was written");
    (world, system)
}

#[test]
fn a_pool_with_snapshots_of_version_1_is_read_checked_and_worked_on() {
    let images = fixture::load("snapshots", MAKER, POOL_BYTES, make);
    let (world, system) = opened(images);
    let mut rig = Rig::of(MAKER, world, system);
    let names = |rig: &Rig| {
        let infos = rig.system.snapshots("v").into_iter();
        infos
            .map(|info| (info.name, info.holds.len()))
            .collect::<Vec<_>>()
    };
    let known = [
        ("two", 1),
        ("three", 0),
        ("four", 0),
        ("before", 0),
        ("five", 0),
    ];
    assert_eq!(
        names(&rig),
        known.map(|(name, holds)| (name.to_owned(), holds))
    );
    let scan = rig.system.scan("v");
    assert_eq!((scan.victims, scan.pace_percent), (1, 1), "{scan:?}");
    for (lun, block, fill) in [
        ("v/l@two", 2, 1_000),
        ("v/l@two", 4, 2_000),
        ("v/l@three", 6, 3_000),
        ("v/l@three", 5, 2_000),
        ("v/l@four", 12, 4_000),
        ("v/l@before", 8, 4_000),
        ("v/l@five", 0, 7_000),
        ("v/l@five", 8, 2_000),
        ("v/l", 0, 7_000),
        ("v/l", 1, 8_000),
        ("v/l", 2, 1_000),
    ] {
        rig.expect(lun, block, fill);
    }
    let (volume, percent) = ("v".to_owned(), 100);
    rig.change(Change::SetScanPace { volume, percent })
        .expect("it is there");
    rig.rest();
    rig.write(100, 50, 9_000).expect("there is space");
    rig.snapshot("six").expect("there is space");
    let mut rig = rig.restart();
    rig.expect("v/l@six", 149, 9_000);
    rig.expect("v/l@two", 2, 1_000);
}

/// Pools for everything that is shared are this large.
const SHARED_BYTES: u64 = 64 << 20;

/// Makes an image with all other structures: counts of references, a LUN clone under way, clones of
/// volumes in each state of a split with stale pointers in them, notes, a renamed aggregate, a
/// volume whose snapshots were deleted, and operations that only the journal has.
fn make_shared() -> Images {
    let mut rig = clones::Rig::of(MAKER);
    let ok = |rig: &mut clones::Rig, change: Change| rig.change(change).expect("it can be done");
    let volume = |name: &str| Change::CreateVolume {
        name: own(name),
        sync: Default::default(),
    };
    let lun = |of: &str, name: &str| Change::CreateLun {
        volume: own(of),
        name: own(name),
        size_bytes: BLOCKS * BLOCK_SIZE as u64,
    };
    let clone_lun = |name: &str| Change::CloneLun {
        volume: own("v"),
        lun: own("l"),
        name: own(name),
        from: None,
    };
    let split = |of: &str| Change::StartSplit { volume: own(of) };
    let nudge = |rig: &mut clones::Rig, of: &str| {
        let (volume, percent) = (own(of), 100);
        ok(rig, Change::SetScanPace { volume, percent });
    };
    ok(&mut rig, Change::RenameAggregate { to: own("renamed") });
    ok(
        &mut rig,
        Change::SetNotes {
            text: contents(77, 5_000),
        },
    );
    // A LUN that shares all with its clone.
    rig.write("v/l", 0, 24, 1_000);
    ok(&mut rig, clone_lun("k"));
    rig.rest();
    rig.write("v/k", 3, 2, 2_000);
    // A clone that was split and has no dependants: its pointers are stale.
    rig.snapshot("v", "s");
    rig.clone_of("gone", "v", "s").expect("a new name");
    ok(&mut rig, split("gone"));
    rig.rest();
    rig.write("v/l", 0, 12, 3_000);
    rig.delete_snapshot("v", "s").expect("nobody needs it");
    rig.rest();
    rig.write("v/l", 300, 4, 4_000);
    rig.write("v/l", 590, 4, 4_000);
    rig.snapshot("v", "t");
    for name in ["plain", "stopped", "copying"] {
        rig.clone_of(name, "v", "t").expect("a new name");
    }
    rig.write("plain/l", 1, 2, 5_000);
    ok(&mut rig, split("stopped"));
    nudge(&mut rig, "stopped");
    let volume_name = own("stopped");
    ok(
        &mut rig,
        Change::StopSplit {
            volume: volume_name,
        },
    );
    // Snapshots that come and go.
    ok(&mut rig, volume("w"));
    ok(&mut rig, lun("w", "l"));
    for (fill, name) in [(6_000, "a"), (7_000, "b")] {
        rig.write("w/l", 0, 3, fill);
        rig.snapshot("w", name);
    }
    rig.delete_snapshot("w", "a").expect("nobody needs it");
    for _ in 0..100 {
        if rig.system.scan("w").kind == "release" {
            break;
        }
        nudge(&mut rig, "w");
    }
    // Work under way when the power fails.
    let (of, name) = (own("v"), own("k"));
    ok(&mut rig, clone_lun("making"));
    ok(&mut rig, split("copying"));
    ok(&mut rig, Change::DeleteLun { volume: of, name });
    rig.write("plain/l", 599, 1, 8_000);
    rig.world.after_cut(Cut::whole(Keep::Nothing))
}

#[test]
fn a_pool_of_version_1_with_everything_that_is_shared_is_read_checked_and_worked_on() {
    let images = fixture::load("shared", MAKER, SHARED_BYTES, make_shared);
    let offline = SimWorld::restart(images.clone(), Seed(2), 1);
    let report = check(&*offline.storage(), &offline.devices(), &mut |_| {}).expect("readable");
    let unreplayed = report.journal.map_or(0, |journal| journal.operations);
    assert!(unreplayed > 0, "some of it only the journal has");
    let (world, system) = opened(images);
    let mut rig = clones::Rig::on(MAKER, world, system);
    assert_eq!(rig.system.name(), "renamed");
    assert!(rig.notes() == contents(77, 5_000), "notes");
    let states = ["v", "plain", "gone", "stopped"].map(|it| rig.split(it).state);
    let expected = [
        SplitState::None,
        SplitState::None,
        SplitState::Done,
        SplitState::Stopped,
    ];
    assert_eq!(states, expected);
    let told = rig.split("copying");
    // Right after a start the available space is unknown.
    let goes_on = [SplitState::Copying, SplitState::WaitingForSpace];
    assert!(goes_on.contains(&told.state), "{told:?}");
    let told = rig.split("stopped");
    assert!(
        told.done_blocks > 0 && told.done_blocks < told.total_blocks,
        "{told:?}"
    );
    let making = rig.system.lun_clone("v").expect("it is being made");
    assert_eq!((making.name.as_str(), making.failed), ("making", None));
    let expect_all = |rig: &mut clones::Rig| {
        rig.expect("v/l", 0, 12, 3_000);
        rig.expect("v/l", 12, 12, 1_000);
        rig.expect("v/l@t", 300, 4, 4_000);
        rig.expect("gone/l", 0, 24, 1_000);
        rig.expect("gone/k", 3, 2, 2_000);
        rig.expect("gone/k", 5, 19, 1_000);
        rig.expect("plain/l", 1, 2, 5_000);
        rig.expect("plain/l", 599, 1, 8_000);
        for clone in ["stopped", "copying"] {
            rig.expect(&format!("{clone}/l"), 0, 12, 3_000);
            rig.expect(&format!("{clone}/l"), 590, 4, 4_000);
            rig.expect(&format!("{clone}/k"), 3, 2, 2_000);
        }
        rig.expect("w/l@b", 0, 3, 7_000);
    };
    expect_all(&mut rig);
    assert!(rig.stale_reads() > 0, "pointers of a volume that was split");
    // All work under way is completed.
    rig.rest();
    rig.rest();
    rig.expect("v/making", 0, 12, 3_000);
    rig.expect("v/making", 590, 4, 4_000);
    assert_eq!(rig.split("copying").state, SplitState::Done);
    assert_eq!(rig.system.scan("w").kind, "none");
    let mut rig = rig.restart();
    expect_all(&mut rig);
    rig.write("gone/l", 100, 50, 9_000);
    let mut rig = rig.restart();
    rig.expect("gone/l", 100, 50, 9_000);
}

/// Snapshots of `r`; all but the first and the last go in one pass. What they have of maps fills
/// more than a block of the release file.
const GOING: u64 = 174;
/// Entries in a block of the release file.
const RELEASES: u64 = release::RELEASES_PER_BLOCK as u64;

/// Sets the pace of a volume's scans; there is a consistency point with it.
fn pace(rig: &mut clones::Rig, volume: &str, percent: u8) {
    let volume = own(volume);
    let set = rig.change(Change::SetScanPace { volume, percent });
    set.expect("it is there");
}

/// Blocks that are all the same, so that the image is small.
pub(super) fn write_same(rig: &mut clones::Rig, lun: &str, blocks: Range<u64>, byte: u8) {
    for first in blocks.clone().step_by(200) {
        let end = blocks.end.min(first + 200);
        let length = usize::try_from(end - first).expect("at most 200") * BLOCK_SIZE;
        let data = WriteSpan::copy_of(first * BLOCK_SIZE as u64, &vec![byte; length]);
        let durable = false;
        let written = ask(
            &rig.world,
            &mut rig.system,
            lun,
            Op::Write { data, durable },
        );
        written.expect("there is space");
    }
}

#[track_caller]
pub(super) fn expect_same(rig: &mut clones::Rig, lun: &str, blocks: Range<u64>, byte: u8) {
    for block in blocks {
        let op = Op::Read {
            offset: block * BLOCK_SIZE as u64,
            length: 4096,
        };
        match ask(&rig.world, &mut rig.system, lun, op) {
            Ok(Reply::Data(span)) => {
                let is_it = span.pages[0].iter().all(|found| *found == byte);
                assert!(is_it, "{lun} block {block} is not of {byte}");
            }
            other => panic!("{lun} block {block}: {other:?}"),
        }
    }
}

/// Makes an image with deletions in the middle when the power fails: maps of deleted snapshots
/// (`r`), blocks of a deleted snapshot (`d`), and a LUN, of which a snapshot keeps a part (`v`).
fn make_leaving() -> Images {
    let mut rig = clones::Rig::of(MAKER);
    for volume in ["r", "d"] {
        let (name, sync) = (own(volume), Default::default());
        let made = rig.change(Change::CreateVolume { name, sync });
        made.expect("a new name");
    }
    for (volume, name) in [("r", "l"), ("d", "l"), ("v", "gone")] {
        let made = rig.change(Change::CreateLun {
            volume: own(volume),
            name: own(name),
            size_bytes: BLOCKS * BLOCK_SIZE as u64,
        });
        made.expect("a new name");
    }
    for number in 0..GOING {
        write_same(
            &mut rig,
            "r/l",
            number % 7..number % 7 + 1,
            kept_byte(number),
        );
        rig.snapshot("r", &format!("s{number}"));
    }
    let going = (1..GOING - 1).map(|number| Change::DeleteSnapshot {
        volume: own("r"),
        name: format!("s{number}"),
    });
    let deleted = rig.change_at_once(going);
    assert!(deleted.iter().all(Result::is_ok), "{deleted:?}");
    let is_half = |rig: &clones::Rig| {
        let scan = rig.system.scan("r");
        scan.kind == "release" && scan.done == RELEASES
    };
    until(&mut rig, "r", is_half);
    write_same(&mut rig, "d/l", 0..600, 11);
    rig.snapshot("d", "going");
    write_same(&mut rig, "d/l", 0..560, 12);
    rig.snapshot("d", "kept");
    rig.delete_snapshot("d", "going").expect("nobody holds it");
    let is_half = |rig: &clones::Rig| {
        let scan = rig.system.scan("d");
        scan.kind == "delete" && !scan.done.is_multiple_of(BITS_PER_BLOCK)
    };
    until(&mut rig, "d", is_half);
    write_same(&mut rig, "v/l", 0..40, 21);
    write_same(&mut rig, "v/gone", 0..100, 22);
    rig.snapshot("v", "s");
    write_same(&mut rig, "v/gone", 50..600, 23);
    let (volume, name) = (own("v"), own("gone"));
    rig.change(Change::DeleteLun { volume, name })
        .expect("it is there");
    rig.world.after_cut(Cut::whole(Keep::Nothing))
}

/// Returns the content that the snapshot of `r` of this number is the first to have.
fn kept_byte(number: u64) -> u8 {
    if number.is_multiple_of(2) { 31 } else { 32 }
}

/// Consistency points until the scan of a volume is where it is to be; there it rests.
fn until(rig: &mut clones::Rig, volume: &str, is_half: impl Fn(&clones::Rig) -> bool) {
    for _ in 0..1_000 {
        if is_half(rig) {
            return pace(rig, volume, 0);
        }
        pace(rig, volume, 100);
    }
    panic!("{:?}", rig.system.scan(volume));
}

#[test]
fn a_pool_of_version_1_with_everything_that_is_going_is_read_checked_and_worked_on() {
    let images = fixture::load("leaving", MAKER, SHARED_BYTES, make_leaving);
    let (world, system) = opened(images);
    let mut rig = clones::Rig::on(MAKER, world, system);
    // Each is in the middle.
    let before = rig.used();
    let scan = rig.system.scan("r");
    assert_eq!((scan.kind, scan.done), ("release", RELEASES), "{scan:?}");
    assert!(scan.total > scan.done, "{scan:?}");
    let scan = rig.system.scan("d");
    assert_eq!((scan.kind, scan.victims), ("delete", 1), "{scan:?}");
    assert!(!scan.done.is_multiple_of(BITS_PER_BLOCK), "{scan:?}");
    let left = rig.system.pending_blocks("v");
    assert!(
        (200..600).contains(&left),
        "{left} of 600 blocks of the LUN"
    );
    let first_and_last = ["s0".to_owned(), format!("s{}", GOING - 1)];
    let expect_all = |rig: &mut clones::Rig| {
        assert_eq!(rig.snapshot_names("r"), first_and_last);
        assert_eq!(rig.snapshot_names("d"), ["kept"]);
        assert_eq!(rig.snapshot_names("v"), ["s"]);
        let exports = rig.exports().into_iter().map(|(name, _)| name);
        assert_eq!(exports.collect::<Vec<_>>(), ["d/l", "r/l", "v/l"]);
        expect_same(rig, "r/l@s0", 0..1, kept_byte(0));
        expect_same(rig, "r/l@s0", 1..8, 0);
        for lun in ["r/l".to_owned(), format!("r/l@s{}", GOING - 1)] {
            for number in GOING - 7..GOING {
                let block = number % 7;
                expect_same(rig, &lun, block..block + 1, kept_byte(number));
            }
        }
        for lun in ["d/l", "d/l@kept"] {
            expect_same(rig, lun, 0..560, 12);
            expect_same(rig, lun, 560..600, 11);
        }
        expect_same(rig, "v/l", 0..40, 21);
        expect_same(rig, "v/l@s", 0..40, 21);
        expect_same(rig, "v/gone@s", 0..100, 22);
        expect_same(rig, "v/gone@s", 100..600, 0);
    };
    expect_all(&mut rig);
    // The deletions continue from there, and end.
    for volume in ["r", "d"] {
        pace(&mut rig, volume, 100);
    }
    for _ in 0..100 {
        rig.rest();
    }
    for volume in ["r", "d", "v"] {
        assert_eq!(rig.system.scan(volume).kind, "none", "{volume}");
        assert_eq!(rig.system.pending_blocks(volume), 0, "{volume}");
    }
    assert!(
        rig.used() + 200 < before,
        "{before} blocks, then {}",
        rig.used()
    );
    let mut rig = rig.restart();
    expect_all(&mut rig);
    // The freed blocks are used again.
    for lun in ["r/l", "d/l", "v/l"] {
        write_same(&mut rig, lun, 100..500, 41);
    }
    pace(&mut rig, "v", 100);
    let mut rig = rig.restart();
    expect_same(&mut rig, "d/l@kept", 0..560, 12);
    expect_same(&mut rig, "v/gone@s", 0..100, 22);
    for lun in ["r/l", "d/l", "v/l"] {
        expect_same(&mut rig, lun, 100..500, 41);
    }
}

/// A history in which images descend from more than one snapshot, through one that is gone, and one
/// of which the summary map knows nothing yet; and a LUN that was cut off, in a snapshot that still
/// has the rest of it.
fn make_branching() -> Images {
    let mut rig = clones::Rig::of(MAKER);
    let (volume, name) = (own("v"), own("m"));
    let size_bytes = BLOCKS * BLOCK_SIZE as u64;
    rig.change(Change::CreateLun {
        volume,
        name,
        size_bytes,
    })
    .expect("a new name");
    let restore = |rig: &mut clones::Rig, snapshot: &str, safety: &str| {
        let (volume, snapshot, safety) = (own("v"), own(snapshot), own(safety));
        let restored = rig.change(Change::RestoreVolume {
            volume,
            snapshot,
            safety,
        });
        restored.expect("it is there");
    };
    write_same(&mut rig, "v/m", 0..600, 51);
    write_same(&mut rig, "v/l", 0..40, 52);
    rig.snapshot("v", "a");
    write_same(&mut rig, "v/l", 10..20, 53);
    rig.snapshot("v", "fork");
    for (safety, blocks, byte) in [("r1", 20..30, 54), ("r2", 0..5, 55)] {
        write_same(&mut rig, "v/l", blocks, byte);
        restore(&mut rig, "fork", safety);
        rig.rest();
    }
    rig.delete_snapshot("v", "fork").expect("nobody holds it");
    rig.rest();
    let (volume, name) = (own("v"), own("m"));
    let size_bytes = 100 * BLOCK_SIZE as u64;
    rig.change(Change::ShrinkLun {
        volume,
        name,
        size_bytes,
    })
    .expect("it is longer");
    rig.snapshot("v", "cut");
    let (volume, lun, safety) = (own("v"), own("l"), own("r3"));
    rig.change(Change::RestoreLun {
        volume,
        lun,
        snapshot: own("a"),
        safety,
    })
    .expect("it is there");
    write_same(&mut rig, "v/l", 30..33, 56);
    restore(&mut rig, "r2", "r4");
    until(&mut rig, "v", |rig| rig.system.scan("v").kind == "fold");
    write_same(&mut rig, "v/l", 35..36, 57);
    rig.snapshot("v", "b");
    rig.world.after_cut(Cut::whole(Keep::Nothing))
}

#[test]
fn a_pool_of_version_1_with_a_history_of_every_shape_is_read_checked_and_worked_on() {
    let images = fixture::load("branching", MAKER, SHARED_BYTES, make_branching);
    let mut records = Vec::new();
    for (_, page) in images.image(0).blocks() {
        let block: &Block = page[..].try_into().expect("a block");
        let is_table = Header::decode(block).is_ok_and(|it| it.kind == BlockKind::Snapshots);
        if is_table {
            records.extend(SnapshotRecord::decode(block).expect("whole"));
        }
    }
    let has = |what: fn(&SnapshotRecord) -> bool| records.iter().any(|(_, record)| what(record));
    assert!(has(|it| it.state == State::Gone), "one that joins others");
    assert!(has(|it| it.is_unfolded) && has(|it| !it.also.is_empty()));
    let (world, system) = opened(images);
    let mut rig = clones::Rig::on(MAKER, world, system);
    let scan = rig.system.scan("v");
    assert_eq!((scan.kind, scan.pace_percent), ("fold", 0), "{scan:?}");
    let expect_all = |rig: &mut clones::Rig| {
        let names = ["a", "r1", "r2", "cut", "r3", "r4", "b"];
        assert_eq!(rig.snapshot_names("v"), names);
        let sizes = rig.exports();
        let long = BLOCKS * BLOCK_SIZE as u64;
        assert_eq!(sizes, [(own("v/l"), long), (own("v/m"), long)]);
        let of = |name: &str| match name {
            "a" => vec![(0..40, 52)],
            "r1" => vec![(0..10, 52), (10..20, 53), (20..30, 54), (30..40, 52)],
            "r2" => vec![(0..5, 55), (5..10, 52), (10..20, 53), (20..40, 52)],
            "cut" | "r3" => vec![(0..10, 52), (10..20, 53), (20..40, 52)],
            "r4" => vec![(0..30, 52), (30..33, 56), (33..40, 52)],
            _ => vec![
                (0..5, 55),
                (10..20, 53),
                (20..35, 52),
                (35..36, 57),
                (36..40, 52),
            ],
        };
        for name in names {
            for (blocks, byte) in of(name) {
                expect_same(rig, &format!("v/l@{name}"), blocks, byte);
            }
            let end = if ["cut", "r3", "r4"].contains(&name) {
                100
            } else {
                600
            };
            expect_same(rig, &format!("v/m@{name}"), 0..end, 51);
        }
        expect_same(rig, "v/l", 35..36, 57);
        expect_same(rig, "v/m", 0..600, 51);
    };
    expect_all(&mut rig);
    pace(&mut rig, "v", 100);
    rig.rest();
    assert_eq!(rig.system.scan("v").kind, "none");
    let mut rig = rig.restart();
    expect_all(&mut rig);
    // All snapshots can be deleted, and the last one counts its exclusive blocks.
    for name in ["a", "r1", "r2", "cut", "r3", "r4"] {
        rig.delete_snapshot("v", name).expect("nobody holds it");
    }
    rig.rest();
    write_same(&mut rig, "v/l", 0..40, 58);
    write_same(&mut rig, "v/m", 0..600, 59);
    rig.rest();
    let mut rig = rig.restart();
    expect_same(&mut rig, "v/l@b", 10..20, 53);
    expect_same(&mut rig, "v/m@b", 0..600, 51);
    let alone = rig.system.snapshots("v")[0].exclusive_bytes / BLOCK_SIZE as u64;
    assert!((640..700).contains(&alone), "{alone} blocks");
}

/// Headers of blocks, of all kinds that there are.
#[test]
fn the_pools_have_blocks_of_every_kind() {
    let mut found = std::collections::BTreeSet::new();
    for images in [
        fixture::load("snapshots", MAKER, POOL_BYTES, make),
        fixture::load("shared", MAKER, SHARED_BYTES, make_shared),
    ] {
        for (_, page) in images.image(0).blocks() {
            let block: &Block = page[..].try_into().expect("a block");
            found.extend(Header::decode(block).ok().map(|header| header.kind as u8));
        }
    }
    let all = BlockKind::AggregateIndirect as u8..=BlockKind::Notes as u8;
    assert!(
        all.clone().all(|kind| found.contains(&kind)),
        "{found:?} of {all:?}"
    );
}

/// The places of config records and superblocks that were written, as blocks of the device.
fn labels(images: &Images) -> (Vec<u64>, Vec<u64>) {
    let world = SimWorld::restart(images.clone(), Seed(1), 1);
    let size = world.storage().size_bytes(world.devices()[0]);
    let places = |offsets: [u64; 2]| -> Vec<u64> {
        let all = label_offsets(size).into_iter();
        let all = all.flat_map(|label| offsets.map(|slot| (label + slot) / BLOCK_SIZE as u64));
        all.filter(|block| images.image(0).read(*block).iter().any(|byte| *byte != 0))
            .collect()
    };
    (places(CONFIG_OFFSETS), places(SUPERBLOCK_OFFSETS))
}

fn record_at(images: &Images, block: u64) -> Vec<u8> {
    let blocks = CONFIG_BYTES as u64 / BLOCK_SIZE as u64;
    let pages = (block..block + blocks).map(|block| images.image(0).read(block));
    pages.flat_map(|page| page.to_vec()).collect()
}

/// Changes a byte of each config record and makes its checksum right.
fn change_records(images: &mut Images, at: usize, value: u8) {
    for block in labels(images).0 {
        let mut bytes = record_at(images, block);
        bytes[at] = value;
        let end = CONFIG_BYTES - 32;
        let seal = *blake3::hash(&bytes[..end]).as_bytes();
        bytes[end..].copy_from_slice(&seal);
        for (index, page) in (block..).zip(bytes.chunks_exact(BLOCK_SIZE)) {
            images.put(0, index, page.try_into().expect("a block"));
        }
    }
}

/// Why a pool is not opened, by the engine and by the verifier. Nothing may be written.
fn refusals(images: &Images) -> [String; 2] {
    let world = SimWorld::restart(images.clone(), Seed(2), 1);
    let before = (world.writes(), world.digest());
    let refused = match MAKER.mount(&world) {
        Err(NotMounted::Refused(text)) => text,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it was opened"),
    };
    let checked = check(&*world.storage(), &world.devices(), &mut |_| {});
    let unreadable = checked.expect_err("it was checked").to_string();
    assert_eq!(
        (world.writes(), world.digest()),
        before,
        "nothing is written"
    );
    [refused, unreadable]
}

#[test]
fn pools_of_other_versions_and_with_unknown_features_are_refused_untouched() {
    let images = fixture::load("snapshots", MAKER, POOL_BYTES, make);
    let newer = "Run the newer everglade that wrote it. Nothing was changed";
    for (at, value, found, expected, remedy) in [
        (8, 2, "format version 2", "format version 1", newer),
        (
            8,
            0,
            "format version 0",
            "format version 1",
            "It is from before the format was frozen: copy the data out with the everglade that \
            wrote it, and create the aggregate anew. Nothing was changed",
        ),
        (
            32,
            1,
            "read-only-compatible feature flags 0x1",
            "read-only-compatible feature flags none, as this build knows none",
            newer,
        ),
        (
            47,
            0x80,
            "incompatible feature flags 0x8000000000000000",
            "incompatible feature flags none but 0xf, which this build knows",
            newer,
        ),
    ] {
        let mut images = images.clone();
        change_records(&mut images, at, value);
        let [refused, unreadable] = refusals(&images);
        let wanted = format!(" has {found}; expected {expected}. {remedy}");
        assert!(refused.ends_with(&wanted), "{refused}");
        let wanted = format!(" has {found}, this program reads {expected}");
        assert!(unreadable.ends_with(&wanted), "{unreadable}");
    }
    // A superblock alone, of a build that was interrupted in the middle of an upgrade.
    let mut images = images.clone();
    let (records, superblocks) = labels(&images);
    let config = Config::decode(&record_at(&images, records[0]));
    let config = config.expect("whole").expect("written");
    let key = TagKey::new(&config.secret);
    let whole = superblocks.into_iter().find(|block| {
        let page = images.image(0).read(*block);
        let block: &Block = page[..].try_into().expect("a block");
        matches!(Superblock::decode(block, &key, &config.uuid), Ok(Some(_)))
    });
    let at = whole.expect("one is whole");
    let mut block: Block = images.image(0).read(at)[..].try_into().expect("a block");
    block[8] = 2;
    block[BLOCK_SIZE - 8..].fill(0);
    let code = key.code(&block);
    block[BLOCK_SIZE - 8..].copy_from_slice(&code.to_le_bytes());
    images.put(0, at, &block);
    let world = SimWorld::restart(images, Seed(2), 1);
    let refused = MAKER.mount(&world).err().expect("a newer superblock");
    let wanted = format!(" has format version 2; expected format version 1. {newer}");
    assert!(refused.to_string().ends_with(&wanted), "{refused}");
}

#[test]
fn compatible_features_that_nobody_here_knows_are_kept() {
    let mut images = fixture::load("snapshots", MAKER, POOL_BYTES, make);
    change_records(&mut images, 31, 0x80);
    let world = SimWorld::restart(images, Seed(3), 1);
    MAKER.check(&world).expect("they do not matter");
    let system = MAKER.mount(&world).expect("they do not matter");
    let mut rig = Rig::of(MAKER, world, system);
    rig.write(100, 50, 9_000).expect("there is space");
    rig.snapshot("six").expect("there is space");
    let rig = rig.restart();
    let images = rig.world.after_cut(Cut::whole(Keep::Nothing));
    for block in labels(&images).0 {
        let config = Config::decode(&record_at(&images, block)).expect("whole");
        assert_eq!(config.expect("written").compatible, 1 << 63);
    }
}
