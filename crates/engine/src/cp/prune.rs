//! Pruning: blocks of metafiles that are empty are freed.

use everglade_format::metafile::REFCOUNTS;
use everglade_format::{FileId, Pointer, refcount};

use crate::alloc::blocks::{free_virtual, prepare_free_virtual};
use crate::alloc::filesystem::FileSystem;
use crate::home::aggregate::Home;
use crate::read::load::{Gather, LoadCx, Stop};

/// Takes blocks of counts that are all zero out of the refcount file.
pub(crate) fn prune(home: &mut Home, cx: &mut LoadCx<'_>, id: FileId) -> Result<(), Stop> {
    let fs = &mut home.volumes.get_mut(&id).expect("active volumes exist").fs;
    if !fs.has_counts {
        return Ok(());
    }
    let file = fs.file(REFCOUNTS);
    let leaves = file.unplaced().filter(|(level, _)| *level == 0);
    let is_empty = |leaf: &u64| refcount::is_empty(file.peek(0, *leaf).expect("it is changed"));
    let empty: Vec<u64> = leaves.map(|(_, leaf)| leaf).filter(is_empty).collect();
    let olds: Vec<Pointer> = empty
        .iter()
        .map(|leaf| file.old_place((0, *leaf)))
        .collect();
    let mut gather = Gather::default();
    for old in olds.iter().filter(|old| old.has_block()) {
        gather.add(prepare_free_virtual(&mut home.fs, fs, id, cx, old.vvbn));
    }
    gather.finish()?;
    for leaf in empty {
        let old = fs.file(REFCOUNTS).remove_leaf(leaf);
        if old.has_block() {
            free_virtual(&mut home.fs, fs, id, old.vvbn);
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
