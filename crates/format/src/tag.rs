//! Tags: 48-bit keyed codes of a block's content (docs/design/on-disk-format.md §2).
//!
//! PH(m) = ⊕ (m₂ᵢ ⊕ k₂ᵢ) ⊗ (m₂ᵢ₊₁ ⊕ k₂ᵢ₊₁) over the block's 512 words, where ⊗ is the product of
//! polynomials over GF(2) and k is as long as the block. The tag is SipHash-2-4 of the 128-bit PH
//! under a second key, cut to 48 bits. Two different blocks chosen without knowledge of the key
//! collide with probability at most 2⁻⁶⁴ in PH and 2⁻⁴⁸ in the cut. Nothing but the content goes
//! in, so moving, sharing and compacting change no tag.
//!
//! Three kernels compute the same product: portable (12 µs a block), PCLMULQDQ, and VPCLMULQDQ with
//! 512-bit registers; the best is chosen once per key.

mod kernel;

use siphasher::sip::SipHasher24;

use crate::{BLOCK_SIZE, Block};

/// Bits of a tag.
pub const TAG_BITS: u32 = 48;
/// Bytes of an aggregate's secret.
pub const SECRET_BYTES: usize = 32;

/// A keyed code of a block's content.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tag(pub u64);

impl Tag {
    /// The tag in a code.
    #[must_use]
    pub fn of(code: u64) -> Tag {
        Tag(code & ((1 << TAG_BITS) - 1))
    }
}

impl std::fmt::Debug for Tag {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tag({:012x})", self.0)
    }
}

impl std::fmt::Display for Tag {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:012x}", self.0)
    }
}

/// The keys of one aggregate, expanded from its secret.
pub struct TagKey {
    words: Box<[u64; BLOCK_SIZE / 8]>,
    sip: (u64, u64),
    /// See [`TagKey::name`].
    name: u32,
    kernel: kernel::Kernel,
}

impl TagKey {
    /// Expands a secret. Takes microseconds; keep the result.
    #[must_use]
    pub fn new(secret: &[u8; SECRET_BYTES]) -> Self {
        let mut stream = blake3::Hasher::new_keyed(secret);
        stream.update(b"everglade tag key v0");
        let mut stream = stream.finalize_xof();
        let mut word = || {
            let mut bytes = [0; 8];
            stream.fill(&mut bytes);
            u64::from_le_bytes(bytes)
        };
        let words = Box::new(std::array::from_fn(|_| word()));
        let sip = (word(), word());
        let [a, b, c, d, ..] = word().to_le_bytes();
        TagKey {
            words,
            sip,
            name: u32::from_le_bytes([a, b, c, d]) | 2,
            kernel: kernel::Kernel::best(),
        }
    }

    /// A number that tells this key from others in the memory of a process, at least 2. It says
    /// nothing about the key and is never stored.
    #[must_use]
    pub fn name(&self) -> u32 {
        self.name
    }

    /// The tag of a block.
    #[must_use]
    pub fn tag(&self, block: &Block) -> Tag {
        Tag::of(self.code(block))
    }

    /// Returns the code with all 64 bits, for blocks that carry their own check.
    #[must_use]
    pub fn code(&self, block: &Block) -> u64 {
        let product = self.kernel.product(block, &self.words);
        SipHasher24::new_with_keys(self.sip.0, self.sip.1).hash(&product.to_le_bytes())
    }
}

impl std::fmt::Debug for TagKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TagKey(secret)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_kernels_agree() {
        let key = TagKey::new(&[7; 32]);
        let mut block = [0u8; BLOCK_SIZE];
        let mut state = 1u64;
        for round in 0..20 {
            for byte in &mut block {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(round);
                *byte = state.to_le_bytes()[7];
            }
            let products: Vec<u128> = kernel::Kernel::all()
                .iter()
                .map(|k| k.product(&block, &key.words))
                .collect();
            assert!(products.iter().all(|p| *p == products[0]), "{products:x?}");
        }
    }

    #[test]
    fn the_tag_is_part_of_the_format() {
        // Known answers: a change here makes every existing pool unreadable.
        let key = TagKey::new(&[1; 32]);
        assert_eq!(
            key.tag(&[0; BLOCK_SIZE]),
            Tag(KNOWN_ZERO),
            "{:?}",
            key.tag(&[0; BLOCK_SIZE])
        );
        let counting = std::array::from_fn(|i| u8::try_from(i % 251).unwrap());
        assert_eq!(
            key.tag(&counting),
            Tag(KNOWN_COUNTING),
            "{:?}",
            key.tag(&counting)
        );
    }
    const KNOWN_ZERO: u64 = 0x88c9_89af_4740;
    const KNOWN_COUNTING: u64 = 0x08b4_d5e0_49c6;

    #[test]
    fn every_bit_of_the_block_matters() {
        let key = TagKey::new(&[9; 32]);
        let mut block = [0x5a; BLOCK_SIZE];
        let before = key.tag(&block);
        for bit in (0..BLOCK_SIZE * 8).step_by(61) {
            block[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(key.tag(&block), before, "bit {bit}");
            block[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
