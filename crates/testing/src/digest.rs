//! Digests: one number for everything a run did, and fingerprints of contents.
//!
//! Two runs of a seed are the same run iff their digests are equal (issue 2 item 6). The function
//! is our own and not cryptographic, because it only has to detect accidental differences.

use std::fmt;

const K0: u64 = 0xa076_1d64_78bd_642f;
const K1: u64 = 0xe703_7ed1_a0b4_28db;
const K2: u64 = 0x8ebc_6af0_9c88_c6e3;

/// A running hash over everything recorded so far, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest {
    a: u64,
    b: u64,
    /// Records absorbed: when two digests differ, a differing count says that one run did more.
    count: u64,
}

impl Default for Digest {
    fn default() -> Self {
        Digest {
            a: K0,
            b: K1,
            count: 0,
        }
    }
}

impl Digest {
    /// Absorbs one record made of numbers.
    pub fn numbers(&mut self, numbers: &[u64]) {
        for &number in numbers {
            self.absorb(number);
        }
        self.absorb(numbers.len() as u64 ^ K2);
        self.count += 1;
    }

    /// Absorbs one record made of bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        let print = fingerprint(bytes);
        self.numbers(&[halves(print).0, halves(print).1, bytes.len() as u64]);
    }

    /// Number of records absorbed.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    fn absorb(&mut self, number: u64) {
        self.a = fold(self.a ^ number, K1 ^ self.b);
        self.b = fold(self.b.wrapping_add(number), K2) ^ self.a.rotate_left(29);
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}{:016x}/{}", self.a, self.b, self.count)
    }
}

/// 128 bits that stand for `bytes`: equal contents have equal fingerprints, and the reverse up to
/// chance.
#[must_use]
pub fn fingerprint(bytes: &[u8]) -> u128 {
    let mut a = K0 ^ bytes.len() as u64;
    let mut b = K1;
    let mut pairs = bytes.chunks_exact(16);
    for pair in &mut pairs {
        let (x, y) = (word(&pair[..8]), word(&pair[8..]));
        a = fold(a ^ x, K1 ^ y);
        b = fold(b ^ y, K2 ^ x.rotate_left(32)).wrapping_add(a);
    }
    for piece in pairs.remainder().chunks(8) {
        a = fold(a ^ word(piece), K2);
        b = fold(b, K0 ^ a);
    }
    (u128::from(fold(a, K2)) << 64) | u128::from(fold(b, K0))
}

fn word(bytes: &[u8]) -> u64 {
    let mut full = [0; 8];
    full[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(full)
}

fn fold(x: u64, y: u64) -> u64 {
    let (high, low) = halves(u128::from(x) * u128::from(y));
    // The plain product would map every y to zero once x is zero.
    high ^ low ^ x.rotate_left(17) ^ y
}

/// The high and the low half.
pub(crate) fn halves(wide: u128) -> (u64, u64) {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the two halves are what is wanted"
    )]
    ((wide >> 64) as u64, wide as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_and_the_length_matter() {
        let base = vec![0_u8; 4096];
        let print = fingerprint(&base);
        for i in 0..4096 {
            let mut other = base.clone();
            other[i] ^= 1;
            assert_ne!(fingerprint(&other), print, "byte {i} does not matter");
        }
        assert_ne!(fingerprint(&base[..4095]), print);
    }

    #[test]
    fn order_and_grouping_of_records_matter() {
        let digest = |records: &[&[u64]]| {
            let mut digest = Digest::default();
            records.iter().for_each(|numbers| digest.numbers(numbers));
            digest
        };
        assert_ne!(digest(&[&[1], &[2]]), digest(&[&[2], &[1]]));
        assert_ne!(digest(&[&[1, 2]]), digest(&[&[1], &[2]]));
        assert_eq!(digest(&[&[1, 2]]), digest(&[&[1, 2]]));
    }
}
