//! Cloning a LUN inside its volume: another LUN that begins with the same blocks (B-15).
//!
//! Indirect blocks name their file, so the clone gets its own; leaves are shared. Cloning writes a
//! 255th of the LUN's data and a count for each of its blocks. So it is done in the background, a
//! little in each consistency point, and clients see the clone only when it is complete.
//!
//! ```text
//! freeze:  a snapshot of the volume,
//!          or one that exists ─┐
//!          a hidden file ──────┴─▶ step … step ─▶ the file's name moves to the directory
//!                                       └──cancel, failure──▶ the file is reclaimed as deleted
//! ```
//!
//! **The source does not change under the walk**, because it is a snapshot. A snapshot that is
//! taken for the clone counts as deleted from the beginning: it has no name, and the delete scan
//! removes it when the clone is done. Until then the source is not released, even if it was a named
//! snapshot that is deleted meanwhile.
//!
//! **Leaves.** If the active image still has a leaf of the source, the leaf gets one more reference
//! in the refcount file ([`crate::alloc::references`]). If the leaf was overwritten, the active
//! image takes it back from the snapshot, as when a LUN is restored ([`crate::snapshot::lun`]).
//! Therefore the active image descends from the source while a clone is made, also after other
//! snapshots were taken ([`crate::holders::history`]).
//!
//! **Restart.** The superblock has source, file and cursor, committed together with the blocks. So
//! cloning continues after a restart where it stopped.
//!
//! 1. The leaves below the cursor are shared and counted; the others are not.
//! 2. The clone's file has its name in the hidden namespace, but is not reclaimed while the
//!    superblock names it.
//! 3. No other LUN gets the name meanwhile. Restoring the volume ends the cloning, because the
//!    image that it belongs to is no longer active. Cloning pauses until the restore has read its
//!    target; if the target cannot be read, cloning continues.
//! 4. The source has everything that the LUN had in the freeze: the same freeze neither deletes nor
//!    shrinks the LUN afterwards.
//! 5. Steps do not use the reserve. If the pool is full, cloning ends and its blocks are freed.
//! 6. The fields in the superblock are compared with the trees. If they contradict each other,
//!    cloning ends.

use std::collections::btree_map::Entry as MapEntry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use everglade_env::PageRef;
use everglade_format::indirect::BlockKind;
use everglade_format::snapshot::ALSO_MAX;
use everglade_format::volume::LunCloning;
use everglade_format::{
    BITS_PER_BLOCK, BLOCK_SIZE, Block, CpNumber, Damage, Entry, EntryKind, FileId, Header,
    Indirect, Inode, Kind, Layer, Pointer, SPAN, Vvbn, bitmap, refcount,
};

use crate::alloc::filesystem::FileSystem;
use crate::background::pass::{Budget, Pass, Room};
use crate::change::Error;
use crate::holders::alone::alone_with;
use crate::holders::history::Node;
use crate::holders::lun_clone::Job;
use crate::holders::table::Created;
use crate::home::aggregate::Home;
use crate::home::find::{check_name, check_room, ensure_side_files, find, live, set_size};
use crate::home::ledger::{Target, Turn};
use crate::home::publication::NewLun;
use crate::home::volume::VolumeHome;
use crate::pool::image;
use crate::pool::info::{LunCloneInfo, Progress};
use crate::pool::volume::{Lun, Volume};
use crate::read::load::{Gather, LoadCx, Stop};
use crate::read::root::Root;
use crate::tree::{Content, File};

/// Level-1 blocks in one step, at most.
const STEP_REGIONS: usize = 16;
/// Blocks that one level-1 block of the clone may change, about.
const REGION_BLOCKS: usize = 512;

/// The LUN that is being made: its file, and the name that it will have.
fn entry(fs: &FileSystem) -> Option<&Entry> {
    let made = fs.snapshots.roots.lun_clone?.to;
    fs.hidden.iter().find(|entry| entry.file == made)
}

