//! The redirect of stale pointers alone (B-10): with it everything is read, without it nothing
//! wrong is.
//!
//! A volume was split, its parent is deleted, and other volumes write to the freed blocks: so each
//! of its pointers names a block with other content. It takes a planted bug to switch the redirect
//! off, so the second test runs in `cargo xtask planted`.
//!
//! Redirects that find an unexpected block (another block, another tag, a hole) are tested in
//! `check/tests/it/corruption.rs`.

use everglade_engine::SplitState;
use everglade_engine::admin::Change;
use everglade_planted::{Bug, plant};
use everglade_target::{Op, Reply};
use everglade_testing::workload::contents;

use super::clones::{BLOCK, BLOCKS, Rig, own};
use super::rig::ask;

/// Blocks that the clone has.
const COUNT: u64 = 400;

/// The results of reads of the clone.
#[derive(Debug, Default, PartialEq, Eq)]
struct Ended {
    right: u64,
    errors: u64,
    wrong: u64,
}

fn read_all(rig: &mut Rig) -> Ended {
    let mut ended = Ended::default();
    for block in 0..COUNT {
        let op = Op::Read {
            offset: block * BLOCK,
            length: u32::try_from(BLOCK).expect("4,096"),
        };
        match ask(&rig.world, &mut rig.system, "c/l", op) {
            Ok(Reply::Data(span)) if span.pages[0][..] == contents(1_000 + block, BLOCK)[..] => {
                ended.right += 1;
            }
            Ok(_) => ended.wrong += 1,
            Err(_) => ended.errors += 1,
        }
    }
    ended
}

const ALL: Ended = Ended {
    right: COUNT,
    errors: 0,
    wrong: 0,
};

/// A clone `c` whose pointers are all stale, and nothing of it in memory.
fn stale() -> Rig {
    let mut rig = Rig::new();
    rig.write("v/l", 0, COUNT, 1_000);
    rig.snapshot("v", "s");
    rig.clone_of("c", "v", "s").expect("a new name");
    rig.change(Change::StartSplit { volume: own("c") })
        .expect("it is a clone");
    rig.rest();
    assert_eq!(rig.split("c").state, SplitState::Done);
    rig.delete_volume("v").expect("nobody needs it");
    rig.rest();
    for name in ["w", "x", "y"] {
        let volume = Change::CreateVolume {
            name: own(name),
            sync: Default::default(),
        };
        rig.change(volume).expect("a new name");
        let lun = Change::CreateLun {
            volume: own(name),
            name: own("l"),
            size_bytes: 4 * BLOCKS * BLOCK,
        };
        rig.change(lun).expect("a new name");
        rig.write(&format!("{name}/l"), 0, 4 * BLOCKS, 90_000);
    }
    rig.restart()
}

#[test]
fn with_the_redirect_everything_is_read_through_stale_pointers() {
    let mut rig = stale();
    assert_eq!(read_all(&mut rig), ALL);
    assert!(rig.stale_reads() > 0, "its pointers are stale");
}

#[test]
#[ignore = "it plants a bug: cargo xtask planted"]
fn without_the_redirect_a_stale_pointer_is_an_error_and_never_other_data() {
    let mut rig = stale();
    plant(Some(Bug::named("RedirectMissing")));
    let without = read_all(&mut rig);
    plant(None);
    assert_eq!(without.wrong, 0, "{without:?}");
    assert!(without.errors > 0, "{without:?}");
    // And it was nothing but the redirect.
    let mut rig = rig.restart();
    assert_eq!(read_all(&mut rig), ALL);
}
