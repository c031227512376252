//! A file inside a consistency point: its inode and the blocks changed so far (C-07, D-25).
//!
//! ```text
//! clean ──modify()──▶ changed ──place()──▶ placed ──seal()──▶ written, clean
//!                        ├──take_out()──▶ a cleaner's ──put_in()──▶ written, clean, or gone
//!                        └──prune()/remove_…()──▶ gone (its old place is the caller's to free)
//! ```
//!
//! 1. If a block is changed, so are all its ancestors; so sealing in ascending (level, index) order
//!    seals children before parents, and reads nothing from media.
//! 2. A block is placed at most once per consistency point, and not changed afterwards except by
//!    sealing its children (invariant: vvbns and pvbns are write-once).
//! 3. `inode.blocks` counts the blocks that the tree will have when it is sealed.
//!
//! A function that may stop can run again from its beginning: the second run finds the changes of
//! the first run done. So the handlers of a consistency point can be run again from the top.

use std::collections::BTreeMap;

use everglade_env::{BLOCK_SIZE, Page, PageRef};
use everglade_format::indirect::BlockKind;
use everglade_format::metafile::{self, METAFILES, NOTES, TOP_AREAS};
use everglade_format::{
    CpNumber, FileId, Header, Indirect, IndirectMut, Inode, Kind, Layer, Pointer, SPAN, Tag, TagKey,
};

use crate::read::load::{BlockName, Gather, LoadCx, Stop};
use crate::read::root::Root;
use crate::tree::changed::Blocks;
use crate::tree::position::Position;

/// The initial content of a changed block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// Its present content.
    Keep,
    /// Zeroes: the caller rewrites all of it, so nothing needs loading.
    Fresh,
}

struct Changed {
    page: Page,
    /// Place of the block in the last committed tree.
    old: Pointer,
    /// New place of the block; sealing fills in the tag.
    new: Option<Pointer>,
}

/// A leaf as the consistency point sees it.
pub(crate) enum Leaf<'a> {
    Hole,
    Clean(PageRef),
    Changed(&'a Page),
}

impl Leaf<'_> {
    /// The content as a page of its own.
    pub(crate) fn to_page(&self) -> PageRef {
        match self {
            Leaf::Hole => PageRef::zero(),
            Leaf::Clean(page) => page.clone(),
            Leaf::Changed(page) => Page::copy_of(page).freeze(),
        }
    }

    /// The bytes; a hole is zeroes.
    pub(crate) fn bytes(&self) -> &[u8; BLOCK_SIZE] {
        const ZERO: &[u8; BLOCK_SIZE] = &[0; BLOCK_SIZE];
        match self {
            Leaf::Hole => ZERO,
            Leaf::Clean(page) => page,
            Leaf::Changed(page) => page,
        }
    }
}

/// See the module's documentation.
pub(crate) struct File {
    pub(crate) inode: Inode,
    pub(crate) layer: Layer,
    /// Volume of the file, for reports of damage; none in the aggregate, or in an image that is
    /// only read.
    volume: Option<FileId>,
    pub(crate) inode_changed: bool,
    changed: Blocks<Changed>,
    /// All changed blocks before this one have places.
    unplaced_from: Position,
    /// Blocks that became lost, for the caller to take note of.
    pub(crate) lost: Vec<Lost>,
    /// Mended content of unreadable blocks, until they are changed ([`crate::mend`]).
    mended: BTreeMap<Position, PageRef>,
}

/// A block of a LUN's tree that is needed and cannot be read: everything below it is lost
/// (docs/design/design.md §5).
#[derive(Clone, Debug)]
pub(crate) struct Lost {
    pub(crate) level: u8,
    pub(crate) index: u64,
    pub(crate) reason: String,
}

impl File {
    pub(crate) fn new(inode: Inode, layer: Layer) -> File {
        File {
            inode,
            layer,
            volume: None,
            inode_changed: false,
            changed: Blocks::default(),
            unplaced_from: (0, 0),
            lost: Vec::new(),
            mended: BTreeMap::new(),
        }
    }

    /// Sets the volume of the file.
    pub(crate) fn of(self, volume: Option<FileId>) -> File {
        File { volume, ..self }
    }

