//! Stripes that the consistency point under way writes: how far it is ([`crate::cp`]).

use std::collections::BTreeMap;

use everglade_env::{BLOCK_SIZE, Op, PageRef};
use everglade_format::Pvbn;

use crate::media::layout::{Across, Rows};
use crate::media::writer::RUN_BLOCKS;
use crate::media::{Layout, Media};

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Stripes {
    /// A wave was planned, and nothing was waited for since.
    pub(crate) is_planned: bool,
    /// The wave whose bases are being written, with its headers.
    pub(crate) based: Option<(Wave, Vec<Header>)>,
    /// Waves whose headers are being written.
    pub(crate) logged: Vec<Wave>,
    /// Waves that are being written.
    pub(crate) writing: Vec<Wave>,
    pub(crate) log: Log,
}

impl Stripes {
    /// Returns a block of a wave that may not be on its drive yet.
    pub(crate) fn unwritten(&self, media: &Media, pvbn: Pvbn) -> Option<PageRef> {
        let based = self.based.iter().map(|(wave, _)| wave);
        let mut waves = based.chain(&self.logged).chain(&self.writing).peekable();
        waves.peek()?;
        let at = media.across(pvbn)?;
        waves.find_map(|wave| wave.block(at))
    }
}

/// The RAID logs.
#[derive(Default)]
pub(crate) struct Log {
    /// The next free block, by group.
    pub(crate) next: BTreeMap<usize, u64>,
    /// How often they were emptied in this consistency point.
    pub(crate) lap: u32,
    pub(crate) room: Room,
}

/// Whether the RAID logs have room.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Room {
    #[default]
    Free,
    /// They are to be emptied when all stripes that they name are written.
    Full,
    /// All drives are being flushed.
    Flushing,
    /// Their first blocks are being written: with no stripe.
    Emptying,
}

/// A header of a RAID log that is to be written.
pub(crate) struct Header {
    pub(crate) group: usize,
    /// The block of the log.
    pub(crate) at: u64,
    pub(crate) page: PageRef,
}

/// Stripes of one group that are written together.
pub(crate) struct Wave {
    group: usize,
    /// Members of the columns.
    members: Vec<u32>,
    /// Number and columns of each stripe, ascending; none in columns that are not written.
    stripes: Vec<(u64, Vec<Option<PageRef>>)>,
}

impl Wave {
    pub(crate) fn new(
        group: usize,
        rows: &Rows,
        stripes: impl Iterator<Item = (u64, Vec<Option<PageRef>>)>,
    ) -> Wave {
        Wave {
            group,
            members: rows.members.clone(),
            stripes: stripes.collect(),
        }
    }

    /// Returns a block that it writes.
    fn block(&self, at: Across) -> Option<PageRef> {
        if at.group != self.group {
            return None;
        }
        let stripes = &self.stripes;
        let place = stripes.binary_search_by_key(&at.stripe, |(stripe, _)| *stripe);
        stripes[place.ok()?].1[at.column].clone()
    }

    /// Returns the writes, in runs of neighbours, to the drives that are to be written now.
    pub(crate) fn writes(&self, layout: &Layout) -> Vec<Op> {
        let mut writes = Vec::new();
        for (column, member) in self.members.iter().enumerate() {
            let Some(device) = layout.own_written(*member) else {
                continue;
            };
            let mut next = None;
            for (stripe, columns) in &self.stripes {
                let Some(page) = &columns[column] else {
                    continue;
                };
                if let Some(Op::Write { pages, .. }) = writes.last_mut()
                    && next == Some(*stripe)
                    && pages.len() < RUN_BLOCKS
                {
                    pages.push(page.clone());
                } else {
                    writes.push(Op::Write {
                        device,
                        offset: stripe * BLOCK_SIZE as u64,
                        pages: vec![page.clone()],
                        durable: false,
                    });
                }
                next = Some(stripe + 1);
            }
        }
        writes
    }
}

#[cfg(test)]
mod tests {
    use everglade_env::DeviceId;

    use super::*;
    use crate::media::layout::tests::parity_group;

    #[test]
    fn a_wave_is_written_in_runs_to_the_drives_that_are_in_use() {
        let layout = parity_group();
        let page = || Some(PageRef::zero());
        let whole = || vec![page(); 5];
        let mut partial = whole();
        partial[0] = None;
        let stripes = [
            (310, whole()),
            (311, partial),
            (312, whole()),
            (400, whole()),
        ];
        let wave = Wave::new(0, &layout.all_rows()[0], stripes.into_iter());
        let runs = |layout: &Layout| {
            let run = |op| match op {
                Op::Write {
                    device,
                    offset,
                    pages,
                    ..
                } => (device.0, offset / BLOCK_SIZE as u64, pages.len()),
                _ => panic!("only writes"),
            };
            wave.writes(layout).into_iter().map(run).collect::<Vec<_>>()
        };
        let first = [
            (4, 310, 1),
            (4, 312, 1),
            (4, 400, 1),
            (5, 310, 3),
            (5, 400, 1),
        ];
        assert_eq!(runs(&layout)[..5], first);
        let lost = layout.without(DeviceId(5)).expect("it can be spared");
        assert!(runs(&lost).iter().all(|(device, ..)| *device != 5));
        assert_eq!(runs(&lost).len(), 9);
    }
}
