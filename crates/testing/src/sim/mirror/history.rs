//! Snapshots of a volume come, go and are restored while drives of mirrors break: the client and
//! the states of [`crate::sim::snapshots`], with cuts of everything.
//!
//! `run` lives lives that end in a cut; `everywhere` cuts at each write from the one at which a
//! drive breaks, while scans of deleted snapshots are under way.

use everglade_engine::admin::Change;
use everglade_env::BLOCK_SIZE;

use super::Plan;
use super::draw;
use super::drives::Standing;
use super::life::{BreakPlan, device};
use crate::engine::{EngineMaker, EngineSystem, Opening};
use crate::sim::snapshots::{self, Life, State, Step};
use crate::sim::{Background, Failure, Mirrored, Report};
use crate::system::Maker;
use crate::world::{Breakage, Cut, CutPoint, Images, Keep};
use crate::{Rng, Seed, SimWorld};

const VOLUME: &str = "v";
const BLOCK: u64 = BLOCK_SIZE as u64;
/// Bytes that a pool with snapshots has beyond its plan.
const MORE_BYTES: u64 = 32 << 20;

/// Media with some drives away, and the states that they may hold.
struct Begun {
    images: Images,
    states: Vec<State>,
}

/// Lives with snapshots in which drives break.
pub(super) fn run(seed: Seed, plan: Plan, maker: &EngineMaker) -> Result<Report, Failure> {
    let mut rng = Rng::for_part(seed.0, "mirror history");
    let world = SimWorld::new(
        seed,
        plan.reactors,
        &maker.devices(plan.pool_bytes + MORE_BYTES),
    );
    maker
        .format(&world)
        .map_err(|error| Failure::new(error).within("format"))?;
    let mut begun = Begun {
        images: world.after_cut(Cut::whole(Keep::Nothing)),
        states: Vec::new(),
    };
    let mut report = Report::default();
    for number in 0..plan.lives {
        let setting = Setting {
            seed: seed.nth(number),
            reactors: plan.reactors,
            maker: *maker,
        };
        begun = setting
            .live(begun, number, &mut rng, &mut report)
            .map_err(|failure| failure.within(format!("life {number}")))?;
    }
    Ok(report)
}

/// What lives have in common.
struct Setting {
    seed: Seed,
    reactors: usize,
    maker: EngineMaker,
}

impl Setting {
    fn standing(&self, images: &Images) -> Result<Standing, Failure> {
        let standing = Standing::read(&self.maker, images);
        standing.ok_or_else(|| Failure::new("Mirror: no drive has a superblock"))
    }

    /// Starts, by hand if that is needed.
    fn mount(&self, world: &SimWorld, images: &Images) -> Result<EngineSystem, Failure> {
        let opening = Opening {
            is_degraded: !self.standing(images)?.opens(),
            expected: None,
            ..Opening::default()
        };
        let mounted = self.maker.mount_as(world, &opening);
        mounted.map_err(|error| Failure::new(error).within("mount"))
    }

    /// Lives until the power fails, and judges what is left with some sets of drives. Returns one
    /// of them.
    fn live(
        &self,
        begun: Begun,
        number: u64,
        rng: &mut Rng,
        report: &mut Report,
    ) -> Result<Begun, Failure> {
        let standing = self.standing(&begun.images)?;
        let breaks = draw::breaks(rng, &self.maker, &standing);
        let world = SimWorld::restart(begun.images.clone(), self.seed, self.reactors);
        let system = self.mount(&world, &begun.images)?;
        for it in &breaks {
            world.break_at(
                world.writes() + it.after,
                device(it.drive),
                it.breakage.clone(),
            );
        }
        let mut life = Life::new(&world, system, begun.states);
        let steps = rng.between(10, 80);
        let verdict = work(&mut life, &self.maker, number, steps, rng);
        let Life {
            asker,
            states,
            trace,
            ..
        } = life;
        report.actions += asker.token;
        report.interrupted.count(Background::of(&asker.system));
        report.mirrors[Mirrored::Broken] += u64::from(!breaks.is_empty());
        drop(asker);
        let traced = |failure: Failure| Failure {
            trace: trace.iter().rev().take(40).rev().cloned().collect(),
            ..failure.within(format!("{breaks:?}"))
        };
        verdict.map_err(traced)?;
        report.writes = world.writes();
        report.digest = world.digest();
        report.add_faults(&world);
        let keep = [Keep::Nothing, Keep::Everything, Keep::Random(rng.draw())][rng.index(3)];
        let images = world.after_cut(Cut::whole(keep));
        report.cuts += 1;
        let mut next = None;
        for away in [Vec::new(), drives_of(&breaks)] {
            let images = images.with_away(&away);
            self.settle(&images, &states, report)
                .map_err(|failure| traced(failure.within(format!("without {away:?}"))))?;
            // Whoever starts by hand without what is newest has two pools.
            let (here, whole) = (self.standing(&images)?, images.with_away(&[]));
            let is_fine = here.opens() || here.is_as_new_as(&self.standing(&whole)?);
            if next.is_none() || is_fine && rng.one_in(2) {
                next = Some(images);
            }
        }
        Ok(Begun {
            images: next.expect("the first one is"),
            states,
        })
    }

