//! Directories: names of volumes, LUNs and hidden files.
//!
//! A block starts with a [`crate::indirect::Header`]; entry `i` of the block is at 16 + 128 × i, 31
//! to a block; the last 112 bytes are zero. A free entry is all zero.
//!
//! | offset in the entry | bytes | field |
//! | --- | --- | --- |
//! | 0 | 4 | file id |
//! | 4 | 1 | kind: 1 = volume, 2 = LUN, 3 = side file of a volume (hidden namespace only) |
//! | 5 | 1 | length of the name |
//! | 8 | 64 | name |
//! | 72 | 8 | time of deletion, seconds since 1970 UTC, if the object is in the trash; otherwise 0 |
//!
//! An object in the trash is whole, and its name is free for others. A build that does not know the
//! field shows the object as if it had not been deleted; of two with one name it shows the newer.

use crate::bytes::{array_at, put, u32_at, u64_at};
use crate::config::name_is_valid;
use crate::indirect::HEADER_BYTES;
use crate::{Block, Damage, FileId};

/// Entries in a block.
pub const ENTRIES_PER_BLOCK: usize = 31;
const ENTRY_BYTES: usize = 128;

/// The kind of an entry's object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum EntryKind {
    /// A volume (its container).
    Volume = 1,
    /// A LUN.
    Lun = 2,
    /// A side file of a volume; named only while it is being deleted.
    Side = 3,
}

/// One entry of a directory: a name and its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The file it names.
    pub file: FileId,
    /// Kind of the named object.
    pub kind: EntryKind,
    /// The name; for hidden files, the one it had.
    pub name: String,
    /// When it was put into the trash, seconds since 1970 UTC; 0 if it is not there.
    pub deleted_seconds: u64,
}

impl Entry {
    /// An entry of an object that is in use.
    #[must_use]
    pub fn new(file: FileId, kind: EntryKind, name: &str) -> Entry {
        Entry {
            file,
            kind,
            name: name.to_owned(),
            deleted_seconds: 0,
        }
    }

    /// True if the object was deleted and can come back.
    #[must_use]
    pub fn is_in_trash(&self) -> bool {
        self.deleted_seconds != 0
    }
}

/// The codec for all entries of one block of a directory.
pub struct Directory;

impl Directory {
    /// Writes `entry` (or nothing) into `slot` of a block that already has its header.
    pub fn encode_into(block: &mut Block, slot: usize, entry: Option<&Entry>) {
        assert!(slot < ENTRIES_PER_BLOCK, "slot {slot} of a directory block");
        let at = HEADER_BYTES + slot * ENTRY_BYTES;
        block[at..at + ENTRY_BYTES].fill(0);
        if let Some(entry) = entry {
            assert!(name_is_valid(&entry.name), "name {:?}", entry.name);
            put(block, at, entry.file.0.to_le_bytes());
            block[at + 4] = entry.kind as u8;
            block[at + 5] = u8::try_from(entry.name.len()).expect("at most 64");
            block[at + 8..at + 8 + entry.name.len()].copy_from_slice(entry.name.as_bytes());
            put(block, at + 72, entry.deleted_seconds.to_le_bytes());
        }
    }

    /// Reads the entries of a block with their slots.
    ///
    /// # Errors
    /// Bytes that are no entry.
    pub fn decode(block: &Block) -> Result<Vec<(usize, Entry)>, Damage> {
        let mut entries = Vec::new();
        for slot in 0..ENTRIES_PER_BLOCK {
            let bytes: [u8; ENTRY_BYTES] = array_at(block, HEADER_BYTES + slot * ENTRY_BYTES);
            if bytes == [0; ENTRY_BYTES] {
                continue;
            }
            let kind = match bytes[4] {
                1 => EntryKind::Volume,
                2 => EntryKind::Lun,
                3 => EntryKind::Side,
                other => return Err(Damage::new("directory entry kind", "1 to 3", other)),
            };
            let length = usize::from(bytes[5]).min(64);
            let name = String::from_utf8_lossy(&bytes[8..8 + length]).into_owned();
            if !name_is_valid(&name) {
                return Err(Damage::new(
                    "directory entry name",
                    "letters, digits and ._-",
                    name,
                ));
            }
            entries.push((
                slot,
                Entry {
                    file: FileId(u32_at(&bytes, 0)),
                    kind,
                    name,
                    deleted_seconds: u64_at(&bytes, 72),
                },
            ));
        }
        Ok(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_keep_their_slots() {
        let mut block = [0; crate::BLOCK_SIZE];
        let entry = |n: u32| Entry {
            file: FileId(n),
            kind: EntryKind::Lun,
            name: format!("lun{n}"),
            deleted_seconds: u64::from(n) * 1_000,
        };
        for slot in [0, 7, 30] {
            Directory::encode_into(
                &mut block,
                slot,
                Some(&entry(70 + u32::try_from(slot).unwrap())),
            );
        }
        Directory::encode_into(&mut block, 7, None);
        assert_eq!(
            Directory::decode(&block),
            Ok(vec![(0, entry(70)), (30, entry(100))])
        );
        block[HEADER_BYTES + 4] = 9;
        assert!(Directory::decode(&block).is_err());
    }
}
