//! Following pointers from a committed root: to one block, to the next one there is, through all
//! of them, and through two trees at once.
//!
//! | walk | for |
//! | --- | --- |
//! | [`Root::pointer`], [`Root::level1`] | a block whose place is known |
//! | [`Root::next_mapped`], [`Root::next_checked`] | the next block that is no hole |
//! | [`Root::each_block`] | everything that a tree consists of |
//! | [`Root::next_different`], [`Pair`] | what two trees do not share |

use everglade_env::PageRef;
use everglade_format::indirect::BlockKind;
use everglade_format::{FileId, Header, Indirect, Inode, Layer, Pointer, SPAN};

use crate::read::load::{BlockName, Gather, LoadCx, Stop};
use crate::read::root::Root;

impl Root {
    pub(crate) fn of(inode: &Inode) -> Root {
        Root {
            pointer: inode.root,
            levels: inode.levels,
        }
    }

    /// The pointer to block `index` of `level`; lost if anything above it is.
    pub(crate) fn pointer(
        self,
        cx: &mut LoadCx<'_>,
        layer: Layer,
        level: u8,
        index: u64,
    ) -> Result<Pointer, Stop> {
        self.descend(cx, layer, level, index)
            .map_err(|stopped| stopped.stop)
    }

    fn descend(
        self,
        cx: &mut LoadCx<'_>,
        layer: Layer,
        level: u8,
        index: u64,
    ) -> Result<Pointer, Stopped> {
        if level > self.levels || index >= Inode::reach(self.levels - level) {
            return Ok(Pointer::HOLE);
        }
        let mut pointer = self.pointer;
        let mut at = self.levels;
        while at > level && pointer.has_block() {
            let stopped = |stop| Stopped { level: at, stop };
            let page = cx.page(pointer).map_err(stopped)?;
            let slot = index / Inode::reach(at - 1 - level) % SPAN;
            let below = Indirect(&page).pointer(slot, layer);
            pointer = below.map_err(|damage| stopped(damage.into()))?;
            at -= 1;
        }
        Ok(pointer)
    }

    /// The level-1 block that points at leaves `index × 255 …`, or nothing if they are all holes. A
    /// file of one leaf has no such block; its only leaf is returned by [`Root::pointer`].
    pub(crate) fn level1(
        self,
        cx: &mut LoadCx<'_>,
        layer: Layer,
        index: u64,
    ) -> Result<Option<PageRef>, Stop> {
        self.find_level1(cx, layer, index)
            .map_err(|stopped| stopped.stop)
    }

    /// Like [`Self::level1`], for callers that say which block could not be read.
    pub(crate) fn find_level1(
        self,
        cx: &mut LoadCx<'_>,
        layer: Layer,
        index: u64,
    ) -> Result<Option<PageRef>, Stopped> {
        let pointer = self.descend(cx, layer, 1, index)?;
        if pointer.is_hole() {
            return Ok(None);
        }
        let page = cx.page(pointer);
        page.map(Some).map_err(|stop| Stopped { level: 1, stop })
    }

    /// Returns the first block of `level` at or after `index` that is not a hole. Every position
    /// below a lost block counts, so that its reader gets the error.
    pub(crate) fn next_mapped(
        self,
        cx: &mut LoadCx<'_>,
        layer: Layer,
        level: u8,
        index: u64,
    ) -> Result<Option<u64>, Stop> {
        if level > self.levels {
            return Ok((index == 0 && !self.pointer.is_hole()).then_some(0));
        }
        let search = Search {
            layer,
            checked: None,
            level,
            index,
        };
        let found = search.below(cx, (self.levels, 0), self.pointer)?;
        Ok(found.map(|(found, _)| found))
    }

    /// Like [`Self::next_mapped`] for a level that the tree of `file` has, and returns the pointer
    /// too. Every block on the way must name the file as its owner, and a lost block is damage.
    pub(crate) fn next_checked(
        self,
        cx: &mut LoadCx<'_>,
        layer: Layer,
        file: FileId,
        level: u8,
        index: u64,
    ) -> Result<Option<(u64, Pointer)>, Stop> {
        assert!(level <= self.levels, "level {level} of {}", self.levels);
        let search = Search {
            layer,
            checked: Some(file),
            level,
            index,
        };
        search.below(cx, (self.levels, 0), self.pointer)
    }

