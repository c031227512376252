//! Kills and power cuts: short versions of `cargo xtask torture`, with fixed seeds.
//!
//! The rigs, the load and the rules of what may be found afterwards are those of
//! `everglade-torture`; `cargo xtask test` also lets the power cuts find a server that does not
//! flush.

use std::path::Path;
use std::time::Duration;

use everglade_torture::rig::{Installation, Power};
use everglade_torture::run::{self, Cuts, DEVICE_BYTES, Kills, Row};
use everglade_torture::{Failure, Tally};

/// Longest load of a round.
const LOAD_MAX: Duration = Duration::from_millis(900);

fn everglade() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_everglade"))
}

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

fn print(row: &Row) {
    println!("{row}");
}

#[track_caller]
fn passed(outcome: Result<Tally, Failure>) -> Tally {
    let tally = outcome.unwrap_or_else(|failure| panic!("{failure}"));
    println!("{tally}");
    assert!(tally.sectors > 0 && tally.counts.flushes > 0, "{tally}");
    let is_used = |answered: &u64| *answered > 0;
    assert!(tally.counts.protocols.iter().all(is_used), "{tally}");
    tally
}

#[test]
fn kills_leave_every_block_as_it_may_be() {
    let folder = scratch();
    let options = Kills {
        rounds: 5,
        seed: 3,
        load_max: LOAD_MAX,
    };
    let installation = Installation::new(everglade(), folder.path());
    println!("{}", run::HEADER);
    let tally = passed(run::kills(options, &installation, &mut print));
    assert_eq!(tally.crashes, 6, "the fifth restart is killed too");
}

#[test]
fn power_cuts_leave_every_block_as_it_may_be() {
    if let Some(reason) = Power::impossible() {
        crate::tools::skip(&reason);
        return;
    }
    let folder = scratch();
    let options = Cuts {
        rounds: 4,
        seed: 3,
        load_max: LOAD_MAX,
        planted: None,
    };
    let mut installation = Installation::new(everglade(), folder.path());
    let mut power = Power::new(folder.path(), DEVICE_BYTES).expect("a device");
    println!("{}", run::HEADER);
    let tally = passed(run::cuts(
        &options,
        &mut installation,
        &mut power,
        &mut print,
    ));
    assert_eq!(tally.crashes, 4);
    assert!(tally.device_flushes > 0, "flushes reach the device");
}
