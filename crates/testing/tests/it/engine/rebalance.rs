//! Rebalance: blocks move from fuller devices to emptier ones, and nobody notices.

use everglade_engine::admin::{Change, Error};
use everglade_engine::{GardeningState, ParityPlan, RebalanceInfo};
use everglade_testing::engine::EngineMaker;
use everglade_testing::sim::Background;

use super::cleaning::cuts_meet;
use super::clones::{BLOCK, BLOCKS, Rig};

/// Three devices, and a background that moves little at once.
const THREE: EngineMaker = EngineMaker {
    devices: 3,
    reclaim_regions: 1,
    ..EngineMaker::SMALL_LOGGED
};

impl Rig {
    fn rebalance(&mut self) -> Result<(), Error> {
        self.change(Change::StartRebalance)
    }

    /// Begins one, and waits for its end.
    fn rebalance_wholly(&mut self) -> RebalanceInfo {
        self.rebalance().expect("there are several");
        for _ in 0..100 {
            self.rest();
            if self.balance().state != GardeningState::Running {
                break;
            }
        }
        self.balance()
    }

    fn balance(&self) -> RebalanceInfo {
        let known = self.system.engine().aggregates();
        known[0].garden.rebalance
    }

    /// A pool of which one device has nearly nothing: it was to leave while the others were
    /// written, and then it stayed.
    fn lopsided(mut self, member: u32) -> Rig {
        self.write("v/l", 0, BLOCKS, 1_000);
        self.snapshot("v", "s");
        self.clone_of("c", "v", "s").expect("a new name");
        let (volume, name) = ("v".to_owned(), "big".to_owned());
        let big = self.big();
        self.change(Change::CreateLun {
            volume,
            name,
            size_bytes: big * BLOCK,
        })
        .expect("a new name");
        self.write("v/big", 0, big, 7);
        self.rest();
        self.change(Change::StartRemoval { member })
            .expect("the others have room");
        for first in (0..big - 8).step_by(8) {
            self.write("v/big", first, 8, 7 + first);
            self.write("v/big", first, 8, 7);
            let removal = self.system.engine().aggregates()[0].removal.clone();
            let removal = removal.expect("it has not left");
            if removal.is_surveyed && removal.left_blocks * 3 < removal.total_blocks {
                break;
            }
        }
        self.change(Change::StopRemoval).expect("it has not left");
        self.rest();
        self
    }

    /// Blocks of a LUN: a quarter of the pool.
    fn big(&self) -> u64 {
        self.system.engine().aggregates()[0].usage.total_blocks / 4
    }

    fn expect_lopsided(&mut self) {
        self.expect("v/l", 0, BLOCKS, 1_000);
        self.expect("v/l@s", 0, BLOCKS, 1_000);
        self.expect("c/l", 0, BLOCKS, 1_000);
        self.expect("v/big", 0, self.big(), 7);
    }
}

/// Balances a pool, and looks at it again.
fn balanced(maker: EngineMaker, member: u32) {
    let mut rig = Rig::of(maker).lopsided(member);
    let used = rig.system.usage().used_blocks;
    let first = rig.rebalance_wholly();
    assert_eq!(first.state, GardeningState::Done, "{first:?}");
    assert_eq!(first.surveyed_areas, first.total_areas, "{first:?}");
    assert!(first.moved_blocks >= first.total_blocks, "{first:?}");
    assert!(
        first.fullest_percent > first.emptiest_percent + 15,
        "it was lopsided: {first:?}"
    );
    let after = rig.system.usage().used_blocks;
    assert!(
        after.abs_diff(used) < 32,
        "{after} blocks are in use, {used} were"
    );
    rig.expect_lopsided();
    let second = rig.rebalance_wholly();
    assert!(
        second.fullest_percent <= second.emptiest_percent + 5,
        "{second:?} after {first:?}"
    );
    assert!(
        second.moved_blocks * 8 < first.moved_blocks,
        "hardly anything is left to do: {second:?} after {first:?}"
    );
    let mut rig = rig.restart();
    rig.expect_lopsided();
    assert_eq!(rig.balance().state, GardeningState::Never);
    drop(rig.restart());
}

#[test]
fn devices_become_about_equally_full_and_blocks_stay_shared() {
    balanced(THREE, 1);
}

#[test]
fn groups_are_balanced_as_a_whole() {
    let parity = ParityPlan {
        drives: 4,
        parity: 1,
    };
    balanced(
        EngineMaker {
            devices: 2,
            parity: Some(parity),
            ..THREE
        },
        4,
    );
    balanced(
        EngineMaker {
            devices: 2,
            copies: 2,
            ..THREE
        },
        2,
    );
}

/// The area with block 0 never counts as free as a whole. Each consistency point emptied it on
/// demand once more, although there was nothing in it.
#[test]
fn an_area_with_nothing_in_it_is_emptied_once() {
    let maker = EngineMaker {
        devices: 2,
        parity: Some(ParityPlan {
            drives: 4,
            parity: 1,
        }),
        cleans_on_demand: true,
        ..THREE
    };
    let mut rig = Rig::of(maker).lopsided(4);
    (0..5).for_each(|_| rig.rest());
    let committed = |rig: &Rig| rig.system.engine().aggregates()[0].committed_cp;
    let before = committed(&rig);
    (0..5).for_each(|_| rig.rest());
    let after = committed(&rig);
    assert!(after < before + 5, "{before}, and then {after}");
    drop(rig.restart());
}

#[test]
fn what_clients_write_meanwhile_goes_to_the_emptier_ones() {
    let mut rig = Rig::of(THREE).lopsided(1);
    rig.rebalance().expect("there are several");
    for turn in 0..8 {
        rig.write("v/l", 0, BLOCKS, 2_000 + turn * 100_000);
        let again = rig.rebalance().map_err(|error| error.to_string());
        if let Err(text) = again {
            assert!(text.contains("under way"), "{text}");
        }
    }
    rig.rest();
    assert_eq!(rig.balance().state, GardeningState::Done);
    rig.expect("v/l", 0, BLOCKS, 702_000);
    rig.expect("v/l@s", 0, BLOCKS, 1_000);
    drop(rig.restart());
}

#[test]
fn it_ends_when_it_is_told_to_and_when_a_device_is_to_leave() {
    let mut rig = Rig::of(THREE).lopsided(1);
    rig.rebalance().expect("there are several");
    rig.change(Change::StopGardening).expect("it is there");
    let stopped = rig.balance();
    assert_eq!(stopped.state, GardeningState::Stopped, "{stopped:?}");
    rig.rest();
    assert_eq!(rig.balance().moved_blocks, stopped.moved_blocks);
    rig.rebalance().expect("it was stopped");
    rig.change(Change::StartRemoval { member: 1 })
        .expect("the others have room");
    assert_eq!(rig.balance().state, GardeningState::Stopped);
    let error = rig.rebalance().expect_err("a device leaves");
    assert!(error.to_string().contains("is being removed"), "{error}");
    rig.rest();
    rig.rest();
    rig.expect_lopsided();
    drop(rig.restart());
}

#[test]
fn one_device_cannot_be_balanced() {
    let mut rig = Rig::new();
    let error = rig.rebalance().expect_err("it is alone");
    assert!(error.to_string().contains("nothing to balance"), "{error}");
    drop(rig.restart());
}

/// The power fails while blocks move from device to device.
#[test]
fn cuts_meet_rebalances() {
    let seeds = (0..80).map(|number| (66, number, number % 2 == 1));
    cuts_meet(&[Background::Rebalance], 2, seeds);
}
