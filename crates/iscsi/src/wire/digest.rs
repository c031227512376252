//! Digests: CRC32C of a header, or of data with its padding (RFC 7143 §13.1).
//!
//! The digest is sent with its least significant byte first: of 32 bytes of zero it is the bytes
//! aa 36 91 8a (RFC 7143 appendix A.4).

use crc_fast::{CrcAlgorithm, Digest as Crc};

/// Bytes of a digest.
pub const DIGEST_BYTES: usize = 4;

/// A digest of bytes that come one after the other.
pub struct Sum(Crc);

impl Default for Sum {
    fn default() -> Self {
        Sum(Crc::new(CrcAlgorithm::Crc32Iscsi))
    }
}

impl Sum {
    /// Adds bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the digest of the bytes so far.
    ///
    /// # Panics
    /// Never: the checksum has 32 bits.
    #[must_use]
    pub fn digest(&self) -> [u8; DIGEST_BYTES] {
        let value = u32::try_from(self.0.finalize()).expect("32 bits of checksum");
        value.to_le_bytes()
    }
}

/// Returns the digest of all the bytes of `pieces`, in order.
#[must_use]
pub fn digest<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> [u8; DIGEST_BYTES] {
    let mut sum = Sum::default();
    pieces.into_iter().for_each(|piece| sum.add(piece));
    sum.digest()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7143 appendix A.4.
    #[test]
    fn the_examples_of_the_standard() {
        let up: Vec<u8> = (0..32).collect();
        let down: Vec<u8> = (0..32).rev().collect();
        for (bytes, expected) in [
            (&[0; 32][..], [0xaa, 0x36, 0x91, 0x8a]),
            (&[0xff; 32], [0x43, 0xab, 0xa8, 0x62]),
            (&up, [0x4e, 0x79, 0xdd, 0x46]),
            (&down, [0x5c, 0xdb, 0x3f, 0x11]),
        ] {
            assert_eq!(digest([bytes]), expected);
            assert_eq!(digest([&bytes[..5], &bytes[5..]]), expected);
        }
    }
}
