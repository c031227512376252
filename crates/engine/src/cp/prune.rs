//! Pruning: blocks of metafiles that are empty are freed.

use everglade_format::metafile::REFCOUNTS;
use everglade_format::{Pointer, refcount};

use crate::alloc::filesystem::FileSystem;
use crate::home::site::Site;
use crate::read::load::{Gather, LoadCx, Stop};

/// Takes blocks of counts that are all zero out of the refcount file.
pub(crate) fn prune(site: &mut Site<'_>, cx: &mut LoadCx<'_>) -> Result<(), Stop> {
    if !site.volume.fs.has_counts {
        return Ok(());
    }
    let file = site.file(REFCOUNTS);
    let leaves = file.unplaced().filter(|(level, _)| *level == 0);
    let is_empty = |leaf: &u64| refcount::is_empty(file.peek(0, *leaf).expect("it is changed"));
    let empty: Vec<u64> = leaves.map(|(_, leaf)| leaf).filter(is_empty).collect();
    let olds: Vec<Pointer> = empty
        .iter()
        .map(|leaf| file.old_place((0, *leaf)))
        .collect();
    let mut gather = Gather::default();
    for old in olds.iter().filter(|old| old.has_block()) {
        gather.add(site.prepare_free(cx, old.vvbn));
    }
    gather.finish()?;
    for leaf in empty {
        let old = site.file(REFCOUNTS).remove_leaf(leaf);
        if old.has_block() {
            site.free(old.vvbn);
        }
    }
    Ok(())
}

/// Takes the refcount file away if nothing is left in it.
pub(crate) fn remove_if_empty(fs: &mut FileSystem) {
    if fs.has_counts && fs.file(REFCOUNTS).inode.blocks == 0 {
        fs.files.remove(&REFCOUNTS);
        fs.erased.push(REFCOUNTS);
        fs.has_counts = false;
    }
}
