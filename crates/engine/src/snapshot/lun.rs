//! Restore of one LUN: the LUN gets the contents that it had in a snapshot, and the rest of the
//! volume stays (F-15).
//!
//! In the freeze the active image is taken as a *safety snapshot*, and operations on the volume
//! begin to wait. The consistency point writes the volume's image, and then a second one, in which
//! the LUN has the tree of the snapshot:
//!
//! ```text
//! seal ─▶ walk ─▶ (safety snapshot complete) ─▶ swap ─▶ place, maps, seal again ─▶ superblock
//! ```
//!
//! *Walk* compares the two trees from their roots, without following shared subtrees, and collects
//! the vvbns that the LUN gains and loses. The walk changes nothing, so if the snapshot cannot be
//! read, the restore ends without any effect. *Swap* sets and clears bits of the active map; the
//! safety snapshot holds the lost blocks, so nothing is punched. No block of data is copied.
//!
//! Gained blocks return to the active image although its parent does not have them. So from then on
//! the active image also descends from the snapshot: the history gets one more edge
//! ([`crate::holders::history`]), and holders stay connected.
//!
//! 1. Clients see all of the LUN before, or all of it after, with its size; a power cut leaves one
//!    of the two.
//! 2. A gained block is held by the snapshot, so its vvbn cannot have been reused.
//! 3. Gained and lost blocks may be shared with a clone of the LUN
//!    ([`crate::background::lun_clone`]). Then the restore changes their counts
//!    ([`crate::alloc::references`]) instead of their bits.
//! 4. The work is bounded by the consistency point's share of changed metadata; a restore that
//!    needs more is refused. Blocks of the refcount file are part of this share. They are counted
//!    before anything is changed, also where all counts are zero, because another LUN may refer to
//!    a gained block by now.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use everglade_format::indirect::BlockKind;
use everglade_format::metafile::{ACTIVE_MAP, REFCOUNTS};
use everglade_format::{
    BITS_PER_BLOCK, BLOCK_SIZE, Block, Damage, Entry, EntryKind, FileId, Header, Inode, Kind,
    Layer, SPAN, SnapshotId, Vvbn, bitmap, refcount,
};

use crate::alloc::filesystem::FileSystem;
use crate::background::lun_clone;
use crate::background::turns::CHANGED_MAX;
use crate::change::{Change, Error};
use crate::holders::alone::alone_with;
use crate::holders::history::Node;
use crate::holders::lun_restore::{Bits, LunRestore, Stage, Walk};
use crate::holders::table::Created;
use crate::home::aggregate::Home;
use crate::home::find::{check_new, check_room, find, live};
use crate::home::publication::{Publication, Restored};
use crate::home::site::Site;
use crate::pool::image;
use crate::pool::volume::{Lun, Volume};
use crate::read::load::{Gather, LoadCx, Stop};
use crate::read::root::Root;
use crate::read::walk::Pair;
use crate::tree::{File, Lost};

/// Pairs of blocks compared in one step.
const STEP_PAIRS: usize = 64;
/// Map blocks changed in one step.
const STEP_MAPS: usize = 16;
/// Blocks of the refcount file for one map block and its share of the summary map's.
const COUNTS_OF_MAP: usize = 8;

/// How far a step came.
pub(crate) enum RestoreStep {
    Again,
    Done,
    /// No restore is under way.
    Nothing,
}

/// Returns the file that a LUN of this name is restored to, or the reason for a refusal. Used by a
/// freeze, and before it by checks.
pub(crate) fn source(shared: &Volume, snapshot: &str, lun: &str) -> Result<FileId, Error> {
    let (name, at) = (
        format!("{}/{lun}", shared.name),
        format!("{}@{snapshot}", shared.name),
    );
    let images = shared.images();
    let then = |wanted: &dyn Fn(&Lun) -> bool| {
        let mut luns = images
            .get(snapshot)
            .into_iter()
            .flat_map(|image| image.luns.values());
        luns.find(|lun| wanted(lun)).map(|lun| lun.file)
    };
    let here = shared.lun(lun);
    let file = match &here {
        Some(here) => then(&|it| it.file == here.file),
        None => then(&|it| it.name.is(lun)),
    };
    let Some(file) = file else {
        return Err(match (here, then(&|it| it.name.is(lun))) {
            (Some(_), Some(_)) => Error::Busy(format!(
                "LUN {name} is another one than the one that {at} has; rename it or delete it first"
            )),
            _ => Error::NotFound(format!("LUN {lun} in snapshot {at}")),
        });
    };
    let known = shared.all_luns();
    if let Some(other) = known.iter().find(|it| it.file == file && !it.name.is(lun)) {
        return Err(Error::Busy(format!(
            "what is {lun} in {at} is {} now; restore it under that name",
            other.full_name()
        )));
    }
    Ok(file)
}

