//! Superblock of an aggregate: the root of everything, and the only block overwritten in place
//! (B-12).
//!
//! | offset | bytes | field |
//! | --- | --- | --- |
//! | 0 | 8 | `EVGLSUPR` |
//! | 8 | 4 | format version |
//! | 12 | 4 | flags: bit 0 = stopped cleanly |
//! | 16 | 8 | consistency point |
//! | 24 | 16 | aggregate's UUID |
//! | 40 | 8 | config epoch |
//! | 48 | 8 | time, seconds since 1970 UTC |
//! | 56 | 8 | blocks in use |
//! | 64 | 8 | areas with at least one block in use |
//! | 72 | 4 | next file id |
//! | 76 | 4 | number of frontiers, one for each extent |
//! | 80 | 288 | inode of the inode file |
//! | 368 | 8 | journal: first generation to replay |
//! | 376 | 8 | journal: sequence of its first operation |
//! | 384 | 1, 64 | length of the aggregate's name, name; length 0: the name in the config record |
//! | 512 | 4 each | frontiers: areas of the extent from this one on (counted from the extent's first) were never allocated from |
//! | 4,088 | 8 | keyed code of the block with these bytes zero |

use crate::bytes::{array_at, put, u32_at, u64_at};
use crate::config::{EPOCH_END, EXTENTS_MAX};
use crate::config::{NAME_BYTES_MAX, Uuid, hex, name_is_valid};
use crate::inode::INODE_BYTES;
use crate::{BLOCK_SIZE, Block, CpNumber, Damage, FORMAT_VERSION, FileId, Inode, Layer, TagKey};

const MAGIC: [u8; 8] = *b"EVGLSUPR";
const CODE_AT: usize = BLOCK_SIZE - 8;
const JOURNAL_AT: usize = 368;
const NAME_AT: usize = 384;
const FRONTIERS_AT: usize = 512;
/// The largest generation or sequence of a journal plus 1: increments never overflow.
pub const JOURNAL_END: u64 = 1 << 63;
/// Each extent has its frontier in the superblock.
const _: () = assert!(EXTENTS_MAX == (CODE_AT - FRONTIERS_AT) / 4);

/// Root of an aggregate as of one consistency point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// The consistency point that this block commits.
    pub cp: CpNumber,
    /// UUID of the aggregate.
    pub uuid: Uuid,
    /// Epoch of the config record it goes with.
    pub epoch: u64,
    /// When it was written.
    pub written_seconds: u64,
    /// The daemon stopped in good order after this consistency point.
    pub clean: bool,
    /// The aggregate's name for people, if it was changed since the config record was written.
    /// Here, because labels have one record for each epoch of membership, and a journal goes with
    /// an epoch.
    pub name: Option<String>,
    /// Set bits of the active map.
    pub blocks_used: u64,
    /// Areas with at least one block in use.
    pub areas_used: u64,
    /// For each extent: its areas from this one on were never allocated from.
    pub frontiers: Vec<u32>,
    /// The next file gets this id.
    pub next_file: FileId,
    /// Root of all files.
    pub inode_file: Inode,
    /// The first generation of the journal that this consistency point does not contain (C-08); at
    /// least 1.
    pub journal_generation: u64,
    /// The sequence that the first operation of that generation has or will have; at least 1.
    pub journal_sequence: u64,
}

impl Superblock {
    /// True if both are of the same commit. It may have been written again with another epoch.
    #[must_use]
    pub fn is_same_commit(&self, other: &Superblock) -> bool {
        *self
            == Superblock {
                epoch: self.epoch,
                ..other.clone()
            }
    }

