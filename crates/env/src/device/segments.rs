//! The segments of a device, as a table that grows at its end while reactors use it.
//!
//! first: [0 … F)   later[0]: [F … F + 64)   later[1]: [F + 64 … F + 192)   later[2]: …
//!
//! The segments that the device had when it was opened are in one array. Chunks behind it, each
//! twice as large as the one before, take the segments of later growth. A chunk is made before the
//! size of the device covers it, and neither moves nor goes, so no reader waits or takes a lock. A
//! device that never grew costs its readers one comparison, the one that checks the index.

use std::sync::OnceLock;

use super::Segment;

/// Segments of the first chunk.
const CHUNK: usize = 64;
/// Enough for twice the number of segments that a directory may have (2^20).
const CHUNKS: usize = 15;

/// See the module's documentation.
pub(super) struct Segments {
    first: Box<[Segment]>,
    later: [OnceLock<Box<[Segment]>>; CHUNKS],
}

impl Segments {
    pub(super) fn new(first: Vec<Segment>) -> Segments {
        Segments {
            first: first.into_boxed_slice(),
            later: std::array::from_fn(|_| OnceLock::new()),
        }
    }

    /// Returns a segment. The caller has checked that the device has it.
    pub(super) fn get(&self, index: usize) -> &Segment {
        match self.first.get(index) {
            Some(segment) => segment,
            None => self.get_later(index - self.first.len()),
        }
    }

    fn get_later(&self, index: usize) -> &Segment {
        let (chunk, slot) = chunk_and_slot(index);
        let chunk = self.later[chunk].get();
        &chunk.expect("a device has segments before its size says so")[slot]
    }

    /// Makes absent segments, until there are at least this many.
    pub(super) fn grow_to(&self, count: usize) {
        let Some(last) = count.checked_sub(self.first.len() + 1) else {
            return;
        };
        let (last_chunk, _) = chunk_and_slot(last);
        for (number, chunk) in self.later[..=last_chunk].iter().enumerate() {
            chunk.get_or_init(|| (0..CHUNK << number).map(|_| Segment::absent()).collect());
        }
    }

    /// Returns all segments, in order. Some at the end may be behind the end of the device; these
    /// are absent.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Segment> {
        let chunks = self.later.iter().map_while(OnceLock::get);
        self.first
            .iter()
            .chain(chunks.flat_map(|chunk| chunk.iter()))
    }
}

/// Returns the chunk of the segment with this number behind the first ones, and its index there.
fn chunk_and_slot(index: usize) -> (usize, usize) {
    let chunk = (index / CHUNK + 1).ilog2() as usize;
    (chunk, index - CHUNK * ((1 << chunk) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_lie_behind_each_other() {
        let mut expected = (0, 0);
        for index in 0..10_000 {
            assert_eq!(chunk_and_slot(index), expected, "{index}");
            expected.1 += 1;
            if expected.1 == CHUNK << expected.0 {
                expected = (expected.0 + 1, 0);
            }
        }
        assert!(chunk_and_slot(1 << 20).0 < CHUNKS);
    }

    #[test]
    fn a_segment_stays_where_it_is_when_others_come() {
        let segments = Segments::new((0..3).map(|_| Segment::existing()).collect());
        let address = |index| std::ptr::from_ref(segments.get(index)).addr();
        segments.grow_to(2);
        assert_eq!(segments.iter().count(), 3);
        segments.grow_to(4);
        let before: Vec<usize> = (0..4).map(address).collect();
        assert!(segments.get(2).exists() && !segments.get(3).exists());
        segments.grow_to(1000);
        let after: Vec<usize> = (0..4).map(address).collect();
        assert_eq!(after, before);
        for (index, segment) in segments.iter().take(1000).enumerate() {
            assert_eq!(address(index), std::ptr::from_ref(segment).addr());
        }
    }
}
