//! One life of a growing pool: a start, work that no cut disturbs, and every cut that could have
//! disturbed it.

use std::rc::Rc;

use super::past::{Begun, Geometries, Past};
use crate::engine::{EngineMaker, EngineSystem};
use crate::model::{Model, OpId};
use crate::sim::driver::{Driver, Manners};
use crate::sim::judge::judge;
use crate::sim::{Failure, Report};
use crate::system::{Maker, System};
use crate::workload::Action;
use crate::world::{Cut, CutPoint, End, Images, Keep};
use crate::{Seed, SimWorld};

/// Cuts that are remembered of the work of a life.
const POINTS_MAX: usize = 4_000;

/// What all lives of a pool have in common.
#[derive(Clone, Copy)]
pub(super) struct Setting {
    pub(super) maker: EngineMaker,
    pub(super) seed: Seed,
    pub(super) reactors: usize,
    pub(super) trace_lines: usize,
}

/// What is done in a life.
pub(super) trait Work {
    /// The first part, whose cuts are not remembered.
    fn prepare(
        &mut self,
        _world: &SimWorld,
        _driver: &mut Driver<'_, EngineSystem>,
    ) -> Result<(), Failure> {
        Ok(())
    }

    /// The next thing to ask.
    fn next(&mut self, world: &SimWorld, model: &Model) -> Option<Action>;
}

/// A list of actions.
pub(super) struct Listed(std::vec::IntoIter<Action>);

impl Listed {
    pub(super) fn new(actions: Vec<Action>) -> Listed {
        Listed(actions.into_iter())
    }
}

impl Work for Listed {
    fn next(&mut self, _world: &SimWorld, _model: &Model) -> Option<Action> {
        self.0.next()
    }
}

/// A life that is over.
pub(super) struct Lived {
    pub(super) past: Rc<Past>,
    /// Cuts of the start, and of the work; each with the number of the write at which the world
    /// stops.
    pub(super) start: Vec<(u64, CutPoint)>,
    pub(super) work: Vec<(u64, CutPoint)>,
    /// The start left out operations on what came too late.
    pub(super) has_gaps: bool,
    /// The consistency point that the start found, in a pool without journal.
    pub(super) found_cp: Option<u64>,
    pub(super) report: Report,
}

impl Lived {
    /// What is left if nothing that was not durable is kept.
    pub(super) fn end(&self) -> Begun {
        let (at, point) = self.work.last().expect("the end is one");
        Begun {
            images: point.images(Cut::whole(Keep::Nothing)),
            at: *at,
            past: self.past.clone(),
        }
    }
}

impl Setting {
    /// A new pool of about `bytes`.
    pub(super) fn begin(&self, bytes: u64) -> Result<Begun, Failure> {
        let world = SimWorld::new(self.seed, self.reactors, &self.maker.devices(bytes));
        self.maker
            .format(&world)
            .map_err(|error| Failure::new(error).within("format"))?;
        let base = self.mount(&world)?.geometry().expect("an engine tells");
        let past = Past {
            model: Model::default(),
            since: OpId(0),
            geometries: Geometries {
                base,
                records: Vec::new(),
            },
        };
        Ok(Begun {
            images: world.after_cut(Cut::whole(Keep::Nothing)),
            at: world.writes() + 1,
            past: Rc::new(past),
        })
    }

    pub(super) fn mount(&self, world: &SimWorld) -> Result<EngineSystem, Failure> {
        let mounted = self.maker.mount(world);
        mounted.map_err(|error| Failure::new(error).within("mount"))
    }

    pub(super) fn restart(&self, images: &Images) -> SimWorld {
        let world = SimWorld::restart(images.clone(), self.seed, self.reactors);
        world.trace(self.trace_lines);
        world
    }

    /// Lives one life.
    pub(super) fn live(
        &self,
        begun: &Begun,
        manners: Manners,
        work: &mut dyn Work,
    ) -> Result<Lived, Failure> {
        let world = self.restart(&begun.images);
        self.live_in(&world, begun, manners, work)
            .map_err(|mut failure| {
                failure.trace = world.take_trace();
                failure
            })
    }

    fn live_in(
        &self,
        world: &SimWorld,
        begun: &Begun,
        manners: Manners,
        work: &mut dyn Work,
    ) -> Result<Lived, Failure> {
        world.watch_cuts(1, POINTS_MAX);
        let mut system = self.mount(world)?;
        let base = system.geometry().expect("an engine tells");
        let possible = begun.past.geometries.possible_at(begun.at);
        if !possible.contains(&base) {
            return Err(Failure::new(format!(
                "Growth: {base:?}, not of {possible:?}"
            )));
        }
        let (before, has_gaps) = (system.committed_cp(), system.has_gaps());
        let found_cp = match system.recovery() {
            None => system.recovered_cp(),
            Some(_) => None,
        };
        let mut model = judge(world, &mut system, &begun.past.model, begun.at)?;
        model.set_writes(world.writes());
        let start = points(world);
        let mut driver = Driver::new(world, system, &mut model, manners, self.seed.0);
        work.prepare(world, &mut driver)
            .map_err(|failure| failure.within("preparing"))?;
        let since = driver.model().next_op();
        world.watch_cuts(1, POINTS_MAX);
        let end = driver.run(&mut |model| work.next(world, model))?;
        assert_eq!(end, End::Stopped, "no cut disturbs it");
        let mut report = driver.report;
        let after = driver.system().committed_cp();
        report.cps = after.saturating_sub(before);
        let records = driver.system().growths().to_vec();
        drop(driver);
        report.digest = world.digest();
        report.nanos = world.now();
        in_range(world)?;
        let mut all = points(world);
        all.push((world.writes() + 1, world.cut_point()));
        Ok(Lived {
            past: Rc::new(Past {
                model,
                since,
                geometries: Geometries { base, records },
            }),
            start,
            work: all,
            has_gaps,
            found_cp,
            report,
        })
    }
}

/// Returns the cuts that were remembered.
fn points(world: &SimWorld) -> Vec<(u64, CutPoint)> {
    let points = world.take_cuts().into_iter();
    points.map(|point| (point.writes, point)).collect()
}

/// No operation ever reaches beyond the end of a device.
pub(super) fn in_range(world: &SimWorld) -> Result<(), Failure> {
    for device in world.devices() {
        let beyond = world.fault_counts(device).out_of_range;
        if beyond > 0 {
            return Err(Failure::new(format!(
                "Growth: {beyond} operations beyond the end of device {}",
                device.0
            )));
        }
    }
    Ok(())
}
