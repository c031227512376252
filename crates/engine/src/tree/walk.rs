//! Following pointers from a committed root.

use everglade_env::PageRef;
use everglade_format::{Indirect, Inode, Layer, Pointer, SPAN};

use crate::load::{LoadCx, Stop};

/// Where a committed tree begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Root {
    pub(crate) pointer: Pointer,
    pub(crate) levels: u8,
}

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
