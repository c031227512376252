//! Splits: a clone gets blocks of its own, despite changes meanwhile, and then depends on no other
//! volume.

use everglade_engine::SplitState;
use everglade_engine::admin::{Change, Error};
use everglade_format::Header;
use everglade_format::indirect::BlockKind;
use everglade_format::metafile::FIRST_FILE;
use everglade_testing::engine::EngineMaker;
use everglade_testing::world::Images;

use super::clones::{BLOCK, BLOCKS, Rig, own};

/// A split takes many consistency points.
const SLOW: EngineMaker = EngineMaker {
    reclaim_regions: 1,
    ..EngineMaker::SMALL_LOGGED
};

impl Rig {
    fn start(&mut self, volume: &str) -> Result<(), Error> {
        let volume = own(volume);
        self.change(Change::StartSplit { volume })
    }

    fn stop(&mut self, volume: &str) -> Result<(), Error> {
        let volume = own(volume);
        self.change(Change::StopSplit { volume })
    }

    /// A consistency point, and not many more.
    fn nudge(&mut self) {
        let (volume, percent) = (own("v"), 100);
        self.change(Change::SetScanPace { volume, percent })
            .expect("it is there");
    }

    fn restore(&mut self, volume: &str, snapshot: &str, safety: &str) {
        let (volume, snapshot, safety) = (own(volume), own(snapshot), own(safety));
        self.change(Change::RestoreVolume {
            volume,
            snapshot,
            safety,
        })
        .expect("it is there");
    }

    /// A new volume full of something else, so that every block that was freed is used again.
    fn fill(&mut self, name: &str, fill: u64) {
        let sync = Default::default();
        self.change(Change::CreateVolume {
            name: own(name),
            sync,
        })
        .expect("a new name");
        let lun = Change::CreateLun {
            volume: own(name),
            name: own("l"),
            size_bytes: 4 * BLOCKS * BLOCK,
        };
        self.change(lun).expect("a new name");
        self.write(&format!("{name}/l"), 0, 4 * BLOCKS, fill);
        self.rest();
    }

    /// Makes a clone `c` of `v@s`, and its snapshot `t`. The clone has blocks 0 to 400 from `v@s`.
    /// It overwrites blocks 100 to 150 before `t` is taken, and blocks 0 to 50 after that.
    fn with_clone(mut self) -> Rig {
        self.write("v/l", 0, 400, 1_000);
        self.snapshot("v", "s");
        self.clone_of("c", "v", "s").expect("a new name");
        self.write("c/l", 100, 50, 2_000);
        self.snapshot("c", "t");
        self.write("c/l", 0, 50, 3_000);
        self
    }

    fn expect_clone(&mut self) {
        self.expect("c/l", 0, 50, 3_000);
        self.expect("c/l", 50, 50, 1_000);
        self.expect("c/l", 100, 50, 2_000);
        self.expect("c/l", 150, 250, 1_000);
        self.expect("c/l@t", 0, 100, 1_000);
        self.expect("c/l@t", 100, 50, 2_000);
        self.expect("c/l@s", 0, 400, 1_000);
    }
}

#[test]
fn a_clone_that_was_split_needs_nobody() {
    let mut rig = Rig::new();
    let empty = rig.used();
    rig = rig.with_clone();
    let before = rig.used();
    rig.start("c").expect("it is a clone");
    rig.rest();
    let told = rig.split("c");
    assert_eq!(told.state, SplitState::Done, "{told:?}");
    assert!(
        rig.used() >= before + 400,
        "it has blocks of its own: {before} before, {} now",
        rig.used()
    );
    let mut rig = rig.restart();
    assert_eq!(rig.split("c").state, SplitState::Done);
    rig.expect_clone();
    // The parent goes, and others write where its blocks were.
    rig.delete_snapshot("v", "s").expect("nobody needs it");
    rig.delete_volume("v").expect("nobody needs it");
    rig.rest();
    rig.fill("w", 50_000);
    rig.fill("x", 60_000);
    let mut rig = rig.restart();
    rig.expect_clone();
    assert!(rig.stale_reads() > 0, "its trees say where blocks were");
    // The former clone is written, restored and cloned like any volume.
    rig.write("c/l", 380, 100, 4_000);
    rig.expect("c/l", 350, 30, 1_000);
    rig.restore("c", "s", "before");
    rig.expect("c/l", 0, 400, 1_000);
    let (volume, snapshot, lun, safety) = (own("c"), own("before"), own("l"), own("again"));
    rig.change(Change::RestoreLun {
        volume,
        snapshot,
        lun,
        safety,
    })
    .expect("it is there");
    rig.expect("c/l", 380, 100, 4_000);
    rig.clone_of("d", "c", "t").expect("a new name");
    rig.write("d/l", 0, 1, 5_000);
    let mut rig = rig.restart();
    rig.expect("d/l", 0, 1, 5_000);
    rig.expect("d/l", 1, 99, 1_000);
    rig.expect("d/l", 100, 50, 2_000);
    rig.start("d").expect("it is a clone");
    rig.rest();
    assert_eq!(rig.split("d").state, SplitState::Done);
    // The former base is an ordinary snapshot now.
    rig.delete_snapshot("c", "s").expect("nobody needs it");
    rig.rest();
    rig.delete_volume("c").expect("nobody needs it");
    rig.rest();
    rig.fill("y", 70_000);
    let mut rig = rig.restart();
    rig.expect("d/l", 0, 1, 5_000);
    rig.expect("d/l", 1, 99, 1_000);
    rig.expect("d/l", 100, 50, 2_000);
    for volume in ["d", "w", "x", "y"] {
        rig.delete_volume(volume).expect("nobody needs it");
    }
    rig.rest();
    let mut rig = rig.restart();
    rig.rest();
    assert!(
        rig.used() <= empty + 32,
        "all space came back: {} of {empty} at first",
        rig.used()
    );
}

