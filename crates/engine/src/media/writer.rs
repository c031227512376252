//! Device writes of a consistency point: collected, sorted into runs, bounded in memory.
//!
//! ```text
//! push ─▶ collected ─▶ a batch, sorted into runs ─▶ queued ─▶ under way, within the device share
//! ```
//!
//! 1. The writer reports that it is done only when every submitted write has completed.
//! 2. The first failure is remembered and fails the consistency point (docs/design/design.md §5).
//! 3. A block goes to all usable drives of its column; a superblock, a config record or a flush to
//!    one drive ([`Reach`]).
//! 4. At most one write may exceed the device share. A queued write is submitted when another one
//!    completes, without waiting for the next step. So a share smaller than a batch is kept, too,
//!    and a client's read waits behind no more than the share.

use std::collections::{BTreeMap, VecDeque};

use everglade_env::{BLOCK_SIZE, DeviceId, DiskError, Op, PageRef};
use everglade_format::Pvbn;
use everglade_target::Error;

use crate::media::{Media, Place};
use crate::read::load::Stop;

/// Blocks collected before they are sorted and submitted.
const BATCH_BLOCKS: usize = 1024;
/// Most blocks in one device write: 1 MiB; the least that a run is cut to where the share is small:
/// 128 KiB. A read that comes behind a write waits for all of it.
pub(crate) const RUN_BLOCKS: usize = 256;
const RUN_BLOCKS_LEAST: usize = 32;

/// A block of a stripe that is to be written.
#[derive(Clone)]
pub(crate) struct Fresh {
    pub(crate) page: PageRef,
    /// The last consistency point uses it, with this content: it is written again.
    pub(crate) is_again: bool,
}

/// The drives to which an operation goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// All usable drives of a member's column, as they are when the operation is submitted.
    Column(u32),
    /// The named drive.
    Drive,
}

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Writer {
    collected: Vec<(Pvbn, PageRef)>,
    /// Blocks of parity groups, by group, stripe and column. They are written when all blocks of
    /// the consistency point are known ([`crate::cp`]).
    pub(crate) stripes: BTreeMap<(usize, u64), BTreeMap<usize, Fresh>>,
    /// Writes in arrival order that were not handed to the reactor yet.
    queued: VecDeque<(Op, Reach)>,
    queued_blocks: usize,
    inflight_ops: usize,
    inflight_blocks: usize,
    failure: Option<DiskError>,
    pub(crate) blocks_written: u64,
}

impl Writer {
    /// Takes a block to write.
    pub(crate) fn push(&mut self, media: &Media, pvbn: Pvbn, page: PageRef) {
        self.blocks_written += 1;
        if let Some(at) = media.across(pvbn) {
            let stripe = self.stripes.entry((at.group, at.stripe)).or_default();
            let fresh = Fresh {
                page,
                is_again: false,
            };
            let former = stripe.insert(at.column, fresh);
            assert!(former.is_none(), "block {pvbn} is written twice");
            return;
        }
        self.collected.push((pvbn, page));
        if self.collected.len() >= BATCH_BLOCKS {
            self.submit_collected(media);
        }
    }

    /// Returns a block of a parity group that was pushed and is not written yet.
    pub(crate) fn unwritten(&self, media: &Media, pvbn: Pvbn) -> Option<PageRef> {
        if self.stripes.is_empty() {
            return None;
        }
        let at = media.across(pvbn)?;
        let stripe = self.stripes.get(&(at.group, at.stripe))?;
        stripe.get(&at.column).map(|fresh| fresh.page.clone())
    }

    /// Waits while too much is under way, or about to be.
    pub(crate) fn throttle(&self, media: &Media) -> Result<(), Stop> {
        if self.is_ahead(media.share.blocks()) {
            Err(Stop::Io)
        } else {
            Ok(())
        }
    }

    /// Fails if a write failed.
    pub(crate) fn check(&self) -> Result<(), Stop> {
        match self.failure {
            Some(error) => Err(Stop::Failed(Error::Io(format!(
                "consistency point: {error}"
            )))),
            None => Ok(()),
        }
    }

