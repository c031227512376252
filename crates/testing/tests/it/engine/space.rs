//! Deletions free all their space.

use everglade_engine::Usage;
use everglade_testing::engine::{EngineMaker, EngineSystem};
use everglade_testing::system::Admin;
use everglade_testing::workload::Action;

use super::rig::{Rig, consistency_point, create_lun, create_volume, delete_lun, write};

const MIB: u64 = 1 << 20;

fn usage(system: &mut EngineSystem) -> Usage {
    system.usage()
}

/// Returns enough consistency points for all deletions to end and for overflow files to settle.
fn settle() -> Vec<Action> {
    let mut actions = Vec::new();
    for _ in 0..10 {
        actions.extend([Action::Pause(1_000_000_000), consistency_point()]);
    }
    actions
}

/// Contexts and map blocks of areas once used stay, and each restart may begin another area; that
/// has an end. Nothing else stays, however often something comes and goes.
fn assert_settled(empty: &Usage, levels: &[u64]) {
    let late = &levels[levels.len() / 2..];
    let (least, most) = (late.iter().min(), late.iter().max());
    let (least, most) = (least.expect("some"), most.expect("some"));
    assert!(most - least <= 4, "{levels:?} after {empty:?}");
    let contexts = empty.total_blocks.div_ceil(256);
    assert!(
        *most <= empty.used_blocks + contexts + 32,
        "{levels:?} after {empty:?}"
    );
}

/// Writes all of an existing LUN.
fn fill(lun: &str, bytes: u64, salt: u64) -> Vec<Action> {
    let write = |index| write(lun, index * MIB, MIB, salt + index);
    (0..bytes / MIB).map(write).collect()
}

#[test]
fn deleted_luns_return_all_their_space_also_across_restarts() {
    for devices in [1, 2] {
        let maker = EngineMaker {
            devices,
            ..EngineMaker::SMALL
        };
        let mut rig = Rig::new(maker, 32 * MIB, 2);
        let mut actions = vec![create_volume("v"), consistency_point()];
        actions.extend(settle());
        let empty = rig.live(actions, usage);
        let mut levels = Vec::new();
        for cycle in 0..10 {
            rig.live([create_lun("v/l", 16 * MIB)], usage);
            let mut actions = fill("v/l", 16 * MIB, cycle * 1000);
            actions.push(consistency_point());
            let full = rig.live(actions, usage);
            assert!(full.used_blocks > empty.used_blocks + 3000, "{full:?}");
            // Cut right after the deletion is durable: the rest happens in the next life.
            rig.live([delete_lun("v/l")], usage);
            let after = rig.live(settle(), usage);
            assert_eq!(after.pending_blocks, 0, "{after:?}");
            levels.push(after.used_blocks);
        }
        assert_settled(&empty, &levels);
    }
}

#[test]
fn deleted_volumes_return_all_their_space() {
    let mut rig = Rig::new(EngineMaker::SMALL, 32 * MIB, 1);
    let empty = rig.live(settle(), usage);
    let mut levels = Vec::new();
    for cycle in 0..10 {
        let mut actions = vec![create_volume("w"), create_lun("w/l", 12 * MIB)];
        actions.extend(fill("w/l", 12 * MIB, cycle * 1000));
        actions.push(consistency_point());
        rig.live(actions, usage);
        let delete = Admin::DeleteVolume {
            name: "w".to_owned(),
        };
        let mut actions = vec![Action::Admin(delete)];
        actions.extend(settle());
        let after = rig.live(actions, usage);
        assert_eq!(after.pending_blocks, 0, "{after:?}");
        levels.push(after.used_blocks);
    }
    assert_settled(&empty, &levels);
}

#[test]
fn discarded_ranges_return_their_space_and_the_pool_can_be_filled_again() {
    let mut rig = Rig::new(EngineMaker::SMALL, 16 * MIB, 1);
    rig.live([create_volume("v"), create_lun("v/l", 64 * MIB)], usage);
    for cycle in 0..4 {
        // More than fits: the last ones are refused, and the next cycle fits as much again.
        let mut actions = fill("v/l", 24 * MIB, cycle * 1000);
        actions.push(consistency_point());
        let full = rig.live(actions, usage);
        let least = full.total_blocks - full.reserve_blocks - 1024;
        assert!(full.used_blocks > least, "cycle {cycle}: {full:?}");
        let discard = Action::Discard {
            lun: "v/l".to_owned(),
            offset: 0,
            length: 64 * MIB,
            durable: true,
        };
        let mut actions = vec![discard];
        actions.extend(settle());
        let after = rig.live(actions, usage);
        assert!(after.used_blocks < 100, "cycle {cycle}: {after:?}");
    }
}

