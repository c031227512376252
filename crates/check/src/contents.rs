//! Contents: blocks that have a tag but no header, read in the order of the device.

use everglade_format::{BLOCK_SIZE, Block, Pvbn, Tag};

use crate::media::{Fault, Media};
use crate::reference::{Reference, References};

/// Blocks in one read: 1 MiB.
const RUN_BLOCKS: u64 = 256;
/// A gap up to this long is read along, because a second read costs more.
const GAP_BLOCKS: u64 = 16;

/// Compares the blocks of `wanted` references with their tags; `bad` hears of those that differ.
/// The references must have been sorted.
pub(crate) fn verify(
    media: &Media<'_>,
    references: &References,
    wanted: impl Fn(&Reference) -> bool,
    mut bad: impl FnMut(&Reference, Fault),
    mut done: impl FnMut(u64),
) {
    let mut buffer = vec![0; usize::try_from(RUN_BLOCKS).expect("256") * BLOCK_SIZE];
    let mut rest = references.list.iter().filter(|r| wanted(r)).peekable();
    let mut run: Vec<&Reference> = Vec::new();
    while let Some(first) = rest.next() {
        let within_extent = media.geometry.locate(Pvbn(first.number));
        let length_max = within_extent.map_or(1, |place| place.run.min(RUN_BLOCKS));
        let end = first.number + length_max;
        let mut last = first.number;
        run.clear();
        run.push(first);
        while let Some(next) = rest.next_if(|r| r.number < end && r.number - last <= GAP_BLOCKS) {
            last = next.number;
            run.push(next);
        }
        verify_run(media, &run, &mut buffer, &mut bad);
        done(run.len() as u64);
    }
}

fn verify_run(
    media: &Media<'_>,
    run: &[&Reference],
    buffer: &mut [u8],
    bad: &mut impl FnMut(&Reference, Fault),
) {
    let first = run[0].number;
    let blocks = run[run.len() - 1].number - first + 1;
    let bytes = usize::try_from(blocks).expect("at most 256") * BLOCK_SIZE;
    let whole = media.read_run(Pvbn(first), &mut buffer[..bytes]).is_ok();
    for reference in run {
        let found = if whole {
            let at = usize::try_from(reference.number - first).expect("below 256") * BLOCK_SIZE;
            let mut block = [0; BLOCK_SIZE];
            block.copy_from_slice(&buffer[at..at + BLOCK_SIZE]);
            Ok(media.key.tag(&block))
        } else {
            tag_of(media, Pvbn(reference.number))
        };
        match found {
            Ok(tag) if tag == reference.tag => {}
            Ok(tag) => bad(reference, Fault::Tag(tag)),
            Err(fault) => bad(reference, fault),
        }
    }
}

/// Reads one block alone, after a longer read has failed.
fn tag_of(media: &Media<'_>, pvbn: Pvbn) -> Result<Tag, Fault> {
    let mut block: Block = [0; BLOCK_SIZE];
    media.read_run(pvbn, &mut block)?;
    Ok(media.key.tag(&block))
}
