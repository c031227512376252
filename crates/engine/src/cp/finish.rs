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

use crate::alloc::blocks::Purpose;
use crate::alloc::filesystem::FileSystem;
use crate::background::lun_clone;
use crate::cp::place::place_physical;
use crate::cp::{maps, prune};
use crate::home::aggregate::Home;
use crate::home::publication::Publication;
use crate::home::run::Part;
use crate::home::site::Site;
use crate::pool::image::Image;
use crate::pool::info::SnapshotInfo;
use crate::pool::trigger::CpBlock;
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

/// Runs one step for a volume. Returns the next part, or nothing when the volume is finished.
pub(crate) fn volume(
    home: &mut Home,
    cx: &mut LoadCx<'_>,
    id: FileId,
    part: Part,
) -> Result<Option<Part>, Stop> {
    let (mut site, _) = home.site(id);
    site.throttle()?;
    match part {
        Part::Prepare => {
            clone::prepare(home, cx, id)?;
            restore::prepare(home, cx, id)?;
            let (mut site, _) = home.site(id);
            prepare_superblock(&mut site, cx)?;
            prune::prune(&mut site, cx)?;
            prune_volume(&mut site, cx)?;
            let fs = &mut site.volume.fs;
            prune::remove_if_empty(fs);
            fs.write_names(cx)?;
            fs.prepare_inodes(cx)?;
            Ok(Some(Part::Place))
        }
        Part::Place => {
            let blocks = unplaced(&site.volume.fs);
            if blocks.is_empty() {
                return Ok(Some(Part::Maps));
            }
            place_volume_blocks(&mut site, cx, &blocks)?;
            Ok(Some(Part::Place))
        }
        Part::Maps => {
            if !maps::volume(&mut site, cx)? {
                return Ok(Some(Part::Maps));
            }
            site.volume.fs.put_back();
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
            // The same pages as for sealing.
            site.below
                .ensure(None, cx, site.host, Purpose::Metadata, 1)?;
            match lun::walk(home, cx, id)? {
                lun::RestoreStep::Again => Ok(Some(Part::Walk)),
                lun::RestoreStep::Done => {
                    let create_scan = home.under_way().create_scan;
                    let (mut site, publication) = home.site(id);
                    take_snapshots(&mut site, publication, create_scan);
                    lun::begin_swap(&mut site.volume.fs);
                    Ok(Some(Part::Swap))
                }
                lun::RestoreStep::Nothing => {
                    close_volume(home, cx, id);
                    Ok(None)
                }
            }
        }
        Part::Swap => match lun::swap(home, cx, id)? {
            lun::RestoreStep::Again => Ok(Some(Part::Swap)),
            lun::RestoreStep::Done | lun::RestoreStep::Nothing => Ok(Some(Part::Prepare)),
        },
    }
}

/// The superblock's vvbn is the only one that is rewritten: it keeps its number and gets a new
/// pvbn.
fn prepare_superblock(site: &mut Site<'_>, cx: &mut LoadCx<'_>) -> Result<(), Stop> {
    if site.volume.is_new {
        site.volume.fs.allocate_superblock(cx, SUPERBLOCK_VVBN.0)?;
        site.volume.is_new = false;
    }
    let container = site.below.file(site.id);
    container.modify(cx, 1, 0, Content::Keep)?;
    let old = container.leaf_pointer(SUPERBLOCK_VVBN.0)?;
    if !old.is_hole() {
        site.below.prepare_free(cx, old.pvbn.0)?;
        site.below
            .file(site.id)
            .set_leaf(SUPERBLOCK_VVBN.0, Pointer::HOLE)?;
        site.below.free(old.pvbn.0);
    }
    Ok(())
}

fn prune_volume(site: &mut Site<'_>, cx: &mut LoadCx<'_>) -> Result<(), Stop> {
    let files = &site.volume.fs.files;
    let luns: Vec<FileId> = files
        .values()
        .filter(|f| !is_map(f.id()) && f.is_changed())
        .map(|f| f.id())
        .collect();
    let mut gather = Gather::default();
    for lun in &luns {
        let file = site.file(*lun);
        let olds: Vec<Pointer> = file
            .unplaced()
            .filter(|(level, _)| *level > 0)
            .map(|position| file.old_place(position))
            .filter(|old| !old.is_hole())
            .collect();
        for old in olds {
            gather.add(site.prepare_free(cx, old.vvbn));
        }
    }
    gather.finish()?;
    for lun in luns {
        for old in site.file(lun).prune() {
            site.free(old.vvbn);
        }
    }
    Ok(())
}

fn place_volume_blocks(
    site: &mut Site<'_>,
    cx: &mut LoadCx<'_>,
    blocks: &[(FileId, Position)],
) -> Result<(), Stop> {
    let mut gather = Gather::default();
    for (file, position) in blocks {
        let old = any_file(&mut site.volume.fs, *file).old_place(*position);
        if !old.is_hole() {
            gather.add(site.prepare_free(cx, old.vvbn));
        }
    }
    gather.finish()?;
    site.ensure(cx, Purpose::Metadata, blocks.len())?;
    for (file, position) in blocks {
        let new = site.take(Purpose::Metadata);
        let old = any_file(&mut site.volume.fs, *file).place(*position, new);
        cx.replaced(old);
        if !old.is_hole() {
            site.free(old.vvbn);
        }
    }
    Ok(())
}

