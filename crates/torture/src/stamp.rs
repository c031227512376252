//! What is written: every sector says which version of it this is, and where it belongs.
//!
//! | word | content |
//! | --- | --- |
//! | 0 | version, above zero |
//! | 1 | number of the sector |
//! | 2 … 63 | noise made of both |
//!
//! A sector that was mixed from two versions, moved, or damaged in any word is none of them.

use crate::random::mix;

/// Bytes of a sector, the grain at which contents are told apart.
pub const SECTOR: usize = 512;
const WORDS: usize = SECTOR / 8;

/// What a sector holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing but zeroes.
    Zeroes,
    /// This version.
    Version(u64),
    /// A whole version of another sector.
    Misplaced {
        /// Which version.
        version: u64,
        /// Of which sector.
        sector: u64,
    },
    /// Anything else.
    Garbage,
    /// The server could not read it: the error number of the protocol.
    Unreadable(u32),
}

fn word(version: u64, sector: u64, index: usize) -> u64 {
    match index {
        0 => version,
        1 => sector,
        _ => mix(version.wrapping_mul(0x1_0000_0001) ^ sector.rotate_left(32) ^ index as u64),
    }
}

/// Fills whole sectors from number `first` on.
pub fn fill(version: u64, first: u64, bytes: &mut [u8]) {
    assert!(version > 0, "version 0 is what was never written");
    for (sector, bytes) in (first..).zip(bytes.chunks_exact_mut(SECTOR)) {
        for (index, bytes) in bytes.chunks_exact_mut(8).enumerate() {
            bytes.copy_from_slice(&word(version, sector, index).to_le_bytes());
        }
    }
}

/// What this sector is.
#[must_use]
pub fn identify(sector: u64, bytes: &[u8]) -> Found {
    assert_eq!(bytes.len(), SECTOR, "one sector");
    if bytes.iter().all(|byte| *byte == 0) {
        return Found::Zeroes;
    }
    let mut words = [0; WORDS];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    let (version, place) = (words[0], words[1]);
    let is_whole = (0..WORDS).all(|index| words[index] == word(version, place, index));
    match is_whole && version > 0 {
        true if place == sector => Found::Version(version),
        true => Found::Misplaced {
            version,
            sector: place,
        },
        false => Found::Garbage,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_recognised_and_any_change_to_it_too() {
        let mut bytes = vec![0; 2 * SECTOR];
        assert_eq!(identify(7, &bytes[..SECTOR]), Found::Zeroes);
        fill(9, 7, &mut bytes);
        assert_eq!(identify(7, &bytes[..SECTOR]), Found::Version(9));
        assert_eq!(identify(8, &bytes[SECTOR..]), Found::Version(9));
        let misplaced = Found::Misplaced {
            version: 9,
            sector: 7,
        };
        assert_eq!(identify(8, &bytes[..SECTOR]), misplaced);
        let mut other = bytes.clone();
        fill(10, 7, &mut other);
        bytes[256..SECTOR].copy_from_slice(&other[256..SECTOR]);
        assert_eq!(identify(7, &bytes[..SECTOR]), Found::Garbage);
    }
}
