//! Evacuation: blocks move out of areas, so that these are free as a whole (H-02, H-03, H-05,
//! H-06, H-07).
//!
//! The map says which blocks of an area are in use, and the context map what each of them is:
//!
//! | block | how it moves |
//! | --- | --- |
//! | of a volume | the [`mover`] gives it another place; no volume notices |
//! | of a file of the aggregate | it becomes a changed block, and the consistency point writes it elsewhere |
//!
//! 1. What cannot be read stays where it is, and the area stays partly used.
//! 2. Evacuation takes space only beside the reserve, like a split, and gives it back one
//!    consistency point later.

use everglade_env::Nanos;
use everglade_format::metafile::{ACTIVE_MAP, INODE_FILE, OVERFLOW, TOP_AREAS};
use everglade_format::{BITS_PER_BLOCK, Context, FileId, Owner, Pvbn, bitmap};

use crate::alloc::blocks::Purpose;
use crate::alloc::filesystem::FileSystem;
use crate::alloc::tags::context_of;
use crate::background::mover::{self, Moving, cost, unless_damaged};
use crate::background::pass::{Budget, Pass, Room};
use crate::background::split::{budget, step_blocks};
use crate::home::aggregate::Home;
use crate::home::candidate::Candidate;
use crate::home::gardener::{Lent, Reason};
use crate::home::ledger::{Target, Turn};
use crate::pool::garden::GardeningState;
use crate::pool::info::Progress;
use crate::read::load::{Gather, LoadCx, Stop};
use crate::tree::Content;
use crate::tree::file::Leaf;

/// Areas that one step looks at, to find one that is worth it.
const STEP_AREAS: usize = 32;

/// While clients need whole areas, a consistency point moves at most so many blocks: about as many
/// as clients write in one.
const DEMAND_BLOCKS: u64 = 65_536;

/// See the module's documentation.
pub(crate) struct Evacuation;

impl Pass<Home> for Evacuation {
    fn name(&self) -> &'static str {
        "evacuation"
    }

    fn has_work(&self, home: &Home, target: Target) -> bool {
        target == Target::Aggregate && (home.gardener.is_busy() || demand(home).is_some())
    }

    fn has_space(&self, home: &Home) -> bool {
        needs_no_space(home) || mover::has_room(home) || is_for_clients(home) && mover::fits(home)
    }

    fn due(&self, home: &Home) -> Nanos {
        match home.gardener.to_give_back(None).is_some() || is_for_clients(home) {
            true => 0,
            false => home.gardener.rests_until(),
        }
    }

    fn wants(&self, home: &Home) -> Vec<Target> {
        let is_for_clients = is_for_clients(home);
        let is_in_share = is_for_clients || mover::is_in_share(home, self.name());
        let may_move = || mover::may_move(home) || is_for_clients && mover::fits_now(home);
        let is_due = is_in_share && (needs_no_space(home) || may_move());
        match self.has_work(home, Target::Aggregate) && is_due {
            true => vec![Target::Aggregate],
            false => Vec::new(),
        }
    }

    fn step(
        &self,
        home: &mut Home,
        cx: &mut LoadCx<'_>,
        _target: Target,
        room: Room,
    ) -> Result<Turn, Stop> {
        let number = home.under_way().number;
        if let Some(lent) = home.gardener.to_give_back(Some(number)).cloned() {
            return finish(home, cx, &lent);
        }
        match home.gardener.lent().cloned() {
            None => choose(home, cx),
            Some(lent) => empty(home, cx, &lent, room.blocks),
        }
    }

    /// Returns the progress in areas.
    fn progress(&self, home: &Home, target: Target) -> Option<Progress> {
        let info = self
            .has_work(home, target)
            .then(|| home.gardener.info().cleaning)?;
        Some(Progress {
            done: info.passed_areas.min(info.total_areas),
            total: info.total_areas,
            since: Some((info.begun_seconds, 0)),
        })
    }

    fn budget(&self, home: &Home, regions: u64) -> Budget {
        let blocks = match is_for_clients(home) {
            true => DEMAND_BLOCKS,
            false => budget(regions),
        };
        Budget::PurseUpTo { blocks }
    }

    fn frees(&self) -> bool {
        false
    }
}

/// True if the next step only looks at areas, or gives them back.
fn needs_no_space(home: &Home) -> bool {
    let surveys = home.gardener.is_surveying() && !home.aggregate.garden_is_paused();
    let number = home.run.as_ref().map(|run| run.number);
    home.gardener.to_give_back(number).is_some() || surveys
}

