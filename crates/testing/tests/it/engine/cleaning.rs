//! Segment cleaning: blocks move out of areas, and nobody notices.

use everglade_engine::admin::{Change, Error};
use everglade_engine::{CleaningInfo, GardenInfo, GardeningState, ParityPlan, StripesInfo};
use everglade_testing::engine::EngineMaker;
use everglade_testing::sim::{Background, Beside, Kind, Report};
use everglade_testing::{Rng, Seed};

use super::clones::{BLOCK, BLOCKS, Rig};

/// A consistency point moves a few blocks.
const SLOW: EngineMaker = EngineMaker {
    reclaim_regions: 1,
    ..EngineMaker::SMALL_LOGGED
};

impl Rig {
    fn clean(&mut self, least_free_percent: u8) -> Result<(), Error> {
        self.change(Change::StartCleaning { least_free_percent })
    }

    fn cleaning(&self) -> CleaningInfo {
        let known = self.system.engine().aggregates();
        known[0].garden.cleaning
    }

    /// A volume with a snapshot and a clone of it, whose blocks lie beside free ones.
    fn scattered(mut self) -> Rig {
        self.write("v/l", 0, BLOCKS, 1_000);
        self.snapshot("v", "s");
        self.clone_of("c", "v", "s").expect("a new name");
        for turn in 1..6 {
            for first in (turn..BLOCKS).step_by(7) {
                self.write("v/l", first, 1, turn * 10_000);
            }
            self.rest();
        }
        for first in (3..BLOCKS).step_by(5) {
            self.write("c/l", first, 1, 100_000);
        }
        self.rest();
        self
    }

    /// Everything that [`Rig::scattered`] has written.
    fn expect_scattered(&mut self) {
        for block in 0..BLOCKS {
            let fill = match block % 7 {
                turn @ 1..6 => turn * 10_000,
                _ => 1_000,
            };
            self.expect("v/l", block, 1, fill);
            let fill = match block % 5 {
                3 => 100_000,
                _ => 1_000,
            };
            self.expect("c/l", block, 1, fill);
        }
        self.expect("v/l@s", 0, BLOCKS, 1_000);
    }
}

#[test]
fn what_moves_stays_shared_and_is_read_at_once_and_after_a_cut() {
    let mut rig = Rig::of(EngineMaker::SMALL_LOGGED).scattered();
    let before = rig.system.usage();
    rig.clean(1).expect("a percentage");
    rig.rest();
    let cleaning = rig.cleaning();
    assert_eq!(cleaning.state, GardeningState::Done, "{cleaning:?}");
    assert!(cleaning.moved_blocks > BLOCKS, "{cleaning:?}");
    assert!(cleaning.cleaned_areas > 2, "{cleaning:?}");
    assert_eq!(cleaning.left_blocks, 0, "{cleaning:?}");
    assert_eq!(cleaning.passed_areas, cleaning.total_areas, "{cleaning:?}");
    let used = rig.system.usage().used_blocks;
    assert!(
        used.abs_diff(before.used_blocks) < 16,
        "{used} blocks are in use, {} were",
        before.used_blocks
    );
    rig.expect_scattered();
    let mut rig = rig.restart();
    rig.expect_scattered();
    assert_eq!(rig.cleaning().state, GardeningState::Never);
    drop(rig.restart());
}

#[test]
fn what_was_moved_long_ago_is_found_through_its_container() {
    let mut rig = Rig::of(EngineMaker::SMALL_LOGGED).scattered();
    rig.clean(1).expect("a percentage");
    rig.rest();
    // Nothing is in memory, and nobody knows what was moved; other blocks are where it was.
    let mut rig = rig.restart();
    rig.write("v/l", 0, BLOCKS, 500_000);
    rig.rest();
    rig.expect("v/l@s", 0, BLOCKS, 1_000);
    assert!(rig.system.stale_reads() > 0, "all were where pointers say");
    drop(rig.restart());
}

#[test]
fn cleaning_ends_when_it_is_told_to() {
    let mut rig = Rig::of(SLOW).scattered();
    rig.clean(1).expect("a percentage");
    rig.change(Change::StopGardening).expect("it is there");
    let cleaning = rig.cleaning();
    assert_eq!(cleaning.state, GardeningState::Stopped, "{cleaning:?}");
    assert!(cleaning.ended_seconds.is_some(), "{cleaning:?}");
    rig.rest();
    assert_eq!(rig.cleaning().moved_blocks, cleaning.moved_blocks);
    rig.expect_scattered();
    drop(rig.restart());
}