/// Begins a restore, in the freeze.
pub(crate) fn begin(
    home: &mut Home,
    seconds: u64,
    (volume, snapshot): (&str, &str),
    lun: &str,
    safety: &str,
) -> Result<(), Error> {
    let volume = find(home, volume)?;
    let target = live(volume, snapshot)?;
    check_new(volume, safety)?;
    check_room(volume)?;
    lun_clone::check_free(volume, lun)?;
    let shared = &volume.shared;
    let file = source(shared, snapshot, lun)?;
    shared.is_paused.store(true, Ordering::Release);
    let snapshots = &mut volume.fs.snapshots;
    snapshots.created.push(Created {
        name: safety.to_owned(),
        seconds,
        is_nameless: false,
    });
    snapshots.lun = Some(LunRestore {
        target,
        file,
        name: lun.to_owned(),
        stage: Stage::Asked,
    });
    Ok(())
}

/// Compares the two trees, once the volume's image is sealed. Changes nothing.
pub(crate) fn walk(home: &mut Home, cx: &mut LoadCx<'_>, id: FileId) -> Result<RestoreStep, Stop> {
    let (site, _) = home.site(id);
    let volume = site.volume;
    let Some(restore) = &mut volume.fs.snapshots.lun else {
        return Ok(RestoreStep::Nothing);
    };
    // Blocks just written are read again, perhaps from the devices.
    site.writer.finish(&site.aggregate.media)?;
    let (target, file) = (restore.target, restore.file);
    let mut walk = match std::mem::replace(&mut restore.stage, Stage::Asked) {
        Stage::Walk(walk) => walk,
        _ => match first_pair(&volume.fs, cx, target, file) {
            Ok(walk) => walk,
            Err(stop) => return give_up_if_failed(home, id, stop),
        },
    };
    let (mut site, _) = home.site(id);
    let fs = &mut site.volume.fs;
    let mut limit = maps_max(site.aggregate.space.reserve());
    if walk.may_share {
        limit = (limit / COUNTS_OF_MAP).max(1);
    }
    let outcome = compare_some(&mut walk, cx, file);
    if walk.maps.len() > limit {
        let most = limit as u64 * BITS_PER_BLOCK * BLOCK_SIZE as u64;
        let text = format!(
            "the LUN differs from the snapshot in more than {most} bytes of block numbers, the \
            most that is restored at once; restore the volume, or clone the snapshot and copy \
            from that"
        );
        give_up(home, id, Error::Limit(text));
        return Ok(RestoreStep::Nothing);
    }
    if let Err(stop) = outcome {
        let restore = fs.snapshots.lun.as_mut().expect("found above");
        restore.stage = Stage::Walk(walk);
        return give_up_if_failed(home, id, stop);
    }
    let is_counted = walk.pairs.is_empty() && walk.may_share;
    if walk.pairs.is_empty()
        && !is_counted
        && let Err(stop) = number_counts(&mut walk, fs, cx)
    {
        let restore = fs.snapshots.lun.as_mut().expect("found above");
        restore.stage = Stage::Walk(walk);
        return give_up_if_failed(home, id, stop);
    }
    if !is_counted && is_too_much(limit, walk.maps.len(), walk.looked_at.1) {
        let text = "the LUN comes back with more blocks that other LUNs have by now than are \
            counted at once; restore the volume, or clone the snapshot and copy from that";
        give_up(home, id, Error::Limit(text.to_owned()));
        return Ok(RestoreStep::Nothing);
    }
    let has_more = walk.maps.range(walk.looked_at.0..).next().is_some();
    let restore = fs.snapshots.lun.as_mut().expect("found above");
    if !walk.pairs.is_empty() || !is_counted && has_more {
        restore.stage = Stage::Walk(walk);
        return Ok(RestoreStep::Again);
    }
    let zero = |bits: &Bits| bitmap::ones(&bits.gained).next().is_none();
    restore.stage = Stage::Swap {
        has_gained: !walk.maps.values().all(zero),
        inode: walk.inode,
        maps: walk.maps,
    };
    site.note_lost(file, walk.unreadable);
    Ok(RestoreStep::Done)
}

/// Most map blocks that one restore may change: with the summary map's they are half of what a
/// consistency point may have changed, and a small part of the reserve.
fn maps_max(reserve: u64) -> usize {
    let part = usize::try_from(reserve / 16).unwrap_or(usize::MAX);
    part.clamp(1, CHANGED_MAX / 4)
}

