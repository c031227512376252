//! Clones of LUNs inside their volume: whole or not there, counted in every image, and gone without
//! a trace.

use everglade_engine::admin::{Change, Error};
use everglade_format::indirect::BlockKind;
use everglade_format::metafile::FIRST_FILE;
use everglade_format::{Block, Header};

use super::clones::{BLOCK, BLOCKS, Rig, own};

impl Rig {
    fn clone_lun(&mut self, lun: &str, name: &str, from: Option<&str>) -> Result<(), Error> {
        self.change(Change::CloneLun {
            volume: own("v"),
            lun: own(lun),
            name: own(name),
            from: from.map(own),
        })
    }

    fn remove_lun(&mut self, name: &str) {
        let (volume, name) = (own("v"), own(name));
        let delete = Change::DeleteLun { volume, name };
        self.change(delete).expect("it is there");
    }

    fn has_lun(&mut self, lun: &str) -> bool {
        self.exports().iter().any(|(name, _)| name == lun)
    }
}

#[test]
fn a_clone_has_what_the_lun_had_and_both_are_written_on_their_own() {
    let mut rig = Rig::new();
    let empty = rig.used();
    rig.write("v/l", 0, 400, 1_000);
    let before = rig.used();
    rig.clone_lun("l", "c", None).expect("a new name");
    // Written while it is being made.
    rig.write("v/l", 0, 50, 2_000);
    rig.rest();
    assert!(rig.has_lun("v/c"));
    assert_eq!(rig.exports().len(), 2);
    rig.expect("v/c", 0, 400, 1_000);
    rig.expect_zero("v/c", 400, BLOCKS - 400);
    let used = rig.used();
    assert!(used < before + 50 + 40, "{used} blocks after {before}");
    rig.write("v/c", 100, 100, 3_000);
    rig.write("v/l", 150, 100, 4_000);
    let expect_both = |rig: &mut Rig| {
        rig.expect("v/c", 0, 100, 1_000);
        rig.expect("v/c", 100, 100, 3_000);
        rig.expect("v/c", 200, 200, 1_000);
        rig.expect("v/l", 0, 50, 2_000);
        rig.expect("v/l", 50, 100, 1_000);
        rig.expect("v/l", 150, 100, 4_000);
        rig.expect("v/l", 250, 150, 1_000);
    };
    expect_both(&mut rig);
    let mut rig = rig.restart();
    expect_both(&mut rig);
    // The source is deleted, and the clone keeps its content.
    rig.remove_lun("l");
    rig.rest();
    let mut rig = rig.restart();
    rig.expect("v/c", 0, 100, 1_000);
    rig.expect("v/c", 200, 200, 1_000);
    rig.remove_lun("c");
    rig.rest();
    rig.delete_volume("v").expect("it is there");
    rig.rest();
    let mut rig = rig.restart();
    rig.rest();
    let used = rig.used();
    assert!(used <= empty + 16, "{used} of {empty} at first");
}

#[test]
fn a_clone_from_a_snapshot_brings_back_what_was_overwritten() {
    let mut rig = Rig::new();
    rig.write("v/l", 0, 500, 1_000);
    rig.snapshot("v", "s");
    rig.write("v/l", 100, 200, 2_000);
    rig.snapshot("v", "t");
    rig.write("v/l", 0, 20, 3_000);
    rig.clone_lun("l", "c", Some("s")).expect("it is there");
    // A snapshot, and the deletion of the source, while it is being made.
    rig.snapshot("v", "u");
    rig.delete_snapshot("v", "s").expect("nobody holds it");
    rig.rest();
    let mut rig = rig.restart();
    rig.expect("v/c", 0, 500, 1_000);
    rig.expect("v/l", 0, 20, 3_000);
    rig.expect("v/l", 100, 200, 2_000);
    for gone in ["u", "t"] {
        rig.delete_snapshot("v", gone).expect("nobody needs it");
        rig.rest();
        rig = rig.restart();
        rig.expect("v/c", 0, 500, 1_000);
    }
    assert!(rig.snapshot_names("v").is_empty());
}

