//! The pool grows while clients work: devices appear, or become larger.
//!
//! A life is a start, some work with growths in it, and a choice among all of its power cuts. Cuts
//! at the writes of a growth (labels, consistency point, superblock) and just after it are judged
//! in many ways, some others in few. One of the media is lived on with, mostly one that a growth
//! left half done. The promises are:
//!
//! 1. The pool is as it was last acknowledged, or has the growth that was under way; never anything
//!    else, and never more than is there.
//! 2. What the model knows to be durable is there, whatever becomes of the growth: before it, while
//!    it is under way, and after it.
//! 3. Without the devices that were joining the pool opens as it was before, unless its superblock
//!    says that they belong to it.
//! 4. A growth is refused only while another one is under way; it succeeds in a full pool.
//! 5. A member that joined with a consistency point whose commit was cut has a superblock after the
//!    next one (`heal`).
//! 6. The offline check finds all of the media clean.
//!
//! [`everywhere`] cuts one growth at each of its writes, in every way worth trying.

mod draw;
mod judging;
mod life;
mod media;
mod past;

use std::rc::Rc;

use super::driver::Manners;
use super::{Failure, Growth, Report};
use crate::engine::EngineMaker;
use crate::system::{Admin, Maker, PoolGrowth};
use crate::workload::{Action, Scale, Workload};
use crate::world::{Cut, CutPoint, Images, Keep};
use crate::{Rng, Seed};
use draw::Drawn;
pub(super) use draw::any;
use judging::Judging;
use life::{Listed, Lived, Setting};
use past::Begun;

/// Most cuts of a growth that are judged, of a start, and of the rest of a life.
const WINDOW_MAX: usize = 20;
const START_MAX: usize = 3;
const REST_MAX: usize = 4;
/// Writes after a growth that count as its own.
const TAIL: u64 = 16;
/// Members without a superblock that are healed in each life.
const HEALED_MAX: u64 = 1;
/// Writes at the end of a consistency point that heals which are cut: the superblock's are there.
const HEALING_TAIL: usize = 10;

/// The size of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Reactors.
    pub reactors: usize,
    /// Bytes of the pool before it grows.
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
        let mut rng = Rng::for_part(seed.0, "growth plan");
        Plan {
            reactors: [1, 1, 2, 3][rng.index(4)],
            pool_bytes: rng.between(8, 16) << 20,
            lives: rng.between(2, 4),
            trace_lines: 0,
        }
    }
}

/// Some LUNs, larger than the pool.
const SCALE: Scale = Scale {
    lun_bytes_max: 48 << 20,
    luns_max: 4,
    volumes_max: 2,
    op_bytes_max: 128 << 10,
};

/// Runs a seed.
///
/// # Errors
/// A promise was broken.
pub fn run(seed: Seed, plan: Plan, maker: &EngineMaker) -> Result<Report, Failure> {
    let mut rng = Rng::for_part(seed.0, "growth");
    // Large areas make a pool that nothing fills, and most pools have a journal.
    let has_log = maker.journal_half_blocks > 0 || rng.one_in(3);
    let maker = EngineMaker {
        area_blocks: [256, 256, 256, 512][rng.index(4)],
        journal_half_blocks: match has_log {
            true => maker.journal_half_blocks.min(300),
            false => [64, 128][rng.index(2)],
        },
        ..*maker
    };
    let mut workload = Workload::new(seed.0, SCALE);
    let setting = Setting {
        maker,
        seed,
        reactors: plan.reactors,
        trace_lines: plan.trace_lines,
    };
    let mut begun = setting.begin(plan.pool_bytes)?;
    let mut report = Report::default();
    // Media with devices that were joining, which the present life is without.
    let mut away: Option<Images> = None;
    for number in 0..plan.lives {
        let setting = Setting {
            seed: seed.nth(number),
            ..setting
        };
        let next = live(&setting, &begun, &mut rng, &mut workload, &mut report)
            .map_err(|failure| failure.within(format!("life {number}")))?;
        begun = next.begun;
        if let Some(back) = away.take() {
            begun.images = begun.images.with_joining_of(&back);
        } else if next.opens_alone && rng.one_in(3) {
            report.growths[Growth::Away] += 1;
            let alone = begun.images.without_joining();
            away = Some(std::mem::replace(&mut begun.images, alone));
        }
    }
    Ok(report)
}

