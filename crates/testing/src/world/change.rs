//! The effect of an operation on a medium, whole or in part.

use std::ops::Range;
use std::sync::Arc;

use everglade_env::{BLOCK_SIZE, Page, PageRef};

use super::Image;
use super::blockset::BlockSet;
use crate::Rng;

/// Smallest unit that a medium writes atomically, in bytes.
const SECTOR: usize = 512;

/// One change of a medium. Cheap to clone.
#[derive(Clone)]
pub(super) enum Change {
    /// These blocks get these contents.
    Write(Arc<[(u64, PageRef)]>),
    /// These blocks lose their contents and their space.
    Punch(Range<u64>),
    /// These blocks get space.
    Allocate(Range<u64>),
}

/// The unit that a power cut leaves whole: a torn write keeps some units and loses others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grain {
    /// A block of 4 KiB. A write of several blocks may be torn between them.
    Block,
    /// A sector of 512 bytes. A write of one block may be torn inside the block.
    Sector,
}

impl Change {
    pub(super) fn write(first: u64, pages: Vec<PageRef>) -> Change {
        Change::Write((first..).zip(pages).collect())
    }

    /// Applies the change to an image.
    pub(super) fn apply(&self, version: u64, image: &mut Image, allocated: &mut BlockSet) {
        match self {
            Change::Write(blocks) => {
                for (block, page) in blocks.iter() {
                    image.put(*block, version, page.clone());
                    allocated.insert(*block..*block + 1);
                }
            }
            Change::Punch(range) => {
                image.remove(range.clone(), version);
                allocated.remove(range.clone());
            }
            Change::Allocate(range) => allocated.insert(range.clone()),
        }
    }

    /// Returns the change with one bit of one block flipped.
    pub(super) fn flipped(&self, rng: &mut Rng) -> Option<Change> {
        let Change::Write(blocks) = self else {
            return Some(self.clone());
        };
        let (victim, bit) = (rng.index(blocks.len()), rng.index(BLOCK_SIZE * 8));
        let mut blocks: Vec<(u64, PageRef)> = blocks.to_vec();
        let mut page = Page::copy_of(&blocks[victim].1);
        page[bit / 8] ^= 1 << (bit % 8);
        blocks[victim].1 = page.freeze();
        Some(Change::Write(blocks.into()))
    }

    /// A random part of it as it would land on `image`: some blocks, and of one block some sectors.
    /// Never all of it, unless it is a change that cannot be torn.
    pub(super) fn torn(&self, grain: Grain, image: &Image, rng: &mut Rng) -> Change {
        let Change::Write(blocks) = self else {
            return self.clone();
        };
        if blocks.is_empty() {
            return self.clone();
        }
        let split = rng.index(blocks.len());
        // Devices write in order more often than not, so half of the tears keep a front or a back.
        let shape = rng.below(4);
        let mut part = Vec::new();
        for (i, (block, page)) in blocks.iter().enumerate() {
            let kept = match shape {
                0 => i < split,
                1 => i > split,
                _ => rng.one_in(2),
            };
            if i == split {
                if grain == Grain::Sector {
                    part.push((*block, mixed(&image.read(*block), page, rng)));
                }
            } else if kept {
                part.push((*block, page.clone()));
            }
        }
        Change::Write(part.into())
    }
}

/// `old` with some sectors of `new`, not all.
fn mixed(old: &PageRef, new: &PageRef, rng: &mut Rng) -> PageRef {
    let mut page = Page::copy_of(old);
    let last_old = rng.index(BLOCK_SIZE / SECTOR);
    let front = rng.one_in(2);
    for sector in 0..BLOCK_SIZE / SECTOR {
        let is_new = if front {
            sector < last_old
        } else {
            rng.one_in(2)
        };
        if is_new && sector != last_old {
            let bytes = sector * SECTOR..(sector + 1) * SECTOR;
            page[bytes.clone()].copy_from_slice(&new[bytes]);
        }
    }
    page.freeze()
}
