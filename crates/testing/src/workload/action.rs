//! The possible requests, and the bytes of writes.

use everglade_env::{BLOCK_SIZE, Nanos};

use crate::Rng;
use crate::system::Admin;

/// One request. Ranges are in bytes and lie inside the LUN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Read.
    Read {
        /// Name of the LUN.
        lun: String,
        /// First byte of the range.
        offset: u64,
        /// Bytes, at most 1 MiB.
        length: u64,
    },
    /// Write of `contents(fill, length)`.
    Write {
        /// Name of the LUN.
        lun: String,
        /// First byte of the range.
        offset: u64,
        /// Bytes, at most 1 MiB.
        length: u64,
        /// Seed of the contents.
        fill: u64,
        /// Force unit access.
        durable: bool,
    },
    /// Discard.
    Discard {
        /// Name of the LUN.
        lun: String,
        /// First byte of the range.
        offset: u64,
        /// Bytes, any length.
        length: u64,
        /// Force unit access.
        durable: bool,
    },
    /// Write of zeroes.
    WriteZeroes {
        /// Name of the LUN.
        lun: String,
        /// First byte of the range.
        offset: u64,
        /// Bytes, any length.
        length: u64,
        /// Keep space.
        allocate: bool,
        /// Force unit access.
        durable: bool,
    },
    /// Flush.
    Flush {
        /// Through which LUN.
        lun: String,
    },
    /// A request of an administrator.
    Admin(Admin),
    /// A pause without requests, in nanoseconds.
    Pause(Nanos),
}

/// The bytes a write with this `fill` writes: mostly unlike any other, now and then zeroes, one
/// byte repeated, or one of a few blocks that come again and again.
#[must_use]
pub fn contents(fill: u64, length: u64) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(length).expect("at most 1 MiB")];
    let mut rng = Rng::for_part(fill, "contents");
    match rng.below(32) {
        0 => {}
        1 => {
            let [byte, ..] = rng.draw().to_le_bytes();
            bytes.fill(byte);
        }
        2 => {
            for block in bytes.chunks_mut(BLOCK_SIZE) {
                let again = rng.below(4);
                Rng::for_part(again, "repeated").fill(block);
            }
        }
        _ => rng.fill(&mut bytes),
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_mostly_differ() {
        let all: std::collections::BTreeSet<_> =
            (0..100).map(|fill| contents(fill, 4096)).collect();
        assert!(all.len() > 80, "{} different contents of 100", all.len());
    }
}
