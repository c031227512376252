//! Background passes over a volume's maps, a little in each consistency point (F-06, F-10 … F-14).
//!
//! ```text
//!            ┌─ a snapshot is unfolded ─▶ fold ─────────────────────┐
//! none ──────┼─ snapshots were deleted ─▶ delete ──▶ release ──▶ ───┼─▶ none
//!            └──────────────────────────────────────────────────────┘
//! ```
//!
//! **Fold.** The map of a snapshot is added to the summary map. After a restore this is the map of
//! the safety snapshot. With the option [`crate::Options::create_scan`], for comparison, it is the
//! map of every new snapshot, as before F-05.
//!
//! **Delete.** One pass serves all snapshots that were deleted when it began, its victims;
//! snapshots that are deleted later share the next pass. For each vvbn, in ascending order, the
//! pass removes the victims from the history, by subtraction or by addition, whichever loads fewer
//! maps ([`crate::holders::plan`]). The pass skips blocks of the maps in which nothing changes, and
//! all 255 blocks below an indirect block that all images share. Below the cursor the victims are
//! ghosts, above it they are nodes like others: a change of the active map uses the view for its
//! vvbn ([`crate::holders::held`]).
//!
//! The scan reads the victims' snapmaps to the end, so the blocks of these snapmaps must not be
//! reused before (Theorem 3). The scan does not protect all blocks of the victims. It protects only
//! the snapmaps' blocks, by leaving them in the summary map. The consistency point that removes the
//! victims lists those of these blocks that no image holds in the *release file*; its entries are
//! freed a few at a time.
//!
//! **Pace.** A consistency point has a budget for background passes ([`crate::background::turns`]).
//! An operator may hold the scans of a volume back to a part of that, or let them rest. The
//! volume's superblock says so, so it lasts. While the pool is short of space, scans run at full
//! pace regardless: clients wait for the space that scans free.
//!
//! 1. Cursor and effects are committed together, so a pass continues after a restart where it
//!    stopped.
//! 2. A vvbn that was released in a consistency point is not allocated in the same one.
//! 3. A snapshot is released only when all snapshots are folded.

use std::collections::BTreeMap;

use everglade_format::volume::Scan;
use everglade_format::{
    BITS_PER_BLOCK, BLOCK_SIZE, Block, Entry, EntryKind, FileId, Inode, Kind, Layer, Pointer, SPAN,
    SnapshotId, SnapshotRecord, bitmap, release,
};

use crate::alloc::filesystem::FileSystem;
use crate::background::pass::{Pass, Room};
use crate::holders::count;
use crate::holders::fold::{self, maps_of, unite_summary};
use crate::holders::history::Node;
use crate::holders::plan::{MapBlockAt, Plan, Way};
use crate::holders::snapmap::{snapmap_block, snapmap_place};
use crate::holders::table::Snapshots;
use crate::home::aggregate::Home;
use crate::home::ledger::{Target, Turn};
use crate::pool::info::{Progress, ScanInfo};
use crate::read::load::{Gather, LoadCx, Stop};
use crate::read::root::Root;
use crate::tree::{Content, File};

/// Blocks released in one step.
const STEP_RELEASES: usize = 512;
/// Map blocks read in one step that has nothing to release.
const STEP_MAPS: u64 = 16;

/// See the module's documentation.
pub(crate) struct Scans;

