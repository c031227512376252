//! Records of the toy's log: a header block and payload blocks.
//!
//! | offset | bytes | what |
//! | ---: | ---: | --- |
//! | 0 | 8 | magic |
//! | 8 | 8 | number in the log |
//! | 16 | 8 | mount that wrote it |
//! | 24 | 8 | check of the predecessor |
//! | 32 | 8 | kind |
//! | 40 | 8 | first byte, or size |
//! | 48 | 8 | bytes |
//! | 56 | 8 | blocks of payload |
//! | 64 | 8 | check of the payload |
//! | 72 | 8 | bytes of the name |
//! | 80 | … | name |
//! | 4088 | 8 | check of everything above |

use everglade_env::{BLOCK_SIZE, Page};

use crate::digest::{fingerprint, halves};

const MAGIC: u64 = 0x0059_4f54_4547_5645;
const CHECK_AT: usize = BLOCK_SIZE - 8;
const NAME_AT: usize = 80;

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Write,
    Zeroes,
    CreateVolume,
    DeleteVolume,
    CreateLun,
    DeleteLun,
    Grow,
    Shrink,
}

const KINDS: [Kind; 8] = [
    Kind::Write,
    Kind::Zeroes,
    Kind::CreateVolume,
    Kind::DeleteVolume,
    Kind::CreateLun,
    Kind::DeleteLun,
    Kind::Grow,
    Kind::Shrink,
];

#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) number: u64,
    pub(super) mount: u64,
    pub(super) before: u64,
    pub(super) kind: Kind,
    pub(super) offset: u64,
    pub(super) length: u64,
    pub(super) payload_blocks: u64,
    pub(super) payload_check: u64,
    pub(super) name: String,
}

impl Record {
    pub(super) fn encode(&self) -> Page {
        let mut page = Page::zeroed();
        let kind = KINDS
            .iter()
            .position(|kind| *kind == self.kind)
            .expect("all kinds are listed");
        let words = [
            MAGIC,
            self.number,
            self.mount,
            self.before,
            kind as u64,
            self.offset,
            self.length,
            self.payload_blocks,
            self.payload_check,
            self.name.len() as u64,
        ];
        for (index, word) in words.into_iter().enumerate() {
            page[index * 8..index * 8 + 8].copy_from_slice(&word.to_le_bytes());
        }
        page[NAME_AT..NAME_AT + self.name.len()].copy_from_slice(self.name.as_bytes());
        let check = check(&page[..CHECK_AT]);
        page[CHECK_AT..].copy_from_slice(&check.to_le_bytes());
        page
    }

    /// The record in a block, if there is one.
    pub(super) fn decode(block: &[u8]) -> Option<Record> {
        let word = |index: usize| {
            let bytes = block.get(index * 8..index * 8 + 8)?;
            Some(u64::from_le_bytes(bytes.try_into().ok()?))
        };
        if word(0)? != MAGIC || check_of(block) != check(block.get(..CHECK_AT)?) {
            return None;
        }
        let name_length = usize::try_from(word(9)?).ok()?;
        let name = block.get(NAME_AT..NAME_AT.checked_add(name_length)?)?;
        Some(Record {
            number: word(1)?,
            mount: word(2)?,
            before: word(3)?,
            kind: *KINDS.get(usize::try_from(word(4)?).ok()?)?,
            offset: word(5)?,
            length: word(6)?,
            payload_blocks: word(7)?,
            payload_check: word(8)?,
            name: String::from_utf8(name.to_vec()).ok()?,
        })
    }
}

/// The check at the end of an encoded header.
pub(super) fn check_of(block: &[u8]) -> u64 {
    block
        .get(CHECK_AT..)
        .and_then(|b| b.try_into().ok())
        .map_or(0, u64::from_le_bytes)
}

pub(super) fn check(bytes: &[u8]) -> u64 {
    halves(fingerprint(bytes)).0
}
