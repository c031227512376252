//! Plan of a stripe write: which blocks are read before its parity can be computed (L-02).
//!
//! | way | parity is computed from | reads |
//! | --- | --- | --- |
//! | full | the new content of all data columns | none |
//! | recalculation | the new content, and the data columns that stay | those |
//! | subtraction | the old parity, and old and new content of what is written | what is written, and parity |
//! | reconstruction | the whole old stripe, then as for full | every column that is there |
//!
//! 1. Blocks that are in memory anyway cost nothing.
//! 2. The cheapest way that the lost columns permit is chosen; of equal ones, the first of the
//!    table. Recalculation comes before subtraction, because it does not carry an error of the old
//!    parity into the new one.
//! 3. A plan exists as long as no more columns are lost than the code has parity.
//! 4. Lost parity columns are not written, and a lost data column that is written exists in parity
//!    alone afterwards.

use crate::{Code, Columns, TooManyLost};

/// The way in which new parity is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// All data columns are written.
    Full,
    /// The data columns that are not written are read.
    Recalculation,
    /// The old content of what is written and the old parity are read.
    Subtraction,
    /// All that is left of the stripe is read, and the lost columns are reconstructed.
    Reconstruction,
}

/// See the module's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// How parity is computed.
    pub way: Way,
    /// Columns whose old content is needed.
    pub needs: Columns,
    /// Those of them that are not in memory.
    pub reads: Columns,
}

impl Plan {
    /// Plans the write of the data columns `written`, while the columns `lost` cannot be read or
    /// written, and the old content of the columns `known` is in memory.
    ///
    /// # Errors
    /// More columns are lost than the code has parity.
    ///
    /// # Panics
    /// If `written` is empty or has a column that is no data column.
    pub fn new(
        code: Code,
        written: Columns,
        lost: Columns,
        known: Columns,
    ) -> Result<Plan, TooManyLost> {
        let data = Columns::range(0, code.data());
        let parity = Columns::range(code.data(), code.columns());
        assert!(
            !written.is_empty() && written.without(data).is_empty(),
            "{written:?} of {} data columns",
            code.data()
        );
        if lost.count() > code.parity() {
            return Err(TooManyLost);
        }
        let plan = |way, needs: Columns| Plan {
            way,
            needs,
            reads: needs.without(known),
        };
        let present = parity.without(lost);
        let stay = data.without(written);
        if stay.is_empty() || present.is_empty() {
            // Without parity that could be written, nothing needs to be known.
            return Ok(plan(Way::Full, Columns::NONE));
        }
        let is_here = |columns: Columns| columns.and(lost).without(known).is_empty();
        let mut ways = Vec::with_capacity(2);
        if is_here(stay) {
            ways.push(plan(Way::Recalculation, stay));
        }
        if is_here(written) {
            ways.push(plan(Way::Subtraction, written.or(present)));
        }
        let all = data.or(parity).without(lost);
        let cheapest = ways.into_iter().min_by_key(|plan| plan.reads.count());
        Ok(cheapest.unwrap_or(plan(Way::Reconstruction, all)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set<const N: usize>(columns: [usize; N]) -> Columns {
        columns.into_iter().collect()
    }

    fn plan(written: Columns, lost: Columns, known: Columns) -> Plan {
        let code = Code::new(8, 2).expect("in range");
        Plan::new(code, written, lost, known).expect("within the redundancy")
    }

    #[test]
    fn a_full_stripe_reads_nothing() {
        let full = plan(Columns::range(0, 8), Columns::NONE, Columns::NONE);
        assert_eq!((full.way, full.reads), (Way::Full, Columns::NONE));
    }

    #[test]
    fn a_little_of_a_stripe_subtracts_and_most_of_it_recalculates() {
        let little = plan(set([3]), Columns::NONE, Columns::NONE);
        assert_eq!(
            (little.way, little.reads),
            (Way::Subtraction, set([3, 8, 9]))
        );
        let most = plan(Columns::range(0, 5), Columns::NONE, Columns::NONE);
        assert_eq!((most.way, most.reads), (Way::Recalculation, set([5, 6, 7])));
    }

    #[test]
    fn equal_costs_recalculate() {
        // Three written and two parity columns are five reads, and so are the other five.
        let even = plan(Columns::range(0, 3), Columns::NONE, Columns::NONE);
        assert_eq!((even.way, even.reads.count()), (Way::Recalculation, 5));
    }

    #[test]
    fn what_is_in_memory_is_not_read() {
        let stay = Columns::range(1, 8);
        let plan = plan(set([0]), Columns::NONE, Columns::range(2, 8));
        assert_eq!(
            (plan.way, plan.needs, plan.reads),
            (Way::Recalculation, stay, set([1]))
        );
    }

    #[test]
    fn a_lost_column_decides_the_way() {
        let written_is_lost = plan(set([3]), set([3]), Columns::NONE);
        assert_eq!(written_is_lost.way, Way::Recalculation);
        let other_is_lost = plan(Columns::range(0, 7), set([7]), Columns::NONE);
        assert_eq!(other_is_lost.way, Way::Subtraction);
        let both = plan(set([3]), set([3, 4]), Columns::NONE);
        assert_eq!(both.way, Way::Reconstruction);
        assert_eq!(both.reads, set([0, 1, 2, 5, 6, 7, 8, 9]));
    }

    #[test]
    fn without_parity_that_is_there_nothing_is_read() {
        let plan = plan(set([3]), set([8, 9]), Columns::NONE);
        assert_eq!((plan.way, plan.reads), (Way::Full, Columns::NONE));
    }

    #[test]
    fn more_losses_than_parity_have_no_plan() {
        let code = Code::new(8, 2).expect("in range");
        let lost = set([0, 1, 2]);
        assert_eq!(
            Plan::new(code, set([3]), lost, Columns::NONE),
            Err(TooManyLost)
        );
    }
}
