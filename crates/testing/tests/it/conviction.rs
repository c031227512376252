//! Each bug of the toy is found, by the rule it breaks.

use everglade_testing::Seed;
use everglade_testing::sim::cuts::Thoroughness;
use everglade_testing::sim::{Failure, long, small};
use everglade_testing::toy::{Bug, ToyMaker};
use everglade_testing::workload::Scale;

const SEEDS: u64 = 300;

/// The first failure of the toy with this bug, and how many seeds it took.
fn hunt(bug: Bug, plan_of: fn(Seed) -> long::Plan) -> Option<(u64, Failure)> {
    let maker = ToyMaker { bug: Some(bug) };
    (0..SEEDS).find_map(|number| {
        let seed = Seed(7).nth(number);
        let plan = long::Plan {
            faults: false,
            ..plan_of(seed)
        };
        long::run(seed, plan, &maker)
            .err()
            .map(|failure| (number + 1, failure))
    })
}

#[track_caller]
fn assert_convicted(bug: Bug, words: &[&str]) {
    assert_convicted_by(bug, words, long::Plan::of_seed);
}

/// Many short lives of small operations: where one crash sets the trap for the next.
fn short_lives(seed: Seed) -> long::Plan {
    let plan = long::Plan::of_seed(seed);
    let scale = Scale {
        op_bytes_max: 4096,
        ..Scale::SMALL
    };
    long::Plan {
        scale,
        lives: 20,
        actions: 40,
        ..plan
    }
}

#[track_caller]
fn assert_convicted_by(bug: Bug, words: &[&str], plan_of: fn(Seed) -> long::Plan) {
    let (seeds, failure) =
        hunt(bug, plan_of).unwrap_or_else(|| panic!("{bug:?} was not found in {SEEDS} seeds"));
    println!("{bug:?} after {seeds} seeds: {failure}");
    let named = words.iter().any(|word| failure.what.contains(word));
    assert!(named, "{bug:?} was taken for something else: {failure}");
}

#[test]
fn flush_that_does_not_flush_is_found() {
    assert_convicted(Bug::FlushWithoutFlush, &["Durable", "Exports"]);
}

#[test]
fn flush_that_does_not_wait_is_found() {
    assert_convicted(Bug::FlushTooEarly, &["Durable", "Exports"]);
}

#[test]
fn forgotten_force_unit_access_is_found() {
    assert_convicted(Bug::ForgetsForceUnitAccess, &["Durable"]);
}

#[test]
fn missing_chain_is_found() {
    let words = ["Prefix", "Foreign", "Whole", "Exports", "Durable"];
    assert_convicted_by(Bug::NoChain, &words, short_lives);
}

#[test]
fn unchecked_payload_is_found() {
    assert_convicted(
        Bug::NoPayloadCheck,
        &["Foreign", "Whole", "Prefix", "Durable"],
    );
}

#[test]
fn stale_read_is_found() {
    assert_convicted(Bug::StaleRead, &["ReadAfterWrite", "Foreign", "Durable"]);
}

#[test]
fn write_seen_in_part_is_found() {
    assert_convicted(Bug::TornWrite, &["TornRead", "ReadAfterWrite"]);
}

#[test]
fn discarded_edge_is_found() {
    assert_convicted(
        Bug::DiscardsEdges,
        &["ReadAfterWrite", "Foreign", "Durable"],
    );
}

#[test]
fn forgotten_growth_is_found() {
    assert_convicted(Bug::ForgetsGrowth, &["Exports"]);
}

#[test]
fn lost_completion_is_found() {
    assert_convicted(Bug::LosesCompletion, &["stuck", "never answered"]);
}

#[test]
fn two_operations_suffice_to_find_a_flush_that_does_not_flush() {
    let maker = ToyMaker {
        bug: Some(Bug::FlushWithoutFlush),
    };
    let share = small::Share {
        length: 2,
        stride: 1,
        first: 0,
    };
    let verdict = small::run(Seed(3), 16 << 20, &maker, share, Thoroughness::SOME);
    assert!(verdict.is_err(), "no short sequence found it");
}
