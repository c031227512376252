//! One client's changes to the blocks that only it writes, and the prefixes of them that an image
//! can have.
//!
//! A client asks for one change at a time, so an image of its blocks is what some number of its
//! changes, from the first on, made of them. Every block written is unlike any other, so an image
//! tells that number, up to changes that changed nothing.

use everglade_env::BLOCK_SIZE;

use crate::rng::scramble;

/// The content of a block: the number of its write; 0 stands for zeroes.
pub(super) type Value = u64;
/// The value that a reader saw; `None` after an error.
pub(super) type Seen = Option<Value>;

/// The contents of block `slot` as write `value` writes it.
pub(super) fn page_of(value: Value, slot: u64) -> Vec<u8> {
    if value == 0 {
        return vec![0; BLOCK_SIZE];
    }
    let salt = scramble(value ^ slot << 40);
    let words = (0..BLOCK_SIZE as u64 / 8).map(|index| match index {
        0 => value,
        _ => salt.wrapping_mul(2 * index + 1),
    });
    words.flat_map(u64::to_le_bytes).collect()
}

/// The write that a block is from; nothing if its bytes are no write's.
pub(super) fn value_of(page: &[u8], slot: u64) -> Option<Value> {
    let mut word = [0; 8];
    word.copy_from_slice(&page[..8]);
    let value = u64::from_le_bytes(word);
    (page == page_of(value, slot)).then_some(value)
}

/// Returns the blocks with unexpected values, with the value seen and the expected one.
pub(super) fn odd_blocks(blocks: &[Value], seen: &[Seen]) -> Vec<(usize, Value, Value)> {
    let pairs = blocks.iter().zip(seen).enumerate();
    let odd = pairs.filter_map(|(slot, (block, seen))| {
        let seen = seen.filter(|seen| seen != block)?;
        Some((slot, seen, *block))
    });
    odd.collect()
}

/// A write or a discard of some blocks in a row.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) first: usize,
    pub(super) count: usize,
    pub(super) value: Value,
    /// Moment of the request.
    pub(super) issued: u64,
    /// When it was answered.
    pub(super) ended: Option<u64>,
    /// True if the change was refused and had no effect.
    pub(super) is_refused: bool,
}

/// See the module's documentation.
#[derive(Clone, Debug)]
pub(super) struct Track {
    /// Blocks before all changes.
    pub(super) base: Vec<Value>,
    pub(super) changes: Vec<Change>,
    /// Number of changes that are durable at least.
    pub(super) floor: usize,
}

impl Track {
    pub(super) fn new(base: Vec<Value>) -> Track {
        Track {
            base,
            changes: Vec::new(),
            floor: 0,
        }
    }

    /// The number of changes that were answered; they are the first.
    pub(super) fn ended(&self) -> usize {
        let open = self.changes.iter().rev();
        self.changes.len() - open.take_while(|change| change.ended.is_none()).count()
    }

    /// The blocks after changes `from..to` on top of `base`.
    pub(super) fn blocks(&self, base: &[Value], from: usize, to: usize) -> Vec<Value> {
        let mut blocks = base.to_vec();
        for change in &self.changes[from..to] {
            if !change.is_refused {
                blocks[change.first..change.first + change.count].fill(change.value);
            }
        }
        blocks
    }

    pub(super) fn now(&self) -> Vec<Value> {
        self.blocks(&self.base, 0, self.changes.len())
    }

    /// Describes the difference, for people: for the best number of changes, the unexplained
    /// blocks, with their values and the expected ones.
    pub(super) fn odd(
        &self,
        base: &[Value],
        from: usize,
        (least, most): (usize, usize),
        seen: &[Seen],
    ) -> String {
        let odd_of = |to: usize| odd_blocks(&self.blocks(base, from, to.max(from)), seen);
        let best = (0..=self.changes.len()).min_by_key(|to| odd_of(*to).len());
        let best = best.unwrap_or(0);
        let odd = odd_of(best);
        format!(
            "{best} of {} changes ({least} to {most} are right) fit best, but for {} (block, is, \
            should be): {:?}",
            self.changes.len(),
            odd.len(),
            &odd[..odd.len().min(8)]
        )
    }

