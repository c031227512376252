//! Extents of a LUN: runs of bytes that take space, and runs that do not.

/// Allocation of a run of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocation {
    /// The run takes space, whatever it reads as.
    Data,
    /// The run takes no space and reads as zeroes.
    Hole,
}

/// A run of bytes with the same allocation. It begins where the previous run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Bytes, at least 1.
    pub length: u64,
    /// Allocation of these bytes.
    pub allocation: Allocation,
}

/// Extents under construction: equal neighbours are joined, and there is a bound on their number.
#[derive(Clone, Debug, Default)]
pub struct Extents {
    list: Vec<Extent>,
    length: u64,
}

impl Extents {
    /// Makes an empty list.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a run, unless it would be one more than `count_max`; false means that it was not,
    /// and that the list is complete as it is.
    pub fn push(&mut self, length: u64, allocation: Allocation, count_max: u32) -> bool {
        if length == 0 {
            return true;
        }
        let count = self.list.len();
        match self.list.last_mut() {
            Some(last) if last.allocation == allocation => last.length += length,
            _ if count as u64 >= u64::from(count_max.max(1)) => return false,
            _ => self.list.push(Extent { length, allocation }),
        }
        self.length += length;
        true
    }

    /// Bytes covered so far.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Returns the extents, in order.
    #[must_use]
    pub fn into_vec(self) -> Vec<Extent> {
        self.list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_neighbours_are_one_extent_and_the_bound_ends_the_list() {
        let mut extents = Extents::new();
        assert!(extents.push(10, Allocation::Data, 2));
        assert!(extents.push(0, Allocation::Hole, 2));
        assert!(extents.push(5, Allocation::Data, 2));
        assert!(extents.push(1, Allocation::Hole, 2));
        assert!(!extents.push(7, Allocation::Data, 2));
        assert!(extents.push(2, Allocation::Hole, 2));
        assert_eq!(extents.length(), 18);
        let lengths: Vec<u64> = extents.into_vec().iter().map(|e| e.length).collect();
        assert_eq!(lengths, [15, 3]);
    }
}