    /// What a block of it is called.
    pub(crate) fn place_of(&self, (level, index): Position) -> BlockName {
        BlockName {
            volume: self.volume,
            file: self.inode.id,
            level,
            index,
        }
    }

    /// Installs the content of an unchanged block that cannot be read.
    pub(crate) fn install(&mut self, position: Position, page: PageRef) {
        self.mended.insert(position, page);
    }

    /// The node at a position, which `pointer` names.
    fn node(
        &self,
        cx: &mut LoadCx<'_>,
        position: Position,
        pointer: Pointer,
    ) -> Result<PageRef, Stop> {
        match self.mended.get(&position) {
            Some(page) => Ok(page.clone()),
            None => cx.page(pointer),
        }
    }

    /// True if the inode or any block differs from the last commit.
    pub(crate) fn is_changed(&self) -> bool {
        self.inode_changed || !self.changed.is_empty()
    }

    /// Changed blocks, placed or not.
    pub(crate) fn changed_count(&self) -> usize {
        self.changed.len()
    }

    /// The pointer to a block as of now. For a changed block, its place in the last committed tree.
    pub(crate) fn pointer(
        &self,
        cx: &mut LoadCx<'_>,
        level: u8,
        index: u64,
    ) -> Result<Pointer, Stop> {
        let levels = self.inode.levels;
        if level > levels || index >= Inode::reach(levels - level) {
            return Ok(Pointer::HOLE);
        }
        if let Some(changed) = self.changed.get((level, index)) {
            return Ok(changed.old);
        }
        let mut pointer = self.inode.root;
        let mut at = levels;
        while at > level {
            let above = index / Inode::reach(at - level);
            let slot = index / Inode::reach(at - 1 - level) % SPAN;
            pointer = if let Some(changed) = self.changed.get((at, above)) {
                Indirect(&changed.page).pointer(slot, self.layer)?
            } else if pointer.is_hole() {
                return Ok(Pointer::HOLE);
            } else {
                let found = self.pointer_below(cx, pointer, (at, above), slot);
                found.map_err(|stop| stop.at(self.place_of((at, above)), pointer))?
            };
            at -= 1;
        }
        Ok(pointer)
    }

    /// The pointer in a slot of the unchanged indirect block `position`, which `pointer` names.
    fn pointer_below(
        &self,
        cx: &mut LoadCx<'_>,
        pointer: Pointer,
        (level, index): Position,
        slot: u64,
    ) -> Result<Pointer, Stop> {
        let page = self.node(cx, (level, index), pointer)?;
        let kind = BlockKind::indirect(self.layer);
        Header::expect(&page, kind, level, self.inode.id, index)?;
        Ok(Indirect(&page).pointer(slot, self.layer)?)
    }

