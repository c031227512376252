//! The reference model: what a set of LUNs may answer now, and what a crash may leave of them.
//!
//! The driver reports every operation to the model twice, at its begin and its end, stamped with a
//! [`Moment`]. For each block the model keeps its *versions* in order: its initial content, then
//! one per operation on it. A version has one possible content, or several where an outcome is
//! uncertain (an operation failed half-way; a discard that may do nothing when the pool is full).
//!
//! # What may be read (contract 1 and 2 of `target`)
//!
//! A read returns, block by block, the last version acknowledged before it began or a later one;
//! and of each operation it overlaps it sees all or nothing (`read`).
//!
//! # What a crash may leave (contract 3, docs/design/design.md §5)
//!
//! 1. *Durable*: no block is older than its last durable version.
//! 2. *Whole*: an operation of at most 1 MiB survives in all of its blocks or in none. Longer ones
//!    may survive in part, as they may be seen in part while they are under way
//!    (docs/design/design.md §5).
//! 3. *Prefix*: if an operation survives, so does everything acknowledged before it was issued, in
//!    the whole aggregate: a consistency point is a moment, not a choice.
//! 4. *Consistency point*: if operations are tagged with the one they joined, and recovery says
//!    which one it found, exactly the operations up to it survive.
//!
//! An operation is *seen* at a block if every version that fits the block's content is its own or
//! later, *unseen* if every one is earlier; contents that fit both prove nothing (`recovery`). So
//! there are no false alarms, and with contents that differ from write to write hardly any misses.
//!
//! The caller keeps operations that change the same block from being under way together
//! ([`Model::is_busy`]); reads may overlap anything.

mod history;
mod lifecycle;
mod read;
mod recovery;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use everglade_env::BLOCK_SIZE;
use everglade_target::OP_BYTES_MAX;

use history::{BlockHistory, Content};
pub use read::ReadId;
pub use recovery::Recovery;

const BLOCK: u64 = BLOCK_SIZE as u64;

/// When something happened: its place in the order of all events of the model, and how many device
/// writes the world had counted, which relates it to power cuts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    pub(crate) order: u64,
    pub(crate) writes: u64,
}

/// An operation that changes something or makes something durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OpId(pub usize);

/// A volume of the model. Names may be used again, ids are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VolumeId(pub usize);

/// A LUN of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LunId(pub usize);

/// The outcome of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpEnd {
    /// It was acknowledged.
    Done {
        /// The consistency point it joined, if the system tells.
        cp: Option<u64>,
    },
    /// The operation was refused and changed nothing.
    Refused,
    /// The operation failed; it happened whole or not at all.
    Failed,
}

impl OpEnd {
    /// Acknowledged, consistency point unknown.
    pub const DONE: OpEnd = OpEnd::Done { cp: None };
}

/// The promise that was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A read returned what no read may return.
    ReadAfterWrite,
    /// A read saw a part of an operation.
    TornRead,
    /// A block has content that it never could have.
    Foreign,
    /// Something durable is gone.
    Durable,
    /// A part of an operation survived a crash.
    Whole,
    /// An operation survived a crash and an earlier one did not.
    Prefix,
    /// The surviving state does not belong to the recovered consistency point.
    ConsistencyPoint,
    /// A block answers with an error and is not damaged.
    Unreadable,
    /// LUNs or volumes exist that should not, or the reverse, or have the wrong size.
    Exports,
}

/// A broken promise, and how it shows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{rule:?}: {detail}")]
pub struct Violation {
    /// The broken promise.
    pub rule: Rule,
    /// The place and the difference.
    pub detail: String,
}

impl Violation {
    fn new(rule: Rule, detail: String) -> Violation {
        Violation { rule, detail }
    }
}

/// The kind of an operation, for messages.
#[derive(Clone, Debug)]
enum Deed {
    Write(LunId, Range<u64>),
    Discard(LunId, Range<u64>),
    Zeroes(LunId, Range<u64>),
    Flush,
    ConsistencyPoint,
    CreateVolume(VolumeId),
    DeleteVolume(VolumeId),
    CreateLun(LunId),
    DeleteLun(LunId),
    Grow(LunId, u64),
    Shrink(LunId, u64),
}

