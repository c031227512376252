//! Images as the engine leaves them: a seed becomes a small aggregate on which clients and
//! administrators worked for some lives, each ended by an orderly stop or by a power cut at any
//! write.
//!
//! Cuts leave unreplayed journals, stale and torn labels, deletions under way and full overflow
//! files: what a verifier meets on Monday morning, and must not take for damage.

use std::collections::VecDeque;

use everglade_check::{Report, check};
use everglade_env::{BLOCK_SIZE, DeviceId};
use everglade_format::label::{size_for, size_to_grow};
use everglade_testing::model::Model;
use everglade_testing::sim::driver::{Driver, Manners};
use everglade_testing::sim::judge::judge;
use everglade_testing::system::{Admin, Maker, PoolGrowth, System};
use everglade_testing::workload::{Action, Scale, Workload};
use everglade_testing::world::{Cut, End, Grain, Images, Keep};
use everglade_testing::{Rng, Seed, SimWorld, engine::EngineMaker};

/// Much of everything in few blocks.
const SCALE: Scale = Scale {
    lun_bytes_max: 6 << 20,
    luns_max: 6,
    volumes_max: 3,
    op_bytes_max: 48 << 10,
};

/// Areas of a device that joins.
const AREAS: u64 = 5;
/// Writes of a growth, about.
const CUT_SOON: u64 = 40;

/// The media after the last life.
pub(crate) struct Lived {
    pub(crate) images: Images,
    pub(crate) seed: u64,
    pub(crate) maker: EngineMaker,
}

impl Lived {
    /// Returns the media in a world, for checks or damage.
    pub(crate) fn world(&self) -> SimWorld {
        SimWorld::restart(self.images.clone(), Seed(self.seed), 1)
    }

    /// Returns the last sequence that the engine replays in a start, unless files of the operations
    /// were deleted.
    pub(crate) fn recovered(&self) -> Option<u64> {
        let world = self.world();
        let system = self.maker.mount(&world).expect("it mounts");
        system.recovered_cp()
    }
}

pub(crate) fn report(world: &SimWorld) -> Report {
    check(&*world.storage(), &world.devices(), &mut |_| {}).expect("labels are readable")
}

struct Life {
    rng: Rng,
    /// Draws growths of the pool; none if it does not grow.
    growths: Option<Rng>,
    maker: EngineMaker,
    workload: Workload,
    model: Model,
    is_first: bool,
}

/// The image of a seed.
pub(crate) fn image(seed: u64) -> Lived {
    make(seed, None)
}

/// The image of a seed, whose pool may have grown in any of its lives.
pub(crate) fn grown(seed: u64) -> Lived {
    make(seed, Some(Rng::for_part(seed, "growths")))
}

fn make(seed: u64, growths: Option<Rng>) -> Lived {
    let mut rng = Rng::for_part(seed, "lived");
    let maker = EngineMaker::of_seed(Seed(seed));
    // Small enough to fill up, and to hold a record that is too long.
    let journal_half_blocks = maker.journal_half_blocks.min([64, 200][rng.index(2)]);
    let maker = EngineMaker {
        memory_bytes: 4 << 20,
        journal_half_blocks,
        ..maker
    };
    let world = SimWorld::new(Seed(seed), 1, &maker.devices(24 << 20));
    maker.format(&world).expect("devices are large enough");
    let mut images = world.after_cut(Cut::whole(Keep::Nothing));
    // Now and then a new, unused aggregate.
    let lives = if rng.one_in(16) { 0 } else { rng.between(1, 4) };
    let mut life = Life {
        rng,
        growths,
        maker,
        workload: Workload::new(seed, SCALE),
        model: Model::default(),
        is_first: true,
    };
    for _ in 0..lives {
        images = life.live(images);
    }
    let maker = life.maker;
    Lived {
        images,
        seed,
        maker,
    }
}

