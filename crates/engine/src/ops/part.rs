//! Parts of blocks: a write of some bytes of a block whose other bytes may not be in memory
//! (docs/design/design.md §5).
//!
//! Load phase: the present content of the block, if it is in memory ([`Base`]). Modify phase: bytes
//! and content are merged, or the bytes stay as a fragment. A new fragment is merged in the
//! background ([`merge`]), so that the consistency point seldom finds one.

use std::ops::Range;

use everglade_env::{Page, PageRef};
use everglade_format::CpNumber;

use crate::ops::{OpCx, Origin, content, find_in_active, leave};
use crate::pool::fragment::{Fragment, Grown};
use crate::pool::overlay::{Change, LeafContent};
use crate::pool::volume::{Lun, STRIPE_BLOCKS};
use crate::read::load::Stop;

/// The known content of a block that is written in part.
pub(crate) enum Base {
    /// Its content; nothing for a hole.
    Known(Option<PageRef>),
    /// The content is not in memory and would have to be read.
    Unknown,
}

/// Load phase. What is replayed was accepted before, and is not refused now: the cleaner decides
/// what becomes of a part of a block that cannot be read.
pub(crate) fn base(
    cx: &mut OpCx<'_, '_>,
    lun: &Lun,
    origin: Origin,
    leaf: u64,
) -> Result<Base, Stop> {
    let before = cx.load.wants.len();
    match content(cx, lun, leaf) {
        Ok(base) => Ok(Base::Known(base)),
        Err(Stop::Load) => {
            cx.load.wants.truncate(before);
            Ok(Base::Unknown)
        }
        Err(Stop::Damaged(_) | Stop::Failed(_)) if matches!(origin, Origin::Replay(_)) => {
            Ok(Base::Unknown)
        }
        Err(stop) => Err(stop),
    }
}

/// Modify phase: bytes `range` of `page` over the block. Returns the page that has them, for the
/// journal, and whether a merge should begin.
pub(crate) fn write(
    cx: &OpCx<'_, '_>,
    lun: &Lun,
    cp: CpNumber,
    leaf: u64,
    (page, range): (Page, Range<usize>),
    base: Base,
) -> (PageRef, bool) {
    if let Base::Known(base) = base {
        let base = base.unwrap_or_else(PageRef::zero);
        let mut merged = Page::copy_of(&base);
        merged[range.clone()].copy_from_slice(&page[range]);
        let merged = merged.freeze();
        leave(cx, lun, cp, leaf, Change::Data(merged.clone()));
        return (merged, false);
    }
    let page = page.freeze();
    let (change, is_new) = match find_in_active(cx, lun, leaf) {
        LeafContent::Fragment(fragment) => match fragment.with(&page, &range) {
            Grown::Whole(page) => (Change::Data(page), false),
            Grown::Fragment(fragment) => (Change::Fragment(fragment), false),
        },
        LeafContent::Older => (Change::Fragment(Fragment::new(page.clone(), &range)), true),
        LeafContent::Data(_) | LeafContent::Hole => unreachable!("then the content is known"),
    };
    leave(cx, lun, cp, leaf, change);
    (page, is_new)
}

/// Puts a fragment in the active overlay over the content below it. Inside the block's stripe.
pub(crate) fn merge(cx: &mut OpCx<'_, '_>, lun: &Lun, leaf: u64) -> Result<(), Stop> {
    // In a frozen overlay it is the cleaner's.
    if let LeafContent::Fragment(_) = find_in_active(cx, lun, leaf) {
        let merged = content(cx, lun, leaf)?.expect("a fragment is no hole");
        let volume = &lun.volume;
        let index = volume.stripe_index(lun.file, leaf / STRIPE_BLOCKS);
        let mut state = volume.stripes[index].get(cx.permit);
        let growth = state.active.insert(lun.file, leaf, Change::Data(merged));
        assert_eq!(growth.pages, 0, "a block for a block");
    }
    Ok(())
}
