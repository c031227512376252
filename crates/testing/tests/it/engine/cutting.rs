//! The power fails at every write.

use everglade_testing::Seed;
use everglade_testing::engine::EngineMaker;
use everglade_testing::sim::cuts::{self, Thoroughness};
use everglade_testing::sim::{Report, creation, exhaustive, small};
use everglade_testing::system::Maker;

const POOL_BYTES: u64 = 16 << 20;

fn makers() -> [EngineMaker; 2] {
    let two_devices = EngineMaker {
        devices: 2,
        owns_space: true,
        ..EngineMaker::SMALL
    };
    [EngineMaker::SMALL, two_devices]
}

#[test]
fn creation_cut_at_any_write_leaves_nothing_or_something_whole() {
    for maker in makers() {
        let devices = maker.devices(POOL_BYTES);
        let report = creation::run(Seed(31), &devices, &maker);
        let report = report.unwrap_or_else(|failure| panic!("{failure}"));
        assert!(report.cuts > report.writes, "{report}");
    }
}

fn sequences(length: u32, stride: usize, first: usize, thoroughness: Thoroughness) {
    let share = small::Share {
        length,
        stride,
        first,
    };
    let maker = &makers()[first % 2];
    let report = small::run(Seed(32), POOL_BYTES, maker, share, thoroughness);
    let report = report.unwrap_or_else(|failure| panic!("{failure}"));
    assert!(report.cuts > report.actions, "{report}");
}

#[test]
fn every_single_operation_survives_every_cut() {
    let all = Thoroughness {
        recoveries: 5,
        ..Thoroughness::ALL
    };
    sequences(1, 1, 0, all);
    sequences(1, 1, 1, Thoroughness::SOME);
}

#[test]
fn every_two_operations_survive_a_cut_at_every_write() {
    sequences(2, 1, 0, Thoroughness::SOME);
}

#[test]
fn some_three_operations_survive_a_cut_at_every_write() {
    sequences(3, 61, 7, Thoroughness::SOME);
}

/// Runs cases of the exhaustive simulation, which as a whole is for
/// `cargo xtask sim --kind exhaustive`.
fn cases(numbers: impl Iterator<Item = u64>) -> Report {
    let prepared = exhaustive::Exhaustive::new(Seed(34));
    let prepared = prepared.unwrap_or_else(|failure| panic!("{failure}"));
    let mut all = Report::default();
    for number in numbers {
        match prepared.run(number) {
            Ok(report) => all.add(&report),
            Err(failure) => panic!("{failure}"),
        }
    }
    all
}

/// Cases up to this one are sequences of one operation, up to the next of two.
fn bounds() -> (u64, u64) {
    let of_length =
        |length| (0..exhaustive::count()).find(|n| exhaustive::case(*n).1.len() > length);
    let first = |length| of_length(length).expect("there are longer ones");
    (first(1), first(2))
}

#[test]
fn one_operation_from_every_start_state_survives_every_cut_with_every_subset() {
    let all = cases(0..bounds().0);
    assert!(all.cuts > 10 * all.actions, "{all}");
}

#[test]
fn some_of_two_and_three_operations_from_every_start_state_survive() {
    let (one, two) = bounds();
    // Steps that have no factor in common with the numbers of states and letters.
    let some = (one..two)
        .step_by(5)
        .chain((two..exhaustive::count()).step_by(61));
    let all = cases(some);
    assert!(all.cuts > 10 * all.actions, "{all}");
    assert!(all.cuts_in_recovery > 0, "{all}");
}

#[test]
fn random_short_runs_survive_a_cut_at_every_write() {
    for number in 0..20 {
        let seed = Seed(33).nth(number);
        let report = cuts::run_of_seed(seed, &EngineMaker::of_seed(seed));
        report.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    }
}

/// A write beyond the old end of a LUN was logged, and the growth that made room for it was not
/// committed. The recovery left the write out, committed the others and was cut; the next one has
/// nothing to leave out.
#[test]
fn what_a_recovery_left_out_is_missing_after_the_next_one_too() {
    let report = cuts::run_of_seed(Seed(233), &EngineMaker::of_seed(Seed(233)));
    let report = report.expect("no promise was broken");
    assert!(report.cuts_in_recovery > 0, "{report}");
}
