//! The layout of LUNs: their blocks come to lie in order, and what they share stays shared.

use everglade_engine::admin::{Change, Error};
use everglade_engine::{AfterReadInfo, GardeningState, LayoutInfo};
use everglade_target::Target;
use everglade_testing::engine::EngineMaker;

use super::clones::{BLOCK, BLOCKS, Rig, own};

impl Rig {
    fn layout(&mut self, volume: &str, is_estimate: bool) -> Result<(), Error> {
        self.change(Change::StartLayout {
            volume: own(volume),
            lun: own("l"),
            is_estimate,
        })
    }

    fn layout_info(&self) -> LayoutInfo {
        let known = self.system.engine().aggregates();
        known[0].garden.layout.clone()
    }

    /// A LUN that was written in order, and then over and over, not in order.
    fn overwritten() -> Rig {
        Rig::overwritten_of(EngineMaker {
            reclaim_regions: 1,
            ..EngineMaker::SMALL_LOGGED
        })
    }

    fn overwritten_of(maker: EngineMaker) -> Rig {
        let mut rig = Rig::of(maker);
        rig.write("v/l", 0, BLOCKS, 1_000);
        rig.snapshot("v", "s");
        rig.clone_of("c", "v", "s").expect("a new name");
        for turn in 1..6 {
            for first in (turn..BLOCKS).step_by(7) {
                rig.write("v/l", first, 1, turn * 10_000);
            }
            rig.rest();
        }
        rig
    }

    fn expect_overwritten(&mut self) {
        for block in 0..BLOCKS {
            let fill = match block % 7 {
                turn @ 1..6 => turn * 10_000,
                _ => 1_000,
            };
            self.expect("v/l", block, 1, fill);
        }
        self.expect("v/l@s", 0, BLOCKS, 1_000);
        self.expect("c/l", 0, BLOCKS, 1_000);
    }
}

#[test]
fn a_lun_that_was_overwritten_lies_in_order_again() {
    let mut rig = Rig::overwritten();
    let used = rig.system.usage().used_blocks;
    rig.layout("v", true).expect("it is there");
    rig.rest();
    let estimate = rig.layout_info();
    assert_eq!(estimate.state, GardeningState::Done, "{estimate:?}");
    assert_eq!(estimate.blocks, BLOCKS, "{estimate:?}");
    assert!(estimate.runs_before > BLOCKS / 2, "{estimate:?}");
    assert_eq!(estimate.moved_blocks, 0, "{estimate:?}");
    assert!(rig.system.usage().used_blocks.abs_diff(used) < 16);

    rig.layout("v", false).expect("the estimate is over");
    rig.rest();
    let done = rig.layout_info();
    assert_eq!(done.state, GardeningState::Done, "{done:?}");
    assert_eq!(done.passed_regions, done.total_regions, "{done:?}");
    assert_eq!(done.runs_before, estimate.runs_before, "{done:?}");
    assert!(done.runs_after * 16 <= BLOCKS, "{done:?}");
    assert_eq!(done.moved_blocks, BLOCKS, "{done:?}");
    // Only level-1 blocks of the LUN, of which there are three, are not shared any more.
    let now = rig.system.usage().used_blocks;
    assert!(now <= used + 16, "{now} blocks are in use, {used} were");
    rig.expect_overwritten();

    let mut rig = rig.restart();
    rig.layout("v", false).expect("it is there");
    rig.rest();
    let again = rig.layout_info();
    assert_eq!(again.runs_before, done.runs_after, "{again:?}");
    assert_eq!(again.moved_blocks, 0, "it is in order: {again:?}");
    rig.expect_overwritten();
    drop(rig.restart());
}

#[test]
fn what_a_clone_has_from_its_parent_stays_where_it_is() {
    let mut rig = Rig::overwritten();
    rig.write("c/l", 10, 3, 70_000);
    rig.rest();
    rig.layout("c", false).expect("it is there");
    rig.rest();
    let done = rig.layout_info();
    assert_eq!(done.state, GardeningState::Done, "{done:?}");
    assert_eq!(done.blocks, 3, "{done:?}");
    rig.expect("c/l", 10, 3, 70_000);
    rig.expect("c/l", 13, BLOCKS - 13, 1_000);
    drop(rig.restart());
}

