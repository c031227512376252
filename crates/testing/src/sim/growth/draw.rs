//! The work of a life in which a pool grows, drawn from a seed.

use everglade_env::{BLOCK_SIZE, DeviceId};
use everglade_format::label::{LABEL_BLOCKS, size_for};

use super::life::Work;
use crate::engine::{EngineMaker, EngineSystem};
use crate::model::Model;
use crate::sim::Failure;
use crate::sim::driver::Driver;
use crate::system::{Admin, PoolGrowth, System};
use crate::workload::{Action, Mix, Workload};
use crate::{Rng, SimWorld};

const BLOCK: u64 = BLOCK_SIZE as u64;

/// Writes in a row while a pool is filled.
const FILL_STEP: usize = 16;
/// Such rows, at most; a pool is full after a part of them.
const FILL_STEPS_MAX: usize = 64;
/// Blocks of a pool that is not too large to be filled: the check of each cut reads all of them.
const FILL_BLOCKS_MAX: u64 = 5_000;

/// Many flushes, some growth of LUNs, and all that frees space.
const GROWING: Mix = Mix {
    read: 60,
    write: 400,
    discard: 40,
    zeroes: 20,
    flush: 200,
    cp: 8,
    create_lun: 8,
    delete_lun: 4,
    grow: 8,
    shrink: 4,
    create_volume: 3,
    delete_volume: 1,
    pause: 4,
    durable: 6,
    long: false,
};

/// Only writes, as long as they may be.
const FILLING: Mix = Mix {
    read: 0,
    write: 1000,
    discard: 0,
    zeroes: 0,
    flush: 4,
    cp: 0,
    create_lun: 20,
    delete_lun: 0,
    grow: 20,
    shrink: 0,
    create_volume: 0,
    delete_volume: 0,
    pause: 0,
    durable: 0,
    long: true,
};

/// Returns the number of bytes by which a device of `blocks` becomes larger, so that it gets some
/// areas.
fn more(rng: &mut Rng, area_blocks: u64, blocks: u64) -> u64 {
    let areas = rng.between(2, 8) * area_blocks;
    (LABEL_BLOCKS + areas + (blocks + areas).div_ceil(50)) * BLOCK
}

/// Draws a growth: devices that appear, or that appeared for a growth that came to nothing, or
/// members that become larger.
pub(in super::super) fn any(rng: &mut Rng, world: &SimWorld, maker: &EngineMaker) -> PoolGrowth {
    let joining = world.joining();
    if !joining.is_empty() && rng.one_in(2) {
        return PoolGrowth::Again;
    }
    let area_blocks = maker.area_blocks;
    let together = maker.drives_together();
    if maker.parity.is_some() && rng.one_in(3) {
        return PoolGrowth::Wider([1, 1, 2][rng.index(3)]);
    }
    if rng.one_in(2) {
        let count = [1, 1, 2][rng.index(3)] * together;
        let blocks = |device: DeviceId| world.spec(device).blocks();
        let largest = world.devices().into_iter().map(blocks).max();
        // At least what the RAID log of the smallest one takes.
        let log = maker.parity.and(largest);
        let log = log.map_or(0, |blocks| (blocks / 64).clamp(64, 4096));
        let size = |_| size_for(rng.between(4, 9), area_blocks, log) * BLOCK;
        return PoolGrowth::New((0..count).map(size).collect());
    }
    let mut members = world.devices();
    members.retain(|device| !joining.contains(device));
    // Drives of a group follow each other.
    let mut groups: Vec<&[DeviceId]> = members.chunks(together).collect();
    // One with the journal and no data does not grow.
    if maker.journal_device {
        groups.remove(0);
    }
    rng.shuffle(&mut groups);
    let count = [1, 1, groups.len()][rng.index(3)];
    let blocks = |device: &DeviceId| world.spec(*device).blocks();
    let mut larger = Vec::new();
    for group in &groups[..count] {
        let most = group.iter().map(blocks).max().unwrap_or(0);
        for device in *group {
            let lacks = (most - blocks(device)) * BLOCK;
            larger.push((device.0, lacks + more(rng, area_blocks, most)));
        }
    }
    PoolGrowth::Larger(larger)
}

/// Work with growths in it.
pub(super) struct Drawn<'a> {
    rng: Rng,
    maker: EngineMaker,
    workload: &'a mut Workload,
    /// The pool is filled first.
    is_filling: bool,
    /// Actions until the next growth, and after the last one.
    pauses: Vec<u64>,
    /// The next growth follows at once, while this one is under way.
    is_hasty: bool,
    /// Devices that the host has made larger for a growth that was cut.
    larger: Vec<u32>,
    /// Clients were refused for lack of space before the first growth.
    pub(super) was_full: bool,
}

impl<'a> Drawn<'a> {
    pub(super) fn new(mut rng: Rng, maker: &EngineMaker, workload: &'a mut Workload) -> Drawn<'a> {
        let growths = [1, 1, 2, 3][rng.index(4)];
        let mut pauses: Vec<u64> = (0..growths).map(|_| rng.between(0, 30)).collect();
        pauses.push(rng.between(6, 30));
        Drawn {
            is_filling: rng.one_in(2),
            is_hasty: rng.one_in(3),
            rng,
            maker: *maker,
            workload,
            pauses,
            larger: Vec::new(),
            was_full: false,
        }
    }

    fn growth(&mut self, world: &SimWorld) -> PoolGrowth {
        if !self.larger.is_empty() && self.rng.one_in(3) {
            let larger = std::mem::take(&mut self.larger);
            return PoolGrowth::Larger(larger.into_iter().map(|device| (device, 0)).collect());
        }
        let growth = any(&mut self.rng, world, &self.maker);
        if let PoolGrowth::Larger(devices) = &growth {
            let is_grown = |known: &u32| devices.iter().any(|(device, _)| device == known);
            self.larger.retain(|known| !is_grown(known));
        }
        if matches!(growth, PoolGrowth::Wider(_)) && self.maker.least_free_percent.is_some() {
            // Drives of the group may use the room for its longer RAID log.
            self.larger.clear();
        }
        growth
    }
}

impl Work for Drawn<'_> {
    fn prepare(
        &mut self,
        world: &SimWorld,
        driver: &mut Driver<'_, EngineSystem>,
    ) -> Result<(), Failure> {
        let luns = driver.model().luns_now();
        self.workload
            .set_population(driver.model().volumes_now(), &luns);
        let devices = world.devices().into_iter();
        let larger = devices.filter(|device| driver.system().is_larger(*device));
        self.larger = larger.map(|device| device.0).collect();
        let geometry = driver.system().geometry().expect("an engine tells");
        if self.is_filling && geometry.blocks <= FILL_BLOCKS_MAX {
            self.workload.set_mix(FILLING);
            for _ in 0..FILL_STEPS_MAX {
                let mut left = FILL_STEP;
                driver.run(&mut |_| {
                    left = left.checked_sub(1)?;
                    Some(self.workload.draw())
                })?;
                self.was_full = driver.report.refused > 0;
                if self.was_full {
                    break;
                }
            }
        }
        self.workload.set_mix(GROWING);
        Ok(())
    }

    fn next(&mut self, world: &SimWorld, _model: &Model) -> Option<Action> {
        let left = self.pauses.first_mut()?;
        if *left > 0 {
            *left -= 1;
            return Some(self.workload.draw());
        }
        self.pauses.remove(0);
        if self.pauses.is_empty() {
            return None;
        }
        if self.is_hasty && self.pauses.len() > 1 {
            self.pauses[0] = 0;
        }
        Some(Action::Admin(Admin::GrowPool(self.growth(world))))
    }
}