    /// A leaf as of now.
    pub(crate) fn leaf(&self, cx: &mut LoadCx<'_>, index: u64) -> Result<Leaf<'_>, Stop> {
        if let Some(changed) = self.changed.get((0, index)) {
            return Ok(Leaf::Changed(&changed.page));
        }
        let pointer = self.pointer(cx, 0, index)?;
        if pointer.is_hole() {
            Ok(Leaf::Hole)
        } else {
            let page = self.node(cx, (0, index), pointer);
            page.map(Leaf::Clean)
                .map_err(|stop| stop.at(self.place_of((0, index)), pointer))
        }
    }

    /// Requests blocks of a level that are needed soon, beside a block that must be waited for
    /// anyway. The later user of a block detects damage.
    pub(crate) fn want_ahead(&self, cx: &mut LoadCx<'_>, level: u8, indexes: Vec<u64>) {
        for index in indexes {
            if !self.changed.contains((level, index))
                && let Ok(pointer) = self.pointer(cx, level, index)
                && pointer.has_block()
            {
                drop(cx.page_or_damage(pointer));
            }
        }
    }

    /// Makes room for `blocks` leaves; never shrinks.
    pub(crate) fn grow(&mut self, blocks: u64) {
        let levels = Inode::levels_for(blocks);
        while self.inode.levels < levels {
            let below = (self.inode.levels, 0);
            self.inode.levels += 1;
            if !self.inode.root.is_hole() || self.changed.contains(below) {
                let mut page = Page::zeroed();
                IndirectMut(&mut page).set(0, self.layer, self.inode.root);
                let top = Changed {
                    page,
                    old: Pointer::HOLE,
                    new: None,
                };
                self.insert((self.inode.levels, 0), top);
                self.inode.root = Pointer::HOLE;
                self.inode.blocks += 1;
            }
            self.inode_changed = true;
        }
        if blocks > self.inode.block_count() {
            self.inode.size_bytes = blocks * BLOCK_SIZE as u64;
            self.inode_changed = true;
        }
    }

    /// Makes a block, and all above it, changed.
    pub(crate) fn modify(
        &mut self,
        cx: &mut LoadCx<'_>,
        level: u8,
        index: u64,
        content: Content,
    ) -> Result<&mut Page, Stop> {
        assert!(
            level <= self.inode.levels && index < Inode::reach(self.inode.levels - level),
            "block ({level}, {index}) is beyond the tree of {:?}",
            self.inode
        );
        if !self.changed.contains((level, index)) {
            let old = if level == self.inode.levels {
                self.inode.root
            } else {
                let (layer, slot) = (self.layer, index % SPAN);
                let above = self.modify(cx, level + 1, index / SPAN, Content::Keep)?;
                Indirect(above).pointer(slot, layer)?
            };
            let page = match content {
                Content::Keep if !old.is_hole() => self.copy_or_lose(cx, level, index, old)?,
                _ => Page::zeroed(),
            };
            let old = if old.is_lost() { Pointer::HOLE } else { old };
            if old.is_hole() {
                self.inode.blocks += 1;
            }
            self.insert(
                (level, index),
                Changed {
                    page,
                    old,
                    new: None,
                },
            );
        }
        let changed = self
            .changed
            .get_mut((level, index))
            .expect("inserted above");
        assert!(
            changed.new.is_none() || level > 0 || self.inode.kind == Kind::Metafile,
            "leaf {index} of {:?} changed after it was placed",
            self.inode.id
        );
        Ok(&mut changed.page)
    }

    /// Returns a copy of a block that is about to change. A LUN's indirect block that is damaged
    /// for good is replaced by a block with only lost pointers: its content cannot be recovered,
    /// and all other work must continue (docs/design/design.md §5). Never replaces a block while
    /// the whole device does not answer.
    fn copy_or_lose(
        &mut self,
        cx: &mut LoadCx<'_>,
        level: u8,
        index: u64,
        old: Pointer,
    ) -> Result<Page, Stop> {
        if let Some(page) = self.mended.remove(&(level, index)) {
            return Ok(Page::copy_of(&page));
        }
        let kind = BlockKind::indirect(self.layer);
        let found = cx.page_or_damage(old)?.and_then(|page| {
            let header = match level {
                0 => Ok(()),
                _ => Header::expect(&page, kind, level, self.inode.id, index).map(|_| ()),
            };
            header.map(|()| page).map_err(|damage| damage.to_string())
        });
        let reason = match found {
            Ok(page) => return Ok(Page::copy_of(&page)),
            Err(reason) => reason,
        };
        if level == 0 || self.inode.kind != Kind::Lun {
            return Err(Stop::damaged(reason).at(self.place_of((level, index)), old));
        }
        if !old.is_lost() {
            self.lost.push(Lost {
                level,
                index,
                reason,
            });
        }
        let mut page = Page::zeroed();
        let reach = Inode::reach(level - 1);
        let end = self.inode.block_count();
        for slot in 0..SPAN {
            if (index * SPAN + slot).saturating_mul(reach) < end {
                IndirectMut(&mut page).set(slot, self.layer, Pointer::LOST);
            }
        }
        Ok(page)
    }

    /// A block that was made changed before.
    pub(crate) fn changed_page(&mut self, level: u8, index: u64) -> Option<&mut Page> {
        self.changed
            .get_mut((level, index))
            .map(|changed| &mut changed.page)
    }

    /// Returns a changed block for reading.
    pub(crate) fn peek(&self, level: u8, index: u64) -> Option<&Page> {
        self.changed
            .get((level, index))
            .map(|changed| &changed.page)
    }

    /// Puts a pointer to a leaf into its level-1 block (or the root), which must be changed
    /// already. Returns the pointer that was there. Counts blocks.
    pub(crate) fn set_leaf(&mut self, index: u64, pointer: Pointer) -> Result<Pointer, Stop> {
        let old = if self.inode.levels == 0 {
            assert_eq!(index, 0, "{:?} has one leaf", self.inode.id);
            self.inode_changed = true;
            std::mem::replace(&mut self.inode.root, pointer)
        } else {
            let (layer, slot) = (self.layer, index % SPAN);
            let page = self
                .changed_page(1, index / SPAN)
                .expect("the caller made the block changed");
            let old = Indirect(page).pointer(slot, layer)?;
            IndirectMut(page).set(slot, layer, pointer);
            old
        };
        self.inode.blocks += u64::from(pointer.has_block());
        self.inode.blocks -= u64::from(old.has_block());
        Ok(old)
    }

    /// The pointer to a leaf whose level-1 block is changed.
    pub(crate) fn leaf_pointer(&self, index: u64) -> Result<Pointer, Stop> {
        let page = self
            .peek(1, index / SPAN)
            .expect("the caller made the block changed");
        Ok(Indirect(page).pointer(index % SPAN, self.layer)?)
    }

    /// Removes a changed leaf of a file whose tree has at least one level. Its old place, if it had
    /// one.
    pub(crate) fn remove_leaf(&mut self, index: u64) -> Pointer {
        let gone = self
            .changed
            .remove((0, index))
            .expect("only changed leaves are removed");
        assert!(gone.new.is_none(), "a leaf is removed after it was placed");
        self.inode.blocks -= 1;
        self.inode_changed = true;
        self.set_parent(0, index, Pointer::HOLE);
        gone.old
    }

    /// Removes an indirect block if nothing is left below it. Its old place, if it had one.
    pub(crate) fn remove_if_empty(&mut self, level: u8, index: u64) -> Option<Pointer> {
        assert!(level > 0, "leaves are punched");
        let changed = self.changed.get((level, index))?;
        let below = (level - 1, index * SPAN)..(level - 1, (index + 1) * SPAN);
        if changed.new.is_some()
            || !Indirect(&changed.page).is_empty()
            || self.changed.range(below).next().is_some()
        {
            return None;
        }
        let gone = self
            .changed
            .remove((level, index))
            .expect("looked up above");
        self.inode.blocks -= 1;
        self.inode_changed = true;
        self.set_parent(level, index, Pointer::HOLE);
        Some(gone.old)
    }

    /// Removes all indirect blocks with nothing below them. The old places of those that had one.
    pub(crate) fn prune(&mut self) -> Vec<Pointer> {
        let mut freed = Vec::new();
        for level in 1..=self.inode.levels {
            let these: Vec<u64> = self
                .changed
                .range((level, 0)..(level + 1, 0))
                .map(|(_, index)| index)
                .collect();
            for index in these {
                freed.extend(
                    self.remove_if_empty(level, index)
                        .filter(|old| !old.is_hole()),
                );
            }
        }
        freed
    }

    /// Every block of the tree, leaves and indirect ones, before any of it is changed.
    pub(crate) fn all_blocks(&self, cx: &mut LoadCx<'_>) -> Result<Vec<Pointer>, Stop> {
        assert!(
            self.changed.is_empty(),
            "blocks of {:?} are listed before it is changed",
            self.inode.id
        );
        let (mut blocks, mut gather) = (Vec::new(), Gather::default());
        let see = |pointer| {
            blocks.push(pointer);
            true
        };
        Root::of(&self.inode).each_block(
            self.layer,
            &mut gather,
            |position| self.place_of(position),
            |position, pointer| self.node(cx, position, pointer),
            see,
        )?;
        gather.finish()?;
        Ok(blocks)
    }

    /// Forgets the tree after its blocks were taken over ([`File::all_blocks`]).
    pub(crate) fn reset(&mut self) {
        assert!(
            self.changed.is_empty(),
            "{:?} is reset before it is changed",
            self.inode.id
        );
        self.mended.clear();
        self.inode.root = Pointer::HOLE;
        (self.inode.levels, self.inode.size_bytes, self.inode.blocks) = (0, 0, 0);
        self.inode_changed = true;
    }

    fn insert(&mut self, position: Position, changed: Changed) {
        self.unplaced_from = self.unplaced_from.min(position);
        self.changed.insert(position, changed);
    }

    /// Changed blocks without a place, ascending.
    pub(crate) fn unplaced(&self) -> impl Iterator<Item = Position> {
        let rest = self.changed.iter_from(self.unplaced_from);
        rest.filter(|(_, c)| c.new.is_none())
            .map(|(position, _)| position)
    }

    /// Gives a changed block its place. Returns the old one.
    pub(crate) fn place(&mut self, position: Position, new: Pointer) -> Pointer {
        let changed = self
            .changed
            .get_mut(position)
            .expect("only changed blocks are placed");
        assert!(
            changed.new.is_none(),
            "{position:?} of {:?} is placed twice",
            self.inode.id
        );
        changed.new = Some(new);
        let old = changed.old;
        // Most blocks are placed in order, so blocks that have places are not checked again.
        let is_first = self.unplaced_from <= position
            && self
                .changed
                .range(self.unplaced_from..position)
                .next()
                .is_none();
        if is_first {
            self.unplaced_from = (position.0, position.1 + 1);
        }
        old
    }

    /// Old place of a changed block.
    pub(crate) fn old_place(&self, position: Position) -> Pointer {
        self.changed
            .get(position)
            .expect("only changed blocks are asked for")
            .old
    }

    /// Changed blocks in the order in which they are sealed.
    pub(crate) fn first_changed(&self) -> Option<Position> {
        self.changed.first()
    }

    /// Finishes a placed block: header, tag, pointer in its parent. It is no longer changed. All
    /// changed blocks below it must be sealed already.
    pub(crate) fn seal(
        &mut self,
        position: Position,
        cp: CpNumber,
        key: &TagKey,
    ) -> (Pointer, PageRef) {
        let (level, index) = position;
        let Changed { mut page, new, .. } = self
            .changed
            .remove(position)
            .expect("only changed blocks are sealed");
        let mut pointer = new.expect("a block is sealed after it was placed");
        pointer.tag = match self.header_kind(level) {
            Some(kind) => seal_headed(&mut page, kind, (self.inode.id, position), cp, key),
            None => key.tag(&page),
        };
        self.set_parent(level, index, pointer);
        (pointer, page.freeze())
    }

    /// Moves an indirect block that is changed and has no place out of the file, to a cleaner, with
    /// its old place. [`File::put_in`] returns the block before any other use of the file.
    pub(crate) fn take_out(&mut self, position: Position) -> (Page, Pointer) {
        assert!(position.0 > 0, "cleaners get indirect blocks");
        let changed = self.changed.remove(position);
        let Changed { page, old, new } = changed.expect("the caller made the block changed");
        assert!(
            new.is_none(),
            "{position:?} of {:?} is cleaned after it was placed",
            self.inode.id
        );
        (page, old)
    }

    /// Records a cleaner's result for a block: the pointer of the sealed block, or none if no leaf
    /// is left below it.
    pub(crate) fn put_in(&mut self, (level, index): Position, pointer: Option<Pointer>) {
        self.inode_changed = true;
        if pointer.is_none() {
            self.inode.blocks -= 1;
        }
        self.set_parent(level, index, pointer.unwrap_or(Pointer::HOLE));
    }

    fn set_parent(&mut self, level: u8, index: u64, pointer: Pointer) {
        if level == self.inode.levels {
            self.inode.root = pointer;
            self.inode_changed = true;
        } else {
            let layer = self.layer;
            let above = self
                .changed_page(level + 1, index / SPAN)
                .expect("ancestors are changed too");
            IndirectMut(above).set(index % SPAN, layer, pointer);
        }
    }

    fn header_kind(&self, level: u8) -> Option<BlockKind> {
        if level > 0 {
            return Some(BlockKind::indirect(self.layer));
        }
        let id = self.inode.id;
        match METAFILES
            .iter()
            .find(|metafile| metafile.id == id)
            .map(|metafile| metafile.leaf)
        {
            Some(metafile::Leaf::Headed) if id == TOP_AREAS => Some(BlockKind::TopAreas),
            Some(metafile::Leaf::Headed) if id == NOTES => Some(BlockKind::Notes),
            Some(metafile::Leaf::Headed) => Some(BlockKind::Directory),
            None if id == metafile::INODE_FILE => Some(BlockKind::Inodes),
            None if self.inode.kind == Kind::Snapshots => Some(BlockKind::Snapshots),
            None if self.inode.kind == Kind::Release => Some(BlockKind::Releases),
            _ => None,
        }
    }

    /// The file's id.
    pub(crate) fn id(&self) -> FileId {
        self.inode.id
    }
}

/// Finishes an indirect block whose slots are complete. Returns its tag.
pub(crate) fn seal_indirect(
    page: &mut Page,
    layer: Layer,
    place: (FileId, Position),
    cp: CpNumber,
    key: &TagKey,
) -> Tag {
    seal_headed(page, BlockKind::indirect(layer), place, cp, key)
}

fn seal_headed(
    page: &mut Page,
    kind: BlockKind,
    (file, (level, index)): (FileId, Position),
    cp: CpNumber,
    key: &TagKey,
) -> Tag {
    let index = u32::try_from(index).expect("a tree has fewer than 2^32 blocks with headers");
    let header = Header {
        kind,
        level,
        cp,
        file,
        index,
    };
    header.encode(page);
    key.tag(page)
}

impl File {
    /// Old places of a changed block and of all its ancestors.
    pub(crate) fn path(&self, level: u8, index: u64) -> impl Iterator<Item = Pointer> + '_ {
        (level..=self.inode.levels).map(move |at| {
            let above = index / Inode::reach(at - level);
            self.changed
                .get((at, above))
                .expect("ancestors of a changed block are changed")
                .old
        })
    }