#[test]
fn a_split_goes_on_where_it_was() {
    let mut rig = Rig::of(SLOW).with_clone();
    rig.start("c").expect("it is a clone");
    let (mut lives, mut before) = (0, 0);
    while rig.split("c").state != SplitState::Done {
        rig.nudge();
        let told = rig.split("c");
        if told.state != SplitState::Done {
            assert!(told.done_blocks >= before, "{told:?} after {before}");
            before = told.done_blocks;
        }
        rig = rig.restart();
        lives += 1;
        assert!(lives < 100, "{:?}", rig.split("c"));
        if lives % 5 == 0 && rig.stop("c").is_ok() {
            let stopped = rig.split("c");
            assert_eq!(stopped.state, SplitState::Stopped);
            rig.rest();
            assert_eq!(rig.split("c"), stopped, "it rests");
            rig.expect_clone();
            rig = rig.restart();
            rig.start("c").expect("it goes on");
        }
    }
    assert!(lives > 3, "it was under way when the power failed");
    rig.delete_volume("v").expect("nobody needs it");
    rig.rest();
    rig.fill("w", 50_000);
    let mut rig = rig.restart();
    rig.expect_clone();
}

#[test]
fn a_split_and_a_deletion_get_on_side_by_side() {
    let mut rig = Rig::of(SLOW).with_clone();
    rig.fill("w", 7_000);
    let (volume, name) = (own("w"), own("l"));
    rig.change(Change::DeleteLun { volume, name })
        .expect("it is there");
    rig.start("c").expect("it is a clone");
    let mut left = rig.pending("w");
    while rig.split("c").done_blocks == 0 {
        assert!(left > 0, "the split waits until nothing is deleted");
        rig.nudge();
        left = rig.pending("w");
    }
    let copied = rig.split("c").done_blocks;
    while rig.pending("w") == left {
        assert_eq!(rig.split("c").state, SplitState::Copying, "{copied} before");
        rig.nudge();
    }
    rig.rest();
    rig.rest();
    assert_eq!(rig.split("c").state, SplitState::Done);
    assert_eq!(rig.pending("w"), 0);
    rig.expect_clone();
}

#[test]
fn whatever_is_done_to_a_clone_while_it_is_split_is_right() {
    let mut rig = Rig::of(SLOW).with_clone();
    rig.start("c").expect("it is a clone");
    rig.nudge();
    rig.write("c/l", 200, 50, 6_000);
    rig.snapshot("c", "u");
    rig.clone_of("d", "c", "t").expect("a new name");
    rig.clone_of("e", "c", "s").expect("a new name");
    rig.restore("c", "s", "before");
    rig.nudge();
    rig = rig.restart();
    rig.expect("c/l", 0, 400, 1_000);
    rig.restore("c", "u", "after");
    rig.delete_snapshot("c", "after").expect("nobody needs it");
    rig.delete_snapshot("c", "t").expect_err("d needs it");
    rig.rest();
    rig.rest();
    assert_eq!(rig.split("c").state, SplitState::Done);
    // A clone of a clone is split from the rest.
    rig.start("e").expect("it is a clone");
    rig.start("d").expect("it is a clone");
    rig.rest();
    rig.rest();
    rig.delete_volume("v").expect("nobody needs it");
    rig.expect("c/l", 200, 50, 6_000);
    rig.expect("c/l@before", 200, 50, 6_000);
    rig.delete_volume("c").expect("nobody needs it");
    rig.rest();
    rig.fill("w", 50_000);
    let mut rig = rig.restart();
    rig.expect("e/l", 0, 400, 1_000);
    rig.expect("d/l", 0, 100, 1_000);
    rig.expect("d/l", 100, 50, 2_000);
}

#[test]
fn a_clone_can_go_while_it_is_split() {
    let mut rig = Rig::of(SLOW);
    rig.write("v/l", 0, 400, 1_000);
    rig.snapshot("v", "s");
    rig.rest();
    let before = rig.used();
    rig.clone_of("c", "v", "s").expect("a new name");
    rig.start("c").expect("it is a clone");
    rig.nudge();
    assert_eq!(rig.split("c").state, SplitState::Copying);
    rig.delete_volume("c").expect("nobody needs it");
    rig.rest();
    rig.rest();
    let mut rig = rig.restart();
    rig.expect("v/l@s", 0, 400, 1_000);
    assert!(
        rig.used() <= before + 32,
        "what was copied went with it: {before} before, {} now",
        rig.used()
    );
}