    /// Checks media, starts from them, and finds one of the states.
    fn settle(
        &self,
        images: &Images,
        states: &[State],
        report: &mut Report,
    ) -> Result<(), Failure> {
        let offline = SimWorld::restart(images.clone(), self.seed, 1);
        self.maker
            .check(&offline)
            .map_err(|error| Failure::new(error).within("check"))?;
        let world = SimWorld::restart(images.clone(), self.seed, self.reactors);
        let mut life = Life::new(&world, self.mount(&world, images)?, states.to_vec());
        snapshots::settle(&mut life)?;
        report.recoveries += 1;
        match life.asker.system.copies().read_elsewhere {
            0 => Ok(()),
            count => Err(Failure::new(format!(
                "Mirror: {count} blocks are wrong on a drive that is used"
            ))),
        }
    }
}

fn drives_of(breaks: &[BreakPlan]) -> Vec<usize> {
    breaks.iter().map(|it| it.drive).collect()
}

/// Finds the state, and works. The power may fail meanwhile.
fn work(
    life: &mut Life<'_>,
    maker: &EngineMaker,
    number: u64,
    steps: u64,
    rng: &mut Rng,
) -> Result<(), Failure> {
    match number {
        0 => _ = begin(life, maker)?,
        _ => snapshots::settle(life)?,
    }
    if rng.one_in(2) {
        let write = life.asker.world.writes() + 1 + rng.below(4 * steps);
        life.asker.world.cut_at_write(write);
    }
    for step in 0..steps {
        let next = snapshots::draw(rng, life.now(), number * 10_000 + step, false);
        if !life.step(next)? {
            return Ok(());
        }
    }
    life.step(Step::Look)?;
    life.asker.world.cut_now();
    Ok(())
}

/// The first life begins with a volume.
fn begin(life: &mut Life<'_>, maker: &EngineMaker) -> Result<bool, Failure> {
    life.states = vec![State::default()];
    life.step(Step::Change(Change::CreateVolume {
        name: VOLUME.to_owned(),
        sync: maker.sync,
    }))
}

/// A drive that breaks while snapshots are taken and deleted.
#[derive(Clone, Debug)]
pub struct Everywhere {
    /// The pool; a small number of `reclaim_regions` makes scans long.
    pub maker: EngineMaker,
    /// Its bytes.
    pub pool_bytes: u64,
    /// The drive.
    pub drive: usize,
    /// Writes until it breaks.
    pub after: u64,
    /// How it breaks.
    pub breakage: Breakage,
}

