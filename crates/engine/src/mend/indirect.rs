//! An indirect block of the aggregate, from the contexts of the blocks below it.
//!
//! The context of each block in use names its owner: file, level and index, or container and vvbn.
//! So a search through all contexts finds the children of an unreadable block. The context of a
//! container's leaf has the leaf's tag; for other children the content is read and its tag
//! computed. Then only the consistency point in the block's header is unknown, and the mender tries
//! all of them. The derived block is used only if it has the tag that its pointer expects.
//!
//! Two files need another way, because the contexts cannot be read without them. The children of
//!
//! * the **context map** are the blocks in use that nothing refers to any more, each recognised by
//!   its content: it agrees with the contexts that a survey finds for its block numbers;
//! * the **active map** are among the blocks that any context, even an outdated one, calls leaves
//!   of the map. The right block has a bit for every block that a survey finds, and otherwise only
//!   for blocks of this kind.

use std::collections::{BTreeMap, BTreeSet};

use everglade_env::{Page, PageRef};
use everglade_format::context::{self, CONTEXTS_PER_BLOCK};
use everglade_format::indirect::BlockKind;
use everglade_format::metafile::{ACTIVE_MAP, CONTEXT_MAP, INODE_FILE, OVERFLOW};
use everglade_format::{
    BITS_PER_BLOCK, Block, Context, CpNumber, FileId, Header, IndirectMut, Inode, Layer, Owner,
    Pointer, Pvbn, SPAN, Tag, TagKey, bitmap,
};

use super::leaves::{LeafKind, Leaves};
use super::orphans::Orphans;
use super::view::View;
use crate::read::load::{BlockName, Gather, LoadCx, Stop};

/// Blocks of the context map read in one step.
const STEP_CONTEXTS: u64 = 64;
/// Children whose content is read in one step.
const STEP_CHILDREN: usize = 64;
/// Consistency points tried in one step.
const STEP_STAMPS: u64 = 4096;
/// Most blocks that may call themselves leaves of an active map, for one to be chosen.
const CANDIDATES_MAX: usize = 4096;

/// A child: its place and its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Child {
    pvbn: Pvbn,
    tag: Tag,
}

enum Phase {
    /// The context map is being read, from this block on.
    Contexts(u64),
    /// Blocks that may be children, by level and index, whose content is read.
    Contents(Vec<(u64, Pvbn)>),
    /// The contents of leaves of the maps are derived.
    Leaves(Box<Leaves>),
    /// Blocks without a reference are searched.
    Orphans(Box<Orphans>),
    /// The children are known.
    Stamps(Stamps),
}

/// See the module's documentation.
pub(super) struct Children {
    name: BlockName,
    tag: Tag,
    phase: Phase,
    found: BTreeMap<u64, Child>,
    /// For the maps: the derived contents of their leaves.
    derived: Vec<Page>,
    /// Blocks that may be leaves of the maps, by number, with the index that their context says.
    candidates: BTreeMap<u64, u64>,
    contents: BTreeMap<u64, PageRef>,
    /// When children were written, where that decides.
    stamps: BTreeMap<u64, u64>,
    inode_file: Inode,
}

impl Children {
    pub(super) fn new(view: &View<'_>, name: BlockName, tag: Tag) -> Children {
        let skip = Some((name.file, (name.level, name.index)));
        let is_lowest = name.level == 1;
        let first = (name.index * SPAN, 255);
        let what = match name.file {
            ACTIVE_MAP if is_lowest => Some(LeafKind::Bits(Layer::Aggregate)),
            CONTEXT_MAP if is_lowest => Some(LeafKind::Contexts),
            _ => None,
        };
        let leaves = what.map(|what| Leaves::new(what, first, view.inode_file, None, skip));
        let phase = leaves.map_or(Phase::Contexts(0), |leaves| Phase::Leaves(Box::new(leaves)));
        Children {
            name,
            tag,
            phase,
            found: BTreeMap::new(),
            derived: Vec::new(),
            candidates: BTreeMap::new(),
            contents: BTreeMap::new(),
            stamps: BTreeMap::new(),
            inode_file: view.inode_file.clone(),
        }
    }

