//! Reading ahead of clients that read in order (T-20).
//!
//! Each open LUN remembers where its last read ended. When consecutive reads add up to
//! [`STREAM_BYTES`], the blocks after them are loaded into the page cache, far enough ahead that
//! the client finds them there: first the level-1 blocks, then their leaves, in runs of a device
//! read. No operation waits for these loads, and an unreadable block is not reported: an operation
//! that needs the block reads it again and gets the error.
//!
//! What is read from devices like this, and does not lie in order, is noted, so that it is put in
//! order ([`crate::background::after_read`]).
//!
//! 1. The memory of these loads is bounded by a share of the reactor's memory for requests.
//! 2. Reading ahead uses committed trees only, and enters no affinity. A page in the cache is found
//!    by place and tag, so a page that is loaded needlessly is wasted, but never wrong.
//! 3. Blocks that are in the cache already also move the horizon, so a stream through cached blocks
//!    starts a prefetch only once in a window.

use std::sync::{Arc, Weak};

use everglade_env::{BLOCK_SIZE, Outside};
use everglade_format::{Indirect, Layer, Pointer, Pvbn, SPAN};
use everglade_target::LunHandle;

use crate::background::order;
use crate::pool::scattered::Region;
use crate::pool::volume::Lun;
use crate::reactor::{Core, OpenLun, Work};
use crate::read::load::{Gather, LoadCx, Stop};

const BLOCK: u64 = BLOCK_SIZE as u64;
/// Bytes in order that make a stream.
const STREAM_BYTES: u64 = 256 << 10;
/// Bytes loaded ahead of a stream, and never more than the stream is long. A device, above all a
/// virtual one, completes operations that were submitted together at the same time, and it should
/// have further work while their pages are verified and sent. So this is several times the data in
/// flight of a client that reads 128 KiB at a depth of 8.
const AHEAD_BYTES: u64 = 8 << 20;
/// Blocks loaded by one operation.
const UNIT_BLOCKS: u64 = 64;
/// Reading ahead may have one part in `MEMORY_SHARE` of the memory under way.
const MEMORY_SHARE: u64 = 32;

/// Reads of one open LUN.
#[derive(Default)]
pub(super) struct Stream {
    /// The end of the last read.
    next: u64,
    /// Bytes that were read in order up to there.
    run: u64,
    /// The end of the blocks that were requested.
    ahead: u64,
}

/// Blocks to be loaded. They do not keep the LUN: a snapshot that nobody has open any more can be
/// renamed and deleted.
pub(super) struct Ahead {
    lun: Weak<Lun>,
    first: u64,
    count: u64,
}

impl Stream {
    /// Takes in a read. True if it continues a stream of reads in order.
    pub(super) fn advance(&mut self, offset: u64, length: u32) -> bool {
        let end = offset.saturating_add(u64::from(length));
        if offset != self.next {
            *self = Stream {
                next: end,
                run: 0,
                ahead: end,
            };
            return false;
        }
        self.next = end;
        self.run += u64::from(length);
        self.run >= STREAM_BYTES
    }
}

impl<O: Outside> Core<O> {
    /// Begins to load what will be read next.
    pub(super) fn look_ahead(&mut self, handle: u64) {
        let Some(OpenLun { lun, stream, .. }) = self.luns.get(&handle) else {
            return;
        };
        let (end, run) = (stream.next, stream.run);
        let from = stream.ahead.max(end).div_ceil(BLOCK);
        let horizon = (end + run.min(AHEAD_BYTES)).min(lun.size_bytes()) / BLOCK;
        let lun = lun.clone();
        let ahead = self.load_ahead(&lun, from, horizon);
        if let Some(open) = self.luns.get_mut(&handle) {
            open.stream.ahead = ahead * BLOCK;
        }
    }

    /// Loads blocks of an open LUN from block `first` on, as many as there is memory for, as if a
    /// client had read it in order up to there. For simulations, whose clients seldom do.
    pub fn look_over(&mut self, handle: LunHandle, first: u64) {
        if let Some(open) = self.luns.get(&handle.0) {
            let lun = open.lun.clone();
            self.load_ahead(&lun, first, lun.size_bytes() / BLOCK);
        }
    }

    /// Begins to load blocks of a LUN from block `from` up to a horizon, and returns the block that
    /// comes next.
    fn load_ahead(&mut self, lun: &Arc<Lun>, from: u64, horizon: u64) -> u64 {
        let mut from = from;
        let memory = self.shared.options.memory_bytes / MEMORY_SHARE / BLOCK;
        let most = memory / self.shared.options.reactors as u64;
        let unit = UNIT_BLOCKS.min(most / 2);
        // Read-ahead loads whole units, so that a stream of small reads does not cause small device
        // reads.
        while unit > 0 && from + unit <= horizon && self.ahead_blocks + unit <= most {
            self.ahead_blocks += unit;
            let id = self.add(Work::Ahead(Box::new(Ahead {
                lun: Arc::downgrade(lun),
                first: from,
                count: unit,
            })));
            self.enqueue(id);
            from += unit;
        }
        from
    }

