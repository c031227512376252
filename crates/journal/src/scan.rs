//! Reading a journal back: the longest gapless prefix from a superblock's position on (C-08).
//!
//! ```text
//! between records ──header that continues──▶ in a record ──last page──▶ between records
//!        │                                       │
//!        └── anything else, or a wrong page: this half's chain ends
//!                  └──▶ the other half, once ──▶ finished
//! ```
//!
//! The caller reads what [`Scan::wants`] and feeds it; pages become parts of entries without a
//! copy, and each is hashed once. A generation without logged operations leaves nothing in its
//! half, so the other half is read in any case; the chain must continue there.
//!
//! A run that cannot be read is read again block by block, so that one bad block loses only the
//! records after it and not a MiB before it.
//!
//! The remains of earlier generations end a chain normally. A power cut during a group, or damage,
//! can leave a header of this chain without its payload, or an invalid header; the reader cannot
//! tell these apart, and reports the end as unclear ([`End`]).

use std::ops::RangeInclusive;

use everglade_env::PageRef;
use everglade_format::TagKey;
use everglade_format::config::Uuid;
use everglade_format::journal::{Header, Kind, Operation};

use crate::log::half_of;
use crate::{Action, Entry, Position, RUN_BLOCKS};

/// Why a prefix ended where it did, from the most to the least harmless.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// The blocks after the last record were never written, or the half is full.
    Clean,
    /// Leftovers of an older generation or another life.
    Stale,
    /// A record that was not, or is no longer, whole.
    Torn,
    /// A block that cannot be read.
    Unreadable,
}

/// The result of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanSummary {
    /// Records accepted.
    pub records: u64,
    /// Operations in them.
    pub operations: u64,
    /// Blocks they take, headers included.
    pub blocks: u64,
    /// The generation of the last record, and the sequence after its last operation.
    pub end: Position,
    /// Why there are no more.
    pub reason: End,
    /// A whole record of the superblock's generations was met that does not continue the prefix.
    pub has_strangers: bool,
    /// When the last record was written, nanoseconds since 1970 UTC; 0 if there is none.
    pub wall_nanos: u64,
}

impl ScanSummary {
    /// True if the superblock's two generations hold anything that a later mount could take for the
    /// log of this one: records, a header without its payload, the younger half of a group of which
    /// the older never arrived, or a bad block. Such a mount commits a consistency point that
    /// begins two generations later before it logs anything.
    #[must_use]
    pub fn has_traces(&self) -> bool {
        self.records > 0 || self.reason >= End::Torn || self.has_strangers
    }
}

/// A reader of one region.
#[derive(Debug)]
pub struct Scan {
    half_blocks: u64,
    uuid: Uuid,
    /// Epochs that the next record may have: a record carries the epoch of the superblock that was
    /// the newest when it was made, so the epoch never decreases along the chain, and never exceeds
    /// that of the superblock from which the scan begins (decision 0040).
    epochs: RangeInclusive<u64>,
    from: Position,
    /// Generation whose half is being read.
    generation: u64,
    /// The next block of that half that was not fed.
    at: u64,
    /// Up to this block of the half, single blocks are read.
    careful_until: u64,
    /// Life and code of the last record accepted.
    chain: Option<(u64, u64)>,
    /// A header that continues the chain, and those of its pages that were fed.
    record: Option<Record>,
    is_finished: bool,
    outcome: ScanSummary,
}

#[derive(Debug)]
struct Record {
    header: Header,
    code: u64,
    pages: Vec<PageRef>,
}

impl Scan {
    /// A reader from a superblock's position on. `epoch` is the superblock's.
    #[must_use]
    pub fn new(half_blocks: u64, uuid: Uuid, epoch: u64, from: Position) -> Scan {
        Scan {
            half_blocks,
            uuid,
            epochs: 0..=epoch,
            from,
            generation: from.generation,
            at: 0,
            careful_until: 0,
            chain: None,
            record: None,
            is_finished: half_blocks == 0,
            outcome: ScanSummary {
                records: 0,
                operations: 0,
                blocks: 0,
                end: from,
                reason: End::Clean,
                has_strangers: false,
                wall_nanos: 0,
            },
        }
    }

    /// The next run to read: its first block in the region, and blocks, at most [`RUN_BLOCKS`].
    /// None when the scan is finished.
    #[must_use]
    pub fn wants(&self) -> Option<(u64, u64)> {
        if self.is_finished {
            return None;
        }
        let most = if self.at < self.careful_until {
            1
        } else {
            RUN_BLOCKS
        };
        let blocks = most.min(self.half_blocks - self.at);
        Some((
            half_of(self.generation) * self.half_blocks + self.at,
            blocks,
        ))
    }

