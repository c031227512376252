//! Read: overlays, then the committed tree.
//!
//! A read that misses only data has found the place of each block, inside its stripes. When the
//! data has arrived, the read does not resolve the places again ([`Rest`]). The read returns the
//! contents at the moment of the look-up, which lies between its submission and its completion
//! (contracts 1 and 2 of `everglade_target`). The read runs again from the top only if a
//! consistency point was committed meanwhile, or if a block did not arrive.

use std::ops::Range;

use everglade_env::PageRef;
use everglade_format::{CpNumber, Indirect, Layer, Pointer, SPAN};
use everglade_target::span::block_count;
use everglade_target::{ReadSpan, Reply};

use crate::ops::{
    BLOCK, OpCx, RunEnd, block_name, committed_pointer, content, find_in_overlays, is_mentioned,
};
use crate::pool::overlay::LeafContent;
use crate::pool::volume::Lun;
use crate::read::load::{Gather, Pinned, Stop};

/// State of a region's level-1 block.
enum Level1 {
    /// The block was not looked up.
    Unknown,
    /// The block has yet to be loaded.
    Awaited,
    Hole,
    Block(PageRef),
}

impl Level1 {
    /// Returns the state after a look-up; `None` means that the look-up stopped.
    fn of(found: Option<Option<PageRef>>) -> Level1 {
        match found {
            None => Level1::Awaited,
            Some(None) => Level1::Hole,
            Some(Some(block)) => Level1::Block(block),
        }
    }
}

/// State of a region while its leaves are read.
struct Below {
    region: u64,
    /// True if an overlay mentions the region.
    is_mentioned: bool,
    level1: Level1,
}

impl Below {
    fn new(cx: &OpCx<'_, '_>, lun: &Lun, region: u64) -> Below {
        Below {
            region,
            is_mentioned: is_mentioned(cx, lun, region),
            level1: Level1::Unknown,
        }
    }
}

/// A read of which only data is yet to come.
pub(crate) struct Rest {
    /// The last committed consistency point at the look-up.
    committed: CpNumber,
    /// The pages to return; `None` for those that are being loaded.
    pages: Vec<Option<PageRef>>,
    /// The pages that are being loaded, in order.
    awaited: Vec<Pointer>,
}

impl Rest {
    /// Returns the result of the whole read, or a retry if the look-up is out of date.
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

/// Returns the data; if only data is missing, leaves the rest of the work in `rest`.
pub(crate) fn run(
    cx: &mut OpCx<'_, '_>,
    lun: &Lun,
    (offset, length): (u64, u32),
    rest: &mut Option<Box<Rest>>,
) -> Result<RunEnd, Stop> {
    let committed = lun.volume.aggregate.committed();
    let first = offset / BLOCK;
    let count = block_count(offset, u64::from(length));
    let below = Below::new(cx, lun, first / SPAN);
    let pages = if count == 1 && !below.is_mentioned {
        vec![committed_block(cx, lun, first, committed, rest)?]
    } else {
        blocks(cx, lun, (first..first + count, below), committed, rest)?
    };
    Ok(RunEnd::Done(Reply::Data(ReadSpan {
        offset,
        length,
        pages,
    })))
}

/// A single block that no overlay has: what most small reads are.
fn committed_block(
    cx: &mut OpCx<'_, '_>,
    lun: &Lun,
    leaf: u64,
    committed: CpNumber,
    rest: &mut Option<Box<Rest>>,
) -> Result<PageRef, Stop> {
    // The committed root is read after the overlays: a consistency point publishes roots before it
    // drops overlays, both while no operation is in a stripe.
    let pointer = committed_pointer(cx, lun, leaf)?;
    if pointer.is_hole() {
        return Ok(PageRef::zero());
    }
    cx.load.data(pointer).map_err(|stop| {
        // Excludes a block that has moved.
        if matches!(stop, Stop::Load) && *cx.load.wants == [pointer] {
            *rest = Some(Box::new(Rest {
                committed,
                pages: vec![None],
                awaited: vec![pointer],
            }));
        }
        stop.at(block_name(lun, 0, leaf), pointer)
    })
}

/// Adds the name of the damaged leaf, if the read stopped because of one. `pointers` are those of
/// the leaves that only the tree has; `places` are their places behind leaf `first`.
fn named(lun: &Lun, stop: Stop, first: u64, (pointers, places): (&[Pointer], &[usize])) -> Stop {
    let Stop::Damaged(damaged) = &stop else {
        return stop;
    };
    let mut leaves = pointers.iter().zip(places);
    match leaves.find(|(pointer, _)| **pointer == damaged.pointer) {
        Some((pointer, place)) => {
            let (leaf, pointer) = (first + *place as u64, *pointer);
            stop.at(block_name(lun, 0, leaf), pointer)
        }
        None => stop,
    }
}

/// Blocks that follow each other, from the region `below` on.
fn blocks(
    cx: &mut OpCx<'_, '_>,
    lun: &Lun,
    (leaves, mut below): (Range<u64>, Below),
    committed: CpNumber,
    rest: &mut Option<Box<Rest>>,
) -> Result<Vec<PageRef>, Stop> {
    let first = leaves.start;
    let count = usize::try_from(leaves.end - leaves.start).expect("at most 257");
    let mut pages: Vec<Option<PageRef>> = Vec::with_capacity(count);
    let mut gather = Gather::default();
    // Pointers of blocks that only the tree has, and their places among the pages.
    let (mut pointers, mut places) = (Vec::new(), Vec::new());
    for leaf in leaves {
        let region = leaf / SPAN;
        if below.region != region {
            below = Below::new(cx, lun, region);
        }
        let newest = match below.is_mentioned {
            true => find_in_overlays(cx, lun, leaf),
            false => LeafContent::Older,
        };
        let page = match newest {
            LeafContent::Data(page) => Some(page),
            LeafContent::Hole => Some(PageRef::zero()),
            LeafContent::Fragment(_) => {
                let whole = gather.add(content(cx, lun, leaf));
                whole.map(|page| page.expect("a fragment is no hole"))
            }
            LeafContent::Older => {
                // After the overlays, as above.
                if let Level1::Unknown = below.level1 {
                    below.level1 = Level1::of(gather.add(cx.level1(lun, region)));
                }
                match &below.level1 {
                    Level1::Block(block) => {
                        let pointer = Indirect(block).pointer(leaf % SPAN, Layer::Volume)?;
                        if pointer.is_hole() {
                            Some(PageRef::zero())
                        } else {
                            places.push(pages.len());
                            pointers.push(pointer);
                            None
                        }
                    }
                    Level1::Hole => Some(PageRef::zero()),
                    Level1::Awaited | Level1::Unknown => None,
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
        let stop = named(lun, stop, first, (&pointers, &places));
        let mut place = places.into_iter();
        pointers.retain(|_| place.next().is_some_and(|place| pages[place].is_none()));
        let absent = pages.iter().filter(|page| page.is_none()).count();
        // The missing pages are neither nodes nor moved blocks.
        if matches!(stop, Stop::Load) && absent == pointers.len() && *cx.load.wants == pointers {
            *rest = Some(Box::new(Rest {
                committed,
                pages,
                awaited: pointers,
            }));
        }
        return Err(stop);
    }
    let whole = pages.into_iter().collect::<Option<_>>();
    Ok(whole.expect("nothing is missing"))
}
