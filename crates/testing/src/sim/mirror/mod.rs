//! Mirrors: drives break while clients work, lie, are away at a start, and come back (decision
//! 0041).
//!
//! A life is a start, some work in which drives vanish or fail, and a choice among all of its power
//! cuts. Cuts from the write at which a drive broke to the one that recorded it, and just after it,
//! are judged in several ways, and each with several sets of drives: all of them, without those
//! that broke, and a random one. One of the media is lived on with. The promises are:
//!
//! 1. Clients notice nothing, as long as each mirror has a drive: each answer is right, and none is
//!    an error.
//! 2. Whatever drives are there after a cut: what was acknowledged is there, or the start is
//!    refused. Drives that lack something are opened by hand at most; then they have what they had
//!    when the others went on without them.
//! 3. The aggregate starts by itself if more than half of the drives that are not known to be
//!    behind are there, or if no other is missed, and each mirror has a drive; by hand, if each
//!    mirror has a drive. Otherwise it is refused, and nothing is written. `drives` reads this
//!    from the media with nothing of the engine.
//! 4. A drive that failed or is away is recorded as behind by the next consistency point. A drive
//!    that is behind is not used before it is recorded to have caught up.
//! 5. A drive that is used has all blocks that are in use: nothing is read from another drive.
//! 6. If all drives of a mirror break, clients get errors and never wrong data, and all that was
//!    acknowledged is there when the drives are back.
//! 7. Wrong content on one drive is no wrong answer (`lying`).
//! 8. Snapshots and their deletions go on ([`history`]).
//! 9. The offline check finds all of the media clean.
//! 10. Drives are replaced while all of this happens. A new drive is not used before it has caught
//!     up, a drive that was replaced is never used again, and a cut leaves the one or the other
//!     in the seat. A new drive that breaks is no loss.
//!
//! [`everywhere`] lets named drives break, cuts at each write, and tries all sets of drives.

mod draw;
mod drives;
mod epochs;
pub mod history;
mod judging;
mod life;
mod lying;

use everglade_engine::ParityPlan;

use super::driver::{Errors, Manners};
use super::growth::{evenly, first_actions, write};
use super::{Failure, Mirrored, Report};
use crate::engine::{EngineMaker, ReplacementRecord};
use crate::system::{Admin, Maker, Replacement};
use crate::workload::{Action, Workload};
use crate::world::{Breakage, Cut, CutPoint, Grain, Keep};
use crate::{Rng, Seed};
use draw::{Drawn, SCALE};
use drives::{Standing, certain_epoch};
use epochs::Epochs;
use judging::Judging;
use life::{Begun, BreakPlan, Lived, Script, Setting};

/// Most cuts of a loss that are judged, of a start, and of the rest of a life.
const WINDOW_MAX: usize = 12;
const START_MAX: usize = 3;
const REST_MAX: usize = 3;
/// Writes after a loss was recorded that count as its own; and after a drive broke, if nothing was
/// recorded.
const TAIL: u64 = 16;
const UNRECORDED_TAIL: u64 = 40;

/// The size of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Reactors.
    pub reactors: usize,
    /// Bytes of the pool; each mirror has more.
    pub pool_bytes: u64,
    /// Lives.
    pub lives: u64,
    /// Lines of trace kept for a failure.
    pub trace_lines: usize,
}

impl Plan {
    /// The plan a seed stands for.
    #[must_use]
    pub fn of_seed(seed: Seed) -> Plan {
        let mut rng = Rng::for_part(seed.0, "mirror plan");
        Plan {
            reactors: [1, 1, 2, 3][rng.index(4)],
            pool_bytes: rng.between(8, 14) << 20,
            lives: rng.between(2, 4),
            trace_lines: 0,
        }
    }
}

/// Runs a seed.
///
/// # Errors
/// A promise was broken.
pub fn run(seed: Seed, plan: Plan, maker: &EngineMaker) -> Result<Report, Failure> {
    let (maker, scene, mut rng) = draw_scene(seed, maker);
    let setting = Setting {
        maker,
        seed,
        reactors: plan.reactors,
        trace_lines: plan.trace_lines,
    };
    match scene {
        Scene::Lying => {
            lying::run(&setting, plan, &mut rng).map_err(|failure| failure.within("lying"))
        }
        Scene::History => {
            history::run(seed, plan, &maker).map_err(|failure| failure.within("history"))
        }
        Scene::Breaking => breaking(&setting, plan, &mut rng),
    }
}

