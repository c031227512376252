//! Blocks that one drive of a mirror had wrong, and another right, are written again where they
//! were wrong ([`crate::media::copies`]).
//!
//! 1. Only a block of the last consistency point is written, with the content that its tag stands
//!    for. The block may have been freed since it was read.
//! 2. If the maps cannot tell, the block is left alone: the next read of it notes it again.
//! 3. Each consistency point writes a bounded number of blocks, so that it ends however many are
//!    noted meanwhile. The right copies are not touched.

use everglade_format::Pvbn;

use crate::alloc::tags::tag_of;
use crate::home::aggregate::Home;
use crate::media::copies::Note;
use crate::read::load::{Gather, LoadCx, Stop};

/// Blocks that one consistency point looks at, and those of one step.
const BLOCKS_MAX: usize = 256;
const STEP_BLOCKS: usize = 64;

/// Queues the writes of some noted blocks, before the consistency point changes anything.
pub(super) fn step(home: &mut Home, cx: &mut LoadCx<'_>) -> Result<(), Stop> {
    let media = &home.aggregate.media;
    let run = home.run.as_mut().expect("under way");
    if run.rewritten >= BLOCKS_MAX || !media.copies.has_notes() {
        return Ok(());
    }
    let mut gather = Gather::default();
    let mut decided: Vec<(Pvbn, Note, bool)> = Vec::new();
    for (pvbn, note) in media.copies.noted().into_iter().take(STEP_BLOCKS) {
        let is_good = match tag_of(&home.fs, cx, pvbn) {
            Err(Stop::Damaged(_)) => Ok(false),
            known => known.map(|known| known == Some(note.tag)),
        };
        if let Some(is_good) = gather.add(is_good) {
            decided.push((pvbn, note, is_good));
        }
    }
    gather.finish()?;
    run.rewritten += decided.len();
    let layout = media.layout();
    for (pvbn, note, is_good) in decided {
        let place = layout.locate_column(pvbn).filter(|_| is_good);
        let place = place.filter(|_| !layout.is_out(note.drive));
        media.copies.forget(pvbn, &note, place.is_some());
        let Some(place) = place else { continue };
        if media.is_in_rows(pvbn) {
            // Parity may be wrong as well.
            run.writer.put(media, pvbn, note.page);
            continue;
        }
        run.writer.submit_copy(note.drive, place.offset, note.page);
    }
    Ok(())
}
