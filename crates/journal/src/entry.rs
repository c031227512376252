//! Entries: operations as they are logged and as they are replayed.

use everglade_env::{BLOCK_SIZE, PageRef};
use everglade_format::FileId;
use everglade_format::journal::{Kind, Operation};

/// An operation's effect on its range.
#[derive(Clone, Debug)]
pub enum Action {
    /// Gave it these bytes. One page for each block touched; of the first and last page only the
    /// bytes inside the range mean something.
    Write {
        /// The blocks, whole.
        pages: Vec<PageRef>,
    },
    /// Made it zeroes.
    Punch,
}

/// One logged operation.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The volume: the id of its container.
    pub volume: FileId,
    /// The file of the volume.
    pub file: FileId,
    /// First byte of the range.
    pub offset: u64,
    /// Bytes in the range: at least 1, and at most 1 MiB for a write.
    pub length: u64,
    /// Effect of the operation.
    pub action: Action,
}

impl Entry {
    /// Payload pages.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        match &self.action {
            Action::Write { pages } => pages.len() as u64,
            Action::Punch => 0,
        }
    }

    /// Returns the number of blocks that the operation changes in part: the first, the last.
    #[must_use]
    pub fn partial_blocks(&self) -> u64 {
        let Action::Write { pages } = &self.action else {
            return 0;
        };
        let block = BLOCK_SIZE as u64;
        let begins = !self.offset.is_multiple_of(block);
        let ends = !(self.offset + self.length).is_multiple_of(block);
        (u64::from(begins) + u64::from(ends)).min(pages.len() as u64)
    }

    /// Returns the operation in the form of a header.
    #[must_use]
    pub fn operation(&self) -> Operation {
        Operation {
            kind: match self.action {
                Action::Write { .. } => Kind::Write,
                Action::Punch => Kind::Punch,
            },
            volume: self.volume,
            file: self.file,
            offset: self.offset,
            length: self.length,
        }
    }
}
