//! References: blocks of a volume that several leaves refer to (B-15). Counts change at once,
//! without the log of E-21.
//!
//! The active map says whether a vvbn is in use, the refcount file ([`everglade_format::refcount`])
//! how many references there are beyond the first. Both files are part of the image: a snapshot has
//! its own, and a restore restores them.
//!
//! ```text
//! free ──take()──▶ one reference ──add_reference()──▶ count + 1 …
//!   ◀─free_virtual()─┘            ◀────release()────  count − 1
//! ```
//!
//! Only leaves of LUNs share; indirect blocks and metafiles have one reference, so placing them
//! needs no count, and freeing old blocks of the refcount file does not change counts again. Counts
//! change while LUNs are cleaned, reclaimed, cloned or restored, before any block of the file has
//! its place.
//!
//! 1. A vvbn's leaves in the trees of an image are 1 + its count if its bit is set, none if it is
//!    clear.
//! 2. A volume without shared blocks has no refcount file; [`FileSystem::has_counts`] is false
//!    then, and freeing reads no counts.
//! 3. One step releases a vvbn once: a LUN has no block in two places.
//!
//! Bits of the maps alone say which images hold a block, and which blocks are exclusive to an
//! image. Counts do not matter for that. After a power failure, counts and trees are those of one
//! consistency point.

use everglade_format::metafile::REFCOUNTS;
use everglade_format::{CpNumber, Damage, FileId, Vvbn, refcount};

use crate::alloc::blocks::{free_virtual, prepare_free_virtual};
use crate::alloc::filesystem::FileSystem;
use crate::read::load::{LoadCx, Stop};
use crate::tree::Content;

/// When the refcount file is made, if it is: consistency point, and seconds since 1970 UTC.
pub(crate) type Stamp = (CpNumber, u64);

impl FileSystem {
    /// The count of a vvbn. If it is above zero, its block is a changed one after this.
    fn prepare_count(&mut self, cx: &mut LoadCx<'_>, vvbn: Vvbn) -> Result<u16, Stop> {
        let (block, slot) = refcount::block_and_slot(vvbn);
        let file = self.file(REFCOUNTS);
        if block >= file.inode.block_count() {
            return Ok(0);
        }
        let count = refcount::get(file.leaf(cx, block)?.bytes(), slot);
        if count > 0 {
            file.modify(cx, 0, block, Content::Keep)?;
        }
        Ok(count)
    }

    /// Load phase of [`FileSystem::add_reference`]. The count as it is.
    pub(crate) fn prepare_reference(
        &mut self,
        cx: &mut LoadCx<'_>,
        (cp, seconds): Stamp,
        vvbn: Vvbn,
    ) -> Result<u16, Stop> {
        let (block, slot) = refcount::block_and_slot(vvbn);
        let file = self.refcounts(cp, seconds);
        // At least one level, so that leaves can be removed like those of any file.
        file.grow((block + 1).max(2));
        let page = file.modify(cx, 0, block, Content::Keep)?;
        let count = refcount::get(page, slot);
        if count >= refcount::COUNT_MAX {
            let most = refcount::COUNT_MAX;
            return Err(
                Damage::new("references to a block", format!("below {most}"), count).into(),
            );
        }
        Ok(count)
    }

    /// Adds a reference of a leaf to a vvbn in use.
    pub(crate) fn add_reference(&mut self, vvbn: Vvbn) {
        let (block, slot) = refcount::block_and_slot(vvbn);
        let page = self.file(REFCOUNTS).changed_page(0, block);
        let page = page.expect("taking a reference was prepared");
        let count = refcount::get(page, slot);
        refcount::set(page, slot, count + 1);
    }

    /// Removes a reference of a leaf to the vvbn. Returns false if the removed reference was the
    /// last.
    fn drop_reference(&mut self, vvbn: Vvbn) -> bool {
        let (block, slot) = refcount::block_and_slot(vvbn);
        // A block that nobody made changed has no count for what was prepared.
        let Some(page) = self.file(REFCOUNTS).changed_page(0, block) else {
            return false;
        };
        let count = refcount::get(page, slot);
        if count == 0 {
            return false;
        }
        refcount::set(page, slot, count - 1);
        true
    }
}

/// Load phase of [`release`].
pub(crate) fn prepare_release(
    aggregate: &mut FileSystem,
    volume: &mut FileSystem,
    container: FileId,
    cx: &mut LoadCx<'_>,
    vvbn: Vvbn,
) -> Result<(), Stop> {
    if volume.has_counts && volume.prepare_count(cx, vvbn)? > 0 {
        return Ok(());
    }
    prepare_free_virtual(aggregate, volume, container, cx, vvbn)
}

/// Releases a leaf's reference to a block, and frees the block if no reference is left.
pub(crate) fn release(
    aggregate: &mut FileSystem,
    volume: &mut FileSystem,
    container: FileId,
    vvbn: Vvbn,
) {
    if !(volume.has_counts && volume.drop_reference(vvbn)) {
        free_virtual(aggregate, volume, container, vvbn);
    }
}

#[cfg(test)]
mod tests;