    fn is_map(&self) -> bool {
        self.name.level == 1 && [ACTIVE_MAP, CONTEXT_MAP].contains(&self.name.file)
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
                    self.phase = match self.name.file {
                        ACTIVE_MAP => Phase::Contexts(0),
                        _ => {
                            let skip = Some((self.name.file, (1, self.name.index)));
                            Phase::Orphans(Box::new(Orphans::new(&self.inode_file, None, skip)))
                        }
                    };
                }
            }
            Phase::Orphans(orphans) => {
                if orphans.step(view, cx)? {
                    let found = std::mem::take(&mut orphans.found);
                    let all = found.iter().map(|number| (*number, Pvbn(*number)));
                    self.phase = Phase::Contents(all.collect());
                    self.candidates = found.into_iter().map(|it| (it, u64::MAX)).collect();
                }
            }
            Phase::Contexts(from) => {
                let from = *from;
                let contexts = view.file(cx, CONTEXT_MAP)?;
                let end = contexts.inode.block_count();
                let to = (from + STEP_CONTEXTS).min(end);
                self.look_through(view, cx, from..to)?;
                self.phase = match to == end {
                    true => self.after_contexts()?,
                    false => Phase::Contexts(to),
                };
            }
            Phase::Contents(left) => {
                let from = left.len().saturating_sub(STEP_CHILDREN);
                let mut gather = Gather::default();
                let mut read = Vec::new();
                for (index, pvbn) in &left[from..] {
                    let content = gather.add(cx.content(*pvbn));
                    read.extend(content.flatten().map(|page| (*index, *pvbn, page)));
                }
                gather.finish()?;
                left.truncate(from);
                let is_done = left.is_empty();
                for (index, pvbn, page) in read {
                    if self.is_map() {
                        self.contents.insert(pvbn.0, page);
                    } else {
                        self.accept(&view.aggregate.key, index, pvbn, &page);
                    }
                }
                if is_done {
                    if self.is_map() {
                        self.choose(&view.aggregate.key);
                    }
                    let page = self.without_stamp();
                    let stamps = Stamps::new(page, self.name, (self.tag, committed));
                    self.phase = Phase::Stamps(stamps);
                }
            }
            Phase::Stamps(stamps) => return stamps.step(&view.aggregate.key),
        }
        Ok(None)
    }

    /// Looks for children in some blocks of the context map.
    fn look_through(
        &mut self,
        view: &View<'_>,
        cx: &mut LoadCx<'_>,
        blocks: std::ops::Range<u64>,
    ) -> Result<(), Stop> {
        let contexts = view.file(cx, CONTEXT_MAP)?;
        // Without the active map it is not known which contexts are outdated.
        let active = match self.name.file {
            ACTIVE_MAP => None,
            _ => Some(view.file(cx, ACTIVE_MAP)?),
        };
        let mut gather = Gather::default();
        let mut pages = Vec::new();
        for block in blocks {
            let page = gather.add(contexts.leaf(cx, block).map(|leaf| leaf.to_page()));
            let number = block * CONTEXTS_PER_BLOCK;
            let bits = active.as_ref().map(|map| {
                let leaf = map.leaf(cx, number / BITS_PER_BLOCK);
                gather.add(leaf.map(|leaf| leaf.to_page()))
            });
            if let (Some(page), None | Some(Some(_))) = (page, &bits) {
                pages.push((number, page, bits.flatten()));
            }
        }
        gather.finish()?;
        for (first, page, bits) in pages {
            for slot in 0..CONTEXTS_PER_BLOCK {
                let number = first + slot;
                let is_used = |bits: &PageRef| bitmap::is_set(bits, number % BITS_PER_BLOCK);
                let slot = usize::try_from(slot).expect("below 256");
                if bits.as_ref().is_none_or(is_used)
                    && let Ok(context) = Context::decode_from(&page, slot)
                {
                    self.consider(Pvbn(number), context);
                }
            }
        }
        Ok(())
    }

    /// Adds a block as a child if its context names it as one.
    fn consider(&mut self, pvbn: Pvbn, context: Context) {
        let below = self.name.level - 1;
        let (index, tag) = match context.owner {
            Owner::File { level, index } if level == below => (index, None),
            Owner::Container { vvbn } if below == 0 => (vvbn, Some(context.tag)),
            _ => return,
        };
        if context.file != self.name.file || index / SPAN != self.name.index {
            return;
        }
        match tag {
            Some(tag) => _ = self.found.insert(index % SPAN, Child { pvbn, tag }),
            None if self.is_map() && self.is_referenced(pvbn) => {}
            None => _ = self.candidates.insert(pvbn.0, index),
        }
    }

    /// Takes a block as a child because its context says that it is one. There may be several such
    /// blocks if it is not known which contexts are outdated; then the block that was written last
    /// counts.
    fn accept(&mut self, key: &TagKey, index: u64, pvbn: Pvbn, page: &Block) {
        let stamp = match self.name.level {
            1 => 0,
            _ => Header::decode(page).map_or(0, |header| header.cp.0),
        };
        let newest = self.stamps.entry(index).or_insert(stamp);
        if stamp >= *newest {
            *newest = stamp;
            let tag = key.tag(page);
            self.found.insert(index, Child { pvbn, tag });
        }
    }

    /// True if a survey found another reference to it. Only for an active map.
    fn is_referenced(&self, pvbn: Pvbn) -> bool {
        let leaf = pvbn.0 / BITS_PER_BLOCK;
        let leaf = leaf.checked_sub(self.name.index * SPAN);
        let bits = leaf.and_then(|leaf| self.derived.get(usize::try_from(leaf).ok()?));
        bits.is_some_and(|bits| bitmap::is_set(bits, pvbn.0 % BITS_PER_BLOCK))
    }

    fn after_contexts(&mut self) -> Result<Phase, Stop> {
        if self.candidates.len() > CANDIDATES_MAX {
            return Err(Stop::damaged(format!(
                "{} blocks may be its children; expected at most {CANDIDATES_MAX}",
                self.candidates.len()
            )));
        }
        let all = self.candidates.iter();
        let all = all.map(|(pvbn, index)| (index % SPAN, Pvbn(*pvbn)));
        Ok(Phase::Contents(all.collect()))
    }

    /// Decides of each candidate which leaf of the map it is, if any.
    fn choose(&mut self, key: &TagKey) {
        let numbers: BTreeSet<u64> = self.candidates.keys().copied().collect();
        for (pvbn, page) in &self.contents {
            let said = self.candidates[pvbn];
            let all = 0..self.derived.len() as u64;
            let mut all = all.map(|leaf| self.name.index * SPAN + leaf);
            let fits = |leaf: &u64| {
                let derived = &self.derived[usize::try_from(leaf % SPAN).expect("below 255")];
                match self.name.file {
                    ACTIVE_MAP => said == *leaf && is_map_leaf(page, derived, *leaf, &numbers),
                    _ => is_context_leaf((Pvbn(*pvbn), page), derived, *leaf, &numbers),
                }
            };
            if let Some(leaf) = all.find(fits) {
                let pvbn = Pvbn(*pvbn);
                let tag = key.tag(page);
                self.found.insert(leaf % SPAN, Child { pvbn, tag });
            }
        }
        if self.name.file == CONTEXT_MAP {
            self.choose_by_contexts(key);
        }
    }

    /// Leaves of the context map of which nothing is known have contexts themselves, in leaves that
    /// may be known by now.
    fn choose_by_contexts(&mut self, key: &TagKey) {
        loop {
            let before = self.found.len();
            for (pvbn, page) in &self.contents {
                let (leaf, slot) = context::block_and_slot(Pvbn(*pvbn));
                let slot_of = |leaf: u64| leaf.checked_sub(self.name.index * SPAN);
                let known = slot_of(leaf).and_then(|leaf| self.found.get(&leaf));
                let known = known.and_then(|child| self.contents.get(&child.pvbn.0));
                let context = known.map(|page| Context::decode_from(page, slot));
                let Some(Ok(context)) = context else {
                    continue;
                };
                if let Owner::File { level: 0, index } = context.owner
                    && context.file == CONTEXT_MAP
                    && let Some(slot) = slot_of(index).filter(|slot| *slot < SPAN)
                {
                    let (pvbn, tag) = (Pvbn(*pvbn), key.tag(page));
                    self.found.insert(slot, Child { pvbn, tag });
                }
            }
            if self.found.len() == before {
                return;
            }
        }
    }

    fn without_stamp(&self) -> Page {
        let mut page = Page::zeroed();
        for (slot, child) in &self.found {
            let pointer = Pointer {
                pvbn: child.pvbn,
                tag: child.tag,
                ..Pointer::HOLE
            };
            IndirectMut(&mut page).set(*slot, Layer::Aggregate, pointer);
        }
        page
    }
}