impl Pass<Home> for Scans {
    fn name(&self) -> &'static str {
        "scan"
    }

    fn has_work(&self, home: &Home, target: Target) -> bool {
        snapshots(home, target).is_some_and(Snapshots::has_scan)
    }

    fn wants(&self, home: &Home) -> Vec<Target> {
        // Space may have become short since the consistency point was planned.
        home.planned()
            .filter(|target| self.has_work(home, *target))
            .collect()
    }

    fn step(
        &self,
        home: &mut Home,
        cx: &mut LoadCx<'_>,
        target: Target,
        _room: Room,
    ) -> Result<Turn, Stop> {
        let id = target.volume().expect("it wants volumes only");
        step(home, cx, id).map(|blocks| Turn::Moved(blocks as u64))
    }

    /// Returns the progress in blocks of vvbn space or, for a release, in entries.
    fn progress(&self, home: &Home, target: Target) -> Option<Progress> {
        let snapshots = snapshots(home, target)?;
        let space = |maps: &mut dyn Iterator<Item = &SnapshotRecord>| {
            let ends = maps.map(|record| record.active_map.block_count());
            ends.max().unwrap_or(0).saturating_mul(BITS_PER_BLOCK)
        };
        let (done, total) = match snapshots.roots.scan {
            Scan::None => return None,
            Scan::Fold { next } => {
                let mut all = snapshots.all().filter(|record| record.is_unfolded).take(1);
                (next, space(&mut all))
            }
            Scan::Delete { next } => {
                let mut all = snapshots.all().filter(|record| record.is_in_pass);
                (next, space(&mut all))
            }
            Scan::Release { next } => {
                let release = snapshots.roots.release;
                let release = release.and_then(|id| home.fs.files.get(&id));
                let blocks = release.map_or(0, |file| file.inode.block_count());
                (next, blocks * release::RELEASES_PER_BLOCK as u64)
            }
        };
        Some(Progress {
            done,
            total,
            since: snapshots.since,
        })
    }

    fn pace(&self, home: &Home, target: Target) -> u8 {
        let held_back = snapshots(home, target).map_or(0, |it| it.roots.held_back);
        match home.aggregate.space.is_short() {
            true => 100,
            false => 100 - held_back.min(100),
        }
    }

    fn frees(&self) -> bool {
        true
    }
}

fn snapshots(home: &Home, target: Target) -> Option<&Snapshots> {
    let volume = home.volumes.get(&target.volume()?)?;
    Some(&volume.fs.snapshots)
}

/// Returns the scan's description for administrators.
pub(crate) fn describe(home: &Home, id: FileId) -> ScanInfo {
    let target = Target::Volume(id);
    let Some(snapshots) = snapshots(home, target) else {
        return ScanInfo::default();
    };
    let kind = match snapshots.roots.scan {
        Scan::None => "none",
        Scan::Fold { .. } => "fold",
        Scan::Delete { .. } => "delete",
        Scan::Release { .. } => "release",
    };
    let progress = Scans.progress(home, target).unwrap_or_default();
    let eta_seconds = progress.eta_seconds(home.wall_seconds);
    let victims = snapshots.victims().len() as u64;
    let is_deleting = kind == "delete" && victims > 0;
    ScanInfo {
        kind,
        way: is_deleting.then(|| snapshots.plan().way.name()),
        done: progress.done,
        total: progress.total,
        eta_seconds: eta_seconds.filter(|_| snapshots.roots.held_back < 100),
        victims,
        waiting: (snapshots.deleting().count() as u64).saturating_sub(victims),
        pace_percent: 100 - snapshots.roots.held_back.min(100),
        counts: snapshots.counts,
    }
}

/// Loads again what a scan made out of date.
pub(crate) fn refresh(home: &mut Home, cx: &mut LoadCx<'_>) -> Result<(), Stop> {
    let mut gather = Gather::default();
    for volume in home.volumes.values_mut() {
        for block in volume.fs.snapshots.stale.clone() {
            let summary = home.fs.file(volume.fs.snapshots.summary());
            let held = fold::load(volume.fs.images(), summary, cx, block);
            if let Some(held) = gather.add(held) {
                volume.fs.snapshots.held.insert(block, held);
                volume.fs.snapshots.stale.remove(&block);
            }
        }
    }
    gather.finish()
}

/// Runs one step for a volume with work. Returns the cost, in blocks that changed owner.
fn step(home: &mut Home, cx: &mut LoadCx<'_>, id: FileId) -> Result<usize, Stop> {
    let volume = &mut home.volumes.get_mut(&id).expect("found by its id").fs;
    let scan = volume.snapshots.roots.scan;
    if let Scan::Fold { next } | Scan::Delete { next } | Scan::Release { next } = scan {
        volume
            .snapshots
            .since
            .get_or_insert((home.wall_seconds, next));
    }
    match volume.snapshots.roots.scan {
        Scan::None => {
            begin(volume);
            Ok(0)
        }
        Scan::Fold { next } => fold(volume, &mut home.fs, cx, next / BITS_PER_BLOCK),
        Scan::Delete { next } => delete(home, cx, id, next),
        Scan::Release { next } => release_some(home, cx, id, next),
    }
}

fn set(volume: &mut FileSystem, scan: Scan) {
    volume.snapshots.set_scan(scan);
}

