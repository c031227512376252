//! One life of a pool of mirrors: a start, work in which drives break, and every cut that could
//! have disturbed it.

use std::rc::Rc;

use everglade_env::DeviceId;

use super::drives::{Standing, certain_epoch};
use super::epochs::Epochs;
use crate::engine::{EngineMaker, EngineSystem, Opening, ReplacementRecord};
use crate::model::{Model, OpId};
use crate::sim::driver::{Driver, Errors, Manners};
use crate::sim::judge::judge;
use crate::sim::{Failure, Mirrored, Report};
use crate::system::{Admin, Maker, System};
use crate::workload::Action;
use crate::world::{Breakage, Cut, CutPoint, End, Fault, Images, Keep};
use crate::{Seed, SimWorld};

/// Cuts that are remembered of the work of a life: all of them.
const POINTS_MAX: usize = 20_000;
/// Writes of a life after which nothing more is asked.
const WRITES_MAX: u64 = 3_000;

/// What all lives of a pool have in common.
#[derive(Clone, Copy)]
pub(super) struct Setting {
    pub(super) maker: EngineMaker,
    pub(super) seed: Seed,
    pub(super) reactors: usize,
    pub(super) trace_lines: usize,
}

/// What is known of a life: enough to judge what any cut of it leaves.
pub(super) struct Past {
    pub(super) model: Model,
    /// The first operation whose blocks are all looked at; older data is sampled.
    pub(super) since: OpId,
}

/// Media in which a life begins: those of a cut at write `at` of a past one, with some drives away.
#[derive(Clone)]
pub(super) struct Begun {
    pub(super) images: Images,
    pub(super) at: u64,
    pub(super) past: Rc<Past>,
    /// It does not start without being told to.
    pub(super) is_by_hand: bool,
    /// Drives that began to catch up in some life, and may not have everything: alone they may have
    /// blocks of two times.
    pub(super) mixed: Vec<usize>,
}

/// A drive that breaks.
#[derive(Clone, Debug)]
pub(super) struct BreakPlan {
    pub(super) drive: usize,
    /// Writes of the world until then.
    pub(super) after: u64,
    pub(super) breakage: Breakage,
}

/// What is done in a life.
pub(super) struct Script<'a> {
    pub(super) breaks: Vec<BreakPlan>,
    /// Their writes are counted from the beginning of the start, and not from its end.
    pub(super) is_early: bool,
    pub(super) next: &'a mut dyn FnMut(&Model) -> Option<Action>,
}

/// A life that is over.
pub(super) struct Lived {
    pub(super) past: Rc<Past>,
    /// Cuts of the start, and of the work; each with the number of the write at which the world
    /// stops.
    pub(super) start: Vec<(u64, CutPoint)>,
    pub(super) work: Vec<(u64, CutPoint)>,
    /// The epochs that all usable drives know, in the course of the work.
    pub(super) epochs: Epochs,
    /// What the start found: the media of a cut of the life before.
    pub(super) found: Found,
    /// The write at which the first drive broke.
    pub(super) broken_at: Option<u64>,
    /// Drives that were behind and there, in this life or before, and those that came in the life.
    pub(super) returned: Vec<usize>,
    /// Drives that were replaced, and those that came for them.
    pub(super) replacements: Vec<ReplacementRecord>,
    /// The start left out operations on what came too late.
    pub(super) has_gaps: bool,
    /// The consistency point that the start found, in a pool without journal.
    pub(super) found_cp: Option<u64>,
    pub(super) report: Report,
    /// The last events.
    trace: Vec<String>,
}

/// What is known of the media in which a life began.
pub(super) struct Found {
    pub(super) past: Rc<Past>,
    pub(super) at: u64,
    /// The newest consistency point.
    pub(super) cp: u64,
}

impl Lived {
    /// A failure of what a cut of it left, with the events of the life before those of the start.
    pub(super) fn traced(&self, failure: Failure) -> Failure {
        let cut = ["- the power failed somewhere above".to_owned()];
        let life = self.trace.iter().cloned().chain(cut);
        Failure {
            trace: life.chain(failure.trace).collect(),
            what: failure.what,
        }
    }

