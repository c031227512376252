//! Header and data digests: CRC-32C, sent least significant byte first (NVMe/TCP "Digests").

use crc_fast::{CrcAlgorithm, Digest};

/// Bytes of a digest on the wire.
pub const DIGEST_BYTES: usize = 4;

/// The digests that host and controller agreed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digests {
    /// Each header is followed by its digest.
    pub header: bool,
    /// Data is followed by its digest.
    pub data: bool,
}

/// Returns the digest of `bytes`.
#[must_use]
pub fn digest_of(bytes: &[u8]) -> [u8; DIGEST_BYTES] {
    digest_of_pieces([bytes])
}

/// Returns the digest of all `pieces`, one after the other.
#[must_use]
pub fn digest_of_pieces<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> [u8; DIGEST_BYTES] {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    pieces.into_iter().for_each(|piece| digest.update(piece));
    let sum = u32::try_from(digest.finalize()).expect("a digest of 32 bits");
    sum.to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of RFC 3720, appendix B.4, in the order of bytes on the wire.
    #[test]
    fn digests_are_those_of_the_standard() {
        assert_eq!(digest_of(&[0; 32]), [0xaa, 0x36, 0x91, 0x8a]);
        assert_eq!(digest_of(&[0xff; 32]), [0x43, 0xab, 0xa8, 0x62]);
        let rising: Vec<u8> = (0..32).collect();
        assert_eq!(digest_of(&rising), [0x4e, 0x79, 0xdd, 0x46]);
        let (front, back) = rising.split_at(5);
        assert_eq!(digest_of_pieces([front, back]), digest_of(&rising));
    }
}
