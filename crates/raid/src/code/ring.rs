//! A ring of 257 pieces of 16 bytes: a block and one piece more.

use super::{BLOCK_BYTES, Block};

/// Pieces of a ring; a prime.
pub(super) const PIECES: usize = 257;
/// Bytes of a piece.
pub(super) const PIECE_BYTES: usize = 16;
/// Index of the piece that a block does not have.
const LAST: usize = PIECES - 1;

const _: () = assert!(LAST * PIECE_BYTES == BLOCK_BYTES);

/// Which way a column is rotated before it is added to diagonals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// By x: diagonal parity.
    Up,
    /// By x^-1: antidiagonal parity.
    Down,
}

impl Direction {
    pub(super) fn opposite(self) -> Direction {
        match self {
            Direction::Up => Direction::Down,
            Direction::Down => Direction::Up,
        }
    }

    /// Pieces by which a rotation by `by` columns moves the first piece, below 257.
    pub(super) fn pieces(self, by: usize) -> usize {
        let by = by % PIECES;
        match self {
            Direction::Up => by,
            Direction::Down => (PIECES - by) % PIECES,
        }
    }

    /// Pieces from column number `from` to column number `to`.
    pub(super) fn distance(self, from: usize, to: usize) -> usize {
        self.pieces(to + PIECES - from)
    }
}

/// See the module's documentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ring([u128; PIECES]);

impl Ring {
    pub(super) fn zero() -> Ring {
        Ring([0; PIECES])
    }

    /// Makes a ring of a block: its last piece is zero.
    pub(super) fn load(block: &Block) -> Ring {
        let mut ring = Ring::zero();
        let (pieces, _) = block.as_chunks::<PIECE_BYTES>();
        for (piece, bytes) in ring.0.iter_mut().zip(pieces) {
            *piece = u128::from_le_bytes(*bytes);
        }
        ring
    }

    /// Makes a ring of stored diagonals: its last piece is the sum of the others.
    pub(super) fn load_with_sum(block: &Block) -> Ring {
        let mut ring = Ring::load(block);
        ring.0[LAST] = ring.sum();
        ring
    }

    /// Puts all pieces but the last one into a block.
    pub(super) fn store(&self, block: &mut Block) {
        let (pieces, _) = block.as_chunks_mut::<PIECE_BYTES>();
        for (piece, bytes) in self.0.iter().zip(pieces) {
            *bytes = piece.to_le_bytes();
        }
    }

    fn sum(&self) -> u128 {
        self.0.iter().fold(0, |sum, piece| sum ^ piece)
    }

    pub(super) fn add(&mut self, other: &Ring) {
        for (piece, other) in self.0.iter_mut().zip(&other.0) {
            *piece ^= other;
        }
    }

    /// Adds another ring, rotated by `by` columns.
    pub(super) fn add_rotated(&mut self, other: &Ring, by: usize, direction: Direction) {
        let shift = direction.pieces(by);
        let (front, back) = other.0.split_at(PIECES - shift);
        for (piece, other) in self.0[shift..].iter_mut().zip(front) {
            *piece ^= other;
        }
        for (piece, other) in self.0[..shift].iter_mut().zip(back) {
            *piece ^= other;
        }
    }

    /// Divides by 1 + x^`by`; the quotient is the one whose last piece is zero.
    pub(super) fn divide(&mut self, by: usize) {
        assert!(!by.is_multiple_of(PIECES), "two columns have one number");
        self.0[LAST] = 0;
        let (mut at, mut before) = (LAST, 0);
        for _ in 1..PIECES {
            at = (at + by) % PIECES;
            self.0[at] ^= before;
            before = self.0[at];
        }
    }

    /// Divides by 1 + x^`by`; the quotient is the one whose pieces add up to zero.
    pub(super) fn divide_to_even(&mut self, by: usize) {
        self.divide(by);
        let sum = self.sum();
        for piece in &mut self.0 {
            *piece ^= sum;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ring with different pieces.
    fn sample() -> Ring {
        let mut ring = Ring::zero();
        let mut state = 1u128;
        for piece in &mut ring.0 {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0xb5);
            *piece = state ^ (state << 64);
        }
        ring
    }

    fn times_1_plus_x(ring: &Ring, by: usize) -> Ring {
        let mut product = ring.clone();
        product.add_rotated(ring, by, Direction::Up);
        product
    }

    #[test]
    fn a_rotation_and_its_opposite_cancel_out() {
        for by in [0, 1, 16, 128, 255, 256] {
            let mut up = Ring::zero();
            up.add_rotated(&sample(), by, Direction::Up);
            let mut back = Ring::zero();
            back.add_rotated(&up, by, Direction::Down);
            assert_eq!(back, sample(), "by {by}");
        }
    }

    #[test]
    fn division_finds_the_ring_whose_last_piece_is_zero() {
        let mut wanted = sample();
        wanted.0[LAST] = 0;
        for by in 1..PIECES {
            let mut ring = times_1_plus_x(&wanted, by);
            ring.divide(by);
            assert_eq!(ring, wanted, "by {by}");
        }
    }

    #[test]
    fn division_finds_the_ring_whose_sum_is_zero() {
        let mut wanted = sample();
        wanted.0[7] ^= wanted.sum();
        for by in 1..PIECES {
            let mut ring = times_1_plus_x(&wanted, by);
            ring.divide_to_even(by);
            assert_eq!(ring, wanted, "by {by}");
        }
    }
}
