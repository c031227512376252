//! Volumes are changed in place: when their writes count as done.

use everglade_engine::admin::{Change, Error};
use everglade_format::volume::Sync;
use everglade_target::{Op, Reply, WriteSpan};
use everglade_testing::workload::contents;

use super::clones::{BLOCK, BLOCKS, Rig, own};
use super::rig::ask;

impl Rig {
    fn set_sync(&mut self, volume: &str, sync: Sync) -> Result<(), Error> {
        let volume = own(volume);
        self.change(Change::SetSync { volume, sync })
    }

    fn sync(&self) -> Sync {
        self.system.engine().volumes().swap_remove(0).sync
    }

    /// Writes that the client does not ask to be durable.
    fn write_in_passing(&mut self, fill: u64) {
        let bytes: Vec<u8> = (0..8)
            .flat_map(|block| contents(fill + block, BLOCK))
            .collect();
        let data = WriteSpan::copy_of(0, &bytes);
        let durable = false;
        let op = Op::Write { data, durable };
        let written = ask(&self.world, &mut self.system, "v/l", op);
        assert!(matches!(written, Ok(Reply::Done)), "{written:?}");
    }
}

#[test]
fn writes_are_durable_when_answered_from_the_change_on_and_no_longer_after_the_next() {
    let mut rig = Rig::new();
    rig.write("v/l", 0, BLOCKS, 1_000);
    rig.rest();
    // As the volume was made: the power cut takes what was only answered.
    rig.write_in_passing(2_000);
    let mut rig = rig.restart();
    rig.expect("v/l", 0, 8, 1_000);

    rig.set_sync("v", Sync::Always).expect("there is one");
    assert_eq!(rig.sync(), Sync::Always);
    rig.write_in_passing(3_000);
    let mut rig = rig.restart();
    rig.expect("v/l", 0, 8, 3_000);
    rig.expect("v/l", 8, BLOCKS - 8, 1_000);
    // The volume remembers it.
    assert_eq!(rig.sync(), Sync::Always);
    rig.write_in_passing(4_000);
    let mut rig = rig.restart();
    rig.expect("v/l", 0, 8, 4_000);

    rig.set_sync("v", Sync::Standard).expect("there is one");
    rig.write_in_passing(5_000);
    let mut rig = rig.restart();
    assert_eq!(rig.sync(), Sync::Standard);
    rig.expect("v/l", 0, 8, 4_000);
    drop(rig.restart());
}

#[test]
fn a_change_to_what_is_already_so_changes_nothing() {
    let mut rig = Rig::new();
    rig.set_sync("v", Sync::Standard).expect("it is so");
    assert_eq!(rig.sync(), Sync::Standard);
    let missing = rig.set_sync("nix", Sync::Always);
    assert!(matches!(missing, Err(Error::NotFound(_))), "{missing:?}");
    // Clones begin with the rule of their parent as it is then.
    rig.snapshot("v", "s");
    rig.set_sync("v", Sync::Always).expect("there is one");
    rig.clone_of("c", "v", "s").expect("a new name");
    let volumes = rig.system.engine().volumes();
    assert!(volumes.iter().all(|it| it.sync == Sync::Always));
    drop(rig.restart());
}