/// Returns a maker with parity groups, drawn from a seed.
#[must_use]
pub fn with_parity(seed: Seed, maker: &EngineMaker) -> EngineMaker {
    let mut rng = Rng::for_part(seed.0, "parity");
    let shapes = [
        (2, 1),
        (3, 1),
        (3, 1),
        (4, 2),
        (4, 2),
        (5, 2),
        (5, 3),
        (7, 3),
    ];
    let (drives, parity) = shapes[rng.index(shapes.len())];
    EngineMaker {
        parity: Some(ParityPlan { drives, parity }),
        journal_device: false,
        ..*maker
    }
}

/// The shape of a seed with a mirror or a parity group instead of each device.
#[must_use]
pub fn in_groups(seed: Seed, maker: &EngineMaker) -> EngineMaker {
    let mut rng = Rng::for_part(seed.0, "groups");
    match rng.one_in(4) {
        true => EngineMaker {
            copies: [2, 3][rng.index(2)],
            ..*maker
        },
        false => with_parity(seed, maker),
    }
}

/// What happens in the lives of a seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scene {
    /// A drive lies.
    Lying,
    /// Drives break in a history of snapshots.
    History,
    /// Drives break.
    Breaking,
}

impl Scene {
    /// Returns the scene of a seed, for tests of one of them.
    #[must_use]
    pub fn of_seed(seed: Seed, maker: &EngineMaker) -> Scene {
        draw_scene(seed, maker).1
    }
}

fn draw_scene(seed: Seed, maker: &EngineMaker) -> (EngineMaker, Scene, Rng) {
    let mut rng = Rng::for_part(seed.0, "mirror");
    let has_log = maker.journal_half_blocks > 0 || rng.one_in(2);
    let journal_half_blocks = match has_log {
        true => maker.journal_half_blocks.min(300),
        false => [64, 128][rng.index(2)],
    };
    let has_parity = maker.parity.is_some();
    let maker = EngineMaker {
        devices: [1, 1, 2][rng.index(3)],
        copies: match has_parity {
            true => 1,
            false => [2, 2, 3][rng.index(3)],
        },
        area_blocks: 256,
        journal_half_blocks,
        journal_device: journal_half_blocks > 0 && !has_parity && rng.one_in(8),
        reclaim_regions: [1, 2, 5, maker.reclaim_regions][rng.index(4)],
        ..*maker
    };
    let scene = match rng.below(8) {
        0 => Scene::Lying,
        1 => Scene::History,
        _ => Scene::Breaking,
    };
    (maker, scene, rng)
}

/// Lives in which drives break.
fn breaking(setting: &Setting, plan: Plan, rng: &mut Rng) -> Result<Report, Failure> {
    let mut workload = Workload::new(setting.seed.0, SCALE);
    let mut begun = setting.begin(plan.pool_bytes)?;
    let mut report = Report::default();
    for number in 0..plan.lives {
        let setting = Setting {
            seed: setting.seed.nth(number),
            ..*setting
        };
        let within = |failure: Failure| failure.within(format!("life {number}"));
        begun = live(&setting, &begun, rng, &mut workload, &mut report).map_err(within)?;
        // Whoever was away may be back.
        if rng.one_in(2) {
            begun = with_all(&setting, &begun);
        }
    }
    if rng.one_in(2) {
        break_too_many(setting, &begun, rng, &mut workload, &mut report)
            .map_err(|failure| failure.within("too many"))?;
    }
    Ok(report)
}

/// The same with all drives.
fn with_all(setting: &Setting, begun: &Begun) -> Begun {
    let images = begun.images.with_away(&[]);
    let standing = Standing::read(&setting.maker, &images).expect("it has superblocks");
    Begun {
        is_by_hand: !standing.opens(),
        images,
        ..begun.clone()
    }
}

fn manners(setting: &Setting, rng: &mut Rng) -> Manners {
    Manners {
        depth: [1, 4, 16][rng.index(3)],
        changes_are_durable: setting.maker.promises().changes_are_durable,
        ..Manners::STRICT
    }
}

