//! One run, cut at every write in many ways.
//!
//! The run goes through undisturbed while the world remembers a cut point at each write. Then every
//! point is restarted in several ways, mounted and judged by what the model knows of that moment;
//! now and then the recovered system goes on, and is cut again at each of its writes.

use super::driver::{Driver, Manners};
use super::judge::judge;
use super::{Failure, Report};
use crate::model::Model;
use crate::system::{Admin, Maker};
use crate::workload::{Action, Mix, Scale, Workload};
use crate::world::{Cut, CutPoint, DeviceSpec, Images, Keep, SimWorld};
use crate::{Rng, Seed};

/// How thoroughly to cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thoroughness {
    /// Every so many writes are cut at.
    pub stride: u64,
    /// If these are more, as many of them, evenly spread.
    pub points_max: usize,
    /// Changes singled out at each write (each is tried missing, torn, alone, …).
    pub singles_max: usize,
    /// One recovery in so many goes on, and is itself cut at each of its writes; zero for none.
    pub recoveries: u64,
    /// The media are checked offline after each cut.
    pub check: bool,
}

impl Thoroughness {
    /// Everything there is.
    pub const ALL: Thoroughness = Thoroughness {
        stride: 1,
        points_max: usize::MAX,
        singles_max: usize::MAX,
        recoveries: 1,
        check: true,
    };
    /// Every write, some of the ways.
    pub const SOME: Thoroughness = Thoroughness {
        stride: 1,
        points_max: 64,
        singles_max: 3,
        recoveries: 29,
        check: true,
    };
}

/// Runs `actions` one after the other (`depth` at a time) on a system with the volume and LUN of
/// [`crate::workload::small`], cutting as said.
///
/// # Errors
/// A promise was broken; the message names write and cut.
pub fn run<M: Maker>(
    seed: Seed,
    reactors: usize,
    devices: &[DeviceSpec],
    maker: &M,
    actions: &[Action],
    depth: usize,
    thoroughness: Thoroughness,
) -> Result<Report, Failure> {
    let start = prepare(seed, reactors, devices, maker)?;
    let world = SimWorld::restart(start.images, seed, reactors);
    let mut model = start.model;
    let system = maker
        .mount(&world)
        .map_err(|error| Failure::new(error).within("mount"))?;
    world.watch_cuts(thoroughness.stride, usize::MAX);
    let manners = Manners {
        depth,
        changes_are_durable: maker.promises().changes_are_durable,
        ..Manners::STRICT
    };
    let mut driver = Driver::new(&world, system, &mut model, manners, seed.0);
    let mut rest = actions.iter().cloned();
    driver.run(&mut |_| rest.next())?;
    let mut report = driver.report;
    drop(driver);
    report.digest = world.digest();
    report.nanos = world.now();
    let points = points_of(&world, thoroughness.points_max);
    let context = Context {
        seed,
        reactors,
        maker,
        model: &model,
        thoroughness,
    };
    for (number, (at, point)) in points.iter().enumerate() {
        for (way, cut) in point.singles(thoroughness.singles_max).enumerate() {
            let images = point.images(cut);
            report.cuts += 1;
            report.add_losses(images.losses);
            let nested = thoroughness.recoveries > 0
                && (number + way)
                    .is_multiple_of(usize::try_from(thoroughness.recoveries).unwrap_or(1));
            context
                .recover(&images, *at, nested, &mut report)
                .map_err(|failure| {
                    failure.within(format!("cut at write {}, {cut:?}", point.writes))
                })?;
        }
    }
    Ok(report)
}

/// The run a seed stands for: some actions of a random workload, a few at a time, cut at each write.
///
/// # Errors
/// A promise was broken.
pub fn run_of_seed<M: Maker>(seed: Seed, maker: &M) -> Result<Report, Failure> {
    use crate::workload::small::{LUN, LUN_BYTES, VOLUME};
    let mut rng = Rng::for_part(seed.0, "cuts");
    let mut workload = Workload::new(seed.0, Scale::SMALL);
    workload.set_population(vec![VOLUME.to_owned()], &[(LUN.to_owned(), LUN_BYTES)]);
    let actions: Vec<Action> = (0..rng.between(4, 40)).map(|_| workload.draw()).collect();
    let thoroughness = Thoroughness {
        stride: rng.between(1, 3),
        ..Thoroughness::SOME
    };
    let (reactors, depth) = ([1, 1, 2][rng.index(3)], [1, 4][rng.index(2)]);
    let devices = maker.devices(16 << 20);
    run(
        seed,
        reactors,
        &devices,
        maker,
        &actions,
        depth,
        thoroughness,
    )
}