    /// The sealed block.
    #[must_use]
    pub fn encode(&self, key: &TagKey) -> Block {
        let mut out = [0; BLOCK_SIZE];
        put(&mut out, 0, MAGIC);
        put(&mut out, 8, FORMAT_VERSION.to_le_bytes());
        put(&mut out, 12, u32::from(self.clean).to_le_bytes());
        put(&mut out, 16, self.cp.0.to_le_bytes());
        put(&mut out, 24, self.uuid);
        put(&mut out, 40, self.epoch.to_le_bytes());
        put(&mut out, 48, self.written_seconds.to_le_bytes());
        put(&mut out, 56, self.blocks_used.to_le_bytes());
        put(&mut out, 64, self.areas_used.to_le_bytes());
        assert!(
            self.frontiers.len() <= EXTENTS_MAX,
            "{} extents",
            self.frontiers.len()
        );
        put(
            &mut out,
            76,
            u32::try_from(self.frontiers.len())
                .expect("bounded")
                .to_le_bytes(),
        );
        for (index, frontier) in self.frontiers.iter().enumerate() {
            put(&mut out, FRONTIERS_AT + index * 4, frontier.to_le_bytes());
        }
        put(&mut out, 72, self.next_file.0.to_le_bytes());
        put(&mut out, 80, self.inode_file.encode(Layer::Aggregate));
        put(&mut out, JOURNAL_AT, self.journal_generation.to_le_bytes());
        put(
            &mut out,
            JOURNAL_AT + 8,
            self.journal_sequence.to_le_bytes(),
        );
        if let Some(name) = &self.name {
            assert!(name_is_valid(name), "name {name:?}");
            out[NAME_AT] = u8::try_from(name.len()).expect("at most 64");
            out[NAME_AT + 1..][..name.len()].copy_from_slice(name.as_bytes());
        }
        let code = key.code(&out);
        put(&mut out, CODE_AT, code.to_le_bytes());
        out
    }

    /// Reads a superblock; `None` if the place was never written.
    ///
    /// # Errors
    /// Foreign, newer or torn bytes.
    pub fn decode(block: &Block, key: &TagKey, uuid: &Uuid) -> Result<Option<Superblock>, Damage> {
        if block.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        if array_at::<8>(block, 0) != MAGIC {
            return Err(Damage::new(
                "superblock magic",
                "EVGLSUPR",
                hex(&block[..8]),
            ));
        }
        let mut unsealed = *block;
        put(&mut unsealed, CODE_AT, [0; 8]);
        Damage::unless_equal(
            "superblock code",
            key.code(&unsealed),
            u64_at(block, CODE_AT),
        )?;
        Damage::unless_ours(u32_at(block, 8))?;
        if array_at::<16>(block, 24) != *uuid {
            return Err(Damage::new(
                "superblock's aggregate",
                hex(uuid),
                hex(&block[24..40]),
            ));
        }
        let flags = u32_at(block, 12);
        if flags > 1 {
            return Err(Damage::new("superblock flags", "0 or 1", flags));
        }
        let frontiers = u32_at(block, 76) as usize;
        if frontiers > EXTENTS_MAX {
            return Err(Damage::new(
                "number of frontiers",
                format!("at most {EXTENTS_MAX}"),
                frontiers,
            ));
        }
        let inode_file = Inode::decode(&array_at::<INODE_BYTES>(block, 80), Layer::Aggregate)?;
        let journal = [0, 8].map(|field| u64_at(block, JOURNAL_AT + field));
        if let Some(wrong) = journal.iter().find(|n| !(1..JOURNAL_END).contains(*n)) {
            return Err(Damage::new("place in the journal", "1 to 2^63 - 1", wrong));
        }
        let numbers = [u64_at(block, 16), u64_at(block, 40)];
        if let Some(wrong) = numbers.iter().find(|n| **n >= EPOCH_END) {
            let what = "number of the consistency point, or epoch";
            return Err(Damage::new(what, "below 2^63", wrong));
        }
        let name = decode_name(block)?;
        Ok(Some(Superblock {
            name,
            cp: CpNumber(u64_at(block, 16)),
            uuid: *uuid,
            epoch: u64_at(block, 40),
            written_seconds: u64_at(block, 48),
            clean: flags == 1,
            blocks_used: u64_at(block, 56),
            areas_used: u64_at(block, 64),
            frontiers: (0..frontiers)
                .map(|i| u32_at(block, FRONTIERS_AT + i * 4))
                .collect(),
            next_file: FileId(u32_at(block, 72)),
            inode_file,
            journal_generation: journal[0],
            journal_sequence: journal[1],
        }))
    }
}