    /// Takes the blocks that [`Scan::wants`] asked for last. `pages` is empty if they could not be
    /// read. Appends whole entries to `out`.
    pub fn feed(&mut self, key: &TagKey, pages: Vec<PageRef>, out: &mut Vec<Entry>) {
        let (_, blocks) = self.wants().expect("a scan that is not finished");
        if pages.is_empty() {
            return self.pass_unreadable(blocks);
        }
        assert_eq!(pages.len() as u64, blocks, "pages of a run");
        let generation = self.generation;
        for page in pages {
            self.at += 1;
            self.take_page(key, page, out);
            if self.is_finished || self.generation != generation {
                return;
            }
        }
        if self.at == self.half_blocks {
            // A record always ends inside its half, so this is between records.
            self.end_half(End::Clean);
        }
    }

    /// Returns the result so far. The result is final when [`Scan::wants`] returns `None`.
    #[must_use]
    pub fn outcome(&self) -> ScanSummary {
        self.outcome
    }

    fn pass_unreadable(&mut self, blocks: u64) {
        if blocks > 1 {
            self.careful_until = self.at + blocks;
        } else {
            self.end_half(End::Unreadable);
        }
    }

    fn take_page(&mut self, key: &TagKey, page: PageRef, out: &mut Vec<Entry>) {
        if let Some(record) = &mut self.record {
            let is_torn = record.header.codes[record.pages.len()] != key.code(&page);
            if is_torn {
                return self.end_half(End::Torn);
            }
            record.pages.push(page);
        } else {
            match Header::decode(&page, key) {
                Ok(Some((header, code))) if self.continues(&header) => {
                    if self.at + header.codes.len() as u64 > self.half_blocks {
                        return self.end_half(End::Torn);
                    }
                    self.record = Some(Record {
                        pages: Vec::with_capacity(header.codes.len()),
                        header,
                        code,
                    });
                }
                Ok(Some((header, _))) => {
                    self.note_stranger(&header);
                    return self.end_half(End::Stale);
                }
                Ok(None) if page.iter().all(|byte| *byte == 0) => {
                    return self.end_half(End::Clean);
                }
                Ok(None) => return self.end_half(End::Stale),
                Err(_) => return self.end_half(End::Torn),
            }
        }
        let is_whole = |record: &mut Record| record.pages.len() == record.header.codes.len();
        if let Some(record) = self.record.take_if(is_whole) {
            self.accept(record, out);
        }
    }

    /// A whole header does not continue the chain. If it is of one of the superblock's generations,
    /// it is what a cut left of a group that crossed the halves, or of another life. Its epoch does
    /// not matter: a later mount with a superblock of a higher epoch could take it for its own.
    fn note_stranger(&mut self, header: &Header) {
        self.outcome.has_strangers |=
            header.uuid == self.uuid && header.generation >= self.from.generation;
    }

    fn continues(&self, header: &Header) -> bool {
        header.uuid == self.uuid
            && self.epochs.contains(&header.epoch)
            && header.generation == self.generation
            && header.first_sequence == self.outcome.end.sequence
            && self
                .chain
                .is_none_or(|chain| chain == (header.life, header.previous))
    }

    fn accept(&mut self, record: Record, out: &mut Vec<Entry>) {
        let Record {
            header,
            code,
            pages,
        } = record;
        self.chain = Some((header.life, code));
        self.epochs = header.epoch..=*self.epochs.end();
        self.outcome = ScanSummary {
            records: self.outcome.records + 1,
            operations: self.outcome.operations + header.operations.len() as u64,
            blocks: self.outcome.blocks + header.blocks(),
            end: Position {
                generation: header.generation,
                sequence: header.next_sequence(),
            },
            reason: End::Clean,
            has_strangers: self.outcome.has_strangers,
            wall_nanos: header.wall_nanos,
        };
        let mut pages = pages.into_iter();
        out.extend(
            header
                .operations
                .iter()
                .map(|operation| entry(operation, &mut pages)),
        );
    }

    /// Ends the chain of this half. The other half may continue it, even if a record was begun: in
    /// the chain's own life nothing there has the sequence of the missing operations, but a header
    /// that an earlier life left here without its payload has taken nobody's place.
    fn end_half(&mut self, reason: End) {
        self.outcome.reason = self.outcome.reason.max(reason);
        self.record = None;
        if self.generation == self.from.generation {
            self.generation += 1;
            self.at = 0;
            self.careful_until = 0;
        } else {
            self.is_finished = true;
        }
    }
}

/// An operation with its pages, of which there are enough: the decoder compared the sums.
fn entry(operation: &Operation, pages: &mut impl Iterator<Item = PageRef>) -> Entry {
    let count = usize::try_from(operation.pages()).expect("at most 257");
    Entry {
        volume: operation.volume,
        file: operation.file,
        offset: operation.offset,
        length: operation.length,
        action: match operation.kind {
            Kind::Write => Action::Write {
                pages: pages.take(count).collect(),
            },
            Kind::Punch => Action::Punch,
        },
    }
}