/// Refuses a name that belongs to a LUN that is being cloned.
pub(crate) fn check_free(volume: &VolumeHome, name: &str) -> Result<(), Error> {
    match entry(&volume.fs) {
        Some(entry) if entry.name == name => Err(Error::Busy(format!(
            "LUN {}/{name} is just being made, as a clone; wait until it is there, or cancel that",
            volume.shared.name
        ))),
        _ => Ok(()),
    }
}

/// Refuses an operation on a LUN that is being cloned, as it is, in this freeze. The snapshot that
/// holds the LUN is taken after the consistency point has sealed the image, so deleted or cut-off
/// blocks would be missing in the snapshot.
pub(crate) fn check_held(volume: &VolumeHome, lun: &Lun) -> Result<(), Error> {
    let snapshots = &volume.fs.snapshots;
    match snapshots.roots.lun_clone {
        Some(cloning) if cloning.from == lun.file && !snapshots.has(cloning.source) => {
            Err(Error::Busy(format!(
                "{} is just being cloned; try again when that has begun",
                lun.full_name()
            )))
        }
        _ => Ok(()),
    }
}

/// Begins a clone, in the freeze.
pub(crate) fn begin(
    home: &mut Home,
    (cp, seconds): (CpNumber, u64),
    (volume, lun): (&str, &str),
    name: &str,
    from: Option<&str>,
) -> Result<(), Error> {
    check_name(name)?;
    let known = find(home, volume)?;
    if known.shared.lun(name).is_some() {
        return Err(Error::Exists(format!("LUN {}/{name}", known.shared.name)));
    }
    check_free(known, name)?;
    if let Some(entry) = entry(&known.fs) {
        return Err(Error::Busy(format!(
            "LUN {}/{} is being cloned, and a volume does that one at a time; wait until it is \
            there, or cancel that",
            known.shared.name, entry.name
        )));
    }
    let (source, found) = match from {
        Some(snapshot) => {
            let source = live(known, snapshot)?;
            let images = known.shared.images();
            let lun_there = images.get(snapshot).and_then(|image| image.luns.get(lun));
            let found = lun_there.cloned().ok_or_else(|| {
                let object = format!("LUN {lun} in snapshot {}@{snapshot}", known.shared.name);
                Error::NotFound(object)
            })?;
            drop(images);
            if !known.fs.snapshots.descend_from(source) {
                return Err(Error::Limit(format!(
                    "volume {} descends from {ALSO_MAX} snapshots besides its last one, the most \
                    there can be; take a snapshot of it and try again",
                    known.shared.name
                )));
            }
            (source, found)
        }
        None => {
            let found = known.shared.lun(lun);
            let missing = || Error::NotFound(format!("LUN {}/{lun}", known.shared.name));
            let found = found.ok_or_else(missing)?;
            check_room(known)?;
            ensure_side_files(home, cp, seconds, volume)?;
            let snapshots = &mut find(home, volume)?.fs.snapshots;
            let source = snapshots.id_of_next();
            snapshots.created.push(Created {
                name: name.to_owned(),
                seconds,
                is_nameless: true,
            });
            (source, found)
        }
    };
    let fs = &mut find(home, volume)?.fs;
    let to = fs.new_file_id();
    let mut file = fs.file_of(Inode::new(to, Kind::Lun, cp, seconds));
    set_size(&mut file, found.size_bytes());
    fs.files.insert(to, file);
    fs.hidden.add(Entry::new(to, EntryKind::Lun, name));
    fs.snapshots.roots.lun_clone = Some(LunCloning {
        source,
        from: found.file,
        to,
        next: 0,
    });
    fs.snapshots.lun_clone = Job::default();
    fs.snapshots.set_changed();
    Ok(())
}

/// Ends the clone that is to get this name, in the freeze.
pub(crate) fn cancel(home: &mut Home, volume: &str, name: &str) -> Result<(), Error> {
    let known = find(home, volume)?;
    match entry(&known.fs) {
        Some(entry) if entry.name == name => {
            end(&mut known.fs, "it was cancelled");
            Ok(())
        }
        _ => Err(Error::NotFound(format!(
            "clone {}/{name} that is being made",
            known.shared.name
        ))),
    }
}

