//! The power fails at every write.

use everglade_testing::Seed;
use everglade_testing::engine::EngineMaker;
use everglade_testing::sim::cuts::{self, Thoroughness};
use everglade_testing::sim::{creation, small};
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

#[test]
fn random_short_runs_survive_a_cut_at_every_write() {
    for number in 0..20 {
        let seed = Seed(33).nth(number);
        let report = cuts::run_of_seed(seed, &EngineMaker::of_seed(seed));
        report.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    }
}
