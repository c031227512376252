//! Restores of single LUNs: the LUN has its former content, other LUNs are unchanged, and the
//! holders of blocks are still known.

use everglade_engine::admin::{Change, Error};

use super::clones::{BLOCK, BLOCKS, Rig, own};

impl Rig {
    fn restore_lun(
        &mut self,
        volume: &str,
        snapshot: &str,
        lun: &str,
        safety: &str,
    ) -> Result<(), Error> {
        self.change(Change::RestoreLun {
            volume: own(volume),
            snapshot: own(snapshot),
            lun: own(lun),
            safety: own(safety),
        })
    }

    fn create_lun(&mut self, name: &str, blocks: u64) {
        let (volume, size_bytes) = (own("v"), blocks * BLOCK);
        let name = own(name);
        let create = Change::CreateLun {
            volume,
            name,
            size_bytes,
        };
        self.change(create).expect("a new name");
    }

    fn delete_lun(&mut self, name: &str) {
        let (volume, name) = (own("v"), own(name));
        let delete = Change::DeleteLun { volume, name };
        self.change(delete).expect("it is there");
    }

    fn blocks_of(&mut self, lun: &str) -> Option<u64> {
        let exports = self.exports();
        let found = exports.into_iter().find(|(name, _)| name == lun);
        found.map(|(_, bytes)| bytes / BLOCK)
    }
}

#[test]
fn a_lun_goes_back_while_others_stay_and_nothing_is_lost() {
    let mut rig = Rig::new();
    let empty = rig.used();
    rig.create_lun("m", 300);
    rig.write("v/l", 0, 400, 1_000);
    rig.write("v/m", 0, 100, 5_000);
    rig.snapshot("v", "s");
    rig.write("v/l", 100, 450, 2_000);
    rig.write("v/m", 50, 100, 6_000);
    rig.snapshot("v", "t");
    rig.write("v/l", 0, 10, 3_000);
    rig.restore_lun("v", "s", "l", "before")
        .expect("it is there");
    let mut rig = rig.restart();
    let expect_restored = |rig: &mut Rig| {
        rig.expect("v/l", 0, 400, 1_000);
        rig.expect_zero("v/l", 400, 150);
        rig.expect("v/m", 0, 50, 5_000);
        rig.expect("v/m", 50, 100, 6_000);
        rig.expect("v/l@before", 0, 10, 3_000);
        rig.expect("v/l@before", 100, 450, 2_000);
    };
    expect_restored(&mut rig);
    rig.expect("v/l@s", 0, 400, 1_000);
    // Blocks that only the two ends hold survive the deletion of all snapshots between them, in any
    // order.
    rig.snapshot("v", "after");
    rig.write("v/l", 0, 20, 7_000);
    for gone in ["t", "s"] {
        rig.delete_snapshot("v", gone).expect("nobody needs it");
        rig.rest();
        rig = rig.restart();
        rig.expect("v/l@after", 0, 400, 1_000);
    }
    rig.restore_lun("v", "after", "l", "again")
        .expect("it is there");
    expect_restored(&mut rig);
    // A restore and its reversal.
    rig.restore_lun("v", "again", "l", "third")
        .expect("it is there");
    rig.expect("v/l", 0, 20, 7_000);
    rig.expect("v/l", 20, 380, 1_000);
    for gone in ["before", "third", "after", "again"] {
        rig.delete_snapshot("v", gone).expect("nobody needs it");
    }
    rig.rest();
    let mut rig = rig.restart();
    rig.expect("v/l", 0, 20, 7_000);
    rig.delete_volume("v").expect("it is there");
    rig.rest();
    let mut rig = rig.restart();
    rig.rest();
    let used = rig.used();
    // The context map keeps a block for each 256 that were ever used.
    assert!(
        used <= empty + 16,
        "all space came back: {used} of {empty} at first"
    );
}

#[test]
fn its_size_follows_and_one_that_was_deleted_comes_back() {
    let mut rig = Rig::new();
    rig.write("v/l", 0, 600, 1_000);
    rig.snapshot("v", "s");
    let (volume, name) = (own("v"), own("l"));
    rig.change(Change::ShrinkLun {
        volume,
        name,
        size_bytes: 100 * BLOCK,
    })
    .expect("shorter");
    rig.restore_lun("v", "s", "l", "r1").expect("it is there");
    assert_eq!(rig.blocks_of("v/l"), Some(BLOCKS));
    rig.expect("v/l", 0, 600, 1_000);
    let (volume, name) = (own("v"), own("l"));
    rig.change(Change::GrowLun {
        volume,
        name,
        size_bytes: 70_000 * BLOCK,
    })
    .expect("longer");
    rig.write("v/l", 66_000, 20, 4_000);
    rig.restore_lun("v", "s", "l", "r2").expect("it is there");
    assert_eq!(rig.blocks_of("v/l"), Some(BLOCKS));
    // Restores a tree that is higher.
    rig.restore_lun("v", "r2", "l", "r3").expect("it is there");
    assert_eq!(rig.blocks_of("v/l"), Some(70_000));
    rig.expect("v/l", 66_000, 20, 4_000);
    let mut rig = rig.restart();
    rig.delete_lun("l");
    assert_eq!(rig.blocks_of("v/l"), None);
    rig.restore_lun("v", "s", "l", "r4")
        .expect("the name is free");
    rig.expect("v/l", 0, 600, 1_000);
    rig.delete_lun("l");
    rig.rest();
    rig.restore_lun("v", "s", "l", "r5")
        .expect("the name is free");
    rig.expect("v/l", 0, 600, 1_000);
    let rig = rig.restart();
    drop(rig);
}