    /// Returns the first block of `level` at or after `index` that differs from another tree of the
    /// same file system, according to the pointers. Shared subtrees are not read.
    pub(crate) fn next_different(
        self,
        other: Root,
        cx: &mut LoadCx<'_>,
        layer: Layer,
        level: u8,
        index: u64,
    ) -> Result<Option<u64>, Stop> {
        let pair = Pair::of(self, other, level);
        differs_below(cx, layer, pair, (level, index))
    }

    /// Goes through all blocks of the tree, level by level from the root. `see` gets each, and says
    /// whether what is below it is to be seen, too; `read` loads a node, and `name_of` says what it
    /// is called. What is missing is gathered; then not all was seen.
    pub(crate) fn each_block(
        self,
        layer: Layer,
        gather: &mut Gather,
        name_of: impl Fn((u8, u64)) -> BlockName,
        mut read: impl FnMut((u8, u64), Pointer) -> Result<PageRef, Stop>,
        mut see: impl FnMut(Pointer) -> bool,
    ) -> Result<(), Stop> {
        let mut row = vec![(0, self.pointer)];
        for level in (0..=self.levels).rev() {
            let mut below = Vec::new();
            for (index, pointer) in row {
                if pointer.is_hole() || !see(pointer) || level == 0 {
                    continue;
                }
                let at = |stop: Stop| stop.at(name_of((level, index)), pointer);
                let page = read((level, index), pointer).map_err(at);
                let Some(page) = gather.add(page) else {
                    continue;
                };
                for slot in 0..SPAN {
                    let child = Indirect(&page).pointer(slot, layer);
                    let child = child.map_err(|damage| at(damage.into()))?;
                    if !child.is_hole() {
                        below.push((index * SPAN + slot, child));
                    }
                }
            }
            row = below;
        }
        Ok(())
    }
}

/// A walk to a block that stopped on the way.
pub(crate) struct Stopped {
    /// Level of the block at which it stopped.
    pub(crate) level: u8,
    pub(crate) stop: Stop,
}

/// A search for a block of `level` that is not a hole, at or after `index`.
struct Search {
    layer: Layer,
    /// The file that every block on the way must be of, if that is not taken for granted.
    checked: Option<FileId>,
    level: u8,
    index: u64,
}

impl Search {
    /// Searches the subtree of a block.
    fn below(
        &self,
        cx: &mut LoadCx<'_>,
        (at, number): (u8, u64),
        pointer: Pointer,
    ) -> Result<Option<(u64, Pointer)>, Stop> {
        if pointer.is_hole() {
            return Ok(None);
        }
        if at == self.level {
            return Ok((number >= self.index).then_some((number, pointer)));
        }
        if pointer.is_lost() && self.checked.is_none() {
            // All positions below the block match, and one exists.
            let next = first_below((at, number), (self.level, self.index));
            return Ok(next.map(|next| (next, pointer)));
        }
        let page = cx.page(pointer)?;
        if let Some(file) = self.checked {
            Header::expect(&page, BlockKind::indirect(self.layer), at, file, number)?;
        }
        let reach = Inode::reach(at - 1 - self.level);
        let first_child = number * SPAN;
        let mut slot = (self.index / reach).saturating_sub(first_child);
        while slot < SPAN
            && let Some(used) = Indirect(&page).next_used(slot)
        {
            let child = Indirect(&page).pointer(used, self.layer)?;
            let found = self.below(cx, (at - 1, first_child + used), child)?;
            if found.is_some() {
                return Ok(found);
            }
            slot = used + 1;
        }
        Ok(None)
    }
}

/// The first block of `level`, not before `index`, in the subtree of block (`at`, `number`).
fn first_below((at, number): (u8, u64), (level, index): (u8, u64)) -> Option<u64> {
    let reach = Inode::reach(at - level);
    let next = index.max(number.saturating_mul(reach));
    (next / reach == number).then_some(next)
}

/// A block at a place of a tree. Where the tree is less high than the place, it is the root, which
/// is further down; or nothing.
#[derive(Clone, Copy)]
pub(crate) struct Node {
    /// Level of the block.
    level: u8,
    pub(crate) pointer: Pointer,
}

