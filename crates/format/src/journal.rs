//! Records of the journal: what clients did since the last consistency point (C-02,
//! docs/design/design.md §5).
//!
//! A record is a header block and payload pages, one after the other in the region. The header
//! describes a run of operations with consecutive sequences, and holds one code for each payload
//! page, so that a reader knows of every page whether it is the one that was written.
//!
//! | offset | bytes | field |
//! | --- | --- | --- |
//! | 0 | 8 | `EVGLJRNL` |
//! | 8 | 4 | format version |
//! | 12 | 2 | operations, at least 1 |
//! | 14 | 2 | payload pages |
//! | 16 | 16 | aggregate's UUID |
//! | 32 | 8 | epoch of the superblock that was the newest committed one |
//! | 40 | 8 | life: a random number of the mount that wrote it |
//! | 48 | 8 | generation |
//! | 56 | 8 | sequence of the first operation |
//! | 64 | 8 | code of the record before; 0 in the first of a life |
//! | 72 | 8 | time, nanoseconds since 1970 UTC |
//! | 96 | 32 each | operations |
//! | after them | 8 each | codes of the payload pages |
//! | 4,088 | 8 | keyed code of the block with these bytes zero |
//!
//! | offset in an operation | bytes | field |
//! | --- | --- | --- |
//! | 0 | 1 | kind: 1 = write, 2 = punch |
//! | 2 | 2 | its payload pages |
//! | 4 | 4 | volume |
//! | 8 | 4 | file of the volume |
//! | 16 | 8 | first byte |
//! | 24 | 8 | bytes |
//!
//! The payload of a write is the blocks of the file that it touches, whole; of the first and last
//! only the bytes inside the range mean something. The codes are keyed because clients choose the
//! payload: no client can place a page in the journal that passes for a header
//! (docs/design/design.md §5).
//!
//! Elsewhere on purpose: which records follow each other (`everglade_journal::scan`, and once more,
//! on its own, `everglade_check`).

use crate::bytes::{array_at, put, u16_at, u32_at, u64_at};
use crate::config::Uuid;
use crate::metafile::FIRST_FILE;
use crate::superblock::JOURNAL_END;
use crate::{BLOCK_SIZE, Block, Damage, FORMAT_VERSION, FileId, TagKey};

const MAGIC: [u8; 8] = *b"EVGLJRNL";
const OPERATIONS_AT: usize = 96;
const CODE_AT: usize = BLOCK_SIZE - 8;
const OPERATION_BYTES: usize = 32;
const PAGE_CODE_BYTES: usize = 8;
/// Most bytes that one write covers.
pub const WRITE_BYTES_MAX: u64 = 1 << 20;
/// Most payload pages of one write: one more than an aligned one has.
pub const WRITE_PAGES_MAX: u64 = WRITE_BYTES_MAX / BLOCK_SIZE as u64 + 1;

// Any one operation fits into a record of its own.
#[expect(clippy::cast_possible_truncation, reason = "257")]
const _: () = assert!(fits(1, WRITE_PAGES_MAX as usize));

/// An operation's effect on its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Gave it the bytes of the payload.
    Write,
    /// Made it zeroes.
    Punch,
}

/// One logged operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Effect of the operation.
    pub kind: Kind,
    /// The volume: the id of its container.
    pub volume: FileId,
    /// The file of the volume.
    pub file: FileId,
    /// First byte of the range.
    pub offset: u64,
    /// Bytes, at least 1.
    pub length: u64,
}

/// Header of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The aggregate.
    pub uuid: Uuid,
    /// Epoch of the superblock that was the newest committed one when the record was made.
    pub epoch: u64,
    /// Names the mount that wrote it; records of two lives never follow each other.
    pub life: u64,
    /// The consistency point that its operations join, counted on its own.
    pub generation: u64,
    /// Sequence of the first operation; the others have the following ones.
    pub first_sequence: u64,
    /// Code of the record before, in this half or the other.
    pub previous: u64,
    /// When it was written.
    pub wall_nanos: u64,
    /// Operations of the record, in order.
    pub operations: Vec<Operation>,
    /// Codes of the payload pages, in order.
    pub codes: Vec<u64>,
}

