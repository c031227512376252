//! Blocks that one drive of a mirror had wrong, and another right, are written again on all drives
//! that have them ([`crate::media::copies`]).
//!
//! 1. Only a block of the last consistency point is written, with the content that its tag stands
//!    for. The block may have been freed since it was read.
//! 2. If the maps cannot tell, the block is left alone: the next read of it notes it again.

use everglade_env::PageRef;
use everglade_format::{Pvbn, Tag};

use crate::alloc::tags::tag_of;
use crate::home::aggregate::Home;
use crate::read::load::{Gather, LoadCx, Stop};

/// Blocks that one consistency point looks at.
const STEP_BLOCKS: usize = 64;

/// Queues the writes of some noted blocks, before the consistency point changes anything.
pub(super) fn step(home: &mut Home, cx: &mut LoadCx<'_>) -> Result<(), Stop> {
    let copies = &home.aggregate.media.copies;
    if !copies.has_notes() {
        return Ok(());
    }
    let mut gather = Gather::default();
    let mut decided: Vec<(Pvbn, Tag, PageRef, bool)> = Vec::new();
    for (pvbn, tag, page) in copies.noted().into_iter().take(STEP_BLOCKS) {
        let is_good = match tag_of(&home.fs, cx, pvbn) {
            Err(Stop::Damaged(_)) => Ok(false),
            known => known.map(|known| known == Some(tag)),
        };
        if let Some(is_good) = gather.add(is_good) {
            decided.push((pvbn, tag, page, is_good));
        }
    }
    gather.finish()?;
    let run = home.run.as_mut().expect("under way");
    for (pvbn, tag, page, is_good) in decided {
        copies.forget(pvbn, tag, is_good);
        if is_good {
            run.writer.put(&home.aggregate.media, pvbn, page);
        }
    }
    Ok(())
}