impl Node {
    const NONE: Node = Node {
        level: 0,
        pointer: Pointer::HOLE,
    };

    /// The block, if it is at this level.
    pub(crate) fn at(self, level: u8) -> Option<Pointer> {
        (self.level == level && self.pointer.has_block()).then_some(self.pointer)
    }

    /// Returns the pointer in a slot below a place of `level`; `page` is the block at that place,
    /// if it exists.
    fn child(
        self,
        level: u8,
        slot: u64,
        page: Option<&PageRef>,
        layer: Layer,
    ) -> Result<Node, Stop> {
        if self.level < level {
            return Ok(if slot == 0 { self } else { Node::NONE });
        }
        let pointer = match page {
            Some(page) => Indirect(page).pointer(slot, layer)?,
            None => Pointer::HOLE,
        };
        let level = level - 1;
        Ok(Node { level, pointer })
    }
}

/// A place, and its pointers in two trees.
#[derive(Clone, Copy)]
pub(crate) struct Pair {
    pub(crate) level: u8,
    pub(crate) index: u64,
    pub(crate) nodes: [Node; 2],
}

impl Pair {
    /// The top of two trees, at `level` at least.
    pub(crate) fn of(one: Root, other: Root, level: u8) -> Pair {
        let node = |root: Root| Node {
            level: root.levels,
            pointer: root.pointer,
        };
        Pair {
            level: one.levels.max(other.levels).max(level),
            index: 0,
            nodes: [node(one), node(other)],
        }
    }

    /// Both are the same, all the way down.
    pub(crate) fn is_same(&self) -> bool {
        let [one, other] = self.nodes;
        let (a, b) = (one.pointer, other.pointer);
        // Vvbns are written once, so the same one is the same content.
        let is_shared = one.level == other.level && (a.vvbn, a.tag) == (b.vvbn, b.tag);
        a.is_hole() && b.is_hole() || is_shared && !a.is_lost()
    }

    /// The blocks, where the trees have them.
    pub(crate) fn blocks(&self) -> [Option<Pointer>; 2] {
        self.nodes.map(|node| node.at(self.level))
    }

    /// The place in a slot below. `pages` are the blocks.
    pub(crate) fn child(
        &self,
        slot: u64,
        pages: [Option<&PageRef>; 2],
        layer: Layer,
    ) -> Result<Pair, Stop> {
        let ([one, other], level) = (self.nodes, self.level);
        let nodes = [
            one.child(level, slot, pages[0], layer)?,
            other.child(level, slot, pages[1], layer)?,
        ];
        Ok(Pair {
            level: level - 1,
            index: self.index * SPAN + slot,
            nodes,
        })
    }
}

