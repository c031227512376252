//! Space maps: what is in use, and how whole the free space is.

use everglade_engine::admin::Change;
use everglade_engine::{GardeningState, ParityPlan, SpaceMap, SpaceMapInfo};
use everglade_testing::engine::EngineMaker;

use super::clones::{BLOCKS, Rig};

const PARITY: EngineMaker = EngineMaker {
    parity: Some(ParityPlan {
        drives: 5,
        parity: 1,
    }),
    ..EngineMaker::SMALL_LOGGED
};

impl Rig {
    fn space_map_info(&self) -> SpaceMapInfo {
        let known = self.system.engine().aggregates();
        known[0].garden.space_map.clone()
    }

    fn space_map(&mut self) -> SpaceMap {
        self.change(Change::MapSpace).expect("it is open");
        self.rest();
        let info = self.space_map_info();
        assert_eq!(info.state, GardeningState::Done, "{info:?}");
        assert_eq!(info.counted_areas, info.total_areas, "{info:?}");
        SpaceMap::clone(info.last.as_deref().expect("it is done"))
    }

    /// Overwrites blocks all over a LUN, so that free ones lie between others.
    fn holed(mut self) -> Rig {
        self.write("v/l", 0, BLOCKS, 1_000);
        for turn in 1..6 {
            for first in (turn..BLOCKS).step_by(7) {
                self.write("v/l", first, 1, turn * 10_000);
            }
            self.rest();
        }
        self
    }
}

fn used(map: &SpaceMap) -> u64 {
    let areas = map.extents.iter().flat_map(|extent| &extent.used);
    areas.flatten().map(|used| u64::from(*used)).sum()
}

fn free(map: &SpaceMap) -> (u64, u64) {
    let all = map.free_runs.iter();
    (
        all.clone().map(|it| it.runs).sum(),
        all.map(|it| it.blocks).sum(),
    )
}

#[test]
fn a_space_map_has_every_block_in_use() {
    for maker in [EngineMaker::SMALL_LOGGED, PARITY] {
        let mut rig = Rig::of(maker).holed();
        let map = rig.space_map();
        let usage = rig.system.usage();
        // The map's own consistency point moves a few blocks of metadata.
        assert!(
            used(&map).abs_diff(usage.used_blocks) < 16,
            "{} blocks are in use, {} in the map",
            usage.used_blocks,
            used(&map)
        );
        assert_eq!(map.stripes.is_some(), maker.parity.is_some());
        if let Some(stripes) = map.stripes {
            assert!(stripes.whole < stripes.free, "{stripes:?}");
        }
        // After a restart the map is read from the devices.
        let mut rig = rig.restart();
        assert_eq!(rig.space_map_info(), SpaceMapInfo::default());
        let again = rig.space_map();
        assert!(used(&again).abs_diff(used(&map)) < 16);
        drop(rig.restart());
    }
}

#[test]
fn free_runs_are_longer_after_cleaning() {
    let mut rig = Rig::of(EngineMaker::SMALL_LOGGED).holed();
    let before = free(&rig.space_map());
    let least_free_percent = 1;
    rig.change(Change::StartCleaning { least_free_percent })
        .expect("a percentage");
    rig.rest();
    let after = free(&rig.space_map());
    assert!(
        after.1 * before.0 > 2 * before.1 * after.0,
        "runs and blocks: {before:?} before, {after:?} after"
    );
    drop(rig.restart());
}

#[test]
fn a_space_map_is_made_while_gardening_is_paused_and_ends_when_it_is_told_to() {
    // A consistency point counts a few areas.
    let slow = EngineMaker {
        reclaim_regions: 1,
        ..EngineMaker::SMALL_LOGGED
    };
    let mut rig = Rig::of(slow).holed();
    rig.system.engine().pause_garden(0, true);
    let map = rig.space_map();
    rig.change(Change::MapSpace).expect("it is open");
    rig.change(Change::StopGardening).expect("it is there");
    rig.rest();
    let info = rig.space_map_info();
    assert_eq!(info.state, GardeningState::Stopped, "{info:?}");
    assert_eq!(info.last.as_deref(), Some(&map), "the last one stays");
    drop(rig.restart());
}
