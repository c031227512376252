//! LUNs, snapshots and volumes that are deleted and come back, or leave the trash for good.

use everglade_engine::admin::{Change, Error};
use everglade_engine::{State, TrashInfo};
use everglade_target::{Error as Refusal, Op, Reply, WriteSpan};
use everglade_testing::engine::EngineMaker;
use everglade_testing::system::System;
use everglade_testing::workload::contents;

use super::clones::{BLOCK, BLOCKS, Rig, own};
use super::rig::ask;

impl Rig {
    fn trash(&self) -> Vec<TrashInfo> {
        self.system.engine().trash()
    }

    fn trashed_names(&self) -> Vec<String> {
        self.trash().into_iter().map(|it| it.name).collect()
    }

    fn put(&mut self, lun: &str) {
        let (volume, name) = (own("v"), own(lun));
        self.change(Change::TrashLun { volume, name })
            .expect("it is there");
    }

    /// Takes the LUN out of the trash that was put there first under a name.
    fn undelete(&mut self, name: &str, to: &str) -> Result<(), Error> {
        let known = self.trash();
        let found = known.iter().find(|it| it.name == format!("v/{name}"));
        let lun = found.and_then(|it| it.lun).expect("it is in the trash");
        let (volume, name) = (own("v"), own(to));
        self.change(Change::UndeleteLun { volume, lun, name })
    }

    fn put_snapshot(&mut self, snapshot: &str) {
        let (volume, name) = (own("v"), own(snapshot));
        self.change(Change::TrashSnapshot { volume, name })
            .expect("it is there");
    }

    /// Number of the snapshot that was put into the trash first under a name.
    fn trashed_snapshot(&self, name: &str) -> u32 {
        let known = self.trash();
        let found = known.iter().find(|it| it.name == format!("v@{name}"));
        found
            .and_then(|it| it.snapshot)
            .expect("it is in the trash")
    }

    fn undelete_snapshot(&mut self, name: &str, to: &str) -> Result<(), Error> {
        let snapshot = self.trashed_snapshot(name);
        let (volume, name) = (own("v"), own(to));
        self.change(Change::UndeleteSnapshot {
            volume,
            snapshot,
            name,
        })
    }

    fn create(&mut self, name: &str, blocks: u64) -> Result<(), Error> {
        let (volume, name, size_bytes) = (own("v"), own(name), blocks * BLOCK);
        self.change(Change::CreateLun {
            volume,
            name,
            size_bytes,
        })
    }

    /// Writes blocks that need not be durable, until there is no space for them.
    fn write_on(&mut self, lun: &str, blocks: u64) -> Result<u64, (u64, Refusal)> {
        for first in (0..blocks).step_by(64) {
            let bytes: Vec<u8> = (first..first + 64)
                .flat_map(|block| contents(block, BLOCK))
                .collect();
            let data = WriteSpan::copy_of(first * BLOCK, &bytes);
            let durable = false;
            let op = Op::Write { data, durable };
            match ask(&self.world, &mut self.system, lun, op) {
                Ok(_) => {}
                Err(error) => return Err((first, error)),
            }
        }
        Ok(blocks)
    }
}

#[test]
fn a_lun_comes_back_with_all_that_was_written_to_it() {
    let mut rig = Rig::new();
    rig.write("v/l", 0, BLOCKS, 1_000);
    rig.rest();
    rig.snapshot("v", "before");
    // Still in memory when the LUN goes.
    rig.write("v/l", 7, 20, 2_000);
    rig.put("l");
    assert_eq!(rig.exports(), []);
    assert_eq!(rig.trashed_names(), ["v/l"]);
    let found = rig.trash().swap_remove(0);
    assert_eq!(found.size_bytes, BLOCKS * BLOCK);
    assert!(found.used_blocks >= BLOCKS && found.deleted_seconds > 0);
    rig.snapshot("v", "without");
    rig.rest();

    let mut rig = rig.restart();
    assert_eq!(rig.exports(), []);
    assert_eq!(rig.trash(), std::slice::from_ref(&found));
    // A snapshot has what clients found in it.
    rig.expect("v/l@before", 0, BLOCKS, 1_000);
    let op = Op::Flush;
    let gone = ask(&rig.world, &mut rig.system, "v/l@without", op);
    assert!(gone.is_err(), "{gone:?}");

    rig.undelete("l", "l").expect("the name is free");
    assert_eq!(rig.trashed_names(), Vec::<String>::new());
    rig.expect("v/l", 7, 20, 2_000);
    rig.expect("v/l", 27, BLOCKS - 27, 1_000);
    rig.write("v/l", 100, 9, 3_000);
    let mut rig = rig.restart();
    assert_eq!(rig.exports(), [(own("v/l"), BLOCKS * BLOCK)]);
    rig.expect("v/l", 100, 9, 3_000);
    drop(rig.restart());
}