/// Single blocks all over a LUN, each in another region than the one before.
fn scattered(lun: &str, bytes: u64, count: u64, salt: u64) -> Vec<Action> {
    let blocks = bytes / 4096;
    // Coprime to any number of blocks that is no multiple of it.
    let write_one = |index: u64| {
        write(
            lun,
            (salt + index * 1_021) % blocks * 4096,
            4096,
            salt + index,
        )
    };
    (0..count).map(write_one).collect()
}

#[test]
fn a_full_pool_goes_on_with_scattered_overwrites_and_still_deletes() {
    for (devices, area_blocks, memory_mib) in [(1, 256, 2), (1, 256, 64), (2, 256, 8), (1, 512, 64)]
    {
        let maker = EngineMaker {
            devices,
            area_blocks,
            memory_bytes: memory_mib * MIB,
            ..EngineMaker::SMALL
        };
        let mut rig = Rig::new(maker, 24 * MIB, 1);
        rig.live([create_volume("v"), create_lun("v/l", 20 * MIB)], usage);
        let full = rig.live(fill("v/l", 20 * MIB, 0), usage);
        for round in 0..4 {
            let mut actions = scattered("v/l", 20 * MIB, 1500, 10_000 * (round + 1));
            for index in 0..40 {
                actions.push(Action::Discard {
                    lun: "v/l".to_owned(),
                    offset: (index * 131 % 5000) * 4096,
                    length: 4096,
                    durable: index % 8 == 0,
                });
            }
            let after = rig.live(actions, usage);
            assert!(after.used_blocks + 600 > full.used_blocks, "{after:?}");
        }
        rig.live([delete_lun("v/l")], usage);
        let after = rig.live(settle(), usage);
        assert_eq!(after.pending_blocks, 0, "{after:?}");
        assert!(after.used_blocks < 150, "{after:?}");
    }
}

/// Returns the space that the host has provided after overwrites at random places of a LUN that
/// fills a quarter of the pool. `beyond` bytes are left on the host when the overwrites begin.
fn backed_after_overwrites(beyond: Option<u64>) -> (Usage, Usage) {
    let maker = EngineMaker {
        memory_bytes: 64 * MIB,
        ..EngineMaker::SMALL
    };
    let mut rig = Rig::new(maker, 64 * MIB, 1);
    rig.live([create_volume("v"), create_lun("v/l", 16 * MIB)], usage);
    let mut actions = fill("v/l", 16 * MIB, 0);
    actions.extend(settle());
    let before = rig.live(actions, usage);
    if let Some(beyond) = beyond {
        let used = rig.world.host_used();
        rig.world.set_host_capacity(Some(used + beyond));
    }
    let mut actions = Vec::new();
    for round in 1..12 {
        actions.extend(scattered("v/l", 16 * MIB, 500, 10_000 * round));
        actions.push(consistency_point());
    }
    (before, rig.live(actions, usage))
}

#[test]
fn new_areas_are_taken_before_halves_of_old_ones_while_the_host_has_plenty() {
    let (before, plenty) = backed_after_overwrites(None);
    // Less than a tenth of the pool and one area, so halves of old areas do.
    let (_, short) = backed_after_overwrites(Some(7 * MIB));
    let (_, none) = backed_after_overwrites(Some(0));
    let taken = |after: &Usage| after.backed_blocks.saturating_sub(before.backed_blocks) * 4096;
    assert!(
        taken(&plenty) >= 8 * MIB,
        "{plenty:?} after {before:?}: old areas were filled up"
    );
    assert!(taken(&short) <= 4 * MIB, "{short:?} after {before:?}");
    assert!(
        none.used_blocks >= before.used_blocks,
        "{none:?} after {before:?}"
    );
}

/// Blocks for which the host has given space before and after a LUN is deleted, while the host has
/// `beyond` bytes left.
fn given_around_deletion(beyond: Option<u64>) -> (u64, u64) {
    let mut rig = Rig::new(EngineMaker::SMALL, 64 * MIB, 1);
    rig.live([create_volume("v"), create_lun("v/l", 40 * MIB)], usage);
    let mut actions = fill("v/l", 40 * MIB, 0);
    actions.extend(settle());
    let before = rig.live(actions, usage);
    if let Some(beyond) = beyond {
        let used = rig.world.host_used();
        rig.world.set_host_capacity(Some(used + beyond));
    }
    let mut actions = vec![delete_lun("v/l")];
    actions.extend(settle());
    let after = rig.live(actions, usage);
    assert_eq!(after.pending_blocks, 0, "{after:?}");
    (before.backed_blocks, after.backed_blocks)
}

#[test]
fn a_host_that_is_short_gets_what_is_not_needed_soon() {
    let (_, plenty) = given_around_deletion(None);
    let (before, full) = given_around_deletion(Some(0));
    assert!(full + 8 * 256 <= before, "{full} of {before} blocks");
    // The comparison needs a host with plenty of space again.
    assert!(full <= plenty, "{full} where {plenty} stay at most");
}
