//! Removal of members: their blocks move to the others, and then they are no part of the aggregate.

use everglade_engine::admin::{Change, Error};
use everglade_engine::{AggregateInfo, ParityPlan};
use everglade_format::Removal;
use everglade_testing::Seed;
use everglade_testing::engine::EngineMaker;
use everglade_testing::sim::{Background, Beside, Kind};

use super::cleaning::cuts_meet;
use super::clones::{BLOCKS, Rig};

const THREE: EngineMaker = EngineMaker {
    devices: 3,
    ..EngineMaker::SMALL_LOGGED
};
/// Two parity groups.
const GROUPS: EngineMaker = EngineMaker {
    devices: 2,
    parity: Some(ParityPlan {
        drives: 4,
        parity: 1,
    }),
    ..EngineMaker::SMALL_LOGGED
};
/// Two mirrors.
const MIRRORS: EngineMaker = EngineMaker {
    devices: 2,
    copies: 2,
    ..EngineMaker::SMALL_LOGGED
};

impl Rig {
    fn info(&self) -> AggregateInfo {
        self.system.engine().aggregates().swap_remove(0)
    }

    fn start_removal(&mut self, member: u32) -> Result<(), Error> {
        self.change(Change::StartRemoval { member })
    }

    /// The removal of each member.
    fn removals(&self) -> Vec<Removal> {
        let members = self.info().members;
        members.iter().map(|member| member.seat.removal).collect()
    }

    /// A volume with a snapshot, a clone of it, and other writes since.
    fn shared(mut self) -> Rig {
        self.write("v/l", 0, BLOCKS, 1_000);
        self.snapshot("v", "s");
        self.clone_of("c", "v", "s").expect("a new name");
        for first in (0..BLOCKS - 2).step_by(3) {
            self.write("v/l", first, 1, 20_000);
            self.write("c/l", first + 1, 1, 30_000);
        }
        self.rest();
        self
    }

    /// Everything that [`Rig::shared`] has written.
    fn expect_shared(&mut self) {
        for block in (0..BLOCKS - 2).step_by(3) {
            self.expect("v/l", block, 1, 20_000);
            self.expect("v/l", block + 1, 2, 1_000);
            self.expect("c/l", block, 1, 1_000);
            self.expect("c/l", block + 1, 1, 30_000);
        }
        self.expect("v/l@s", 0, BLOCKS, 1_000);
    }
}

/// Removes a member, with its group; then the power is cut twice.
fn removed(maker: EngineMaker, member: u32, leaving: &[usize]) {
    let mut rig = Rig::of(maker).shared();
    let before = rig.info();
    rig.start_removal(member).expect("the others have room");
    let total = rig.info().usage.total_blocks;
    assert!(
        total < before.usage.total_blocks,
        "its space counts no more"
    );
    rig.rest();
    let info = rig.info();
    assert_eq!(info.removal, None, "it is done");
    for (index, removal) in rig.removals().into_iter().enumerate() {
        let expected = match leaving.contains(&index) {
            true => Removal::Removed,
            false => Removal::None,
        };
        assert_eq!(removal, expected, "member {index}");
    }
    assert_eq!(info.former.len(), leaving.len());
    assert_eq!(info.devices.len(), before.devices.len() - leaving.len());
    let (used, was) = (info.usage.used_blocks, before.usage.used_blocks);
    assert!(used.abs_diff(was) < 24, "{used} blocks in use, {was} were");
    rig.expect_shared();
    // Nobody erased the labels of what was removed.
    let mut rig = rig.restart();
    assert_eq!(rig.info().former.len(), leaving.len());
    assert_eq!(rig.info().usage.total_blocks, total);
    rig.expect_shared();
    rig.write("v/l", 0, BLOCKS, 77_000);
    rig.rest();
    let mut rig = rig.restart();
    rig.expect("v/l", 0, BLOCKS, 77_000);
    rig.expect("v/l@s", 0, BLOCKS, 1_000);
    drop(rig.restart());
}

