//! LUNs that become shorter and longer: cut-off data never becomes visible again, and its blocks
//! are freed.

use everglade_testing::Seed;
use everglade_testing::engine::EngineMaker;
use everglade_testing::sim::Report;
use everglade_testing::sim::cuts::{self, Thoroughness, Ways};
use everglade_testing::system::{Admin, Maker};
use everglade_testing::workload::small::{self, LUN, LUN_BYTES, spelled};
use everglade_testing::workload::{Action, Mix, Scale, Workload};

use super::rig::{Rig, consistency_point, create_lun, create_volume, delete_lun, read, write};

const BLOCK: u64 = 4096;
const SPAN: u64 = 255;

fn shrink(lun: &str, size_bytes: u64) -> Action {
    Action::Admin(Admin::ShrinkLun {
        name: lun.to_owned(),
        size_bytes,
    })
}

fn grow(lun: &str, size_bytes: u64) -> Action {
    Action::Admin(Admin::GrowLun {
        name: lun.to_owned(),
        size_bytes,
    })
}

/// Runs a sequence on the small LUN, which is full and on media, or full and in memory, before.
fn cut_everywhere(sequence: &[Action], is_on_media: bool, thoroughness: Thoroughness) -> Report {
    let maker = EngineMaker::SMALL;
    let devices = maker.devices(16 << 20);
    let mut actions = vec![
        write(LUN, 0, 1 << 20, 1),
        write(LUN, 1 << 20, LUN_BYTES - (1 << 20), 2),
    ];
    if is_on_media {
        actions.push(consistency_point());
    }
    actions.extend_from_slice(sequence);
    let report = cuts::run(Seed(41), 1, &devices, &maker, &actions, 1, thoroughness);
    report.unwrap_or_else(|failure| panic!("{sequence:?}, on media: {is_on_media}: {failure}"))
}

const SOME: Thoroughness = Thoroughness {
    points_max: 16,
    ways: Ways::Singles(2),
    recoveries: 17,
    ..Thoroughness::SOME
};

#[test]
fn every_single_resizing_survives_every_cut() {
    let letters = small::resizing();
    for number in 0..letters.len() as u64 {
        for is_on_media in [false, true] {
            let thorough = Thoroughness {
                recoveries: 7,
                ..SOME
            };
            cut_everywhere(&spelled(&letters, 1, number), is_on_media, thorough);
        }
    }
}

#[test]
fn some_of_two_and_three_resizings_survive_cuts() {
    let letters = small::resizing();
    let count = letters.len() as u64;
    let mut all = Report::default();
    for number in (0..count.pow(2)).step_by(3) {
        let is_on_media = number % 2 == 0;
        all.add(&cut_everywhere(
            &spelled(&letters, 2, number),
            is_on_media,
            SOME,
        ));
    }
    for number in (0..count.pow(3)).step_by(97) {
        let is_on_media = number % 2 == 0;
        all.add(&cut_everywhere(
            &spelled(&letters, 3, number),
            is_on_media,
            SOME,
        ));
    }
    println!("resizing: {all}");
    assert!(all.cuts > 10 * all.actions, "{all}");
}

#[test]
fn random_runs_of_resizings_survive_a_cut_at_many_writes() {
    for number in 0..12 {
        let seed = Seed(42).nth(number);
        let maker = EngineMaker::of_seed(seed);
        let devices = maker.devices(24 << 20);
        let mut workload = Workload::of_mix(seed.0, Scale::SMALL, Mix::RESIZE);
        let actions: Vec<_> = (0..60).map(|_| workload.draw()).collect();
        let report = cuts::run(seed, 2, &devices, &maker, &actions, 4, SOME);
        report.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    }
}

/// Several consistency points free the tail, with power cuts in between; blocks are freed, and the
/// LUN grows again meanwhile.
#[test]
fn a_long_tail_goes_bit_by_bit_and_is_never_seen_again() {
    const TAIL: u64 = 64 << 20;
    let mut rig = Rig::new(EngineMaker::SMALL, 96 << 20, 1);
    let lun = "v/l";
    let mut actions = vec![create_volume("v"), create_lun(lun, 1 << 40)];
    actions.extend((0..TAIL >> 20).map(|mib| write(lun, mib << 20, 1 << 20, mib + 1)));
    // Far out, so that the tree has more levels than the short LUN needs.
    actions.push(write(lun, (1 << 40) - (1 << 20), 1 << 20, 99));
    actions.push(consistency_point());
    let before = rig.live(actions, |system| system.usage().used_blocks);
    let kept = (SPAN + 3) * BLOCK;
    // The power fails right after it was answered, with most of the tail still there.
    rig.live(
        [
            write(lun, kept - BLOCK, 4 * BLOCK, 7),
            shrink(lun, kept),
            read(lun, 0, 1 << 20),
        ],
        |_| {},
    );
    rig.live(
        [
            grow(lun, TAIL),
            read(lun, kept - 5 * BLOCK, 1 << 20),
            read(lun, TAIL - (1 << 20), 1 << 20),
            write(lun, TAIL - BLOCK, BLOCK, 8),
            shrink(lun, BLOCK),
            delete_lun(lun),
            create_lun(lun, 1 << 20),
            read(lun, 0, 1 << 20),
        ],
        |_| {},
    );
    let system = rig.mount();
    let (_, after) = rig.run(system, (0..8).map(|_| consistency_point()), |system| {
        system.usage().used_blocks
    });
    let gone = before - after;
    assert!(gone >= TAIL / BLOCK, "{gone} of {before} blocks came back");
    rig.restart();
}

#[test]
fn a_full_pool_is_made_roomier_by_shrinking() {
    let maker = EngineMaker::SMALL;
    let mut rig = Rig::new(maker, 16 << 20, 1);
    let mut workload = Workload::of_mix(43, Scale::SMALL, Mix::FILL);
    let system = rig.mount();
    let mut left = 3000;
    let (system, ()) = rig.run(
        system,
        std::iter::from_fn(|| {
            left -= 1;
            (left > 0).then(|| workload.draw())
        }),
        |_| {},
    );
    let shrinks: Vec<_> = rig
        .model
        .luns_now()
        .into_iter()
        .filter(|(_, size)| *size > BLOCK)
        .map(|(name, _)| shrink(&name, BLOCK))
        .collect();
    assert!(!shrinks.is_empty());
    let (_, pending) = rig.run(
        system,
        shrinks
            .into_iter()
            .chain((0..8).map(|_| consistency_point())),
        |system| system.usage().pending_blocks,
    );
    assert_eq!(pending, 0, "all of it was given back");
    rig.restart();
    rig.mount();
}