    /// What is left with all drives if nothing that was not durable is kept.
    pub(super) fn end(&self) -> Begun {
        let (at, point) = self.work.last().expect("the end is one");
        Begun {
            images: point.images(Cut::whole(Keep::Nothing)),
            at: *at,
            past: self.past.clone(),
            is_by_hand: false,
            mixed: self.returned.clone(),
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
        let past = Past {
            model: Model::default(),
            since: OpId(0),
        };
        Ok(Begun {
            images: world.after_cut(Cut::whole(Keep::Nothing)),
            at: world.writes() + 1,
            past: Rc::new(past),
            is_by_hand: false,
            mixed: Vec::new(),
        })
    }

    pub(super) fn restart(&self, images: &Images) -> SimWorld {
        let world = SimWorld::restart(images.clone(), self.seed, self.reactors);
        world.trace(self.trace_lines);
        world
    }

    /// Lives one life. With [`Errors::Never`], clients must not notice the drives that break.
    pub(super) fn live(
        &self,
        begun: &Begun,
        manners: Manners,
        script: Script<'_>,
    ) -> Result<Lived, Failure> {
        let world = self.restart(&begun.images);
        self.live_in(&world, begun, manners, script)
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
        mut script: Script<'_>,
    ) -> Result<Lived, Failure> {
        let before = Standing::read(&self.maker, &begun.images).expect("it was judged");
        let is_mixed = |drive: &usize| {
            let is_back = before.is_there(*drive) && before.is_behind(*drive);
            is_back || begun.mixed.contains(drive) && !before.is_usable(*drive)
        };
        let mixed = (0..before.drives())
            .filter(is_mixed)
            .collect::<Vec<usize>>();
        let mut broken_at = schedule(world, &script.breaks, script.is_early);
        world.watch_cuts(1, POINTS_MAX);
        let opening = Opening {
            is_degraded: begun.is_by_hand,
            expected: None,
            ..Opening::default()
        };
        let mounted = self.maker.mount_as(world, &opening);
        let mut system = mounted.map_err(|error| Failure::new(error).within("mount"))?;
        let (opened_cp, has_gaps) = (system.committed_cp(), system.has_gaps());
        let found_cp = match system.recovery() {
            None => system.recovered_cp(),
            Some(_) => None,
        };
        let mut model = judge(world, &mut system, &begun.past.model, begun.at)?;
        model.set_writes(world.writes());
        let start = points(world);
        broken_at = broken_at.or(schedule(world, &script.breaks, !script.is_early));
        world.watch_cuts(1, POINTS_MAX);
        let since = model.next_op();
        let mut driver = Driver::new(world, system, &mut model, manners, self.seed.0);
        let last = world.writes() + WRITES_MAX;
        let next = &mut script.next;
        let end = driver.run(&mut |model| match world.writes() < last {
            true => next(model),
            false => None,
        })?;
        assert_eq!(end, End::Stopped, "no cut disturbs it");
        if manners.errors == Errors::Never {
            expect_recorded(world, &mut driver, &script, &before)?;
        } else {
            expect_errors_late(world, &driver, &script)?;
        }
        let mut report = driver.report;
        let replacements = driver.system().replacements().to_vec();
        // A replacement is under way for as long as a loss.
        let asked = replacements.iter().map(|it| it.asked + 1);
        broken_at = broken_at.into_iter().chain(asked).min();
        let after = driver.system().committed_cp();
        report.cps = after.saturating_sub(opened_cp);
        let copies = driver.system().copies();
        report.mirrors[Mirrored::ReadElsewhere] += copies.read_elsewhere;
        report.mirrors[Mirrored::Rewritten] += copies.rewritten;
        drop(driver);
        report.digest = world.digest();
        report.nanos = world.now();
        let mut work = points(world);
        assert!(work.len() < POINTS_MAX, "all of its cuts are known");
        work.push((world.writes() + 1, world.cut_point()));
        let is_reached = |at: &u64| *at <= world.writes();
        Ok(Lived {
            epochs: Epochs::of(&work, |point| {
                let images = point.images(Cut::whole(Keep::Nothing));
                certain_epoch(&self.maker, &images)
            }),
            past: Rc::new(Past { model, since }),
            found: Found {
                past: begun.past.clone(),
                at: begun.at,
                cp: before.cp,
            },
            start,
            work,
            broken_at: broken_at.filter(is_reached),
            returned: mixed
                .into_iter()
                .chain(replacements.iter().map(|it| it.new.0 as usize))
                .collect(),
            replacements,
            has_gaps,
            found_cp,
            report,
            trace: world.take_trace(),
        })
    }
}

/// Lets drives break, if it is time to. Returns the write at which the first one does.
fn schedule(world: &SimWorld, breaks: &[BreakPlan], is_time: bool) -> Option<u64> {
    if !is_time {
        return None;
    }
    let now = world.writes();
    for BreakPlan {
        drive,
        after,
        breakage,
    } in breaks
    {
        world.break_at(now + after, device(*drive), breakage.clone());
    }
    breaks.iter().map(|it| now + it.after).min()
}

pub(super) fn device(drive: usize) -> DeviceId {
    DeviceId(u32::try_from(drive).expect("few drives"))
}

/// True if a device refused a change: the engine knows that it failed.
fn has_failed(world: &SimWorld, drive: usize) -> bool {
    let met = world.fault_counts(device(drive)).met;
    let faults = [Fault::WriteError, Fault::FlushError, Fault::Vanished];
    faults.iter().any(|fault| met[*fault] > 0)
}

/// One more consistency point, after which drives that failed are recorded as behind, and all
/// others are used.
fn expect_recorded(
    world: &SimWorld,
    driver: &mut Driver<'_, EngineSystem>,
    script: &Script<'_>,
    before: &Standing,
) -> Result<(), Failure> {
    // Blocking calls of a start may fail, and the drive be lost later.
    let failed: Vec<bool> = (0..before.drives())
        .map(|drive| !script.is_early && has_failed(world, drive))
        .collect();
    let committed = driver.system().committed_cp();
    let mut last = Some(Action::Admin(Admin::CreateVolume {
        name: format!("last{}", world.writes()),
    }));
    driver
        .run(&mut |_| last.take())
        .map_err(|failure| failure.within("the last change"))?;
    let system = driver.system();
    if let Some(reason) = system.failure().or_else(|| system.read_only()) {
        return Err(Failure::new(format!(
            "Mirror: each mirror has a drive, and the aggregate is halted: {reason}"
        )));
    }
    // Without space there is none. A drive that was behind and is back may have caught up.
    let is_new = system.committed_cp() > committed;
    let members = system.members();
    let replacements = system.replacements().to_vec();
    for (index, member) in members.into_iter().enumerate() {
        let device = member.device.map(|device| device.0 as usize);
        let Some(drive) = device.or(before.drive_of(index)) else {
            continue;
        };
        if drive >= before.drives() {
            let is_made = |it: &&ReplacementRecord| it.is_made && it.seat == index;
            let last = replacements.iter().rfind(is_made);
            if last.is_none_or(|it| it.new.0 as usize != drive) {
                return Err(Failure::new(format!(
                    "Mirror: drive {drive} has seat {index} without an answer"
                )));
            }
            if member.is_used && is_new && !member.seat.is_current() {
                return Err(Failure::new(format!(
                    "Mirror: new drive {drive} is used, and is behind: {member:?}"
                )));
            }
            driver.report.mirrors[Mirrored::CaughtUp] += u64::from(member.seat.is_current());
            continue;
        }
        if replacements.iter().any(|it| it.seat == index) {
            // It was taken out, and not replaced; or not even that.
            continue;
        }
        let (was_usable, seat) = (before.is_usable(drive), member.seat);
        let is_broken = script.breaks.iter().any(|it| it.drive == drive);
        let is_back = before.is_there(drive) && before.is_behind(drive);
        if is_back {
            driver.report.mirrors[Mirrored::Regained] += u64::from(seat.is_current());
            continue;
        }
        if member.is_used && (!was_usable || is_new && failed[drive]) {
            return Err(Failure::new(format!(
                "Mirror: drive {drive} is used, though it was away, behind or failed: {seat:?}"
            )));
        }
        if seat.is_current() && is_new && (!was_usable || failed[drive]) {
            return Err(Failure::new(format!(
                "Mirror: drive {drive} is not recorded as behind: {seat:?}"
            )));
        }
        if !is_broken && was_usable && !(member.is_used && seat.is_current()) {
            return Err(Failure::new(format!(
                "Mirror: drive {drive} is good and not used: {seat:?}"
            )));
        }
    }
    Ok(())
}

/// Clients may get errors after the last drive has broken, not before.
fn expect_errors_late(
    world: &SimWorld,
    driver: &Driver<'_, EngineSystem>,
    script: &Script<'_>,
) -> Result<(), Failure> {
    let has_errors = driver.poisoned || driver.report.errors > 0;
    let has_met = |it: &BreakPlan| {
        let met = world.fault_counts(device(it.drive)).met;
        has_failed(world, it.drive) || met[Fault::ReadError] > 0
    };
    if has_errors && !script.breaks.iter().all(has_met) {
        return Err(Failure::new(
            "Mirror: clients got errors before the last drive was broken",
        ));
    }
    Ok(())
}

/// Returns the cuts that were remembered.
fn points(world: &SimWorld) -> Vec<(u64, CutPoint)> {
    let points = world.take_cuts().into_iter();
    points.map(|point| (point.writes, point)).collect()
}
