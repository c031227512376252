//! Leaves of allocation metafiles, from the references of an image's trees.
//!
//! | leaf | survey of | what it says |
//! | --- | --- | --- |
//! | active map of the aggregate | the aggregate | a bit for each pvbn that has a reference |
//! | active map of a volume, or of a snapshot of it | that image | a bit for each vvbn that has a reference, and for the superblock's |
//! | refcount file | the active image | for each vvbn the leaves of LUNs that refer to it, but for the first |
//! | context map | the aggregate | the owner of each pvbn that has a reference |
//!
//! For the first three rows only one content is right, so the result is compared with the tag in
//! the block's pointer. A context map also has old contexts of free blocks. These cannot be
//! derived, and have no meaning.

use std::collections::BTreeMap;

use everglade_env::Page;
use everglade_format::context::{self, CONTEXTS_PER_BLOCK};
use everglade_format::refcount::{self, COUNTS_PER_BLOCK};
use everglade_format::volume::SUPERBLOCK_VVBN;
use everglade_format::{
    BITS_PER_BLOCK, Context, FileId, Inode, Kind, Layer, Owner, Pointer, Pvbn, Tag, Vvbn, bitmap,
};

use super::survey::Survey;
use crate::read::load::{LoadCx, Stop};
use crate::tree::position::Position;

/// The kind of leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeafKind {
    /// A block of an active map.
    Bits(Layer),
    /// A block of a refcount file.
    Counts,
    /// A block of the context map.
    Contexts,
}

impl LeafKind {
    /// Numbers that a leaf is about.
    pub(super) fn numbers(self) -> u64 {
        match self {
            LeafKind::Bits(_) => BITS_PER_BLOCK,
            LeafKind::Counts => COUNTS_PER_BLOCK,
            LeafKind::Contexts => CONTEXTS_PER_BLOCK,
        }
    }
}

/// Leaves `first …` of a file that are being derived.
pub(super) struct Leaves {
    what: LeafKind,
    first: u64,
    pages: Vec<Page>,
    /// References of each vvbn.
    counts: BTreeMap<u64, u32>,
    survey: Survey,
}

impl Leaves {
    /// `count` leaves from `first` on. Blocks below block `skip` are not read.
    pub(super) fn new(
        what: LeafKind,
        (first, count): (u64, usize),
        inode_file: &Inode,
        volume: Option<FileId>,
        skip: Option<(FileId, Position)>,
    ) -> Leaves {
        Leaves {
            what,
            first,
            pages: (0..count).map(|_| Page::zeroed()).collect(),
            counts: BTreeMap::new(),
            survey: Survey::new(inode_file, volume, skip),
        }
    }

    /// Runs the next step. Returns true when [`Leaves::take`] has the leaves.
    pub(super) fn step(&mut self, cx: &mut LoadCx<'_>) -> Result<bool, Stop> {
        let (what, first) = (self.what, self.first * self.what.numbers());
        let end = first + self.pages.len() as u64 * what.numbers();
        let (pages, counts) = (&mut self.pages, &mut self.counts);
        let mut note = |inode: &Inode, position: Position, pointer: Pointer| {
            let number = match what {
                LeafKind::Bits(Layer::Volume) | LeafKind::Counts => pointer.vvbn.0,
                LeafKind::Bits(Layer::Aggregate) | LeafKind::Contexts => pointer.pvbn.0,
            };
            if !(first..end).contains(&number) {
                return;
            }
            let leaf = usize::try_from((number - first) / what.numbers()).expect("below the end");
            let page = &mut pages[leaf];
            match what {
                LeafKind::Bits(_) => _ = bitmap::set(page, number % BITS_PER_BLOCK),
                LeafKind::Counts if inode.kind == Kind::Lun && position.0 == 0 => {
                    *counts.entry(number).or_default() += 1;
                }
                LeafKind::Counts => {}
                LeafKind::Contexts => {
                    let (_, slot) = context::block_and_slot(Pvbn(number));
                    context_of(inode, position, pointer).encode_into(page, slot);
                }
            }
        };
        let is_done = self.survey.step(cx, &mut note)?;
        if is_done {
            self.finish()?;
        }
        Ok(is_done)
    }

    fn finish(&mut self) -> Result<(), Stop> {
        let is_first = self.first == 0 && self.what == LeafKind::Bits(Layer::Volume);
        if is_first {
            bitmap::set(&mut self.pages[0], SUPERBLOCK_VVBN.0);
        }
        for (vvbn, references) in std::mem::take(&mut self.counts) {
            let (leaf, slot) = refcount::block_and_slot(Vvbn(vvbn));
            let page = usize::try_from(leaf - self.first).expect("among them");
            let count = u16::try_from(references - 1);
            let count = count.map_err(|_| {
                let most = refcount::COUNT_MAX;
                Stop::damaged(format!(
                    "vvbn {vvbn} has {references} references; expected at most {most} and one"
                ))
            })?;
            refcount::set(&mut self.pages[page], slot, count);
        }
        Ok(())
    }

    /// The leaves, in order; once.
    pub(super) fn take(&mut self) -> Vec<Page> {
        std::mem::take(&mut self.pages)
    }
}

/// The context that the context map has for a block of the aggregate.
fn context_of(inode: &Inode, (level, index): Position, pointer: Pointer) -> Context {
    let is_data = inode.kind == Kind::Container && level == 0;
    Context {
        file: inode.id,
        owner: match is_data {
            true => Owner::Container { vvbn: index },
            false => Owner::File { level, index },
        },
        tag: if is_data { pointer.tag } else { Tag(0) },
    }
}
