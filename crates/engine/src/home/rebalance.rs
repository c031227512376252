//! A rebalance under way: from which areas blocks move, until all devices are about equally full.
//!
//! ```text
//! survey: blocks in use of each area ─▶ units above the mean are crowded
//!   ─▶ their areas are emptied, the emptiest first ─▶ a unit at its share is done
//! ```
//!
//! A *unit* is what cannot be filled one without the other: a device alone, a mirror, a parity
//! group. The *share* of a unit is what it would have if all were equally full. A unit that was
//! crowded gets nothing until the end, as long as another one has space
//! ([`crate::alloc::filesystem::FileSystem::crowded`]), so what clients write helps, too.
//!
//! 1. No area is emptied twice, and a unit is left alone once it is at its share: so it ends.
//! 2. Units and their areas are those at its beginning. What is added later counts as not crowded.
//! 3. All of this is in memory, like all of the gardener's jobs.

use std::collections::{BTreeMap, BTreeSet};

use crate::home::candidate::Candidate;

/// A unit is as full as the mean if the difference is less than this part of it: one in 64.
const PRECISION: u64 = 64;

/// What is filled together.
#[derive(Debug)]
struct Unit {
    /// All extents of it, ascending.
    extents: Vec<usize>,
    /// Blocks that there are.
    blocks: u64,
    /// Blocks in use, when it was surveyed, and fewer since.
    used: u64,
}

impl Unit {
    /// How full it is, in percent.
    fn percent(&self) -> u64 {
        (self.used * 100).checked_div(self.blocks).unwrap_or(0)
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Rebalance {
    units: Vec<Unit>,
    /// Areas to survey: so many of each extent that leads.
    ends: Vec<u64>,
    survey: Option<Candidate>,
    /// Indexes of units that were crowded when all was surveyed, and what each of them may keep.
    crowded: BTreeMap<usize, u64>,
    /// Areas with blocks in use, from the plan on of crowded units only; the emptiest first. Index
    /// of the unit, blocks in use, area.
    order: BTreeSet<(usize, u64, Candidate)>,
}

/// What the survey found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Blocks that are to move.
    pub(crate) blocks: u64,
    /// The fullest unit, in percent.
    pub(crate) fullest_percent: u64,
    /// The emptiest one, in percent.
    pub(crate) emptiest_percent: u64,
}

impl Rebalance {
    /// Begins with a survey. Of each unit the extents and the number of blocks; of each extent that
    /// leads, how many areas may be in use.
    pub(crate) fn new(units: Vec<(Vec<usize>, u64)>, ends: Vec<u64>) -> Rebalance {
        let unit = |(extents, blocks)| Unit {
            extents,
            blocks,
            used: 0,
        };
        let units = units.into_iter().map(unit).collect();
        Rebalance {
            units,
            survey: Candidate { extent: 0, area: 0 }.within(&ends),
            ends,
            crowded: BTreeMap::new(),
            order: BTreeSet::new(),
        }
    }

    /// Index of the unit that has an extent.
    fn unit_of(&self, extent: usize) -> Option<usize> {
        let mut units = self.units.iter();
        units.position(|unit| unit.extents.contains(&extent))
    }

    /// All areas that it surveys.
    pub(crate) fn area_count(&self) -> u64 {
        self.ends.iter().sum()
    }

    /// The area to survey next; `None` when all are known.
    pub(crate) fn to_survey(&self) -> Option<Candidate> {
        self.survey
    }

    /// An area has so many blocks in use, with all columns.
    pub(crate) fn surveyed(&mut self, at: Candidate, used: u64) {
        if let Some(index) = self.unit_of(at.extent)
            && used > 0
        {
            self.units[index].used += used;
            self.order.insert((index, used, at));
        }
        self.survey = at.next().within(&self.ends);
    }

    /// All areas are known: finds out which units are crowded.
    pub(crate) fn plan(&mut self) -> Found {
        let used: u64 = self.units.iter().map(|unit| unit.used).sum();
        let blocks: u64 = self.units.iter().map(|unit| unit.blocks).sum();
        let mut to_move = 0;
        for (index, unit) in self.units.iter().enumerate() {
            let share = u128::from(used) * u128::from(unit.blocks);
            let share = share.checked_div(u128::from(blocks)).unwrap_or(0);
            let share = u64::try_from(share).expect("at most what is in use");
            if unit.used > share + unit.blocks / PRECISION {
                to_move += unit.used - share;
                self.crowded.insert(index, share);
            }
        }
        self.order
            .retain(|(index, ..)| self.crowded.contains_key(index));
        let percents = self.units.iter().map(Unit::percent);
        Found {
            blocks: to_move,
            fullest_percent: percents.clone().max().unwrap_or(0),
            emptiest_percent: percents.min().unwrap_or(0),
        }
    }

