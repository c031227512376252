//! Whatever is lost within the redundancy comes back, in each width and with each level.

use everglade_raid::code::{BLOCK_BYTES, DATA_MAX, PARITY_MAX};
use everglade_raid::{Block, Code, TooManyLost};
use proptest::prelude::*;

/// A stripe with different content in all data columns, and its parity.
pub(crate) fn stripe(code: Code, seed: u64) -> Vec<Block> {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut blocks = vec![[0; BLOCK_BYTES]; code.columns()];
    for block in &mut blocks[..code.data()] {
        for bytes in block.as_chunks_mut::<8>().0 {
            *bytes = next().to_le_bytes();
        }
    }
    encode(code, &mut blocks);
    blocks
}

pub(crate) fn encode(code: Code, blocks: &mut [Block]) {
    let (data, parity) = blocks.split_at_mut(code.data());
    let data: Vec<&Block> = data.iter().collect();
    let mut parity: Vec<&mut Block> = parity.iter_mut().collect();
    code.encode(&data, &mut parity);
}

pub(crate) fn reconstruct(
    code: Code,
    blocks: &mut [Block],
    lost: &[usize],
) -> Result<(), TooManyLost> {
    let mut columns: Vec<&mut Block> = blocks.iter_mut().collect();
    code.reconstruct(&mut columns, lost)
}

/// All sets of at most `most` of `count` columns.
pub(crate) fn losses(count: usize, most: usize) -> Vec<Vec<usize>> {
    let mut sets = vec![Vec::new()];
    let mut from = 0;
    for _ in 0..most {
        let until = sets.len();
        for at in from..until {
            let first = sets[at].last().map_or(0, |last| last + 1);
            for column in first..count {
                let mut set = sets[at].clone();
                set.push(column);
                sets.push(set);
            }
        }
        from = until;
    }
    sets
}

/// Loses columns of `blocks`, which are `whole` before and afterwards.
fn survives(code: Code, whole: &[Block], blocks: &mut [Block], lost: &[usize]) {
    for column in lost {
        blocks[*column].fill(0xa5);
    }
    assert_eq!(reconstruct(code, blocks, lost), Ok(()));
    assert!(blocks == whole, "{code:?} lost {lost:?}");
}

#[test]
fn every_loss_within_the_redundancy_comes_back_in_every_width() {
    for (data, parity) in (1..=DATA_MAX).flat_map(|data| (0..=PARITY_MAX).map(move |it| (data, it)))
    {
        let code = Code::new(data, parity).expect("in range");
        let whole = stripe(code, 77);
        let mut blocks = whole.clone();
        for lost in losses(code.columns(), parity) {
            survives(code, &whole, &mut blocks, &lost);
        }
    }
}

#[test]
fn more_losses_than_parity_are_refused_and_change_nothing() {
    for parity in 0..=PARITY_MAX {
        let code = Code::new(4, parity).expect("in range");
        let whole = stripe(code, 3);
        let mut blocks = whole.clone();
        let lost: Vec<usize> = (0..=parity).collect();
        assert_eq!(reconstruct(code, &mut blocks, &lost), Err(TooManyLost));
        assert!(blocks == whole);
    }
}

#[test]
fn codes_out_of_range_do_not_exist() {
    assert_eq!(Code::new(0, 1), None);
    assert_eq!(Code::new(DATA_MAX + 1, 1), None);
    assert_eq!(Code::new(1, PARITY_MAX + 1), None);
}

#[test]
fn a_group_grows_by_a_zeroed_column_without_a_change_of_parity() {
    for parity in 1..=PARITY_MAX {
        let small = Code::new(4, parity).expect("in range");
        let large = Code::new(5, parity).expect("in range");
        let mut blocks = stripe(small, 9);
        blocks.insert(4, [0; BLOCK_BYTES]);
        let before = blocks.clone();
        encode(large, &mut blocks);
        assert!(blocks == before, "{parity} parity columns");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_loss_in_any_width_comes_back(
        data in 1..=DATA_MAX,
        parity in 0..=PARITY_MAX,
        seed: u64,
        picks: [prop::sample::Index; PARITY_MAX],
    ) {
        let code = Code::new(data, parity).expect("in range");
        let mut lost: Vec<usize> = Vec::new();
        for pick in &picks[..parity] {
            let column = pick.index(code.columns());
            if !lost.contains(&column) {
                lost.push(column);
            }
        }
        let whole = stripe(code, seed);
        survives(code, &whole, &mut whole.clone(), &lost);
    }

    #[test]
    fn an_update_is_what_encoding_anew_would_be(
        data in 1..=DATA_MAX,
        parity in 0..=PARITY_MAX,
        seed: u64,
        pick: prop::sample::Index,
    ) {
        let code = Code::new(data, parity).expect("in range");
        let mut blocks = stripe(code, seed);
        let column = pick.index(data);
        let fresh = stripe(code, !seed)[0];
        let mut delta = fresh;
        for (delta, old) in delta.iter_mut().zip(&blocks[column]) {
            *delta ^= old;
        }
        blocks[column] = fresh;
        let mut parity: Vec<&mut Block> = blocks[data..].iter_mut().collect();
        code.update(column, &delta, &mut parity);
        let updated = blocks.clone();
        encode(code, &mut blocks);
        prop_assert!(updated == blocks);
    }
}