#[test]
fn what_cannot_be_restored_is_named_and_nothing_is_changed() {
    let mut rig = Rig::new();
    rig.write("v/l", 0, 100, 1_000);
    rig.snapshot("v", "s");
    rig.create_lun("m", 10);
    let not_found = |result: Result<(), Error>| match result {
        Err(Error::NotFound(text)) => text,
        other => panic!("{other:?}"),
    };
    for (volume, snapshot, lun) in [
        ("w", "s", "l"),
        ("v", "t", "l"),
        ("v", "s", "x"),
        ("v", "s", "m"),
    ] {
        not_found(rig.restore_lun(volume, snapshot, lun, "r"));
    }
    let exists = rig.restore_lun("v", "s", "l", "s");
    assert!(matches!(exists, Err(Error::Exists(_))), "{exists:?}");
    rig.delete_lun("l");
    rig.create_lun("l", 20);
    let taken = rig.restore_lun("v", "s", "l", "r");
    assert!(
        matches!(&taken, Err(Error::Busy(text)) if text.contains("another one")),
        "{taken:?}"
    );
    assert_eq!(rig.blocks_of("v/l"), Some(20));
    assert_eq!(rig.snapshot_names("v"), ["s"]);
    let rig = rig.restart();
    drop(rig);
}

#[test]
fn a_clone_restores_a_lun_from_its_base() {
    let mut rig = Rig::new();
    rig.write("v/l", 0, 300, 1_000);
    rig.snapshot("v", "s");
    rig.clone_of("c", "v", "s").expect("a new name");
    rig.write("c/l", 0, 300, 2_000);
    rig.write("v/l", 0, 300, 3_000);
    rig.restore_lun("c", "s", "l", "before")
        .expect("it is there");
    let mut rig = rig.restart();
    rig.expect("c/l", 0, 300, 1_000);
    rig.expect("c/l@before", 0, 300, 2_000);
    rig.expect("v/l", 0, 300, 3_000);
    rig.delete_snapshot("c", "before").expect("nobody needs it");
    rig.write("c/l", 0, 300, 4_000);
    rig.rest();
    let mut rig = rig.restart();
    rig.expect("c/l@s", 0, 300, 1_000);
    rig.expect("c/l", 0, 300, 4_000);
}

#[test]
fn a_renamed_lun_is_restored_under_its_new_name_and_keeps_it() {
    let mut rig = Rig::new();
    let rename = |rig: &mut Rig, name: &str, to: &str| {
        let (volume, name, to) = (own("v"), own(name), own(to));
        rig.change(Change::RenameLun { volume, name, to })
            .expect("a new name");
    };
    rig.write("v/l", 0, 300, 1_000);
    rig.snapshot("v", "s");
    rename(&mut rig, "l", "m");
    rig.write("v/m", 100, 400, 2_000);
    // Another one has the old name meanwhile.
    rig.create_lun("l", 40);
    rig.write("v/l", 0, 40, 5_000);
    let refused = rig.restore_lun("v", "s", "l", "no");
    assert!(matches!(refused, Err(Error::Busy(_))), "{refused:?}");
    rig.restore_lun("v", "s", "m", "before")
        .expect("it is the same LUN");
    let expect = |rig: &mut Rig| {
        rig.expect("v/m", 0, 300, 1_000);
        rig.expect_zero("v/m", 300, 300);
        rig.expect("v/l", 0, 40, 5_000);
        rig.expect("v/l@s", 0, 300, 1_000);
        rig.expect("v/m@before", 100, 400, 2_000);
        assert_eq!(rig.blocks_of("v/m"), Some(BLOCKS));
    };
    expect(&mut rig);
    let mut rig = rig.restart();
    expect(&mut rig);
    // The whole volume goes back to the old name, and the other LUN is gone.
    let (volume, snapshot, safety) = (own("v"), own("s"), own("all"));
    rig.change(Change::RestoreVolume {
        volume,
        snapshot,
        safety,
    })
    .expect("it is there");
    let mut rig = rig.restart();
    rig.expect("v/l", 0, 300, 1_000);
    assert_eq!(rig.blocks_of("v/m"), None);
    for gone in ["s", "before", "all"] {
        rig.delete_snapshot("v", gone).expect("nobody needs it");
    }
    rig.rest();
    rig.restart().expect("v/l", 0, 300, 1_000);
}
