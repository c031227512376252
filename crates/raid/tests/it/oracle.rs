//! The oracle: parity by its definition, piece by piece, and lost columns as unknowns of a system
//! of linear equations over bits, solved by elimination. It knows no ring and no order of losses.
//!
//! An equation is a set of unknown pieces that add up to a known piece. The equations are the
//! definitions of the parity columns, with what is left put in.

use everglade_raid::code::{BLOCK_BYTES, DATA_MAX, PARITY_MAX};
use everglade_raid::{Block, Code};

use crate::losses::{losses, reconstruct, stripe};

const PIECE: usize = 16;
const STORED: usize = BLOCK_BYTES / PIECE;
const PRIME: usize = STORED + 1;
/// The number of row parity in diagonals.
const ROW: usize = 255;

fn piece(block: &Block, at: usize) -> u128 {
    let bytes = &block[at * PIECE..(at + 1) * PIECE];
    u128::from_le_bytes(bytes.try_into().expect("a piece"))
}

/// Pieces (column, index) that a parity column's equations add up to zero.
fn equations(code: Code) -> Vec<Vec<(usize, usize)>> {
    let data = code.data();
    let number = |column: usize| match column < data {
        true => column,
        false => ROW,
    };
    let mut all = Vec::new();
    if code.parity() > 0 {
        all.extend((0..STORED).map(|at| (0..=data).map(|column| (column, at)).collect()));
    }
    for parity in 1..code.parity() {
        for diagonal in 0..STORED {
            let mut pieces = vec![(data + parity, diagonal)];
            for column in 0..=data {
                let at = match parity {
                    1 => (diagonal + PRIME - number(column)) % PRIME,
                    _ => (diagonal + number(column)) % PRIME,
                };
                if at < STORED {
                    pieces.push((column, at));
                }
            }
            all.push(pieces);
        }
    }
    all
}

/// The lost columns, as far as the equations say what they are; `None` if they do not.
fn solve(code: Code, blocks: &[Block], lost: &[usize]) -> Option<Vec<Block>> {
    let unknowns = lost.len() * STORED;
    let words = unknowns.div_ceil(64);
    let mut rows: Vec<(Vec<u64>, u128)> = Vec::new();
    for pieces in equations(code) {
        let (mut bits, mut sum) = (vec![0u64; words], 0);
        for (column, at) in pieces {
            match lost.iter().position(|it| *it == column) {
                Some(index) => {
                    let bit = index * STORED + at;
                    bits[bit / 64] |= 1 << (bit % 64);
                }
                None => sum ^= piece(&blocks[column], at),
            }
        }
        rows.push((bits, sum));
    }
    for unknown in 0..unknowns {
        let has = |row: &(Vec<u64>, u128)| row.0[unknown / 64] >> (unknown % 64) & 1 == 1;
        let pivot = (unknown..rows.len()).find(|at| has(&rows[*at]))?;
        rows.swap(unknown, pivot);
        let (bits, sum) = rows[unknown].clone();
        for (at, row) in rows.iter_mut().enumerate() {
            if at != unknown && has(row) {
                row.0
                    .iter_mut()
                    .zip(&bits)
                    .for_each(|(word, other)| *word ^= other);
                row.1 ^= sum;
            }
        }
    }
    let mut found = vec![[0; BLOCK_BYTES]; lost.len()];
    for (unknown, (_, sum)) in rows.iter().take(unknowns).enumerate() {
        let at = unknown % STORED * PIECE;
        found[unknown / STORED][at..at + PIECE].copy_from_slice(&sum.to_le_bytes());
    }
    Some(found)
}

fn agree(code: Code, lost: &[usize]) {
    let whole = stripe(code, 1234);
    let mut blocks = whole.clone();
    for column in lost {
        blocks[*column].fill(0);
    }
    let found = solve(code, &blocks, lost).expect("within the redundancy");
    reconstruct(code, &mut blocks, lost).expect("within the redundancy");
    for (column, found) in lost.iter().zip(&found) {
        assert!(
            blocks[*column] == *found,
            "{code:?} lost {lost:?}: column {column}"
        );
        assert!(
            whole[*column] == *found,
            "{code:?} lost {lost:?}: column {column}"
        );
    }
}

#[test]
fn parity_is_what_its_definition_says() {
    for (data, parity) in [(1, 3), (2, 1), (3, 2), (9, 3), (DATA_MAX, 3)] {
        let code = Code::new(data, parity).expect("in range");
        let blocks = stripe(code, 42);
        for pieces in equations(code) {
            let sum = pieces
                .iter()
                .fold(0, |sum, (column, at)| sum ^ piece(&blocks[*column], *at));
            assert_eq!(sum, 0, "{code:?}: {pieces:?}");
        }
    }
}

#[test]
fn what_is_reconstructed_is_the_only_solution_of_the_equations() {
    for (data, parity) in [(1, 1), (2, 2), (2, 3)] {
        let code = Code::new(data, parity).expect("in range");
        for lost in losses(code.columns(), PARITY_MAX.min(parity)) {
            agree(code, &lost);
        }
    }
}

#[test]
fn wide_groups_agree_with_the_solver_too() {
    let code = Code::new(DATA_MAX, PARITY_MAX).expect("in range");
    for lost in [
        [0, 1, 2],
        [0, 14, 27],
        [3, 27, 28],
        [5, 28, 30],
        [26, 27, 29],
    ] {
        agree(code, &lost);
    }
}
