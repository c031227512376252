//! Read: overlays, then the committed tree.
//!
//! A read that misses nothing but data has found out, inside its stripes, where each of its blocks is, and does not look
//! again when they are here ([`Rest`]): what it returns is what was there at that moment, which lies between its
//! submission and its completion (contracts 1 and 2 of `everglade_target`). Only if a consistency point was committed
//! meanwhile, or something did not come, it runs again from the top.

use everglade_env::PageRef;
use everglade_format::{CpNumber, Indirect, Layer, Pointer, SPAN};
use everglade_target::span::block_count;
use everglade_target::{ReadSpan, Reply};

use crate::load::{Gather, Pinned, Stop};
use crate::ops::{BLOCK, OpCx, Outcome, content, find_in_overlays, is_mentioned};
use crate::volume::Lun;
use crate::volume::overlay::Found;

/// What is known of a region while its leaves are read.
struct Below {
    region: u64,
    /// By an overlay.
    is_mentioned: bool,
    /// Once it was looked for: its level-1 block, unless that is yet to be loaded; nothing in it for a hole.
    level1: Option<Option<Option<PageRef>>>,
}

/// A read of which only data is yet to come.
pub(crate) struct Rest {
    /// What had been committed when it looked.
    committed: CpNumber,
    /// What it returns; nothing for what is awaited.
    pages: Vec<Option<PageRef>>,
    /// What is awaited, in order.
    awaited: Vec<Pointer>,
}

impl Rest {
    /// The whole of it, unless it is to look again.
    pub(crate) fn complete(self, committed: CpNumber, pinned: &Pinned) -> Option<Vec<PageRef>> {
        if committed != self.committed {
            return None;
        }
        let mut awaited = self.awaited.into_iter();
        let arrived = |page: Option<PageRef>| match page {
            Some(page) => Some(page),
            None => pinned.arrived(awaited.next()?),
        };
        self.pages.into_iter().map(arrived).collect()
    }
}

/// Returns what it finds; if only data is missing, leaves the rest in `rest`.
pub(crate) fn run(
    cx: &mut OpCx<'_, '_>,
    lun: &Lun,
    (offset, length): (u64, u32),
    rest: &mut Option<Box<Rest>>,
) -> Result<Outcome, Stop> {
    let committed = lun.volume.aggregate.committed();
    let first = offset / BLOCK;
    let count = block_count(offset, u64::from(length));
    let mut pages: Vec<Option<PageRef>> =
        Vec::with_capacity(usize::try_from(count).expect("at most 257"));
    let mut gather = Gather::default();
    // Of blocks that only the tree has: their pointers, and their places among the pages. Or of the only one.
    let (mut pointers, mut places) = (Vec::new(), Vec::new());
    let mut only = None;
    let mut region_now: Option<Below> = None;
    for leaf in first..first + count {
        let region = leaf / SPAN;
        let below = match &mut region_now {
            Some(below) if below.region == region => below,
            other => other.insert(Below {
                region,
                is_mentioned: is_mentioned(cx, lun, region),
                level1: None,
            }),
        };
        let newest = match below.is_mentioned {
            true => find_in_overlays(cx, lun, leaf),
            false => Found::Older,
        };
        let page = match newest {
            Found::Data(page) => Some(page),
            Found::Hole => Some(PageRef::zero()),
            Found::Fragment(_) => {
                let whole = gather.add(content(cx, lun, leaf));
                whole.map(|page| page.expect("a fragment is no hole"))
            }
            Found::Older => {
                // The committed root is looked up after the overlays: a consistency point publishes roots before
                // it drops overlays, both while nobody is in a stripe.
                if below.level1.is_none() {
                    let found = cx.level1(lun, region);
                    below.level1 = Some(gather.add(found));
                }
                match &below.level1 {
                    Some(Some(Some(block))) => {
                        let pointer = Indirect(block).pointer(leaf % SPAN, Layer::Volume)?;
                        if pointer.is_hole() {
                            Some(PageRef::zero())
                        } else if count == 1 {
                            only = Some(pointer);
                            gather.add(cx.load.data(pointer))
                        } else {
                            places.push(pages.len());
                            pointers.push(pointer);
                            None
                        }
                    }
                    Some(Some(None)) => Some(PageRef::zero()),
                    Some(None) | None => None,
                }
            }
        };
        pages.push(page);
    }
    if !places.is_empty() {
        let found = cx
            .load
            .data_all(&pointers, |index, page| pages[places[index]] = Some(page));
        gather.add(found);
    }
    if let Err(stop) = gather.finish() {
        let mut place = places.into_iter();
        pointers.retain(|_| place.next().is_some_and(|place| pages[place].is_none()));
        pointers.extend(only);
        let absent = pages.iter().filter(|page| page.is_none()).count();
        // Neither nodes nor blocks that have moved.
        if matches!(stop, Stop::Load) && absent == pointers.len() && *cx.load.wants == pointers {
            *rest = Some(Box::new(Rest {
                committed,
                pages,
                awaited: pointers,
            }));
        }
        return Err(stop);
    }
    let pages = pages
        .into_iter()
        .map(|page| page.expect("nothing is missing"))
        .collect();
    Ok(Outcome::Done(Reply::Data(ReadSpan {
        offset,
        length,
        pages,
    })))
}