/// Ends a clone that is being made, if there is one: its file is one that was deleted now.
pub(crate) fn end(fs: &mut FileSystem, reason: &str) {
    let Some(entry) = entry(fs) else { return };
    let failed = Some((entry.name.clone(), reason.to_owned()));
    fs.snapshots.roots.lun_clone = None;
    fs.snapshots.lun_clone = Job {
        failed,
        ..Job::default()
    };
    fs.snapshots.set_changed();
}

/// Checks the superblock's record of a clone against the rest; if they disagree, the file that was
/// being made is marked deleted.
pub(crate) fn check_loaded(fs: &mut FileSystem) {
    let Some(cloning) = fs.snapshots.roots.lun_clone else {
        return;
    };
    let is_there = fs.hidden.contains(cloning.to) && fs.snapshots.has(cloning.source);
    if !is_there {
        fs.snapshots.roots.lun_clone = None;
        fs.snapshots.set_changed();
    }
}

/// Returns the job's description for administrators.
pub(crate) fn describe(home: &Home, id: FileId) -> Option<LunCloneInfo> {
    let fs = &home.volumes.get(&id)?.fs;
    let progress = LunClones.progress(home, Target::Volume(id));
    let (Some(progress), Some(entry)) = (progress, entry(fs)) else {
        let job = &fs.snapshots.lun_clone;
        let (name, reason) = job.failed.clone()?;
        return Some(LunCloneInfo {
            name,
            failed: Some(reason),
            found_no_space: job.found_no_space,
            ..LunCloneInfo::default()
        });
    };
    Some(LunCloneInfo {
        name: entry.name.clone(),
        done_bytes: progress.done,
        total_bytes: progress.total,
        eta_seconds: progress.eta_seconds(home.wall_seconds),
        failed: None,
        found_no_space: false,
    })
}

/// See the module's documentation.
pub(crate) struct LunClones;

impl Pass<Home> for LunClones {
    fn name(&self) -> &'static str {
        "lun_clone"
    }

    fn has_work(&self, home: &Home, target: Target) -> bool {
        file_system(home, target).is_some_and(|fs| fs.snapshots.roots.lun_clone.is_some())
    }

    fn wants(&self, home: &Home) -> Vec<Target> {
        let is_due = |fs: &FileSystem| {
            let cloning = fs.snapshots.roots.lun_clone;
            let is_staying = fs.snapshots.restoring.is_none();
            is_staying && cloning.is_some_and(|cloning| fs.snapshots.has(cloning.source))
        };
        let due = home
            .planned()
            .filter(|target| file_system(home, *target).is_some_and(is_due));
        due.collect()
    }

    fn step(
        &self,
        home: &mut Home,
        cx: &mut LoadCx<'_>,
        target: Target,
        room: Room,
    ) -> Result<Turn, Stop> {
        let id = target.volume().expect("it wants volumes only");
        step(home, cx, id, room)
    }

    /// Returns the progress in bytes of the LUN.
    fn progress(&self, home: &Home, target: Target) -> Option<Progress> {
        let fs = file_system(home, target)?;
        let cloning = fs.snapshots.roots.lun_clone?;
        let total = fs.files.get(&cloning.to)?.inode.size_bytes;
        let bytes = |regions: u64| regions.saturating_mul(SPAN * BLOCK_SIZE as u64).min(total);
        let since = fs.snapshots.lun_clone.since;
        Some(Progress {
            done: bytes(cloning.next),
            total,
            since: since.map(|(since, from)| (since, bytes(from))),
        })
    }

    fn budget(&self, _home: &Home, regions: u64) -> Budget {
        let regions = regions.div_ceil(2);
        Budget::Own { regions }
    }

    fn frees(&self) -> bool {
        false
    }
}

fn file_system(home: &Home, target: Target) -> Option<&FileSystem> {
    let volume = home.volumes.get(&target.volume()?)?;
    Some(&volume.fs)
}