    /// Blocks that the tree has beyond the file's end, at least; one if that cannot be told from
    /// their number.
    pub(crate) fn blocks_beyond_least(&self) -> u64 {
        let mut row = self.inode.block_count();
        let mut kept_most = row;
        for _ in 0..self.inode.levels {
            row = row.div_ceil(SPAN);
            kept_most += row;
        }
        self.inode.blocks.saturating_sub(kept_most).max(1)
    }

    /// Index of the last level-1 block of a file that has at least one level. Only for files that
    /// do not grow.
    pub(crate) fn last_region(&self, cx: &mut LoadCx<'_>) -> Result<Option<u64>, Stop> {
        let (mut level, mut index) = (self.inode.levels, 0);
        assert!(level > 0, "{:?} has no level-1 blocks", self.inode.id);
        if self.inode.root.is_hole() && !self.changed.contains((level, 0)) {
            return Ok(None);
        }
        while level > 1 {
            let last = match self.changed.get((level, index)) {
                Some(changed) => {
                    let on_media = Indirect(&changed.page).last_used(SPAN);
                    let below = (level - 1, index * SPAN)..(level - 1, (index + 1) * SPAN);
                    let new = self.changed.range(below).next_back().map(|(_, i)| i % SPAN);
                    on_media.max(new)
                }
                None => {
                    let pointer = self.pointer(cx, level, index)?;
                    match cx.page_or_damage(pointer)? {
                        Ok(page) => Indirect(&page).last_used(SPAN),
                        // A change below would make the block lost; the whole block is walked.
                        Err(_) => {
                            let end = match self.inode.is_cut {
                                // The range is everything beyond the end.
                                true => u64::MAX,
                                false => self.inode.block_count().div_ceil(SPAN).max(1),
                            };
                            let reach = Inode::reach(level - 1);
                            return Ok(Some(((index + 1) * reach).min(end) - 1));
                        }
                    }
                }
            };
            let Some(slot) = last else {
                let text = format!(
                    "an indirect block of file {} points at nothing",
                    self.inode.id
                );
                return Err(Stop::damaged(text));
            };
            (level, index) = (level - 1, index * SPAN + slot);
        }
        Ok(Some(index))
    }
}
