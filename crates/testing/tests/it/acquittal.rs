//! The correct toy passes everything.

use everglade_testing::Seed;
use everglade_testing::sim::cuts::Thoroughness;
use everglade_testing::sim::{Report, long, small};
use everglade_testing::toy::ToyMaker;
use everglade_testing::world::Fault;

#[test]
fn correct_toy_survives_many_lives_and_every_fault_strikes() {
    let mut all = Report::default();
    for number in 0..60 {
        let seed = Seed(1).nth(number);
        let plan = long::Plan::of_seed(seed);
        match long::run(seed, plan, &ToyMaker::default()) {
            Ok(report) => all.add(&report),
            Err(failure) => panic!("seed {seed}: {failure}"),
        }
    }
    for (name, count) in [
        ("dropped", all.met[Fault::CutDropped]),
        ("torn", all.met[Fault::CutTorn]),
        ("reordered", all.met[Fault::Reordered]),
        ("refusals", all.refused),
        ("host full", all.met[Fault::NoSpace]),
        ("device errors", all.errors),
    ] {
        assert!(count > 0, "no {name} in {all}");
    }
}

#[test]
fn correct_toy_survives_every_cut_of_every_short_sequence() {
    let all_but_sequels = Thoroughness {
        recoveries: 29,
        ..Thoroughness::ALL
    };
    for (length, thoroughness) in [(1, Thoroughness::ALL), (2, all_but_sequels)] {
        let share = small::Share {
            length,
            stride: 1,
            first: 0,
        };
        let report = small::run(Seed(2), 16 << 20, &ToyMaker::default(), share, thoroughness);
        let report = report.unwrap_or_else(|failure| panic!("{failure}"));
        assert!(report.cuts > report.actions, "{report}");
    }
}
