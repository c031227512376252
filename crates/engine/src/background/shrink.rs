//! Reclaim: deleted LUNs and volumes shrink a little in each consistency point (B-16, E-11, E-29),
//! and so do the blocks beyond the new end of a LUN that was shrunk (G-01). Containers are punched
//! at once: there are no delayed frees (G-02).
//!
//! A deleted file keeps its tree under the hidden namespace; each step frees the leaves of its last
//! level-1 block and that block itself. The rest of the tree is on media after every commit, so the
//! work continues after a restart. When the tree is empty, the inode is erased and the name
//! removed. A LUN that was cut short loses all blocks beyond its end in the same steps. Until they
//! are freed, a mark in the inode prevents growth, so that cut-off data never becomes visible
//! again.

use everglade_format::{FileId, Indirect, Layer, Pointer, SPAN};

use crate::alloc::blocks::{free_virtual, prepare_free_virtual};
use crate::alloc::filesystem::FileSystem;
use crate::alloc::references::{prepare_release, release};
use crate::background::pass::{Pass, Room};
use crate::home::aggregate::Home;
use crate::home::ledger::{Target, Turn};
use crate::pool::info::Progress;
use crate::read::load::{Gather, LoadCx, Stop};
use crate::tree::{Content, File};

/// See the module's documentation.
pub(crate) struct Shrink;

impl Pass<Home> for Shrink {
    fn name(&self) -> &'static str {
        "shrink"
    }

    fn has_work(&self, home: &Home, target: Target) -> bool {
        next_file(home, target).is_some()
    }

    fn wants(&self, home: &Home) -> Vec<Target> {
        let targets = home.planned().chain([Target::Aggregate]);
        targets
            .filter(|target| self.has_work(home, *target))
            .collect()
    }

    /// Frees one level-1 block of a deleted file, or erases an empty file. A file whose leaves are
    /// not on media yet waits for the next consistency point: a release file that was filled and
    /// deleted in this one.
    fn step(
        &self,
        home: &mut Home,
        cx: &mut LoadCx<'_>,
        target: Target,
        _room: Room,
    ) -> Result<Turn, Stop> {
        let file = next_file(home, target).expect("wanted just now");
        let is_smaller = shrink(home, cx, target.volume(), file)?;
        Ok(match is_smaller {
            true => Turn::Moved(SPAN),
            false => Turn::Waits,
        })
    }

    /// A deleted file does not say how large it was, so this is the rest only.
    fn progress(&self, home: &Home, target: Target) -> Option<Progress> {
        next_file(home, target)?;
        let fs = known(home, target)?;
        let of = |id: FileId| fs.files.get(&id).map_or(0, |file| file.inode.blocks);
        let deleted = fs.deleted().map(of).sum::<u64>();
        let cut = fs.cut.iter().map(|id| fs.files[id].blocks_beyond_least());
        Some(Progress {
            done: 0,
            total: deleted + cut.sum::<u64>(),
            since: None,
        })
    }

    fn frees(&self) -> bool {
        true
    }
}

/// The file system of a target.
fn known(home: &Home, target: Target) -> Option<&FileSystem> {
    match target {
        Target::Volume(id) => home.volumes.get(&id).map(|volume| &volume.fs),
        Target::Aggregate => Some(&home.fs),
    }
}

/// The next file to shrink: deleted ones come before those that were cut short.
fn next_file(home: &Home, target: Target) -> Option<FileId> {
    let fs = known(home, target)?;
    fs.deleted().next().or_else(|| fs.cut.first().copied())
}

/// Returns false if nothing could be freed.
fn shrink(
    home: &mut Home,
    cx: &mut LoadCx<'_>,
    volume: Option<FileId>,
    id: FileId,
) -> Result<bool, Stop> {
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
            return Ok(true);
        }
        let inode = file.inode.clone();
        assert!(
            inode.blocks == 0 || fs.lost > 0,
            "{inode:?} has blocks that its tree does not show"
        );
        fs.files.remove(&id);
        fs.erased.push(id);
        fs.hidden.remove(id);
        return Ok(true);
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
        // A leaf may be changed only because it was about to move (`evacuation`).
        let old = match file.peek(0, leaf) {
            Some(_) => file.remove_leaf(leaf),
            _ => file.set_leaf(leaf, Pointer::HOLE)?,
        };
        freed.push((old, true));
    }
    let (mut level, mut index) = (1, region);
    while level <= file.inode.levels
        && let Some(old) = file.remove_if_empty(level, index)
    {
        freed.push((old, false));
        (level, index) = (level + 1, index / SPAN);
    }
    let is_at_end = is_cut && region * SPAN < kept;
    let is_smaller = is_at_end || !freed.is_empty();
    for (old, is_leaf) in freed.into_iter().filter(|(old, _)| old.has_block()) {
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
    if is_at_end {
        // Leaves are freed from the end backwards, and this block has the last leaf that stays.
        end_cut(file_system(home, volume), id);
    }
    Ok(is_smaller)
}

/// Ends the cut of a LUN once no block is left beyond its end.
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
    let pointers = pointers_in(Indirect(page), file.layer)?.into_iter();
    Ok(pointers
        .map(|(slot, pointer)| (region * SPAN + slot, pointer))
        .collect())
}

/// The slots of an indirect block that are no holes.
pub(crate) fn pointers_in(page: Indirect<'_>, layer: Layer) -> Result<Vec<(u64, Pointer)>, Stop> {
    let mut pointers = Vec::new();
    let mut slot = 0;
    while slot < SPAN
        && let Some(used) = page.next_used(slot)
    {
        pointers.push((used, page.pointer(used, layer)?));
        slot = used + 1;
    }
    Ok(pointers)
}
