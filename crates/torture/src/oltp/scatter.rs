//! Scatters the blocks of a disk without changing its contents (N-08).
//!
//! Each block is read and written back as it was, in random order. A store that writes blocks to
//! new places then has neighbours of the disk far from each other on its media. A power cut in
//! between loses nothing, because every write has what was there before.
//!
//! 1. Every block is written once: the order is a permutation.
//! 2. A block is written only after it was read. Nobody else may write meanwhile.

use std::io;

use crate::client::{Address, Ask, Command, Connection};
use crate::random::mix;

const BLOCK_BYTES: u32 = 4096;
/// Blocks that are read together, and then written.
const WINDOW: u64 = 64;
/// Rounds of the permutation.
const ROUNDS: u64 = 4;

/// An order of the numbers below a bound, from a seed: a Feistel network over the next power of
/// four, whose results beyond the bound are put through it again.
struct Permutation {
    bound: u64,
    /// Bits of each half.
    half: u32,
    seed: u64,
}

impl Permutation {
    fn new(bound: u64, seed: u64) -> Permutation {
        let bits = u64::BITS - bound.saturating_sub(1).leading_zeros();
        Permutation {
            bound,
            half: bits.div_ceil(2).max(1),
            seed,
        }
    }

    /// The number at a place of the order.
    fn at(&self, place: u64) -> u64 {
        let mask = (1 << self.half) - 1;
        let mut number = place;
        loop {
            for round in 0..ROUNDS {
                let (left, right) = (number >> self.half, number & mask);
                let mixed = mix(right ^ mix(self.seed ^ round << 56));
                number = right << self.half | (left ^ mixed) & mask;
            }
            if number < self.bound {
                return number;
            }
        }
    }
}

/// Reads and rewrites the first `bytes` bytes of an export in random order, and flushes. `tell`
/// hears how many blocks are done, and of how many.
///
/// # Errors
/// Those of the socket, and error replies.
pub fn scatter(
    address: &Address,
    export: &str,
    bytes: Option<u64>,
    seed: u64,
    mut tell: impl FnMut(u64, u64),
) -> io::Result<()> {
    let mut connection = Connection::open(address, export)?;
    let bytes = bytes.unwrap_or(connection.size_bytes);
    if bytes > connection.size_bytes {
        return Err(io::Error::other(format!(
            "it has {} bytes, not {bytes}",
            connection.size_bytes
        )));
    }
    let blocks = bytes / u64::from(BLOCK_BYTES);
    let order = Permutation::new(blocks.max(1), seed);
    let mut done = 0;
    while done < blocks {
        let end = (done + WINDOW).min(blocks);
        let places: Vec<u64> = (done..end).map(|place| order.at(place)).collect();
        rewrite(&mut connection, &places)?;
        done = end;
        tell(done, blocks);
    }
    let flush = Ask {
        command: Command::Flush,
        fua: false,
        cookie: 0,
        offset: 0,
        length: 0,
    };
    connection.call(flush, &[])?.right().map(drop)
}

fn rewrite(connection: &mut Connection, blocks: &[u64]) -> io::Result<()> {
    let ask = |command, cookie: usize| Ask {
        command,
        fua: false,
        cookie: cookie as u64,
        offset: blocks[cookie] * u64::from(BLOCK_BYTES),
        length: BLOCK_BYTES,
    };
    for cookie in 0..blocks.len() {
        connection.sender.send(ask(Command::Read, cookie), &[])?;
    }
    let mut contents = vec![Vec::new(); blocks.len()];
    for _ in blocks {
        let answer = connection
            .receiver
            .receive(|_| Some(BLOCK_BYTES))?
            .right()?;
        let place = usize::try_from(answer.cookie).ok();
        let place = place.and_then(|index| contents.get_mut(index));
        *place.ok_or_else(|| io::Error::other("an answer to nothing"))? = answer.data;
    }
    for (cookie, content) in contents.iter().enumerate() {
        connection
            .sender
            .send(ask(Command::Write, cookie), content)?;
    }
    for _ in blocks {
        connection.receiver.receive(|_| Some(0))?.right()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_comes_once_and_neighbours_are_far_apart() {
        for bound in [1, 2, 3, 63, 64, 65, 1000, 4097] {
            let order = Permutation::new(bound, 5);
            let mut all: Vec<u64> = (0..bound).map(|place| order.at(place)).collect();
            if bound >= 1000 {
                let near = all.windows(2).filter(|two| two[0].abs_diff(two[1]) < 8);
                assert!(near.count() < 40, "of {bound}");
            }
            all.sort_unstable();
            assert_eq!(all, (0..bound).collect::<Vec<_>>());
        }
    }
}
