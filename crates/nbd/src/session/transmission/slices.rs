//! How a request is cut into operations.

use everglade_target::OP_BYTES_MAX;

/// The slices of a range, in order: (offset, length).
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
}

impl Iterator for Slices {
    type Item = (u64, u32);

    fn next(&mut self) -> Option<(u64, u32)> {
        if self.rest == 0 {
            return None;
        }
        let into_unit = u32::try_from(self.offset % u64::from(OP_BYTES_MAX)).ok()?;
        let length = if self.whole {
            self.rest
        } else {
            self.rest.min(OP_BYTES_MAX - into_unit)
        };
        let slice = (self.offset, length);
        self.offset += u64::from(length);
        self.rest -= length;
        Some(slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u32 = 1 << 20;

    #[test]
    fn a_request_of_one_operation_is_not_cut_at_a_boundary() {
        assert_eq!(Slices::new(4096, MIB).collect::<Vec<_>>(), [(4096, MIB)]);
        assert_eq!(Slices::new(7, 1).collect::<Vec<_>>(), [(7, 1)]);
    }

    #[test]
    fn a_long_request_is_cut_at_boundaries_of_the_lun() {
        let mib = u64::from(MIB);
        let slices: Vec<_> = Slices::new(mib - 10, 2 * MIB + 30).collect();
        assert_eq!(
            slices,
            [(mib - 10, 10), (mib, MIB), (2 * mib, MIB), (3 * mib, 20)]
        );
        assert_eq!(
            Slices::new(0, MIB + 1).collect::<Vec<_>>(),
            [(0, MIB), (mib, 1)]
        );
    }
}