#[test]
fn counts_are_part_of_snapshots_restores_and_clones_of_volumes() {
    let mut rig = Rig::new();
    rig.write("v/l", 0, 300, 1_000);
    rig.clone_lun("l", "c", None).expect("a new name");
    rig.rest();
    rig.snapshot("v", "s");
    rig.remove_lun("l");
    rig.write("v/c", 0, 300, 2_000);
    rig.rest();
    let restore = |rig: &mut Rig, safety: &str| {
        rig.change(Change::RestoreVolume {
            volume: own("v"),
            snapshot: own("s"),
            safety: own(safety),
        })
        .expect("it is there");
    };
    restore(&mut rig, "r");
    let mut rig = rig.restart();
    rig.write("v/l", 0, 300, 3_000);
    rig.expect("v/c", 0, 300, 1_000);
    rig.clone_of("w", "v", "s").expect("a new name");
    rig.write("w/c", 0, 150, 4_000);
    rig.rest();
    let mut rig = rig.restart();
    rig.expect("w/l", 0, 300, 1_000);
    rig.expect("w/c", 0, 150, 4_000);
    rig.expect("w/c", 150, 150, 1_000);
    rig.expect("v/c@r", 0, 300, 2_000);
    // Restores one LUN whose blocks its clone still shares.
    let mut lun = |lun: &str, safety: &str| {
        rig.change(Change::RestoreLun {
            volume: own("v"),
            snapshot: own("s"),
            lun: own(lun),
            safety: own(safety),
        })
        .expect("it is there");
    };
    lun("l", "r2");
    lun("c", "r3");
    let mut rig = rig.restart();
    rig.expect("v/l", 0, 300, 1_000);
    rig.remove_lun("c");
    rig.rest();
    let mut rig = rig.restart();
    rig.expect("v/l", 0, 300, 1_000);
}

/// The clone's source is a snapshot of the image that the consistency point seals at its end. If
/// the LUN was deleted or cut short in the same freeze, the snapshot lacked some or all of its
/// blocks, and the clone was made without an error.
#[test]
fn what_a_clone_begins_with_is_not_gone_in_the_same_freeze() {
    let own_clone = |from: &str, name: &str| Change::CloneLun {
        volume: own("v"),
        lun: own(from),
        name: own(name),
        from: None,
    };
    let delete = || Change::DeleteLun {
        volume: own("v"),
        name: own("l"),
    };
    let shrink = || Change::ShrinkLun {
        volume: own("v"),
        name: own("l"),
        size_bytes: 10 * BLOCK,
    };
    for doomed in [delete, shrink] {
        let mut rig = Rig::new();
        rig.write("v/l", 0, 300, 1_000);
        rig.rest();
        // Writes to the overlays of this freeze.
        rig.write("v/l", 300, 200, 1_000);
        let answers = rig.change_at_once([own_clone("l", "c"), doomed()]);
        assert_eq!(answers[0], Ok(()));
        assert!(matches!(answers[1], Err(Error::Busy(_))), "{answers:?}");
        rig.expect("v/l", 0, 500, 1_000);
        rig.change(doomed()).expect("the clone has begun");
        rig.rest();
        rig.expect("v/c", 0, 500, 1_000);
        let mut rig = rig.restart();
        rig.expect("v/c", 0, 500, 1_000);
        rig.expect_zero("v/c", 500, BLOCKS - 500);
        // A clone job that ended in the same freeze does not prevent the change.
        let mut rig = Rig::new();
        let cancel = Change::CancelLunClone {
            volume: own("v"),
            name: own("c"),
        };
        let answers = rig.change_at_once([own_clone("l", "c"), cancel, doomed()]);
        assert_eq!(answers, [Ok(()), Ok(()), Ok(())]);
        rig.rest();
        drop(rig.restart());
    }
}