/// True if the map blocks, with their share of the summary map's, and the blocks of the refcount
/// file are more than a restore may change.
fn is_too_much(limit: usize, maps: usize, counts: usize) -> bool {
    2 * maps + counts > 2 * limit
}

/// Looks at some map blocks: what of the gained blocks is another LUN's needs a count.
fn number_counts(walk: &mut Walk, fs: &FileSystem, cx: &mut LoadCx<'_>) -> Result<(), Stop> {
    let mut gather = Gather::default();
    let (mut from, mut counts) = walk.looked_at;
    for (block, bits) in walk.maps.range(from..).take(STEP_MAPS) {
        if *block < fs.files[&ACTIVE_MAP].inode.block_count()
            && let Some(active) = gather.add(fs.images().active_bits(cx, *block))
        {
            counts += counts_of(*block, &shared(bits, &active));
        }
        from = block + 1;
    }
    gather.finish()?;
    walk.looked_at = (from, counts);
    Ok(())
}

/// Blocks of the refcount file that have the counts of these bits of a map block, ascending.
fn counts_of(block: u64, bits: &[u64]) -> usize {
    let mut blocks: Vec<u64> = bits
        .iter()
        .map(|bit| refcount::block_and_slot(Vvbn(block * BITS_PER_BLOCK + bit)).0)
        .collect();
    blocks.dedup();
    blocks.len()
}

fn first_pair(
    fs: &FileSystem,
    cx: &mut LoadCx<'_>,
    target: SnapshotId,
    file: FileId,
) -> Result<Walk, Stop> {
    let record = fs.snapshots.get(target);
    let inodes = File::new(record.inode_file.clone(), Layer::Volume);
    let inode = image::load_inode(&inodes, cx, file)?;
    Damage::unless_equal("inode kind", Kind::Lun, inode.kind)?;
    if inode.levels == 0 {
        return Err(Damage::new("inode levels", "at least 1", 0).into());
    }
    let counts = image::find_inode(&inodes, cx, REFCOUNTS)?;
    let now = fs.files.get(&file);
    let now = now.map_or(Root::EMPTY, |file| Root::of(&file.inode));
    let then = Root::of(&inode);
    Ok(Walk {
        inode,
        pairs: vec![Pair::of(now, then, 0)],
        maps: BTreeMap::new(),
        may_share: fs.has_counts || counts.is_some(),
        looked_at: (0, 0),
        unreadable: Vec::new(),
    })
}

/// Compares some pairs. Those that need pages stay.
fn compare_some(walk: &mut Walk, cx: &mut LoadCx<'_>, file: FileId) -> Result<(), Stop> {
    let mut gather = Gather::default();
    let mut todo = Vec::new();
    for _ in 0..STEP_PAIRS {
        todo.extend(walk.pairs.pop());
    }
    for pair in todo {
        match compare(walk, cx, file, pair) {
            Ok(()) => {}
            Err(stop) => {
                walk.pairs.push(pair);
                gather.add::<()>(Err(stop));
            }
        }
    }
    gather.finish()
}

/// Compares one pair; the pairs below come later.
fn compare(walk: &mut Walk, cx: &mut LoadCx<'_>, file: FileId, pair: Pair) -> Result<(), Stop> {
    if pair.is_same() {
        return Ok(());
    }
    let (level, index) = (pair.level, pair.index);
    let [before, after] = pair.blocks();
    let mut children = Vec::new();
    if level > 0 {
        let mut gather = Gather::default();
        let kind = BlockKind::indirect(Layer::Volume);
        let after_page = match after {
            Some(pointer) => gather.add(cx.page(pointer)).map(Some),
            None => Some(None),
        };
        let before_page = match before {
            Some(pointer) => gather.add(cx.page_or_damage(pointer)),
            None => Some(Err(String::new())),
        };
        gather.finish()?;
        let (Some(after_page), Some(before_page)) = (after_page, before_page) else {
            unreachable!("nothing was missing")
        };
        if let Some(page) = &after_page {
            Header::expect(page, kind, level, file, index)?;
        }
        let is_whole =
            |page: &everglade_env::PageRef| Header::expect(page, kind, level, file, index).is_ok();
        let before_page = match before_page {
            Ok(page) if is_whole(&page) => Some(page),
            damaged => {
                if before.is_some() {
                    let reason = damaged.err();
                    walk.unreadable.push(Lost {
                        level,
                        index,
                        reason: reason.unwrap_or_else(|| "it is another block".to_owned()),
                    });
                }
                None
            }
        };
        for slot in 0..SPAN {
            let pages = [before_page.as_ref(), after_page.as_ref()];
            let child = pair.child(slot, pages, Layer::Volume)?;
            if !child.nodes.iter().all(|node| node.pointer.is_hole()) {
                children.push(child);
            }
        }
    }
    // No step stops from here on.
    let is_the_same = before.map(|it| it.vvbn) == after.map(|it| it.vvbn);
    for (pointer, is_gained) in [(before, false), (after, true)] {
        let Some(pointer) = pointer.filter(|_| !is_the_same) else {
            continue;
        };
        let (block, bit) = (
            pointer.vvbn.0 / BITS_PER_BLOCK,
            pointer.vvbn.0 % BITS_PER_BLOCK,
        );
        let bits = walk.maps.entry(block).or_insert_with(|| Bits {
            gained: Box::new([0; BLOCK_SIZE]),
            lost: Box::new([0; BLOCK_SIZE]),
        });
        match is_gained {
            true => bitmap::set(&mut bits.gained, bit),
            false => bitmap::set(&mut bits.lost, bit),
        };
    }
    // Leaves need nothing loaded, so they are not kept waiting.
    for child in children {
        match child.level {
            0 => compare(walk, cx, file, child)?,
            _ => walk.pairs.push(child),
        }
    }
    Ok(())
}

