//! Stripes that the consistency point under way writes: how far it is ([`crate::cp`]).

use std::collections::BTreeMap;

use everglade_env::{BLOCK_SIZE, Op, PageRef};

use crate::media::Layout;
use crate::media::layout::Rows;
use crate::media::writer::RUN_BLOCKS;

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Stripes {
    pub(crate) stage: Stage,
    /// The next free block of the RAID log, by group.
    pub(crate) log_next: BTreeMap<usize, u64>,
}

/// What the consistency point waits for.
#[derive(Default)]
pub(crate) enum Stage {
    /// For nothing.
    #[default]
    Idle,
    /// That labels say which drives were lost: the RAID log is full.
    Full,
    /// That all drives are flushed, so that the RAID log may begin anew.
    Emptying,
    /// That the RAID log has this wave.
    Logging(Wave),
    /// That the stripes of the wave are written.
    Writing,
}

/// Stripes of one group that are written together.
pub(crate) struct Wave {
    /// Members of the columns.
    members: Vec<u32>,
    /// Number and columns of each stripe, ascending; none in columns that are not written.
    stripes: Vec<(u64, Vec<Option<PageRef>>)>,
}

impl Wave {
    pub(crate) fn new(
        rows: &Rows,
        stripes: impl Iterator<Item = (u64, Vec<Option<PageRef>>)>,
    ) -> Wave {
        Wave {
            members: rows.members.clone(),
            stripes: stripes.collect(),
        }
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
        let wave = Wave::new(&layout.all_rows()[0], stripes.into_iter());
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