impl Deed {
    fn is_of_a_client(&self) -> bool {
        matches!(
            self,
            Deed::Write(..) | Deed::Discard(..) | Deed::Zeroes(..) | Deed::Flush
        )
    }

    /// Bytes that a client's operation changes.
    fn length(&self) -> u64 {
        match self {
            Deed::Write(_, range) | Deed::Discard(_, range) | Deed::Zeroes(_, range) => {
                range.end - range.start
            }
            _ => 0,
        }
    }
}

#[derive(Clone, Debug)]
struct OpRecord {
    what: Deed,
    /// Index of the aggregate; consistency points of different aggregates have nothing to do with
    /// each other.
    aggregate: u32,
    issued: Moment,
    acked: Option<Moment>,
    /// Durable at its acknowledgement.
    durable: bool,
    /// True if the operation is too long to be atomic: parts of it may be seen, and survive, alone.
    loose: bool,
    cp: Option<u64>,
    in_flight: bool,
    /// True if the operation builds on a damaged block: an error is a valid answer.
    may_fail: bool,
}

/// "Everything of this aggregate acknowledged before `covers` is durable since `since`."
#[derive(Clone, Debug)]
struct Mark {
    aggregate: u32,
    /// True if a consistency point made the operation durable, with or without a log.
    by_cp: bool,
    covers: Moment,
    since: Moment,
}

#[derive(Clone, Debug)]
struct Volume {
    name: String,
    aggregate: u32,
    created: Option<OpId>,
    deletes: Vec<OpId>,
}

#[derive(Clone, Debug)]
struct Lun {
    name: String,
    volume: VolumeId,
    created: Option<OpId>,
    /// Its own deletion and those of its volume.
    deletes: Vec<OpId>,
    /// Initial size, then one size per growth or shrinkage.
    sizes: Vec<(Option<OpId>, u64)>,
    blocks: BTreeMap<u64, BlockHistory>,
    reads_in_flight: usize,
}

/// The model of everything stored. See the head of this module.
#[derive(Clone, Debug, Default)]
pub struct Model {
    order: u64,
    writes: u64,
    ops: Vec<OpRecord>,
    marks: Vec<Mark>,
    volumes: Vec<Volume>,
    luns: Vec<Lun>,
    reads: BTreeMap<ReadId, read::Read>,
    /// Blocks being changed, by operation.
    busy: BTreeMap<OpId, (LunId, Range<u64>)>,
}

impl Model {
    /// Tells how many device writes the world has counted. To be called before telling events.
    pub fn set_writes(&mut self, writes: u64) {
        assert!(writes >= self.writes, "device writes are counted up");
        self.writes = writes;
    }

    fn moment(&mut self) -> Moment {
        self.order += 1;
        Moment {
            order: self.order,
            writes: self.writes,
        }
    }

    /// The operation that will be told next.
    #[must_use]
    pub fn next_op(&self) -> OpId {
        OpId(self.ops.len())
    }

    /// Returns the number of events before write `at`: operations issued and ended, marks. Two
    /// moments with the same numbers allow the same states.
    #[must_use]
    pub fn moment_at(&self, at: u64) -> [usize; 3] {
        let before = |moment: &Moment| moment.writes < at;
        [
            self.ops.iter().filter(|op| before(&op.issued)).count(),
            self.ops
                .iter()
                .filter(|op| op.acked.as_ref().is_some_and(before))
                .count(),
            self.marks.iter().filter(|mark| before(&mark.since)).count(),
        ]
    }

    /// True if some operation is changing one of the blocks of the range.
    #[must_use]
    pub fn is_busy(&self, lun: LunId, offset: u64, length: u64) -> bool {
        let range = blocks_of(offset, length);
        let mut busy = self.busy.values();
        busy.any(|(other, blocks)| {
            *other == lun && blocks.start < range.end && range.start < blocks.end
        })
    }

    /// True if a read of the LUN is under way.
    #[must_use]
    pub fn is_read(&self, lun: LunId) -> bool {
        self.luns[lun.0].reads_in_flight > 0
    }