fn decode_name(block: &Block) -> Result<Option<String>, Damage> {
    let length = usize::from(block[NAME_AT]);
    if length == 0 {
        return Ok(None);
    }
    let bytes = &block[NAME_AT + 1..][..length.min(NAME_BYTES_MAX)];
    let name = String::from_utf8_lossy(bytes).into_owned();
    if length > NAME_BYTES_MAX || !name_is_valid(&name) {
        let expected = "1 to 64 letters, digits and ._-";
        return Err(Damage::new(
            "aggregate name",
            expected,
            format!("{length} bytes: {name:?}"),
        ));
    }
    Ok(Some(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inode::Kind;
    use crate::metafile::INODE_FILE;

    fn sample() -> Superblock {
        Superblock {
            cp: CpNumber(9),
            uuid: [5; 16],
            epoch: 1,
            written_seconds: 2,
            clean: true,
            name: Some("pool".to_owned()),
            blocks_used: 3,
            areas_used: 4,
            frontiers: vec![5, 6],
            next_file: FileId(64),
            inode_file: Inode::new(INODE_FILE, Kind::Metafile, CpNumber(0), 0),
            journal_generation: 7,
            journal_sequence: 8,
        }
    }

    #[test]
    fn a_superblock_survives_the_round_trip_and_no_flipped_bit_does() {
        let key = TagKey::new(&[3; 32]);
        let superblock = sample();
        let good = superblock.encode(&key);
        assert_eq!(
            Superblock::decode(&good, &key, &[5; 16]),
            Ok(Some(superblock))
        );
        assert!(
            Superblock::decode(&good, &key, &[6; 16]).is_err(),
            "another aggregate's"
        );
        for bit in (0..BLOCK_SIZE * 8).step_by(89) {
            let mut bad = good;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(
                Superblock::decode(&bad, &key, &[5; 16]).is_err(),
                "bit {bit}"
            );
        }
    }

    #[test]
    fn a_resealed_name_that_cannot_be_is_refused() {
        let key = TagKey::new(&[3; 32]);
        let good = sample().encode(&key);
        for (at, byte) in [
            (NAME_AT, 65),
            (NAME_AT, 5),
            (NAME_AT + 1, b'/'),
            (NAME_AT + 2, 0xff),
        ] {
            let mut bad = good;
            bad[at] = byte;
            put(&mut bad, CODE_AT, [0; 8]);
            let code = key.code(&bad);
            put(&mut bad, CODE_AT, code.to_le_bytes());
            let damage = Superblock::decode(&bad, &key, &[5; 16]).expect_err("refused");
            assert_eq!(damage.what, "aggregate name");
        }
    }

    #[test]
    fn a_resealed_place_in_the_journal_that_cannot_be_counted_on_from_is_refused() {
        let key = TagKey::new(&[3; 32]);
        for (generation, sequence) in [(0, 1), (1, 0), (JOURNAL_END, 1), (1, u64::MAX)] {
            let superblock = Superblock {
                journal_generation: generation,
                journal_sequence: sequence,
                ..sample()
            };
            let damage = Superblock::decode(&superblock.encode(&key), &key, &[5; 16]);
            assert_eq!(damage.expect_err("refused").what, "place in the journal");
        }
    }

    #[test]
    fn a_resealed_number_that_cannot_be_counted_on_from_is_refused() {
        let key = TagKey::new(&[3; 32]);
        for (cp, epoch) in [(EPOCH_END, 1), (1, EPOCH_END), (u64::MAX, u64::MAX)] {
            let superblock = Superblock {
                cp: CpNumber(cp),
                epoch,
                ..sample()
            };
            let damage = Superblock::decode(&superblock.encode(&key), &key, &[5; 16]);
            let what = damage.expect_err("refused").what;
            assert_eq!(what, "number of the consistency point, or epoch");
        }
    }
}