#[test]
fn whatever_else_happens_in_the_freeze_of_a_clone_it_has_what_the_lun_had_there() {
    let (v, s) = (|| own("v"), || own("s"));
    let restore = || Change::RestoreVolume {
        volume: v(),
        snapshot: s(),
        safety: own("r"),
    };
    let restore_lun = || Change::RestoreLun {
        volume: v(),
        snapshot: s(),
        lun: own("l"),
        safety: own("r"),
    };
    let rename = || Change::RenameLun {
        volume: v(),
        name: own("l"),
        to: own("m"),
    };
    let grow = || Change::GrowLun {
        volume: v(),
        name: own("l"),
        size_bytes: 70_000 * BLOCK,
    };
    let snapshot = || Change::CreateSnapshot {
        volume: v(),
        name: own("t"),
    };
    let gone = || Change::DeleteSnapshot {
        volume: v(),
        name: s(),
    };
    let raze = || Change::DeleteVolume { name: v() };
    let others: [&dyn Fn() -> Change; 7] = [
        &restore,
        &restore_lun,
        &rename,
        &grow,
        &snapshot,
        &gone,
        &raze,
    ];
    for other in others {
        for from in [None, Some("s")] {
            let mut rig = Rig::new();
            rig.write("v/l", 0, 300, 1_000);
            rig.snapshot("v", "s");
            rig.write("v/l", 0, 200, 2_000);
            let clone = Change::CloneLun {
                volume: v(),
                lun: own("l"),
                name: own("c"),
                from: from.map(own),
            };
            let answers = rig.change_at_once([clone, other()]);
            assert_eq!(answers, [Ok(()), Ok(())], "{:?}", other());
            for _ in 0..2 {
                rig.rest();
                rig = rig.restart();
            }
            match other() {
                Change::DeleteVolume { .. } => assert_eq!(rig.exports(), []),
                Change::RestoreVolume { .. } => {
                    assert!(!rig.has_lun("v/c"), "the restored volume has none");
                    rig.expect("v/l", 0, 300, 1_000);
                }
                _ => {
                    let fill = if from.is_some() { 1_000 } else { 2_000 };
                    rig.expect("v/c", 0, 200, fill);
                    rig.expect("v/c", 200, 100, 1_000);
                    rig.expect_zero("v/c", 300, BLOCKS - 300);
                }
            }
        }
    }
}

#[test]
fn a_clone_goes_on_after_a_restart_and_ends_when_that_is_asked() {
    let mut rig = Rig::slow();
    let size_bytes = 60_000 * BLOCK;
    let (volume, name) = (own("v"), own("l"));
    rig.change(Change::GrowLun {
        volume,
        name,
        size_bytes,
    })
    .expect("longer");
    // Far apart, so that it takes a while.
    for region in (0..200).step_by(2) {
        rig.write("v/l", region * 255, 2, 1_000 + region);
    }
    rig.clone_lun("l", "c", None).expect("a new name");
    assert!(!rig.has_lun("v/c"), "nobody sees it before it is complete");
    let mut rig = rig.restart();
    assert!(!rig.has_lun("v/c"));
    let rest_until_there = |rig: &mut Rig, lun: &str| {
        for _ in 0..20 {
            rig.rest();
        }
        assert!(rig.has_lun(lun));
    };
    rest_until_there(&mut rig, "v/c");
    for region in (0..200).step_by(2) {
        rig.expect("v/c", region * 255, 2, 1_000 + region);
    }
    rig.clone_lun("l", "d", None).expect("a new name");
    rig.change(Change::CancelLunClone {
        volume: own("v"),
        name: own("d"),
    })
    .expect("it is being made");
    rig.rest();
    let mut rig = rig.restart();
    rig.rest();
    assert!(!rig.has_lun("v/d"));
    // The name is free.
    rig.clone_lun("l", "d", None).expect("a new name");
    let (volume, name) = (own("v"), own("e"));
    let other = rig.clone_lun("c", "e", None);
    assert!(
        matches!(&other, Err(Error::Busy(text)) if text.contains("one at a time")),
        "{other:?}"
    );
    let create = rig.change(Change::CreateLun {
        volume,
        name: own("d"),
        size_bytes: BLOCK,
    });
    assert!(matches!(create, Err(Error::Busy(_))), "{create:?}");
    rest_until_there(&mut rig, "v/d");
    assert!(!rig.has_lun(&format!("v/{name}")));
    let rig = rig.restart();
    drop(rig);
}