#[test]
fn an_area_is_emptied_only_if_enough_of_it_is_free() {
    let mut rig = Rig::of(EngineMaker::SMALL_LOGGED).scattered();
    rig.clean(100).expect("a percentage");
    rig.rest();
    let cleaning = rig.cleaning();
    assert_eq!(cleaning.state, GardeningState::Done);
    assert_eq!(cleaning.moved_blocks, 0, "{cleaning:?}");
    for percent in [0, 101] {
        let refused = rig.clean(percent).expect_err("not a percentage");
        assert!(
            matches!(refused, Error::Invalid { field, .. } if field == "least_free_percent"),
            "{refused}"
        );
    }
}

/// Runs a seed that has found a mistake, of the engine or of the simulation.
fn found(kind: Kind, seed: u64, groups: bool) {
    let beside = Beside {
        groups,
        cleaning: true,
    };
    if let Err(failure) = kind.run_beside(Seed(seed), beside, 0) {
        panic!("{failure}");
    }
}

#[test]
fn a_leaf_that_was_about_to_move_is_freed_once_when_its_file_is_deleted() {
    found(Kind::Snapshots, 0x2af4_41cf_86b1_235a, false);
    found(Kind::Moments, 0xe7fb_9935_c542_6ed2, false);
}

#[test]
fn an_area_that_no_map_block_describes_yet_goes_back() {
    found(Kind::Long, 0x108e_2925_17a6_bff5, true);
    found(Kind::Snapshots, 0xc976_4d0c_422f_e4ce, true);
}

/// A parity group that is nearly full, after overwrites all over it. Returns what was written to it
/// meanwhile, and its garden.
fn crowded(cleans_on_demand: bool, is_paused: bool) -> (StripesInfo, GardenInfo) {
    let maker = EngineMaker {
        parity: Some(ParityPlan {
            drives: 5,
            parity: 1,
        }),
        cleans_on_demand,
        ..EngineMaker::SMALL_LOGGED
    };
    let mut rig = Rig::of(maker);
    let (volume, name) = ("v".to_owned(), "big".to_owned());
    let usage = rig.system.usage();
    let blocks = (usage.total_blocks - usage.reserve_blocks) * 6 / 10;
    rig.change(Change::CreateLun {
        volume,
        name,
        size_bytes: blocks * BLOCK,
    })
    .expect("a new name");
    rig.write("v/big", 0, blocks, 1);
    rig.rest();
    rig.system.engine().pause_garden(0, is_paused);
    let mut rng = Rng::for_part(1, "crowded");
    let before = rig.system.stripes();
    for round in 0..60 {
        for _ in 0..100 {
            let first = rng.below(blocks - 4);
            rig.write("v/big", first, 4, round);
        }
        rig.rest();
    }
    let after = rig.system.stripes();
    let garden = rig.system.engine().aggregates()[0].garden.clone();
    drop(rig.restart());
    let stripes = StripesInfo {
        full: after.full - before.full,
        partial: after.partial - before.partial,
        read_blocks: after.read_blocks - before.read_blocks,
        filled_blocks: after.filled_blocks - before.filled_blocks,
    };
    (stripes, garden)
}

#[test]
fn areas_of_parity_groups_are_emptied_as_whole_ones_are_needed() {
    let (without, garden) = crowded(false, false);
    assert_eq!(garden.moved_blocks, 0, "nobody asked: {garden:?}");
    let (with, garden) = crowded(true, false);
    assert!(garden.cleaned_areas > 0, "{garden:?}, {with:?}");
    assert_eq!(garden.cleaning.state, GardeningState::Never, "{garden:?}");
    assert!(
        with.partial * without.full < without.partial * with.full,
        "more stripes are whole: {with:?}, not {without:?}"
    );
}

#[test]
fn areas_that_clients_need_are_emptied_although_gardening_is_paused() {
    let (_, garden) = crowded(true, true);
    assert!(garden.is_paused && garden.cleaned_areas > 0, "{garden:?}");
}

