//! A seed is a run: twice the same, to the last device write and reply.

use std::collections::BTreeSet;

use everglade_testing::Seed;
use everglade_testing::engine::EngineMaker;
use everglade_testing::sim::long;
use everglade_testing::toy::ToyMaker;

/// The digest absorbs every device operation with its contents and completion, and every reply.
#[test]
fn two_runs_of_the_engine_with_one_seed_have_the_same_digest() {
    let mut digests = BTreeSet::new();
    for number in 0..10 {
        let seed = Seed(12).nth(number);
        let maker = EngineMaker::of_seed(seed);
        let run = || long::run(seed, long::Plan::of_seed(seed), &maker);
        let (a, b) = (run(), run());
        assert_eq!(a, b, "seed {seed} is two runs");
        let report = a.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
        digests.insert(report.digest.to_string());
    }
    assert_eq!(digests.len(), 10, "two seeds are one run");
}

#[test]
fn two_runs_of_a_seed_have_the_same_digest() {
    let mut digests = BTreeSet::new();
    for number in 0..20 {
        let seed = Seed(11).nth(number);
        let run = || long::run(seed, long::Plan::of_seed(seed), &ToyMaker::default());
        let (a, b) = (
            run().expect("the toy is correct"),
            run().expect("the toy is correct"),
        );
        assert_eq!(a, b, "seed {seed} is two runs");
        digests.insert(a.digest.to_string());
    }
    assert_eq!(digests.len(), 20, "two seeds are one run");
}
