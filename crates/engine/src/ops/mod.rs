//! Client operations: one file each. All run inside the stripe affinities they touch.
//!
//! Each has a load phase that may stop and a modify phase that cannot. None of them loads the path
//! to the blocks it changes: a write leaves its pages in the overlay and the consistency point
//! changes the tree, so a write is as fast as memory.

pub(crate) mod compare;
pub(crate) mod discard;
pub(crate) mod extents;
pub(crate) mod flush;
pub(crate) mod part;
pub(crate) mod read;
pub(crate) mod write;
pub(crate) mod zeroes;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use everglade_affinity::Permit;
use everglade_env::lock::MutexGuard;
use everglade_env::{BLOCK_SIZE, PageRef};
use everglade_format::{CpNumber, Indirect, Inode, Layer, Pointer, SPAN};
use everglade_journal::{Action, Entry};
use everglade_target::{Error, Op, ReadSpan, Reply};

use crate::pool::aggregate::Aggregate;
use crate::pool::log::Log;
use crate::pool::overlay::{Change, LeafContent, Overlay};
use crate::pool::volume::{Lun, STRIPE_BLOCKS, StripeState};
use crate::read::load::{BlockName, LoadCx, Pinned, Stop};
use crate::read::shortcuts::Shortcuts;
use crate::read::walk::Stopped;

const BLOCK: u64 = BLOCK_SIZE as u64;

/// The origin of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A session, under this token.
    Session(u64),
    /// The replay of the journal, run by this operation: admitted whatever it costs, since it was
    /// before, and not logged again.
    Replay(usize),
}

/// The condition under which an operation is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Durability {
    /// The commit of this consistency point is enough.
    pub(crate) cp: CpNumber,
    /// So is a journal that is durable up to here,
    pub(crate) sequence: u64,
    /// once this consistency point is committed: LUNs that operations in the journal are on came
    /// with it.
    pub(crate) topology: CpNumber,
}

impl Durability {
    /// Returns a durability that only a commit can give.
    pub(crate) fn by_commit(cp: CpNumber) -> Durability {
        Durability {
            cp,
            sequence: u64::MAX,
            topology: cp,
        }
    }

    pub(crate) fn is_met(&self, aggregate: &Aggregate) -> bool {
        let committed = aggregate.committed();
        let is_logged = || {
            let log = aggregate.log.as_ref();
            committed >= self.topology && log.is_some_and(|log| log.durable() >= self.sequence)
        };
        committed >= self.cp || is_logged()
    }
}

/// An operation of a client, on its way.
pub(crate) struct Client {
    pub(crate) lun: Arc<Lun>,
    pub(crate) op: Op,
    /// The snapshot that [`Op::Changes`] compares with.
    pub(crate) since: Option<Arc<Lun>>,
    pub(crate) origin: Origin,
    /// First byte not yet processed, for operations done stripe by stripe.
    pub(crate) progress: Option<u64>,
    /// The last consistency point it joined.
    pub(crate) joined: Option<CpNumber>,
    /// The last sequence number it took in the journal.
    pub(crate) logged: Option<u64>,
    /// Leaves where it left fragments, to be merged in the background.
    pub(crate) fragments: Vec<u64>,
    /// A read that only waits for data.
    pub(crate) rest: Option<Box<read::Rest>>,
    /// Extents with blocks, as far as they were examined.
    pub(crate) survey: extents::Survey,
    /// The committed consistency point when the operation last started from scratch.
    pub(crate) seen: CpNumber,
    pub(crate) attempts: u32,
    /// Number of waits for space so far.
    pub(crate) space_waits: u32,
}

/// How an operation ended, if it did not stop.
pub(crate) enum RunEnd {
    Done(Reply),
    /// Run again: the next stripe.
    Again,
    /// Done when it is durable.
    Durable(Durability),
}

/// The state that an operation works with while it runs.
pub(crate) struct OpCx<'a, 'b> {
    pub(crate) load: &'a mut LoadCx<'b>,
    pub(crate) permit: &'a Permit,
    pub(crate) shortcuts: &'a mut Shortcuts,
}

impl OpCx<'_, '_> {
    /// The committed level-1 block of a region, or nothing if the region is a hole.
    pub(crate) fn level1(&mut self, lun: &Lun, region: u64) -> Result<Option<PageRef>, Stop> {
        let root = lun.root();
        if let Some(block) = self.shortcuts.find(root, region) {
            return Ok(Some(block.clone()));
        }
        let found = root.find_level1(self.load, Layer::Volume, region);
        let found = found.map_err(|Stopped { level, stop }| {
            let index = region / Inode::reach(level - 1);
            stop.at(block_name(lun, level, index), Pointer::HOLE)
        })?;
        if let Some(block) = &found {
            self.shortcuts.remember(root, region, block);
        }
        Ok(found)
    }
}

