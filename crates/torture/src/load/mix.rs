//! Which requests: random ones, of every kind and alignment.

use crate::client::Command;

use crate::random::Random;
use crate::stamp::SECTOR;

/// Sectors of a block of the server.
const BLOCK: u64 = 4096 / SECTOR as u64;
/// One of so many sectors is hot.
const HOT: u64 = 16;

pub(super) struct Mix {
    sectors: u64,
    sectors_max: u64,
    random: Random,
}

pub(super) struct Chosen {
    pub(super) command: Command,
    pub(super) first: u64,
    pub(super) count: u64,
    pub(super) fua: bool,
}

impl Mix {
    pub(super) fn new(sectors: u64, sectors_max: u64, seed: u64) -> Mix {
        assert!(sectors >= HOT * BLOCK, "a LUN worth torturing");
        assert!(sectors_max >= BLOCK, "writes of a block at least");
        Mix {
            sectors,
            sectors_max: sectors_max.min(sectors),
            random: Random::new(seed),
        }
    }

    pub(super) fn next(&mut self) -> Chosen {
        let command = match self.random.below(100) {
            0..=4 => {
                return Chosen {
                    command: Command::Flush,
                    first: 0,
                    count: 0,
                    fua: false,
                };
            }
            5..=9 => Command::Trim,
            10..=14 => Command::WriteZeroes,
            15..=19 => Command::Read,
            _ => Command::Write,
        };
        let (first, count) = self.range(command);
        Chosen {
            command,
            first,
            count,
            fua: command != Command::Read && self.random.one_in(16),
        }
    }

    fn range(&mut self, command: Command) -> (u64, u64) {
        let count = match self.random.below(100) {
            // Parts of a block.
            0..=24 => 1 + self.random.below(BLOCK - 1),
            // Anything, mostly short.
            25..=39 => 1 + self.random.below(4 * BLOCK),
            40..=69 => BLOCK,
            70..=94 => BLOCK * (1 + self.random.below(16)),
            95..=98 => 1 + self.random.below(self.sectors_max),
            _ => self.sectors_max,
        };
        let count = count.min(self.sectors_max);
        let end = if self.random.one_in(2) {
            (self.sectors / HOT).max(count)
        } else {
            self.sectors
        };
        let first = self.random.below(end - count + 1);
        if command == Command::Trim {
            // Only whole blocks become zeroes, so only whole blocks are asked for.
            let first = first / BLOCK * BLOCK;
            let count = count.next_multiple_of(BLOCK).min(self.sectors - first);
            return (first, count);
        }
        if count.is_multiple_of(BLOCK) && !self.random.one_in(8) {
            return (first / BLOCK * BLOCK, count);
        }
        (first, count)
    }
}
