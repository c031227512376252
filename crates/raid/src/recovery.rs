//! Recovery of one block from the rest of its stripe (L-03, L-04, docs/design/design.md §7).
//!
//! Some columns are known to be lost, because their drives are gone or do not answer. Others may be
//! wrong without anybody knowing it: a drive returned an old block, or that of another place. Only
//! the checksum of the wanted block tells. So every set of columns that parity can spare is taken
//! for wrong, the smallest sets first, until the reconstructed block is right.
//!
//! 1. What is returned is right, by the caller's checksum.
//! 2. If no more columns are lost or wrong than the code has parity, the block is found. A set that
//!    has all wrong columns reconstructs the right content.
//! 3. A column is blamed if it differs from what the right content of the stripe would be. Only
//!    columns that the code had to spare are ever blamed.

use everglade_env::{Page, PageRef};

use crate::{Block, Code, Columns, TooManyLost};

/// See the module's documentation.
#[derive(Clone)]
pub struct Recovery {
    code: Code,
    wanted: usize,
    /// Columns whose content is not there, the wanted one among them.
    lost: Columns,
    blocks: Vec<Option<PageRef>>,
}

/// A block that was found.
pub struct Recovered {
    /// Its content.
    pub page: PageRef,
    /// Other columns of the stripe that are wrong, with their right content.
    pub wrong: Vec<(usize, PageRef)>,
    /// Sets of columns that were tried.
    pub attempts: u64,
}

impl Recovery {
    /// Begins the recovery of the data column `wanted`, whose own block is of no use, while the
    /// columns `lost` cannot be read.
    ///
    /// # Errors
    /// More columns are lost than the code has parity.
    ///
    /// # Panics
    /// If `wanted` is no data column.
    pub fn new(code: Code, wanted: usize, lost: Columns) -> Result<Recovery, TooManyLost> {
        assert!(wanted < code.data(), "column {wanted} of {code:?}");
        let mut recovery = Recovery {
            code,
            wanted,
            lost,
            blocks: vec![None; code.columns()],
        };
        recovery.lose(wanted)?;
        Ok(recovery)
    }

    /// Columns that are to be read.
    #[must_use]
    pub fn wants(&self) -> Columns {
        let all = 0..self.code.columns();
        all.filter(|column| self.blocks[*column].is_none() && !self.lost.has(*column))
            .collect()
    }

    /// Takes a column that was read.
    pub fn arrived(&mut self, column: usize, page: PageRef) {
        self.blocks[column] = Some(page);
    }

    /// A column cannot be read.
    ///
    /// # Errors
    /// More columns are lost than the code has parity.
    pub fn lose(&mut self, column: usize) -> Result<(), TooManyLost> {
        self.lost.insert(column);
        match self.lost.count() > self.code.parity() {
            true => Err(TooManyLost),
            false => Ok(()),
        }
    }

    /// Looks for a content of the wanted block that `is_right`. `None`: there is none.
    ///
    /// # Panics
    /// If something is still wanted.
    pub fn solve(&self, is_right: impl Fn(&Block) -> bool) -> Option<Recovered> {
        assert!(self.wants().is_empty(), "{:?} are missing", self.wants());
        let (code, lost) = (self.code, self.lost);
        let there = Columns::range(0, code.columns()).without(lost);
        let there: Vec<usize> = there.iter().collect();
        let mut attempts = 0;
        for spare in 0..=code.parity() - lost.count() {
            for suspects in subsets(&there, spare) {
                attempts += 1;
                let stripe = self.without(lost.or(suspects));
                if is_right(&stripe[self.wanted]) {
                    return Some(self.recovered(stripe, suspects, attempts));
                }
            }
        }
        None
    }

    /// The stripe as it is if the columns `taken` are reconstructed from the others.
    fn without(&self, taken: Columns) -> Vec<Page> {
        let block = |page: &Option<PageRef>| match page {
            Some(page) => Page::copy_of(page),
            None => Page::zeroed(),
        };
        let mut stripe: Vec<Page> = self.blocks.iter().map(block).collect();
        let mut blocks: Vec<&mut Block> = stripe.iter_mut().map(|page| &mut **page).collect();
        let taken: Vec<usize> = taken.iter().collect();
        let result = self.code.reconstruct(&mut blocks, &taken);
        result.expect("no more than the code can spare");
        stripe
    }

    fn recovered(&self, stripe: Vec<Page>, suspects: Columns, attempts: u64) -> Recovered {
        let mut wrong = Vec::new();
        let mut found = None;
        for (column, page) in stripe.into_iter().enumerate() {
            if column == self.wanted {
                found = Some(page.freeze());
            } else if suspects.has(column) {
                let page = page.freeze();
                let was = self.blocks[column].as_deref();
                if was.is_some_and(|was| *was != *page) {
                    wrong.push((column, page));
                }
            }
        }
        Recovered {
            page: found.expect("the wanted column is in the stripe"),
            wrong,
            attempts,
        }
    }
}

/// All sets of `count` of the columns.
fn subsets(columns: &[usize], count: usize) -> Vec<Columns> {
    let Some((first, rest)) = columns.split_first() else {
        return if count == 0 {
            vec![Columns::NONE]
        } else {
            Vec::new()
        };
    };
    let mut sets = subsets(rest, count);
    if let Some(others) = count.checked_sub(1) {
        let with_first = subsets(rest, others).into_iter().map(|mut set| {
            set.insert(*first);
            set
        });
        sets.extend(with_first);
    }
    sets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_sets_of_a_size_are_there_once() {
        let columns: Vec<usize> = (0..6).collect();
        for (count, expected) in [(0, 1), (1, 6), (2, 15), (3, 20), (7, 0)] {
            let mut sets = subsets(&columns, count);
            assert_eq!(sets.len(), expected, "{count}");
            sets.dedup();
            assert_eq!(sets.len(), expected);
            assert!(sets.iter().all(|set| set.count() == count));
        }
    }
}
