//! Splits: a clone gets its own copy of every block that its base holds; afterwards it is an
//! ordinary volume (B-10, docs/design/design.md §8).
//!
//! ```text
//!            ┌────────stop───────▶ stopped ──┐
//! a clone ──start──▶ copying ◀────start──────┘
//!                       └──all slots filled──▶ done: no base, and the container has everything
//! ```
//!
//! For each vvbn of the base, ascending, the content is copied to a new block, and (pvbn, tag) go
//! into the clone's own slot of that vvbn. Nothing in the clone's trees changes: vvbns keep their
//! meaning, and the pvbns beside them are hints ([`crate::read::redirects`]). Each consistency
//! point runs a few steps, beside deletions, and none while space is short.
//!
//! A split copies all of the base, not only the blocks that the active image or a later snapshot
//! still has. So frees, restores, snapshots and clones during the split do not matter. The base
//! stays, as an ordinary snapshot that can be deleted. The container has a hole exactly where no
//! image holds a block, as in any volume (decision 0015).
//!
//! 1. Below the cursor each vvbn of the base, except the superblock's, has a slot of the clone's
//!    container; above the cursor none has.
//! 2. Slots and cursor are committed together, so a split continues after a restart where it
//!    stopped.
//! 3. The consistency point that fills the last slot removes the base. The parent may free its
//!    blocks from the next freeze on, so they are not used again before that consistency point is
//!    committed.
//! 4. A consistency point copies blocks for at most one clone of an aggregate. So a split never
//!    copies blocks that another split has written and not committed.
//! 5. If a block cannot be read, its copy has content that does not match the tag in its slot, so a
//!    reader gets an error, as before. Unreadable metadata stops the split, and nothing else.

use everglade_env::PageRef;
use everglade_format::volume::{SUPERBLOCK_VVBN, Split};
use everglade_format::{BITS_PER_BLOCK, FileId, Pointer, Pvbn, SPAN, SnapshotRecord, Vvbn, bitmap};

use crate::alloc::blocks::Purpose;
use crate::background::pass::{Budget, Pass, Room};
use crate::change::Error;
use crate::holders::snapmap::snapmap_block;
use crate::holders::table::Snapshots;
use crate::home::aggregate::Home;
use crate::home::find::find;
use crate::home::ledger::{Target, Turn};
use crate::pool::aggregate::Aggregate;
use crate::pool::bases::BASE;
use crate::pool::info::{Progress, SplitInfo, SplitState};
use crate::pool::space::Space;
use crate::read::load::{Gather, LoadCx, Stop};
use crate::tree::Content;

/// Blocks copied in one step.
const STEP_BLOCKS: usize = 512;
/// Map blocks read in one step that finds nothing to copy.
const STEP_MAPS: u64 = 16;
/// Blocks copied in one consistency point: 32 MiB, so that it takes no longer than usual.
const CP_BLOCKS_MAX: u64 = 8192;

/// Returns the blocks to copy in a consistency point that may do `regions` regions for deletions.
pub(super) fn budget(regions: u64) -> u64 {
    (regions.saturating_mul(SPAN) / 16).clamp(1, CP_BLOCKS_MAX)
}

/// Returns the blocks that copying `blocks` blocks may take: each may be alone in its level-1 block
/// of the container.
fn cost(blocks: usize) -> u64 {
    2 * blocks as u64 + 16
}

/// Returns the blocks to copy, or to move, in one step in a pool with areas of this size. A step
/// takes no more than the host is asked for ahead of need, so that space is available again for the
/// next step.
pub(super) fn step_blocks(area_blocks: u64) -> usize {
    STEP_BLOCKS.min(usize::try_from(area_blocks).unwrap_or(STEP_BLOCKS))
}

/// True if there is space for a step. Clients that wait for space come first.
fn may_copy(space: &Space, area_blocks: u64) -> bool {
    space.has_room_beside(cost(step_blocks(area_blocks)))
}