/// Lives a life, judges its cuts, and returns what the next one begins with.
fn live(
    setting: &Setting,
    begun: &Begun,
    rng: &mut Rng,
    workload: &mut Workload,
    report: &mut Report,
) -> Result<Begun, Failure> {
    let standing = Standing::read(&setting.maker, &begun.images).expect("it was judged");
    let breaks = draw::breaks(rng, &setting.maker, &standing);
    let actions = rng.between(10, 90);
    let replaced = draw::replacements(rng, &standing, &breaks, actions);
    let scrub = rng.one_in(3).then(|| rng.below(actions));
    let work = Drawn::new(workload, actions).replacing(replaced);
    let mut work = work.scrubbing(scrub);
    let script = Script {
        breaks: breaks.clone(),
        is_early: rng.one_in(5),
        next: &mut |model| work.next(model),
    };
    let manners = manners(setting, rng);
    let lived = setting
        .live(begun, manners, script)
        .map_err(|failure| failure.within(format!("{breaks:?}")))?;
    count(&standing, &breaks, &lived, report);
    judge_start(setting, begun, &lived, rng, report)
        .map_err(|failure| failure.within(format!("{breaks:?}")))?;
    let judging = Judging::of_work(setting, &lived);
    let mut next = with_all(setting, &lived.end());
    let mut seen = 0;
    for (at, point) in chosen(&lived) {
        let is_near = is_near(&lived, *at);
        count_cut(&lived, *at, report);
        for cut in ways(rng, point) {
            let images = point.images(cut);
            report.cuts += 1;
            report.add_losses(images.losses);
            for away in sets(rng, images.devices(), &breaks, &lived) {
                let images = images.with_away(&away);
                let left = judging.judge(*at, &images, report);
                let left = left
                    .map_err(|failure| failure.within(format!("{breaks:?}, {cut:?}")))
                    .map_err(|failure| lived.traced(failure))?;
                let Some(left) = left.filter(|_| is_near) else {
                    continue;
                };
                // Whoever starts by hand without what is newest has two pools.
                let whole = Standing::read(&setting.maker, &images.with_away(&[]));
                let is_newest = whole.is_some_and(|whole| left.standing.is_as_new_as(&whole));
                let opens = left.standing.opens();
                if left.is_stale || !left.standing.suffices() || !opens && !is_newest {
                    continue;
                }
                seen += 1;
                if rng.below(seen) == 0 {
                    next = Begun {
                        images,
                        at: *at,
                        past: lived.past.clone(),
                        is_by_hand: !opens,
                        mixed: lived.returned.clone(),
                    };
                }
            }
        }
    }
    Ok(next)
}

/// All drives of a mirror break. Afterwards all of them are back, and nothing is lost.
fn break_too_many(
    setting: &Setting,
    begun: &Begun,
    rng: &mut Rng,
    workload: &mut Workload,
    report: &mut Report,
) -> Result<(), Failure> {
    let standing = Standing::read(&setting.maker, &begun.images).expect("it was judged");
    let breaks = draw::too_many(rng, &standing);
    let mut work = Drawn::new(workload, rng.between(20, 120));
    let script = Script {
        breaks: breaks.clone(),
        is_early: false,
        next: &mut |model| work.next(model),
    };
    let manners = Manners {
        errors: Errors::End,
        ..manners(setting, rng)
    };
    let within = |failure: Failure| failure.within(format!("{breaks:?}"));
    let lived = setting.live(begun, manners, script).map_err(within)?;
    report.mirrors[Mirrored::TooMany] += u64::from(lived.report.errors > 0);
    report.add(&lived.report);
    let judging = Judging::of_work(setting, &lived);
    let away: Vec<usize> = (0..standing.drives())
        .filter(|drive| !standing.is_there(*drive))
        .collect();
    for (at, point) in evenly(lived.work.iter().collect(), WINDOW_MAX) {
        for cut in ways(rng, point) {
            let images = point.images(cut).with_away(&away);
            report.cuts += 1;
            report.add_losses(images.losses);
            judging
                .judge(*at, &images, report)
                .map_err(|failure| within(failure.within(format!("{cut:?}"))))
                .map_err(|failure| lived.traced(failure))?;
        }
    }
    Ok(())
}

/// Counts what was done, and what it proves.
fn count(standing: &Standing, breaks: &[BreakPlan], lived: &Lived, report: &mut Report) {
    report.add(&lived.report);
    report.writes = lived.report.writes;
    report.digest = lived.report.digest;
    if lived.broken_at.is_none() || breaks.is_empty() {
        return;
    }
    let twice = |one: &BreakPlan| {
        let group = standing.group(one.drive);
        let of_group = breaks.iter();
        of_group
            .filter(|it| standing.group(it.drive) == group)
            .count()
            > 1
    };
    report.mirrors[match breaks.iter().any(twice) {
        true => Mirrored::BrokenTwice,
        false => Mirrored::Broken,
    }] += 1;
}