    /// Operations and reads under way.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.reads.len() + self.ops.iter().filter(|op| op.in_flight).count()
    }

    /// A write was submitted.
    pub fn begin_write(&mut self, lun: LunId, offset: u64, bytes: &[u8], durable: bool) -> OpId {
        let length = bytes.len() as u64;
        let op = self.begin(Deed::Write(lun, offset..offset + length), lun, durable);
        self.occupy(op, lun, blocks_of(offset, length));
        let mut may_fail = false;
        let history = &mut self.luns[lun.0].blocks;
        for block in blocks_of(offset, length) {
            let from = offset.max(block * BLOCK);
            let to = (offset + length).min((block + 1) * BLOCK);
            let piece = &bytes[small(from - offset)..small(to - offset)];
            let at = small(from - block * BLOCK);
            let versions = history.entry(block).or_default();
            let contents = versions
                .last()
                .iter()
                .map(|old| old.overwritten(at, piece))
                .collect();
            versions.push(op, contents, piece.len() == BLOCK_SIZE);
            may_fail |= versions.is_marked(versions.versions().len() - 1, |_| true);
        }
        self.ops[op.0].may_fail = may_fail;
        op
    }

    /// A discard was submitted. It takes whole blocks and leaves the edges as they are. With
    /// `maybe` the system may choose to do nothing, block by block.
    pub fn begin_discard(
        &mut self,
        lun: LunId,
        offset: u64,
        length: u64,
        durable: bool,
        maybe: bool,
    ) -> OpId {
        let op = self.begin(Deed::Discard(lun, offset..offset + length), lun, durable);
        let whole = offset.div_ceil(BLOCK)..((offset + length) / BLOCK).max(offset.div_ceil(BLOCK));
        self.occupy(op, lun, whole.clone());
        for (_, versions) in self.luns[lun.0].blocks.range_mut(whole) {
            let mut contents = vec![Content::zero()];
            if maybe {
                contents.extend(versions.last().iter().cloned());
            }
            versions.push(op, contents, !maybe);
        }
        op
    }

    /// A write of zeroes was submitted.
    pub fn begin_zeroes(&mut self, lun: LunId, offset: u64, length: u64, durable: bool) -> OpId {
        let op = self.begin(Deed::Zeroes(lun, offset..offset + length), lun, durable);
        let range = blocks_of(offset, length);
        self.occupy(op, lun, range.clone());
        let mut may_fail = false;
        for (&block, versions) in self.luns[lun.0].blocks.range_mut(range) {
            let from = offset.max(block * BLOCK);
            let to = (offset + length).min((block + 1) * BLOCK);
            let zeroes = vec![0; small(to - from)];
            let at = small(from - block * BLOCK);
            let contents = versions
                .last()
                .iter()
                .map(|old| old.overwritten(at, &zeroes))
                .collect();
            versions.push(op, contents, zeroes.len() == BLOCK_SIZE);
            may_fail |= versions.is_marked(versions.versions().len() - 1, |_| true);
        }
        self.ops[op.0].may_fail = may_fail;
        op
    }

    /// A flush was submitted.
    pub fn begin_flush(&mut self, aggregate: u32) -> OpId {
        self.record(Deed::Flush, aggregate, false)
    }

    /// The request of a consistency point was submitted.
    pub fn begin_cp(&mut self, aggregate: u32) -> OpId {
        self.record(Deed::ConsistencyPoint, aggregate, false)
    }

    /// An operation ended.
    pub fn end(&mut self, op: OpId, outcome: OpEnd) {
        let now = self.moment();
        let record = &mut self.ops[op.0];
        assert!(record.in_flight, "{op:?} ended twice");
        record.in_flight = false;
        let is_loose = record.loose;
        if let OpEnd::Done { cp } = outcome {
            record.acked = Some(now);
            record.cp = cp;
            if let Deed::Flush | Deed::ConsistencyPoint = record.what {
                let mark = Mark {
                    by_cp: matches!(record.what, Deed::ConsistencyPoint),
                    aggregate: record.aggregate,
                    covers: record.issued,
                    since: now,
                };
                self.marks.push(mark);
            }
        }
        if let Some((lun, blocks)) = self.busy.remove(&op) {
            let lun = &mut self.luns[lun.0];
            let quiet = lun.reads_in_flight == 0;
            for (_, versions) in lun.blocks.range_mut(blocks) {
                match outcome {
                    OpEnd::Done { .. } if quiet => versions.settle(op),
                    OpEnd::Done { .. } => {}
                    OpEnd::Refused if !is_loose => versions.withdraw(op),
                    OpEnd::Refused | OpEnd::Failed => versions.doubt(op),
                }
            }
        }
        if outcome == OpEnd::Refused {
            self.withdraw_lifecycle(op);
        }
    }

    fn begin(&mut self, what: Deed, lun: LunId, durable: bool) -> OpId {
        let aggregate = self.volumes[self.luns[lun.0].volume.0].aggregate;
        self.record(what, aggregate, durable)
    }

    fn record(&mut self, what: Deed, aggregate: u32, durable: bool) -> OpId {
        let issued = self.moment();
        let record = OpRecord {
            aggregate,
            issued,
            acked: None,
            durable,
            loose: what.length() > u64::from(OP_BYTES_MAX),
            what,
            cp: None,
            in_flight: true,
            may_fail: false,
        };
        self.ops.push(record);
        OpId(self.ops.len() - 1)
    }

    fn occupy(&mut self, op: OpId, lun: LunId, blocks: Range<u64>) {
        let clash = self.busy.values().any(|(other, range)| {
            *other == lun && range.start < blocks.end && blocks.start < range.end
        });
        assert!(
            !clash,
            "two operations change the same block at the same time"
        );
        self.busy.insert(op, (lun, blocks));
    }

    /// The block that holds this block of a LUN is damaged: until it is written again it may answer
    /// with an error, and with nothing else.
    pub fn mark(&mut self, lun: LunId, block: u64) {
        self.luns[lun.0].blocks.entry(block).or_default().mark();
    }

    /// True if `op` may fail because of damage.
    pub(crate) fn may_fail(&self, op: OpId) -> bool {
        self.ops[op.0].may_fail
    }

    pub(crate) fn is_discard(&self, op: OpId) -> bool {
        matches!(self.ops[op.0].what, Deed::Discard(..))
    }

    pub(crate) fn describe(&self, op: OpId) -> impl fmt::Display {
        let record = &self.ops[op.0];
        let lun = |lun: &LunId| self.luns[lun.0].name.clone();
        let what = match &record.what {
            Deed::Write(l, range) => format!("write {} bytes {range:?}", lun(l)),
            Deed::Discard(l, range) => format!("discard {} bytes {range:?}", lun(l)),
            Deed::Zeroes(l, range) => format!("write zeroes {} bytes {range:?}", lun(l)),
            Deed::Flush => "flush".to_owned(),
            Deed::ConsistencyPoint => "consistency point".to_owned(),
            Deed::CreateVolume(v) => format!("create volume {}", self.volumes[v.0].name),
            Deed::DeleteVolume(v) => format!("delete volume {}", self.volumes[v.0].name),
            Deed::CreateLun(l) => format!("create LUN {}", lun(l)),
            Deed::DeleteLun(l) => format!("delete LUN {}", lun(l)),
            Deed::Grow(l, size) => format!("grow LUN {} to {size}", lun(l)),
            Deed::Shrink(l, size) => format!("shrink LUN {} to {size}", lun(l)),
        };
        let acked = record.acked.map_or("never".to_owned(), |acked| {
            format!("at {} with {} device writes", acked.order, acked.writes)
        });
        format!(
            "#{} {what} (issued at {} with {} device writes, acknowledged {acked}{})",
            op.0,
            record.issued.order,
            record.issued.writes,
            record
                .cp
                .map_or(String::new(), |cp| format!(", consistency point {cp}"))
        )
    }
}

/// The blocks a range of bytes touches.
fn blocks_of(offset: u64, length: u64) -> Range<u64> {
    let end = offset + length;
    if length == 0 {
        0..0
    } else {
        offset / BLOCK..end.div_ceil(BLOCK)
    }
}

/// A number of bytes inside one operation.
fn small(bytes: u64) -> usize {
    usize::try_from(bytes).expect("an operation fits into memory")
}
