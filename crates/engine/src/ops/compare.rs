//! Compare and write: a write that happens only over the expected contents (contract 2 of
//! `everglade_target`).
//!
//! It compares inside the stripes that it writes, and holds them until the pages are in the
//! overlay, so no other change comes between. If the write has to wait, for blocks or for space,
//! the operation starts again and compares again. The journal has the write, and not the
//! comparison: a replay repeats what happened.

use everglade_env::PageRef;
use everglade_target::span::block_count;
use everglade_target::{COMPARE_BYTES_MAX, Error, Op, WriteSpan};

use crate::ops::{BLOCK, Client, OpCx, RunEnd, content, write};
use crate::pool::volume::Lun;
use crate::read::load::{Gather, Stop};

/// Refuses parts that do not fit. The range and the pages of `data` are checked elsewhere.
pub(crate) fn validate(compare: &WriteSpan, data: &WriteSpan) -> Result<(), Error> {
    if (compare.offset, compare.length) != (data.offset, data.length) {
        return Err(Error::Invalid("two ranges in one operation"));
    }
    if data.length > COMPARE_BYTES_MAX {
        return Err(Error::Invalid("at most 64 KiB are compared and written"));
    }
    let blocks = block_count(compare.offset, u64::from(compare.length));
    if compare.pages.len() as u64 != blocks {
        return Err(Error::Invalid("a comparison has one page for each block"));
    }
    Ok(())
}

pub(crate) fn run(cx: &mut OpCx<'_, '_>, client: &mut Client) -> Result<RunEnd, Stop> {
    let Op::CompareAndWrite { compare, .. } = &client.op else {
        unreachable!("dispatched by kind")
    };
    let found = contents(cx, &client.lun, compare)?;
    let block = |index: usize| found[index].as_ref().map(|page| &page[..]);
    if let Some(offset) = compare.first_difference(block) {
        return Err(Stop::Failed(Error::Miscompare { offset }));
    }
    write::run(cx, client)
}

/// Load phase: the present contents of the blocks of a span; nothing for holes.
fn contents(
    cx: &mut OpCx<'_, '_>,
    lun: &Lun,
    span: &WriteSpan,
) -> Result<Vec<Option<PageRef>>, Stop> {
    let first = span.offset / BLOCK;
    let mut gather = Gather::default();
    let leaves = (first..).take(span.pages.len());
    let found: Vec<_> = leaves
        .map(|leaf| gather.add(content(cx, lun, leaf)))
        .collect();
    gather.finish()?;
    let found = found.into_iter().collect::<Option<_>>();
    Ok(found.expect("nothing is missing"))
}
