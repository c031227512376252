//! The search for a volume's superblock when the block of the container that points at it is
//! damaged.
//!
//! All other blocks of the volume are found through the superblock, by the pvbns in pointers,
//! without the container (B-10). The context map names the owner of each block of the aggregate,
//! volume and vvbn, and the block's tag. So the search reads the context map until it finds the
//! superblock's vvbn. It reads some blocks at a time, because a mount must not need memory in
//! proportion to the pool.
//!
//! The context map may have old contexts of free blocks, so a found block counts only if the active
//! map has its bit.

use everglade_format::context::{CONTEXTS_PER_BLOCK, Owner};
use everglade_format::metafile::{ACTIVE_MAP, CONTEXT_MAP};
use everglade_format::volume::SUPERBLOCK_VVBN;
use everglade_format::{BITS_PER_BLOCK, Context, Entry, Pointer, Pvbn, bitmap};

use crate::alloc::filesystem::FileSystem;
use crate::read::load::{Damaged, Gather, LoadCx, Stop};

/// Blocks of the context map read in one step of a mount.
const STEP_BLOCKS: u64 = 64;

/// See the module's documentation.
pub(crate) struct Search {
    /// The volume's name in the aggregate.
    pub(crate) volume: Entry,
    /// The damage that makes the search necessary.
    pub(crate) damaged: Box<Damaged>,
    pub(crate) found: Option<Pointer>,
    next: u64,
}

impl Search {
    pub(crate) fn new(volume: Entry, damaged: Box<Damaged>) -> Search {
        Search {
            volume,
            damaged,
            found: None,
            next: 0,
        }
    }

    /// True once the whole context map has been read.
    pub(crate) fn is_over(&self, fs: &FileSystem) -> bool {
        self.found.is_some() || self.next >= fs.files[&CONTEXT_MAP].inode.block_count()
    }

    /// Looks through some of the context map.
    pub(crate) fn step(&mut self, fs: &FileSystem, cx: &mut LoadCx<'_>) -> Result<(), Stop> {
        let contexts = &fs.files[&CONTEXT_MAP];
        let end = contexts.inode.block_count().min(self.next + STEP_BLOCKS);
        let mut gather = Gather::default();
        let mut candidates = Vec::new();
        for block in self.next..end {
            let leaf = match contexts.leaf(cx, block) {
                // Another block may have the superblock.
                Err(Stop::Damaged(_)) => continue,
                leaf => leaf,
            };
            if let Some(leaf) = gather.add(leaf) {
                candidates.extend(self.candidates(block, leaf.bytes()));
            }
        }
        gather.finish()?;
        for candidate in candidates {
            let (block, bit) = (
                candidate.pvbn.0 / BITS_PER_BLOCK,
                candidate.pvbn.0 % BITS_PER_BLOCK,
            );
            match fs.files[&ACTIVE_MAP].leaf(cx, block) {
                Ok(bits) if bitmap::is_set(bits.bytes(), bit) => self.found = Some(candidate),
                Ok(_) | Err(Stop::Damaged(_)) => {}
                Err(stop) => return Err(stop),
            }
        }
        self.next = end;
        Ok(())
    }

    /// Blocks that were the superblock once, among those that a block of the context map describes.
    fn candidates(&self, block: u64, bytes: &everglade_format::Block) -> Vec<Pointer> {
        let slots = usize::try_from(CONTEXTS_PER_BLOCK).expect("few");
        let slots = (0..slots).zip(block * CONTEXTS_PER_BLOCK..);
        let wanted = Owner::Container {
            vvbn: SUPERBLOCK_VVBN.0,
        };
        let found = slots.filter_map(|(slot, number)| {
            let context = Context::decode_from(bytes, slot).ok()?;
            let is_it = context.file == self.volume.file && context.owner == wanted;
            is_it.then_some(Pointer {
                vvbn: SUPERBLOCK_VVBN,
                pvbn: Pvbn(number),
                tag: context.tag,
            })
        });
        found.collect()
    }
}
