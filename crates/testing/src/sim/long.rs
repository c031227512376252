//! One world through many lives: work, power cut or stop, restart, judgement, and continued work.
//!
//! Every life draws its own faults: most only a power cut at some write, torn or not; some a host
//! that is full, some devices that fail. A life may end in the middle of mounting. After the last
//! one the media are checked as by `everglade check`.

use super::driver::{Driver, Errors, Manners};
use super::judge::{Tolerance, compare, look};
use super::trouble::Trouble;
use super::{Failure, Report};
use crate::model::Model;
use crate::system::{Admin, Maker, System};
use crate::workload::{Action, Mix, Scale, Workload};
use crate::world::{Cut, End, Fault, Grain, Images, Keep, SimWorld};
use crate::{Rng, Seed};

/// The size of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Reactors.
    pub reactors: usize,
    /// Bytes of all devices together.
    pub pool_bytes: u64,
    /// LUNs and operations.
    pub scale: Scale,
    /// Lives.
    pub lives: u64,
    /// Actions per life.
    pub actions: u64,
    /// Devices fail and hosts are full, too.
    pub faults: bool,
    /// Devices damage blocks and say nothing, too.
    pub silent: bool,
    /// The pool fills up, is drained, and fills up again.
    pub fill: bool,
    /// True if small operations keep the pool close to full.
    pub tight: bool,
    /// Lines of trace kept for a failure.
    pub trace_lines: usize,
}

impl Plan {
    /// The plan a seed stands for: small and large worlds, one and several reactors.
    #[must_use]
    pub fn of_seed(seed: Seed) -> Plan {
        let mut rng = Rng::for_part(seed.0, "plan");
        let small = rng.one_in(2);
        let plan = Plan {
            reactors: [1, 1, 2, 3][rng.index(4)],
            pool_bytes: if small { 256 << 20 } else { 1 << 30 },
            scale: if small { Scale::SMALL } else { Scale::LARGE },
            lives: rng.between(2, 6),
            actions: rng.between(20, if small { 400 } else { 200 }),
            faults: rng.one_in(3),
            silent: rng.one_in(4),
            fill: false,
            tight: false,
            trace_lines: 0,
        };
        match rng.below(8) {
            0 => plan.filling(),
            1 | 2 => plan.tight(rng.between(12, 40) << 20),
            _ => plan,
        }
    }

    /// Returns the plan with many small operations on a pool that they keep close to full.
    #[must_use]
    pub fn tight(self, pool_bytes: u64) -> Plan {
        let scale = Scale {
            lun_bytes_max: pool_bytes,
            luns_max: 6,
            volumes_max: 3,
            op_bytes_max: 512 << 10,
        };
        Plan {
            pool_bytes,
            scale,
            actions: 2000,
            fill: false,
            tight: true,
            ..self
        }
    }

    /// Returns the plan with a pool small enough to fill up.
    #[must_use]
    pub fn filling(self) -> Plan {
        let scale = Scale {
            lun_bytes_max: 256 << 20,
            ..Scale::LARGE
        };
        Plan {
            fill: true,
            tight: false,
            pool_bytes: FILL_POOL_BYTES,
            scale,
            actions: 2 * (FILL_POOL_BYTES >> 20),
            ..self
        }
    }
}

/// Fills as fast as it can.
const FILL: Mix = Mix {
    long: true,
    pause: 0,
    ..Mix::FILL
};

/// Silent faults tried on what each life leaves.
const BRANCHES: u64 = 3;

/// Bytes of a pool that some hundred operations of 1 MiB fill.
const FILL_POOL_BYTES: u64 = 64 << 20;