/// What a life may begin with.
struct Next {
    begun: Begun,
    /// It opens without the devices that were joining.
    opens_alone: bool,
}

/// Lives a life, judges its cuts, and returns what the next one begins with.
fn live(
    setting: &Setting,
    begun: &Begun,
    rng: &mut Rng,
    workload: &mut Workload,
    report: &mut Report,
) -> Result<Next, Failure> {
    let manners = Manners {
        depth: [1, 4, 16][rng.index(3)],
        changes_are_durable: setting.maker.promises().changes_are_durable,
        ..Manners::STRICT
    };
    let mut work = Drawn::new(Rng::new(rng.draw()), &setting.maker, &mut *workload);
    let lived = setting.live(begun, manners, &mut work)?;
    let was_full = work.was_full;
    count(begun, &lived, was_full, report);
    let mut next = Next {
        begun: lived.end(),
        opens_alone: false,
    };
    let mut seen = 0;
    let mut healed = 0;
    judge_start(setting, begun, &lived, report)?;
    let judging = Judging::of_work(setting, &lived.past);
    for point in chosen(&lived) {
        let is_near = is_near(&lived, point.0);
        for cut in point.1.singles(if is_near { 2 } else { 1 }) {
            let images = point.1.images(cut);
            let left = judging
                .judge(point.0, &images, report)
                .map_err(|failure| failure.within(format!("{cut:?}")))?;
            let here = Begun {
                images,
                at: point.0,
                past: lived.past.clone(),
            };
            if left.is_bare && healed < HEALED_MAX {
                healed += 1;
                heal(setting, &here, report).map_err(|failure| {
                    failure.within(format!("healing after a cut at write {}, {cut:?}", point.0))
                })?;
            }
            if is_near {
                seen += 1;
                // One of all that were seen, each with the same chance; now and then the end.
                if rng.below(seen) == 0 && !rng.one_in(5) {
                    next = Next {
                        begun: here,
                        opens_alone: left.opens_alone,
                    };
                }
            }
        }
    }
    Ok(next)
}

/// Counts what was done, and what it proves.
fn count(begun: &Begun, lived: &Lived, was_full: bool, report: &mut Report) {
    report.add(&lived.report);
    report.writes = lived.report.writes;
    report.digest = lived.report.digest;
    let geometries = &lived.past.geometries;
    let is_made = |answer: Option<(u64, bool)>| answer.is_some_and(|(_, made)| made);
    let mut made = geometries.records.iter().filter(|it| is_made(it.answered));
    if made.next().is_some() {
        report.growths[Growth::Full] += u64::from(was_full);
        let cut = begun.past.geometries.under_way_at(begun.at);
        let is_again = cut.is_some_and(|cut| cut.geometry != geometries.base);
        report.growths[Growth::Again] += u64::from(is_again);
    }
}

/// True if a cut at a write is one of a growth, or soon after.
fn is_near(lived: &Lived, at: u64) -> bool {
    lived.past.geometries.records.iter().any(|record| {
        let end = record.answered.map_or(u64::MAX, |(writes, _)| writes);
        record.asked < at && at <= end.saturating_add(TAIL)
    })
}

