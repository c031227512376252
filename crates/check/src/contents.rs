//! Contents: blocks that the walk has not read, and every copy of all other blocks, read in the
//! order of the device.
//!
//! A block of a group must be right on each drive of the group that is read. Where one drive has it
//! and another has not, the aggregate is whole, but the next loss may be the last.

use everglade_format::{BLOCK_SIZE, Block, Pvbn, Tag};

use crate::labels::Drive;
use crate::media::{Fault, Media};
use crate::reference::{Reference, References};

/// Blocks in one read: 1 MiB.
const RUN_BLOCKS: u64 = 256;
/// A gap up to this long is read along, because a second read costs more.
const GAP_BLOCKS: u64 = 16;

/// A block that is not what its reference says.
pub(crate) enum Wrong {
    /// No drive has the right content.
    Everywhere(Fault),
    /// Some drives have it.
    Copy(WrongCopy),
}

/// A block that `drive` does not have, and `right` has, or that can be reconstructed.
pub(crate) struct WrongCopy {
    pub(crate) drive: Drive,
    pub(crate) fault: Fault,
    pub(crate) right: Option<Drive>,
}

/// Compares blocks with the tags of their references; `wrong` hears of those that differ. The
/// references must have been sorted. `done` hears how many blocks that the walk has not read were
/// compared.
pub(crate) fn verify(
    media: &Media<'_>,
    references: &References,
    mut wrong: impl FnMut(&Reference, Wrong),
    mut done: impl FnMut(u64),
) {
    let has_copies = |r: &Reference| {
        let pvbn = Pvbn(r.number);
        media.drives_of(pvbn).len() > 1 || media.is_in_rows(pvbn)
    };
    let is_wanted = |r: &&Reference| !r.is_walked() || has_copies(r);
    let mut buffer = vec![0; usize::try_from(RUN_BLOCKS).expect("256") * BLOCK_SIZE];
    let mut rest = references.list.iter().filter(is_wanted).peekable();
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
        verify_run(media, &run, &mut buffer, &mut wrong);
        done(run.iter().filter(|r| !r.is_walked()).count() as u64);
    }
}

fn verify_run(
    media: &Media<'_>,
    run: &[&Reference],
    buffer: &mut [u8],
    wrong: &mut impl FnMut(&Reference, Wrong),
) {
    let drives = media.drives_of(Pvbn(run[0].number));
    let read = |drive: &Drive| faults_of(media, *drive, run, buffer);
    let faults: Vec<Vec<Option<Fault>>> = drives.iter().map(read).collect();
    for (index, reference) in run.iter().enumerate() {
        let each = || {
            drives
                .iter()
                .zip(faults.iter().map(move |of_drive| of_drive[index]))
        };
        let Some((right, _)) = each().find(|(_, fault)| fault.is_none()) else {
            let pvbn = Pvbn(reference.number);
            let first = each().find_map(|(drive, fault)| Some((*drive, fault?)));
            match (media.reconstruct(pvbn, reference.tag), first) {
                (Some(_), Some((drive, fault))) => {
                    let right = None;
                    let copy = WrongCopy {
                        drive,
                        fault,
                        right,
                    };
                    wrong(reference, Wrong::Copy(copy));
                }
                (Some(_), None) => {}
                (None, first) => {
                    let fault = first.map_or_else(|| media.absent(pvbn), |(_, fault)| fault);
                    wrong(reference, Wrong::Everywhere(fault));
                }
            }
            continue;
        };
        for (drive, fault) in each() {
            if let Some(fault) = fault {
                let (drive, right) = (*drive, Some(*right));
                let copy = WrongCopy {
                    drive,
                    fault,
                    right,
                };
                wrong(reference, Wrong::Copy(copy));
            }
        }
    }
}

/// What is wrong with each block of a run on one drive.
fn faults_of(
    media: &Media<'_>,
    drive: Drive,
    run: &[&Reference],
    buffer: &mut [u8],
) -> Vec<Option<Fault>> {
    let first = run[0].number;
    let blocks = run[run.len() - 1].number - first + 1;
    let bytes = usize::try_from(blocks).expect("at most 256") * BLOCK_SIZE;
    let read = media.read_run(drive, Pvbn(first), &mut buffer[..bytes]);
    let tag_of = |reference: &Reference| -> Result<Tag, Fault> {
        if read.is_err() {
            // Each block alone, after a longer read has failed.
            let (tag, _) = media.read_from(drive, Pvbn(reference.number))?;
            return Ok(tag);
        }
        let at = usize::try_from(reference.number - first).expect("below 256") * BLOCK_SIZE;
        let mut block: Block = [0; BLOCK_SIZE];
        block.copy_from_slice(&buffer[at..at + BLOCK_SIZE]);
        Ok(media.key.tag(&block))
    };
    let fault_of = |reference: &&Reference| match tag_of(reference) {
        Ok(tag) if tag == reference.tag => None,
        Ok(tag) => Some(Fault::Tag(tag)),
        Err(fault) => Some(fault),
    };
    run.iter().map(fault_of).collect()
}
