//! Clients count by compare-and-write, on several reactors, with power cuts.

use everglade_testing::Seed;
use everglade_testing::sim::{Kind, Report};

#[test]
fn no_step_of_a_counter_is_lost() {
    let mut all = Report::default();
    for number in 0..48 {
        let seed = Seed(71).nth(number);
        match Kind::Compared.run(seed, 0) {
            Ok(report) => all.add(&report),
            Err(failure) => panic!("seed {seed}: {failure}"),
        }
    }
    assert!(all.actions > 5_000 && all.cuts > 48, "{all}");
}
