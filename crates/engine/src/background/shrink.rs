//! Reclaim: deleted LUNs and volumes shrink a little in each consistency point (B-16, E-11, E-29),
//! and so do the blocks beyond the new end of a LUN that was shrunk (G-01). Containers are punched
//! at once: there are no delayed frees (G-02).
//!
//! A deleted file keeps its tree under the hidden namespace; each step frees the leaves of its last
//! level-1 block and that block itself. The rest is on media after every commit, so the work
//! continues after a restart. When no block is left, the inode is erased and the name removed. If a
//! LUN was shrunk, the blocks beyond its new end are freed in the same steps. Its inode has a flag
//! until they are gone, and the LUN cannot grow before, so that the old data never reappears.
//!
//! Reclaim comes before cleaning, which may leave empty indirect blocks for the end of the
//! consistency point to prune: [`File::last_region`] finds its way by blocks that are not empty.

use everglade_format::planted::{self, Bug};
use everglade_format::{FileId, Indirect, Layer, Pointer, SPAN};

use crate::alloc::blocks::{free_virtual, prepare_free_virtual};
use crate::alloc::filesystem::FileSystem;
use crate::alloc::references::{prepare_release, release};
use crate::background::{lun_clone, scan, split};
use crate::home::aggregate::Home;
use crate::read::load::{Gather, LoadCx, Stop};
use crate::tree::{Content, File};

/// Changed metadata blocks in memory at which a consistency point has done its share: 32 MiB. The
/// blocks of one region may be described by as many blocks of the container and its maps. Never
/// more than a quarter of the reserve, where they find their places.
pub(crate) const CHANGED_MAX: usize = 8192;

/// Frees one level-1 block of a deleted file, or erases an empty one. True when this consistency
/// point has done its share.
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
    if lun_clone::step(home, cx, (changed, CHANGED_MAX.min(quarter)))? {
        return Ok(false);
    }
    let run = home.run.as_ref().expect("under way");
    // At least one, so that deletions end.
    let is_begun = run.reclaim_budget < run.reclaim_regions;
    if run.reclaim_budget == 0 || (is_begun && changed >= CHANGED_MAX.min(quarter)) {
        return Ok(true);
    }
    // LUNs first: their volumes may be deleted next.
    let victim = home.volumes.iter().find_map(|(id, volume)| {
        let file = volume.fs.deleted().next();
        let file = file.or_else(|| volume.fs.cut.first().copied())?;
        Some((Some(*id), file))
    });
    if victim.is_none()
        && let Some(volume) = scan::next_volume(home)
    {
        let cost = scan::step(home, cx, volume)?;
        let regions = (cost as u64).div_ceil(SPAN).max(1);
        home.volumes
            .get_mut(&volume)
            .expect("found above")
            .fs
            .snapshots
            .spent += regions;
        let run = home.run.as_mut().expect("under way");
        run.reclaim_budget = run.reclaim_budget.saturating_sub(regions);
        return Ok(false);
    }
    let victim = victim.or_else(|| home.fs.hidden.first().map(|file| (None, file)));
    let Some((volume, file)) = victim else {
        let Some(clone) = split::next_volume(home) else {
            return Ok(true);
        };
        let copied = split::step(home, cx, clone)?;
        let regions = (copied as u64).div_ceil(SPAN).max(1);
        let run = home.run.as_mut().expect("under way");
        run.reclaim_budget = run.reclaim_budget.saturating_sub(regions);
        return Ok(false);
    };
    shrink(home, cx, volume, file)?;
    home.run.as_mut().expect("under way").reclaim_budget -= 1;
    Ok(false)
}

