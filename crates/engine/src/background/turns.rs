//! Turns: which background pass does the next step of a consistency point, and for which volume
//! (E-11, E-29, F-10, B-10, B-15).
//!
//! | pass | gives space back | budget |
//! | --- | --- | --- |
//! | [`lun_clone`](crate::background::lun_clone) | no | its own: half of the purse beside it |
//! | [`shrink`](crate::background::shrink) | yes | the purse |
//! | [`scan`] | yes | the purse, by the pace of the volume |
//! | [`split`](crate::background::split) | no | the purse, and at most a sixteenth of its blocks, or 32 MiB |
//! | [`removal`](crate::background::removal), [`evacuation`](crate::background::evacuation), [`layout`](crate::background::layout), [`after_read`](crate::background::after_read) | no | the same |
//! | [`space_map`](crate::background::space_map) | no | the purse |
//!
//! 1. Passes with a budget of their own come first, in the order of the table.
//! 2. The others share the purse in equal parts, step by step, as far as each has something to do:
//!    [`crate::home::ledger`] says whose turn it is. The targets of one pass share in the same way.
//! 3. While space is short, passes that give space back come before those that take some.
//! 4. A consistency point has done its share when the purse is empty or [`CHANGED_MAX`] is reached.
//!    But it does at least one step from the purse, so that deletions end.
//! 5. A pass that waits or gives up takes no turn from others.
//!
//! The steps come before cleaning, which may leave empty indirect blocks for the end of the
//! consistency point to prune: [`crate::tree::File::last_region`] finds its way by blocks that are
//! not empty.
//!
//! Repair ([`crate::mend::repair`]) is no pass: decision 0038 says why.

use everglade_env::Nanos;

use crate::background::after_read::AfterReads;
use crate::background::evacuation::Evacuation;
use crate::background::layout::Layouts;
use crate::background::lun_clone::LunClones;
use crate::background::pass::{Budget, Pass, Room};
use crate::background::removal::Removal;
use crate::background::scan::{self, Scans};
use crate::background::shrink::Shrink;
use crate::background::space_map::SpaceMaps;
use crate::background::split::Splits;
use crate::home::aggregate::Home;
use crate::home::ledger::{Ledger, Target};
use crate::read::load::{LoadCx, Stop};

/// Changed metadata blocks in memory at which a consistency point has done its share: 32 MiB. The
/// blocks of one region may be described by as many blocks of the container and its maps. Never
/// more than a quarter of the reserve, where they find their places.
pub(crate) const CHANGED_MAX: usize = 8192;

/// All passes. Among passes with an equal turn, the first is served first.
const PASSES: [&dyn Pass<Home>; 9] = [
    &LunClones,
    &Shrink,
    &Scans,
    &Splits,
    &Removal,
    &Evacuation,
    &Layouts,
    &AfterReads,
    &SpaceMaps,
];

/// Runs one step of one pass. Returns true when this consistency point has done its share.
pub(crate) fn step(home: &mut Home, cx: &mut LoadCx<'_>) -> Result<bool, Stop> {
    let run = home.run.as_ref().expect("under way");
    run.writer.throttle(&home.aggregate.media)?;
    scan::refresh(home, cx)?;
    let volumes = home
        .volumes
        .values()
        .map(|volume| volume.fs.changed_count());
    let changed = home.fs.changed_count() + volumes.sum::<usize>();
    let quarter = usize::try_from(home.aggregate.space.reserve() / 4).unwrap_or(usize::MAX);
    let now = Now {
        changed,
        changed_max: CHANGED_MAX.min(quarter),
        is_short: home.aggregate.space.is_short(),
    };
    turn(&PASSES, home, cx, now)
}

/// True if a pass has something to do for a target, now or in the next consistency point.
pub(crate) fn has_work_for(home: &Home, target: Target) -> bool {
    next_work_for(home, target).is_some()
}

/// When a pass has something to do for a target.
fn next_work_for(home: &Home, target: Target) -> Option<Nanos> {
    let passes = PASSES.iter().filter(|pass| {
        pass.has_work(home, target) && pass.has_space(home) && pass.pace(home, target) > 0
    });
    passes.map(|pass| pass.due(home)).min()
}

/// When a pass has something to do for any target; `None` if none has. To be asked between
/// consistency points: the reactor asks before each sleep, so all volumes are looked at once after
/// each of them.
pub(crate) fn next_work(home: &Home) -> Option<Nanos> {
    let waiting = home.ledger.waiting(|| {
        let volumes = home.volumes.keys().map(|id| Target::Volume(*id));
        let targets = volumes.chain([Target::Aggregate]);
        let is_waiting = |target: &Target| PASSES.iter().any(|pass| pass.has_work(home, *target));
        targets.filter(is_waiting).collect()
    });
    let targets = waiting.iter();
    let work = targets.filter_map(|target| next_work_for(home, *target));
    let noted = home.aggregate.scattered.count() > 0 && AfterReads.has_space(home);
    work.chain(noted.then(|| AfterReads.due(home))).min()
}