/// True if clients need an area, so a pause does not count.
fn is_for_clients(home: &Home) -> bool {
    home.gardener.is_demanded() || demand(home).is_some()
}

/// The area to empty before the next one is needed.
fn demand(home: &Home) -> Option<Candidate> {
    match home.cleans_on_demand {
        true => home.gardener.demand(&home.fs, home.host.full),
        false => None,
    }
}

/// Lends the gardener the next areas with enough free space. A demand comes first; everything else
/// waits until emptied areas have gone back.
fn choose(home: &mut Home, cx: &mut LoadCx<'_>) -> Result<Turn, Stop> {
    if let Some(wanted) = demand(home) {
        let columns = home.fs.lendable(wanted.extent, wanted.area);
        match columns.is_empty() {
            true => home.gardener.give_up(wanted),
            false => lend(home, columns, Reason::Demand(wanted)),
        }
        return Ok(Turn::Moved(0));
    }
    if home.gardener.has_emptied() {
        return Ok(Turn::Waits);
    }
    if home.gardener.to_survey().is_some() {
        survey(home, cx)?;
        home.tell_garden();
        return Ok(Turn::Moved(0));
    }
    if home.gardener.rebalances() {
        let turn = choose_crowded(home, cx)?;
        home.tell_garden();
        return Ok(turn);
    }
    let least_free = u64::from(home.gardener.info().cleaning.least_free_percent);
    for _ in 0..STEP_AREAS {
        let Some(at) = home.gardener.candidate() else {
            home.gardener.end(home.wall_seconds);
            break;
        };
        let columns = home.fs.lendable(at.extent, at.area);
        let Some(used) = used_blocks(&home.fs, cx, &columns)? else {
            home.gardener.pass(at);
            continue;
        };
        let total = columns.len() as u64 * home.fs.area_blocks;
        let is_worth_it = used > 0 && (total - used) * 100 >= total * least_free;
        home.gardener.pass(at);
        if is_worth_it {
            lend(home, columns, Reason::Scan);
            break;
        }
    }
    home.tell_garden();
    Ok(Turn::Moved(0))
}

/// Lends areas to the gardener.
fn lend(home: &mut Home, columns: Vec<(usize, u64)>, reason: Reason) {
    home.fs.lend(&columns);
    home.gardener.lend(columns, reason);
}

/// Counts the blocks in use of the next few areas, for a rebalance. After the last area, it is
/// known which extents are crowded.
fn survey(home: &mut Home, cx: &mut LoadCx<'_>) -> Result<(), Stop> {
    for _ in 0..STEP_AREAS {
        let Some(at) = home.gardener.to_survey() else {
            break;
        };
        let columns = home.fs.columns_of(at.extent, at.area);
        let used = used_blocks(&home.fs, cx, &columns)?.unwrap_or(0);
        if let Some(crowded) = home.gardener.surveyed(at, used) {
            home.fs.crowded = crowded;
        }
    }
    Ok(())
}

/// Lends the gardener the next area of a crowded extent, or ends the rebalance. Waits if that is
/// not possible in this consistency point.
fn choose_crowded(home: &mut Home, cx: &mut LoadCx<'_>) -> Result<Turn, Stop> {
    if !leave_crowded(&mut home.fs, cx)? {
        return Ok(Turn::Waits);
    }
    for _ in 0..STEP_AREAS {
        let Some(at) = home.gardener.next_crowded() else {
            home.fs.crowded.clear();
            let seconds = home.wall_seconds;
            home.gardener.end_rebalance(GardeningState::Done, seconds);
            break;
        };
        let columns = home.fs.lendable(at.extent, at.area);
        if !columns.is_empty() {
            lend(home, columns, Reason::Balance);
            break;
        }
    }
    Ok(Turn::Moved(0))
}

/// Cursors leave the areas of crowded extents that they have open: small devices may have no other.
/// Returns false if that is not possible in this consistency point, because cursors have numbers in
/// stock.
fn leave_crowded(fs: &mut FileSystem, cx: &mut LoadCx<'_>) -> Result<bool, Stop> {
    let open = [&fs.data, &fs.meta].into_iter().flat_map(|it| &it.open);
    let open = open.flatten().map(|area| (area.extent, area.area));
    let open: Vec<(usize, u64)> = open
        .filter(|(extent, _)| fs.crowded.contains(extent))
        .collect();
    if open.is_empty() {
        return Ok(true);
    }
    if !fs.data.stock.is_empty() || !fs.meta.stock.is_empty() {
        return Ok(false);
    }
    prepare_maps(fs, cx, &open)?;
    for (extent, _) in open {
        fs.leave(extent);
    }
    Ok(true)
}