    /// The extents of crowded units: nothing is allocated there if there is space elsewhere. A unit
    /// that has come down to its share stays crowded until the end. Otherwise it would get a part
    /// of what is moved away from the other crowded units.
    pub(crate) fn crowded(&self) -> BTreeSet<usize> {
        let units = self.crowded.keys().map(|index| &self.units[*index]);
        units
            .flat_map(|unit| unit.extents.iter().copied())
            .collect()
    }

    /// The next area to empty; `None` if all units have their shares, or all was tried.
    pub(crate) fn next(&mut self) -> Option<Candidate> {
        let (_, _, area) = self.order.pop_first()?;
        Some(area)
    }

    /// Records that `blocks` blocks were moved out of the extent `from`. Returns true if the unit
    /// of this extent now has no more than its share.
    pub(crate) fn moved(&mut self, from: usize, blocks: u64) -> bool {
        let Some(index) = self.unit_of(from) else {
            return false;
        };
        let unit = &mut self.units[index];
        unit.used = unit.used.saturating_sub(blocks);
        let is_done = self
            .crowded
            .get(&index)
            .is_some_and(|share| unit.used <= *share);
        if is_done {
            self.order.retain(|(of, ..)| *of != index);
        }
        is_done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(extent: usize, area: u64) -> Candidate {
        Candidate { extent, area }
    }

    /// Two devices of 1,000 blocks in areas of 100, and one of 2,000 in two extents.
    fn three() -> Rebalance {
        let units = vec![(vec![0], 1_000), (vec![1], 1_000), (vec![2, 3], 2_000)];
        Rebalance::new(units, vec![10, 2, 0, 1])
    }

    fn survey(rebalance: &mut Rebalance, used: fn(Candidate) -> u64) {
        while let Some(at) = rebalance.to_survey() {
            rebalance.surveyed(at, used(at));
        }
    }

    #[test]
    fn what_is_above_the_mean_moves_from_the_emptiest_areas_first() {
        let mut rebalance = three();
        assert_eq!(rebalance.area_count(), 13);
        survey(&mut rebalance, |at| match at.extent {
            0 => 60 + at.area,
            1 => 20,
            _ => 0,
        });
        let found = rebalance.plan();
        // 645 and 40 of 4,000 are in use: 171 for each 1,000.
        let expected = Found {
            blocks: 645 - 171,
            fullest_percent: 64,
            emptiest_percent: 0,
        };
        assert_eq!(found, expected);
        assert_eq!(rebalance.crowded(), BTreeSet::from([0]));
        assert_eq!(rebalance.next(), Some(at(0, 0)));
        assert!(!rebalance.moved(0, 60));
        assert_eq!(rebalance.next(), Some(at(0, 1)));
        assert!(rebalance.moved(0, 414), "171 are left");
        assert_eq!(rebalance.next(), None);
        assert_eq!(rebalance.crowded(), BTreeSet::from([0]), "until the end");
    }

    #[test]
    fn what_is_about_equally_full_stays() {
        let mut rebalance = three();
        survey(&mut rebalance, |at| match at.extent {
            0 => 2,
            1 => 12,
            _ => 45,
        });
        let found = rebalance.plan();
        assert_eq!(found.blocks, 0, "{found:?}");
        assert_eq!(rebalance.next(), None);
        assert!(!rebalance.moved(0, 5));
    }

    #[test]
    fn all_extents_of_a_unit_are_crowded_together() {
        let mut rebalance = three();
        survey(&mut rebalance, |at| u64::from(at.extent == 3) * 90);
        assert_eq!(rebalance.plan().blocks, 45);
        assert_eq!(rebalance.crowded(), BTreeSet::from([2, 3]));
        assert_eq!(rebalance.next(), Some(at(3, 0)));
        assert_eq!(rebalance.next(), None, "no area twice");
    }
}