#[test]
fn a_device_leaves_and_snapshots_and_clones_stay_shared() {
    removed(THREE, 1, &[1]);
    removed(THREE, 2, &[2]);
}

#[test]
fn a_group_leaves_as_a_whole() {
    removed(MIRRORS, 3, &[2, 3]);
    removed(GROUPS, 5, &[4, 5, 6, 7]);
}

#[test]
fn a_removal_goes_on_after_a_restart() {
    let maker = EngineMaker {
        reclaim_regions: 1,
        ..THREE
    };
    let mut rig = Rig::of(maker).shared();
    rig.start_removal(1).expect("the others have room");
    let mut rig = rig.restart();
    let removals = rig.removals();
    assert_eq!(removals[1], Removal::Evacuating, "{removals:?}");
    rig.rest();
    rig.rest();
    assert_eq!(rig.removals()[1], Removal::Removed);
    rig.expect_shared();
    drop(rig.restart());
}

#[test]
fn a_device_that_is_told_to_stay_stays_and_is_filled_again() {
    let mut rig = Rig::of(THREE).shared();
    let before = rig.info().usage;
    let nothing = rig.change(Change::StopRemoval).expect_err("nothing leaves");
    assert!(matches!(nothing, Error::NotFound(_)), "{nothing}");
    rig.start_removal(1).expect("the others have room");
    let again = rig.start_removal(1).expect_err("it leaves already");
    assert!(matches!(again, Error::Busy(_)), "{again}");
    rig.change(Change::StopRemoval).expect("it leaves");
    let after = rig.info().usage;
    assert_eq!(after.total_blocks, before.total_blocks);
    assert_eq!(after.reserve_blocks, before.reserve_blocks);
    assert!(rig.removals().iter().all(|it| *it == Removal::None));
    rig.rest();
    rig.write("v/l", 0, BLOCKS, 50_000);
    rig.rest();
    rig.expect("v/l", 0, BLOCKS, 50_000);
    let mut rig = rig.restart();
    assert_eq!(rig.info().usage.total_blocks, before.total_blocks);
    rig.expect("v/l@s", 0, BLOCKS, 1_000);
    drop(rig.restart());
}

#[test]
fn what_cannot_leave_is_refused_and_nothing_is_changed() {
    let mut rig = Rig::of(THREE).shared();
    let total = rig.info().usage.total_blocks;
    let refused = |rig: &mut Rig, member: u32, wanted: &str| {
        let error = rig.start_removal(member).expect_err("it cannot leave");
        assert!(error.to_string().contains(wanted), "{error}");
        assert_eq!(rig.info().usage.total_blocks, total);
    };
    refused(&mut rig, 0, "journal");
    refused(&mut rig, 9, "device of this aggregate");
    let (volume, name) = ("v".to_owned(), "big".to_owned());
    let usage = rig.info().usage;
    let blocks = (total - usage.reserve_blocks - usage.used_blocks) * 9 / 10;
    rig.change(Change::CreateLun {
        volume,
        name,
        size_bytes: blocks * super::clones::BLOCK,
    })
    .expect("a new name");
    rig.write("v/big", 0, blocks, 1);
    rig.rest();
    refused(&mut rig, 1, "there is room for");
    rig.expect("v/big", 0, blocks, 1);
    drop(rig.restart());
    let mut alone = Rig::of(EngineMaker::SMALL);
    let error = alone.start_removal(0).expect_err("it is the only one");
    assert!(error.to_string().contains("the last one"), "{error}");
}

/// The power fails while members are evacuated.
#[test]
fn cuts_meet_removals() {
    let seeds = (0..60).map(|number| (57, number, number % 2 == 1));
    cuts_meet(&[Background::Removal], 3, seeds);
}

/// A split copied a block that had moved in the same consistency point, and found what had been in
/// its new place.
#[test]
fn a_split_does_not_copy_a_block_that_was_just_moved() {
    let beside = Beside {
        groups: false,
        cleaning: true,
    };
    if let Err(failure) = Kind::Moments.run_beside(Seed(0x84ae_5e03_9144_7962), beside, 0) {
        panic!("{failure}");
    }
}