/// Makes changed blocks of the map blocks of areas. Only changed blocks are sealed, and an area
/// gets its new score when its map block is sealed.
fn prepare_maps(
    fs: &mut FileSystem,
    cx: &mut LoadCx<'_>,
    columns: &[(usize, u64)],
) -> Result<(), Stop> {
    let mut gather = Gather::default();
    for column in columns {
        let block = fs.map_block_of(*column);
        fs.map().grow(block + 1);
        gather.add(fs.prepare_map(None, cx, block));
    }
    gather.finish()
}

/// Returns the blocks in use in areas; `None` if a map does not say it.
fn used_blocks(
    fs: &FileSystem,
    cx: &mut LoadCx<'_>,
    columns: &[(usize, u64)],
) -> Result<Option<u64>, Stop> {
    let mut used = 0;
    for column in columns {
        match unless_damaged(used_in(fs, cx, *column))? {
            Some(count) => used += count,
            None => return Ok(None),
        }
    }
    Ok(Some(used))
}

/// Returns the blocks in use in an area.
pub(super) fn used_in(
    fs: &FileSystem,
    cx: &mut LoadCx<'_>,
    column: (usize, u64),
) -> Result<u64, Stop> {
    let count =
        |(leaf, from): (Leaf<'_>, u64)| bitmap::count(leaf.bytes(), from, from + fs.area_blocks);
    Ok(fs.bits_of(cx, column)?.map_or(0, count))
}

/// What a step moved out of an area.
pub(super) struct MovedOut {
    /// Blocks that were moved, or are about to be.
    pub(super) moved: u64,
    /// Blocks that stay: they cannot be read, or what leads to them cannot.
    pub(super) left: u64,
    /// The next block to look at, counted from the beginning of the area; `None` at its end.
    pub(super) next: Option<u64>,
}

/// Moves some blocks out of lent areas.
fn empty(home: &mut Home, cx: &mut LoadCx<'_>, lent: &Lent, most: u64) -> Result<Turn, Stop> {
    let number = home.under_way().number;
    let column = lent.columns.get(lent.column).copied();
    let Some(column) = column.filter(|column| home.fs.lent.contains(column)) else {
        home.gardener.advance((lent.column + 1, 0), (0, 0), number);
        return Ok(Turn::Moved(0));
    };
    let out = move_out(home, cx, column, lent.next, most)?;
    let next = match out.next {
        None => (lent.column + 1, 0),
        Some(next) => (lent.column, next),
    };
    if !home.gardener.is_demanded() && out.moved > 0 {
        home.begin_bite();
    }
    home.gardener.advance(next, (out.moved, out.left), number);
    home.tell_garden();
    Ok(Turn::Moved(out.moved))
}

/// Moves at most so many blocks out of an area, from one of its blocks on.
pub(super) fn move_out(
    home: &mut Home,
    cx: &mut LoadCx<'_>,
    column: (usize, u64),
    from: u64,
    most: u64,
) -> Result<MovedOut, Stop> {
    let number = home.under_way().number;
    let step = step_blocks(home.fs.area_blocks);
    let most = step.min(usize::try_from(most).unwrap_or(step)).max(1);

    // Load: what is in use, who has it, its content, numbers.
    let first = home.fs.first_of(column);
    let Some(numbers) = unless_damaged(in_use(&home.fs, cx, first, from, most))? else {
        return Ok(MovedOut {
            moved: 0,
            left: 1,
            next: None,
        });
    };
    let is_end = numbers.len() < most;
    let next = (!is_end).then(|| numbers[most - 1] - first + 1);
    let mut gather = Gather::default();
    let contexts: Vec<_> = numbers
        .into_iter()
        .map(|number| {
            let context = unless_damaged(context_of(&home.fs, cx, Pvbn(number)));
            (Pvbn(number), gather.add(context).flatten().flatten())
        })
        .collect();
    gather.finish()?;
    let (mut gather, mut moving) = (Gather::default(), Vec::new());
    let (mut changed, mut left) = (0, 0);
    for (pvbn, context) in contexts {
        let found = context.map(|context| prepare(&mut home.fs, cx, pvbn, context));
        match gather.add(found.map_or(Ok(None), unless_damaged)) {
            Some(Some(Found::OfVolume(block))) => moving.push(block),
            Some(Some(Found::Changed)) => changed += 1,
            Some(Some(Found::Moves)) => {}
            Some(None) => left += 1,
            None => {}
        }
    }
    gather.finish()?;
    home.fs
        .ensure(None, cx, &mut home.host, Purpose::Data, moving.len())?;

    // Modify.
    let space = &home.aggregate.space;
    space.charge_again(cost(moving.len() + changed), number);
    let moved = (moving.len() + changed) as u64;
    for block in moving {
        let (container, vvbn) = (block.container, block.vvbn);
        mover::move_block(home, block);
        home.aggregate.redirects.note_moved(container, vvbn);
    }
    Ok(MovedOut { moved, left, next })
}

/// Lent areas go back, in a consistency point that has moved nothing out of them if they were
/// emptied.
fn finish(home: &mut Home, cx: &mut LoadCx<'_>, lent: &Lent) -> Result<Turn, Stop> {
    let still: Vec<(usize, u64)> = lent
        .columns
        .iter()
        .copied()
        .filter(|column| home.fs.lent.contains(column))
        .collect();
    prepare_maps(&mut home.fs, cx, &still)?;
    let mut is_clean = still.len() == lent.columns.len() && lent.is_passed();
    for column in still {
        is_clean &= used_in(&home.fs, cx, column)? == 0;
        home.fs.close_lent(column);
    }
    home.gardener.give_back(lent, is_clean);
    home.tell_garden();
    Ok(Turn::Moved(0))
}

/// Returns numbers in use in the area that begins at `first`, from its block `next` on, ascending.
fn in_use(
    fs: &FileSystem,
    cx: &mut LoadCx<'_>,
    first: u64,
    next: u64,
    most: usize,
) -> Result<Vec<u64>, Stop> {
    let map = &fs.files[&ACTIVE_MAP];
    let block = first / BITS_PER_BLOCK;
    if block >= map.inode.block_count() {
        return Ok(Vec::new());
    }
    let base = block * BITS_PER_BLOCK;
    let range = first + next..first + fs.area_blocks;
    let leaf = map.leaf(cx, block)?;
    let numbers = bitmap::ones(leaf.bytes()).map(|bit| base + bit);
    Ok(numbers
        .filter(|number| range.contains(number))
        .take(most)
        .collect())
}

/// What becomes of a block that is in use.
enum Found {
    /// It is about to move.
    OfVolume(Moving),
    /// It is a changed block of a file of the aggregate now.
    Changed,
    /// It is not where its context says, or will be elsewhere after this consistency point anyway.
    Moves,
}

/// Load phase of moving a block.
fn prepare(
    fs: &mut FileSystem,
    cx: &mut LoadCx<'_>,
    pvbn: Pvbn,
    context: Context,
) -> Result<Found, Stop> {
    match context.owner {
        Owner::Container { vvbn } => {
            let moving = mover::prepare(fs, cx, pvbn, (context.file, vvbn))?;
            Ok(moving.map_or(Found::Moves, Found::OfVolume))
        }
        Owner::File { level, index } => {
            prepare_of_aggregate(fs, cx, pvbn, (context.file, level, index))
        }
    }
}

fn prepare_of_aggregate(
    fs: &mut FileSystem,
    cx: &mut LoadCx<'_>,
    pvbn: Pvbn,
    (id, level, index): (FileId, u8, u64),
) -> Result<Found, Stop> {
    let file = match id {
        // Every consistency point writes all of it.
        OVERFLOW | TOP_AREAS => return Ok(Found::Moves),
        INODE_FILE => &mut fs.inode_file,
        id => match fs.files.get_mut(&id) {
            Some(file) => file,
            None => return Ok(Found::Moves),
        },
    };
    if file.peek(level, index).is_some() || file.pointer(cx, level, index)?.pvbn != pvbn {
        return Ok(Found::Moves);
    }
    match (id, level) {
        (ACTIVE_MAP, 0) => fs.prepare_map(None, cx, index)?,
        _ => file.modify(cx, level, index, Content::Keep).map(|_| ())?,
    }
    Ok(Found::Changed)
}