/// Takes and deletes snapshots while a drive breaks, and judges the cut at each `stride`-th write
/// from then on, with all drives and without the one that broke.
///
/// # Errors
/// A promise was broken.
pub fn everywhere(seed: Seed, plan: &Everywhere, stride: usize) -> Result<Report, Failure> {
    let setting = Setting {
        seed,
        reactors: 1,
        maker: plan.maker,
    };
    let world = SimWorld::new(seed, 1, &plan.maker.devices(plan.pool_bytes));
    plan.maker
        .format(&world)
        .map_err(|error| Failure::new(error).within("format"))?;
    let images = world.after_cut(Cut::whole(Keep::Nothing));
    let mut life = Life::new(&world, setting.mount(&world, &images)?, Vec::new());
    begin(&mut life, &plan.maker)?;
    for step in before() {
        life.step(step)?;
    }
    let broken_at = world.writes() + plan.after;
    world.break_at(broken_at, device(plan.drive), plan.breakage.clone());
    world.watch_cuts(1, usize::MAX);
    let mut entries = vec![Entry {
        states: life.states.clone(),
        asked: 0,
        answered: 0,
    }];
    let mut report = Report::default();
    for step in meanwhile() {
        let asked = world.writes();
        life.step(step)?;
        entries.push(Entry {
            states: life.states.clone(),
            asked,
            answered: world.writes(),
        });
        report.interrupted.count(Background::of(&life.asker.system));
    }
    report.actions = life.asker.token;
    report.writes = world.writes();
    report.mirrors[Mirrored::Broken] += u64::from(world.writes() > broken_at);
    let recorded = life.asker.system.members()[plan.drive];
    if recorded.is_used || recorded.seat.is_current() {
        return Err(Failure::new(format!("Mirror: it broke: {recorded:?}")));
    }
    drop(life);
    let points: Vec<CutPoint> = world.take_cuts();
    let near = points.iter().filter(|point| point.writes >= broken_at);
    for point in near.step_by(stride) {
        let states = possible_at(&entries, point.writes);
        for keep in [Keep::Nothing, Keep::Everything, Keep::Random(point.writes)] {
            let images = point.images(Cut::whole(keep));
            report.cuts += 1;
            for away in [Vec::new(), vec![plan.drive]] {
                setting
                    .settle(&images.with_away(&away), &states, &mut report)
                    .map_err(|failure| {
                        let at = point.writes;
                        failure.within(format!("cut at write {at}, {keep:?}, without {away:?}"))
                    })?;
            }
        }
    }
    Ok(report)
}

/// States after a step, the durable one first.
struct Entry {
    states: Vec<State>,
    /// Writes of the world at its request, and at its answer.
    asked: u64,
    answered: u64,
}

/// States that a cut at write `at` may leave. A step that was asked for may have happened; the one
/// before it has been answered.
fn possible_at(entries: &[Entry], at: u64) -> Vec<State> {
    let begun = entries.iter().rposition(|entry| entry.asked < at);
    let begun = begun.unwrap_or(0);
    let mut states = match begun.checked_sub(1) {
        Some(before) if at <= entries[begun].answered => entries[before].states.clone(),
        _ => Vec::new(),
    };
    states.extend(entries[begun].states.iter().cloned());
    states
}

fn create_lun(blocks: u64) -> Step {
    Step::Change(Change::CreateLun {
        volume: VOLUME.to_owned(),
        name: "l".to_owned(),
        size_bytes: blocks * BLOCK,
    })
}

fn take(name: &str) -> Step {
    Step::Change(Change::CreateSnapshot {
        volume: VOLUME.to_owned(),
        name: name.to_owned(),
    })
}

fn delete(name: &str) -> Step {
    Step::Change(Change::DeleteSnapshot {
        volume: VOLUME.to_owned(),
        name: name.to_owned(),
    })
}

fn write(first: u64, count: u64, fill: u64) -> Step {
    Step::Write("l".to_owned(), first, count, fill)
}

/// Snapshots that share blocks and have others of their own.
fn before() -> Vec<Step> {
    let mut steps = vec![create_lun(600), write(0, 200, 1_000)];
    for number in 0..4 {
        steps.push(take(&format!("s{number}")));
        steps.push(write(number * 40, 80, 2_000 + number * 1_000));
    }
    steps.push(Step::ConsistencyPoint);
    steps
}

/// Deletions, whose scans take many consistency points; writes and another snapshot beside them.
fn meanwhile() -> Vec<Step> {
    let mut steps = vec![delete("s1"), write(10, 30, 9_000), delete("s2")];
    steps.push(Step::Flush("l".to_owned()));
    for number in 0..6 {
        steps.push(Step::Rest(100_000_000));
        steps.push(write(300 + number * 8, 8, 10_000 + number * 100));
        steps.push(Step::ConsistencyPoint);
    }
    steps.push(take("t"));
    steps.push(delete("s0"));
    for _ in 0..4 {
        steps.push(Step::Rest(100_000_000));
        steps.push(Step::ConsistencyPoint);
    }
    steps.push(Step::Look);
    steps
}
