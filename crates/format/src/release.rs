//! Blocks of the release file: vvbns that no image refers to any more, still protected by the
//! summary map.
//!
//! A delete scan needs the snapmaps of its victims up to the end (Theorem 3 of S003). Their own
//! blocks are therefore not released by it but listed here, in the consistency point that removes
//! the victims, and released a few at a time. A block starts with a [`crate::indirect::Header`].
//!
//! | offset | bytes | field |
//! | --- | --- | --- |
//! | 16 | 4 | number of entries, at most 509 |
//! | 24 | 8 each | vvbn |

use crate::bytes::{put, u32_at, u64_at};
use crate::{Block, Damage};

/// Entries in a block.
pub const RELEASES_PER_BLOCK: usize = 509;
const ENTRIES_OFFSET: usize = 24;

/// Writes entries into a block that already has its header.
pub fn encode_into(block: &mut Block, vvbns: &[u64]) {
    assert!(vvbns.len() <= RELEASES_PER_BLOCK, "too many for a block");
    let count = u32::try_from(vvbns.len()).expect("at most 509");
    put(block, 16, count.to_le_bytes());
    for (index, vvbn) in vvbns.iter().enumerate() {
        put(block, ENTRIES_OFFSET + index * 8, vvbn.to_le_bytes());
    }
}

/// Reads the entries of a block.
///
/// # Errors
/// More entries than fit, or numbers that are no vvbns.
pub fn decode(block: &Block) -> Result<Vec<u64>, Damage> {
    let count = u32_at(block, 16) as usize;
    if count > RELEASES_PER_BLOCK {
        return Err(Damage::new("number of releases", "at most 509", count));
    }
    let entries = (0..count).map(|index| u64_at(block, ENTRIES_OFFSET + index * 8));
    entries
        .map(|vvbn| match vvbn {
            1..crate::number::NUMBER_END => Ok(vvbn),
            _ => Err(Damage::new("released vvbn", "40 bits, not 0", vvbn)),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_survive_the_round_trip() {
        let mut block = [0; crate::BLOCK_SIZE];
        let entries: Vec<u64> = (1..=RELEASES_PER_BLOCK as u64).collect();
        encode_into(&mut block, &entries);
        assert_eq!(decode(&block), Ok(entries));
        put(&mut block, 24, 0u64.to_le_bytes());
        assert!(decode(&block).is_err(), "vvbn 0 is no block");
        put(&mut block, 16, 510u32.to_le_bytes());
        assert!(decode(&block).is_err(), "too many");
    }
}
