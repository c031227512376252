//! Finish: everything changed gets a place, then is sealed from the leaves up and written.
//!
//! ```text
//! names ─▶ prepare ─▶ place ─▶ maps (to a fixpoint) ─▶ seal
//! ```
//!
//! Volumes first: their blocks are leaves of containers, which are files of the aggregate. Placing
//! takes numbers and frees old ones; both change maps. So the maps come last, and free their own
//! old places through the overflow file (see [`super::maps`]). Sealing allocates nothing.

use std::sync::Arc;

use everglade_format::metafile::{ACTIVE_MAP, CONTEXT_MAP, OVERFLOW, TOP_AREAS};
use everglade_format::snapshot::State;
use everglade_format::volume::SUPERBLOCK_VVBN;
use everglade_format::{FileId, Pointer, Pvbn, SnapshotRecord, TopAreas, VolumeSuperblock};

use crate::alloc::blocks::{Purpose, free_virtual, prepare_free_virtual};
use crate::alloc::filesystem::FileSystem;
use crate::background::lun_clone;
use crate::cp::place::place_physical;
use crate::cp::{maps, prune};
use crate::home::aggregate::Home;
use crate::home::run::Part;
use crate::home::site::{record, take_virtual};
use crate::pool::image::Image;
use crate::pool::info::SnapshotInfo;
use crate::read::load::{Gather, LoadCx, Stop};
use crate::read::root::Root;
use crate::snapshot::{clone, lun, restore};
use crate::tree::Content;
use crate::tree::position::Position;

/// Blocks placed, or sealed, in one step.
const STEP_BLOCKS: usize = 256;
/// Areas a volume remembers in its inode: 24 × 8 bytes fit (B-05).
const TOP_AREAS_INLINE: usize = everglade_format::inode::INLINE_BYTES_MAX / 8;

/// Files placed last, because placing anything changes them.
fn is_map(id: FileId) -> bool {
    id == ACTIVE_MAP || id == CONTEXT_MAP || id == OVERFLOW
}

/// Changed blocks without a place, maps left out. The inode file comes last.
fn unplaced(fs: &FileSystem) -> Vec<(FileId, Position)> {
    let mut all = Vec::new();
    for file in fs
        .files
        .values()
        .chain([&fs.inode_file])
        .filter(|file| !is_map(file.id()))
    {
        let left = STEP_BLOCKS - all.len();
        let positions = file.unplaced().take(left);
        all.extend(positions.map(|position| (file.id(), position)));
        if all.len() == STEP_BLOCKS {
            break;
        }
    }
    all
}

fn any_file(fs: &mut FileSystem, id: FileId) -> &mut crate::tree::File {
    if id == everglade_format::metafile::INODE_FILE {
        &mut fs.inode_file
    } else {
        fs.file(id)
    }
}

/// One step for a volume. The next part, or nothing when the volume is finished.
pub(crate) fn volume(
    home: &mut Home,
    cx: &mut LoadCx<'_>,
    id: FileId,
    part: Part,
) -> Result<Option<Part>, Stop> {
    home.run
        .as_ref()
        .expect("under way")
        .writer
        .throttle(&home.aggregate.media)?;
    match part {
        Part::Prepare => {
            clone::prepare(home, cx, id)?;
            restore::prepare(home, cx, id)?;
            prepare_superblock(home, cx, id)?;
            prune::prune(home, cx, id)?;
            prune_volume(home, cx, id)?;
            let fs = &mut home.volumes.get_mut(&id).expect("active volumes exist").fs;
            prune::remove_if_empty(fs);
            fs.write_names(cx)?;
            fs.prepare_inodes(cx)?;
            Ok(Some(Part::Place))
        }
        Part::Place => {
            let blocks = unplaced(&home.volumes.get(&id).expect("active volumes exist").fs);
            if blocks.is_empty() {
                return Ok(Some(Part::Maps));
            }
            place_volume_blocks(home, cx, id, &blocks)?;
            Ok(Some(Part::Place))
        }
        Part::Maps => {
            if !maps::volume(home, cx, id)? {
                return Ok(Some(Part::Maps));
            }
            home.volumes
                .get_mut(&id)
                .expect("active volumes exist")
                .fs
                .put_back();
            Ok(Some(Part::Seal))
        }
        Part::Seal => {
            if !seal_volume(home, cx, id)? {
                return Ok(Some(Part::Seal));
            }
            if lun::is_waiting(&home.volumes[&id].fs) {
                return Ok(Some(Part::Walk));
            }
            close_volume(home, cx, id);
            Ok(None)
        }
        Part::Walk => {
            // As for sealing.
            home.fs
                .ensure(None, cx, &mut home.host, Purpose::Metadata, 1)?;
            match lun::walk(home, cx, id)? {
                lun::Step::Again => Ok(Some(Part::Walk)),
                lun::Step::Done => {
                    let cp = home.run.as_ref().expect("under way").number;
                    take_snapshots(home, cp, id);
                    lun::begin_swap(
                        &mut home.volumes.get_mut(&id).expect("active volumes exist").fs,
                    );
                    Ok(Some(Part::Swap))
                }
                lun::Step::Nothing => {
                    close_volume(home, cx, id);
                    Ok(None)
                }
            }
        }
        Part::Swap => match lun::swap(home, cx, id)? {
            lun::Step::Again => Ok(Some(Part::Swap)),
            lun::Step::Done | lun::Step::Nothing => Ok(Some(Part::Prepare)),
        },
    }
}

