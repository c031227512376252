//! Label: the first MiB of a device, and its copy at the device's end (docs/design/design.md §4).
//!
//! | offset in the MiB | what |
//! | --- | --- |
//! | 0 | nothing of ours (a partition table's place, never written) |
//! | 64 KiB, 128 KiB | config records: epoch `e` in slot `e % 2` |
//! | 256 KiB, 512 KiB | superblocks: consistency point `n` in slot `n % 2` |
//!
//! The copy occupies the last MiB of the device. So each superblock slot has two copies per member;
//! a commit writes all of them, and a torn write leaves the other slot whole.

use crate::{BLOCK_SIZE, CpNumber, Dbn, Geometry};

/// Bytes of the label.
pub const LABEL_BYTES: u64 = 1 << 20;
/// Blocks of the label.
pub const LABEL_BLOCKS: u64 = LABEL_BYTES / BLOCK_SIZE as u64;
/// Offsets of the two config slots.
pub const CONFIG_OFFSETS: [u64; 2] = [64 << 10, 128 << 10];
/// Offsets of the two superblock slots.
pub const SUPERBLOCK_OFFSETS: [u64; 2] = [256 << 10, 512 << 10];

/// Slot of a config record.
#[must_use]
pub fn config_slot(epoch: u64) -> usize {
    usize::from(!epoch.is_multiple_of(2))
}

/// Slot of a superblock.
#[must_use]
pub fn superblock_slot(cp: CpNumber) -> usize {
    usize::from(!cp.0.is_multiple_of(2))
}

/// Byte offsets of the label and its copy on a device of `size_bytes`.
#[must_use]
pub fn label_offsets(size_bytes: u64) -> [u64; 2] {
    let blocks = size_bytes / BLOCK_SIZE as u64;
    [0, (blocks - LABEL_BLOCKS) * BLOCK_SIZE as u64]
}

/// Returns the data region on a device of `size_blocks`: first block and length, in whole areas.
/// Leaves room for the labels and 1 % spare, so that a slightly smaller replacement fits. Returns
/// `None` if the device is too small for one area.
#[must_use]
pub fn data_region(size_blocks: u64, area_blocks: u64, journal_blocks: u64) -> Option<(Dbn, u64)> {
    let first = LABEL_BLOCKS + journal_blocks;
    let usable =
        (size_blocks - size_blocks.div_ceil(100)).min(size_blocks.checked_sub(LABEL_BLOCKS)?);
    let length = usable.checked_sub(first)? / area_blocks * area_blocks;
    (length > 0).then_some((Dbn(first), length))
}

/// Returns the size of the smallest device that holds `areas` areas, in blocks.
#[must_use]
pub fn size_for(areas: u64, area_blocks: u64, journal_blocks: u64) -> u64 {
    let mut size = LABEL_BLOCKS * 2 + journal_blocks + areas * area_blocks;
    while data_region(size, area_blocks, journal_blocks)
        .is_none_or(|(_, l)| l < areas * area_blocks)
    {
        size += size.div_ceil(200);
    }
    size
}

/// Returns the region that a member gets when its device grows from `old_blocks` to `new_blocks`:
/// first block and length, in whole areas. The region begins behind the old copy of the label,
/// which stays where it is and is needed until the change is committed. `None` if the device did
/// not grow by an area.
#[must_use]
pub fn grown_region(old_blocks: u64, new_blocks: u64, area_blocks: u64) -> Option<(Dbn, u64)> {
    let usable = (new_blocks - new_blocks.div_ceil(100)).min(new_blocks.checked_sub(LABEL_BLOCKS)?);
    let length = usable.checked_sub(old_blocks)? / area_blocks * area_blocks;
    (length > 0).then_some((Dbn(old_blocks), length))
}

/// Returns the smallest size in blocks to which a device of `old_blocks` has to grow for
/// [`grown_region`].
#[must_use]
pub fn size_to_grow(old_blocks: u64, area_blocks: u64) -> u64 {
    let mut size = old_blocks + area_blocks + LABEL_BLOCKS;
    while grown_region(old_blocks, size, area_blocks).is_none() {
        size += size.div_ceil(200);
    }
    size
}

/// Number of areas a pvbn space of `geometry` spans, holes between extents included.
#[must_use]
pub fn area_count(geometry: &Geometry) -> u64 {
    geometry.end() / geometry.area_blocks()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grown_region_lies_between_the_old_copy_of_the_label_and_the_new_one() {
        for old in [600, 3_000, 40_000, 1 << 24] {
            let least = size_to_grow(old, 256);
            for new in [least, least + 1_000, 3 * least] {
                let (first, length) = grown_region(old, new, 256).expect("it grew by an area");
                assert_eq!(first, Dbn(old));
                assert!(length >= 256 && length.is_multiple_of(256));
                assert!(old + length <= new - LABEL_BLOCKS, "{old} to {new}");
            }
            assert_eq!(grown_region(old, old + 256, 256), None);
            assert_eq!(grown_region(old, old, 256), None);
            assert_eq!(grown_region(old, old / 2, 256), None);
        }
        assert_eq!(grown_region(600, 10, 256), None);
    }

    #[test]
    fn data_stays_clear_of_both_labels() {
        for size in [600, 1000, 30_000, 40_000, 1 << 24] {
            if let Some((first, length)) = data_region(size, 256, 0) {
                assert!(
                    first.0 >= LABEL_BLOCKS && first.0 + length <= size - LABEL_BLOCKS,
                    "{size}"
                );
            }
        }
        assert_eq!(data_region(600, 256, 0), None);
        assert_eq!(data_region(10, 256, 0), None);
        assert!(data_region(size_for(7, 256, 16), 256, 16).is_some_and(|(_, l)| l >= 7 * 256));
    }
}