/// True if a header has room for this many operations with this many payload pages.
#[must_use]
pub const fn fits(operations: usize, pages: usize) -> bool {
    OPERATIONS_AT + operations * OPERATION_BYTES + pages * PAGE_CODE_BYTES <= CODE_AT
}

/// True if the block begins with a header's magic number and its code matches its bytes; its values
/// may still be impossible.
#[must_use]
pub fn is_sealed(block: &Block, key: &TagKey) -> bool {
    let mut unsealed = *block;
    put(&mut unsealed, CODE_AT, [0; 8]);
    array_at::<8>(block, 0) == MAGIC && key.code(&unsealed) == u64_at(block, CODE_AT)
}

/// True if the block begins like a header.
#[must_use]
pub fn has_magic(block: &Block) -> bool {
    array_at::<8>(block, 0) == MAGIC
}

impl Operation {
    /// Its payload pages: for a write the blocks it touches.
    #[must_use]
    pub fn pages(&self) -> u64 {
        let block = BLOCK_SIZE as u64;
        match self.kind {
            Kind::Punch => 0,
            Kind::Write if self.length == 0 => 0,
            Kind::Write => (self.offset + (self.length - 1)) / block - self.offset / block + 1,
        }
    }

    /// Checks the header for impossible values.
    ///
    /// # Errors
    /// An empty or too long range, one that ends beyond 2^64, a file that holds metadata.
    pub fn validate(&self) -> Result<(), Damage> {
        if self.volume < FIRST_FILE || self.file < FIRST_FILE {
            return Err(Damage::new(
                "file of a journalled operation",
                format!("a volume and a file from {FIRST_FILE} on"),
                format!("volume {}, file {}", self.volume, self.file),
            ));
        }
        let length_max = match self.kind {
            Kind::Write => WRITE_BYTES_MAX,
            Kind::Punch => u64::MAX,
        };
        let ends = self.offset.checked_add(self.length).is_some();
        if !ends || self.length == 0 || self.length > length_max {
            return Err(Damage::new(
                "range of a journalled operation",
                format!("1 to {length_max} bytes"),
                format!("{} bytes from {}", self.length, self.offset),
            ));
        }
        Ok(())
    }

    fn encode_into(&self, out: &mut [u8]) {
        out[0] = match self.kind {
            Kind::Write => 1,
            Kind::Punch => 2,
        };
        let pages = u16::try_from(self.pages()).expect("at most 257");
        put(out, 2, pages.to_le_bytes());
        put(out, 4, self.volume.0.to_le_bytes());
        put(out, 8, self.file.0.to_le_bytes());
        put(out, 16, self.offset.to_le_bytes());
        put(out, 24, self.length.to_le_bytes());
    }

    fn decode(bytes: &[u8]) -> Result<Operation, Damage> {
        let kind = match bytes[0] {
            1 => Kind::Write,
            2 => Kind::Punch,
            other => {
                return Err(Damage::new(
                    "kind of a journalled operation",
                    "1 or 2",
                    other,
                ));
            }
        };
        let operation = Operation {
            kind,
            volume: FileId(u32_at(bytes, 4)),
            file: FileId(u32_at(bytes, 8)),
            offset: u64_at(bytes, 16),
            length: u64_at(bytes, 24),
        };
        operation.validate()?;
        Damage::unless_equal(
            "pages of a journalled operation",
            operation.pages(),
            u64::from(u16_at(bytes, 2)),
        )?;
        Ok(operation)
    }
}