/// The superblock's vvbn is the only one that is rewritten: it keeps its number and gets a new
/// pvbn.
fn prepare_superblock(home: &mut Home, cx: &mut LoadCx<'_>, id: FileId) -> Result<(), Stop> {
    let volume = home.volumes.get_mut(&id).expect("active volumes exist");
    if volume.is_new {
        volume.fs.allocate_superblock(cx, SUPERBLOCK_VVBN.0)?;
        volume.is_new = false;
    }
    let container = home.fs.file(id);
    container.modify(cx, 1, 0, Content::Keep)?;
    let old = container.leaf_pointer(SUPERBLOCK_VVBN.0)?;
    if !old.is_hole() {
        home.fs.prepare_free(cx, old.pvbn.0)?;
        home.fs
            .file(id)
            .set_leaf(SUPERBLOCK_VVBN.0, Pointer::HOLE)?;
        home.fs.free(old.pvbn.0);
    }
    Ok(())
}

fn prune_volume(home: &mut Home, cx: &mut LoadCx<'_>, id: FileId) -> Result<(), Stop> {
    let volume = home.volumes.get_mut(&id).expect("active volumes exist");
    let luns: Vec<FileId> = volume
        .fs
        .files
        .values()
        .filter(|f| !is_map(f.id()) && f.is_changed())
        .map(|f| f.id())
        .collect();
    let mut gather = Gather::default();
    for lun in &luns {
        let file = volume.fs.file(*lun);
        let olds: Vec<Pointer> = file
            .unplaced()
            .filter(|(level, _)| *level > 0)
            .map(|position| file.old_place(position))
            .filter(|old| !old.is_hole())
            .collect();
        for old in olds {
            gather.add(prepare_free_virtual(
                &mut home.fs,
                &mut volume.fs,
                id,
                cx,
                old.vvbn,
            ));
        }
    }
    gather.finish()?;
    for lun in luns {
        for old in volume.fs.file(lun).prune() {
            free_virtual(&mut home.fs, &mut volume.fs, id, old.vvbn);
        }
    }
    Ok(())
}

pub(crate) fn place_volume_blocks(
    home: &mut Home,
    cx: &mut LoadCx<'_>,
    id: FileId,
    blocks: &[(FileId, Position)],
) -> Result<(), Stop> {
    let volume = home.volumes.get_mut(&id).expect("active volumes exist");
    let mut gather = Gather::default();
    for (file, position) in blocks {
        let old = any_file(&mut volume.fs, *file).old_place(*position);
        if !old.is_hole() {
            gather.add(prepare_free_virtual(
                &mut home.fs,
                &mut volume.fs,
                id,
                cx,
                old.vvbn,
            ));
        }
    }
    gather.finish()?;
    let purpose = Purpose::Metadata;
    let below = Some(&mut home.fs);
    volume
        .fs
        .ensure(below, cx, &mut home.host, purpose, blocks.len())?;
    home.fs
        .ensure(None, cx, &mut home.host, purpose, blocks.len())?;
    for (file, position) in blocks {
        let new = take_virtual(&mut home.fs, &mut volume.fs, purpose);
        let old = any_file(&mut volume.fs, *file).place(*position, new);
        cx.replaced(old);
        if !old.is_hole() {
            free_virtual(&mut home.fs, &mut volume.fs, id, old.vvbn);
        }
    }
    Ok(())
}

