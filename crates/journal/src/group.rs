//! Groups: consecutive operations that go to the region together. Made under the journal's lock
//! ([`crate::Journal::begin`]), turned into bytes outside it.
//!
//! Records of one half are adjacent, so a group is one run of blocks, or two where a generation
//! ends; the runs are cut into writes of at most 1 MiB. The order of the writes does not matter:
//! nothing of the group is promised before all of them are on stable media, and a reader checks
//! every block.

use everglade_env::{BLOCK_SIZE, Page, PageRef};
use everglade_format::TagKey;
use everglade_format::journal::Header;

use crate::settings::Settings;
use crate::{Action, Entry, RUN_BLOCKS};

/// Place of one record of a group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordPosition {
    pub(crate) generation: u64,
    /// Its header's block in the region.
    pub(crate) block: u64,
    pub(crate) operations: usize,
}

/// Operations taken out of the queue.
#[derive(Debug)]
#[must_use = "the journal waits for its end"]
pub struct Group {
    pub(crate) settings: Settings,
    /// Sequence of the first entry.
    pub(crate) first: u64,
    /// Code of the record before.
    pub(crate) previous: u64,
    /// Its records, in order.
    pub(crate) positions: Vec<RecordPosition>,
    pub(crate) entries: Vec<Entry>,
}

/// One write of a group.
#[derive(Debug)]
pub struct GroupWrite {
    /// First block of the write, counted from the region's first.
    pub block: u64,
    /// Content of the write; at most [`RUN_BLOCKS`].
    pub pages: Vec<PageRef>,
}

/// Totals of a group for [`crate::Journal::end`].
#[derive(Clone, Copy, Debug)]
#[must_use = "the journal waits for it"]
pub struct Finished {
    /// Sequence of the last operation.
    pub(crate) last: u64,
    /// Code of the last record.
    pub(crate) code: u64,
}

impl Finished {
    /// Sequence of the group's last operation.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.last
    }
}

impl Group {
    /// Sequence of the last operation.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.first + self.entries.len() as u64 - 1
    }

    /// Blocks to be written: headers and payload.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.positions.len() as u64 + self.entries.iter().map(Entry::blocks).sum::<u64>()
    }

    /// Makes the bytes. Hashes every page, so it belongs outside all locks.
    pub fn encode(self, key: &TagKey, wall_nanos: u64) -> (Vec<GroupWrite>, Finished) {
        let last = self.last();
        let mut code = self.previous;
        let mut sequence = self.first;
        let mut entries = self.entries.into_iter();
        let mut writes = Vec::new();
        for position in self.positions {
            let mut header = Header {
                uuid: self.settings.uuid,
                epoch: self.settings.epoch,
                life: self.settings.life,
                generation: position.generation,
                first_sequence: sequence,
                previous: code,
                wall_nanos,
                operations: Vec::with_capacity(position.operations),
                codes: Vec::new(),
            };
            let mut payload = Vec::new();
            for entry in entries.by_ref().take(position.operations) {
                header.operations.push(entry.operation());
                if let Action::Write { pages } = entry.action {
                    payload.extend(pages);
                }
            }
            assert_eq!(
                header.operations.len(),
                position.operations,
                "entries of a record"
            );
            header.codes = payload.iter().map(|page| page_code(key, page)).collect();
            let mut page = Page::for_read();
            code = header.encode_into(&mut page, key);
            sequence = header.next_sequence();
            let pages = std::iter::once(page.freeze()).chain(payload);
            append(&mut writes, position.block, pages);
        }
        assert_eq!(sequence, last + 1, "all entries are in records");
        (writes, Finished { last, code })
    }
}

/// The code of a page under the key of its aggregate, computed once for as long as the page is in
/// memory. An operation asks for it when the bytes have just arrived and are in the processor's
/// cache; the journal, minutes or a millisecond later, and the cleaner then find it. Whatever
/// happens to the memory in between does not go unnoticed either.
#[must_use]
pub fn page_code(key: &TagKey, page: &PageRef) -> u64 {
    if let Some(known) = page.memo(key.name()) {
        return known;
    }
    let code = key.code(page);
    page.leave_memo(key.name(), code);
    code
}

/// Adds pages from `block` on, behind the last write where they join it.
fn append(writes: &mut Vec<GroupWrite>, block: u64, pages: impl Iterator<Item = PageRef>) {
    for (at, page) in (block..).zip(pages) {
        match writes.last_mut() {
            Some(write) if write.end() == at && write.pages.len() as u64 != RUN_BLOCKS => {
                write.pages.push(page);
            }
            _ => writes.push(GroupWrite {
                block: at,
                pages: vec![page],
            }),
        }
    }
}

impl GroupWrite {
    /// The block after the last.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.block + self.pages.len() as u64
    }

    /// Bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        (self.pages.len() * BLOCK_SIZE) as u64
    }
}