    /// Returns the numbers of changes, from `least` to `most`, for which the blocks match `seen`.
    /// Changes from `from` on apply to `base`.
    pub(super) fn fits(
        &self,
        base: &[Value],
        from: usize,
        (least, most): (usize, usize),
        seen: &[Seen],
    ) -> Vec<usize> {
        let looks = |to: &usize| {
            let blocks = self.blocks(base, from, (*to).max(from));
            blocks
                .iter()
                .zip(seen)
                .all(|(block, seen)| seen.is_none_or(|seen| seen == *block))
        };
        (least..=most).filter(looks).collect()
    }
}

/// Returns the least fitting number of changes for each track, such that the image has all changes
/// answered before the request of any change in it.
pub(super) fn least_consistent(
    tracks: &[&Track],
    fits: &[Vec<usize>],
) -> Result<Vec<usize>, String> {
    let first = |(index, fits): (usize, &Vec<usize>)| {
        let least = fits.first().copied();
        least.ok_or(format!(
            "client {index} has an image that none of its changes made"
        ))
    };
    let mut counts = fits
        .iter()
        .enumerate()
        .map(first)
        .collect::<Result<Vec<_>, _>>()?;
    loop {
        let last = |(track, count): (&&Track, &usize)| {
            let changes = track.changes[..*count].iter().rev();
            changes.map(|change| change.issued).next().unwrap_or(0)
        };
        let moment = tracks.iter().zip(&counts).map(last).max().unwrap_or(0);
        let mut is_done = true;
        for (index, track) in tracks.iter().enumerate() {
            let needed = track
                .changes
                .partition_point(|change| change.ended.is_some_and(|ended| ended < moment));
            if counts[index] < needed {
                let more = fits[index].iter().find(|count| **count >= needed);
                counts[index] = *more.ok_or(format!(
                    "Prefix: client {index} has {} changes in the image, but {needed} were \
                    answered before something that is in it was asked for",
                    counts[index]
                ))?;
                is_done = false;
            }
        }
        if is_done {
            return Ok(counts);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn track(changes: &[(u64, Option<u64>)]) -> Track {
        let change = |(value, (issued, ended)): (u64, &(u64, Option<u64>))| Change {
            first: 0,
            count: 1,
            value: value + 1,
            issued: *issued,
            ended: *ended,
            is_refused: false,
        };
        Track {
            changes: (0..).zip(changes).map(change).collect(),
            ..Track::new(vec![0, 0])
        }
    }

    #[test]
    fn an_image_tells_how_many_changes_are_in_it() {
        let track = track(&[(1, Some(2)), (3, Some(4)), (5, None)]);
        assert_eq!(track.ended(), 2);
        let fits = |seen: Seen| track.fits(&[0, 0], 0, (0, 3), &[seen, Some(0)]);
        assert_eq!(fits(Some(0)), [0]);
        assert_eq!(fits(Some(2)), [2]);
        assert_eq!(fits(None), [0, 1, 2, 3]);
        assert!(fits(Some(9)).is_empty());
    }

    #[test]
    fn what_was_answered_before_is_in_the_image_too() {
        let (one, other) = (track(&[(1, Some(2))]), track(&[(3, Some(4))]));
        let tracks = [&one, &other];
        assert_eq!(
            least_consistent(&tracks, &[vec![0, 1], vec![1]]),
            Ok(vec![1, 1])
        );
        assert!(least_consistent(&tracks, &[vec![0], vec![1]]).is_err());
        assert_eq!(
            least_consistent(&tracks, &[vec![1], vec![0]]),
            Ok(vec![1, 0])
        );
    }

    #[test]
    fn blocks_tell_what_they_are() {
        assert_eq!(value_of(&page_of(7, 3), 3), Some(7));
        assert_eq!(value_of(&page_of(7, 3), 4), None);
        assert_eq!(value_of(&page_of(0, 3), 3), Some(0));
    }
}