/// Inputs to the choice of the next turn, besides the ledger.
#[derive(Clone, Copy)]
struct Now {
    /// Metadata blocks that are changed in memory.
    changed: usize,
    changed_max: usize,
    /// Clients wait for space, or soon will.
    is_short: bool,
}

/// Runs one step of the pass whose turn it is. Returns true if no pass has work.
fn turn<W: AsRef<Ledger> + AsMut<Ledger>>(
    passes: &[&dyn Pass<W>],
    world: &mut W,
    cx: &mut LoadCx<'_>,
    now: Now,
) -> Result<bool, Stop> {
    let Some((pass, target)) = next(passes, world, now) else {
        return Ok(true);
    };
    let ledger = (*world).as_ref();
    let (name, budget) = (pass.name(), pass.budget(world, ledger.regions()));
    let blocks = match budget {
        Budget::PurseUpTo { blocks } => blocks.saturating_sub(ledger.spent(name).blocks),
        Budget::Purse | Budget::Own { .. } => u64::MAX,
    };
    let room = Room {
        changed: now.changed,
        changed_max: now.changed_max,
        blocks,
    };
    let turn = pass.step(world, cx, target, room)?;
    let is_from_purse = !matches!(budget, Budget::Own { .. });
    world.as_mut().record(name, target, is_from_purse, turn);
    Ok(false)
}

/// Returns the next pass and its target.
fn next<'a, W: AsRef<Ledger>>(
    passes: &[&'a dyn Pass<W>],
    world: &W,
    now: Now,
) -> Option<(&'a dyn Pass<W>, Target)> {
    let ledger: &Ledger = world.as_ref();
    let of_its_own = passes.iter().find_map(|pass| {
        let target = match has_budget_of_its_own(*pass, world, now) {
            true => ledger.next_target(pass.name(), &targets(*pass, world))?,
            false => return None,
        };
        Some((*pass, target))
    });
    if of_its_own.is_some() {
        return of_its_own;
    }
    if ledger.purse() == 0 || (ledger.is_begun() && now.changed >= now.changed_max) {
        return None;
    }
    let from_purse = passes
        .iter()
        .filter(|pass| match pass.budget(world, ledger.regions()) {
            Budget::Purse => true,
            Budget::PurseUpTo { blocks } => ledger.spent(pass.name()).blocks < blocks,
            Budget::Own { .. } => false,
        });
    let wanting = from_purse.map(|pass| (*pass, targets(*pass, world)));
    let mut wanting: Vec<_> = wanting.filter(|(_, targets)| !targets.is_empty()).collect();
    if now.is_short && wanting.iter().any(|(pass, _)| pass.frees()) {
        wanting.retain(|(pass, _)| pass.frees());
    }
    let name = ledger.next_pass(wanting.iter().map(|(pass, _)| pass.name()))?;
    let (pass, targets) = wanting.into_iter().find(|(pass, _)| pass.name() == name)?;
    Some((pass, ledger.next_target(name, &targets)?))
}

/// True if a pass has a budget beside the purse, and anything left of it. Its share of the changed
/// blocks is a half; the first step is free, as for the purse.
fn has_budget_of_its_own<W: AsRef<Ledger>>(pass: &dyn Pass<W>, world: &W, now: Now) -> bool {
    let ledger = world.as_ref();
    let spent = ledger.spent(pass.name()).regions;
    match pass.budget(world, ledger.regions()) {
        Budget::Own { regions } => {
            spent < regions && (spent == 0 || now.changed < now.changed_max / 2)
        }
        Budget::Purse | Budget::PurseUpTo { .. } => false,
    }
}

/// Targets for which a pass may do a step now.
fn targets<W: AsRef<Ledger>>(pass: &dyn Pass<W>, world: &W) -> Vec<Target> {
    let (name, ledger) = (pass.name(), world.as_ref());
    let is_due = |target: &Target| {
        let pace = u64::from(pass.pace(world, *target));
        let share = (ledger.regions() * pace / 100).max(1);
        let is_done = pace < 100 && ledger.spent_for(name, *target).regions >= share;
        pace > 0 && !is_done && !ledger.is_aside(name, *target)
    };
    pass.wants(world).into_iter().filter(is_due).collect()
}

#[cfg(test)]
mod tests;
