//! The carry-less product of a block with its key, in three speeds.
#![expect(
    unsafe_code,
    reason = "checksum kernels call vector instructions (docs/contributing/house-style.md §6)"
)]

use crate::bytes::u64_at;
use crate::{BLOCK_SIZE, Block};

type Key = [u64; BLOCK_SIZE / 8];

/// An implementation of the product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kernel {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Clmul,
    #[cfg(target_arch = "x86_64")]
    WideClmul,
}

impl Kernel {
    /// Returns the implementations that this CPU can run, slowest first.
    pub(super) fn all() -> Vec<Kernel> {
        let mut all = vec![Kernel::Portable];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("pclmulqdq") && is_x86_feature_detected!("sse4.1") {
                all.push(Kernel::Clmul);
            }
            if is_x86_feature_detected!("vpclmulqdq") && is_x86_feature_detected!("avx512f") {
                all.push(Kernel::WideClmul);
            }
        }
        all
    }

    pub(super) fn best() -> Kernel {
        *Self::all()
            .last()
            .expect("the portable kernel runs everywhere")
    }

    pub(super) fn product(self, block: &Block, key: &Key) -> u128 {
        match self {
            Kernel::Portable => portable(block, key),
            // SAFETY: `all` offers this kernel only where the CPU has the instructions.
            #[cfg(target_arch = "x86_64")]
            Kernel::Clmul => unsafe { clmul(block, key) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Kernel::WideClmul => unsafe { wide_clmul(block, key) },
        }
    }
}

fn portable(block: &Block, key: &Key) -> u128 {
    let mut sum = 0;
    for pair in 0..BLOCK_SIZE / 16 {
        let a = u64_at(block, pair * 16) ^ key[pair * 2];
        let b = u64_at(block, pair * 16 + 8) ^ key[pair * 2 + 1];
        sum ^= multiply(a, b);
    }
    sum
}

/// Product over GF(2), four bits of `a` at a time.
fn multiply(a: u64, b: u64) -> u128 {
    let b = u128::from(b);
    let mut table = [0u128; 16];
    for (index, entry) in table.iter_mut().enumerate() {
        for bit in 0..4 {
            if index >> bit & 1 == 1 {
                *entry ^= b << bit;
            }
        }
    }
    (0..16).fold(0, |sum, nibble| {
        sum ^ table[(a >> (nibble * 4) & 15) as usize] << (nibble * 4)
    })
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "pclmulqdq,sse4.1")]
fn clmul(block: &Block, key: &Key) -> u128 {
    use std::arch::x86_64::{
        __m128i, _mm_clmulepi64_si128, _mm_extract_epi64, _mm_loadu_si128, _mm_setzero_si128,
        _mm_xor_si128,
    };
    let mut sums = [_mm_setzero_si128(); 4];
    let (data, keys) = (
        block.as_ptr().cast::<__m128i>(),
        key.as_ptr().cast::<__m128i>(),
    );
    for group in 0..BLOCK_SIZE / 64 {
        for (lane, sum) in sums.iter_mut().enumerate() {
            let index = group * 4 + lane;
            // SAFETY: both arrays are 4,096 bytes long and `index` is below 256.
            let x = unsafe {
                _mm_xor_si128(
                    _mm_loadu_si128(data.add(index)),
                    _mm_loadu_si128(keys.add(index)),
                )
            };
            *sum = _mm_xor_si128(*sum, _mm_clmulepi64_si128::<0x10>(x, x));
        }
    }
    let sum = _mm_xor_si128(
        _mm_xor_si128(sums[0], sums[1]),
        _mm_xor_si128(sums[2], sums[3]),
    );
    join(_mm_extract_epi64::<0>(sum), _mm_extract_epi64::<1>(sum))
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "vpclmulqdq,avx512f,pclmulqdq,sse4.1")]
fn wide_clmul(block: &Block, key: &Key) -> u128 {
    use std::arch::x86_64::{
        __m512i, _mm_extract_epi64, _mm_xor_si128, _mm512_clmulepi64_epi128,
        _mm512_extracti32x4_epi32, _mm512_loadu_si512, _mm512_setzero_si512, _mm512_xor_si512,
    };
    let mut sums = [_mm512_setzero_si512(); 4];
    let (data, keys) = (
        block.as_ptr().cast::<__m512i>(),
        key.as_ptr().cast::<__m512i>(),
    );
    for group in 0..BLOCK_SIZE / 256 {
        for (lane, sum) in sums.iter_mut().enumerate() {
            let index = group * 4 + lane;
            // SAFETY: both arrays are 4,096 bytes long and `index` is below 64.
            let x = unsafe {
                _mm512_xor_si512(
                    _mm512_loadu_si512(data.add(index)),
                    _mm512_loadu_si512(keys.add(index)),
                )
            };
            *sum = _mm512_xor_si512(*sum, _mm512_clmulepi64_epi128::<0x10>(x, x));
        }
    }
    let wide = _mm512_xor_si512(
        _mm512_xor_si512(sums[0], sums[1]),
        _mm512_xor_si512(sums[2], sums[3]),
    );
    let low = _mm_xor_si128(
        _mm512_extracti32x4_epi32::<0>(wide),
        _mm512_extracti32x4_epi32::<1>(wide),
    );
    let high = _mm_xor_si128(
        _mm512_extracti32x4_epi32::<2>(wide),
        _mm512_extracti32x4_epi32::<3>(wide),
    );
    let sum = _mm_xor_si128(low, high);
    join(_mm_extract_epi64::<0>(sum), _mm_extract_epi64::<1>(sum))
}

#[cfg(target_arch = "x86_64")]
fn join(low: i64, high: i64) -> u128 {
    u128::from(low.cast_unsigned()) | u128::from(high.cast_unsigned()) << 64
}
