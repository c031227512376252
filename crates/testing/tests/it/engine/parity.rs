//! Parity groups: drives break, lie, are away and come back, with power cuts on top (issue 25).

use everglade_engine::ParityPlan;
use everglade_env::BLOCK_SIZE;
use everglade_testing::Seed;
use everglade_testing::engine::EngineMaker;
use everglade_testing::sim::Kind;
use everglade_testing::world::{Breakage, Faults};

use super::lives::run_kind;
use super::mirrors::cut;
use super::rig::{Rig, consistency_point, create_lun, create_volume, read, write};

const BLOCK: u64 = BLOCK_SIZE as u64;
const POOL_BYTES: u64 = 12 << 20;

/// One group of so many drives, with a journal.
fn group(drives: usize, parity: usize) -> EngineMaker {
    EngineMaker {
        parity: Some(ParityPlan { drives, parity }),
        ..EngineMaker::SMALL_LOGGED
    }
}

#[test]
fn what_was_written_is_there_after_a_restart() {
    for (drives, parity) in [(3, 1), (4, 2), (6, 2), (6, 3)] {
        let mut rig = Rig::with_blocks(group(drives, parity));
        rig.restart();
        rig.live([read("v/l", 0, 64 * BLOCK)], |_| {});
        rig.live(
            [write("v/l", 3 * BLOCK, 17 * BLOCK, 9), consistency_point()],
            |_| {},
        );
        rig.restart();
        rig.live([read("v/l", 0, 64 * BLOCK)], |_| {});
    }
}

/// A new pool has only free space: what is written in order fills whole stripes.
#[test]
fn free_stripes_are_written_without_reading() {
    let mut rig = Rig::new(group(6, 2), POOL_BYTES, 1);
    let first = [create_volume("v"), create_lun("v/l", 8 << 20)];
    rig.live(first, |_| {});
    let part = |number: u64| write("v/l", number * 256 * BLOCK, 256 * BLOCK, number);
    let work = (0..4).map(part).chain([consistency_point()]);
    let stripes = rig.live(work, |system| system.stripes());
    assert!(stripes.full >= 256, "{stripes:?}");
    assert!(stripes.full > 2 * stripes.partial, "{stripes:?}");
}

#[test]
fn a_drive_vanishes_and_any_write_may_be_the_last_with_any_drives() {
    for (drive, after) in [(0, 3), (2, 12)] {
        cut(group(3, 1), vec![(drive, after, Breakage::Vanishes)], 10);
    }
}

#[test]
fn a_drive_hangs_and_any_write_may_be_the_last_with_any_drives() {
    for (drive, after) in [(0, 3), (2, 12)] {
        cut(group(3, 1), vec![(drive, after, Breakage::Hangs)], 10);
    }
    let breaks = vec![(0, 3, Breakage::Hangs), (1, 9, Breakage::Vanishes)];
    cut(group(4, 2), breaks, 5);
}

#[test]
fn two_drives_break_one_after_the_other() {
    let fails = Breakage::Fails(Faults::no_writes());
    for (drive, after) in [(0, 3), (3, 12)] {
        let other = (drive + 1) % 4;
        let breaks = vec![
            (drive, after, Breakage::Vanishes),
            (other, after + 5, fails.clone()),
        ];
        cut(group(4, 2), breaks, 5);
    }
}

fn passes(seed: u64) {
    if let Err(failure) = Kind::Parity.run(Seed(seed), 0) {
        panic!("seed {seed}: {failure}");
    }
}

/// The first chunk of a new parity drive got the blocks of a data column, and a block that was
/// written again did not stay.
#[test]
fn a_parity_drive_that_is_replaced_has_parity_from_the_first_block_on() {
    passes(4);
}

/// A start made parity right, and a drive vanished in it.
#[test]
fn a_drive_is_lost_while_parity_is_made_right() {
    passes(8);
}

/// Stripes were written without it, and the log did not say so any more.
#[test]
fn a_drive_is_back_after_the_raid_log_was_emptied() {
    passes(39);
}

/// Its blocks were taken for lost.
#[test]
fn a_drive_that_does_not_answer_is_one_too_many() {
    passes(60);
}

/// A block was reconstructed while its stripe was written, and a column that was newer than parity
/// was taken for wrong.
#[test]
fn a_column_that_is_written_meanwhile_is_not_wrong() {
    passes(0xfb5e_88ce_76ce_9fc1);
}

fn passes_in_groups(kind: Kind, seed: u64) {
    if let Err(failure) = kind.run_in_groups(Seed(seed), 0) {
        panic!("seed {seed}: {failure}");
    }
}

/// A client's write joined consistency point 124, which the power cut kept from being committed. A
/// start that was cut, too, committed another one with this number. So the judge missed the write.
#[test]
fn numbers_of_consistency_points_say_nothing_after_a_start_was_cut() {
    passes_in_groups(Kind::Long, 0xf99c_a817_4027_6dc9);
}

/// The first consistency point failed before clients were admitted. So they were never admitted.
#[test]
fn an_aggregate_that_cannot_commit_is_opened_for_reading() {
    passes_in_groups(Kind::Silent, 0x3070_c722_d84f_522b);
}

/// The aggregate was refused because blocks of its RAID logs could not be read.
#[test]
fn raid_logs_that_cannot_be_read_do_not_keep_an_aggregate_from_starting() {
    passes_in_groups(Kind::Silent, 0xbe2c_f9a1_0567_f449);
}

/// A read failed once while a drive was out, and parity was computed as if the block were zeroes.
#[test]
fn a_column_is_read_more_than_once() {
    passes_in_groups(Kind::Faults, 0xbb31_9701_c83d_c205);
}

/// One base of a stripe was torn. Two columns of parity were made right for different contents of
/// a free block whose drive was missing.
#[test]
fn a_base_that_is_torn_leaves_all_of_its_stripe_as_it_was() {
    passes(0xc884_73a0_b854_65cd);
    passes_in_groups(Kind::Faults, 0xfb84_e8a4_74c9_7a35);
}

/// A block of a wave that was not written yet was read from its drive.
#[test]
fn blocks_of_a_wave_are_read_from_memory() {
    passes_in_groups(Kind::Faults, 0x2321_8e34_6964_9277);
}

#[test]
fn drives_of_parity_groups_break_while_clients_work() {
    let all = run_kind(Kind::Parity, (0..4).map(|number| Seed(64).nth(number)));
    assert!(all.cuts > 0 && all.recoveries > 0, "{all}");
}

/// The rename of an empty volume was cut off, and the judge took the old volume for the new one.
#[test]
fn a_volume_without_luns_is_known_by_its_name() {
    passes_in_groups(Kind::Snapshots, 0x3866_dba4_c5de_5619);
}

/// A write waited for ever: there was space in an area that nobody had looked at since the start.
#[test]
fn areas_that_are_not_known_are_searched_though_one_is_ready() {
    passes_in_groups(Kind::Faults, 0x6a45_5631_d8e4_22d6);
}

/// A life was read-only, and the number of a consistency point that failed was used again.
#[test]
fn a_number_that_is_used_again_says_nothing_of_what_joined_the_former() {
    passes_in_groups(Kind::Silent, 0x945f_f3ba_e8d0_f6db);
}