/// Runs one step of a volume's clone job.
fn step(home: &mut Home, cx: &mut LoadCx<'_>, id: FileId, room: Room) -> Result<Turn, Stop> {
    let used = home.fs.used;
    let space = &home.aggregate.space;
    let needed = (room.changed + STEP_REGIONS * 2) as u64;
    let is_growing = space.is_growing();
    let fits = space.fits_beside_reserve(used, needed);
    let fs = &mut home.volumes.get_mut(&id).expect("wanted just now").fs;
    match (fits, is_growing) {
        (true, _) => {}
        (false, true) => return Ok(Turn::Waits),
        (false, false) => {
            let turn = give_up(fs, &Error::NoSpace.to_string());
            fs.snapshots.lun_clone.found_no_space = true;
            return Ok(turn);
        }
    }
    let regions = (room.changed_max / 2 / REGION_BLOCKS).clamp(1, STEP_REGIONS);
    let leaves = match read(fs, cx, regions).map_err(Stop::settled) {
        Ok(leaves) => leaves,
        Err(Stop::Failed(error)) => {
            return Ok(give_up(fs, &format!("the LUN cannot be read: {error}")));
        }
        Err(stop) => return Err(stop),
    };
    match leaves.is_empty() {
        true => {
            finish(home, id);
            Ok(Turn::Moved(0))
        }
        false => share(home, cx, id, leaves),
    }
}

/// The clone ends as if it was cancelled.
fn give_up(fs: &mut FileSystem, reason: &str) -> Turn {
    end(fs, reason);
    Turn::GaveUp
}

/// A level-1 block of the source: its index, and its leaves.
type Region = (u64, Vec<(u64, Pointer)>);

/// Reads the next few level-1 blocks of the source; none if there are no more.
fn read(fs: &mut FileSystem, cx: &mut LoadCx<'_>, most: usize) -> Result<Vec<Region>, Stop> {
    let cloning = fs.snapshots.roots.lun_clone.expect("it is being made");
    let job = &mut fs.snapshots.lun_clone;
    let inode = match &job.source {
        Some(inode) => inode.clone(),
        None => {
            let record = fs.snapshots.get(cloning.source);
            let inodes = File::new(record.inode_file.clone(), Layer::Volume);
            let inode = image::load_inode(&inodes, cx, cloning.from)?;
            Damage::unless_equal("inode kind", Kind::Lun, inode.kind)?;
            if inode.levels == 0 {
                return Err(Damage::new("inode levels", "at least 1", 0).into());
            }
            fs.snapshots.lun_clone.source = Some(inode.clone());
            inode
        }
    };
    let end = inode.block_count();
    let made = &fs.files[&cloning.to].inode;
    // A LUN that grew in the freeze that the clone was begun in has nothing beyond its end of
    // before.
    let (made_end, vvbns) = (made.block_count(), source_vvbns(fs, &cloning));
    if made.levels == 0 {
        return Err(Damage::new("inode levels of a clone", "at least 1", 0).into());
    }
    let mut places = Vec::new();
    let mut next = cloning.next;
    while places.len() < most {
        let root = Root::of(&inode);
        match root.next_checked(cx, Layer::Volume, inode.id, 1, next) {
            Ok(Some((region, pointer))) if region * SPAN < end => {
                places.push((region, pointer));
                next = region + 1;
            }
            Ok(_) => break,
            // The places found so far are enough.
            Err(Stop::Load) if !places.is_empty() => break,
            Err(stop) => return Err(stop),
        }
    }
    let mut gather = Gather::default();
    let mut pages: Vec<(u64, PageRef)> = Vec::new();
    for (region, pointer) in places {
        pages.extend(gather.add(cx.page(pointer)).map(|page| (region, page)));
    }
    gather.finish()?;
    let mut regions = Vec::new();
    for (region, page) in pages {
        let kind = BlockKind::indirect(Layer::Volume);
        Header::expect(&page, kind, 1, inode.id, region)?;
        let mut leaves = Vec::new();
        let mut from = 0;
        while let Some(slot) = Indirect(&page).next_used(from) {
            let leaf = region * SPAN + slot;
            if leaf < end {
                let pointer = Indirect(&page).pointer(slot, Layer::Volume)?;
                if leaf >= made_end {
                    let expected = format!("below {made_end}, where the clone ends");
                    return Err(Damage::new("leaf of a cloned LUN", expected, leaf).into());
                }
                if pointer.has_block() && pointer.vvbn.0 >= vvbns {
                    let expected = format!("below {vvbns}");
                    return Err(Damage::new("vvbn of a cloned LUN", expected, pointer.vvbn).into());
                }
                leaves.push((leaf, pointer));
            }
            from = slot + 1;
        }
        regions.push((region, leaves));
    }
    Ok(regions)
}