/// Finds the next pass.
fn begin(volume: &mut FileSystem) {
    let snapshots = &mut volume.snapshots;
    let scan = if snapshots.roots.release.is_some() {
        Scan::Release { next: 0 }
    } else if snapshots.unfolded().is_some() {
        Scan::Fold { next: 0 }
    } else {
        let victims: Vec<SnapshotId> = snapshots.deleting().map(|record| record.id).collect();
        for victim in victims {
            snapshots.get_mut(victim).is_in_pass = true;
        }
        snapshots.protected = None;
        Scan::Delete { next: 0 }
    };
    set(volume, scan);
}

/// Puts blocks of the first unfolded snapshot into the summary map.
fn fold(
    volume: &mut FileSystem,
    aggregate: &mut FileSystem,
    cx: &mut LoadCx<'_>,
    first: u64,
) -> Result<usize, Stop> {
    let Some(id) = volume.snapshots.unfolded() else {
        set(volume, Scan::None);
        return Ok(0);
    };
    let map = volume.snapshots.get(id).active_map.clone();
    let end = map.block_count();
    let last = (first + STEP_MAPS).min(end);
    let mut gather = Gather::default();
    for block in first..last {
        gather.add(snapmap_block(cx, volume.container, &map, block));
    }
    gather.finish()?;
    for block in first..last {
        if let Some(bits) = snapmap_block(cx, volume.container, &map, block)? {
            unite_summary(aggregate.file(volume.snapshots.summary()), cx, block, &bits)?;
            go_stale(volume, block);
        }
        set(
            volume,
            Scan::Fold {
                next: (block + 1) * BITS_PER_BLOCK,
            },
        );
    }
    if last == end {
        volume.snapshots.get_mut(id).is_unfolded = false;
        set(volume, Scan::None);
    }
    Ok(1)
}

/// Marks the loaded state of an active map block as out of date.
fn go_stale(volume: &mut FileSystem, block: u64) {
    if volume.snapshots.held.contains_key(&block) {
        volume.snapshots.stale.insert(block);
    }
}

/// Continues the delete scan.
fn delete(home: &mut Home, cx: &mut LoadCx<'_>, id: FileId, next: u64) -> Result<usize, Stop> {
    let volume = &mut home.volumes.get_mut(&id).expect("found by its id").fs;
    let victims = volume.snapshots.victims();
    if volume.snapshots.protected.is_none() {
        volume.snapshots.protected = Some(blocks_of_snapmaps(volume, cx, &victims)?);
    }
    let maps = victims
        .iter()
        .map(|victim| &volume.snapshots.get(*victim).active_map);
    let end = maps.map(Inode::block_count).max().unwrap_or(0);
    let plan = volume.snapshots.plan();
    let mut block = next / BITS_PER_BLOCK;
    let mut bit = next % BITS_PER_BLOCK;
    for _ in 0..STEP_MAPS {
        if block >= end {
            return finish_pass(home, cx, id, &victims);
        }
        let volume = &mut home.volumes.get_mut(&id).expect("found by its id").fs;
        let is_first = bit == 0 && block.is_multiple_of(SPAN);
        let blocks = if is_first && !matters(volume, cx, &plan, (1, block / SPAN))? {
            SPAN.min(end - block)
        } else if matters(volume, cx, &plan, (0, block))? {
            return release_range(home, cx, id, &plan, (block, bit));
        } else {
            1
        };
        pass(volume, block + blocks);
        volume.snapshots.counts.skipped += blocks;
        (block, bit) = (block + blocks, 0);
    }
    Ok(1)
}

/// Moves the cursor of the delete pass to `block`: the map blocks before it need no work.
fn pass(volume: &mut FileSystem, block: u64) {
    let from = volume.snapshots.done_below() / BITS_PER_BLOCK;
    let next = block * BITS_PER_BLOCK;
    set(volume, Scan::Delete { next });
    let known = volume.snapshots.held.range(from..block);
    let known: Vec<u64> = known.map(|(block, _)| *block).collect();
    known.into_iter().for_each(|block| go_stale(volume, block));
}

/// True if blocks of victims' snapmaps are among the vvbns of these blocks of the maps.
fn has_protected(volume: &FileSystem, from: u64, to: u64) -> bool {
    let protected = volume.snapshots.protected.as_ref();
    let protected = protected.expect("looked up first");
    let first = protected.partition_point(|(vvbn, _)| *vvbn < from * BITS_PER_BLOCK);
    let found = protected.get(first);
    found.is_some_and(|(vvbn, _)| *vvbn < to.saturating_mul(BITS_PER_BLOCK))
}