fn shrink(
    home: &mut Home,
    cx: &mut LoadCx<'_>,
    volume: Option<FileId>,
    id: FileId,
) -> Result<(), Stop> {
    let fs = file_system(home, volume);
    let is_cut = fs.cut.contains(&id);
    let file = fs.file(id);
    // Leaves that stay.
    let kept = if is_cut { file.inode.block_count() } else { 0 };
    let last = file.last_region(cx)?;
    let last = last.filter(|region| (region + 1) * SPAN > kept);
    let Some(region) = last else {
        if is_cut {
            end_cut(fs, id);
            return Ok(());
        }
        let inode = file.inode.clone();
        assert!(
            inode.blocks == 0 || fs.lost > 0,
            "{inode:?} has blocks that its tree does not show"
        );
        fs.files.remove(&id);
        fs.erased.push(id);
        fs.hidden.remove(id);
        return Ok(());
    };
    file.modify(cx, 1, region, Content::Keep)?;
    let layer = file.layer;
    let lost = std::mem::take(&mut file.lost);
    if let Some(volume) = volume {
        let volume = home.volumes.get_mut(&volume).expect("found above");
        volume.note_lost(&home.aggregate, id, lost);
    }
    let file = file_system(home, volume).file(id);
    let mut leaves = leaves_of(file, region)?;
    leaves.retain(|(leaf, _)| *leaf >= kept);
    let lowest = leaves.iter().map(|(_, pointer)| (*pointer, true));
    let above = file.path(1, region).map(|pointer| (pointer, false));
    let mut blocks: Vec<(Pointer, bool)> = lowest.chain(above).collect();
    blocks.retain(|(pointer, _)| pointer.has_block());
    let mut gather = Gather::default();
    for (block, is_leaf) in &blocks {
        gather.add(match (volume, layer) {
            (Some(volume), Layer::Volume) => {
                let fs = &mut home.volumes.get_mut(&volume).expect("found above").fs;
                let prepare = match is_leaf {
                    true => prepare_release,
                    false => prepare_free_virtual,
                };
                prepare(&mut home.fs, fs, volume, cx, block.vvbn)
            }
            _ => home.fs.prepare_free(cx, block.pvbn.0),
        });
    }
    gather.finish()?;

    let fs = file_system(home, volume);
    let file = fs.file(id);
    let mut freed = Vec::new();
    for (leaf, _) in leaves {
        freed.push((file.set_leaf(leaf, Pointer::HOLE)?, true));
    }
    let (mut level, mut index) = (1, region);
    while level <= file.inode.levels
        && let Some(old) = file.remove_if_empty(level, index)
    {
        freed.push((old, false));
        (level, index) = (level + 1, index / SPAN);
    }
    for (old, is_leaf) in freed.into_iter().filter(|(old, _)| old.has_block()) {
        if planted::is_now(Bug::DeletedFileLeaks) {
            continue;
        }
        match volume {
            Some(volume) => {
                let fs = &mut home.volumes.get_mut(&volume).expect("found above").fs;
                let free = match is_leaf {
                    true => release,
                    false => free_virtual,
                };
                free(&mut home.fs, fs, volume, old.vvbn);
            }
            None => home.fs.free(old.pvbn.0),
        }
    }
    if is_cut && region * SPAN < kept {
        // It went from the end backwards, and this was the block that has the last leaf that stays.
        end_cut(file_system(home, volume), id);
    }
    Ok(())
}

/// Nothing is left beyond the end of a LUN that was cut short.
fn end_cut(fs: &mut FileSystem, id: FileId) {
    fs.cut.remove(&id);
    let file = fs.file(id);
    file.inode.is_cut = false;
    file.inode_changed = true;
}

/// The file system that a deleted file is in: that of a volume, or the aggregate's.
fn file_system(home: &mut Home, volume: Option<FileId>) -> &mut FileSystem {
    match volume {
        Some(volume) => &mut home.volumes.get_mut(&volume).expect("found above").fs,
        None => &mut home.fs,
    }
}

/// The mapped leaves below a changed level-1 block.
pub(crate) fn leaves_of(file: &File, region: u64) -> Result<Vec<(u64, Pointer)>, Stop> {
    let page = file.peek(1, region).expect("made changed by the caller");
    let mut leaves = Vec::new();
    let mut slot = 0;
    while let Some(used) = Indirect(page).next_used(slot) {
        leaves.push((
            region * SPAN + used,
            Indirect(page).pointer(used, file.layer)?,
        ));
        slot = used + 1;
        if slot == SPAN {
            break;
        }
    }
    Ok(leaves)
}