#[test]
fn the_name_of_a_lun_in_the_trash_is_free() {
    let mut rig = Rig::new();
    rig.write("v/l", 0, 10, 1_000);
    rig.put("l");
    rig.create("l", 50).expect("the name is free");
    rig.write("v/l", 0, 10, 2_000);
    let taken = rig.undelete("l", "l");
    assert_eq!(taken, Err(Error::Exists(own("LUN v/l"))));
    rig.put("l");
    assert_eq!(rig.trashed_names(), ["v/l", "v/l"]);
    let mut rig = rig.restart();
    let sizes: Vec<u64> = rig.trash().iter().map(|it| it.size_bytes / BLOCK).collect();
    assert_eq!(sizes, [BLOCKS, 50], "the oldest first");
    rig.undelete("l", "old").expect("the name is free");
    rig.undelete("l", "l").expect("the name is free");
    let mut rig = rig.restart();
    rig.expect("v/old", 0, 10, 1_000);
    rig.expect("v/l", 0, 10, 2_000);
    let lun = 12_345;
    for change in [
        Change::UndeleteLun {
            volume: own("v"),
            lun,
            name: own("x"),
        },
        Change::PurgeLun {
            volume: own("v"),
            lun,
        },
    ] {
        let missing = rig.change(change);
        assert!(matches!(missing, Err(Error::NotFound(_))), "{missing:?}");
    }
    drop(rig.restart());
}

#[test]
fn a_client_that_has_a_lun_open_does_not_get_it_back() {
    let mut rig = Rig::new();
    rig.write("v/l", 0, 10, 1_000);
    let (handle, _) = rig.system.target(0).open("v/l").expect("it is there");
    rig.put("l");
    let is_gone = |rig: &mut Rig| {
        let target = rig.system.target(0);
        target.submit(handle, Op::Flush, 77);
        let mut done = Vec::new();
        for _ in 0..1_000 {
            rig.world.run(64, &mut |_| rig.system.turn(0));
            rig.system.target(0).poll(&mut done);
            if let Some(found) = done.iter().find(|it| it.token == 77) {
                return found.result.is_err();
            }
        }
        panic!("no answer");
    };
    assert!(is_gone(&mut rig));
    rig.undelete("l", "l").expect("the name is free");
    assert!(is_gone(&mut rig), "the old handle stays gone");
    rig.expect("v/l", 0, 10, 1_000);
    rig.system.target(0).close(handle);
    drop(rig.restart());
}

#[test]
fn a_volume_comes_back_with_snapshots_and_luns() {
    let mut rig = Rig::new();
    rig.write("v/l", 0, BLOCKS, 1_000);
    rig.snapshot("v", "s");
    rig.write("v/l", 0, 30, 2_000);
    rig.create("gone", 20).expect("the name is free");
    rig.write("v/gone", 0, 20, 4_000);
    rig.put("gone");
    rig.change(Change::TrashVolume { name: own("v") })
        .expect("nothing needs it");
    assert_eq!(rig.exports(), []);
    assert_eq!(rig.system.volumes(), Some(vec![]));
    // What was in the trash of the volume is part of it now.
    assert_eq!(rig.trashed_names(), ["v"]);
    let mut rig = rig.restart();
    assert_eq!(rig.exports(), []);
    let found = rig.trash().swap_remove(0);
    assert_eq!((found.name.as_str(), found.lun), ("v", None));
    assert!(found.used_blocks > BLOCKS, "{found:?}");
    assert_eq!(found.size_bytes, BLOCKS * BLOCK);
    // The name is free.
    rig.change(Change::CreateVolume {
        name: own("v"),
        sync: Default::default(),
    })
    .expect("the name is free");
    let undelete = |name: &str| Change::UndeleteVolume {
        volume: found.volume.volume,
        name: own(name),
    };
    let taken = rig.change(undelete("v"));
    assert_eq!(taken, Err(Error::Exists(own("volume v"))));
    rig.change(undelete("w")).expect("the name is free");
    rig.expect("w/l", 0, 30, 2_000);
    rig.expect("w/l", 30, BLOCKS - 30, 1_000);
    rig.expect("w/l@s", 0, BLOCKS, 1_000);
    assert_eq!(rig.trashed_names(), ["w/gone"]);
    let mut rig = rig.restart();
    rig.expect("w/l", 0, 30, 2_000);
    rig.expect("w/l@s", 0, BLOCKS, 1_000);
    rig.change(Change::TrashVolume { name: own("w") })
        .expect("nothing needs it");
    let volume = found.volume.volume;
    rig.change(Change::PurgeVolume { volume }).expect("there");
    assert_eq!(rig.trashed_names(), Vec::<String>::new());
    let twice = rig.change(Change::PurgeVolume { volume });
    assert!(matches!(twice, Err(Error::NotFound(_))), "{twice:?}");
    rig.rest();
    drop(rig.restart());
}

