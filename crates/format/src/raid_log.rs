//! RAID log: what the writes of a consistency point do to the parity of stripes
//! (docs/design/design.md §7).
//!
//! A stripe is written on several drives, and a power cut may come between two of them. Then its
//! parity does not go with its data, and a data block that stays in the stripe could not be
//! reconstructed if its drive were lost. So before a stripe is written, a record says which of its
//! columns *stay*. If some do, the record has the *base* of the stripe: parity as it would be with
//! zeroes in all columns that do not stay. Parity after a cut follows from the base, and from what
//! the other columns have then.
//!
//! A record is a header of one block, and space for a block behind it for each entry with columns
//! that stay, in the order of the entries. The drive with a parity column has the block of this
//! column of their bases there. Drives with data have nothing of a base. So a drive that is lost
//! takes one block of each base with it at most, as it takes one block of each stripe.
//!
//! | offset | bytes | field |
//! | --- | --- | --- |
//! | 0 | 8 | `EVGLRAID` |
//! | 8 | 8 | consistency point that the record belongs to |
//! | 16 | 4 | member in whose group it is: the first data column |
//! | 20 | 4 | number of entries |
//! | 24 | 4 | blocks behind the header |
//! | 28 | 4 | lap: how often the log was emptied in the consistency point |
//! | 64 | 40 each | entries: first stripe 8 · number of stripes 4 · columns that stay 4 (bit *c*: data column *c*) · tags of the base's blocks 8 each, row parity first |
//! | 4,088 | 8 | tag of the block with zeroes here |
//!
//! 1. An entry with columns that stay is about one stripe, and has a base with a block for each
//!    parity column. An entry without them is about any number of stripes, and has no base.
//! 2. A record counts if its header's tag is right: all of its bases were on stable media before
//!    its header was written. Its stripes follow from the headers and bases of all drives.
//! 3. Records of the consistency point after that of the superblock count, and no others. Of these
//!    count those of the highest lap that a first block of a log has.

use crate::bytes::{array_at, put, u32_at, u64_at};
use crate::seat::PARITY_MAX;
use crate::{BLOCK_SIZE, Block, CpNumber, Damage, Tag, TagKey};

const MAGIC: [u8; 8] = *b"EVGLRAID";
const ENTRIES_AT: usize = 64;
const ENTRY_BYTES: usize = 40;
const TAG_AT: usize = BLOCK_SIZE - 8;

/// Most entries of a record.
pub const ENTRIES_MAX: usize = (TAG_AT - ENTRIES_AT) / ENTRY_BYTES;

/// Stripes of a record: see the module's documentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RaidLogEntry {
    /// The first stripe: the number of its blocks on their drives.
    pub stripe: u64,
    /// Stripes; 1 if columns stay.
    pub count: u32,
    /// Data columns that stay, as bits.
    pub stays: u32,
    /// Tags of the base's blocks; none if no column stays.
    pub tags: Vec<Tag>,
}

/// The header of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RaidLogHeader {
    /// The consistency point that writes the stripes.
    pub cp: CpNumber,
    /// The member with the first data column of the group.
    pub member: u32,
    /// How often the log was emptied in the consistency point before.
    pub lap: u32,
    /// At most [`ENTRIES_MAX`].
    pub entries: Vec<RaidLogEntry>,
}

impl RaidLogHeader {
    /// Blocks behind the header: one for each entry with columns that stay.
    #[must_use]
    pub fn base_blocks(&self) -> usize {
        let with_base = self.entries.iter().filter(|entry| entry.stays != 0);
        with_base.count()
    }

    /// Returns the header as a block.
    ///
    /// # Panics
    /// If there are more than [`ENTRIES_MAX`] entries, or an entry has too many tags.
    #[must_use]
    pub fn encode(&self, key: &TagKey) -> Box<Block> {
        assert!(self.entries.len() <= ENTRIES_MAX, "too many entries");
        let small = |count: usize| u32::try_from(count).expect("bounded").to_le_bytes();
        let mut out = Box::new([0; BLOCK_SIZE]);
        put(&mut *out, 0, MAGIC);
        put(&mut *out, 8, self.cp.0.to_le_bytes());
        put(&mut *out, 16, self.member.to_le_bytes());
        put(&mut *out, 20, small(self.entries.len()));
        put(&mut *out, 24, small(self.base_blocks()));
        put(&mut *out, 28, self.lap.to_le_bytes());
        for (index, entry) in self.entries.iter().enumerate() {
            assert!(entry.tags.len() <= PARITY_MAX, "a tag for each parity");
            let at = ENTRIES_AT + index * ENTRY_BYTES;
            put(&mut *out, at, entry.stripe.to_le_bytes());
            put(&mut *out, at + 8, entry.count.to_le_bytes());
            put(&mut *out, at + 12, entry.stays.to_le_bytes());
            for (tag, at) in entry.tags.iter().zip((at + 16..).step_by(8)) {
                put(&mut *out, at, tag.0.to_le_bytes());
            }
        }
        let tag = key.tag(&out);
        put(&mut *out, TAG_AT, tag.0.to_le_bytes());
        out
    }

