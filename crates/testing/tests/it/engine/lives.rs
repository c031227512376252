//! Lives with restarts and cuts, of fixed seeds, and the shortest one spelled out.

use everglade_testing::Seed;
use everglade_testing::engine::EngineMaker;
use everglade_testing::sim::{Background, Kind, Report, long};
use everglade_testing::workload::{Action, Scale};
use everglade_testing::world::Fault;

use super::rig::{Rig, consistency_point, create_lun, create_volume, read, write};

#[test]
fn what_was_written_is_read_again_after_a_restart() {
    let mut rig = Rig::new(EngineMaker::SMALL, 16 << 20, 1);
    let flush = Action::Flush {
        lun: "v/l".to_owned(),
    };
    rig.live(
        [
            create_volume("v"),
            create_lun("v/l", 8 << 20),
            write("v/l", 0, 4096, 1),
            write("v/l", 4096 * 254, 3 * 4096, 2),
            write("v/l", 100, 10, 3),
            read("v/l", 0, 1 << 20),
            consistency_point(),
            read("v/l", 0, 1 << 20),
            write("v/l", 5 << 20, 1 << 20, 4),
            flush,
            read("v/l", 5 << 20, 1 << 20),
        ],
        |_| {},
    );
    rig.mount();
}

/// Runs seeds of a kind and adds up their reports.
fn run(first: u64, count: u64, plan_of: fn(Seed) -> long::Plan) -> Report {
    let mut all = Report::default();
    for number in 0..count {
        let seed = Seed(first).nth(number);
        match long::run(seed, plan_of(seed), &EngineMaker::of_seed(seed)) {
            Ok(report) => all.add(&report),
            Err(failure) => panic!("seed {seed}: {failure}"),
        }
    }
    all
}

#[test]
fn engine_survives_lives_with_cuts() {
    let all = run(21, 25, |seed| long::Plan {
        faults: false,
        ..long::Plan::of_seed(seed)
    });
    assert!(all.cuts > 25 && all.met[Fault::CutDropped] > 0, "{all}");
    assert!(all.met[Fault::Reordered] > 0, "{all}");
}

#[test]
fn engine_survives_failing_devices_and_full_hosts() {
    let all = run(22, 25, |seed| long::Plan {
        faults: true,
        ..long::Plan::of_seed(seed)
    });
    assert!(all.refused > 0 && all.errors > 0, "{all}");
}

#[test]
fn engine_survives_pools_that_fill_up_and_drain() {
    let all = run(23, 12, |seed| long::Plan::of_seed(seed).filling());
    assert!(all.refused > 0, "{all}");
}

/// Each kind of silent fault is met, and errors are the answers; reads are never wrong.
#[test]
fn engine_answers_silent_damage_with_errors_and_never_with_wrong_data() {
    let mut all = run(24, 60, |seed| long::Plan {
        silent: true,
        faults: false,
        fill: false,
        tight: false,
        lives: 3,
        pool_bytes: 64 << 20,
        scale: Scale::SMALL,
        actions: 60,
        ..long::Plan::of_seed(seed)
    });
    // Small worlds are in the cache, so hardly any block is read twice from a device.
    all.add(&run(24, 20, |seed| long::Plan {
        silent: true,
        faults: false,
        ..long::Plan::of_seed(seed)
    }));
    let silent = Fault::ALL.into_iter().filter(|fault| fault.is_silent());
    for fault in silent.chain([Fault::ReadError]) {
        assert!(all.met[fault] > 0, "{fault} was never met: {all:?}");
        // A cut is no error, and a fault on the way often disappears in the second read.
        let may_pass = matches!(
            fault,
            Fault::CutDropped | Fault::CutTorn | Fault::StaleRead | Fault::FlipReading
        );
        assert!(may_pass || all.answered[fault] > 0, "{fault}: {all:?}");
    }
}

/// Runs seeds, and returns what all of them did together.
pub(super) fn run_kind(kind: Kind, seeds: impl Iterator<Item = Seed>) -> Report {
    let mut all = Report::default();
    for seed in seeds {
        match kind.run(seed, 0) {
            Ok(report) => all.add(&report),
            Err(failure) => panic!("{} seed {seed}: {failure}", kind.name()),
        }
    }
    all
}

/// The power fails during each kind of background work for snapshots and clones.
#[test]
fn snapshots_and_clones_survive_lives_with_cuts_in_all_that_goes_on() {
    let mut all = run_kind(Kind::Snapshots, (0..4).map(|number| Seed(42).nth(number)));
    let gardening = [
        Background::Cleaning,
        Background::Layout,
        Background::AfterRead,
        Background::Removal,
        Background::Rebalance,
    ];
    // Nobody asks for gardening here; `cleaning` has a test of its own.
    let others = Background::ALL.into_iter();
    let others: Vec<Background> = others.filter(|one| !gardening.contains(one)).collect();
    for number in 0..80 {
        let seed = Seed(41).nth(number);
        all.add(&run_kind(Kind::Moments, [seed].into_iter()));
        // At least as many as on an ordinary day.
        if number >= 12 && others.iter().all(|one| all.interrupted[*one] > 0) {
            return;
        }
    }
    panic!("cuts have not met all: {all:?}");
}

/// A device failed the last consistency point of a stopping server: the acknowledged changes were
/// not durable.
#[test]
fn a_stop_that_a_device_fails_makes_nothing_durable() {
    let report = run_kind(Kind::Moments, [Seed(0x7545_3e2e_7d75_b3f6)].into_iter());
    assert!(report.errors > 0, "{report}");
}

/// A LUN's growth was not durable and the journal cannot be read to its end: writes to the LUN as
/// it was longer are skipped.
#[test]
fn what_was_written_to_a_lun_that_is_short_again_is_skipped_whole() {
    run_kind(Kind::Silent, [Seed(0xa5c2_ea2d_2d23_205d)].into_iter());
}

/// The power failed during a commit and left one copy of the superblock. A start showed clients
/// what it names, without copying it, and then that copy was damaged.
#[test]
fn what_a_start_shows_is_not_lost_with_one_copy_of_a_superblock() {
    run_kind(Kind::Silent, [Seed(0x05f1_8233_9006_0c73)].into_iter());
}

/// The consistency point that heals superblocks met damage, and the aggregate never came online.
#[test]
fn a_start_that_cannot_heal_is_not_stuck() {
    run_kind(Kind::Silent, [Seed(0x85f3_5f84_3c09_37be)].into_iter());
}

/// A volume was deleted, a start failed before it was built again: the next start misses nothing.
#[test]
fn a_volume_that_no_start_built_again_is_not_missed() {
    run_kind(Kind::Moments, [Seed(0x9a1e_3ee7_dc47_6f01)].into_iter());
}

/// A LUN was shrunk, and a snapshot of it compared with one from before.
#[test]
fn what_changed_since_a_snapshot_of_a_shrunk_lun_is_all_said() {
    run_kind(Kind::Snapshots, [Seed(0x2ced_497a_f3fd_44ef)].into_iter());
}
