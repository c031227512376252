//! The eight streams: how often each asks, for what, and where.

use super::walk::Walk;
use crate::Random;

/// Requests per second of one business scaling unit (BSU).
pub const BSU_RATE: f64 = 50.0;
/// Bytes of a block.
pub const BLOCK_BYTES: u64 = 4096;

/// The parts of the space: 45, 45 and 10 %.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// What applications work on.
    Data,
    /// What users keep.
    User,
    /// The log of the database.
    Log,
}

impl Store {
    /// First block and number of blocks, of a space of so many blocks.
    #[must_use]
    pub fn place(self, blocks: u64) -> (u64, u64) {
        let (data, user) = (blocks * 45 / 100, blocks * 45 / 100);
        match self {
            Store::Data => (0, data),
            Store::User => (data, user),
            Store::Log => (data + user, blocks - data - user),
        }
    }
}

/// Where a stream goes, in percent of its store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Anywhere.
    Uniform,
    /// Any even block.
    UniformEven,
    /// A hierarchical reuse random walk in 5 % of the store, which begin here.
    Walk(u64),
    /// One block after the other for `length`, then from a new place between `from` and `to`.
    Sequential {
        /// First place that a run may begin at.
        from: u64,
        /// The end of these places.
        to: u64,
        /// Length of a run.
        length: u64,
    },
}

/// What is known of a stream.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    /// As the specification numbers them: store and stream.
    pub name: &'static str,
    /// The store.
    pub store: Store,
    /// Of 1000 requests, how many are its own.
    pub share: u64,
    /// Of 100 requests, how many read.
    pub reads: u64,
    /// A mixture of sizes from one to 16 blocks; otherwise one block.
    pub is_mixed: bool,
    /// Where they go.
    pub pattern: Pattern,
}

/// Blocks of a request of mixed size, and how many of 25 have that size.
const SIZES: [(u64, u64); 5] = [(1, 10), (2, 6), (4, 5), (8, 2), (16, 2)];

/// All streams.
pub const STREAMS: [Stream; 8] = {
    const fn stream(
        (name, store): (&'static str, Store),
        (share, reads): (u64, u64),
        is_mixed: bool,
        pattern: Pattern,
    ) -> Stream {
        Stream {
            name,
            store,
            share,
            reads,
            is_mixed,
            pattern,
        }
    }
    const fn sequential(from: u64, to: u64, length: u64) -> Pattern {
        Pattern::Sequential { from, to, length }
    }
    [
        stream(("1-1", Store::Data), (35, 50), false, Pattern::Uniform),
        stream(("1-2", Store::Data), (281, 50), false, Pattern::Walk(15)),
        stream(
            ("1-3", Store::Data),
            (70, 100),
            true,
            sequential(20, 60, 10),
        ),
        stream(("1-4", Store::Data), (210, 50), false, Pattern::Walk(70)),
        stream(("2-1", Store::User), (18, 30), false, Pattern::UniformEven),
        stream(("2-2", Store::User), (70, 30), false, Pattern::Walk(47)),
        stream(
            ("2-3", Store::User),
            (35, 100),
            true,
            sequential(20, 60, 10),
        ),
        stream(("3-1", Store::Log), (281, 0), true, sequential(0, 70, 30)),
    ]
};

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Index in [`STREAMS`].
    pub stream: usize,
    /// It reads; otherwise it writes.
    pub is_read: bool,
    /// First block.
    pub block: u64,
    /// Number of blocks.
    pub blocks: u64,
}

/// A stream of one group of users: where it is.
#[derive(Clone, Debug)]
pub(super) struct Place {
    index: usize,
    first: u64,
    blocks: u64,
    walk: Option<Walk>,
    /// Next block and end of a sequential run.
    run: (u64, u64),
}

/// A part of 100 of a number of blocks.
fn part(blocks: u64, percent: u64) -> u64 {
    blocks * percent / 100
}

impl Place {
    /// The stream of this index, in a space of so many blocks.
    pub(super) fn new(index: usize, blocks: u64, random: &mut Random) -> Place {
        let (first, blocks) = STREAMS[index].store.place(blocks);
        let walk = match STREAMS[index].pattern {
            Pattern::Walk(from) => {
                let from = first + part(blocks, from);
                Some(Walk::new(from, part(blocks, 5), random))
            }
            _ => None,
        };
        Place {
            index,
            first,
            blocks,
            walk,
            run: (0, 0),
        }
    }

    /// Its next request.
    pub(super) fn next(&mut self, random: &mut Random) -> Request {
        let stream = &STREAMS[self.index];
        let is_read = random.below(100) < stream.reads;
        let blocks = match stream.is_mixed {
            true => size(random),
            false => 1,
        };
        let block = match (stream.pattern, &mut self.walk) {
            (_, Some(walk)) if is_read => walk.read(random),
            (_, Some(walk)) => walk.write(random),
            (Pattern::Sequential { from, to, length }, _) => {
                if self.run.0 + blocks > self.run.1 {
                    let places = part(self.blocks, to - from).max(1);
                    let begin = part(self.blocks, from) + random.below(places);
                    let end = begin + part(self.blocks, length);
                    self.run = (self.first + begin, self.first + end.min(self.blocks));
                }
                let block = self.run.0;
                self.run.0 += blocks;
                block
            }
            (Pattern::UniformEven, _) => self.first + random.below(self.blocks / 2) * 2,
            _ => self.first + random.below(self.blocks),
        };
        Request {
            stream: self.index,
            is_read,
            block,
            blocks,
        }
    }
}

fn size(random: &mut Random) -> u64 {
    let mut drawn = random.below(25);
    for (blocks, share) in SIZES {
        if drawn < share {
            return blocks;
        }
        drawn -= share;
    }
    unreachable!("the shares make 25")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_make_a_whole() {
        assert_eq!(STREAMS.iter().map(|stream| stream.share).sum::<u64>(), 1000);
        assert_eq!(SIZES.iter().map(|(_, share)| share).sum::<u64>(), 25);
    }

    #[test]
    fn a_sequential_stream_goes_on_where_it_was_and_then_begins_anew() {
        let mut random = Random::new(4);
        let blocks = 1_000_000;
        let mut place = Place::new(7, blocks, &mut random);
        let (first, of_store) = Store::Log.place(blocks);
        let mut last: Option<Request> = None;
        let mut runs = 0;
        for _ in 0..100_000 {
            let next = place.next(&mut random);
            assert!(!next.is_read);
            assert!(next.block >= first && next.block + next.blocks <= first + of_store);
            let goes_on = last.is_some_and(|last| last.block + last.blocks == next.block);
            runs += u32::from(!goes_on);
            last = Some(next);
        }
        // Each run has 30,000 blocks, and a request 3.6 of them.
        assert!((10..15).contains(&runs), "{runs}");
    }
}