/// The vvbns that the source's map speaks of are below this.
fn source_vvbns(fs: &FileSystem, cloning: &LunCloning) -> u64 {
    let map = &fs.snapshots.get(cloning.source).active_map;
    map.block_count().saturating_mul(BITS_PER_BLOCK)
}

/// What is known of the vvbns of one map block.
struct MapBits {
    active: PageRef,
    /// Blocks that only the source holds; loaded if the active image lacks any of them.
    alone: Option<Box<Block>>,
}

/// Gives the clone some level-1 blocks with the leaves of the source.
fn share(
    home: &mut Home,
    cx: &mut LoadCx<'_>,
    id: FileId,
    regions: Vec<Region>,
) -> Result<Turn, Stop> {
    let run = home.run.as_ref().expect("under way");
    let stamp = (run.number, home.wall_seconds);
    let fs = &mut home.volumes.get_mut(&id).expect("found above").fs;
    let cloning = fs.snapshots.roots.lun_clone.expect("it is being made");

    // Load.
    let mut gather = Gather::default();
    let mut known: BTreeMap<u64, MapBits> = BTreeMap::new();
    let mut is_full = false;
    for (region, leaves) in regions.iter().filter(|(_, leaves)| !leaves.is_empty()) {
        let file = fs.file(cloning.to);
        gather.add(file.modify(cx, 1, *region, Content::Keep).map(|_| ()));
        for (_, pointer) in leaves.iter().filter(|(_, pointer)| pointer.has_block()) {
            let vvbn = pointer.vvbn;
            let (block, bit) = (vvbn.0 / BITS_PER_BLOCK, vvbn.0 % BITS_PER_BLOCK);
            let here = match known.entry(block) {
                MapEntry::Occupied(here) => here.into_mut(),
                MapEntry::Vacant(place) => {
                    let active = match block < fs.map().inode.block_count() {
                        true => gather.add(fs.images().active_bits(cx, block)),
                        false => Some(PageRef::zero()),
                    };
                    let Some(active) = active else { continue };
                    place.insert(MapBits {
                        active,
                        alone: None,
                    })
                }
            };
            if bitmap::is_set(&here.active, bit) {
                let count = gather.add(fs.prepare_reference(cx, stamp, vvbn));
                is_full |= count.is_some_and(|count| count >= refcount::CLONE_MAX);
            } else if here.alone.is_none() {
                fs.map().grow(block + 1);
                gather.add(fs.prepare_map(Some(&mut home.fs), cx, block));
                here.alone = gather.add(alone_with(fs.images(), cx, cloning.source, block));
            }
        }
    }
    gather.finish()?;
    if let Some(reason) = contradiction(home, id, &cloning, &regions)? {
        let fs = &mut home.volumes.get_mut(&id).expect("found above").fs;
        return Ok(give_up(fs, &reason));
    }
    let fs = &mut home.volumes.get_mut(&id).expect("found above").fs;
    if is_full {
        let most = u64::from(refcount::CLONE_MAX) + 1;
        let reason = format!("a block of it is in {most} LUNs already, the most there can be");
        return Ok(give_up(fs, &reason));
    }

    // Modify.
    let blocks = regions.len() as u64 * SPAN;
    let last = regions
        .last()
        .map_or(cloning.next, |(region, _)| region + 1);
    for (_, leaves) in regions {
        for (leaf, pointer) in leaves {
            if pointer.has_block() {
                take(fs, &known, &cloning, pointer.vvbn);
            }
            let before = fs.file(cloning.to).set_leaf(leaf, pointer)?;
            assert!(before.is_hole(), "it was a hole a moment ago");
        }
    }
    fs.file(cloning.to).inode_changed = true;
    fs.snapshots.lun_clone_is_at(last);
    let since = (home.wall_seconds, cloning.next);
    fs.snapshots.lun_clone.since.get_or_insert(since);
    Ok(Turn::Moved(blocks))
}