#[test]
fn a_layout_ends_with_its_lun() {
    let mut rig = Rig::overwritten();
    let wanted = Change::StartLayout {
        volume: own("v"),
        lun: own("l"),
        is_estimate: false,
    };
    let delete = Change::DeleteLun {
        volume: own("v"),
        name: own("l"),
    };
    let answers = rig.change_at_once([wanted.clone(), wanted, delete]);
    assert_eq!(answers[0], Ok(()));
    assert!(
        matches!(&answers[1], Err(Error::Busy(text)) if text.contains("LUN v/l is being put")),
        "{answers:?}"
    );
    assert_eq!(answers[2], Ok(()));
    rig.rest();
    assert_eq!(rig.layout_info().state, GardeningState::Stopped);
    rig.expect("v/l@s", 0, BLOCKS, 1_000);
    let grow = Change::CreateLun {
        volume: own("v"),
        name: own("m"),
        size_bytes: BLOCK,
    };
    rig.change(grow).expect("nothing hangs");
    drop(rig.restart());
}

#[test]
fn a_layout_ends_with_its_volume() {
    let mut rig = Rig::overwritten();
    let wanted = Change::StartLayout {
        volume: own("c"),
        lun: own("l"),
        is_estimate: false,
    };
    let delete = Change::DeleteVolume { name: own("c") };
    let answers = rig.change_at_once([wanted, delete]);
    assert_eq!(answers, [Ok(()), Ok(())]);
    assert_eq!(rig.layout_info().state, GardeningState::Stopped);
    rig.layout("v", false).expect("nothing is under way");
    rig.rest();
    assert_eq!(rig.layout_info().state, GardeningState::Done);
    rig.expect("v/l@s", 0, BLOCKS, 1_000);
    drop(rig.restart());
}

/// An overwritten LUN of an engine that writes after reads if it `writes`, started anew so that
/// nothing of it is in memory.
fn scattered(writes: bool) -> Rig {
    let rig = Rig::overwritten_of(EngineMaker {
        writes_after_read: writes,
        ..EngineMaker::SMALL_LOGGED
    });
    rig.restart()
}

impl Rig {
    /// Reads all of a LUN ahead, again and again, because little memory is for that.
    fn look_over(&mut self, lun: &str) {
        for first in (0..BLOCKS).step_by(16) {
            let core = self.system.core(0);
            let (handle, _) = core.open(lun).expect("it is there");
            core.look_over(handle, first);
            core.close(handle);
            self.world.wake(0);
            self.rest();
        }
    }

    fn after_read(&self) -> AfterReadInfo {
        let known = self.system.engine().aggregates();
        known[0].garden.after_read
    }
}

#[test]
fn what_was_read_in_order_is_put_in_order() {
    let mut rig = scattered(true);
    let used = rig.system.usage().used_blocks;
    rig.look_over("v/l");
    let info = rig.after_read();
    assert_eq!(info.waiting_blocks, 0, "{info:?}");
    assert_eq!(info.regions, BLOCKS.div_ceil(255), "{info:?}");
    assert_eq!(info.moved_blocks, BLOCKS, "{info:?}");
    assert!(info.runs_before > BLOCKS / 2, "{info:?}");
    assert!(info.runs_after * 16 <= BLOCKS, "{info:?}");
    let now = rig.system.usage().used_blocks;
    assert!(now <= used + 16, "{now} blocks are in use, {used} were");
    rig.expect_overwritten();

    // It lies in order, and so it does after a restart.
    let mut rig = rig.restart();
    rig.look_over("v/l");
    assert_eq!(rig.after_read(), AfterReadInfo::default());
    rig.expect_overwritten();
    drop(rig.restart());
}

