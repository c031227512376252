//! Exclusive or of blocks, with the widest registers that the processor has.
//!
//! Each kernel is an ordinary loop that the compiler turns into vector instructions. It exists once
//! for each set of instructions ([`dispatch`]), and the first call asks the processor.

use super::ring::{Direction, PIECE_BYTES, PIECES};
use super::{BLOCK_BYTES, Block};

/// Bytes of sums that stay in registers while all sources are added.
const LANE: usize = 128;

/// Defines a kernel that runs with the instructions of the processor at hand.
macro_rules! dispatch {
    ($(#[$doc:meta])* fn $name:ident($($arg:ident: $type:ty),*) = $body:ident) => {
        $(#[$doc])*
        pub(super) fn $name($($arg: $type),*) {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f")]
                fn with_avx512($($arg: $type),*) {
                    $body($($arg),*);
                }
                #[target_feature(enable = "avx2")]
                fn with_avx2($($arg: $type),*) {
                    $body($($arg),*);
                }
                if std::arch::is_x86_feature_detected!("avx512f") {
                    // SAFETY: the processor was just asked for these instructions.
                    #[expect(unsafe_code, reason = "run-time dispatch")]
                    return unsafe { with_avx512($($arg),*) };
                }
                if std::arch::is_x86_feature_detected!("avx2") {
                    // SAFETY: the processor was just asked for these instructions.
                    #[expect(unsafe_code, reason = "run-time dispatch")]
                    return unsafe { with_avx2($($arg),*) };
                }
            }
            $body($($arg),*);
        }
    };
}

dispatch! {
    /// Sets `out` to the sum of all sources.
    fn row(sources: &[&Block], out: &mut Block) = row_body
}

dispatch! {
    /// Adds a block to another one.
    fn add(source: &Block, out: &mut Block) = add_body
}

dispatch! {
    /// Adds a block, rotated by `by` columns, to diagonals, whose last piece is not stored.
    fn add_rotated(source: &Block, by: usize, direction: Direction, out: &mut Block)
        = add_rotated_body
}

#[inline(always)]
fn row_body(sources: &[&Block], out: &mut Block) {
    for at in (0..BLOCK_BYTES).step_by(LANE) {
        let mut sum = [0u8; LANE];
        for source in sources {
            let source: &[u8; LANE] = source[at..].first_chunk().expect("lanes divide a block");
            for (sum, byte) in sum.iter_mut().zip(source) {
                *sum ^= byte;
            }
        }
        out[at..at + LANE].copy_from_slice(&sum);
    }
}

#[inline(always)]
fn add_body(source: &[u8], out: &mut [u8]) {
    for (out, byte) in out.iter_mut().zip(source) {
        *out ^= byte;
    }
}

#[inline(always)]
fn add_rotated_body(source: &Block, by: usize, direction: Direction, out: &mut Block) {
    let shift = direction.pieces(by);
    if shift == 0 {
        return add_body(source, out);
    }
    // Piece i goes to i + shift. The piece that goes to the last place of the ring is not stored,
    // and those behind it begin at 0.
    let (front, back) = source.split_at((PIECES - 1 - shift) * PIECE_BYTES);
    add_body(front, &mut out[shift * PIECE_BYTES..]);
    add_body(&back[PIECE_BYTES..], out);
}