/// Seals some blocks. True when the volume's image is written.
fn seal_volume(home: &mut Home, cx: &mut LoadCx<'_>, id: FileId) -> Result<bool, Stop> {
    let cp = home.run.as_ref().expect("under way").number;
    // The superblock's pvbn: taking it is the last thing that may stop.
    home.fs
        .ensure(None, cx, &mut home.host, Purpose::Metadata, 1)?;
    for _ in 0..STEP_BLOCKS {
        let volume = home.volumes.get_mut(&id).expect("active volumes exist");
        let Some((file, position)) = next_to_seal(&volume.fs) else {
            finish_image(home, cx, id);
            return Ok(true);
        };
        volume.fs.account_before_seal(file, position);
        let (pointer, page) = volume.fs.file(file).seal(position, cp, &home.aggregate.key);
        record(home, cx, id, pointer, page);
    }
    Ok(false)
}

fn next_to_seal(fs: &FileSystem) -> Option<(FileId, Position)> {
    // TopAA is written from the scores that sealing the map finds.
    let mut files = fs.files.values().filter(|file| file.id() != TOP_AREAS);
    files.find_map(|file| file.first_changed().map(|position| (file.id(), position)))
}

fn finish_image(home: &mut Home, cx: &mut LoadCx<'_>, id: FileId) {
    let volume = home.volumes.get_mut(&id).expect("active volumes exist");
    volume.fs.set_inline_top_areas();
    let run = home.run.as_mut().expect("under way");
    for lun in volume.shared.all_luns() {
        let file = &volume.fs.files[&lun.file];
        if file.inode_changed {
            lun.set_used_blocks(file.inode.blocks);
            run.roots.push((lun, Root::of(&file.inode)));
        }
    }
    lun_clone::set_roots(&run.new_luns, &volume.shared, &volume.fs);
    volume.fs.write_inodes();
    finish_inode_file(home, cx, id);
}

fn finish_inode_file(home: &mut Home, cx: &mut LoadCx<'_>, id: FileId) {
    let cp = home.run.as_ref().expect("under way").number;
    loop {
        let volume = home.volumes.get_mut(&id).expect("active volumes exist");
        let Some(position) = volume.fs.inode_file.first_changed() else {
            break;
        };
        let (pointer, page) = volume.fs.inode_file.seal(position, cp, &home.aggregate.key);
        record(home, cx, id, pointer, page);
    }
}

/// The image is written: snapshots of it, and the superblock.
fn close_volume(home: &mut Home, cx: &mut LoadCx<'_>, id: FileId) {
    let cp = home.run.as_ref().expect("under way").number;
    let volume = home.volumes.get_mut(&id).expect("active volumes exist");
    if volume.next.is_some() {
        // It was part of the image that is not active any more.
        lun_clone::end(&mut volume.fs, "the volume was restored meanwhile");
    }
    take_snapshots(home, cp, id);
    restore::switch(home, id);
    lun::finish(home, id);
    let volume = home.volumes.get_mut(&id).expect("active volumes exist");
    let superblock = VolumeSuperblock {
        volume: id,
        cp,
        uuid: home.aggregate.config.uuid,
        blocks_used: volume.fs.used,
        frontier: volume.fs.areas[0].frontier(),
        next_file: volume.fs.next_file,
        sync: volume.sync,
        lost: volume.fs.lost,
        inode_file: volume.fs.inode_file.inode.clone(),
        snapshots: volume.fs.snapshots.roots.clone(),
    };
    let snapshots = &volume.fs.snapshots;
    if snapshots.is_changed() {
        let view = Arc::new(snapshots.live().map(SnapshotInfo::of).collect());
        let run = home.run.as_mut().expect("under way");
        run.views.push((volume.shared.clone(), view));
    }
    volume.fs.finish_cp();
    volume.discarding.clear();
    let page = everglade_env::Page::copy_of(&superblock.encode()).freeze();
    let pvbn = Pvbn(home.fs.take(Purpose::Metadata));
    let pointer = Pointer {
        vvbn: SUPERBLOCK_VVBN,
        pvbn,
        tag: home.aggregate.key.tag(&page),
    };
    record(home, cx, id, pointer, page);
}

