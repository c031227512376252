//! Entries: operations as they are logged and as they are replayed.

use everglade_env::PageRef;
use everglade_format::FileId;
use everglade_format::journal::{Kind, Operation};

/// What an operation did to its range.
#[derive(Clone, Debug)]
pub enum Action {
    /// Gave it these bytes. One page for each block touched; of the first and last page only the bytes
    /// inside the range mean something.
    Write {
        /// The blocks, whole.
        pages: Vec<PageRef>,
    },
    /// Made it zeroes.
    Punch,
}

/// One operation.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The volume: the id of its container.
    pub volume: FileId,
    /// The file of the volume.
    pub file: FileId,
    /// First byte.
    pub offset: u64,
    /// Bytes, at least 1; of a write at most 1 MiB.
    pub length: u64,
    /// What was done.
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

    /// As a header describes it.
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