    /// Reads a header of a group with so many parity columns; `None` if the block is none.
    ///
    /// # Errors
    /// The tag is right, but the fields make no sense.
    pub fn decode(
        block: &Block,
        key: &TagKey,
        parity: usize,
    ) -> Result<Option<RaidLogHeader>, Damage> {
        if array_at::<8>(block, 0) != MAGIC {
            return Ok(None);
        }
        let mut bare = Box::new(*block);
        bare[TAG_AT..].fill(0);
        if key.tag(&bare).0 != u64_at(block, TAG_AT) {
            return Ok(None);
        }
        let count = u32_at(block, 20) as usize;
        if count > ENTRIES_MAX {
            return Err(Damage::new("entries of a RAID log", ENTRIES_MAX, count));
        }
        let entry = |index: usize| {
            let at = ENTRIES_AT + index * ENTRY_BYTES;
            let stays = u32_at(block, at + 12);
            let tags = match stays {
                0 => 0,
                _ => parity.min(PARITY_MAX),
            };
            RaidLogEntry {
                stripe: u64_at(block, at),
                count: u32_at(block, at + 8),
                stays,
                tags: (0..tags)
                    .map(|tag| Tag(u64_at(block, at + 16 + tag * 8)))
                    .collect(),
            }
        };
        let header = RaidLogHeader {
            cp: CpNumber(u64_at(block, 8)),
            member: u32_at(block, 16),
            lap: u32_at(block, 28),
            entries: (0..count).map(entry).collect(),
        };
        let is_sound = |entry: &RaidLogEntry| match entry.stays {
            0 => entry.count > 0,
            _ => entry.count == 1,
        };
        if let Some(wrong) = header.entries.iter().find(|entry| !is_sound(entry)) {
            let expected = "one stripe where columns stay, and at least one";
            return Err(Damage::new("stripes of an entry", expected, wrong.count));
        }
        let bases = u32_at(block, 24) as usize;
        Damage::unless_equal("blocks behind the header", header.base_blocks(), bases)?;
        Ok(Some(header))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(count: usize) -> RaidLogHeader {
        let entry = |index: usize| {
            let is_partial = index.is_multiple_of(2);
            let number = index as u64;
            RaidLogEntry {
                stripe: 1000 + number,
                count: if is_partial { 1 } else { 70_000 },
                stays: if is_partial { 5 } else { 0 },
                tags: match is_partial {
                    true => vec![Tag(number), Tag(7)],
                    false => Vec::new(),
                },
            }
        };
        RaidLogHeader {
            cp: CpNumber(77),
            member: 3,
            lap: 2,
            entries: (0..count).map(entry).collect(),
        }
    }

    #[test]
    fn a_header_survives_the_round_trip() {
        let key = TagKey::new(&[7; 32]);
        for count in [0, 1, 2, ENTRIES_MAX] {
            let header = sample(count);
            let found = RaidLogHeader::decode(&header.encode(&key), &key, 2);
            assert_eq!(found, Ok(Some(header.clone())));
            assert_eq!(header.base_blocks(), count.div_ceil(2));
        }
        assert_eq!(RaidLogHeader::decode(&[0; BLOCK_SIZE], &key, 2), Ok(None));
    }

    #[test]
    fn a_torn_header_and_one_of_another_key_are_none() {
        let key = TagKey::new(&[7; 32]);
        let good = sample(3).encode(&key);
        for byte in [9, 20, 70, 100, 2000, TAG_AT] {
            let mut torn = good.clone();
            torn[byte] ^= 1;
            assert_eq!(RaidLogHeader::decode(&torn, &key, 2), Ok(None), "{byte}");
        }
        let other = TagKey::new(&[8; 32]);
        assert_eq!(RaidLogHeader::decode(&good, &other, 2), Ok(None));
    }

    #[test]
    fn fields_that_make_no_sense_are_damage() {
        let key = TagKey::new(&[7; 32]);
        for (at, value) in [(20, 200), (72, 2), (72, 0), (24, 1)] {
            let mut bad = sample(3).encode(&key);
            put(&mut *bad, at, u32::to_le_bytes(value));
            bad[TAG_AT..].fill(0);
            let tag = key.tag(&bad);
            put(&mut *bad, TAG_AT, tag.0.to_le_bytes());
            assert!(RaidLogHeader::decode(&bad, &key, 2).is_err(), "{at}");
        }
    }
}
