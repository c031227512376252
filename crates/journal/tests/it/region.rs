//! A region in memory, and the short ways to fill and to read it.

use everglade_env::{BLOCK_SIZE, Page, PageRef};
use everglade_format::{FileId, TagKey};
use everglade_journal::{
    Action, Entry, GroupWrite, Journal, Position, Scan, ScanSummary, Settings,
};

pub(crate) const UUID: [u8; 16] = [7; 16];
pub(crate) const EPOCH: u64 = 3;

pub(crate) fn key() -> TagKey {
    TagKey::new(&[5; 32])
}

/// Blocks of a journal; zeroes at first.
#[derive(Clone)]
pub(crate) struct Region {
    pub(crate) blocks: Vec<PageRef>,
    /// Blocks that cannot be read.
    pub(crate) bad: Vec<usize>,
}

impl Region {
    pub(crate) fn new(half_blocks: u64) -> Region {
        Region {
            blocks: vec![PageRef::zero(); index(2 * half_blocks)],
            bad: Vec::new(),
        }
    }

    pub(crate) fn half_blocks(&self) -> u64 {
        self.blocks.len() as u64 / 2
    }

    /// A journal of a life that writes into it.
    pub(crate) fn journal(&self, life: u64, at: Position) -> Journal {
        self.journal_of(life, EPOCH, at)
    }

    /// A journal that writes records of an epoch.
    pub(crate) fn journal_of(&self, life: u64, epoch: u64, at: Position) -> Journal {
        let settings = Settings {
            half_blocks: self.half_blocks(),
            uuid: UUID,
            epoch,
            life,
        };
        Journal::new(settings, at)
    }

    /// Writes whole.
    pub(crate) fn apply(&mut self, write: &GroupWrite) {
        for (at, page) in (write.block..).zip(&write.pages) {
            self.blocks[index(at)] = page.clone();
        }
    }

    /// Logs everything queued that finds room.
    pub(crate) fn log(&mut self, journal: &mut Journal) {
        while let Some(group) = journal.begin() {
            let (writes, finished) = group.encode(&key(), 1);
            writes.iter().for_each(|write| self.apply(write));
            journal.end(finished);
        }
    }

    pub(crate) fn scan(&self, from: Position) -> (Vec<Entry>, ScanSummary) {
        self.scan_as(UUID, EPOCH, from)
    }

    pub(crate) fn scan_as(
        &self,
        uuid: [u8; 16],
        epoch: u64,
        from: Position,
    ) -> (Vec<Entry>, ScanSummary) {
        let mut scan = Scan::new(self.half_blocks(), uuid, epoch, from);
        let mut entries = Vec::new();
        let key = key();
        while let Some((block, blocks)) = scan.wants() {
            assert!((1..=256).contains(&blocks), "{blocks} blocks");
            let run = index(block)..index(block + blocks);
            let is_bad = self.bad.iter().any(|bad| run.contains(bad));
            let pages = if is_bad {
                Vec::new()
            } else {
                self.blocks[run].to_vec()
            };
            scan.feed(&key, pages, &mut entries);
        }
        let outcome = scan.outcome();
        assert_eq!(outcome.operations, entries.len() as u64);
        (entries, outcome)
    }
}

pub(crate) fn at(generation: u64, sequence: u64) -> Position {
    Position {
        generation,
        sequence,
    }
}

pub(crate) fn index(number: u64) -> usize {
    usize::try_from(number).expect("small")
}

/// Returns a write whose payload has no other owner.
pub(crate) fn write(number: u64, offset: u64, length: u64) -> Entry {
    let mut entry = punch(offset, length);
    let first = offset / BLOCK_SIZE as u64;
    let pages = (offset + length).div_ceil(BLOCK_SIZE as u64) - first;
    entry.action = Action::Write {
        pages: (0..pages).map(|page| content(number, page)).collect(),
    };
    entry
}

/// A write of one block.
pub(crate) fn small(number: u64) -> Entry {
    write(number, number * BLOCK_SIZE as u64, BLOCK_SIZE as u64)
}

pub(crate) fn punch(offset: u64, length: u64) -> Entry {
    Entry {
        volume: FileId(64),
        file: FileId(65),
        offset,
        length,
        action: Action::Punch,
    }
}

fn content(number: u64, page: u64) -> PageRef {
    let mut bytes = Page::zeroed();
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes[BLOCK_SIZE - 8..].copy_from_slice(&page.to_le_bytes());
    bytes.freeze()
}

/// True if the two say the same.
pub(crate) fn same(a: &Entry, b: &Entry) -> bool {
    let pages = |entry: &Entry| match &entry.action {
        Action::Write { pages } => pages.iter().map(|page| **page).collect(),
        Action::Punch => Vec::new(),
    };
    a.operation() == b.operation() && pages(a) == pages(b)
}
