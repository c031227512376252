//! Clients count by compare-and-write, on several reactors, with power cuts.

use everglade_testing::Seed;
use everglade_testing::sim::Kind;

use super::lives::run_kind;

#[test]
fn no_step_of_a_counter_is_lost() {
    let all = run_kind(Kind::Compared, (0..48).map(|number| Seed(71).nth(number)));
    assert!(all.actions > 5_000 && all.cuts > 48, "{all}");
}