/// Protected blocks among the vvbns of one map block, as bits.
fn protected_bits(volume: &FileSystem, block: u64) -> Box<Block> {
    let protected = volume
        .snapshots
        .protected
        .as_ref()
        .expect("looked up first");
    let (from, to) = (block * BITS_PER_BLOCK, (block + 1) * BITS_PER_BLOCK);
    let first = protected.partition_point(|(vvbn, _)| *vvbn < from);
    let mut bits = Box::new([0; BLOCK_SIZE]);
    for (vvbn, _) in protected[first..].iter().take_while(|(vvbn, _)| *vvbn < to) {
        bitmap::set(&mut bits, vvbn - from);
    }
    bits
}

/// False if releasing the victims changes nothing in this block of the maps or, at level 1, in all
/// blocks below it (see [`Plan::changes_nothing`]).
fn matters(
    volume: &FileSystem,
    cx: &mut LoadCx<'_>,
    plan: &Plan,
    (level, index): (u8, u64),
) -> Result<bool, Stop> {
    let reach = Inode::reach(level);
    if has_protected(volume, index * reach, (index + 1) * reach) {
        return Ok(true);
    }
    let mut gather = Gather::default();
    let mut places: BTreeMap<Node, Option<MapBlockAt>> = BTreeMap::new();
    for node in &plan.nodes {
        let pointer = match node {
            Node::Snapshot(id) => {
                let map = &volume.snapshots.get(*id).active_map;
                snapmap_place(cx, volume.container, map, (level, index)).map(Some)
            }
            Node::Active => volume.unchanged_map_place(cx, level, index),
        };
        let Some(pointer) = gather.add(pointer) else {
            continue;
        };
        let place = pointer.and_then(|pointer| match pointer.is_hole() {
            // A tree with fewer levels has nothing there, and may have a leaf below.
            true if level > 0 => None,
            true => Some(MapBlockAt::Empty),
            false => Some(MapBlockAt::At(pointer.vvbn.0)),
        });
        places.insert(*node, place);
    }
    gather.finish()?;
    Ok(!plan.changes_nothing(|node| places[&node]))
}

/// Releases what only the victims hold, from a bit of a map block on.
fn release_range(
    home: &mut Home,
    cx: &mut LoadCx<'_>,
    id: FileId,
    plan: &Plan,
    (block, from): (u64, u64),
) -> Result<usize, Stop> {
    let volume = &mut home.volumes.get_mut(&id).expect("found by its id").fs;
    let maps = maps_of(volume.images(), cx, plan.nodes.iter().copied(), block)?;
    let protected = protected_bits(volume, block);
    let active = maps[&Node::Active]
        .clone()
        .expect("the active image has a map");
    let summary_file = volume.snapshots.summary();
    let summary = home.fs.file(summary_file).leaf(cx, block)?.to_page();

    let gone_in = |effect: &count::Effect| {
        let mut gone = effect.cleared.clone();
        bitmap::subtract(&mut gone, &protected);
        bitmap::subtract(&mut gone, &active);
        bitmap::intersect(&mut gone, &summary);
        bitmap::ones(&gone).collect::<Vec<u64>>()
    };
    let mut to = BITS_PER_BLOCK;
    let mut effect = count::effect(plan, &maps, &summary, (from, to));
    let mut gone = gone_in(&effect);
    if gone.len() > STEP_RELEASES {
        to = gone[STEP_RELEASES];
        effect = count::effect(plan, &maps, &summary, (from, to));
        gone = gone_in(&effect);
    }
    let mut after = Box::new(*summary);
    bitmap::subtract(&mut after, &effect.cleared);
    bitmap::unite(&mut after, &protected);
    let first = block * BITS_PER_BLOCK;
    let gone: Vec<u64> = gone.into_iter().map(|bit| first + bit).collect();
    prepare_punch(home, cx, id, &gone)?;
    if *after != *summary {
        let file = home.fs.file(summary_file);
        file.grow((block + 1).max(2));
        **file.modify(cx, 0, block, Content::Keep)? = *after;
    }

    // Modify.
    punch(home, id, &active, block, &gone);
    let volume = &mut home.volumes.get_mut(&id).expect("found by its id").fs;
    for (node, blocks) in effect.exclusive {
        volume.snapshots.add_exclusive(node, blocks);
    }
    if to == BITS_PER_BLOCK {
        volume.score_after_scan(block, &active, &after);
        match plan.way {
            Way::Subtraction => volume.snapshots.counts.subtracted += 1,
            Way::Addition => volume.snapshots.counts.added += 1,
        }
    }
    set(volume, Scan::Delete { next: first + to });
    go_stale(volume, block);
    Ok(1 + gone.len())
}

