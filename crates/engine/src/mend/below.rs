//! An indirect block of a volume's active map or refcount file, from the contents that the leaves
//! below it must have.
//!
//! The contents of each leaf are derived ([`super::leaves`]). The container has the tag of each
//! block of the volume, so it shows which block is the leaf:
//!
//! * a leaf of a **refcount file** is known to the bit, so its tag is known, too. The leaf is the
//!   block with this tag among the blocks that nothing else refers to;
//! * a leaf of an **active map** has a bit for every block that a survey finds, and for leaves of
//!   the map. Several blocks without a reference may have such content. The leaf is the block with
//!   the fewest bits: the others are from older images.
//!
//! As for every indirect block, the mender tries consistency points in the header until the whole
//! block has the expected tag.

use std::collections::{BTreeMap, BTreeSet};

use everglade_env::Page;
use everglade_format::metafile::ACTIVE_MAP;
use everglade_format::{
    BITS_PER_BLOCK, CpNumber, FileId, IndirectMut, Inode, Layer, Pointer, SPAN, Tag, Vvbn, bitmap,
};

use super::indirect::{Stamps, is_map_leaf};
use super::leaves::{LeafKind, Leaves};
use super::survey::Walk;
use super::view::View;
use crate::read::load::{BlockName, Gather, LoadCx, Stop};

/// With more candidates than this, mending stops.
const CANDIDATES_MAX: usize = 16_384;
/// Blocks read in one step.
const STEP_BLOCKS: usize = 64;

enum Phase {
    Leaves(Box<Leaves>),
    /// The container is gone through; nothing until that began.
    Container(Option<Box<Walk>>),
    /// Blocks that may be leaves of a map are read.
    Contents(Vec<Pointer>),
    Stamps(Stamps),
}

/// See the module's documentation.
pub(super) struct Below {
    volume: FileId,
    name: BlockName,
    tag: Tag,
    phase: Phase,
    derived: Vec<Page>,
    /// Tags of the leaves of a refcount file, by index.
    tags: BTreeMap<u64, u64>,
    /// Blocks that may be leaves, by vvbn.
    candidates: BTreeMap<u64, Pointer>,
    /// Leaves that were found, with the number of bits that they have.
    found: BTreeMap<u64, (Pointer, u64)>,
}

impl Below {
    /// Of an image, by the inode of its inode file.
    pub(super) fn new(inode_file: &Inode, volume: FileId, name: BlockName, tag: Tag) -> Below {
        let skip = Some((name.file, (name.level, name.index)));
        let what = match name.file {
            ACTIVE_MAP => LeafKind::Bits(Layer::Volume),
            _ => LeafKind::Counts,
        };
        let all = (name.index * SPAN, 255);
        let leaves = Leaves::new(what, all, inode_file, Some(volume), skip);
        Below {
            volume,
            name,
            tag,
            phase: Phase::Leaves(Box::new(leaves)),
            derived: Vec::new(),
            tags: BTreeMap::new(),
            candidates: BTreeMap::new(),
            found: BTreeMap::new(),
        }
    }

    /// Runs the next step. Returns the block when the search is done.
    pub(super) fn step(
        &mut self,
        view: &View<'_>,
        cx: &mut LoadCx<'_>,
        committed: CpNumber,
    ) -> Result<Option<Page>, Stop> {
        match &mut self.phase {
            Phase::Leaves(leaves) => {
                if leaves.step(cx)? {
                    self.derived = leaves.take();
                    self.phase = Phase::Container(None);
                    if self.name.file != ACTIVE_MAP {
                        let key = &view.aggregate.key;
                        let zero = key.tag(&Page::zeroed());
                        let tags = (0..).zip(&self.derived);
                        let tags = tags.map(|(slot, page)| (key.tag(page).0, slot));
                        self.tags = tags.filter(|(tag, _)| *tag != zero.0).collect();
                    }
                }
            }
            Phase::Container(walk) => {
                let Some(walk) = walk else {
                    let inode = view.file(cx, self.volume)?.inode;
                    *walk = Some(Box::new(Walk::new(inode, Layer::Aggregate, None)));
                    return Ok(None);
                };
                let (derived, candidates) = (&self.derived, &mut self.candidates);
                let first = self.name.index * SPAN;
                let tags = &self.tags;
                let is_map = self.name.file == ACTIVE_MAP;
                let is_done = walk.step(cx, None, &mut |_, (level, vvbn), slot| {
                    let leaf = (vvbn / BITS_PER_BLOCK).checked_sub(first);
                    let leaf = leaf.and_then(|leaf| usize::try_from(leaf).ok());
                    let bits = leaf.and_then(|leaf| derived.get(leaf));
                    let is_referenced =
                        || bits.is_some_and(|bits| bitmap::is_set(bits, vvbn % BITS_PER_BLOCK));
                    let may_be = match is_map {
                        true => !is_referenced(),
                        false => tags.contains_key(&slot.tag.0),
                    };
                    if level == 0 && may_be && candidates.len() <= CANDIDATES_MAX {
                        let vvbn = Vvbn(vvbn);
                        candidates.insert(vvbn.0, Pointer { vvbn, ..slot });
                    }
                })?;
                if is_done {
                    self.phase = self.after_container(committed)?;
                }
            }
            Phase::Contents(left) => {
                let from = left.len().saturating_sub(STEP_BLOCKS);
                let mut gather = Gather::default();
                let mut pages = Vec::new();
                for pointer in &left[from..] {
                    let page = gather.add(cx.data_or_damage(*pointer));
                    pages.extend(page.and_then(Result::ok).map(|page| (*pointer, page)));
                }
                gather.finish()?;
                left.truncate(from);
                let is_done = left.is_empty();
                let numbers: BTreeSet<u64> = self.candidates.keys().copied().collect();
                for (pointer, page) in pages {
                    let bits = bitmap::count(&page, 0, BITS_PER_BLOCK);
                    for (slot, derived) in (0..).zip(&self.derived) {
                        let leaf = self.name.index * SPAN + slot;
                        let is_it = is_map_leaf(&page, derived, leaf, &numbers);
                        let known = self.found.get(&slot);
                        if is_it && bits > 0 && known.is_none_or(|(_, least)| bits < *least) {
                            self.found.insert(slot, (pointer, bits));
                        }
                    }
                }
                if is_done {
                    self.phase = self.stamps(committed);
                }
            }
            Phase::Stamps(stamps) => return stamps.step(&view.aggregate.key),
        }
        Ok(None)
    }

    fn after_container(&mut self, committed: CpNumber) -> Result<Phase, Stop> {
        if self.name.file == ACTIVE_MAP {
            if self.candidates.len() > CANDIDATES_MAX {
                return Err(Stop::damaged(format!(
                    "more than {CANDIDATES_MAX} blocks may be its leaves"
                )));
            }
            return Ok(Phase::Contents(self.candidates.values().copied().collect()));
        }
        for pointer in self.candidates.values() {
            if let Some(slot) = self.tags.get(&pointer.tag.0) {
                self.found.insert(*slot, (*pointer, 0));
            }
        }
        Ok(self.stamps(committed))
    }

    fn stamps(&self, committed: CpNumber) -> Phase {
        let mut page = Page::zeroed();
        for (slot, (pointer, _)) in &self.found {
            IndirectMut(&mut page).set(*slot, Layer::Volume, *pointer);
        }
        Phase::Stamps(Stamps::new(page, self.name, (self.tag, committed)))
    }
}