impl Life {
    fn live(&mut self, images: Images) -> Images {
        let world = SimWorld::restart(images, Seed(self.rng.draw()), 1);
        let at = world.writes() + 1;
        if self.rng.one_in(8) {
            // The power fails in the middle of the recovery.
            world.cut_at_write(world.writes() + self.rng.between(1, 20));
            let _cut_short = self.maker.mount(&world);
            return self.cut(&world);
        }
        let mut system = self.maker.mount(&world).expect("it mounts");
        self.model = judge(&world, &mut system, &self.model, at).expect("as promised");
        self.model.set_writes(world.writes());
        let mut first = self.first_actions();
        let growth = self.growth(&world);
        let is_growing = growth.is_some();
        let growth = growth.map(|it| Action::Admin(Admin::GrowPool(it)));
        growth.into_iter().for_each(|it| first.push_front(it));
        self.populate(&mut system);
        let mut is_cut = self.rng.one_in(2);
        if is_cut {
            let magnitude = self.rng.between(2, 12);
            world.cut_at_write(world.writes() + self.rng.between(1, 1 << magnitude));
        }
        if let Some(rng) = self.growths.as_mut().filter(|_| is_growing)
            && rng.one_in(2)
        {
            is_cut = true;
            world.cut_at_write(world.writes() + rng.between(1, CUT_SOON));
        }
        let manners = Manners {
            depth: 4,
            changes_are_durable: self.maker.promises().changes_are_durable,
            ..Manners::STRICT
        };
        let mut actions = self.rng.between(1, 500);
        let workload = &mut self.workload;
        let mut driver = Driver::new(&world, system, &mut self.model, manners, actions);
        let end = driver
            .run(&mut |_| {
                actions = actions.checked_sub(1)?;
                first.pop_front().or_else(|| Some(workload.draw()))
            })
            .expect("as promised");
        if end == End::Stopped && !is_cut && self.rng.one_in(2) {
            driver.stop().expect("it stops");
        }
        drop(driver);
        self.cut(&world)
    }

    /// Two volumes with LUNs of two levels, mostly: left to itself the workload makes few.
    fn first_actions(&mut self) -> VecDeque<Action> {
        let is_first = std::mem::take(&mut self.is_first);
        if !is_first || self.rng.one_in(4) {
            return VecDeque::new();
        }
        let volume = |name: &str| Admin::CreateVolume { name: name.into() };
        let mut lun = |name: &str| Admin::CreateLun {
            name: name.into(),
            size_bytes: self.rng.between(256, SCALE.lun_bytes_max >> 12) << 12,
        };
        let made = [volume("a"), volume("b"), lun("a/x"), lun("a/y"), lun("b/z")];
        let mut actions: VecDeque<_> = made.into_iter().map(Action::Admin).collect();
        for fill in 0..self.rng.between(3, 30) {
            let length = 4096 * self.rng.between(1, 8);
            actions.push_back(Action::Write {
                lun: ["a/x", "a/y", "b/z"][self.rng.index(3)].into(),
                offset: 4096 * self.rng.below(240),
                length,
                fill: 1_000_000 + fill,
                durable: false,
            });
        }
        actions
    }

    /// Devices appear, or the one with the first extent becomes larger.
    fn growth(&mut self, world: &SimWorld) -> Option<PoolGrowth> {
        let (rng, area_blocks) = (self.growths.as_mut()?, self.maker.area_blocks);
        let bytes = |blocks: u64| blocks * BLOCK_SIZE as u64;
        Some(match rng.index(4) {
            0 => return None,
            1 => {
                let device = u32::from(self.maker.journal_device);
                let blocks = world.spec(DeviceId(device)).size_bytes / BLOCK_SIZE as u64;
                let more = size_to_grow(blocks, area_blocks) - blocks;
                PoolGrowth::Larger(vec![(device, bytes(more))])
            }
            devices => {
                let size = bytes(size_for(AREAS, area_blocks, 0));
                PoolGrowth::New(vec![size; devices - 1])
            }
        })
    }

    fn populate(&mut self, system: &mut impl System) {
        let exports = system.target(0).exports();
        let luns: Vec<_> = exports
            .into_iter()
            .map(|export| (export.name, export.size_bytes))
            .collect();
        let volumes = system.volumes().expect("engines know their volumes");
        self.workload.set_population(volumes, &luns);
    }

    fn cut(&mut self, world: &SimWorld) -> Images {
        world.cut_now();
        let keep = [
            Keep::Nothing,
            Keep::Everything,
            Keep::Random(self.rng.draw()),
        ][self.rng.index(3)];
        let tear = [None, Some(Grain::Block), Some(Grain::Sector)][self.rng.index(3)];
        world.after_cut(Cut { keep, tear })
    }
}