/// Load phase of punching vvbns that no image holds.
fn prepare_punch(
    home: &mut Home,
    cx: &mut LoadCx<'_>,
    id: FileId,
    vvbns: &[u64],
) -> Result<(), Stop> {
    let mut gather = Gather::default();
    for vvbn in vvbns {
        gather.add(home.fs.prepare_punch(cx, id, *vvbn));
    }
    gather.finish()
}

/// Punches vvbns of one map block. They are not allocated in this consistency point.
fn punch(home: &mut Home, id: FileId, active: &Block, block: u64, vvbns: &[u64]) {
    let volume = &mut home.volumes.get_mut(&id).expect("found by its id").fs;
    for vvbn in vvbns {
        volume.safe.withhold(active, block, *vvbn);
        home.fs.punch(id, *vvbn);
    }
}

/// Returns all blocks of the victims' snapmaps, each with a victim that has the block, ascending.
fn blocks_of_snapmaps(
    volume: &FileSystem,
    cx: &mut LoadCx<'_>,
    victims: &[SnapshotId],
) -> Result<Vec<(u64, SnapshotId)>, Stop> {
    let mut found: BTreeMap<u64, SnapshotId> = BTreeMap::new();
    let mut gather = Gather::default();
    for victim in victims {
        let map = &volume.snapshots.get(*victim).active_map;
        let place = |(level, index)| crate::read::load::BlockName {
            volume: volume.container,
            file: map.id,
            level,
            index,
        };
        // The blocks shared with an elder victim were visited with that victim.
        let see = |pointer: Pointer| {
            pointer.has_block() && found.insert(pointer.vvbn.0, *victim).is_none()
        };
        let read = |_, pointer| cx.page(pointer);
        Root::of(map).each_block(Layer::Volume, &mut gather, place, read, see)?;
    }
    gather.finish()?;
    Ok(found.into_iter().collect())
}

/// Finishes the pass once all vvbns are done: removes the victims, and queues the blocks protected
/// for the scan for release.
fn finish_pass(
    home: &mut Home,
    cx: &mut LoadCx<'_>,
    id: FileId,
    victims: &[SnapshotId],
) -> Result<usize, Stop> {
    let volume = &mut home.volumes.get_mut(&id).expect("found by its id").fs;
    let history = volume.snapshots.history(true);
    let mut by_block: BTreeMap<u64, Vec<(u64, SnapshotId)>> = BTreeMap::new();
    for (vvbn, victim) in volume
        .snapshots
        .protected
        .as_ref()
        .expect("looked up first")
    {
        let blocks = by_block.entry(vvbn / BITS_PER_BLOCK).or_default();
        blocks.push((vvbn % BITS_PER_BLOCK, *victim));
    }
    let (mut releases, mut owned) = (Vec::new(), BTreeMap::new());
    let mut gather = Gather::default();
    for (block, entries) in &by_block {
        let near = |victim: SnapshotId| history.neighbours(Node::Snapshot(victim));
        let nodes = entries
            .iter()
            .flat_map(|(_, victim)| near(*victim))
            .chain([Node::Active]);
        let Some(maps) = gather.add(maps_of(volume.images(), cx, nodes, *block)) else {
            continue;
        };
        let has = |node: &Node, bit: u64| {
            maps[node]
                .as_ref()
                .is_some_and(|map| bitmap::is_set(map, bit))
        };
        for (bit, victim) in entries {
            let near = near(*victim);
            let mut snapshots = near.iter().filter(|node| **node != Node::Active);
            if snapshots.any(|node| has(node, *bit)) {
                continue;
            }
            if has(&Node::Active, *bit) {
                owned.entry(*block).or_insert_with(Vec::new).push(*bit);
            } else {
                releases.push(block * BITS_PER_BLOCK + bit);
            }
        }
    }
    gather.finish()?;
    // The active image's blocks are exclusive to it again.
    let summary = volume.snapshots.summary();
    let file = home.fs.file(summary);
    let mut gather = Gather::default();
    for block in owned.keys() {
        gather.add(file.modify(cx, 0, *block, Content::Keep).map(|_| ()));
    }
    gather.finish()?;
    let release = match releases.is_empty() {
        true => None,
        false => Some(add_release_file(home, cx, &releases)?),
    };

    // Modify: from here on nothing stops.
    let file = home.fs.file(summary);
    let volume = &mut home.volumes.get_mut(&id).expect("found by its id").fs;
    for (block, bits) in owned {
        let page = file.changed_page(0, block).expect("made changed above");
        for bit in bits {
            bitmap::clear(page, bit);
        }
        go_stale(volume, block);
    }
    volume.snapshots.bury(victims);
    volume.snapshots.protected = None;
    volume.snapshots.roots.release = release;
    volume.snapshots.set_changed();
    set(volume, Scan::None);
    Ok(1)
}