/// Snapshots of this consistency point are of the image that was just sealed (F-01).
fn take_snapshots(home: &mut Home, cp: everglade_format::CpNumber, id: FileId) {
    let volume = home.volumes.get_mut(&id).expect("active volumes exist");
    if volume.fs.snapshots.created.is_empty() {
        return;
    }
    let mut snapshots = std::mem::take(&mut volume.fs.snapshots);
    let fs = &volume.fs;
    let blocks = |entry: &everglade_format::Entry| fs.files[&entry.file].inode.blocks;
    let ids = snapshots.complete(&|id| SnapshotRecord {
        id,
        state: State::Live,
        name: String::new(),
        parent: None,
        also: Vec::new(),
        is_unfolded: false,
        is_in_pass: false,
        next_file: fs.next_file,
        cp,
        seconds: 0,
        blocks_used: fs.used,
        exclusive: 0,
        pending: fs.hidden.iter().map(blocks).sum(),
        lost: fs.lost,
        inode_file: fs.inode_file.inode.clone(),
        active_map: fs.files[&ACTIVE_MAP].inode.clone(),
        holds: Vec::new(),
    });
    let luns = fs.luns();
    let run = home.run.as_mut().expect("under way");
    if let (true, Some(newest)) = (run.create_scan, ids.last()) {
        snapshots.begin_create_scan(*newest);
    }
    for id in ids {
        if snapshots.get(id).state != State::Live {
            // Nobody can name it: a LUN is cloned from it.
            continue;
        }
        let name = snapshots.get(id).name.clone();
        let image = Image::new(&volume.shared, &name, &luns);
        run.images.push((volume.shared.clone(), name, image));
    }
    volume.fs.snapshots = snapshots;
}

/// One step for the aggregate. The next part, or nothing when all is written but the superblock.
pub(crate) fn aggregate(
    home: &mut Home,
    cx: &mut LoadCx<'_>,
    part: Part,
) -> Result<Option<Part>, Stop> {
    home.run
        .as_ref()
        .expect("under way")
        .writer
        .throttle(&home.aggregate.media)?;
    match part {
        Part::Prepare => {
            prune_aggregate(home, cx)?;
            let fs = &mut home.fs;
            for volume in home.volumes.values_mut() {
                let snapshots = &mut volume.fs.snapshots;
                if snapshots.has_unwritten() {
                    let (_, table) = snapshots.roots.files.expect("snapshots have side files");
                    snapshots.write(fs.file(table), cx)?;
                }
            }
            let top = fs.file(TOP_AREAS);
            top.grow(1);
            top.modify(cx, 0, 0, Content::Fresh)?;
            fs.write_names(cx)?;
            fs.write_notes(cx)?;
            fs.prepare_inodes(cx)?;
            Ok(Some(Part::Place))
        }
        Part::Place => {
            let blocks = unplaced(&home.fs);
            if blocks.is_empty() {
                return Ok(Some(Part::Maps));
            }
            let fs = &mut home.fs;
            let mut gather = Gather::default();
            for (file, position) in &blocks {
                let old = any_file(fs, *file).old_place(*position);
                if !old.is_hole() {
                    gather.add(fs.prepare_free(cx, old.pvbn.0));
                }
            }
            gather.finish()?;
            fs.ensure(None, cx, &mut home.host, Purpose::Metadata, blocks.len())?;
            for (file, position) in blocks {
                let new = place_physical(fs, file, position);
                let old = any_file(fs, file).place(position, new);
                cx.replaced(old);
                if !old.is_hole() {
                    fs.free(old.pvbn.0);
                }
            }
            Ok(Some(Part::Place))
        }
        Part::Maps => {
            if !maps::aggregate(home, cx)? {
                return Ok(Some(Part::Maps));
            }
            home.fs.put_back();
            Ok(Some(Part::Seal))
        }
        Part::Walk | Part::Swap => unreachable!("an aggregate has no LUNs"),
        Part::Seal => Ok(if seal_aggregate(home, cx) {
            None
        } else {
            Some(Part::Seal)
        }),
    }
}