/// Runs the simulation of a seed.
///
/// # Errors
/// A promise was broken.
pub fn run<M: Maker>(seed: Seed, plan: Plan, maker: &M) -> Result<Report, Failure> {
    let mut life = Life {
        seed,
        plan,
        maker,
        rng: Rng::for_part(seed.0, "long"),
        workload: Workload::new(seed.0, plan.scale),
        model: Model::default(),
        report: Report::default(),
    };
    let world = SimWorld::new(seed, plan.reactors, &maker.devices(plan.pool_bytes));
    maker
        .format(&world)
        .map_err(|error| Failure::new(error).within("format"))?;
    let mut images = world.after_cut(Cut::whole(Keep::Nothing));
    let mut older = images.clone();
    for number in 0..plan.lives {
        let within = |failure: Failure| failure.within(format!("life {number}"));
        if plan.silent && number > 0 {
            for _ in 0..BRANCHES {
                life.silent(&images, &older).map_err(within)?;
            }
            older = images.clone();
        }
        images = life.live(number, images).map_err(within)?;
    }
    life.end(images)
        .map_err(|failure| failure.within("at the end"))
}

/// A world between its lives.
pub(super) struct Life<'m, M> {
    seed: Seed,
    pub(super) plan: Plan,
    pub(super) maker: &'m M,
    pub(super) rng: Rng,
    pub(super) workload: Workload,
    pub(super) model: Model,
    pub(super) report: Report,
}

