//! One run, cut at every write in many ways.
//!
//! The run goes through undisturbed while the world remembers a cut point at each write. Then every
//! point is restarted in several ways, mounted and judged by what the model knows of that moment;
//! now and then the recovered system continues, and is cut again at each of its writes.

use super::driver::{Driver, Manners};
use super::judge::{View, judge, look_at, verify};
use super::judged::Judged;
use super::{Failure, Report};
use crate::model::{Model, OpId};
use crate::system::{Admin, Maker, System};
use crate::workload::small::{LUN, LUN_BYTES, VOLUME};
use crate::workload::{Action, Mix, Scale, Workload};
use crate::world::{Cut, CutPoint, DeviceSpec, Images, Keep, SimWorld};
use crate::{Rng, Seed};

/// The number of cuts and of their variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thoroughness {
    /// Every `stride`-th write is cut at.
    pub stride: u64,
    /// The most writes cut at. If there are more, this number of them, evenly spread.
    pub points_max: usize,
    /// The variants of each cut: which of the unflushed changes survive.
    pub ways: Ways,
    /// One recovery in `recoveries` continues, and is itself cut at each of its writes; zero for
    /// none.
    pub recoveries: u64,
    /// The media are checked offline after each cut.
    pub check: bool,
}

/// Most cuts of a recovery and of the work after it.
const NESTED_MAX: usize = 24;

/// One in `OLD_ONE_IN` of the blocks that a run does not touch is checked after each cut; the
/// offline check reads all.
const OLD_ONE_IN: u64 = 16;

/// Which of the unflushed changes survive a cut: one variant for each set of survivors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ways {
    /// None, all, and for at most this many changes: this one missing, torn, alone, the last.
    Singles(usize),
    /// None, all, each change missing, and this many random subsets, half of them torn.
    Subsets(u64),
}

impl Ways {
    fn at(self, point: &CutPoint, seed: Seed) -> Vec<Cut> {
        match self {
            Ways::Singles(most) => point.singles(most).collect(),
            Ways::Subsets(random) => point.subsets(random, seed.0 ^ point.writes).collect(),
        }
    }
}

impl Thoroughness {
    /// All cuts and variants.
    pub const ALL: Thoroughness = Thoroughness {
        stride: 1,
        points_max: usize::MAX,
        ways: Ways::Singles(usize::MAX),
        recoveries: 1,
        check: true,
    };
    /// Every write, some of the ways.
    pub const SOME: Thoroughness = Thoroughness {
        stride: 1,
        points_max: 64,
        ways: Ways::Singles(3),
        recoveries: 29,
        check: true,
    };
}

/// Runs `actions` one after the other (`depth` at a time) on a system with the volume and LUN of
/// [`crate::workload::small`], with these cuts.
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
    let start = Start::prepare(seed, reactors, devices, maker, Vec::new())?;
    start.run(maker, actions, depth, thoroughness)
}

/// A state in which runs begin: media and the model of them. One start serves many runs.
pub struct Start {
    seed: Seed,
    reactors: usize,
    images: Images,
    model: Model,
    /// Done at the beginning of each run, before anything is cut.
    prelude: Vec<Action>,
}

impl Start {
    /// Devices with the volume and the LUN of the small worlds on them, and what `more` asks for,
    /// durable.
    ///
    /// # Errors
    /// The error if the preparation fails.
    pub fn prepare<M: Maker>(
        seed: Seed,
        reactors: usize,
        devices: &[DeviceSpec],
        maker: &M,
        more: Vec<Action>,
    ) -> Result<Start, Failure> {
        let world = SimWorld::new(seed, reactors, devices);
        let mut model = Model::default();
        maker
            .format(&world)
            .map_err(|error| Failure::new(error).within("format"))?;
        let system = maker
            .mount(&world)
            .map_err(|error| Failure::new(error).within("first mount"))?;
        let mut driver = Driver::new(&world, system, &mut model, Manners::STRICT, seed.0);
        let first = [
            Action::Admin(Admin::CreateVolume {
                name: VOLUME.to_owned(),
            }),
            Action::Admin(Admin::CreateLun {
                name: LUN.to_owned(),
                size_bytes: LUN_BYTES,
            }),
        ];
        let last = [Action::Admin(Admin::ConsistencyPoint)];
        let mut actions = first.into_iter().chain(more).chain(last);
        driver
            .run(&mut |_| actions.next())
            .map_err(|failure| failure.within("preparation"))?;
        drop(driver);
        model.set_writes(world.writes());
        Ok(Start {
            seed,
            reactors,
            images: world.after_cut(Cut::whole(Keep::Nothing)),
            model,
            prelude: Vec::new(),
        })
    }