/// Begins a split, or resumes a stopped split.
pub(crate) fn start(home: &mut Home, volume: &str) -> Result<(), Error> {
    let known = find(home, volume)?;
    let snapshots = &mut known.fs.snapshots;
    if snapshots.roots.base.is_none() {
        let problem = format!("{volume} is no clone: all of its blocks are its own already");
        return Err(Error::Invalid {
            field: "volume",
            problem,
        });
    }
    if base_of(snapshots).is_none() {
        return Err(Error::Unavailable(format!(
            "clone {volume} has no record of what it is based on; stop the daemon and run \
            'everglade check'"
        )));
    }
    let next = match snapshots.roots.split {
        Split::Copying { .. } => {
            return Err(Error::Busy(format!(
                "{volume} is being split already; 'clone split show {volume}' says how far it is"
            )));
        }
        Split::Stopped { next } => next,
        Split::None | Split::Done => 0,
    };
    snapshots.split_since = None;
    snapshots.set_split(Split::Copying { next });
    Ok(())
}

/// Stops a split.
pub(crate) fn stop(home: &mut Home, volume: &str) -> Result<(), Error> {
    let snapshots = &mut find(home, volume)?.fs.snapshots;
    match snapshots.roots.split {
        Split::Copying { next } => {
            snapshots.set_split(Split::Stopped { next });
            Ok(())
        }
        Split::None | Split::Stopped { .. } | Split::Done => Err(Error::Busy(format!(
            "{volume} is not being split, so there is nothing to stop; 'clone split show {volume}' \
            says more"
        ))),
    }
}

fn base_of(snapshots: &Snapshots) -> Option<&SnapshotRecord> {
    snapshots.all().find(|record| record.id == BASE)
}

/// See the module's documentation.
pub(crate) struct Splits;

impl Pass<Home> for Splits {
    fn name(&self) -> &'static str {
        "split"
    }

    fn has_work(&self, home: &Home, target: Target) -> bool {
        let volume = target.volume().and_then(|id| home.volumes.get(&id));
        volume.is_some_and(|it| it.fs.snapshots.is_splitting())
    }

    fn has_space(&self, home: &Home) -> bool {
        may_copy(&home.aggregate.space, home.fs.area_blocks)
    }

    /// At most one clone, the oldest first.
    fn wants(&self, home: &Home) -> Vec<Target> {
        let (space, area_blocks) = (&home.aggregate.space, home.fs.area_blocks);
        // The space used by this consistency point itself, for clones of LUNs for example, counts
        // too.
        let fits = space.fits_beside_reserve(home.fs.used, cost(step_blocks(area_blocks)));
        if !fits || !self.has_space(home) {
            return Vec::new();
        }
        let first = home.planned().find(|target| {
            self.has_work(home, *target) && !home.ledger.has_moved_for_other(self.name(), *target)
        });
        first.into_iter().collect()
    }

    fn step(
        &self,
        home: &mut Home,
        cx: &mut LoadCx<'_>,
        target: Target,
        room: Room,
    ) -> Result<Turn, Stop> {
        let id = target.volume().expect("it wants volumes only");
        step(home, cx, id, room.blocks)
    }

    /// Returns the progress in vvbns of the base.
    fn progress(&self, home: &Home, target: Target) -> Option<Progress> {
        let snapshots = &home.volumes.get(&target.volume()?)?.fs.snapshots;
        snapshots.roots.base?;
        let map = &base_of(snapshots)?.active_map;
        let total = map.block_count().saturating_mul(BITS_PER_BLOCK);
        Some(Progress {
            done: snapshots.roots.split.next().unwrap_or(0).min(total),
            total,
            since: snapshots.split_since,
        })
    }

    fn budget(&self, _home: &Home, regions: u64) -> Budget {
        let blocks = budget(regions);
        Budget::PurseUpTo { blocks }
    }

    fn frees(&self) -> bool {
        false
    }
}

