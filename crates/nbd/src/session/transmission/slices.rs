//! Slices: cutting a request into operations.
//!
//! A request of at most 1 MiB is one operation. A longer one is cut at the LUN's multiples of 1 MiB
//! while memory is plentiful, and at smaller multiples while other sessions wait for memory. If
//! other sessions wait for a write whose client is slow, the write may be cut at any block
//! ([`Slices::put_back`]).

use everglade_target::OP_BYTES_MAX;

/// The rest of a range, to be cut into slices from its front.
#[derive(Clone, Debug)]
pub(super) struct Slices {
    offset: u64,
    rest: u32,
    /// The range is short enough to be one operation and is not cut, even across a boundary.
    whole: bool,
}

impl Slices {
    pub(super) fn new(offset: u64, length: u32) -> Self {
        Slices {
            offset,
            rest: length,
            whole: length <= OP_BYTES_MAX,
        }
    }

    /// Makes slices for a part of a longer range.
    pub(super) fn new_part(offset: u64, length: u32) -> Self {
        Slices {
            offset,
            rest: length,
            whole: false,
        }
    }

    /// Returns whether the request is one operation in any case.
    pub(super) fn is_whole(&self) -> bool {
        self.whole
    }

    /// Returns whether no slice is left.
    pub(super) fn is_empty(&self) -> bool {
        self.rest == 0
    }

    /// Returns the next slice, if it ends at a multiple of `unit` at the latest.
    pub(super) fn peek(&self, unit: u32) -> Option<(u64, u32)> {
        if self.rest == 0 {
            return None;
        }
        if self.whole {
            return Some((self.offset, self.rest));
        }
        let into_unit = u32::try_from(self.offset % u64::from(unit)).expect("below the unit");
        Some((self.offset, self.rest.min(unit - into_unit)))
    }

    /// Cuts off the next slice.
    pub(super) fn take(&mut self, unit: u32) -> Option<(u64, u32)> {
        let (offset, length) = self.peek(unit)?;
        self.offset += u64::from(length);
        self.rest -= length;
        Some((offset, length))
    }

    /// Puts back the last bytes that were cut off, so that they are cut off once more.
    pub(super) fn put_back(&mut self, bytes: u32) {
        self.offset -= u64::from(bytes);
        self.rest += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u32 = 1 << 20;

    fn all(mut slices: Slices, unit: u32) -> Vec<(u64, u32)> {
        std::iter::from_fn(|| slices.take(unit)).collect()
    }

    #[test]
    fn a_request_of_one_operation_is_not_cut_at_a_boundary() {
        assert_eq!(all(Slices::new(4096, MIB), MIB), [(4096, MIB)]);
        assert_eq!(all(Slices::new(4096, MIB), MIB / 4), [(4096, MIB)]);
        assert_eq!(all(Slices::new(7, 1), MIB), [(7, 1)]);
    }

    #[test]
    fn a_long_request_is_cut_at_boundaries_of_the_lun() {
        let mib = u64::from(MIB);
        assert_eq!(
            all(Slices::new(mib - 10, 2 * MIB + 30), MIB),
            [(mib - 10, 10), (mib, MIB), (2 * mib, MIB), (3 * mib, 20)]
        );
        assert_eq!(all(Slices::new(0, MIB + 1), MIB), [(0, MIB), (mib, 1)]);
        assert_eq!(
            all(Slices::new(1, MIB + 1), MIB / 2)[..2],
            [(1, MIB / 2 - 1), (mib / 2, MIB / 2)]
        );
    }

    #[test]
    fn what_is_put_back_is_cut_off_once_more() {
        let mut slices = Slices::new(0, 2 * MIB);
        assert_eq!(slices.take(MIB), Some((0, MIB)));
        slices.put_back(100);
        let mib = u64::from(MIB);
        assert_eq!(slices.take(MIB), Some((mib - 100, 100)));
        assert_eq!(slices.take(MIB), Some((mib, MIB)));
        assert!(slices.is_empty());
    }
}
