//! A pool with snapshots as version 1 of the format has it: written once, opened for ever.
//!
//! `fixtures/v1/snapshots.blocks` has every block of the device that is not all zeroes: its number (8 bytes), the
//! number of runs (2), and for each run offset (2), length (2) and bytes; numbers are little-endian. It is never
//! written again: an engine that cannot read it has lost somebody's data. With `EVERGLADE_GOLDEN=write` the test makes it
//! if there is none.

use everglade_engine::admin::Change;
use everglade_env::BLOCK_SIZE;
use everglade_testing::engine::EngineMaker;
use everglade_testing::system::Maker;
use everglade_testing::world::{Cut, Images, Keep};
use everglade_testing::{Seed, SimWorld};

use super::deletion::Rig;

const POOL_BYTES: u64 = 16 << 20;
const LUN_BYTES: u64 = 1 << 20;
/// What a consistency point may release: little, so that the image has a scan in the middle.
const MAKER: EngineMaker = EngineMaker {
    reclaim_regions: 1,
    ..EngineMaker::SMALL_LOGGED
};

fn path() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/v1/snapshots.blocks")
}

/// Snapshots with a branch, a hold, and a deletion that is under way.
fn make() -> Images {
    let mut rig = Rig::new(MAKER, POOL_BYTES, LUN_BYTES);
    let own = |text: &str| text.to_owned();
    for (number, name) in (1u64..).zip(["one", "two", "three", "four"]) {
        rig.write(number * 2, 5, number * 1_000)
            .expect("there is space");
        rig.snapshot(name).expect("there is space");
    }
    let (volume, name, tag) = (own("v"), own("two"), own("golden"));
    rig.change(Change::HoldSnapshot { volume, name, tag })
        .expect("it is there");
    let (volume, snapshot, safety) = (own("v"), own("two"), own("before"));
    rig.change(Change::RestoreVolume {
        volume,
        snapshot,
        safety,
    })
    .expect("it is there");
    rig.rest();
    rig.write(0, 1, 7_000).expect("there is space");
    rig.snapshot("five").expect("there is space");
    rig.write(1, 1, 8_000).expect("there is space");
    let (volume, percent) = (own("v"), 1);
    rig.change(Change::SetScanPace { volume, percent })
        .expect("it is there");
    let (volume, name) = (own("v"), own("one"));
    rig.change(Change::DeleteSnapshot { volume, name })
        .expect("nobody holds it");
    rig.world.after_cut(Cut::whole(Keep::Nothing))
}

fn encode(images: &Images) -> Vec<u8> {
    let mut bytes = Vec::new();
    let short = |number: usize| u16::try_from(number).expect("at most 4,096").to_le_bytes();
    for (block, page) in images.image(0).blocks() {
        let mut runs: Vec<(usize, usize)> = Vec::new();
        for at in (0..BLOCK_SIZE).filter(|at| page[*at] != 0) {
            match runs.last_mut() {
                // A few zeroes are shorter than another run.
                Some((from, length)) if at - (*from + *length) < 4 => *length = at + 1 - *from,
                _ => runs.push((at, 1)),
            }
        }
        if runs.is_empty() {
            continue;
        }
        bytes.extend(block.to_le_bytes());
        bytes.extend(short(runs.len()));
        for (from, length) in runs {
            bytes.extend(short(from));
            bytes.extend(short(length));
            bytes.extend(&page[from..from + length]);
        }
    }
    bytes
}

fn decode(mut bytes: &[u8], images: &mut Images) {
    fn take<const N: usize>(bytes: &mut &[u8]) -> [u8; N] {
        let (taken, rest) = bytes.split_first_chunk().expect("a whole fixture");
        *bytes = rest;
        *taken
    }
    while !bytes.is_empty() {
        let block = u64::from_le_bytes(take(&mut bytes));
        let mut page = [0; BLOCK_SIZE];
        for _ in 0..u16::from_le_bytes(take(&mut bytes)) {
            let from = usize::from(u16::from_le_bytes(take(&mut bytes)));
            let length = usize::from(u16::from_le_bytes(take(&mut bytes)));
            let (run, rest) = bytes.split_at(length);
            page[from..from + length].copy_from_slice(run);
            bytes = rest;
        }
        images.put(0, block, &page);
    }
}

#[test]
fn a_pool_with_snapshots_of_version_1_is_read_checked_and_worked_on() {
    if std::env::var("EVERGLADE_GOLDEN").is_ok_and(|wish| wish == "write") && !path().exists() {
        std::fs::create_dir_all(path().parent().expect("a folder")).expect("a folder");
        std::fs::write(path(), encode(&make())).expect("written");
    }
    let bytes = std::fs::read(path()).expect("it is in the repository");
    let empty = SimWorld::new(Seed(1), 1, &MAKER.devices(POOL_BYTES));
    let mut images = empty.after_cut(Cut::whole(Keep::Nothing));
    decode(&bytes, &mut images);
    let offline = SimWorld::restart(images.clone(), Seed(2), 1);
    MAKER
        .check(&offline)
        .expect("it was clean when it was written");
    let world = SimWorld::restart(images, Seed(3), 1);
    let system = MAKER
        .mount(&world)
        .expect("it was served when it was written");
    let mut rig = Rig::of(MAKER, world, system);
    let names = |rig: &Rig| {
        let infos = rig.system.snapshots("v").into_iter();
        infos
            .map(|info| (info.name, info.holds.len()))
            .collect::<Vec<_>>()
    };
    let known = [
        ("two", 1),
        ("three", 0),
        ("four", 0),
        ("before", 0),
        ("five", 0),
    ];
    assert_eq!(
        names(&rig),
        known.map(|(name, holds)| (name.to_owned(), holds))
    );
    let scan = rig.system.scan("v");
    assert_eq!((scan.victims, scan.pace_percent), (1, 1), "{scan:?}");
    for (lun, block, fill) in [
        ("v/l@two", 2, 1_000),
        ("v/l@two", 4, 2_000),
        ("v/l@three", 6, 3_000),
        ("v/l@three", 5, 2_000),
        ("v/l@four", 12, 4_000),
        ("v/l@before", 8, 4_000),
        ("v/l@five", 0, 7_000),
        ("v/l@five", 8, 2_000),
        ("v/l", 0, 7_000),
        ("v/l", 1, 8_000),
        ("v/l", 2, 1_000),
    ] {
        rig.expect(lun, block, fill);
    }
    let (volume, percent) = ("v".to_owned(), 100);
    rig.change(Change::SetScanPace { volume, percent })
        .expect("it is there");
    rig.rest();
    rig.write(100, 50, 9_000).expect("there is space");
    rig.snapshot("six").expect("there is space");
    let mut rig = rig.restart();
    rig.expect("v/l@six", 149, 9_000);
    rig.expect("v/l@two", 2, 1_000);
}