impl Client {
    /// An operation that has not run yet.
    pub(crate) fn new(lun: Arc<Lun>, op: Op, origin: Origin) -> Client {
        let seen = lun.volume.aggregate.committed();
        Client {
            lun,
            op,
            since: None,
            origin,
            progress: None,
            joined: None,
            logged: None,
            fragments: Vec::new(),
            rest: None,
            survey: extents::Survey::default(),
            seen,
            attempts: 0,
            space_waits: 0,
        }
    }

    /// Bytes of the LUN that the next run touches.
    pub(crate) fn range(&self) -> Range<u64> {
        let (from, end) = match &self.op {
            Op::Read { offset, length } => (*offset, offset.saturating_add(u64::from(*length))),
            Op::Write { data, .. } | Op::CompareAndWrite { data, .. } => (
                data.offset,
                data.offset.saturating_add(u64::from(data.length)),
            ),
            Op::Flush => (0, 0),
            Op::Extents { offset, length, .. } | Op::Changes { offset, length, .. } => {
                let stripe = STRIPE_BLOCKS * BLOCK;
                let end = offset.saturating_add(*length);
                let from = self.progress.unwrap_or(*offset);
                (from, end.min((from / stripe + 1) * stripe))
            }
            Op::Discard { offset, length, .. } | Op::WriteZeroes { offset, length, .. } => {
                let end = offset.saturating_add(*length);
                let from = self.progress.unwrap_or(*offset);
                let stripe = STRIPE_BLOCKS * BLOCK;
                if *length <= u64::from(everglade_target::OP_BYTES_MAX) {
                    // Atomic for readers and for crashes, like a write (K-01): at most two stripes.
                    (from, end)
                } else {
                    (from, end.min((from / stripe + 1) * stripe))
                }
            }
        };
        from..end
    }

    /// Returns the first and last file stripe that the next run touches.
    pub(crate) fn stripes(&self) -> Option<(u64, u64)> {
        let range = self.range();
        let stripe = STRIPE_BLOCKS * BLOCK;
        (!range.is_empty()).then(|| (range.start / stripe, (range.end - 1) / stripe))
    }

    /// True if it may change the LUN.
    pub(crate) fn changes(&self) -> bool {
        !matches!(
            self.op,
            Op::Read { .. } | Op::Flush | Op::Extents { .. } | Op::Changes { .. }
        )
    }

    /// Refuses what can never be done.
    pub(crate) fn validate(&self) -> Result<(), Error> {
        if self.lun.is_gone() {
            return Err(Error::Gone);
        }
        if self.changes() && self.lun.snapshot.is_some() {
            return Err(Error::ReadOnly);
        }
        let (offset, length, bounded) = match &self.op {
            Op::Read { offset, length } => return validate_read(&self.lun, *offset, *length),
            Op::Write { data, .. } | Op::CompareAndWrite { data, .. } => {
                (data.offset, u64::from(data.length), true)
            }
            Op::Flush => return Ok(()),
            Op::Discard { offset, length, .. } | Op::WriteZeroes { offset, length, .. } => {
                (*offset, *length, false)
            }
            Op::Extents { length: 0, .. } | Op::Changes { length: 0, .. } => {
                return Err(Error::Invalid("the range is empty"));
            }
            Op::Changes { offset, length, .. } => {
                let since = self.since.as_ref().ok_or(Error::Gone)?;
                // Elsewhere the same vvbn is another block.
                if !Arc::ptr_eq(&since.volume, &self.lun.volume) {
                    return Err(Error::Invalid("compare with an image in the same volume"));
                }
                (*offset, *length, false)
            }
            Op::Extents { offset, length, .. } => (*offset, *length, false),
        };
        if bounded {
            validate_length(length)?;
        }
        validate_end(&self.lun, offset, length)?;
        if let Op::CompareAndWrite { compare, data, .. } = &self.op {
            compare::validate(compare, data)?;
        }
        if let Op::Write { data, .. } | Op::CompareAndWrite { data, .. } = &self.op {
            let blocks = everglade_target::span::block_count(offset, length);
            if data.pages.len() as u64 != blocks {
                return Err(Error::Invalid("a write has one page for each block"));
            }
        }
        Ok(())
    }