/// A restore that was refused, because its target cannot be read, had ended the clone as if the
/// volume had been restored.
#[test]
fn a_restore_that_fails_leaves_a_clone_alone() {
    let mut rig = Rig::slow();
    rig.write("v/l", 0, 600, 1_000);
    rig.snapshot_of_a_deletion("s");
    let mut refusals = 0;
    for mut rig in rig.with_damaged_hidden_names() {
        rig.clone_lun("l", "c", None).expect("a new name");
        assert!(
            !rig.has_lun("v/c"),
            "it takes more than one consistency point"
        );
        let restored = rig.change(Change::RestoreVolume {
            volume: own("v"),
            snapshot: own("s"),
            safety: own("r"),
        });
        let Err(error) = restored else {
            continue;
        };
        assert!(error.to_string().contains("cannot be read"), "{error}");
        refusals += 1;
        for _ in 0..5 {
            rig.rest();
        }
        assert!(rig.is_online() && rig.has_lun("v/c"));
        rig.expect("v/c", 0, 600, 1_000);
    }
    assert!(refusals > 0, "no block was the one that a restore reads");
}

/// The snapshot is older than the clone, and the LUN is deleted, so no blocks are shared and no
/// record of the sharing is left.
#[test]
fn a_lun_comes_back_beside_its_clone_and_each_block_has_its_count() {
    let mut rig = Rig::new();
    rig.write("v/l", 0, 500, 1_000);
    rig.snapshot("v", "s");
    rig.clone_lun("l", "c", None).expect("a new name");
    rig.rest();
    rig.remove_lun("l");
    rig.rest();
    rig.write("v/c", 0, 100, 2_000);
    rig.change(Change::RestoreLun {
        volume: own("v"),
        snapshot: own("s"),
        lun: own("l"),
        safety: own("r"),
    })
    .expect("the name is free");
    rig.delete_snapshot("v", "s").expect("nobody needs it");
    rig.delete_snapshot("v", "r").expect("nobody needs it");
    rig.rest();
    let mut rig = rig.restart();
    rig.remove_lun("c");
    rig.rest();
    let mut rig = rig.restart();
    rig.expect("v/l", 0, 500, 1_000);
}

/// Blocks below a lost block stay in use for ever (decision 0007), so a block restored from a
/// snapshot, or shared with a clone, also gets a count for a reference that no longer exists. No
/// block is freed too early, and no read is wrong.
#[test]
fn what_is_restored_or_cloned_over_lost_blocks_is_right_and_only_leaks() {
    let mut rig = Rig::new();
    rig.write("v/l", 0, 200, 1_000);
    rig.snapshot("v", "s");
    // The level-1 block is another one, most leaves are the same.
    rig.write("v/l", 0, 10, 2_000);
    let rig = rig.restart();
    let images = rig.images();
    let is_level_1 = |page: &Block| {
        let header = Header::decode(page).ok();
        header.filter(|it| it.kind == BlockKind::VolumeIndirect && it.level == 1)
    };
    let all = images.image(0).blocks();
    let newest = all
        .filter_map(|(block, page)| Some((is_level_1(page)?, block)))
        .filter(|(header, _)| header.file >= FIRST_FILE)
        .max_by_key(|(header, _)| header.cp);
    let (_, block) = newest.expect("the LUN has one");
    let mut bad = images.clone();
    bad.flip_bit(0, block, 32_000);
    for is_needed in [false, true] {
        let mut rig = rig.fork(bad.clone()).expect("it can be started");
        assert!(rig.read("v/l", 100).is_err(), "it cannot be found");
        if is_needed {
            // A block that must change is replaced by one with only lost pointers.
            rig.write("v/l", 50, 1, 3_000);
            rig.rest();
        }
        rig.clone_lun("l", "c", Some("s")).expect("it can be read");
        rig.rest();
        rig.change(Change::RestoreLun {
            volume: own("v"),
            snapshot: own("s"),
            lun: own("l"),
            safety: own("r"),
        })
        .expect("the snapshot can be read");
        let expect = |rig: &mut Rig| {
            for lun in ["v/l", "v/c", "v/l@s"] {
                rig.expect(lun, 0, 200, 1_000);
            }
        };
        expect(&mut rig);
        rig.rest();
        assert_eq!(rig.problems(), Vec::<String>::new());
        // Other writes use blocks that might have been freed.
        rig.write("v/l", 0, 100, 4_000);
        rig.delete_snapshot("v", "r").expect("nobody needs it");
        rig.rest();
        rig.write("v/l", 100, 500, 5_000);
        rig.rest();
        let mut rig = rig.fork(rig.images()).expect("it can be started");
        rig.expect("v/c", 0, 200, 1_000);
        rig.expect("v/l@s", 0, 200, 1_000);
        rig.expect("v/l", 0, 100, 4_000);
        rig.remove_lun("c");
        rig.rest();
        rig.expect("v/l@s", 0, 200, 1_000);
        assert!(rig.is_online());
        assert_eq!(rig.problems(), Vec::<String>::new());
    }
}

