//! Device writes of a consistency point: collected, sorted into runs, bounded in memory.
//!
//! 1. Nothing is reported done before every write submitted here has completed.
//! 2. The first failure is remembered and fails the consistency point (DESIGN §5).

use everglade_env::{BLOCK_SIZE, DeviceId, DiskError, Op, PageRef};
use everglade_format::Pvbn;
use everglade_format::planted::{self, Bug};
use everglade_target::Error;

use crate::aggregate::Aggregate;
use crate::load::Stop;

/// Blocks collected before they are sorted and submitted.
const BATCH_BLOCKS: usize = 1024;
/// Blocks in one device write: 1 MiB.
const RUN_BLOCKS: usize = 256;

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Writer {
    collected: Vec<(Pvbn, PageRef)>,
    /// Operations for the reactor to submit.
    pub(crate) ready: Vec<Op>,
    inflight_ops: usize,
    inflight_blocks: usize,
    failure: Option<DiskError>,
    pub(crate) blocks_written: u64,
}

impl Writer {
    /// Takes a block to write.
    pub(crate) fn push(&mut self, aggregate: &Aggregate, pvbn: Pvbn, page: PageRef) {
        self.collected.push((pvbn, page));
        self.blocks_written += 1;
        if self.collected.len() >= BATCH_BLOCKS {
            self.submit_collected(aggregate);
        }
    }

    /// Waits while too much is under way.
    pub(crate) fn throttle(&self, aggregate: &Aggregate) -> Result<(), Stop> {
        if self.inflight_blocks as u64 >= aggregate.share.blocks() {
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
    pub(crate) fn finish(&mut self, aggregate: &Aggregate) -> Result<(), Stop> {
        self.submit_collected(aggregate);
        self.check()?;
        if self.inflight_ops > 0 {
            Err(Stop::Io)
        } else {
            Ok(())
        }
    }

    fn submit_collected(&mut self, aggregate: &Aggregate) {
        let mut blocks = std::mem::take(&mut self.collected);
        blocks.sort_unstable_by_key(|(pvbn, _)| *pvbn);
        let mut blocks = blocks.into_iter().peekable();
        while let Some((first, page)) = blocks.next() {
            let (device, offset, run) = aggregate
                .locate(first)
                .expect("allocated blocks are in an extent");
            let mut pages = vec![page];
            while let Some((next, _)) = blocks.peek() {
                let length = pages.len() as u64;
                assert!(
                    next.0 >= first.0 + length,
                    "block {next} is written twice in one consistency point"
                );
                if next.0 != first.0 + length || pages.len() == RUN_BLOCKS || length == run {
                    break;
                }
                pages.push(blocks.next().expect("peeked").1);
            }
            if planted::is_now(Bug::WriteForgotten) {
                continue;
            }
            self.submit(Op::Write {
                device,
                offset,
                pages,
                durable: false,
            });
        }
    }

    /// Hands one operation to the reactor.
    pub(crate) fn submit(&mut self, op: Op) {
        self.inflight_ops += 1;
        self.inflight_blocks += blocks_of(&op);
        self.ready.push(op);
    }

    /// A write of both copies of the superblock to one device.
    pub(crate) fn submit_superblock(
        &mut self,
        device: DeviceId,
        offsets: [u64; 2],
        page: &PageRef,
    ) {
        for offset in offsets {
            if planted::is(Bug::SuperblockOneCopy) && offset == offsets[0] {
                continue;
            }
            assert!(offset.is_multiple_of(BLOCK_SIZE as u64));
            self.submit(Op::Write {
                device,
                offset,
                pages: vec![page.clone()],
                durable: true,
            });
        }
    }

    /// An operation of `blocks` blocks has completed. True if the consistency point should look again.
    pub(crate) fn completed(
        &mut self,
        aggregate: &Aggregate,
        blocks: usize,
        result: Result<(), DiskError>,
    ) -> bool {
        self.inflight_ops -= 1;
        self.inflight_blocks -= blocks;
        if let Err(error) = result {
            self.failure.get_or_insert(error);
        }
        self.failure.is_some()
            || self.inflight_ops == 0
            || self.inflight_blocks as u64 <= aggregate.share.blocks() / 2
    }

    /// True if the devices have something to write.
    pub(crate) fn is_writing(&self) -> bool {
        self.inflight_ops > 0
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.inflight_ops == 0 && self.collected.is_empty()
    }
}

/// Blocks an operation counts for.
pub(crate) fn blocks_of(op: &Op) -> usize {
    match op {
        Op::Write { pages, .. } => pages.len(),
        _ => 0,
    }
}