    /// Submits everything collected and waits until nothing is under way.
    pub(crate) fn finish(&mut self, media: &Media) -> Result<(), Stop> {
        self.submit_collected(media);
        self.check()?;
        if self.inflight_ops > 0 || !self.queued.is_empty() {
            Err(Stop::Io)
        } else {
            Ok(())
        }
    }

    /// A batch may be queued beside a small share, so that the device has the next write when one
    /// completes.
    fn is_ahead(&self, share: u64) -> bool {
        let blocks = self.queued_blocks + self.inflight_blocks;
        blocks as u64 >= share.max(BATCH_BLOCKS as u64)
    }

    /// The writes that the reactor should submit now; they count as under way from then on.
    pub(crate) fn take_ready(&mut self, share: u64) -> Vec<(Op, Reach)> {
        let mut ready = Vec::new();
        if self.failure.is_some() {
            return ready;
        }
        while self.inflight_ops == 0 || (self.inflight_blocks as u64) < share {
            let Some((op, reach)) = self.queued.pop_front() else {
                break;
            };
            self.queued_blocks -= blocks_of(&op);
            self.inflight_blocks += blocks_of(&op);
            self.inflight_ops += 1;
            ready.push((op, reach));
        }
        ready
    }

    /// The consistency point will not be committed: writes that are not under way are dropped.
    pub(crate) fn abandon(&mut self) {
        self.collected = Vec::new();
        self.stripes = BTreeMap::new();
        self.queued = VecDeque::new();
        self.queued_blocks = 0;
    }

    fn submit_collected(&mut self, media: &Media) {
        let quarter = usize::try_from(media.share.blocks() / 4).unwrap_or(RUN_BLOCKS);
        let most = quarter.clamp(RUN_BLOCKS_LEAST, RUN_BLOCKS);
        let layout = media.layout();
        let mut blocks = std::mem::take(&mut self.collected);
        blocks.sort_unstable_by_key(|(pvbn, _)| *pvbn);
        let mut blocks = blocks.into_iter().peekable();
        while let Some((first, page)) = blocks.next() {
            let Place {
                member,
                device,
                offset,
                run,
            } = layout
                .locate_column(first)
                .expect("allocated blocks are in an extent");
            let mut pages = vec![page];
            while let Some((next, _)) = blocks.peek() {
                let length = pages.len() as u64;
                assert!(
                    next.0 >= first.0 + length,
                    "block {next} is written twice in one consistency point"
                );
                if next.0 != first.0 + length || pages.len() == most || length == run {
                    break;
                }
                pages.push(blocks.next().expect("peeked").1);
            }
            let write = Op::Write {
                device,
                offset,
                pages,
                durable: false,
            };
            self.queue(write, Reach::Column(member));
        }
    }

    /// Writes a block where it was; not at all if its member was removed since. In a parity group,
    /// its stripe gets new parity.
    pub(crate) fn put(&mut self, media: &Media, pvbn: Pvbn, page: PageRef) {
        if let Some(at) = media.across(pvbn) {
            let stripe = self.stripes.entry((at.group, at.stripe)).or_default();
            let fresh = Fresh {
                page,
                is_again: true,
            };
            stripe.insert(at.column, fresh);
            return;
        }
        let Some(place) = media.locate(pvbn) else {
            return;
        };
        let write = Op::Write {
            device: place.device,
            offset: place.offset,
            pages: vec![page],
            durable: true,
        };
        self.queue(write, Reach::Column(place.member));
    }

    /// Queues one operation on one drive for the reactor.
    pub(crate) fn submit(&mut self, op: Op) {
        self.queue(op, Reach::Drive);
    }

    fn queue(&mut self, op: Op, reach: Reach) {
        self.queued_blocks += blocks_of(&op);
        self.queued.push_back((op, reach));
    }

    /// Queues a durable write of pages of a label.
    pub(crate) fn submit_copies(&mut self, device: DeviceId, offset: u64, pages: Vec<PageRef>) {
        assert!(offset.is_multiple_of(BLOCK_SIZE as u64));
        self.submit(Op::Write {
            device,
            offset,
            pages,
            durable: true,
        });
    }

    /// Queues a durable write of one page on one drive.
    pub(crate) fn submit_copy(&mut self, device: DeviceId, offset: u64, page: PageRef) {
        self.submit_copies(device, offset, vec![page]);
    }

