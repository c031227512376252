//! Following pointers from a committed root.

use everglade_env::PageRef;
use everglade_format::{Indirect, Inode, Layer, Pointer, SPAN};

use crate::read::load::{LoadCx, Stop};
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
        if level > self.levels || index >= Inode::reach(self.levels - level) {
            return Ok(Pointer::HOLE);
        }
        let mut pointer = self.pointer;
        let mut at = self.levels;
        while at > level && pointer.has_block() {
            let page = cx.page(pointer)?;
            at -= 1;
            let slot = index / Inode::reach(at - level) % SPAN;
            pointer = Indirect(&page).pointer(slot, layer)?;
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
        let pointer = self.pointer(cx, layer, 1, index)?;
        if pointer.is_hole() {
            Ok(None)
        } else {
            cx.page(pointer).map(Some)
        }
    }

    /// The first block of `level` at or after `index` that is not a hole.
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
        next_below(cx, layer, self.pointer, self.levels, 0, level, index)
    }
}

/// A block of a tree, or a place above the root of one that has fewer levels than another.
#[derive(Clone, Copy)]
struct Node {
    pointer: Pointer,
    /// Levels above the root.
    above: u8,
}

impl Node {
    fn is_same(self, other: Node) -> bool {
        let (a, b) = (self.pointer, other.pointer);
        // Vvbns are written once, so the same one is the same content, all the way down.
        a.is_hole() && b.is_hole() || self.above == other.above && a.vvbn == b.vvbn && !a.is_lost()
    }

    /// The node below in `slot`.
    fn child(self, page: Option<&PageRef>, slot: u64, layer: Layer) -> Result<Node, Stop> {
        let pointer = match (self.above, page) {
            (0, Some(page)) => Indirect(page).pointer(slot, layer)?,
            (0, None) => Pointer::HOLE,
            _ if slot == 0 => self.pointer,
            _ => Pointer::HOLE,
        };
        let above = self.above.saturating_sub(1);
        Ok(Node { pointer, above })
    }

    fn page(self, cx: &mut LoadCx<'_>) -> Result<Option<PageRef>, Stop> {
        match self.above == 0 && self.pointer.has_block() {
            true => cx.page(self.pointer).map(Some),
            false => Ok(None),
        }
    }
}

impl Root {
    /// The first block of `level` at or after `index` that is not the same in another tree of the
    /// same file system, as far as pointers tell. Subtrees that are shared are not looked into.
    pub(crate) fn next_different(
        self,
        other: Root,
        cx: &mut LoadCx<'_>,
        layer: Layer,
        level: u8,
        index: u64,
    ) -> Result<Option<u64>, Stop> {
        let top = self.levels.max(other.levels).max(level);
        let node = |root: Root| Node {
            pointer: root.pointer,
            above: top - root.levels,
        };
        differs_below(
            cx,
            layer,
            (node(self), node(other)),
            (top, 0),
            (level, index),
        )
    }
}

fn differs_below(
    cx: &mut LoadCx<'_>,
    layer: Layer,
    (one, other): (Node, Node),
    (at, number): (u8, u64),
    (level, index): (u8, u64),
) -> Result<Option<u64>, Stop> {
    if one.is_same(other) {
        return Ok(None);
    }
    if at == level {
        return Ok((number >= index).then_some(number));
    }
    let reach = Inode::reach(at - 1 - level);
    if one.pointer.is_lost() || other.pointer.is_lost() {
        let below = Inode::reach(at - level);
        let next = index.max(number.saturating_mul(below));
        return Ok((next / below == number).then_some(next));
    }
    let pages = (one.page(cx)?, other.page(cx)?);
    let first_child = number * SPAN;
    let first = (index / reach).saturating_sub(first_child);
    for slot in first..SPAN {
        let pair = (
            one.child(pages.0.as_ref(), slot, layer)?,
            other.child(pages.1.as_ref(), slot, layer)?,
        );
        let found = differs_below(
            cx,
            layer,
            pair,
            (at - 1, first_child + slot),
            (level, index),
        )?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// Searches the subtree of block (`at`, `number`) for a mapped block of `level` not before `index`.
fn next_below(
    cx: &mut LoadCx<'_>,
    layer: Layer,
    pointer: Pointer,
    at: u8,
    number: u64,
    level: u8,
    index: u64,
) -> Result<Option<u64>, Stop> {
    if pointer.is_hole() {
        return Ok(None);
    }
    if at == level {
        return Ok((number >= index).then_some(number));
    }
    if pointer.is_lost() {
        // All below it is, and something.
        let reach = Inode::reach(at - level);
        let next = index.max(number.saturating_mul(reach));
        return Ok((next / reach == number).then_some(next));
    }
    let page = cx.page(pointer)?;
    let reach = Inode::reach(at - 1 - level);
    let first_child = number * SPAN;
    let mut slot = (index / reach).saturating_sub(first_child);
    while slot < SPAN {
        let Some(used) = Indirect(&page).next_used(slot) else {
            break;
        };
        let child = Indirect(&page).pointer(used, layer)?;
        let found = next_below(cx, layer, child, at - 1, first_child + used, level, index)?;
        if found.is_some() {
            return Ok(found);
        }
        slot = used + 1;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use everglade_format::FileId;

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