/// Copies at most `most` blocks.
fn step(home: &mut Home, cx: &mut LoadCx<'_>, id: FileId, most: u64) -> Result<Turn, Stop> {
    let step = step_blocks(home.fs.area_blocks);
    let most = step.min(usize::try_from(most).unwrap_or(step));
    let snapshots = &home.volumes[&id].fs.snapshots;
    let (Some(base), Split::Copying { next }) = (base_of(snapshots), snapshots.roots.split) else {
        give_up(home, id, "the clone has no record of what it is based on");
        return Ok(Turn::GaveUp);
    };
    let map = base.active_map.clone();
    let end = map.block_count();
    let (mut block, mut from) = (next / BITS_PER_BLOCK, next % BITS_PER_BLOCK);
    let mut vvbns: Vec<u64> = Vec::new();
    for _ in 0..STEP_MAPS {
        if block >= end || !vvbns.is_empty() {
            break;
        }
        let bits = match snapmap_block(cx, Some(id), &map, block).map_err(Stop::settled) {
            Err(Stop::Failed(error)) => {
                give_up(
                    home,
                    id,
                    &format!("the map of its base cannot be read: {error}"),
                );
                return Ok(Turn::GaveUp);
            }
            bits => bits?,
        };
        if let Some(bits) = bits {
            let numbers = bitmap::ones(&bits).filter(|bit| *bit >= from);
            let numbers = numbers.map(|bit| block * BITS_PER_BLOCK + bit);
            vvbns.extend(numbers.filter(|it| *it != SUPERBLOCK_VVBN.0).take(most + 1));
        }
        (block, from) = (block + 1, 0);
    }
    // All vvbns below are done after this step.
    let mut done = match vvbns.get(most) {
        Some(first_left) => *first_left,
        None => block * BITS_PER_BLOCK,
    };
    vvbns.truncate(most);

    // Load: own slots, sources, their content, numbers.
    let mut sources = match sources(home, cx, id, &vvbns).map_err(Stop::settled) {
        Err(Stop::Failed(error)) => {
            give_up(home, id, &format!("a container cannot be read: {error}"));
            return Ok(Turn::GaveUp);
        }
        sources => sources?,
    };
    if let Some(absent) = sources.iter().position(Option::is_none) {
        sources.truncate(absent);
        done = vvbns[absent];
        if absent == 0 {
            let text =
                format!("vvbn {done} of its base is in use, but no container has a block for it");
            give_up(home, id, &text);
            return Ok(Turn::GaveUp);
        }
    }
    let mut copies: Vec<(u64, Pointer)> = vvbns
        .into_iter()
        .zip(sources.into_iter().flatten())
        .filter_map(|(vvbn, source)| Some((vvbn, source.slot()?)))
        .collect();
    // What was moved in this consistency point can be read in the next one.
    let moved = &home.run.as_ref().expect("under way").moved;
    let is_moved = |(_, slot): &(u64, Pointer)| moved.contains(&slot.pvbn.0);
    if let Some(first) = copies.iter().position(is_moved) {
        if first == 0 {
            return Ok(Turn::Waits);
        }
        done = copies[first].0;
        copies.truncate(first);
    }
    let mut gather = Gather::default();
    let mut pages = Vec::with_capacity(copies.len());
    for (_, slot) in &copies {
        pages.extend(gather.add(cx.data_or_damage(*slot)));
    }
    gather.finish()?;
    home.fs
        .ensure(None, cx, &mut home.host, Purpose::Data, copies.len())?;

    // Modify.
    let run = home.run.as_ref().expect("under way");
    let space = &home.aggregate.space;
    space.charge_again(cost(copies.len()), run.number);
    for ((vvbn, slot), page) in copies.iter().zip(pages) {
        let page = page.unwrap_or_else(|reason| {
            let name = format!("volume {}", home.volumes[&id].shared.name);
            home.aggregate.lost.unreadable(&name, &reason);
            PageRef::zero()
        });
        let pointer = Pointer {
            vvbn: Vvbn(*vvbn),
            pvbn: Pvbn(home.fs.take(Purpose::Data)),
            tag: slot.tag,
        };
        home.site(id).0.enter(pointer, page);
    }
    let seconds = home.wall_seconds;
    let snapshots = &mut home
        .volumes
        .get_mut(&id)
        .expect("found by its id")
        .fs
        .snapshots;
    snapshots.split_since.get_or_insert((seconds, next));
    if done >= end * BITS_PER_BLOCK {
        snapshots.roots.base = None;
        snapshots.split_since = None;
        snapshots.set_split(Split::Done);
    } else {
        snapshots.set_split(Split::Copying { next: done });
    }
    Ok(Turn::Moved(copies.len() as u64))
}

/// The place of a vvbn of the base.
enum Source {
    /// In the clone's own container.
    Own,
    /// In the container of the nearest parent that has the vvbn.
    Above(Pointer),
}

impl Source {
    /// Returns the pointer to the block to copy.
    fn slot(self) -> Option<Pointer> {
        match self {
            Source::Own => None,
            Source::Above(slot) => Some(slot),
        }
    }
}