    /// Bytes of the LUN that cannot be read, as the operation found: those of the damaged block, or
    /// those of the operation if the block is not known.
    pub(crate) fn unreadable(&self, stop: &Stop) -> Range<u64> {
        let name = match stop {
            Stop::Damaged(damaged) => damaged.name,
            _ => None,
        };
        let own = (Some(self.lun.volume.id), self.lun.file);
        let Some(name) = name.filter(|name| (name.volume, name.file) == own) else {
            return self.range();
        };
        let reach = Inode::reach(name.level);
        let bytes = |index: u64| index.saturating_mul(reach).saturating_mul(BLOCK);
        let size = self.lun.size_bytes();
        bytes(name.index).min(size)..bytes(name.index.saturating_add(1)).min(size)
    }

    /// Counts the operation among those that found no space.
    pub(crate) fn note_refused(&self) {
        let refused = &self.lun.volume.aggregate.refused;
        refused.note(&self.lun.full_name(), self.range().start);
    }

    /// Counts the bytes read or written.
    pub(crate) fn count(&self) {
        let traffic = &self.lun.volume.traffic;
        match &self.op {
            Op::Read { length, .. } => traffic.note_read(*length),
            Op::Write { data, .. } | Op::CompareAndWrite { data, .. } => {
                traffic.note_written(data.length);
            }
            _ => {}
        }
    }

    /// Returns the result of a read if all the awaited pages have arrived and the places are still
    /// valid.
    pub(crate) fn complete_read(&mut self, pinned: &Pinned) -> Option<Reply> {
        let rest = self.rest.take()?;
        let Op::Read { offset, length } = self.op else {
            unreachable!("reads leave a rest")
        };
        let pages = rest.complete(self.lun.volume.aggregate.committed(), pinned)?;
        Some(Reply::Data(ReadSpan {
            offset,
            length,
            pages,
        }))
    }

    /// Runs the operation inside its stripes.
    pub(crate) fn run(&mut self, cx: &mut OpCx<'_, '_>) -> Result<RunEnd, Stop> {
        self.validate().map_err(Stop::Failed)?;
        // A restore never completes in a halted aggregate: the former image stays.
        if self.lun.is_paused() && !self.lun.volume.aggregate.is_halted() {
            return Err(Stop::Commit);
        }
        if self.range().is_empty() && !matches!(self.op, Op::Flush) {
            return Ok(RunEnd::Done(Reply::Done));
        }
        match &mut self.op {
            Op::Read { offset, length } => {
                read::run(cx, &self.lun, (*offset, *length), &mut self.rest)
            }
            Op::Write { .. } => write::run(cx, self),
            Op::CompareAndWrite { .. } => compare::run(cx, self),
            Op::Flush => Ok(flush::run(&self.lun)),
            Op::Discard { .. } => discard::run(cx, self),
            Op::WriteZeroes { .. } => zeroes::run(cx, self),
            Op::Extents { .. } | Op::Changes { .. } => extents::run(cx, self),
        }
    }

    /// The outcome of an operation that is to change something. If it found all as it should be,
    /// that may be the work of an operation that is not durable yet.
    pub(crate) fn changed(&self, durable: bool) -> RunEnd {
        let always = self.lun.volume.is_always.load(Ordering::Relaxed);
        if !(durable || always) || matches!(self.origin, Origin::Replay(_)) {
            return RunEnd::Done(Reply::Done);
        }
        // In the last of several pieces, the change may have been made already, by an operation
        // that is not durable.
        let is_one_piece = self.progress.is_none();
        match (self.joined, self.logged) {
            (Some(cp), Some(sequence)) if is_one_piece => RunEnd::Durable(Durability {
                cp,
                sequence,
                topology: self.lun.volume.aggregate.topology(),
            }),
            (Some(cp), None) if is_one_piece => RunEnd::Durable(Durability::by_commit(cp)),
            _ => flush::run(&self.lun),
        }
    }

    /// Modify phase: queues the change for the journal.
    pub(crate) fn log(&mut self, offset: u64, length: u64, action: Action) {
        let volume = &self.lun.volume;
        if let (Origin::Session(_), Some(log)) = (self.origin, &volume.aggregate.log) {
            let entry = Entry {
                volume: volume.id,
                file: self.lun.file,
                offset,
                length,
                action,
            };
            self.logged = Some(log.push(entry));
        }
    }
}

/// Refuses a read that can never be done.
pub(crate) fn validate_read(lun: &Lun, offset: u64, length: u32) -> Result<(), Error> {
    if lun.is_gone() {
        return Err(Error::Gone);
    }
    validate_length(u64::from(length))?;
    validate_end(lun, offset, u64::from(length))
}