#[test]
fn what_need_not_be_put_in_order_stays_where_it_is() {
    // It is switched off.
    let mut rig = scattered(false);
    rig.look_over("v/l");
    assert_eq!(rig.after_read(), AfterReadInfo::default());

    // Images of snapshots, and blocks that a clone has from its parent.
    let mut rig = scattered(true);
    rig.look_over("v/l@s");
    rig.look_over("c/l");
    assert_eq!(rig.after_read(), AfterReadInfo::default());
    rig.expect_overwritten();
    drop(rig.restart());
}

#[test]
fn what_was_read_and_deleted_does_not_wait() {
    let mut rig = scattered(true);
    let core = rig.system.core(0);
    let (handle, _) = core.open("v/l").expect("it is there");
    core.look_over(handle, BLOCKS / 2 / 16 * 16);
    core.close(handle);
    rig.world.wake(0);
    let delete = Change::DeleteLun {
        volume: own("v"),
        name: own("l"),
    };
    rig.change(delete).expect("it is there");
    rig.rest();
    assert_eq!(rig.after_read().waiting_blocks, 0);
    rig.expect("v/l@s", 0, BLOCKS, 1_000);
    drop(rig.restart());
}

/// Puts an overwritten LUN in order. Returns by how many blocks the pool became fuller.
fn space_of_layout(moves_unshare: bool) -> u64 {
    let mut rig = Rig::overwritten_of(EngineMaker {
        moves_unshare,
        ..EngineMaker::SMALL_LOGGED
    });
    rig.snapshot("v", "t");
    rig.rest();
    let used = rig.system.usage().used_blocks;
    rig.layout("v", false).expect("it is there");
    rig.rest();
    let done = rig.layout_info();
    assert_eq!(done.moved_blocks, BLOCKS, "{done:?}");
    assert!(done.runs_after * 16 <= BLOCKS, "{done:?}");
    rig.expect_overwritten();
    let mut rig = rig.restart();
    rig.expect_overwritten();
    let more = rig.system.usage().used_blocks.saturating_sub(used);
    drop(rig.restart());
    more
}

#[test]
fn what_is_put_in_order_takes_space_only_if_it_gets_numbers_of_its_own() {
    let shared = space_of_layout(false);
    // Level-1 blocks of the LUN, and some metadata.
    assert!(shared <= 32, "{shared} blocks more");
    let unshared = space_of_layout(true);
    assert!(unshared >= BLOCKS, "{unshared} blocks more");
}

#[test]
fn pointers_to_former_places_are_corrected_though_nothing_moves() {
    let mut rig = Rig::of(EngineMaker::SMALL_LOGGED);
    // In order, beside blocks that are free later, so that cleaning moves all of it.
    rig.write("v/l", 0, BLOCKS / 2, 1_000);
    rig.rest();
    rig.write("v/l", BLOCKS / 2, BLOCKS / 2, 7);
    rig.rest();
    rig.write("v/l", BLOCKS / 2, BLOCKS / 2, 1_000);
    rig.rest();
    let least_free_percent = 1;
    rig.change(Change::StartCleaning { least_free_percent })
        .expect("a percentage");
    rig.rest();
    rig.layout("v", true).expect("it is there");
    rig.rest();
    let estimate = rig.layout_info();
    assert!(estimate.stale_pointers > BLOCKS / 8, "{estimate:?}");
    rig.layout("v", false).expect("it is there");
    rig.rest();
    let done = rig.layout_info();
    assert_eq!(done.stale_pointers, estimate.stale_pointers, "{done:?}");
    assert!(done.moved_blocks < BLOCKS / 2, "{done:?}");
    rig.layout("v", true).expect("it is there");
    rig.rest();
    assert_eq!(rig.layout_info().stale_pointers, 0, "all are corrected");
    // Nobody remembers what was moved, and nobody has to ask the container.
    let mut rig = rig.restart();
    let before = rig.system.stale_reads();
    rig.expect("v/l", 0, BLOCKS, 1_000);
    assert_eq!(rig.system.stale_reads(), before);
    drop(rig.restart());
}