#[test]
fn what_others_need_is_not_put_into_the_trash() {
    let mut rig = Rig::new();
    rig.snapshot("v", "s");
    rig.clone_of("c", "v", "s").expect("a new name");
    let refused = rig.change(Change::TrashVolume { name: own("v") });
    let Err(Error::Busy(text)) = refused else {
        panic!("{refused:?}");
    };
    assert!(text.contains("c is cloned"), "{text}");
    // A clone in the trash needs its base, too.
    rig.change(Change::TrashVolume { name: own("c") })
        .expect("nothing needs it");
    let refused = rig.change(Change::TrashVolume { name: own("v") });
    assert!(matches!(refused, Err(Error::Busy(_))), "{refused:?}");
    let missing = rig.change(Change::TrashVolume { name: own("c") });
    assert!(matches!(missing, Err(Error::NotFound(_))), "{missing:?}");
    drop(rig.restart());
}

#[test]
fn a_restore_brings_back_what_is_in_the_trash() {
    let mut rig = Rig::new();
    rig.write("v/l", 0, 50, 1_000);
    rig.snapshot("v", "s");
    rig.write("v/l", 0, 50, 2_000);
    rig.put("l");
    rig.change(Change::RestoreLun {
        volume: own("v"),
        snapshot: own("s"),
        lun: own("l"),
        safety: own("safety"),
    })
    .expect("the snapshot has it");
    rig.expect("v/l", 0, 50, 1_000);
    assert_eq!(rig.trashed_names(), Vec::<String>::new());
    // The image before has the LUN in its trash.
    rig.change(Change::RestoreVolume {
        volume: own("v"),
        snapshot: own("safety"),
        safety: own("safety2"),
    })
    .expect("it is a snapshot");
    assert_eq!(rig.exports(), []);
    rig.undelete("l", "l").expect("it is in the trash again");
    rig.expect("v/l", 0, 50, 2_000);
    drop(rig.restart());
}

#[test]
fn the_oldest_leaves_the_trash_before_a_client_is_refused() {
    let mut rig = Rig::of(EngineMaker::SMALL_LOGGED);
    let total = rig.system.usage().total_blocks;
    let half = total / 2 / 64 * 64;
    for name in ["a", "b"] {
        rig.create(name, total).expect("thin");
    }
    rig.write_on("v/a", 640).expect("there is space");
    rig.rest();
    rig.put("a");
    rig.write_on("v/b", half).expect("there is space");
    rig.rest();
    rig.put("b");
    rig.create("c", total).expect("thin");
    let written = rig.write_on("v/c", half).expect("the trash makes room");
    assert_eq!(written, half);
    let known = rig.system.engine().aggregates().swap_remove(0);
    assert_eq!(known.purged.count, 2, "{:?}", known.purged);
    assert_eq!(known.purged.last, "LUN v/b");
    assert_eq!(rig.trashed_names(), Vec::<String>::new());
    // Now there is nothing left that could go.
    let (_, refused) = rig.write_on("v/c", total).expect_err("too much");
    assert!(matches!(refused, Refusal::NoSpace), "{refused:?}");
    let known = rig.system.engine().aggregates().swap_remove(0);
    assert!(matches!(known.state, State::Online), "{:?}", known.state);
    let op = Op::Read {
        offset: 0,
        length: 4096,
    };
    let read = ask(&rig.world, &mut rig.system, "v/c", op);
    assert!(matches!(read, Ok(Reply::Data(_))), "{read:?}");
    drop(rig.restart());
}

#[test]
fn a_snapshot_comes_back_as_it_was() {
    let mut rig = Rig::new();
    rig.write("v/l", 0, 100, 1_000);
    rig.snapshot("v", "s");
    rig.write("v/l", 0, 100, 2_000);
    rig.put_snapshot("s");
    assert_eq!(rig.snapshot_names("v"), Vec::<String>::new());
    assert_eq!(rig.trashed_names(), ["v@s"]);
    // The name is free.
    rig.snapshot("v", "s");
    rig.write("v/l", 0, 100, 3_000);
    rig.put_snapshot("s");
    rig.rest();
    let mut rig = rig.restart();
    let found = rig.trash();
    assert_eq!(found.len(), 2);
    assert!(found[0].used_blocks >= 100, "it has them alone: {found:?}");
    assert_eq!(found[0].size_bytes, BLOCKS * BLOCK);
    let op = Op::Flush;
    let gone = ask(&rig.world, &mut rig.system, "v/l@s", op);
    assert!(gone.is_err(), "{gone:?}");
    rig.undelete_snapshot("s", "old").expect("the name is free");
    rig.undelete_snapshot("s", "s").expect("the name is free");
    rig.expect("v/l@old", 0, 100, 1_000);
    rig.expect("v/l@s", 0, 100, 2_000);
    let taken = rig.change(Change::CreateSnapshot {
        volume: own("v"),
        name: own("old"),
    });
    assert!(matches!(taken, Err(Error::Exists(_))), "{taken:?}");
    let mut rig = rig.restart();
    assert_eq!(rig.snapshot_names("v"), ["old", "s"]);
    rig.expect("v/l@old", 0, 100, 1_000);
    rig.expect("v/l@s", 0, 100, 2_000);
    drop(rig.restart());
}