/// Where to cut: some of the writes that were watched, and after the last one, when everything has been
/// answered. Each with the number of the write at which the world stops.
fn points_of(world: &SimWorld, most: usize) -> Vec<(u64, CutPoint)> {
    let watched = world.take_cuts();
    let step = watched.len().div_ceil(most).max(1);
    let some = watched.into_iter().step_by(step);
    let mut points: Vec<_> = some.map(|point| (point.writes, point)).collect();
    points.push((world.writes() + 1, world.cut_point()));
    points
}

struct Start {
    images: Images,
    model: Model,
}

/// Devices with the volume and the LUN of the small worlds on them, durable.
fn prepare<M: Maker>(
    seed: Seed,
    reactors: usize,
    devices: &[DeviceSpec],
    maker: &M,
) -> Result<Start, Failure> {
    use crate::workload::small::{LUN, LUN_BYTES, VOLUME};
    let world = SimWorld::new(seed, reactors, devices);
    let mut model = Model::default();
    maker
        .format(&world)
        .map_err(|error| Failure::new(error).within("format"))?;
    let system = maker
        .mount(&world)
        .map_err(|error| Failure::new(error).within("first mount"))?;
    let manners = Manners::STRICT;
    let mut driver = Driver::new(&world, system, &mut model, manners, seed.0);
    let mut first = [
        Action::Admin(Admin::CreateVolume {
            name: VOLUME.to_owned(),
        }),
        Action::Admin(Admin::CreateLun {
            name: LUN.to_owned(),
            size_bytes: LUN_BYTES,
        }),
        Action::Admin(Admin::ConsistencyPoint),
    ]
    .into_iter();
    driver
        .run(&mut |_| first.next())
        .map_err(|failure| failure.within("preparation"))?;
    drop(driver);
    model.set_writes(world.writes());
    Ok(Start {
        images: world.after_cut(Cut::whole(Keep::Nothing)),
        model,
    })
}

struct Context<'a, M> {
    seed: Seed,
    reactors: usize,
    maker: &'a M,
    model: &'a Model,
    thoroughness: Thoroughness,
}

impl<M: Maker> Context<'_, M> {
    /// Judges what a cut at write `at` left. With `nested` the recovered system goes on for a while, and that
    /// is cut again at each of its writes.
    fn recover(
        &self,
        images: &Images,
        at: u64,
        nested: bool,
        report: &mut Report,
    ) -> Result<(), Failure> {
        self.check(images)?;
        let world = SimWorld::restart(images.clone(), self.seed, self.reactors);
        let mut system = self.mount(&world)?;
        if !nested {
            return judge(&world, &mut system, self.model, at).map(drop);
        }
        world.watch_cuts(1, 1000);
        let mut model = judge(&world, &mut system, self.model, at)?;
        model.set_writes(world.writes());
        let mut actions = self.sequel(&model, at).into_iter();
        let mut driver = Driver::new(&world, system, &mut model, Manners::STRICT, self.seed.0);
        driver
            .run(&mut |_| actions.next())
            .map_err(|failure| failure.within("going on"))?;
        drop(driver);
        let points_max = self.thoroughness.points_max.div_ceil(4);
        for (again, point) in points_of(&world, points_max) {
            for cut in point.singles(1) {
                report.cuts += 1;
                self.judge_again(&point.images(cut), &model, again)
                    .map_err(|failure| {
                        failure.within(format!("cut again at write {again}, {cut:?}"))
                    })?;
            }
        }
        Ok(())
    }

    /// What is done after a recovery: enough to reuse any block that was taken for free.
    fn sequel(&self, model: &Model, at: u64) -> Vec<Action> {
        let mut workload = Workload::of_mix(self.seed.0 ^ at, Scale::SMALL, Mix::EVERYTHING);
        let luns: Vec<_> = model.luns_now();
        if luns.is_empty() {
            return vec![Action::Admin(Admin::ConsistencyPoint)];
        }
        workload.set_population(model.volumes_now(), &luns);
        let mut actions: Vec<Action> = (0..6).map(|_| workload.draw()).collect();
        actions.push(Action::Admin(Admin::ConsistencyPoint));
        actions
    }

    fn judge_again(&self, images: &Images, model: &Model, at: u64) -> Result<(), Failure> {
        self.check(images)?;
        let world = SimWorld::restart(images.clone(), self.seed, self.reactors);
        let mut system = self.mount(&world)?;
        judge(&world, &mut system, model, at).map(drop)
    }

    fn check(&self, images: &Images) -> Result<(), Failure> {
        if self.thoroughness.check {
            let offline = SimWorld::restart(images.clone(), self.seed, self.reactors);
            self.maker
                .check(&offline)
                .map_err(|error| Failure::new(error).within("check"))?;
        }
        Ok(())
    }

    fn mount(&self, world: &SimWorld) -> Result<M::System, Failure> {
        let mounted = self.maker.mount(world);
        mounted.map_err(|error| Failure::new(error).within("mount"))
    }
}