fn validate_length(length: u64) -> Result<(), Error> {
    if length == 0 {
        return Err(Error::Invalid("the range is empty"));
    }
    if length > u64::from(everglade_target::OP_BYTES_MAX) {
        return Err(Error::Invalid("an operation covers at most 1 MiB"));
    }
    Ok(())
}

fn validate_end(lun: &Lun, offset: u64, length: u64) -> Result<(), Error> {
    let end = offset.checked_add(length);
    if end.is_none_or(|end| end > lun.size_bytes()) {
        return Err(Error::Invalid("the range ends beyond the LUN"));
    }
    Ok(())
}

/// Returns the clients' changes in a leaf's stripe.
fn stripe_of<'a>(cx: &'a OpCx<'_, '_>, lun: &'a Lun, leaf: u64) -> MutexGuard<'a, StripeState> {
    let volume = &lun.volume;
    volume.stripes[volume.stripe_index(lun.file, leaf / STRIPE_BLOCKS)].get(cx.permit)
}

/// What the active overlay has for a leaf.
pub(crate) fn find_in_active(cx: &OpCx<'_, '_>, lun: &Lun, leaf: u64) -> LeafContent {
    stripe_of(cx, lun, leaf).active.find(lun.file, leaf)
}

/// Newest content of a leaf as far as overlays know; a fragment is over whatever [`content`] finds
/// below.
pub(crate) fn find_in_overlays(cx: &OpCx<'_, '_>, lun: &Lun, leaf: u64) -> LeafContent {
    if lun.snapshot.is_some() {
        return LeafContent::Older;
    }
    let state = stripe_of(cx, lun, leaf);
    match state.active.find(lun.file, leaf) {
        LeafContent::Older => state.find_in_frozen(lun.file, leaf),
        found => found,
    }
}

/// True if an overlay has anything for a region: leaves `region × 255 …`.
pub(crate) fn is_mentioned(cx: &OpCx<'_, '_>, lun: &Lun, region: u64) -> bool {
    if lun.snapshot.is_some() {
        return false;
    }
    let volume = &lun.volume;
    let index = volume.stripe_index(lun.file, region * SPAN / STRIPE_BLOCKS);
    if !volume.has_overlay(index, cx.permit) {
        return false;
    }
    let state = stripe_of(cx, lun, region * SPAN);
    let is_in = |overlay: &Overlay| overlay.mentions(lun.file, region);
    is_in(&state.active) || state.frozen.as_ref().is_some_and(|frozen| is_in(frozen))
}

/// The committed pointer to a leaf.
pub(crate) fn committed_pointer(
    cx: &mut OpCx<'_, '_>,
    lun: &Lun,
    leaf: u64,
) -> Result<Pointer, Stop> {
    let (region, slot) = (leaf / SPAN, leaf % SPAN);
    // A known block need not be kept.
    if let Some(block) = cx.shortcuts.find(lun.root(), region) {
        return Ok(Indirect(block).pointer(slot, Layer::Volume)?);
    }
    match cx.level1(lun, region)? {
        Some(block) => Ok(Indirect(&block).pointer(slot, Layer::Volume)?),
        None => Ok(Pointer::HOLE),
    }
}

/// The present content of a leaf; nothing for a hole.
pub(crate) fn content(
    cx: &mut OpCx<'_, '_>,
    lun: &Lun,
    leaf: u64,
) -> Result<Option<PageRef>, Stop> {
    let state = stripe_of(cx, lun, leaf);
    let active = state.active.find(lun.file, leaf);
    let frozen = match active {
        LeafContent::Fragment(_) | LeafContent::Older => state.find_in_frozen(lun.file, leaf),
        LeafContent::Data(_) | LeafContent::Hole => LeafContent::Older,
    };
    drop(state);
    over(active, || over(frozen, || committed_content(cx, lun, leaf)))
}

/// Returns an overlay's content of a leaf, merged with the content below if necessary.
fn over(
    found: LeafContent,
    below: impl FnOnce() -> Result<Option<PageRef>, Stop>,
) -> Result<Option<PageRef>, Stop> {
    match found {
        LeafContent::Data(page) => Ok(Some(page)),
        LeafContent::Hole => Ok(None),
        LeafContent::Older => below(),
        LeafContent::Fragment(fragment) => {
            let base = below()?.unwrap_or_else(PageRef::zero);
            Ok(Some(fragment.over(&base)))
        }
    }
}