impl<M: Maker> Life<'_, M> {
    pub(super) fn start(&mut self, images: Images) -> SimWorld {
        let world = SimWorld::restart(images, Seed(self.rng.draw()), self.plan.reactors);
        world.trace(self.plan.trace_lines);
        world
    }

    /// Verifies the media as they are.
    fn check(&mut self, images: &Images) -> Result<(), Failure> {
        let offline = self.start(images.clone());
        self.maker
            .check(&offline)
            .map_err(|error| Failure::new(error).within("check"))
    }

    /// Runs one life, from media to media.
    fn live(&mut self, number: u64, mut images: Images) -> Result<Images, Failure> {
        self.check(&images)?;
        // The power may fail while mounting, more than once.
        let mut has_numbers = true;
        while self.rng.one_in(8) {
            has_numbers = false;
            let world = self.start(images.clone());
            world.cut_at_write(world.writes() + self.rng.between(1, 4));
            let _ = self.maker.mount(&world);
            self.report.cuts_in_recovery += u64::from(world.is_cut());
            images = self.cut(&world);
        }
        let world = self.start(images);
        let traced = |mut failure: Failure| {
            failure.trace = world.take_trace();
            failure
        };
        let at = world.writes().saturating_add(1);
        let system = self.mount_and_judge(&world, at, has_numbers);
        let system = system.map_err(traced)?;
        let before = system.committed_cp();
        let mut actions = self.rng.between(1, self.plan.actions);
        let mut trouble = Trouble::NONE;
        if self.plan.faults && !self.rng.one_in(8) {
            let promises = self.maker.promises();
            trouble = Trouble::draw(&mut self.rng, &promises, &world, actions);
        }
        let mut manners = self.manners();
        manners.errors = trouble.errors;
        manners.discards_may_skip |= trouble.discards_may_skip;
        // A pool that is cut early never fills.
        let is_cut = self.rng.below(4) > if self.plan.fill { 2 } else { 0 };
        if is_cut {
            // Anywhere in the life, also long before its end.
            let magnitude = self.rng.between(1, 12);
            world.cut_at_write(world.writes() + self.rng.between(1, 1 << magnitude));
        }
        if self.plan.fill {
            actions = self.plan.actions;
            self.workload.set_mix(if number.is_multiple_of(2) {
                FILL
            } else {
                Mix::DRAIN
            });
        }
        if self.plan.tight {
            self.workload.set_mix(Mix::TIGHT);
        }
        let workload = &mut self.workload;
        let mut driver = Driver::new(
            &world,
            system,
            &mut self.model,
            manners,
            self.seed.nth(number).0,
        );
        let mut asked = 0;
        let mut draw = |_: &Model| {
            actions = actions.checked_sub(1)?;
            asked += 1;
            if let Some((device, _)) = trouble.vanishes.filter(|(_, after)| *after < asked) {
                world.vanish(device);
            }
            Some(workload.draw())
        };
        let mut end = driver.run(&mut draw).map_err(traced)?;
        let clean = end == End::Stopped && !driver.poisoned && !is_cut;
        if clean {
            let mut last = Some(Action::Admin(Admin::ConsistencyPoint));
            end = driver.run(&mut |_| last.take()).map_err(traced)?;
        }
        if clean && end == End::Stopped && !driver.poisoned {
            driver
                .system()
                .check_at_rest()
                .map_err(Failure::new)
                .map_err(traced)?;
            if self.rng.one_in(2) {
                driver.stop().map_err(traced)?;
            }
        }
        if end == End::Stopped {
            driver
                .read_out(trouble.in_reads(&self.maker.promises()))
                .map_err(traced)?;
        }
        let mut report = driver.report;
        let after = driver.system().committed_cp();
        report.cps = after.unwrap_or(0).saturating_sub(before.unwrap_or(0));
        drop(driver);
        self.tally(&world, &report, trouble.fault);
        world.cut_now();
        Ok(self.cut(&world))
    }

    /// A start that was cut may have committed a consistency point, with the number of one that
    /// clients have joined and that was never committed: without `has_numbers` it says nothing.
    fn mount_and_judge(
        &mut self,
        world: &SimWorld,
        at: u64,
        has_numbers: bool,
    ) -> Result<M::System, Failure> {
        let mounted = self.maker.mount(world);
        let mut system = mounted.map_err(|error| Failure::new(error).within("mount"))?;
        let mut view = look(world, &mut system, &self.model)?;
        if !has_numbers {
            view.cp = None;
        }
        self.model = compare(&view, &self.model, at, Tolerance::Nothing)?;
        self.report.recoveries += 1;
        self.model.set_writes(world.writes());
        let exports = system.target(0).exports();
        let luns: Vec<_> = exports
            .into_iter()
            .map(|e| (e.name, e.size_bytes))
            .collect();
        let volumes = system.volumes().unwrap_or_else(|| {
            let mut volumes: Vec<String> = luns
                .iter()
                .filter_map(|(name, _)| Some(name.split_once('/')?.0.to_owned()))
                .collect();
            volumes.dedup();
            volumes
        });
        self.workload.set_population(volumes, &luns);
        Ok(system)
    }

    /// Returns the behaviour of clients while no device fails.
    pub(super) fn manners(&mut self) -> Manners {
        let promises = self.maker.promises();
        Manners {
            depth: [1, 4, 16][self.rng.index(3)],
            discards_may_skip: self.plan.fill && promises.discards_may_skip_when_full,
            discards_may_be_refused: !promises.discards_are_never_refused,
            changes_are_durable: promises.changes_are_durable,
            errors: Errors::Never,
        }
    }

    /// Ends a world by a power cut of some kind.
    pub(super) fn cut(&mut self, world: &SimWorld) -> Images {
        let point = world.cut_point();
        let count = point.unflushed().max(1);
        let keep = match self.rng.below(8) {
            0 => Keep::Nothing,
            1 => Keep::Everything,
            2 => Keep::AllBut(self.rng.index(count)),
            3 => Keep::Only(self.rng.index(count)),
            4 => Keep::First(self.rng.index(count)),
            _ => Keep::Random(self.rng.draw()),
        };
        let tear = [None, Some(Grain::Block), Some(Grain::Sector)][self.rng.index(3)];
        let mut images = point.images(Cut { keep, tear });
        self.report.cuts += 1;
        self.report.add_losses(images.losses);
        images.set_host_capacity(None);
        images
    }

    fn tally(&mut self, world: &SimWorld, report: &Report, fault: Option<Fault>) {
        self.report.add(report);
        self.report.writes = world.writes();
        self.report.add_faults(world);
        if let Some(fault) = fault {
            let refused = if fault == Fault::NoSpace {
                report.refused
            } else {
                0
            };
            self.report.answered[fault] += report.errors + refused;
        }
    }

    /// Judges what the last life left, and its media.
    fn end(mut self, images: Images) -> Result<Report, Failure> {
        self.check(&images)?;
        let world = self.start(images);
        let at = world.writes().saturating_add(1);
        self.mount_and_judge(&world, at, true)?;
        self.report.add_faults(&world);
        self.report.digest = world.digest();
        self.report.nanos = world.now();
        Ok(self.report)
    }
}