#[test]
fn what_holds_a_snapshot_keeps_it_out_of_the_trash() {
    let mut rig = Rig::new();
    rig.write("v/l", 0, 10, 1_000);
    rig.snapshot("v", "s");
    let put = || Change::TrashSnapshot {
        volume: own("v"),
        name: own("s"),
    };
    let (handle, _) = rig.system.target(0).open("v/l@s").expect("it is there");
    let refused = rig.change(put());
    assert!(matches!(refused, Err(Error::Busy(_))), "{refused:?}");
    rig.system.target(0).close(handle);
    rig.clone_of("c", "v", "s").expect("a new name");
    let refused = rig.change(put());
    assert!(matches!(refused, Err(Error::Busy(_))), "{refused:?}");
    rig.delete_volume("c").expect("nothing needs it");
    rig.rest();
    rig.change(put()).expect("nothing holds it");
    let clone = rig.clone_of("c", "v", "s");
    assert!(matches!(clone, Err(Error::NotFound(_))), "{clone:?}");
    let snapshot = 12_345;
    let missing = rig.change(Change::PurgeSnapshot {
        volume: own("v"),
        snapshot,
    });
    assert!(matches!(missing, Err(Error::NotFound(_))), "{missing:?}");
    let snapshot = rig.trashed_snapshot("s");
    rig.change(Change::PurgeSnapshot {
        volume: own("v"),
        snapshot,
    })
    .expect("it is in the trash");
    rig.rest();
    assert_eq!(rig.pending("v"), 0, "the scan has released it");
    drop(rig.restart());
}

#[test]
fn what_is_newer_goes_with_a_rollback_also_out_of_the_trash() {
    let mut rig = Rig::new();
    rig.write("v/l", 0, 50, 1_000);
    rig.snapshot("v", "older");
    rig.write("v/l", 0, 50, 2_000);
    rig.snapshot("v", "target");
    rig.write("v/l", 0, 50, 3_000);
    rig.snapshot("v", "newer");
    rig.put_snapshot("older");
    rig.put_snapshot("newer");
    rig.change(Change::RollBackVolume {
        volume: own("v"),
        snapshot: own("target"),
        discards: vec![],
    })
    .expect("what is in the trash needs no name");
    rig.expect("v/l", 0, 50, 2_000);
    assert_eq!(rig.trashed_names(), ["v@older"]);
    let mut rig = rig.restart();
    assert_eq!(rig.trashed_names(), ["v@older"]);
    rig.undelete_snapshot("older", "older").expect("it is free");
    rig.expect("v/l@older", 0, 50, 1_000);
    drop(rig.restart());
}

#[test]
fn the_trash_gives_its_places_to_new_snapshots() {
    let mut rig = Rig::new();
    let take = |rig: &mut Rig, name: String| {
        let volume = own("v");
        rig.change(Change::CreateSnapshot { volume, name })
    };
    for number in 0..4 {
        take(&mut rig, format!("t{number}")).expect("there is room");
        rig.put_snapshot(&format!("t{number}"));
    }
    // Those in the trash count, too, until there are nearly as many as there can be.
    for number in 0..1_023 {
        take(&mut rig, format!("s{number}")).expect("the trash makes room");
    }
    assert_eq!(rig.trashed_names(), Vec::<String>::new());
    let full = take(&mut rig, own("one-more"));
    assert!(matches!(full, Err(Error::Limit(_))), "{full:?}");
    drop(rig.restart());
}

#[test]
fn a_volume_in_the_trash_keeps_its_snapshots_in_the_trash() {
    let mut rig = Rig::new();
    rig.write("v/l", 0, 50, 1_000);
    rig.snapshot("v", "s");
    rig.put_snapshot("s");
    rig.change(Change::TrashVolume { name: own("v") })
        .expect("nothing needs it");
    assert_eq!(rig.trashed_names(), ["v"]);
    let mut rig = rig.restart();
    let volume = rig.trash()[0].volume.volume;
    let name = own("v");
    rig.change(Change::UndeleteVolume { volume, name })
        .expect("the name is free");
    assert_eq!(rig.trashed_names(), ["v@s"]);
    rig.undelete_snapshot("s", "s").expect("the name is free");
    rig.expect("v/l@s", 0, 50, 1_000);
    drop(rig.restart());
}