fn committed_content(cx: &mut OpCx<'_, '_>, lun: &Lun, leaf: u64) -> Result<Option<PageRef>, Stop> {
    let pointer = committed_pointer(cx, lun, leaf)?;
    if pointer.is_hole() {
        return Ok(None);
    }
    let page = cx.load.data(pointer).map(Some);
    page.map_err(|stop| stop.at(block_name(lun, 0, leaf), pointer))
}

/// The name of a block of a LUN's tree, for messages about damage.
pub(crate) fn block_name(lun: &Lun, level: u8, index: u64) -> BlockName {
    BlockName {
        volume: Some(lun.volume.id),
        file: lun.file,
        level,
        index,
    }
}

/// Modify phase: leaves a change in the active overlay, and counts it.
pub(crate) fn leave(cx: &OpCx<'_, '_>, lun: &Lun, cp: CpNumber, leaf: u64, change: Change) {
    let volume = &lun.volume;
    let index = volume.stripe_index(lun.file, leaf / STRIPE_BLOCKS);
    let mut state = volume.stripes[index].get(cx.permit);
    let growth = state.active.insert(lun.file, leaf, change);
    drop(state);
    count_dirty(lun, index, cp, growth.pages);
}

/// Modify phase: leaves whole blocks from `first` on in the active overlay, and counts them.
pub(crate) fn leave_all(
    cx: &OpCx<'_, '_>,
    lun: &Lun,
    cp: CpNumber,
    first: u64,
    pages: impl ExactSizeIterator<Item = PageRef>,
) {
    let volume = &lun.volume;
    let end = first + pages.len() as u64;
    let mut changes = pages.map(Change::Data);
    for leaves in by_stripe(first..end) {
        let index = volume.stripe_index(lun.file, leaves.start / STRIPE_BLOCKS);
        let mut state = volume.stripes[index].get(cx.permit);
        let growth = state.active.insert_all(lun.file, leaves, &mut changes);
        drop(state);
        count_dirty(lun, index, cp, growth.pages);
    }
}

/// Leaves that follow each other, cut where file stripes begin.
fn by_stripe(leaves: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let stripes = leaves.start / STRIPE_BLOCKS..leaves.end.div_ceil(STRIPE_BLOCKS);
    let parts = stripes.map(move |stripe| {
        let from = leaves.start.max(stripe * STRIPE_BLOCKS);
        from..leaves.end.min((stripe + 1) * STRIPE_BLOCKS)
    });
    parts.filter(|leaves| !leaves.is_empty())
}

/// Returns the number of leaves whose newest content is in the active overlay, so that they were
/// charged already.
fn charged_among(cx: &OpCx<'_, '_>, lun: &Lun, leaves: Range<u64>) -> u64 {
    let blocks = by_stripe(leaves).map(|leaves| {
        let state = stripe_of(cx, lun, leaves.start);
        state.active.blocks_among(lun.file, leaves)
    });
    blocks.sum()
}

/// Counts what was left in the active overlay of a stripe.
pub(crate) fn count_dirty(lun: &Lun, stripe: usize, cp: CpNumber, pages: i64) {
    let volume = &lun.volume;
    volume
        .dirty_stripes
        .fetch_or(1 << stripe, std::sync::atomic::Ordering::AcqRel);
    let is_half = volume.aggregate.space.note_dirty(pages, cp);
    if volume.aggregate.note_change() || is_half {
        // The home reactor may sleep without a deadline, or with one that is too late now.
        volume.aggregate.raise_alarm();
    }
}

/// Waits while the aggregate has all the dirty memory it may have, in total or for now. A halted
/// aggregate does not wait: no consistency point will clean anything, and the journal bounds the
/// operations still to replay.
pub(crate) fn throttle(lun: &Lun, pages: usize) -> Result<(), Stop> {
    let aggregate = &lun.volume.aggregate;
    let pages = i64::try_from(pages).expect("some hundred at most");
    let dirty = aggregate.space.dirty();
    let is_beyond = dirty > 0 && dirty + pages > aggregate.space.dirty_limit();
    if is_beyond && !aggregate.is_halted() {
        aggregate.want_cp(aggregate.joining());
        return Err(Stop::Commit);
    }
    if !aggregate.space.has_room(pages, aggregate.joining()) && !aggregate.is_halted() {
        return Err(Stop::Commit);
    }
    if aggregate
        .log
        .as_ref()
        .is_some_and(Log::has_too_much_waiting)
    {
        return Err(Stop::Log);
    }
    Ok(())
}
