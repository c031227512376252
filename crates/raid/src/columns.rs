//! A set of columns of a group.

use std::fmt;

/// Columns of a group, counted from 0; at most 32.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Columns(u32);

impl Columns {
    /// No column.
    pub const NONE: Columns = Columns(0);

    /// Returns the columns from `from` to `until`, without `until`.
    ///
    /// # Panics
    /// If a column is not below 32.
    #[must_use]
    pub fn range(from: usize, until: usize) -> Columns {
        (from..until).collect()
    }

    /// Returns true if the set has the column.
    #[must_use]
    pub fn has(self, column: usize) -> bool {
        column < 32 && self.0 >> column & 1 == 1
    }

    /// Adds a column.
    ///
    /// # Panics
    /// If the column is not below 32.
    pub fn insert(&mut self, column: usize) {
        assert!(column < 32, "column {column}");
        self.0 |= 1 << column;
    }

    /// Number of columns in the set.
    #[must_use]
    pub fn count(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Returns true if the set has no column.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the columns of either set.
    #[must_use]
    pub fn or(self, other: Columns) -> Columns {
        Columns(self.0 | other.0)
    }

    /// Returns the columns of both sets.
    #[must_use]
    pub fn and(self, other: Columns) -> Columns {
        Columns(self.0 & other.0)
    }

    /// Returns the columns that `other` does not have.
    #[must_use]
    pub fn without(self, other: Columns) -> Columns {
        Columns(self.0 & !other.0)
    }

    /// Returns the columns in ascending order.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..32).filter(move |column| self.has(*column))
    }
}

impl FromIterator<usize> for Columns {
    fn from_iter<I: IntoIterator<Item = usize>>(columns: I) -> Columns {
        let mut all = Columns::NONE;
        columns.into_iter().for_each(|column| all.insert(column));
        all
    }
}

impl fmt::Debug for Columns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_have_their_columns_and_no_others() {
        for (from, until) in [(0, 0), (0, 1), (3, 7), (0, 32), (31, 32), (5, 5), (9, 4)] {
            let columns: Vec<usize> = Columns::range(from, until).iter().collect();
            assert_eq!(columns, (from..until).collect::<Vec<_>>());
        }
    }

    #[test]
    fn sets_are_combined_column_by_column() {
        let one: Columns = [0, 2, 31].into_iter().collect();
        let other: Columns = [2, 5].into_iter().collect();
        assert_eq!(one.or(other), [0, 2, 5, 31].into_iter().collect());
        assert_eq!(one.and(other), [2].into_iter().collect());
        assert_eq!(one.without(other), [0, 31].into_iter().collect());
        assert_eq!((one.count(), one.has(31), one.has(32)), (3, true, false));
    }
}