/// Tries with which consistency point in its header an indirect block has the tag that is expected.
pub(super) struct Stamps {
    page: Page,
    name: BlockName,
    tag: Tag,
    newest: u64,
}

impl Stamps {
    /// A block that was written by this consistency point at the latest.
    pub(super) fn new(page: Page, name: BlockName, (tag, newest): (Tag, CpNumber)) -> Stamps {
        Stamps {
            page,
            name,
            tag,
            newest: newest.0,
        }
    }

    /// Tries some. The block, when it is found.
    pub(super) fn step(&mut self, key: &TagKey) -> Result<Option<Page>, Stop> {
        let layer = self.name.layer();
        let oldest = self.newest.saturating_sub(STEP_STAMPS);
        for cp in (oldest..=self.newest).rev() {
            let header = Header {
                kind: BlockKind::indirect(layer),
                level: self.name.level,
                cp: CpNumber(cp),
                file: self.name.file,
                index: u32::try_from(self.name.index).unwrap_or(u32::MAX),
            };
            header.encode(&mut self.page);
            if key.tag(&self.page) == self.tag {
                return Ok(Some(Page::copy_of(&self.page)));
            }
        }
        if oldest == 0 {
            return Err(Stop::damaged(
                "what was derived from its children has another tag".to_owned(),
            ));
        }
        self.newest = oldest;
        Ok(None)
    }
}