fn give_up_if_failed(home: &mut Home, id: FileId, stop: Stop) -> Result<RestoreStep, Stop> {
    match stop.settled() {
        Stop::Failed(error) => {
            let text = format!("the snapshot cannot be read, and nothing was changed: {error}");
            give_up(home, id, Error::Unavailable(text));
            Ok(RestoreStep::Nothing)
        }
        stop => Err(stop),
    }
}

/// Ends the restore as if nothing had been asked for.
fn give_up(home: &mut Home, id: FileId, reason: Error) {
    let volume = home.site(id).0.volume;
    volume.fs.snapshots.lun = None;
    let safety = volume.fs.snapshots.created.pop();
    assert!(safety.is_some(), "a restore takes a safety snapshot");
    let name = volume.shared.name.to_string();
    volume.shared.is_paused.store(false, Ordering::Release);
    let is_ours =
        |change: &Change| matches!(change, Change::RestoreLun { volume, .. } if *volume == name);
    home.under_way().refuse(is_ours, &reason);
}

/// Begins the swap after the safety snapshot is complete: loaded state of active map blocks is out
/// of date.
pub(crate) fn begin_swap(fs: &mut FileSystem) {
    fs.snapshots.held.clear();
    fs.snapshots.stale.clear();
}

/// Changes some map blocks, and in the end gives the LUN its tree.
pub(crate) fn swap(home: &mut Home, cx: &mut LoadCx<'_>, id: FileId) -> Result<RestoreStep, Stop> {
    let seconds = home.wall_seconds;
    let (mut site, _) = home.site(id);
    let restore = lun_of(&mut site);
    let mut stage = std::mem::replace(&mut restore.stage, Stage::Swapped);
    let Stage::Swap {
        inode,
        maps,
        has_gained,
    } = &mut stage
    else {
        unreachable!("swapping comes after walking")
    };
    let target = restore.target;
    let outcome = swap_some(&mut site, cx, seconds, target, maps);
    let restore = lun_of(&mut site);
    if outcome.is_err() || !maps.is_empty() {
        restore.stage = stage;
        return outcome.map(|()| RestoreStep::Again);
    }
    let name = restore.name.clone();
    let (inode, has_gained) = (inode.clone(), *has_gained);
    let fs = &mut site.volume.fs;
    put(fs, inode, name);
    if has_gained {
        let has_room = fs.snapshots.descend_from(target);
        assert!(has_room, "the safety snapshot took over all edges but one");
    }
    fs.snapshots.set_changed();
    Ok(RestoreStep::Done)
}

fn lun_of<'a>(site: &'a mut Site<'_>) -> &'a mut LunRestore {
    let restore = site.volume.fs.snapshots.lun.as_mut();
    restore.expect("it was walked")
}