#[test]
fn a_split_waits_while_space_is_short() {
    let mut rig = Rig::new().with_clone();
    let sync = Default::default();
    rig.change(Change::CreateVolume {
        name: own("big"),
        sync,
    })
    .expect("a new name");
    let lun = Change::CreateLun {
        volume: own("big"),
        name: own("l"),
        size_bytes: rig.total() * BLOCK,
    };
    rig.change(lun).expect("thin");
    let room = rig.room();
    rig.write("big/l", 0, room, 9_000);
    rig.start("c").expect("it is a clone");
    rig.rest();
    let told = rig.split("c");
    assert_eq!(told.state, SplitState::WaitingForSpace, "{told:?}");
    assert!(told.done_blocks < told.total_blocks);
    rig.delete_volume("big").expect("nobody needs it");
    rig.rest();
    rig.rest();
    assert_eq!(rig.split("c").state, SplitState::Done);
    let mut rig = rig.restart();
    rig.expect_clone();
}

/// Blocks of the first device that may be a map of a few hundred vvbns, or a level-1 block of a
/// container.
fn maps_and_containers(images: &Images) -> (Vec<u64>, Vec<u64>) {
    let (mut maps, mut containers) = (Vec::new(), Vec::new());
    for (block, page) in images.image(0).blocks() {
        let used: u32 = page.iter().map(|byte| byte.count_ones()).sum();
        if (300..1_500).contains(&used) && page[1_024..].iter().all(|byte| *byte == 0) {
            maps.push(block);
        }
        if let Ok(header) = Header::decode(page)
            && header.kind == BlockKind::AggregateIndirect
            && header.level == 1
            && header.file >= FIRST_FILE
        {
            containers.push(block);
        }
    }
    (maps, containers)
}

/// A damaged block of the base's map, or of the parent's container, halted the aggregate, and again
/// after each start, because the split continued.
#[test]
fn a_split_that_finds_a_damaged_block_stops_and_the_aggregate_goes_on() {
    let rig = Rig::new().with_clone();
    let rig = rig.restart();
    let images = rig.images();
    let (maps, containers) = maps_and_containers(&images);
    for (what, blocks) in [("map", maps), ("container", containers)] {
        let (mut stopped, mut done, count) = (0, 0, blocks.len());
        for block in blocks {
            let mut bad = images.clone();
            bad.flip_bit(0, block, 32_700);
            let Some(mut control) = rig.fork(bad.clone()) else {
                continue;
            };
            let (volume, percent) = (own("c"), 100);
            let changed = control.change(Change::SetScanPace { volume, percent });
            control.rest();
            if changed.is_err() || !control.is_online() {
                // The split cannot continue without this block.
                continue;
            }
            let mut rig = rig.fork(bad).expect("it could be started just before");
            rig.start("c").expect("it is a clone");
            rig.rest();
            assert!(rig.is_online(), "{what} in block {block}");
            if rig.split("c").state == SplitState::Done {
                done += 1;
                continue;
            }
            stopped += 1;
            assert_eq!(rig.split("c").state, SplitState::Stopped);
            // Others work, after a start too, and trying again does no harm.
            rig.fill("w", 9_000);
            let mut rig = rig.fork(rig.images()).expect("it can be started");
            assert_eq!(rig.split("c").state, SplitState::Stopped);
            rig.start("c").expect("it is a clone");
            rig.rest();
            assert!(rig.is_online(), "{what} in block {block}");
            assert_eq!(rig.split("c").state, SplitState::Stopped);
            rig.expect("w/l", 0, 10, 9_000);
        }
        println!("{what}: {count} blocks, {stopped} were needed, {done} were not");
        assert!(stopped > 0, "no {what} that is needed was tried");
    }
}

#[test]
fn refusals_say_what_is_wrong_and_change_nothing() {
    let mut rig = Rig::of(SLOW).with_clone();
    let busy = |result: Result<(), Error>, words: &str| match result {
        Err(Error::Busy(text)) => assert!(text.contains(words), "{text}"),
        other => panic!("{other:?}"),
    };
    for (result, words) in [(rig.start("v"), "no clone"), (rig.start("nix"), "")] {
        let error = result.expect_err("it is no clone").to_string();
        assert!(error.contains(words), "{error}");
    }
    busy(rig.stop("c"), "not being split");
    busy(rig.stop("v"), "not being split");
    rig.start("c").expect("it is a clone");
    busy(rig.start("c"), "being split already");
    busy(rig.delete_snapshot("c", "s"), "split the clone first");
    busy(rig.delete_snapshot("v", "s"), "base of c; split or delete");
    busy(rig.delete_volume("v"), "c is cloned");
    rig.rest();
    rig.rest();
    assert_eq!(rig.split("c").state, SplitState::Done);
    let error = rig.start("c").expect_err("it is no clone").to_string();
    assert!(error.contains("no clone"), "{error}");
    busy(rig.stop("c"), "not being split");
}