fn count_cut(lived: &Lived, at: u64, report: &mut Report) {
    if lived.broken_at.is_none_or(|broken| at < broken) {
        return;
    }
    let is_in_replacement = |it: &ReplacementRecord| {
        let next = lived.epochs.next_change(it.asked);
        at > it.asked && next.is_none_or(|next| at < next)
    };
    let is_any = lived.replacements.iter().any(is_in_replacement);
    report.mirrors[Mirrored::CutReplacement] += u64::from(is_any);
    let is_recorded = lived.epochs.at(at) > lived.epochs.first();
    report.mirrors[match is_recorded {
        true => Mirrored::CutAfter,
        false => Mirrored::CutBefore,
    }] += 1;
}

/// True if a cut at a write is one of a loss, or soon after it was recorded.
fn is_near(lived: &Lived, at: u64) -> bool {
    let Some(broken) = lived.broken_at else {
        return false;
    };
    let last = lived
        .epochs
        .last_change()
        .map_or(UNRECORDED_TAIL, |last| last.saturating_sub(broken) + TAIL);
    (broken..=broken + last).contains(&at)
}

/// Returns the cuts of a life's work that are judged.
fn chosen(lived: &Lived) -> Vec<&(u64, CutPoint)> {
    let work = lived.work.iter();
    let (near, rest): (Vec<_>, Vec<_>) = work.partition(|point| is_near(lived, point.0));
    let mut all = evenly(near, WINDOW_MAX);
    all.extend(evenly(rest, REST_MAX));
    all.sort_by_key(|point| point.0);
    all
}

/// Draws ways of a cut: nothing and everything survive, or some of it, torn or not.
fn ways(rng: &mut Rng, point: &CutPoint) -> Vec<Cut> {
    let mut ways = vec![Cut::whole(Keep::Nothing)];
    let count = point.unflushed();
    if count > 0 {
        ways.push(Cut::whole(Keep::Everything));
        let keep = match rng.below(3) {
            0 => Keep::First(rng.index(count) + 1),
            1 => Keep::Only(rng.index(count)),
            _ => Keep::Random(rng.draw()),
        };
        let tear = [None, Some(Grain::Block), Some(Grain::Sector)][rng.index(3)];
        ways.push(Cut { keep, tear });
    }
    ways
}

/// Draws sets of drives that are away at a start: none, those that broke or were replaced, one of
/// the others, some.
fn sets(rng: &mut Rng, drives: usize, breaks: &[BreakPlan], lived: &Lived) -> Vec<Vec<usize>> {
    let replaced = lived.replacements.iter();
    let replaced = replaced.filter_map(|it| Some(it.old?.0 as usize));
    let broken = breaks.iter().map(|it| it.drive).chain(replaced);
    let mut broken: Vec<usize> = broken.filter(|drive| *drive < drives).collect();
    broken.sort_unstable();
    broken.dedup();
    let some = match rng.one_in(2) {
        true => vec![rng.index(drives)],
        false => (0..drives).filter(|_| rng.one_in(2)).collect(),
    };
    let mut all = vec![Vec::new(), broken, some];
    all.sort_unstable();
    all.dedup();
    all
}

/// Judges cuts of the start of a life.
fn judge_start(
    setting: &Setting,
    begun: &Begun,
    lived: &Lived,
    rng: &mut Rng,
    report: &mut Report,
) -> Result<(), Failure> {
    if lived.start.is_empty() {
        return Ok(());
    }
    let standing = Standing::read(&setting.maker, &begun.images).expect("it was judged");
    let there: Vec<usize> = (0..standing.drives())
        .filter(|drive| !standing.is_there(*drive))
        .collect();
    let epochs = start_epochs(setting, lived);
    let judging = Judging::of_start(setting, begun, lived, &epochs);
    for (at, point) in evenly(lived.start.iter().collect(), START_MAX) {
        for cut in ways(rng, point) {
            let images = point.images(cut);
            for away in [there.clone(), Vec::new()] {
                let images = images.with_away(&away);
                judging
                    .judge(*at, &images, report)
                    .map_err(|failure| failure.within(format!("in the start, {cut:?}")))
                    .map_err(|failure| lived.traced(failure))?;
            }
        }
    }
    Ok(())
}

fn start_epochs(setting: &Setting, lived: &Lived) -> Epochs {
    Epochs::of(&lived.start, |point| {
        let images = point.images(Cut::whole(Keep::Nothing));
        certain_epoch(&setting.maker, &images)
    })
}

