//! A column: one block of the maps of all images, 32,768 vvbns side by side. Pure functions of
//! bits.
//!
//! Neighbours in the history that share their map block are one *station*, so a column has one
//! station for each version of the block. Stations are in the order of the history, parents before
//! their children.

use std::rc::Rc;

use everglade_format::{BITS_PER_BLOCK, BLOCK_SIZE, Block, bitmap};

/// The blocks that the images at a station hold.
pub(super) enum Hold {
    /// The station has no block: its images only join their neighbours.
    Nothing,
    /// The bits from this one on; below, nothing, as if they were gone.
    From(u64, Rc<Block>),
}

pub(super) struct Station {
    pub(super) parent: Option<usize>,
    pub(super) hold: Hold,
    /// Number of images with the same block.
    pub(super) members: usize,
}

impl Station {
    /// Blocks held here.
    pub(super) fn held(&self) -> Box<Block> {
        match &self.hold {
            Hold::Nothing => zero(),
            Hold::From(0, bits) => Box::new(**bits),
            Hold::From(first, bits) => {
                let mut held = Box::new(**bits);
                bitmap::keep_range(&mut held, *first, BITS_PER_BLOCK);
                held
            }
        }
    }

    /// Blocks that it would join neighbours by: those held, and all of which it holds nothing.
    fn joining(&self, held: &Block) -> Box<Block> {
        let mut joining = match &self.hold {
            Hold::Nothing => return Box::new([0xff; BLOCK_SIZE]),
            Hold::From(first, _) => {
                let mut below = Box::new([0xff; BLOCK_SIZE]);
                bitmap::keep_range(&mut below, 0, *first);
                below
            }
        };
        bitmap::unite(&mut joining, held);
        joining
    }
}

pub(super) fn zero() -> Box<Block> {
    Box::new([0; BLOCK_SIZE])
}

/// `bits` without those of `others`.
pub(super) fn without(bits: &Block, others: &Block) -> Box<Block> {
    let mut rest = Box::new(*bits);
    bitmap::subtract(&mut rest, others);
    rest
}

/// Adds the bits that were seen before to `twice`, and all bits to `once`.
fn see(once: &mut Block, twice: &mut Block, bits: &Block) {
    let mut again = Box::new(*bits);
    bitmap::intersect(&mut again, once);
    bitmap::unite(twice, &again);
    bitmap::unite(once, bits);
}

/// Blocks that more than one holds.
pub(super) fn shared(stations: &[Station], held: &[Box<Block>]) -> Box<Block> {
    let (mut once, mut twice) = (zero(), zero());
    for (station, held) in stations.iter().zip(held) {
        see(&mut once, &mut twice, held);
        if station.members > 1 {
            bitmap::unite(&mut twice, held);
        }
    }
    twice
}

/// Blocks whose holders are not connected.
///
/// From the leaves up, a block is *below* a station if the station holds it, or joins its children
/// and the block is below one of them. A connected part ends at a station that the block is below
/// and that is not joined to its parent. A second such station is an error.
pub(super) fn apart(stations: &[Station], held: &[Box<Block>]) -> Box<Block> {
    let mut below: Vec<Box<Block>> = held.to_vec();
    for at in (0..stations.len()).rev() {
        let joining = stations[at].joining(&held[at]);
        bitmap::intersect(&mut below[at], &joining);
        if let Some(parent) = stations[at].parent {
            let (before, after) = below.split_at_mut(at);
            bitmap::unite(&mut before[parent], &after[0]);
        }
    }
    let (mut once, mut twice) = (zero(), zero());
    for (at, station) in stations.iter().enumerate() {
        let mut ends = below[at].clone();
        if let Some(parent) = station.parent {
            bitmap::subtract(&mut ends, &stations[parent].joining(&held[parent]));
        }
        see(&mut once, &mut twice, &ends);
    }
    twice
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Stations by parent, held bits of 64, and the first that counts; nothing for one that is
    /// gone.
    type Plain = Vec<(Option<usize>, Option<(u64, u64)>)>;

    fn plain() -> impl Strategy<Value = Plain> {
        let one = (
            any::<proptest::sample::Index>(),
            any::<bool>(),
            proptest::option::weighted(0.8, (any::<u64>(), any::<u64>(), 0..128u64)),
        );
        proptest::collection::vec(one, 1..9).prop_map(|drawn| {
            let mut plain = Plain::new();
            for (at, (parent, is_root, hold)) in drawn.into_iter().enumerate() {
                let parent = (at > 0 && !is_root).then(|| parent.index(at));
                // Few bits, so that they are often connected.
                let hold = hold.map(|(one, other, first)| (one & other, first.saturating_sub(64)));
                plain.push((parent, hold));
            }
            plain
        })
    }

    fn holds(plain: &Plain, at: usize, bit: u64) -> Option<bool> {
        let (_, hold) = plain[at];
        hold.filter(|(_, first)| bit >= *first)
            .map(|(bits, _)| bits >> bit & 1 == 1)
    }

    /// Holders of a bit that can be reached from one of them, over others and over those that hold
    /// nothing.
    fn reached(plain: &Plain, bit: u64, from: usize) -> usize {
        let mut seen = vec![from];
        let mut at = 0;
        while at < seen.len() {
            let here = seen[at];
            for next in 0..plain.len() {
                let is_near = plain[here].0 == Some(next) || plain[next].0 == Some(here);
                if is_near && holds(plain, next, bit) != Some(false) && !seen.contains(&next) {
                    seen.push(next);
                }
            }
            at += 1;
        }
        seen.iter()
            .filter(|at| holds(plain, **at, bit) == Some(true))
            .count()
    }

    proptest! {
        #[test]
        fn sharing_and_connection_agree_with_looking_at_every_bit(plain in plain()) {
            let stations: Vec<Station> = plain.iter().map(|(parent, hold)| Station {
                parent: *parent,
                members: 1,
                hold: match hold {
                    None => Hold::Nothing,
                    Some((bits, first)) => {
                        let mut block = [0; BLOCK_SIZE];
                        block[..8].copy_from_slice(&bits.to_le_bytes());
                        Hold::From(*first, Rc::new(block))
                    }
                },
            }).collect();
            let held: Vec<Box<Block>> = stations.iter().map(Station::held).collect();
            let (shared, apart) = (shared(&stations, &held), apart(&stations, &held));
            for bit in 0..64 {
                let has = |at: &usize| holds(&plain, *at, bit) == Some(true);
                let holders: Vec<usize> = (0..plain.len()).filter(has).collect();
                prop_assert_eq!(bitmap::is_set(&shared, bit), holders.len() > 1, "bit {}", bit);
                let is_apart = holders
                    .first()
                    .is_some_and(|first| reached(&plain, bit, *first) < holders.len());
                prop_assert_eq!(bitmap::is_set(&apart, bit), is_apart, "bit {}", bit);
            }
            let beyond = |map| bitmap::count(map, 64, BITS_PER_BLOCK);
            prop_assert_eq!(beyond(&shared) + beyond(&apart), 0);
        }
    }
}