fn swap_some(
    site: &mut Site<'_>,
    cx: &mut LoadCx<'_>,
    seconds: u64,
    target: SnapshotId,
    maps: &mut BTreeMap<u64, Bits>,
) -> Result<(), Stop> {
    let stamp = (site.cp, seconds);
    // Load.
    let mut gather = Gather::default();
    let mut alone = Vec::new();
    for (block, bits) in maps.iter().take(STEP_MAPS) {
        let fs = &mut site.volume.fs;
        fs.map().grow(block + 1);
        gather.add(fs.prepare_map(Some(site.below), cx, *block));
        for bit in bitmap::ones(&bits.lost) {
            let vvbn = Vvbn(block * BITS_PER_BLOCK + bit);
            gather.add(site.prepare_release(cx, vvbn));
        }
        let fs = &mut site.volume.fs;
        // Blocks that another LUN has already are shared with it.
        let active = gather.add(fs.images().active_bits(cx, *block));
        for bit in active.iter().flat_map(|active| shared(bits, active)) {
            let vvbn = Vvbn(block * BITS_PER_BLOCK + bit);
            gather.add(fs.prepare_reference(cx, stamp, vvbn));
        }
        alone.extend(gather.add(alone_with(fs.images(), cx, target, *block)));
    }
    gather.finish()?;

    // Modify.
    for alone in alone {
        let (block, bits) = maps.pop_first().expect("looked at above");
        let active = site
            .volume
            .fs
            .map()
            .peek(0, block)
            .map(|page| Box::new(**page));
        let active = active.expect("the map block was prepared");
        for bit in bitmap::ones(&bits.lost) {
            let vvbn = Vvbn(block * BITS_PER_BLOCK + bit);
            site.release(vvbn);
        }
        let fs = &mut site.volume.fs;
        let mut gained = 0;
        for bit in bitmap::ones(&bits.gained) {
            let vvbn = block * BITS_PER_BLOCK + bit;
            if bitmap::is_set(&active, bit) {
                fs.add_reference(Vvbn(vvbn));
            } else if fs.adopt(vvbn) && bitmap::is_set(&alone, bit) {
                gained += 1;
            }
        }
        fs.snapshots.add_exclusive(Node::Snapshot(target), -gained);
    }
    Ok(())
}

/// Bits of what the LUN gains that the active image has.
fn shared(bits: &Bits, active: &Block) -> Vec<u64> {
    let gained = bitmap::ones(&bits.gained);
    gained.filter(|bit| bitmap::is_set(active, *bit)).collect()
}

/// The LUN has the tree, the size and the name now.
fn put(fs: &mut FileSystem, inode: Inode, name: String) {
    let (id, is_cut) = (inode.id, inode.is_cut);
    let mut file = fs.file_of(inode);
    file.inode_changed = true;
    fs.files.insert(id, file);
    fs.hidden.remove(id);
    match fs.directory.contains(id) {
        // It may be in the trash, and comes back from there.
        true => fs.directory.revive(id, &name),
        false => fs.directory.add(Entry::new(id, EntryKind::Lun, &name)),
    }
    fs.cut.remove(&id);
    if is_cut {
        fs.cut.insert(id);
    }
}

/// Finishes a restore whose only remaining step is its publication.
pub(crate) fn finish(site: &mut Site<'_>, publication: &mut Publication) {
    let volume = &mut *site.volume;
    let Some(restore) = volume.fs.snapshots.lun.take() else {
        return;
    };
    assert!(
        matches!(restore.stage, Stage::Swapped),
        "a LUN was restored by halves"
    );
    let restored = Restored::new(&volume.shared, &volume.fs);
    publication.restored.push(restored);
}

/// True while the first of the two images is being sealed.
pub(crate) fn is_waiting(fs: &FileSystem) -> bool {
    let restore = fs.snapshots.lun.as_ref();
    restore.is_some_and(|restore| matches!(restore.stage, Stage::Asked))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_of_counts_is_numbered_once() {
        let mut bits = Bits {
            gained: Box::new([0; BLOCK_SIZE]),
            lost: Box::new([0; BLOCK_SIZE]),
        };
        let mut active = Box::new([0; BLOCK_SIZE]);
        for bit in [0, 5, 2_047, 2_048, 9_000, 32_767] {
            bitmap::set(&mut bits.gained, bit);
        }
        assert_eq!(counts_of(3, &shared(&bits, &active)), 0);
        for bit in [0, 5, 7, 2_048, 32_767] {
            bitmap::set(&mut active, bit);
        }
        assert_eq!(counts_of(3, &shared(&bits, &active)), 3);
    }

    /// A LUN was cloned and deleted, and the clone stayed. Then there were no counts, so a restore
    /// of the LUN had the bound of volumes that share nothing; but each of its blocks needed a
    /// count.
    #[test]
    fn a_lun_that_is_all_shared_by_now_has_a_smaller_bound() {
        let limit = maps_max(16_384);
        assert_eq!(limit, 1_024);
        assert!(!is_too_much(limit, limit, 0));
        assert!(is_too_much(limit, limit, 1));
        // 16 blocks of counts for each map block.
        assert!(!is_too_much(limit, limit / 9, limit / 9 * 16));
        assert!(is_too_much(limit, limit / 8, limit / 8 * 16));
    }
}