/// Seals some blocks. True when the volume's image is written.
fn seal_volume(home: &mut Home, cx: &mut LoadCx<'_>, id: FileId) -> Result<bool, Stop> {
    let (mut site, publication) = home.site(id);
    // The superblock's pvbn: taking it is the last thing that may stop.
    site.below
        .ensure(None, cx, site.host, Purpose::Metadata, 1)?;
    for _ in 0..STEP_BLOCKS {
        let fs = &mut site.volume.fs;
        let Some((file, position)) = next_to_seal(fs) else {
            finish_image(&mut site, publication, cx);
            return Ok(true);
        };
        fs.account_before_seal(file, position);
        let (pointer, page) = fs.file(file).seal(position, site.cp, &site.aggregate.key);
        site.record(cx, pointer, page);
    }
    Ok(false)
}

fn next_to_seal(fs: &FileSystem) -> Option<(FileId, Position)> {
    // TopAA is written from the scores that sealing the map finds.
    let mut files = fs.files.values().filter(|file| file.id() != TOP_AREAS);
    files.find_map(|file| file.first_changed().map(|position| (file.id(), position)))
}

fn finish_image(site: &mut Site<'_>, publication: &mut Publication, cx: &mut LoadCx<'_>) {
    let volume = &mut *site.volume;
    volume.fs.set_inline_top_areas();
    for lun in volume.shared.kept_luns() {
        let file = &volume.fs.files[&lun.file];
        if file.inode_changed {
            lun.set_used_blocks(file.inode.blocks);
            publication.roots.push((lun, Root::of(&file.inode)));
        }
    }
    lun_clone::set_roots(&publication.new_luns, &volume.shared, &volume.fs);
    volume.fs.write_inodes();
    while let Some(position) = site.volume.fs.inode_file.first_changed() {
        let inodes = &mut site.volume.fs.inode_file;
        let (pointer, page) = inodes.seal(position, site.cp, &site.aggregate.key);
        site.record(cx, pointer, page);
    }
}

/// The image is written: snapshots of it, and the superblock.
fn close_volume(home: &mut Home, cx: &mut LoadCx<'_>, id: FileId) {
    let create_scan = home.under_way().create_scan;
    let (mut site, publication) = home.site(id);
    if site.volume.next.is_some() {
        // The clone job belonged to the image that is no longer active.
        lun_clone::end(&mut site.volume.fs, "the volume was restored meanwhile");
    }
    take_snapshots(&mut site, publication, create_scan);
    restore::switch(&mut site, publication);
    lun::finish(&mut site, publication);
    let volume = &mut *site.volume;
    let superblock = VolumeSuperblock {
        volume: id,
        cp: site.cp,
        uuid: site.aggregate.uuid,
        blocks_used: volume.fs.used,
        frontier: volume.fs.areas[0].frontier(),
        next_file: volume.fs.next_file,
        sync: volume.shared.sync(),
        lost: volume.fs.lost,
        inode_file: volume.fs.inode_file.inode.clone(),
        snapshots: volume.fs.snapshots.roots.clone(),
    };
    let snapshots = &volume.fs.snapshots;
    if snapshots.is_changed() {
        let view = Arc::new(snapshots.live().map(SnapshotInfo::of).collect());
        publication.views.push((volume.shared.clone(), view));
        volume.shared.note_trashed(snapshots.trashed());
    }
    volume.fs.finish_cp();
    volume.discarding.clear();
    let page = everglade_env::Page::copy_of(&superblock.encode()).freeze();
    let pointer = Pointer {
        vvbn: SUPERBLOCK_VVBN,
        pvbn: Pvbn(site.below.take(Purpose::Metadata)),
        tag: site.aggregate.key.tag(&page),
    };
    site.record(cx, pointer, page);
}

/// Snapshots of this consistency point are of the image that was just sealed (F-01).
fn take_snapshots(site: &mut Site<'_>, publication: &mut Publication, create_scan: bool) {
    let (volume, cp) = (&mut *site.volume, site.cp);
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
        deleted_seconds: 0,
        inode_file: fs.inode_file.inode.clone(),
        active_map: fs.files[&ACTIVE_MAP].inode.clone(),
        holds: Vec::new(),
    });
    let luns = fs.luns();
    if let (true, Some(newest)) = (create_scan, ids.last()) {
        snapshots.begin_create_scan(*newest);
    }
    for id in ids {
        if snapshots.get(id).state != State::Live {
            // The snapshot has no name: a LUN is being cloned from it.
            continue;
        }
        let name = snapshots.get(id).name.clone();
        let image = Image::new(&volume.shared, &name, &luns);
        publication
            .images
            .push((volume.shared.clone(), name, image));
    }
    volume.fs.snapshots = snapshots;
}

/// Runs one step for the aggregate. Returns the next part, or nothing when only the superblock is
/// left to write.
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
        home.aggregate
            .counts
            .count_blocks(CpBlock::AggregateMetadata, 1);
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