impl Header {
    /// Blocks of the record: this one and the payload.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        1 + self.codes.len() as u64
    }

    /// Returns the sequence of the last operation plus 1.
    #[must_use]
    pub fn next_sequence(&self) -> u64 {
        self.first_sequence + self.operations.len() as u64
    }

    /// Fills `out`; returns its code, which the next record names as `previous`.
    pub fn encode_into(&self, out: &mut Block, key: &TagKey) -> u64 {
        let (operations, pages) = (self.operations.len(), self.codes.len());
        assert!(operations > 0, "a record without operations");
        assert!(
            fits(operations, pages),
            "{operations} operations with {pages} pages"
        );
        out.fill(0);
        put(out, 0, MAGIC);
        put(out, 8, FORMAT_VERSION.to_le_bytes());
        for (at, count) in [(12, operations), (14, pages)] {
            put(out, at, u16::try_from(count).expect("fits").to_le_bytes());
        }
        put(out, 16, self.uuid);
        put(out, 32, self.epoch.to_le_bytes());
        put(out, 40, self.life.to_le_bytes());
        put(out, 48, self.generation.to_le_bytes());
        put(out, 56, self.first_sequence.to_le_bytes());
        put(out, 64, self.previous.to_le_bytes());
        put(out, 72, self.wall_nanos.to_le_bytes());
        for (index, operation) in self.operations.iter().enumerate() {
            let at = OPERATIONS_AT + index * OPERATION_BYTES;
            operation.encode_into(&mut out[at..at + OPERATION_BYTES]);
        }
        let codes_at = OPERATIONS_AT + operations * OPERATION_BYTES;
        for (index, code) in self.codes.iter().enumerate() {
            put(out, codes_at + index * PAGE_CODE_BYTES, code.to_le_bytes());
        }
        let code = key.code(out);
        put(out, CODE_AT, code.to_le_bytes());
        code
    }

    /// Reads a header and its code; `None` if the block does not claim to be one.
    ///
    /// # Errors
    /// Newer, torn or contradictory bytes.
    pub fn decode(block: &Block, key: &TagKey) -> Result<Option<(Header, u64)>, Damage> {
        if array_at::<8>(block, 0) != MAGIC {
            return Ok(None);
        }
        let mut unsealed = *block;
        put(&mut unsealed, CODE_AT, [0; 8]);
        let code = key.code(&unsealed);
        Damage::unless_equal("journal record's code", code, u64_at(block, CODE_AT))?;
        Damage::unless_ours(u32_at(block, 8))?;
        let (operations, pages) = (u16_at(block, 12).into(), u16_at(block, 14).into());
        if operations == 0 || !fits(operations, pages) {
            return Err(Damage::new(
                "journal record's size",
                "operations and codes that fit into its header",
                format!("{operations} operations, {pages} pages"),
            ));
        }
        let (generation, first_sequence) = (u64_at(block, 48), u64_at(block, 56));
        for number in [generation, first_sequence] {
            if !(1..JOURNAL_END).contains(&number) {
                return Err(Damage::new("place in the journal", "1 to 2^63 - 1", number));
            }
        }
        let codes_at = OPERATIONS_AT + operations * OPERATION_BYTES;
        let header = Header {
            uuid: array_at(block, 16),
            epoch: u64_at(block, 32),
            life: u64_at(block, 40),
            generation,
            first_sequence,
            previous: u64_at(block, 64),
            wall_nanos: u64_at(block, 72),
            operations: block[OPERATIONS_AT..codes_at]
                .chunks_exact(OPERATION_BYTES)
                .map(Operation::decode)
                .collect::<Result<_, _>>()?,
            codes: (0..pages)
                .map(|index| u64_at(block, codes_at + index * PAGE_CODE_BYTES))
                .collect(),
        };
        let touched: u64 = header.operations.iter().map(Operation::pages).sum();
        Damage::unless_equal("journal record's pages", touched, pages as u64)?;
        Ok(Some((header, code)))
    }
}

#[cfg(test)]
mod tests;
