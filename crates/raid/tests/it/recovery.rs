//! A block comes back from the rest of its stripe although drives lie, and never as anything else
//! than what was written.

use everglade_env::{Page, PageRef};
use everglade_raid::code::PARITY_MAX;
use everglade_raid::{Block, Code, Columns, Recovery, TooManyLost};
use proptest::prelude::*;

use crate::losses::{losses, stripe};

/// Recovers the data column `wanted` of a stripe in which `lost` cannot be read and `wrong` have
/// another content. Returns the columns that are blamed.
fn recover(code: Code, wanted: usize, lost: Columns, wrong: Columns) -> Option<Columns> {
    let whole = stripe(code, 5);
    let mut recovery = Recovery::new(code, wanted, lost).expect("within the redundancy");
    for column in recovery.wants().iter() {
        let mut block = whole[column];
        if wrong.has(column) {
            block[100 + column] ^= 0x40;
        }
        recovery.arrived(column, Page::copy_of(&block).freeze());
    }
    let found = recovery.solve(|block: &Block| *block == whole[wanted])?;
    assert!(*found.page == whole[wanted]);
    for (column, page) in &found.wrong {
        assert!(**page == whole[*column], "content of column {column}");
    }
    Some(found.wrong.iter().map(|(column, _)| *column).collect())
}

#[test]
fn every_set_of_lost_and_wrong_columns_within_the_redundancy_is_found_out() {
    let codes = (1..=PARITY_MAX).map(|parity| Code::new(4, parity));
    let mirrors = (2..=4).map(Code::copies);
    for code in codes.chain(mirrors).map(|code| code.expect("in range")) {
        for wanted in 0..code.data() {
            for bad in losses(code.columns(), code.parity() - 1) {
                let bad: Vec<usize> = bad.into_iter().filter(|it| *it != wanted).collect();
                for bits in 0..1usize << bad.len() {
                    let is_lost = |at: &usize| bits >> at & 1 == 1;
                    let lost: Columns = (0..bad.len()).filter(is_lost).map(|at| bad[at]).collect();
                    let wrong = bad.iter().copied().collect::<Columns>().without(lost);
                    let blamed = recover(code, wanted, lost, wrong);
                    let blamed = blamed.unwrap_or_else(|| {
                        panic!("{code:?}: {wanted} with {lost:?} lost, {wrong:?} wrong")
                    });
                    assert!(
                        blamed.without(wrong).is_empty(),
                        "{code:?} blames {blamed:?} for {wrong:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_column_that_cannot_be_read_counts_as_lost() {
    let code = Code::new(4, 2).expect("in range");
    let whole = stripe(code, 5);
    let mut recovery = Recovery::new(code, 1, Columns::NONE).expect("within the redundancy");
    recovery.lose(4).expect("within the redundancy");
    for column in recovery.wants().iter() {
        recovery.arrived(column, Page::copy_of(&whole[column]).freeze());
    }
    let found = recovery.solve(|block: &Block| *block == whole[1]);
    assert!(*found.expect("by diagonal parity").page == whole[1]);
    assert_eq!(recovery.lose(5), Err(TooManyLost));
}

#[test]
fn nothing_is_better_than_something_wrong() {
    let code = Code::new(4, 1).expect("in range");
    let mut recovery = Recovery::new(code, 1, Columns::NONE).expect("within the redundancy");
    for column in recovery.wants().iter() {
        recovery.arrived(column, PageRef::zero());
    }
    assert!(recovery.solve(|block| block[0] == 1).is_none());
    let all: Columns = [0, 1].into_iter().collect();
    assert_eq!(Recovery::new(code, 2, all).err(), Some(TooManyLost));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_block_comes_back_in_any_width(
        data in 1usize..=28,
        parity in 1..=PARITY_MAX,
        wanted: prop::sample::Index,
        picks: [prop::sample::Index; 2],
        is_lost: [bool; 2],
    ) {
        let code = Code::new(data, parity).expect("in range");
        let wanted = wanted.index(data);
        let (mut lost, mut wrong) = (Columns::NONE, Columns::NONE);
        for (pick, is_lost) in picks.iter().zip(is_lost).take(parity - 1) {
            let column = pick.index(code.columns());
            if column == wanted {
                continue;
            }
            match is_lost {
                true => lost.insert(column),
                false => wrong.insert(column),
            }
        }
        prop_assert!(recover(code, wanted, lost, wrong.without(lost)).is_some());
    }
}