    /// Returns the media.
    pub(super) fn into_images(self) -> Images {
        self.images
    }

    /// Adds actions to the beginning of each run, which no cut interrupts.
    #[must_use]
    pub fn with_prelude(self, prelude: Vec<Action>) -> Start {
        Start { prelude, ..self }
    }

    /// Runs `actions` from here, with these cuts. See [`run`].
    ///
    /// # Errors
    /// A promise was broken; the message names write and cut.
    pub fn run<M: Maker>(
        &self,
        maker: &M,
        actions: &[Action],
        depth: usize,
        thoroughness: Thoroughness,
    ) -> Result<Report, Failure> {
        let (seed, reactors) = (self.seed, self.reactors);
        let world = SimWorld::restart(self.images.clone(), seed, reactors);
        let mut model = self.model.clone();
        let system = maker
            .mount(&world)
            .map_err(|error| Failure::new(error).within("mount"))?;
        let before = system.committed_cp();
        let manners = Manners {
            depth,
            changes_are_durable: maker.promises().changes_are_durable,
            ..Manners::STRICT
        };
        let mut driver = Driver::new(&world, system, &mut model, manners, seed.0);
        if !self.prelude.is_empty() {
            let mut rest = self.prelude.iter().cloned();
            driver
                .run(&mut |_| rest.next())
                .map_err(|failure| failure.within("prelude"))?;
        }
        world.watch_cuts(thoroughness.stride, usize::MAX);
        let mut rest = actions.iter().cloned();
        let since = self.model.next_op();
        driver.run(&mut |_| rest.next())?;
        let mut report = driver.report;
        let after = driver.system().committed_cp();
        report.cps = after.unwrap_or(0).saturating_sub(before.unwrap_or(0));
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
            since,
            known: Judged::default(),
        };
        let mut ticket = Rng::for_part(seed.0, &format!("{actions:?}")).draw();
        for (at, point) in &points {
            for cut in thoroughness.ways.at(point, seed) {
                let images = point.images(cut);
                report.cuts += 1;
                report.add_losses(images.losses);
                ticket = ticket.wrapping_add(1);
                let nested =
                    thoroughness.recoveries > 0 && ticket.is_multiple_of(thoroughness.recoveries);
                context
                    .recover(&images, *at, nested, &mut report)
                    .map_err(|failure| {
                        failure.within(format!("cut at write {}, {cut:?}", point.writes))
                    })?;
            }
        }
        Ok(report)
    }
}

/// The run a seed stands for: some actions of a random workload, a few at a time, cut at each
/// write.
///
/// # Errors
/// A promise was broken.
pub fn run_of_seed<M: Maker>(seed: Seed, maker: &M) -> Result<Report, Failure> {
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

/// Returns the cuts: some of the watched writes, and the end, when all requests have been answered.
/// Each with the number of the write at which the world stops.
fn points_of(world: &SimWorld, most: usize) -> Vec<(u64, CutPoint)> {
    let watched = world.take_cuts();
    let step = watched.len().div_ceil(most).max(1);
    let some = watched.into_iter().step_by(step);
    let mut points: Vec<_> = some.map(|point| (point.writes, point)).collect();
    points.push((world.writes() + 1, world.cut_point()));
    points
}

/// The reference for a recovery.
struct Asked<'a> {
    model: &'a Model,
    at: u64,
    since: OpId,
    /// A recovery that was cut left out operations on what came too late, and may have committed
    /// the others: the next one knows nothing of those, and they are missing all the same.
    has_gaps: bool,
    /// The consistency point that the recovery that was cut found, in a pool without journal: those
    /// that it committed itself have numbers that lost operations had.
    found_cp: Option<u64>,
    known: &'a Judged,
}

struct Context<'a, M> {
    seed: Seed,
    reactors: usize,
    maker: &'a M,
    model: &'a Model,
    thoroughness: Thoroughness,
    /// The first operation of the run; older data is only sampled.
    since: OpId,
    known: Judged,
}