/// At most `most` of them, evenly spread; always the last.
pub(super) fn evenly<T>(mut all: Vec<T>, most: usize) -> Vec<T> {
    let step = all.len().div_ceil(most).max(1);
    all.reverse();
    let mut some: Vec<T> = all.into_iter().step_by(step).collect();
    some.reverse();
    some
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

/// Judges cuts of the start of a life.
fn judge_start(
    setting: &Setting,
    begun: &Begun,
    lived: &Lived,
    report: &mut Report,
) -> Result<(), Failure> {
    let judging = Judging::of_start(setting, begun, lived);
    for point in evenly(lived.start.iter().collect(), START_MAX) {
        for cut in point.1.singles(1) {
            judging
                .judge(point.0, &point.1.images(cut), report)
                .map_err(|failure| failure.within(format!("cut again, {cut:?}")))?;
        }
    }
    Ok(())
}

/// A member has no superblock, because the commit of the consistency point with which it joined was
/// cut. The next consistency point gives it one, and may be cut at any write.
fn heal(setting: &Setting, begun: &Begun, report: &mut Report) -> Result<(), Failure> {
    // Without a change there is no consistency point.
    let change = Action::Admin(Admin::CreateVolume {
        name: "healed".to_owned(),
    });
    let lived = setting.live(begun, Manners::STRICT, &mut Listed::new(vec![change]))?;
    judge_start(setting, begun, &lived, report)?;
    let judging = Judging::of_work(setting, &lived.past);
    let work = lived.work.iter().rev();
    for point in work.take(HEALING_TAIL) {
        for cut in point.1.singles(3) {
            judging
                .judge(point.0, &point.1.images(cut), report)
                .map_err(|failure| failure.within(format!("{cut:?}")))?;
        }
    }
    let images = lived.end().images;
    for device in 0..images.devices() {
        if !images.is_joining(device) && !media::has_superblock(&setting.maker, &images, device) {
            return Err(Failure::new(format!(
                "Growth: device {device} has no superblock after a consistency point"
            )));
        }
    }
    report.growths[Growth::Healed] += 1;
    Ok(())
}

/// Members without a superblock that are healed by [`everywhere`].
const HEALED_EVERYWHERE: u64 = 4;

/// One growth, cut at each of its writes.
#[derive(Clone, Debug)]
pub struct Everywhere {
    /// The pool.
    pub maker: EngineMaker,
    /// Its bytes.
    pub pool_bytes: u64,
    /// The growth.
    pub growth: PoolGrowth,
    /// Every so many of the cuts are followed by a second growth, which is cut as well.
    pub again: u64,
}

/// Lets a pool grow while clients write and flush, and judges the cut at each write in all the ways
/// worth trying.
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
    let lived = setting.live(&begun, manners, &mut Listed::new(first_actions()))?;
    let begun = lived.end();
    let manners = Manners {
        depth: 3,
        ..manners
    };
    let actions = actions(&plan.growth, 100);
    let lived = setting.live(&begun, manners, &mut Listed::new(actions))?;
    count(&begun, &lived, false, &mut report);
    judge_start(&setting, &begun, &lived, &mut report)?;
    let judging = Judging::of_work(&setting, &lived.past);
    let mut ticket = 0;
    for point in lived.work.iter().filter(|point| is_near(&lived, point.0)) {
        let ways = point.1.singles(usize::MAX);
        for cut in ways.chain(point.1.subsets(8, point.0)) {
            let images = point.1.images(cut);
            let within =
                |failure: Failure| failure.within(format!("at write {}, {cut:?}", point.0));
            let left = judging
                .judge(point.0, &images, &mut report)
                .map_err(within)?;
            let here = Begun {
                images,
                at: point.0,
                past: Rc::clone(&lived.past),
            };
            if left.is_bare && report.growths[Growth::Healed] < HEALED_EVERYWHERE {
                heal(&setting, &here, &mut report).map_err(within)?;
                // The next growth begins before any other consistency point.
                let next = second(&plan.growth, true, &here.images);
                grow_again(&setting, &here, manners, &next, &mut report)
                    .map_err(|failure| within(failure.within("then at once")))?;
            }
            let Some(is_made) = left.growth else {
                continue;
            };
            ticket += 1;
            if ticket % plan.again == 0 {
                let growth = second(&plan.growth, is_made, &here.images);
                grow_again(&setting, &here, manners, &growth, &mut report)
                    .map_err(|failure| within(failure.within(format!("then {growth:?}"))))?;
            }
        }
    }
    Ok(report)
}

/// The commit of a growth is cut when nothing but the device that joins has its superblock. The
/// pool goes on without that device, and makes no, one or two consistency points of its own:
/// another one of the same number. Then the device is back, and is added again.
///
/// # Errors
/// A promise was broken.
pub fn returning(seed: Seed, maker: &EngineMaker, pool_bytes: u64) -> Result<Report, Failure> {
    let setting = Setting {
        maker: *maker,
        seed,
        reactors: 1,
        trace_lines: 0,
    };
    let mut report = Report::default();
    let begun = setting.begin(pool_bytes)?;
    let mut first = Listed::new(first_actions());
    let begun = setting.live(&begun, Manners::STRICT, &mut first)?.end();
    let growth = PoolGrowth::New(vec![pool_bytes; maker.drives_together()]);
    let mut work = Listed::new(actions(&growth, 100));
    let lived = setting.live(&begun, Manners::STRICT, &mut work)?;
    let judging = Judging::of_work(&setting, &lived.past);
    for point in lived.work.iter().filter(|point| is_near(&lived, point.0)) {
        for index in 0..point.1.unflushed() {
            let images = point.1.images(Cut::whole(Keep::Only(index)));
            let left = judging.judge(point.0, &images, &mut report)?;
            if left.growth != Some(true) || !left.opens_alone {
                continue;
            }
            for changes in 0..3 {
                let alone = Begun {
                    images: images.without_joining(),
                    at: point.0,
                    past: lived.past.clone(),
                };
                go_on_without(&setting, &alone, &images, changes, &mut report).map_err(
                    |failure| failure.within(format!("write {}, {changes} changes", point.0)),
                )?;
            }
        }
    }
    Ok(report)
}