/// True if a block may be this leaf of the active map: all that has a reference is in it, and
/// nothing but leaves of the map besides.
pub(super) fn is_map_leaf(
    page: &Block,
    derived: &Block,
    leaf: u64,
    candidates: &BTreeSet<u64>,
) -> bool {
    if !bitmap::is_within(derived, page) {
        return false;
    }
    let mut rest = Box::new(*page);
    bitmap::subtract(&mut rest, derived);
    bitmap::ones(&rest).all(|bit| candidates.contains(&(leaf * BITS_PER_BLOCK + bit)))
}

/// True if a block may be this leaf of the context map: it agrees in all that is known.
fn is_context_leaf(
    (own, page): (Pvbn, &Block),
    derived: &Block,
    leaf: u64,
    candidates: &BTreeSet<u64>,
) -> bool {
    let mut known = 0;
    let agrees = (0..CONTEXTS_PER_BLOCK).all(|slot| {
        let pvbn = Pvbn(leaf * CONTEXTS_PER_BLOCK + slot);
        let (_, slot) = context::block_and_slot(pvbn);
        let found = Context::decode_from(page, slot);
        if candidates.contains(&pvbn.0) {
            let Ok(found) = found else { return false };
            let is_itself = pvbn == own;
            known += u64::from(is_itself);
            let wanted = Owner::File {
                level: 0,
                index: leaf,
            };
            return found.file == CONTEXT_MAP && (!is_itself || found.owner == wanted);
        }
        match Context::decode_from(derived, slot) {
            // The block has no owner, or belongs to the overflow file, whose blocks have the
            // contexts of their former owners.
            Err(_) => true,
            Ok(wanted) if wanted.file == OVERFLOW => true,
            Ok(wanted) => {
                known += 1;
                found == Ok(wanted)
            }
        }
    });
    agrees && known > 0
}

/// True for files of the aggregate whose indirect blocks can be derived in this way: not for that
/// without which no file is found, the context map among them.
pub(super) fn is_possible(file: FileId) -> bool {
    ![INODE_FILE, OVERFLOW].contains(&file)
}