/// Returns the reason why these level-1 blocks, now changed, cannot be shared: media contradict
/// themselves.
fn contradiction(
    home: &mut Home,
    id: FileId,
    cloning: &LunCloning,
    regions: &[Region],
) -> Result<Option<String>, Stop> {
    let volume = home.volumes.get_mut(&id).expect("found above");
    let lost = std::mem::take(&mut volume.fs.file(cloning.to).lost);
    if let Some(first) = lost.first() {
        let reason = format!("a block of the clone cannot be read: {}", first.reason);
        volume.note_lost(&home.aggregate, cloning.to, lost);
        return Ok(Some(reason));
    }
    let file = volume.fs.file(cloning.to);
    let mut seen = BTreeSet::new();
    for (leaf, pointer) in regions.iter().flat_map(|(_, leaves)| leaves) {
        if !file.leaf_pointer(*leaf)?.is_hole() {
            return Ok(Some(format!(
                "block {leaf} of the clone is there already, but nothing above block {} should be",
                cloning.next.saturating_mul(SPAN)
            )));
        }
        if pointer.has_block() && !seen.insert(pointer.vvbn) {
            let vvbn = pointer.vvbn;
            return Ok(Some(format!("the LUN has vvbn {vvbn} in two places")));
        }
    }
    Ok(None)
}

/// One more leaf of the active image refers to a block of the source.
fn take(fs: &mut FileSystem, known: &BTreeMap<u64, MapBits>, cloning: &LunCloning, vvbn: Vvbn) {
    let (block, bit) = (vvbn.0 / BITS_PER_BLOCK, vvbn.0 % BITS_PER_BLOCK);
    let known = &known[&block];
    if bitmap::is_set(&known.active, bit) {
        fs.add_reference(vvbn);
        return;
    }
    assert!(fs.adopt(vvbn.0), "a block was free in the map a moment ago");
    let alone = known.alone.as_ref().expect("looked up with the map block");
    if bitmap::is_set(alone, bit) {
        let source = Node::Snapshot(cloning.source);
        fs.snapshots.add_exclusive(source, -1);
    }
}

/// Finishes a clone whose blocks are all shared: the file is in the directory from this consistency
/// point on.
fn finish(home: &mut Home, id: FileId) {
    let volume = home.volumes.get_mut(&id).expect("found by its id");
    let fs = &mut volume.fs;
    let cloning = fs.snapshots.roots.lun_clone.take();
    let to = cloning.expect("it is being made").to;
    fs.snapshots.lun_clone = Job::default();
    fs.snapshots.set_changed();
    let entry = fs.hidden.remove(to).expect("it has its name there");
    let file = fs.file(to);
    file.inode_changed = true;
    let (size, root) = (file.inode.size_bytes, Root::of(&file.inode));
    let lun = Lun::new(to, &entry.name, volume.shared.clone(), size, root);
    fs.directory.add(entry);
    let run = home.run.as_mut().expect("under way");
    run.publication.new_luns.push(NewLun {
        volume: volume.shared.clone(),
        lun: Arc::new(lun),
    });
}

/// The image of a volume is sealed: new LUNs have their roots.
pub(crate) fn set_roots(new: &[NewLun], shared: &Arc<Volume>, fs: &FileSystem) {
    for NewLun { volume, lun } in new {
        if Arc::ptr_eq(volume, shared) {
            let inode = &fs.files[&lun.file].inode;
            lun.set_root(Root::of(inode));
            lun.set_used_blocks(inode.blocks);
        }
    }
}