    /// Records the completion of an operation of `blocks` blocks. Returns true if the consistency
    /// point should run again.
    pub(crate) fn completed(
        &mut self,
        media: &Media,
        blocks: usize,
        result: Result<(), DiskError>,
    ) -> bool {
        self.inflight_ops -= 1;
        self.inflight_blocks -= blocks;
        if let Err(error) = result {
            self.failure.get_or_insert(error);
        }
        let left = (self.queued_blocks + self.inflight_blocks) as u64;
        let is_done = self.inflight_ops == 0 && self.queued.is_empty();
        let share = media.share.blocks().max(BATCH_BLOCKS as u64);
        self.failure.is_some() || is_done || left <= share / 2
    }

    /// True if the devices have something to write.
    pub(crate) fn is_writing(&self) -> bool {
        self.inflight_ops > 0
    }

    pub(crate) fn is_idle(&self) -> bool {
        let is_written = self.collected.is_empty() && self.stripes.is_empty();
        self.inflight_ops == 0 && self.queued.is_empty() && is_written
    }
}

/// Blocks an operation counts for.
pub(crate) fn blocks_of(op: &Op) -> usize {
    match op {
        Op::Write { pages, .. } => pages.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::layout::tests::two_devices;

    fn write(writer: &mut Writer, media: &Media, pvbns: impl IntoIterator<Item = u64>) {
        for pvbn in pvbns {
            writer.push(media, Pvbn(pvbn), PageRef::zero());
        }
        assert!(matches!(writer.finish(media), Err(Stop::Io)));
    }

    /// Device, first block and number of blocks of each write.
    fn runs(ops: &[(Op, Reach)]) -> Vec<(u32, u64, usize)> {
        let run = |(op, _): &(Op, Reach)| match op {
            Op::Write {
                device,
                offset,
                pages,
                ..
            } => (device.0, offset / BLOCK_SIZE as u64, pages.len()),
            _ => panic!("the writer only writes"),
        };
        ops.iter().map(run).collect()
    }

    #[test]
    fn blocks_are_sorted_into_runs_that_end_with_their_extent() {
        let (media, mut writer) = (Media::new(two_devices()), Writer::default());
        write(&mut writer, &media, [512, 20, 511, 10, 11, 513, 510]);
        let ops = writer.take_ready(1 << 20);
        assert_eq!(
            runs(&ops),
            [(4, 310, 2), (4, 320, 1), (4, 810, 2), (5, 700, 2)]
        );
        assert_eq!(writer.blocks_written, 7);
    }

    #[test]
    fn a_run_is_at_most_a_mebibyte() {
        let (media, mut writer) = (Media::new(two_devices()), Writer::default());
        write(&mut writer, &media, 1..401);
        assert_eq!(
            runs(&writer.take_ready(1 << 20)),
            [(4, 301, 256), (4, 557, 144)]
        );
    }

    #[test]
    fn one_write_may_exceed_the_share_and_the_next_waits_for_it() {
        let (media, mut writer) = (Media::new(two_devices()), Writer::default());
        write(&mut writer, &media, (1..401).step_by(2));
        let first = writer.take_ready(1);
        assert_eq!(first.len(), 1);
        assert!(writer.take_ready(1).is_empty(), "the share is used up");
        assert!(!writer.is_idle());
        writer.completed(&media, 1, Ok(()));
        assert_eq!(writer.take_ready(1).len(), 1);
    }

    #[test]
    fn nothing_is_written_after_a_failure_and_the_step_is_told() {
        let (media, mut writer) = (Media::new(two_devices()), Writer::default());
        write(&mut writer, &media, [1, 3, 5]);
        assert_eq!(writer.take_ready(1).len(), 1);
        assert!(writer.check().is_ok());
        assert!(writer.completed(&media, 1, Err(DiskError::Io(5))));
        assert!(writer.take_ready(1 << 20).is_empty());
        assert!(matches!(writer.check(), Err(Stop::Failed(_))));
        assert!(matches!(writer.finish(&media), Err(Stop::Failed(_))));
    }

    #[test]
    #[should_panic(expected = "is written twice")]
    fn a_block_is_written_once() {
        let (media, mut writer) = (Media::new(two_devices()), Writer::default());
        write(&mut writer, &media, [9, 9]);
    }
}