fn prune_aggregate(home: &mut Home, cx: &mut LoadCx<'_>) -> Result<(), Stop> {
    let files: Vec<FileId> = home
        .fs
        .files
        .values()
        .filter(|f| !is_map(f.id()) && f.is_changed())
        .map(|f| f.id())
        .collect();
    let mut gather = Gather::default();
    for id in &files {
        let file = home.fs.file(*id);
        let positions = file.unplaced().filter(|(level, _)| *level > 0);
        let olds: Vec<Pointer> = positions
            .map(|position| file.old_place(position))
            .filter(|old| !old.is_hole())
            .collect();
        for old in olds {
            gather.add(home.fs.prepare_free(cx, old.pvbn.0));
        }
    }
    gather.finish()?;
    for id in files {
        for old in home.fs.file(id).prune() {
            home.fs.free(old.pvbn.0);
        }
    }
    Ok(())
}

/// Seals some blocks. True when all are sealed.
fn seal_aggregate(home: &mut Home, cx: &mut LoadCx<'_>) -> bool {
    let run = home.run.as_mut().expect("under way");
    let (cp, key) = (run.number, &home.aggregate.key);
    for _ in 0..STEP_BLOCKS {
        let next = next_to_seal(&home.fs).or_else(|| {
            let fs = &mut home.fs;
            if let Some(position) = fs.file(TOP_AREAS).first_changed() {
                fs.fill_top_areas();
                return Some((TOP_AREAS, position));
            }
            fs.write_inodes();
            fs.inode_file
                .first_changed()
                .map(|position| (fs.inode_file.id(), position))
        });
        let Some((file, position)) = next else {
            return true;
        };
        home.fs.account_before_seal(file, position);
        let (pointer, page) = any_file(&mut home.fs, file).seal(position, cp, key);
        cx.keep(pointer, page.clone());
        run.writer.push(&home.aggregate.media, pointer.pvbn, page);
    }
    false
}

impl FileSystem {
    /// Counts what a block of the active map says, just before it is sealed.
    fn account_before_seal(&mut self, file: FileId, (level, index): Position) {
        if file == ACTIVE_MAP && level == 0 {
            let bits = **self
                .file(ACTIVE_MAP)
                .peek(0, index)
                .expect("about to be sealed");
            self.account_map_block(index, &bits);
        }
    }

    /// The best areas, as numbers that count from the start of the number space.
    fn top_areas(&self, most: usize) -> TopAreas {
        let mut top: Vec<(u64, u64)> = Vec::new();
        for (areas, base) in self.areas.iter().zip(&self.bases) {
            let first = base / self.area_blocks;
            top.extend(
                areas
                    .top(most)
                    .into_iter()
                    .map(|(area, free)| (first + area, free)),
            );
        }
        top.sort_unstable_by_key(|(area, free)| (std::cmp::Reverse(*free), *area));
        top.truncate(most);
        let small = |number: u64| u32::try_from(number).ok();
        TopAreas(
            top.into_iter()
                .filter_map(|(a, f)| Some((small(a)?, small(f)?)))
                .collect(),
        )
    }

    fn fill_top_areas(&mut self) {
        let top = self.top_areas(everglade_format::topaa::TOP_AREAS_MAX);
        let page = self
            .file(TOP_AREAS)
            .changed_page(0, 0)
            .expect("made changed while preparing");
        top.encode_into(page);
    }

    /// A volume's best areas fit its inode.
    fn set_inline_top_areas(&mut self) {
        let top = self.top_areas(TOP_AREAS_INLINE);
        let bytes: Vec<u8> = top
            .0
            .iter()
            .flat_map(|(area, free)| [area.to_le_bytes(), free.to_le_bytes()])
            .flatten()
            .collect();
        let file = self.file(TOP_AREAS);
        if file.inode.inline.as_ref() != Some(&bytes) {
            file.inode.size_bytes = bytes.len() as u64;
            file.inode.inline = Some(bytes);
            file.inode_changed = true;
        }
    }
}