#[test]
fn clones_of_two_volumes_are_made_at_once() {
    let mut rig = Rig::slow();
    let sync = Default::default();
    rig.change(Change::CreateVolume {
        name: own("w"),
        sync,
    })
    .expect("a new name");
    let create = Change::CreateLun {
        volume: own("w"),
        name: own("l"),
        size_bytes: BLOCKS * BLOCK,
    };
    rig.change(create).expect("a new name");
    rig.write("v/l", 0, 600, 1_000);
    rig.write("w/l", 0, 600, 7_000);
    let clone = |volume: &str| Change::CloneLun {
        volume: own(volume),
        lun: own("l"),
        name: own("c"),
        from: None,
    };
    let answers = rig.change_at_once([clone("v"), clone("w")]);
    assert_eq!(answers, [Ok(()), Ok(())]);
    assert!(!rig.has_lun("v/c") && !rig.has_lun("w/c"));
    let mut rig = rig.restart();
    for _ in 0..10 {
        rig.rest();
    }
    let mut rig = rig.restart();
    rig.expect("v/c", 0, 600, 1_000);
    rig.expect("w/c", 0, 600, 7_000);
}

#[test]
fn a_clone_in_a_full_pool_ends_and_gives_back_what_it_took() {
    let mut rig = Rig::new();
    // Far apart: each block costs a level-1 block of the clone.
    let regions = 600;
    let (volume, name) = (own("v"), own("l"));
    rig.change(Change::GrowLun {
        volume,
        name,
        size_bytes: regions * 255 * BLOCK,
    })
    .expect("longer");
    for region in 0..regions {
        rig.write("v/l", region * 255, 1, 1_000 + region);
    }
    let big = Change::CreateLun {
        volume: own("v"),
        name: own("big"),
        size_bytes: rig.total() * BLOCK,
    };
    rig.change(big).expect("thin");
    let room = rig.room();
    rig.write("v/big", 0, room, 9_000);
    rig.rest();
    let before = rig.used();
    rig.clone_lun("l", "c", None)
        .expect("it costs little at first");
    for _ in 0..5 {
        rig.rest();
    }
    assert!(!rig.has_lun("v/c"));
    let told = rig.lun_clone("v").expect("an operator should know");
    let why = told.failed.expect("it has ended");
    assert!(why.contains("no space left in the pool"), "{why}");
    let mut rig = rig.restart();
    assert!(rig.used() <= before + 32, "{} after {before}", rig.used());
    // With space the clone succeeds.
    rig.remove_lun("big");
    rig.rest();
    rig.rest();
    rig.clone_lun("l", "c", None).expect("the name is free");
    for _ in 0..5 {
        rig.rest();
    }
    let mut rig = rig.restart();
    for region in 0..regions {
        rig.expect("v/c", region * 255, 1, 1_000 + region);
    }
}

#[test]
fn what_cannot_be_cloned_is_named_and_nothing_is_changed() {
    let mut rig = Rig::new();
    rig.snapshot("v", "s");
    let (volume, name) = (own("v"), own("m"));
    rig.change(Change::CreateLun {
        volume,
        name,
        size_bytes: BLOCK,
    })
    .expect("a new name");
    for (lun, from) in [("x", None), ("l", Some("t")), ("m", Some("s"))] {
        let found = rig.clone_lun(lun, "c", from);
        assert!(matches!(found, Err(Error::NotFound(_))), "{found:?}");
    }
    let found = rig.clone_lun("l", "m", None);
    assert!(matches!(found, Err(Error::Exists(_))), "{found:?}");
    let found = rig.clone_lun("l", "a/b", None);
    assert!(matches!(found, Err(Error::Invalid { .. })), "{found:?}");
    let cancel = rig.change(Change::CancelLunClone {
        volume: own("v"),
        name: own("m"),
    });
    assert!(matches!(cancel, Err(Error::NotFound(_))), "{cancel:?}");
    assert_eq!(rig.exports().len(), 2);
    assert_eq!(rig.snapshot_names("v"), ["s"]);
    drop(rig.restart());
}
