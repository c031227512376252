//! Whatever way a plan chooses, the parity is that of the stripe as it is afterwards, and the
//! plan's reads suffice for it.

use everglade_raid::code::{BLOCK_BYTES, DATA_MAX, PARITY_MAX};
use everglade_raid::plan::Way;
use everglade_raid::{Block, Code, Columns, Plan, Stripe};
use proptest::prelude::*;

use crate::losses::{encode, losses, reconstruct, stripe};

/// Writes `written` while `lost` are lost, and compares the parity that can be written. Returns the
/// way.
fn write(code: Code, written: Columns, lost: Columns, known: Columns) -> Way {
    let (before, fresh) = (stripe(code, 11), stripe(code, 12));
    let plan = Plan::new(code, written, lost, known).expect("within the redundancy");
    assert!(
        plan.reads.and(lost).is_empty(),
        "{plan:?} reads what is lost: {lost:?}"
    );
    let is_there = |column: usize| plan.reads.or(known).has(column);
    let old: Vec<Option<&Block>> = (0..code.columns())
        .map(|column| is_there(column).then_some(&before[column]))
        .collect();
    let new: Vec<Option<&Block>> = (0..code.data())
        .map(|column| written.has(column).then_some(&fresh[column]))
        .collect();
    let mut parity = vec![[7; BLOCK_BYTES]; code.parity()];
    let stripe = Stripe {
        code,
        new: &new,
        old: &old,
        lost,
    };
    stripe.parity(&plan, &mut parity.iter_mut().collect::<Vec<_>>());

    let mut after = before.clone();
    for column in written.iter() {
        after[column] = fresh[column];
    }
    encode(code, &mut after);
    // On media: what could be written, and what was there.
    let mut media = after.clone();
    for column in lost.iter() {
        media[column].fill(0);
    }
    for at in 0..code.parity() {
        if !lost.has(code.data() + at) {
            media[code.data() + at] = parity[at];
        }
    }
    let lost: Vec<usize> = lost.iter().collect();
    reconstruct(code, &mut media, &lost).expect("within the redundancy");
    assert!(
        media == after,
        "{code:?} writes {written:?}, lost {lost:?}: {plan:?}"
    );
    plan.way
}

#[test]
fn every_write_in_every_state_of_a_narrow_group_has_the_right_parity() {
    let mut ways = Vec::new();
    for parity in 1..=PARITY_MAX {
        let code = Code::new(4, parity).expect("in range");
        for lost in losses(code.columns(), parity) {
            let lost: Columns = lost.into_iter().collect();
            for bits in 1..16usize {
                let written = (0..4).filter(|column| bits >> column & 1 == 1).collect();
                ways.push(write(code, written, lost, Columns::NONE));
            }
        }
    }
    for way in [
        Way::Full,
        Way::Recalculation,
        Way::Subtraction,
        Way::Reconstruction,
    ] {
        assert!(ways.contains(&way), "{way:?} was never chosen");
    }
}

proptest! {
    #[test]
    fn any_write_has_the_right_parity(
        data in 1..=DATA_MAX,
        parity in 1..=PARITY_MAX,
        written: u32,
        known: u32,
        picks: [prop::sample::Index; PARITY_MAX],
        losses in 0..=PARITY_MAX,
    ) {
        let code = Code::new(data, parity).expect("in range");
        let mut written: Columns = (0..data).filter(|column| written >> column & 1 == 1).collect();
        if written.is_empty() {
            written.insert(0);
        }
        let lost: Columns = picks[..losses.min(parity)]
            .iter()
            .map(|pick| pick.index(code.columns()))
            .collect();
        let known: Columns = (0..code.columns())
            .filter(|column| known >> column & 1 == 1)
            .collect();
        write(code, written, lost, known.without(lost));
    }
}