/// Searches below a pair for a block of `level` that differs, and is not before `index`.
fn differs_below(
    cx: &mut LoadCx<'_>,
    layer: Layer,
    pair: Pair,
    (level, index): (u8, u64),
) -> Result<Option<u64>, Stop> {
    if pair.is_same() {
        return Ok(None);
    }
    let (at, number) = (pair.level, pair.index);
    if at == level {
        return Ok((number >= index).then_some(number));
    }
    if pair.nodes.iter().any(|node| node.pointer.is_lost()) {
        return Ok(first_below((at, number), (level, index)));
    }
    let [one, other] = pair.blocks();
    let one = one.map(|pointer| cx.page(pointer)).transpose()?;
    let other = other.map(|pointer| cx.page(pointer)).transpose()?;
    let reach = Inode::reach(at - 1 - level);
    let first = (index / reach).saturating_sub(number * SPAN);
    for slot in first..SPAN {
        let child = pair.child(slot, [one.as_ref(), other.as_ref()], layer)?;
        let found = differs_below(cx, layer, child, (level, index))?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::fixture::Shelf;

    const FILE: FileId = FileId(9);
    const LAYER: Layer = Layer::Volume;

    /// A tree of two levels with leaves in the first level-1 block and in the third.
    fn two_levels(shelf: &mut Shelf) -> (Root, [Pointer; 3]) {
        let leaves = [1, 2, 3].map(|byte| shelf.put_bytes(byte));
        let first = shelf.put_indirect(FILE, (1, 0), &[(0, leaves[0]), (7, leaves[1])]);
        let third = shelf.put_indirect(FILE, (1, 2), &[(5, leaves[2])]);
        let pointer = shelf.put_indirect(FILE, (2, 0), &[(0, first), (2, third)]);
        (Root { pointer, levels: 2 }, leaves)
    }

    fn found<R>(shelf: &Shelf, run: impl FnOnce(&mut LoadCx<'_>) -> Result<R, Stop>) -> R {
        let (outcome, wants) = shelf.load(run);
        assert_eq!(wants, [], "all is in memory");
        outcome.unwrap_or_else(|stop| panic!("{stop:?}"))
    }

    #[test]
    fn a_leaf_is_found_by_its_number_and_holes_are_holes() {
        let mut shelf = Shelf::new();
        let (root, leaves) = two_levels(&mut shelf);
        let leaf = |index| found(&shelf, |cx| root.pointer(cx, LAYER, 0, index));
        assert_eq!(leaf(0), leaves[0]);
        assert_eq!(leaf(7), leaves[1]);
        assert_eq!(leaf(2 * SPAN + 5), leaves[2]);
        assert!(leaf(1).is_hole());
        assert!(leaf(SPAN).is_hole(), "its level-1 block is a hole");
        assert!(leaf(SPAN * SPAN).is_hole(), "beyond the tree");
    }

    #[test]
    fn the_next_mapped_block_skips_holes_on_every_level() {
        let mut shelf = Shelf::new();
        let (root, _) = two_levels(&mut shelf);
        let next = |level, index| found(&shelf, |cx| root.next_mapped(cx, LAYER, level, index));
        assert_eq!(next(0, 0), Some(0));
        assert_eq!(next(0, 1), Some(7));
        assert_eq!(next(0, 8), Some(2 * SPAN + 5));
        assert_eq!(next(0, 2 * SPAN + 6), None);
        assert_eq!(next(1, 1), Some(2));
        assert_eq!(next(1, 3), None);
    }

    #[test]
    fn a_missing_page_is_asked_for_and_nothing_else() {
        let mut shelf = Shelf::new();
        let absent = shelf.vacant();
        let pointer = shelf.put_indirect(FILE, (2, 0), &[(4, absent)]);
        let root = Root { pointer, levels: 2 };
        let (outcome, wants) = shelf.load(|cx| root.pointer(cx, LAYER, 0, 4 * SPAN));
        assert!(matches!(outcome, Err(Stop::Load)));
        assert_eq!(wants, [absent]);
    }

    #[test]
    fn a_walk_that_stops_tells_at_which_level() {
        let mut shelf = Shelf::new();
        let absent = shelf.vacant();
        let middle = shelf.put_indirect(FILE, (2, 0), &[(4, absent)]);
        let pointer = shelf.put_indirect(FILE, (3, 0), &[(0, middle), (1, absent)]);
        let root = Root { pointer, levels: 3 };
        let level = |index| {
            let (outcome, _) = shelf.load(|cx| root.find_level1(cx, LAYER, index));
            outcome.err().map(|stopped| stopped.level)
        };
        assert_eq!(level(4), Some(1));
        assert_eq!(level(SPAN), Some(2));
        assert_eq!(level(0), None, "a hole");
    }

    #[test]
    fn below_what_is_lost_everything_counts_as_mapped_unless_it_is_checked() {
        let mut shelf = Shelf::new();
        let leaf = shelf.put_bytes(1);
        let first = shelf.put_indirect(FILE, (1, 0), &[(7, leaf)]);
        let slots = [(0, first), (2, Pointer::LOST)];
        let pointer = shelf.put_indirect(FILE, (2, 0), &slots);
        let root = Root { pointer, levels: 2 };
        let next = |index| found(&shelf, |cx| root.next_mapped(cx, LAYER, 0, index));
        assert_eq!(next(8), Some(2 * SPAN));
        assert_eq!(next(2 * SPAN + 9), Some(2 * SPAN + 9));
        assert_eq!(next(3 * SPAN), None);
        let checked = |index| {
            shelf
                .load(|cx| root.next_checked(cx, LAYER, FILE, 0, index))
                .0
        };
        assert_eq!(checked(0).expect("whole so far"), Some((7, leaf)));
        assert!(matches!(checked(8), Err(Stop::Damaged(_))));
    }

    #[test]
    fn a_checked_search_refuses_blocks_of_another_file() {
        let mut shelf = Shelf::new();
        let (root, _) = two_levels(&mut shelf);
        let next = |file| shelf.load(|cx| root.next_checked(cx, LAYER, file, 1, 1)).0;
        let (region, _) = next(FILE).expect("its own").expect("there is one");
        assert_eq!(region, 2);
        assert!(matches!(next(FileId(10)), Err(Stop::Damaged(_))));
    }

    /// Returns the visited blocks of a tree, and the requested pages.
    fn seen(shelf: &Shelf, root: Root, skipped: Pointer) -> (Vec<Pointer>, Vec<Pointer>) {
        let name_of = |(level, index)| BlockName {
            volume: None,
            file: FILE,
            level,
            index,
        };
        let mut seen = Vec::new();
        let (outcome, wants) = shelf.load(|cx| {
            let mut gather = Gather::default();
            let read = |_, pointer| cx.page(pointer);
            let see = |pointer| {
                seen.push(pointer);
                pointer != skipped
            };
            root.each_block(LAYER, &mut gather, name_of, read, see)?;
            gather.finish()
        });
        assert_eq!(outcome.is_ok(), wants.is_empty());
        (seen, wants)
    }

    #[test]
    fn all_blocks_of_a_tree_are_seen_level_by_level_but_not_below_what_is_skipped() {
        let mut shelf = Shelf::new();
        let (root, leaves) = two_levels(&mut shelf);
        let (all, _) = seen(&shelf, root, Pointer::HOLE);
        assert_eq!(all[0], root.pointer);
        let [first, third] = [all[1], all[2]];
        assert_eq!(all, [&[root.pointer, first, third], &leaves[..]].concat());
        let (some, _) = seen(&shelf, root, first);
        assert_eq!(some, [root.pointer, first, third, leaves[2]]);
        let (none, _) = seen(&shelf, Root::EMPTY, Pointer::HOLE);
        assert_eq!(none, []);
    }

    #[test]
    fn all_that_is_missing_of_a_level_is_asked_for_at_once() {
        let mut shelf = Shelf::new();
        let absent = [shelf.vacant(), shelf.vacant()];
        let slots = [(0, absent[0]), (9, absent[1])];
        let pointer = shelf.put_indirect(FILE, (2, 0), &slots);
        let root = Root { pointer, levels: 2 };
        let (_, wants) = seen(&shelf, root, Pointer::HOLE);
        assert_eq!(wants, absent);
    }

    #[test]
    fn a_subtree_that_two_trees_share_is_not_looked_into() {
        let mut shelf = Shelf::new();
        let shared = shelf.vacant();
        let leaves = [1, 2].map(|byte| shelf.put_bytes(byte));
        let ones = leaves.map(|leaf| shelf.put_indirect(FILE, (1, 1), &[(3, leaf)]));
        let roots = ones.map(|one| Root {
            pointer: shelf.put_indirect(FILE, (2, 0), &[(0, shared), (1, one)]),
            levels: 2,
        });
        let next = |index| {
            let [one, other] = roots;
            found(&shelf, |cx| one.next_different(other, cx, LAYER, 0, index))
        };
        assert_eq!(next(0), Some(SPAN + 3));
        assert_eq!(next(SPAN + 4), None);
    }

    #[test]
    fn trees_of_different_heights_are_compared_leaf_by_leaf() {
        let mut shelf = Shelf::new();
        let leaf = shelf.put_bytes(1);
        let one = shelf.put_indirect(FILE, (1, 0), &[(3, leaf)]);
        let low = Root {
            pointer: one,
            levels: 1,
        };
        let high = Root {
            pointer: shelf.put_indirect(FILE, (2, 0), &[(0, one)]),
            levels: 2,
        };
        let different = found(&shelf, |cx| low.next_different(high, cx, LAYER, 0, 0));
        assert_eq!(different, None);
        let other = shelf.put_bytes(2);
        let one = shelf.put_indirect(FILE, (1, 1), &[(0, other)]);
        let high = Root {
            pointer: shelf.put_indirect(FILE, (2, 0), &[(0, low.pointer), (1, one)]),
            levels: 2,
        };
        let different = found(&shelf, |cx| low.next_different(high, cx, LAYER, 0, 0));
        assert_eq!(different, Some(SPAN));
    }
}
