//! Read: overlays, then the committed tree.

use everglade_env::PageRef;
use everglade_format::{Indirect, Layer, SPAN};
use everglade_target::span::block_count;
use everglade_target::{ReadSpan, Reply};

use crate::load::{Gather, Stop};
use crate::ops::{BLOCK, OpCx, Outcome, content, find_in_overlays};
use crate::volume::Lun;
use crate::volume::overlay::Found;

pub(crate) fn run(
    cx: &mut OpCx<'_, '_>,
    lun: &Lun,
    offset: u64,
    length: u32,
) -> Result<Outcome, Stop> {
    let first = offset / BLOCK;
    let count = block_count(offset, u64::from(length));
    let mut pages: Vec<Option<PageRef>> =
        Vec::with_capacity(usize::try_from(count).expect("at most 257"));
    let mut gather = Gather::default();
    // The committed root is looked up after the overlays: a consistency point publishes roots before it
    // drops overlays, both while nobody is in a stripe.
    let mut level1: Option<(u64, Option<PageRef>)> = None;
    for leaf in first..first + count {
        let page = match find_in_overlays(cx, lun, leaf) {
            Found::Data(page) => Some(page),
            Found::Hole => Some(PageRef::zero()),
            Found::Fragment(_) => {
                let whole = gather.add(content(cx, lun, leaf));
                whole.map(|page| page.expect("a fragment is no hole"))
            }
            Found::Older => {
                let region = leaf / SPAN;
                if level1.as_ref().is_none_or(|(known, _)| *known != region) {
                    let found = lun.root().level1(cx.load, Layer::Volume, region);
                    level1 = gather.add(found).map(|page| (region, page));
                }
                match &level1 {
                    Some((_, Some(block))) => {
                        let pointer = Indirect(block).pointer(leaf % SPAN, Layer::Volume)?;
                        if pointer.is_hole() {
                            Some(PageRef::zero())
                        } else {
                            gather.add(cx.load.data(pointer))
                        }
                    }
                    Some((_, None)) => Some(PageRef::zero()),
                    None => None,
                }
            }
        };
        pages.push(page);
    }
    gather.finish()?;
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