/// Drives that break, cut at each write.
#[derive(Clone, Debug)]
pub struct Everywhere {
    /// The pool.
    pub maker: EngineMaker,
    /// Its bytes.
    pub pool_bytes: u64,
    /// Drives, the number of writes until each breaks, and how.
    pub breaks: Vec<(usize, u64, Breakage)>,
    /// The cuts are those of the life after it, in which all drives are back and catch up.
    pub is_return: bool,
    /// A drive that is replaced after the first writes.
    pub replaced: Option<Replacement>,
    /// Most writes at which cuts are judged, spread evenly over all.
    pub most: usize,
}

/// Lets drives break while clients write and flush, and judges the cut at each write until all of
/// it is recorded, and just after it, in many ways and with any set of drives.
///
/// # Errors
/// A promise was broken.
pub fn everywhere(seed: Seed, plan: &Everywhere) -> Result<Report, Failure> {
    let setting = Setting {
        maker: plan.maker,
        seed,
        reactors: 1,
        trace_lines: 0,
    };
    let mut report = Report::default();
    let begun = setting.begin(plan.pool_bytes)?;
    let manners = Manners {
        changes_are_durable: plan.maker.promises().changes_are_durable,
        ..Manners::STRICT
    };
    let mut first = first_actions().into_iter();
    let script = Script {
        breaks: Vec::new(),
        is_early: false,
        next: &mut |_| first.next(),
    };
    let begun = setting.live(&begun, manners, script)?.end();
    let manners = Manners {
        depth: 3,
        ..manners
    };
    let breaks: Vec<BreakPlan> = plan
        .breaks
        .iter()
        .map(|(drive, after, breakage)| BreakPlan {
            drive: *drive,
            after: *after,
            breakage: breakage.clone(),
        })
        .collect();
    let mut actions = writes_and_flushes();
    if let Some(replacement) = &plan.replaced {
        actions.insert(3, Action::Admin(Admin::ReplaceDrive(replacement.clone())));
    }
    let mut actions = actions.into_iter();
    let script = Script {
        breaks: breaks.clone(),
        is_early: false,
        next: &mut |_| actions.next(),
    };
    let standing = Standing::read(&setting.maker, &begun.images).expect("it has superblocks");
    let mut lived = setting.live(&begun, manners, script)?;
    count(&standing, &breaks, &lived, &mut report);
    if plan.is_return {
        let mut actions = writes_and_flushes().into_iter();
        let script = Script {
            breaks: Vec::new(),
            is_early: false,
            next: &mut |_| actions.next(),
        };
        let begun = with_all(&setting, &lived.end());
        lived = setting.live(&begun, manners, script)?;
        report.add(&lived.report);
    }
    let judging = Judging::of_work(&setting, &lived);
    let is_wanted = |at: u64| match plan.is_return {
        true => lived
            .epochs
            .last_change()
            .is_none_or(|last| at <= last + TAIL),
        false => is_near(&lived, at),
    };
    let wanted = lived.work.iter().filter(|point| is_wanted(point.0));
    for (at, point) in evenly(wanted.collect(), plan.most) {
        count_cut(&lived, *at, &mut report);
        let random = [None, Some(Grain::Sector)].map(|tear| Cut {
            keep: Keep::Random(*at),
            tear,
        });
        let few = [Keep::Nothing, Keep::Everything].map(Cut::whole);
        let cuts: Vec<Cut> = match plan.replaced {
            None => point.singles(2).chain(random).collect(),
            Some(_) => few.into_iter().chain([random[1]]).collect(),
        };
        for cut in cuts {
            let images = point.images(cut);
            report.cuts += 1;
            report.add_losses(images.losses);
            for away in subsets(images.devices()) {
                judging
                    .judge(*at, &images.with_away(&away), &mut report)
                    .map_err(|failure| failure.within(format!("{cut:?}")))
                    .map_err(|failure| lived.traced(failure))?;
            }
        }
    }
    Ok(report)
}

/// Returns all sets of drives but that of all.
fn subsets(drives: usize) -> Vec<Vec<usize>> {
    let has = |set: usize, drive: usize| set >> drive & 1 == 1;
    let set = |set: usize| (0..drives).filter(|drive| has(set, *drive)).collect();
    (0..(1 << drives) - 1).map(set).collect()
}

/// Writes and flushes, in turns, with some consistency points.
fn writes_and_flushes() -> Vec<Action> {
    let flush = || Action::Flush {
        lun: "v/l".to_owned(),
    };
    let pair = |number: u64| [write(100 + number, 3), flush()];
    let point = || Action::Admin(Admin::ConsistencyPoint);
    let some = |first: u64| (first..first + 2).flat_map(pair).chain([point()]);
    [0, 2, 4, 6].into_iter().flat_map(some).collect()
}
