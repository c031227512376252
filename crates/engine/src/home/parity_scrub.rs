//! The part of a scrub that compares parity: all columns of stripes with a block in use are read,
//! and the parity of their data is computed.
//!
//! 1. A stripe may be written while it is read. Then it is read again.
//! 2. If a data column cannot be read, nothing is said of the parity: the block is found by its own
//!    tag, if it is in use.
//! 3. The next consistency point computes wrong parity anew, from what each block in use must be.

use std::collections::VecDeque;

use everglade_env::{DeviceId, PageRef};

use crate::media::layout::Rows;

/// Most stripes of a run: a quarter of a MiB of each drive.
pub(crate) const RUN_STRIPES: usize = 64;

/// Neighbouring stripes of one parity group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StripeRun {
    pub(crate) group: usize,
    pub(crate) first: u64,
    pub(crate) count: usize,
}

/// Stripes that are being read.
struct Reading {
    run: StripeRun,
    rows: Rows,
    /// The drive of each column, where it is in full use.
    drives: Vec<Option<DeviceId>>,
    /// What it has; none if it could not be read.
    columns: Vec<Option<Vec<PageRef>>>,
    left: usize,
    /// See [`crate::media::Media::stripes_version`].
    version: u64,
}

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct ParityScrub {
    listed: VecDeque<StripeRun>,
    reading: Option<Reading>,
    wrong: Vec<(usize, u64)>,
}

impl ParityScrub {
    /// Adds stripes: group and number, ascending.
    pub(crate) fn list(&mut self, stripes: impl IntoIterator<Item = (usize, u64)>) {
        for (group, stripe) in stripes {
            match self.listed.back_mut() {
                Some(run)
                    if (run.group, run.first + run.count as u64) == (group, stripe)
                        && run.count < RUN_STRIPES =>
                {
                    run.count += 1;
                }
                _ => self.listed.push_back(StripeRun {
                    group,
                    first: stripe,
                    count: 1,
                }),
            }
        }
    }

    /// Leaves out the stripes of a group, which has no blocks any more. None may be being read.
    pub(crate) fn forget(&mut self, group: usize) {
        assert!(self.reading.is_none(), "its stripes may be being read");
        self.listed.retain(|run| run.group != group);
        self.wrong.retain(|(other, _)| *other != group);
    }

    /// True if stripes are being read.
    pub(crate) fn is_reading(&self) -> bool {
        self.reading.is_some()
    }

    /// True if nothing is to be read.
    pub(crate) fn is_idle(&self) -> bool {
        self.listed.is_empty() && self.reading.is_none()
    }

    /// Takes the stripes that are to be read next, at most so many, unless some are being read.
    pub(crate) fn take_run(&mut self, most: usize) -> Option<StripeRun> {
        if self.reading.is_some() {
            return None;
        }
        let run = self.listed.pop_front()?;
        let count = run.count.min(most);
        if count < run.count {
            self.listed.push_front(StripeRun {
                first: run.first + count as u64,
                count: run.count - count,
                ..run
            });
        }
        Some(StripeRun { count, ..run })
    }

    /// The columns of stripes are being read, from the drives that are in full use.
    pub(crate) fn begin_reading(
        &mut self,
        run: StripeRun,
        rows: Rows,
        drives: Vec<Option<DeviceId>>,
        version: u64,
    ) {
        self.reading = Some(Reading {
            run,
            rows,
            columns: drives.iter().map(|_| None).collect(),
            left: drives.iter().flatten().count(),
            drives,
            version,
        });
    }

    /// Returns the drive of a column that is being read.
    pub(crate) fn device(&self, column: usize) -> Option<DeviceId> {
        self.reading.as_ref()?.drives[column]
    }

    /// A column has come. True if it was the last one.
    pub(crate) fn answered(&mut self, column: usize, pages: Option<Vec<PageRef>>) -> bool {
        let reading = self.reading.as_mut().expect("it is being read");
        reading.columns[column] = pages;
        reading.left -= 1;
        reading.left == 0
    }

    /// All columns have come. Returns the number of parity blocks that are wrong or cannot be read.
    pub(crate) fn compare(&mut self, version: u64) -> u64 {
        let reading = self.reading.take().expect("it was read");
        let run = reading.run;
        if version != reading.version || !version.is_multiple_of(2) {
            self.listed.push_front(run);
            return 0;
        }
        let mut wrong = 0;
        for index in 0..run.count {
            let wrong_here = reading.wrong_in(index);
            if wrong_here > 0 {
                self.wrong.push((run.group, run.first + index as u64));
                wrong += wrong_here;
            }
        }
        wrong
    }

