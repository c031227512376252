//! The places of operations in a LUN: hot spots, sequential runs, edges of blocks and of tree
//! nodes.

use everglade_env::BLOCK_SIZE;

use crate::Rng;

const BLOCK: u64 = BLOCK_SIZE as u64;

/// Blocks under one lowest indirect block (docs/design/design.md §4): its edges are where splitting
/// goes wrong.
pub const SPAN: u64 = 255;

/// The habits of the clients of one LUN.
#[derive(Clone, Debug)]
pub struct Places {
    /// Fractions of the LUN's size, in 1/65536.
    hot: [u64; 3],
    /// Next byte of the sequential run.
    cursor: u64,
}

impl Places {
    /// New habits.
    pub fn new(rng: &mut Rng) -> Places {
        // The first hot spot is the start: that is where partition tables and superblocks live.
        Places {
            hot: [0, rng.below(65_536), rng.below(65_536)],
            cursor: 0,
        }
    }

    /// A range of 1 to `length_max` bytes inside a LUN of `size` bytes.
    pub fn range(&mut self, size: u64, length_max: u64, rng: &mut Rng) -> (u64, u64) {
        let length = length(length_max, rng).min(size);
        let room = size - length;
        let offset = match rng.below(16) {
            0..5 => self.near_hot_spot(size, rng),
            5..9 => self.cursor,
            9..11 => {
                rng.between(0, room) / (SPAN * BLOCK) * (SPAN * BLOCK) + near_edge(length, rng)
            }
            11 => room,
            12 => 0,
            _ => rng.between(0, room),
        };
        // Most clients know about blocks.
        let offset = if rng.one_in(4) {
            offset
        } else {
            offset / BLOCK * BLOCK
        };
        let offset = offset.min(room);
        self.cursor = if offset + length < size {
            offset + length
        } else {
            0
        };
        (offset, length)
    }

    /// Returns the next `length` bytes of the sequential run, or the rest before the end of the
    /// LUN.
    pub fn next_run(&mut self, size: u64, length: u64) -> (u64, u64) {
        let offset = if self.cursor < size { self.cursor } else { 0 };
        self.cursor = (offset + length).min(size);
        (offset, self.cursor - offset)
    }

    fn near_hot_spot(&self, size: u64, rng: &mut Rng) -> u64 {
        let spot = self.hot[rng.index(3)];
        let start =
            u64::try_from(u128::from(size) * u128::from(spot) / 65_536).expect("less than size");
        start + rng.below(32 * BLOCK)
    }
}

/// A start such that `length` bytes reach over the edge at zero or begin around it.
fn near_edge(length: u64, rng: &mut Rng) -> u64 {
    let before = rng.below(2 * BLOCK + length);
    (SPAN * BLOCK).saturating_sub(before)
}

/// Draws a length from one byte to `most`, with all orders of magnitude equally likely.
fn length(most: u64, rng: &mut Rng) -> u64 {
    let drawn = match rng.below(16) {
        0 => rng.between(1, 16),
        1 => rng.between(1, BLOCK),
        2 => 512 * rng.between(1, 8),
        3..9 => BLOCK * rng.between(1, 8),
        9..12 => BLOCK * rng.between(1, 32),
        12 => rng.between(1, most),
        _ => {
            let magnitude = rng.below(u64::from(64 - most.leading_zeros()));
            rng.between(1, 1 << magnitude)
        }
    };
    drawn.clamp(1, most)
}