impl<M: Maker> Context<'_, M> {
    /// Judges the recovery from a cut at write `at`. With `nested` the recovery and the work after
    /// it are cut again at each of their writes.
    fn recover(
        &self,
        images: &Images,
        at: u64,
        nested: bool,
        report: &mut Report,
    ) -> Result<(), Failure> {
        self.check(images)?;
        report.recoveries += 1;
        if nested {
            return self.recover_and_go_on(images, at, report);
        }
        let asked = Asked {
            model: self.model,
            at,
            since: self.since,
            has_gaps: false,
            found_cp: None,
            known: &self.known,
        };
        self.judge_known(images, &asked, report)
    }

    /// Judges what media become, unless media with their footprint are known to become something
    /// right.
    fn judge_known(
        &self,
        images: &Images,
        asked: &Asked<'_>,
        report: &mut Report,
    ) -> Result<(), Failure> {
        let moment = asked.model.moment_at(asked.at);
        let judge = |view: &View| verify(view, asked.model, asked.at, asked.has_gaps);
        if let Some(verdict) = asked.known.judge(images, moment, judge) {
            report.recoveries_known += 1;
            return verdict.map(|_geometry| ());
        }
        let world = SimWorld::restart(images.clone(), self.seed, self.reactors);
        world.track();
        let mut system = self.mount(&world)?;
        let mut view = look_at(&world, &mut system, &|name| {
            asked.model.blocks_since(name, asked.since, OLD_ONE_IN)
        })?;
        view.cp = asked.found_cp.or(view.cp);
        judge(&view)?;
        report.add_faults(&world);
        asked.known.remember(world.take_footprint(), view, moment);
        Ok(())
    }

    fn recover_and_go_on(
        &self,
        images: &Images,
        at: u64,
        report: &mut Report,
    ) -> Result<(), Failure> {
        let world = SimWorld::restart(images.clone(), self.seed, self.reactors);
        world.watch_cuts(1, 1000);
        let mut system = self.mount(&world)?;
        let has_gaps = system.has_gaps();
        let has_journal = !self.maker.promises().journal_blocks.is_empty();
        let found_cp = system.recovered_cp().filter(|_| !has_journal);
        let mut model = judge(&world, &mut system, self.model, at)?;
        let recovered_with = world.writes();
        model.set_writes(recovered_with);
        let mut actions = self.sequel(&model, at).into_iter();
        let mut driver = Driver::new(&world, system, &mut model, Manners::STRICT, self.seed.0);
        driver
            .run(&mut |_| actions.next())
            .map_err(|failure| failure.within("going on"))?;
        drop(driver);
        let (known, within) = (Judged::default(), Judged::default());
        let points_max = (self.thoroughness.points_max / 4).clamp(1, NESTED_MAX);
        for (again, point) in points_of(&world, points_max) {
            // Clients did not see the results of a recovery that was cut.
            let in_recovery = again <= recovered_with;
            let asked = Asked {
                model: if in_recovery { self.model } else { &model },
                at: if in_recovery { at } else { again },
                since: if in_recovery { self.since } else { OpId(0) },
                has_gaps: in_recovery && has_gaps,
                found_cp: found_cp.filter(|_| in_recovery),
                known: match in_recovery {
                    true if has_gaps || found_cp.is_some() => &within,
                    true => &self.known,
                    false => &known,
                },
            };
            for cut in point.singles(1) {
                report.cuts += 1;
                report.cuts_in_recovery += u64::from(in_recovery);
                report.recoveries += 1;
                let images = point.images(cut);
                self.check(&images)
                    .and_then(|()| self.judge_known(&images, &asked, report))
                    .map_err(|failure| {
                        failure.within(format!("cut again at write {again}, {cut:?}"))
                    })?;
            }
        }
        Ok(())
    }

    /// Returns the actions after a recovery: enough to reuse any block wrongly taken for free.
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

    fn check(&self, images: &Images) -> Result<(), Failure> {
        if self.thoroughness.check && !self.known.is_clean(images) {
            let offline = SimWorld::restart(images.clone(), self.seed, self.reactors);
            offline.track();
            self.maker
                .check(&offline)
                .map_err(|error| Failure::new(error).within("check"))?;
            self.known.note_clean(offline.take_footprint());
        }
        Ok(())
    }

    fn mount(&self, world: &SimWorld) -> Result<M::System, Failure> {
        let mounted = self.maker.mount(world);
        mounted.map_err(|error| Failure::new(error).within("mount"))
    }
}