#[test]
fn what_is_paused_moves_nothing_and_rests_until_it_goes_on() {
    let mut rig = Rig::of(EngineMaker::SMALL_LOGGED).scattered();
    assert!(rig.system.engine().pause_garden(0, true), "it is a change");
    assert!(!rig.system.engine().pause_garden(0, true), "it was one");
    rig.clean(1).expect("a percentage");
    let (volume, lun) = ("v".to_owned(), "l".to_owned());
    rig.change(Change::StartLayout {
        volume,
        lun,
        is_estimate: false,
    })
    .expect("it is there");
    (0..3).for_each(|_| rig.rest());
    let info = |rig: &Rig| rig.system.engine().aggregates().swap_remove(0);
    let before = info(&rig);
    (0..5).for_each(|_| rig.rest());
    let after = info(&rig);
    assert_eq!(after.committed_cp, before.committed_cp, "it rests");
    assert_eq!(after.garden.moved_blocks, 0, "{:?}", after.garden);
    let states = |info: &everglade_engine::AggregateInfo| {
        [info.garden.cleaning.state, info.garden.layout.state]
    };
    assert_eq!(states(&after), [GardeningState::Running; 2]);
    rig.system.engine().pause_garden(0, false);
    // Nobody else wakes the reactor here.
    rig.write("v/l", 0, 1, 1_000);
    (0..5).for_each(|_| rig.rest());
    let done = info(&rig);
    assert_eq!(states(&done), [GardeningState::Done; 2]);
    assert!(done.garden.moved_blocks > 0, "{:?}", done.garden);
    rig.expect_scattered();
    drop(rig.restart());
}

/// The power fails while areas are emptied, and while a LUN is put in order.
#[test]
fn cuts_meet_gardening() {
    let gardening = [
        Background::Cleaning,
        Background::Layout,
        Background::AfterRead,
    ];
    cuts_meet(&gardening, 1, (0..40).map(|number| (43, number, false)));
}

/// The power fails during each of these at least so many times, in lives of snapshots and clones.
/// Seeds: the first one, a number, and whether there are groups.
#[track_caller]
pub(super) fn cuts_meet(
    wanted: &[Background],
    least: u64,
    seeds: impl Iterator<Item = (u64, u64, bool)>,
) {
    let mut all = Report::default();
    for (first, number, groups) in seeds {
        let seed = Seed(first).nth(number);
        let beside = Beside {
            groups,
            cleaning: true,
        };
        match Kind::Snapshots.run_beside(seed, beside, 0) {
            Ok(report) => all.add(&report),
            Err(failure) => panic!("seed {seed}: {failure}"),
        }
        if wanted.iter().all(|one| all.interrupted[*one] >= least) {
            return;
        }
    }
    panic!("cuts have not met all: {all:?}");
}

/// A block that was damaged could still be read where it was before it moved, and then no more.
#[test]
fn a_damaged_block_with_a_copy_where_it_was_is_no_wrong_answer() {
    if let Err(failure) = Kind::Cleaned.run(Seed(2030), 0) {
        panic!("{failure}");
    }
}

/// A client closed a LUN while its limit held a read of it.
#[test]
fn what_is_held_is_answered_though_the_lun_was_closed() {
    if let Err(failure) = Kind::Cleaned.run(Seed(0xa5af_83dd_fb38_d599), 0) {
        panic!("{failure}");
    }
}

/// A reader followed a pointer that was out of date, and found other content. That was counted as
/// a wrong block of the drive.
#[test]
fn a_pointer_that_is_out_of_date_blames_no_drive() {
    let beside = Beside {
        groups: false,
        cleaning: true,
    };
    if let Err(failure) = Kind::Parity.run_beside(Seed(0x8223_8f8f_5917_46e7), beside, 0) {
        panic!("{failure}");
    }
}

#[test]
fn a_damaged_block_that_is_derived_where_it_was_stays_damaged() {
    found(Kind::Cleaned, 0xcedc_d972_2475_e1fb, false);
}

#[test]
fn blocks_that_are_written_anew_in_order_may_be_said_to_differ() {
    found(Kind::Cleaned, 0xcd5c_dee4_dced_c343, false);
}

#[test]
fn a_growth_may_have_to_wait_for_a_drive_that_catches_up() {
    found(Kind::Cleaned, 0xf1a5_7332_977c_457b, false);
}