/// Lives without the devices that are joining in `images`, and then with them.
fn go_on_without(
    setting: &Setting,
    alone: &Begun,
    images: &Images,
    changes: u64,
    report: &mut Report,
) -> Result<(), Failure> {
    let change = |number: u64| {
        Action::Admin(Admin::CreateVolume {
            name: format!("alone{number}"),
        })
    };
    let mut work = Listed::new((0..changes).map(change).collect());
    let lived = setting.live(alone, Manners::STRICT, &mut work)?;
    let mut begun = lived.end();
    begun.images = begun.images.with_joining_of(images);
    Judging::of_work(setting, &lived.past)
        .judge(begun.at, &begun.images, report)
        .map_err(|failure| failure.within("the device is back"))?;
    report.growths[Growth::Away] += 1;
    grow_again(setting, &begun, Manners::STRICT, &PoolGrowth::Again, report)
        .map_err(|failure| failure.within("the device is added again"))
}

/// What exists before the pool grows, or before a drive breaks.
pub(super) fn first_actions() -> Vec<Action> {
    let mut actions = vec![
        Action::Admin(Admin::CreateVolume {
            name: "v".to_owned(),
        }),
        Action::Admin(Admin::CreateLun {
            name: "v/l".to_owned(),
            size_bytes: 16 << 20,
        }),
    ];
    actions.extend((0..8).map(|number| write(number, 16)));
    actions.push(Action::Admin(Admin::ConsistencyPoint));
    actions
}

/// Writes some blocks; each number has its own place.
pub(super) fn write(number: u64, blocks: u64) -> Action {
    let length = blocks * everglade_env::BLOCK_SIZE as u64;
    Action::Write {
        lun: "v/l".to_owned(),
        offset: number % 16 * (1 << 20),
        length,
        fill: number + 1,
        durable: false,
    }
}

/// Writes and flushes before, during and after a growth.
fn actions(growth: &PoolGrowth, first: u64) -> Vec<Action> {
    let flush = || Action::Flush {
        lun: "v/l".to_owned(),
    };
    let pair = |number: u64| [write(first + number, 3), flush()];
    let mut actions: Vec<Action> = pair(0).into();
    actions.push(Action::Admin(Admin::GrowPool(growth.clone())));
    actions.extend((1..12).flat_map(pair));
    actions
}

/// A growth after one that was cut: the same once more, or another one of its kind.
fn second(first: &PoolGrowth, is_made: bool, images: &Images) -> PoolGrowth {
    let has_strays = (0..images.devices()).any(|device| images.is_joining(device));
    match first {
        PoolGrowth::Larger(devices) if !is_made => {
            PoolGrowth::Larger(devices.iter().map(|(device, _)| (*device, 0)).collect())
        }
        PoolGrowth::New(_) | PoolGrowth::Wider(_) if !is_made && has_strays => PoolGrowth::Again,
        growth => growth.clone(),
    }
}

/// A second growth, and cuts of it.
fn grow_again(
    setting: &Setting,
    begun: &Begun,
    manners: Manners,
    growth: &PoolGrowth,
    report: &mut Report,
) -> Result<(), Failure> {
    let lived = setting.live(begun, manners, &mut Listed::new(actions(growth, 200)))?;
    count(begun, &lived, false, report);
    judge_start(setting, begun, &lived, report)?;
    let judging = Judging::of_work(setting, &lived.past);
    for point in evenly(lived.work.iter().collect(), WINDOW_MAX) {
        let keeps = [Keep::Nothing, Keep::Everything, Keep::Random(point.0)];
        for cut in keeps.map(Cut::whole) {
            judging
                .judge(point.0, &point.1.images(cut), report)
                .map_err(|failure| failure.within(format!("then cut, {cut:?}")))?;
        }
    }
    Ok(())
}