    /// Nothing more is to be read.
    pub(crate) fn abandon(&mut self) {
        self.listed.clear();
    }

    /// Takes the stripes whose parity is wrong.
    pub(crate) fn take_wrong(&mut self) -> Vec<(usize, u64)> {
        std::mem::take(&mut self.wrong)
    }
}

impl Reading {
    /// Returns the number of wrong parity blocks of a stripe.
    fn wrong_in(&self, index: usize) -> u64 {
        let (data, parity) = self.columns.split_at(self.rows.code.data());
        let block = |column: &Option<Vec<PageRef>>| Some(column.as_ref()?.get(index)?.clone());
        let data: Option<Vec<PageRef>> = data.iter().map(block).collect();
        let Some(data) = data else { return 0 };
        let expected = self.rows.parity_of(&data);
        let drives = self.drives[data.len()..].iter();
        let each = drives.zip(parity).zip(&expected);
        let there = each.filter(|((drive, _), _)| drive.is_some());
        let wrong = there.filter(|((_, found), expected)| {
            let found = block(found);
            found.is_none_or(|found| found[..] != expected[..])
        });
        wrong.count() as u64
    }
}

#[cfg(test)]
mod tests {
    use everglade_env::{BLOCK_SIZE, Page};
    use everglade_raid::Code;

    use super::*;

    fn page(byte: u8) -> PageRef {
        Page::copy_of(&[byte; BLOCK_SIZE]).freeze()
    }

    /// Reads stripe 7 of two data columns and one with parity.
    fn read(scrub: &mut ParityScrub, pages: [Option<u8>; 3]) {
        scrub.list([(0, 7)]);
        let run = scrub.take_run(RUN_STRIPES).expect("listed");
        let rows = Rows {
            code: Code::new(2, 1).expect("in range"),
            members: vec![0, 1, 2],
        };
        let drives = (0..3).map(|drive| Some(DeviceId(drive))).collect();
        scrub.begin_reading(run, rows, drives, 4);
        for (column, byte) in pages.into_iter().enumerate() {
            let is_last = scrub.answered(column, byte.map(|byte| vec![page(byte)]));
            assert_eq!(is_last, column == 2);
        }
    }

    #[test]
    fn parity_that_does_not_go_with_its_data_is_wrong() {
        let mut scrub = ParityScrub::default();
        for (pages, wrong) in [
            ([Some(1), Some(2), Some(3)], 0),
            ([Some(1), Some(2), Some(4)], 1),
            ([Some(1), Some(2), None], 1),
            ([Some(1), None, Some(4)], 0),
        ] {
            read(&mut scrub, pages);
            assert_eq!(scrub.compare(4), wrong, "{pages:?}");
            assert_eq!(scrub.take_wrong().len() as u64, wrong);
            assert!(scrub.is_idle());
        }
    }

    #[test]
    fn stripes_that_were_written_meanwhile_are_read_again() {
        for version in [5, 6] {
            let mut scrub = ParityScrub::default();
            read(&mut scrub, [Some(1), Some(2), Some(4)]);
            assert_eq!(scrub.compare(version), 0);
            assert!(!scrub.is_idle() && scrub.take_wrong().is_empty());
        }
    }

    #[test]
    fn neighbours_are_read_together() {
        let mut scrub = ParityScrub::default();
        scrub.list(
            (0..100)
                .map(|stripe| (0, stripe))
                .chain([(1, 100), (1, 102)]),
        );
        let runs: Vec<StripeRun> = std::iter::from_fn(|| scrub.take_run(RUN_STRIPES)).collect();
        let counts = runs.iter().map(|run| (run.group, run.first, run.count));
        let counts: Vec<_> = counts.collect();
        assert_eq!(counts, [(0, 0, 64), (0, 64, 36), (1, 100, 1), (1, 102, 1)]);
        scrub.list((0..20).map(|stripe| (0, stripe)));
        let first = scrub.take_run(16).map(|run| (run.first, run.count));
        let second = scrub.take_run(16).map(|run| (run.first, run.count));
        assert_eq!((first, second), (Some((0, 16)), Some((16, 4))));
    }
}