/// Adds a release file with these entries. Never returns a [`Stop`]: all blocks of the file are
/// new, so nothing must be loaded.
fn add_release_file(home: &mut Home, cx: &mut LoadCx<'_>, vvbns: &[u64]) -> Result<FileId, Stop> {
    let cp = home.run.as_ref().expect("under way").number;
    let id = home.fs.new_file_id();
    let inode = Inode::new(id, Kind::Release, cp, home.wall_seconds);
    let mut file = File::new(inode, Layer::Aggregate);
    let blocks = vvbns.len().div_ceil(release::RELEASES_PER_BLOCK) as u64;
    // At least one level, so that the file can shrink like any deleted one.
    file.grow(blocks.max(2));
    for (index, vvbns) in (0..).zip(vvbns.chunks(release::RELEASES_PER_BLOCK)) {
        release::encode_into(file.modify(cx, 0, index, Content::Fresh)?, vvbns);
    }
    file.inode_changed = true;
    home.fs.files.insert(id, file);
    Ok(id)
}

/// Releases the blocks of the next block of the release file.
fn release_some(
    home: &mut Home,
    cx: &mut LoadCx<'_>,
    id: FileId,
    next: u64,
) -> Result<usize, Stop> {
    let volume = &mut home.volumes.get_mut(&id).expect("found by its id").fs;
    let Some(release) = volume.snapshots.roots.release else {
        set(volume, Scan::None);
        return Ok(0);
    };
    let per_block = release::RELEASES_PER_BLOCK as u64;
    let leaf = next / per_block;
    let page = home.fs.file(release).leaf(cx, leaf)?;
    let entries = release::decode(page.bytes())?;
    if entries.is_empty() || leaf >= home.fs.file(release).inode.block_count() {
        let name = home.volumes[&id].shared.name.get();
        let entry = Entry::new(release, EntryKind::Side, &name);
        home.fs.hidden.add(entry);
        let volume = &mut home.volumes.get_mut(&id).expect("found by its id").fs;
        volume.snapshots.roots.release = None;
        volume.snapshots.set_changed();
        set(volume, Scan::None);
        return Ok(0);
    }
    // The entries of one map block at a time.
    let skipped = usize::try_from(next % per_block).expect("below 509");
    let rest = entries.get(skipped..).unwrap_or_default();
    let Some(block) = rest.first().map(|vvbn| vvbn / BITS_PER_BLOCK) else {
        set(
            volume,
            Scan::Release {
                next: (leaf + 1) * per_block,
            },
        );
        return Ok(0);
    };
    let some: Vec<u64> = rest
        .iter()
        .copied()
        .take_while(|vvbn| vvbn / BITS_PER_BLOCK == block)
        .collect();
    let active = volume.images().active_bits(cx, block)?;
    let summary = volume.snapshots.summary();
    prepare_punch(home, cx, id, &some)?;
    home.fs.file(summary).modify(cx, 0, block, Content::Keep)?;

    // Modify.
    let page = home
        .fs
        .file(summary)
        .changed_page(0, block)
        .expect("made changed above");
    for vvbn in &some {
        bitmap::clear(page, vvbn % BITS_PER_BLOCK);
    }
    let after = Box::new(**page);
    punch(home, id, &active, block, &some);
    let volume = &mut home.volumes.get_mut(&id).expect("found by its id").fs;
    volume.score_after_scan(block, &active, &after);
    set(
        volume,
        Scan::Release {
            next: next + some.len() as u64,
        },
    );
    go_stale(volume, block);
    Ok(1 + some.len())
}