/// Returns the places of vvbns of the base, and changes the level-1 blocks that will have their
/// slots.
fn sources(
    home: &mut Home,
    cx: &mut LoadCx<'_>,
    id: FileId,
    vvbns: &[u64],
) -> Result<Vec<Option<Source>>, Stop> {
    let above = containers_above(home, id);
    let mut gather = Gather::default();
    let mut sources = Vec::with_capacity(vvbns.len());
    for vvbn in vvbns {
        let own = home.fs.file(id);
        if *vvbn >= own.inode.block_count() {
            sources.push(None);
            continue;
        }
        let changed = own.modify(cx, 1, vvbn / SPAN, Content::Keep).map(|_| ());
        if gather.add(changed).is_none() {
            continue;
        }
        if home.fs.file(id).leaf_pointer(*vvbn)?.has_block() {
            sources.push(Some(Source::Own));
            continue;
        }
        let mut source = None;
        for container in &above {
            let slot = gather.add(home.fs.file(*container).pointer(cx, 0, *vvbn));
            source = slot.filter(Pointer::has_block).map(Source::Above);
            if slot.is_none_or(|slot| slot.has_block()) {
                break;
            }
        }
        sources.push(source);
    }
    gather.finish()?;
    Ok(sources)
}

/// Containers of a clone's parents, the nearest first.
fn containers_above(home: &Home, id: FileId) -> Vec<FileId> {
    let parent = |id: &FileId| {
        let base = home.volumes.get(id)?.fs.snapshots.roots.base?;
        // A parent is older, so this ends.
        (base.0 < *id && home.volumes.contains_key(&base.0)).then_some(base.0)
    };
    std::iter::successors(parent(&id), parent).collect()
}

/// Stops a split that cannot continue, because its blocks on media contradict each other or cannot
/// be read.
fn give_up(home: &mut Home, id: FileId, reason: &str) {
    let volume = home.volumes.get_mut(&id).expect("found by its id");
    let text =
        format!("its split was stopped: {reason}; stop the daemon and run 'everglade check'");
    let name = format!("volume {}", volume.shared.name);
    home.aggregate.lost.unreadable(&name, &text);
    let snapshots = &mut volume.fs.snapshots;
    let next = snapshots.roots.split.next().unwrap_or(0);
    snapshots.set_split(Split::Stopped { next });
}

/// Returns the split's description for administrators.
pub(crate) fn describe(home: &Home, id: FileId) -> SplitInfo {
    let snapshots = &home.volumes[&id].fs.snapshots;
    let is_first = || {
        let mut splitting = home.volumes.iter();
        let first = splitting.find(|(_, other)| other.fs.snapshots.is_splitting());
        first.is_some_and(|(first, _)| *first == id)
    };
    let state = match snapshots.roots.split {
        Split::None => SplitState::None,
        Split::Stopped { .. } => SplitState::Stopped,
        Split::Done => SplitState::Done,
        Split::Copying { .. } if !is_first() => SplitState::WaitingForOther,
        Split::Copying { .. } => SplitState::Copying,
    };
    let progress = Splits.progress(home, Target::Volume(id));
    let (Some(base), Some(progress)) = (base_of(snapshots), progress) else {
        return SplitInfo {
            state,
            ..SplitInfo::default()
        };
    };
    let total_blocks = base.blocks_used;
    let done = u128::from(total_blocks) * u128::from(progress.done);
    let done = done.checked_div(u128::from(progress.total)).unwrap_or(0);
    let eta_seconds = progress.eta_seconds(home.wall_seconds);
    SplitInfo {
        state,
        done_blocks: u64::try_from(done).unwrap_or(total_blocks),
        total_blocks,
        eta_seconds: eta_seconds.filter(|_| state == SplitState::Copying),
    }
}

/// The state of a split at this moment: since `info` was made, space may have become short.
pub(crate) fn as_of_now(mut info: SplitInfo, aggregate: &Aggregate) -> SplitInfo {
    let area_blocks = aggregate.media.layout().geometry.area_blocks();
    if info.state == SplitState::Copying && !may_copy(&aggregate.space, area_blocks) {
        (info.state, info.eta_seconds) = (SplitState::WaitingForSpace, None);
    }
    info
}