    /// Notes regions that a client reads in order, so that they are put in order (H-16).
    fn note_scattered(&mut self, lun: &Lun, regions: &[u64]) {
        let (aggregate, now) = (&lun.volume.aggregate, self.outside.now());
        for index in regions {
            let region = Region {
                volume: lun.volume.id,
                lun: lun.file,
                index: *index,
            };
            if aggregate.scattered.note(region, now) {
                aggregate.space.become_hungry();
                self.outside.wake(aggregate.home);
            }
        }
    }

    /// Finds the blocks to load, which may wait for level-1 blocks, and starts loading them.
    pub(super) fn run_ahead(&mut self, id: usize) {
        let Work::Ahead(ahead) = &self.operations[id].work else {
            unreachable!("checked by the caller")
        };
        let (lun, first, count) = (ahead.lun.upgrade(), ahead.first, ahead.count);
        let Some(lun) = lun else {
            self.operations.remove(id);
            self.ahead_blocks -= count;
            return;
        };
        let aggregate = lun.volume.aggregate.clone();
        let mut wants = Vec::new();
        let mut load = LoadCx {
            aggregate: aggregate.id,
            redirects: &aggregate.redirects,
            volume: Some(lun.volume.followed()),
            cache: &self.shared.cache,
            pinned: &self.operations[id].pinned,
            wants: &mut wants,
        };
        let is_vain = lun.is_gone() || !aggregate.standing.is_readable();
        let outcome = if is_vain {
            Ok(Default::default())
        } else {
            let notes = self.shared.options.writes_after_read && lun.snapshot.is_none();
            missing(&mut load, &lun, (first, count), notes)
        };
        match outcome {
            Err(Stop::Load) => self.load(id, aggregate.id, wants),
            Ok((pointers, scattered)) => {
                self.operations.remove(id);
                self.note_scattered(&lun, &scattered);
                let started = self.load_for_nobody(aggregate.id, pointers);
                self.ahead_blocks -= count - started;
            }
            Err(_) => {
                self.operations.remove(id);
                self.ahead_blocks -= count;
            }
        }
    }
}

/// Returns committed blocks in a range that are not in the cache. If any are not and it `notes`
/// regions, also returns those that do not lie in order and whose middle is in the range.
fn missing(
    cx: &mut LoadCx<'_>,
    lun: &Lun,
    (first, count): (u64, u64),
    notes: bool,
) -> Result<(Vec<Pointer>, Vec<u64>), Stop> {
    let root = lun.root();
    let regions = first / SPAN..=(first + count - 1) / SPAN;
    let mut gather = Gather::default();
    let mut blocks = Vec::new();
    for region in regions {
        if let Some(Some(block)) = gather.add(root.level1(cx, Layer::Volume, region)) {
            blocks.push((region, block));
        }
    }
    gather.finish()?;
    let mut pointers = Vec::new();
    for (region, block) in &blocks {
        let slots = first.max(region * SPAN)..(first + count).min((region + 1) * SPAN);
        for leaf in slots {
            let pointer = Indirect(block).pointer(leaf % SPAN, Layer::Volume)?;
            if pointer.has_block() {
                pointers.push(pointer);
            }
        }
    }
    let absent = cx.missing(&pointers)?;
    if absent.is_empty() || !notes {
        return Ok((absent, Vec::new()));
    }
    let blocks_in_lun = lun.size_bytes() / BLOCK;
    let is_passed = |region: u64| {
        let (begin, end) = (region * SPAN, (region * SPAN + SPAN).min(blocks_in_lun));
        (first..first + count).contains(&begin.midpoint(end))
    };
    let scattered = blocks
        .iter()
        .filter(|(region, block)| is_passed(*region) && is_scattered(Indirect(block)));
    let scattered = scattered.map(|(region, _)| *region).collect();
    Ok((absent, scattered))
}

/// True if the leaves below a block do not lie in order, as far as its pointers know.
fn is_scattered(block: Indirect<'_>) -> bool {
    let pointers = (0..SPAN).filter_map(|slot| block.pointer(slot, Layer::Volume).ok());
    let places: Vec<Pvbn> = pointers
        .filter(Pointer::has_block)
        .map(|pointer| pointer.pvbn)
        .collect();
    order::is_worth_it(places.len() as u64, order::runs(places.into_iter()))
}
