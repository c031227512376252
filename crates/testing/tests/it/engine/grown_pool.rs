//! A pool of version 1 that was grown (decisions 0018 and 0040): it got a second device, then the
//! first one became larger, then the second one. Before and after that last consistency point
//! clients flushed, and the power failed. `fixture` says how it is kept.

use std::collections::BTreeSet;

use everglade_check::{Report, check};
use everglade_engine::admin::Change;
use everglade_env::BLOCK_SIZE;
use everglade_format::config::CONFIG_BYTES;
use everglade_format::journal::Header;
use everglade_format::label::{CONFIG_OFFSETS, SUPERBLOCK_OFFSETS};
use everglade_format::{Config, Superblock, TagKey};
use everglade_testing::engine::EngineMaker;
use everglade_testing::system::{Admin, Maker, PoolGrowth, System};
use everglade_testing::world::{Cut, DeviceSpec, Images, Keep, Turn};
use everglade_testing::{Seed, SimWorld};

use super::clones::{self, own};
use super::fixture;
use super::golden::{expect_same, write_same};

const MAKER: EngineMaker = EngineMaker::SMALL_LOGGED;
/// The pool before it grows, and what each growth gives.
const POOL_BYTES: u64 = 16 << 20;
const MORE_BYTES: u64 = 6 << 20;
const TURNS_MAX: u64 = 1_000_000;
const BLOCK: u64 = BLOCK_SIZE as u64;
/// The LUN is larger than the pool was.
const LUN_BLOCKS: u64 = 6_000;
/// Durable writes of a block while the pool grows.
const FLUSHED: u64 = 24;

/// The devices in the end.
fn devices() -> [DeviceSpec; 2] {
    let first = MAKER.devices(POOL_BYTES)[0].size_bytes + MORE_BYTES;
    [first, 2 * MORE_BYTES].map(DeviceSpec::thin)
}

fn begin_growth(rig: &mut clones::Rig, growth: PoolGrowth) {
    rig.system.administer(0, Admin::GrowPool(growth), 9);
    rig.world.wake(0);
}

fn end_growth(rig: &mut clones::Rig) {
    let mut done = Vec::new();
    let clones::Rig { world, system, .. } = rig;
    world.run(TURNS_MAX, &mut |reactor| {
        let said = system.turn(reactor);
        system.poll_admin(0, &mut done);
        if done.is_empty() { said } else { Turn::Stop }
    });
    let answer = done.pop().expect("it is answered");
    answer.result.expect("it can grow");
}

fn make() -> Images {
    let world = SimWorld::new(Seed(1), 1, &MAKER.devices(POOL_BYTES));
    MAKER.format(&world).expect("fresh devices");
    let system = MAKER.mount(&world).expect("it was just made");
    let mut rig = clones::Rig::on(MAKER, world, system);
    let (name, sync) = (own("v"), Default::default());
    let made = rig.change(Change::CreateVolume { name, sync });
    made.expect("a new name");
    let (volume, name) = (own("v"), own("l"));
    let size_bytes = LUN_BLOCKS * BLOCK;
    let made = rig.change(Change::CreateLun {
        volume,
        name,
        size_bytes,
    });
    made.expect("a new name");
    write_same(&mut rig, "v/l", 0..2_200, 31);
    rig.snapshot("v", "small");
    begin_growth(&mut rig, PoolGrowth::New(vec![MORE_BYTES]));
    end_growth(&mut rig);
    write_same(&mut rig, "v/l", 2_200..3_000, 32);
    rig.snapshot("v", "larger");
    begin_growth(&mut rig, PoolGrowth::Larger(vec![(0, MORE_BYTES)]));
    end_growth(&mut rig);
    write_same(&mut rig, "v/l", 3_000..3_900, 33);
    rig.snapshot("v", "large");
    begin_growth(&mut rig, PoolGrowth::Larger(vec![(1, MORE_BYTES)]));
    // Some of them before the consistency point is committed, some after it.
    for number in 0..FLUSHED {
        rig.write("v/l", 5_900 + number, 1, 9_000);
    }
    end_growth(&mut rig);
    rig.world.after_cut(Cut::whole(Keep::Nothing))
}

fn load() -> Images {
    fixture::load_on("grown", &devices(), make)
}

fn verified(images: &Images) -> Report {
    let world = SimWorld::restart(images.clone(), Seed(2), 1);
    let report = check(&*world.storage(), &world.devices(), &mut |_| {});
    let report = report.expect("readable");
    assert!(report.is_clean(), "{report}");
    report
}

/// The record and the superblock in the front label of the first device.
fn front(images: &Images) -> (Config, Superblock) {
    let read = |at: u64, length: usize| {
        let blocks = at / BLOCK..at / BLOCK + (length / BLOCK_SIZE) as u64;
        let pages = blocks.map(|block| images.image(0).read(block));
        pages.flat_map(|page| page.to_vec()).collect::<Vec<u8>>()
    };
    let records = CONFIG_OFFSETS.map(|at| Config::decode(&read(at, CONFIG_BYTES)));
    let records = records.into_iter().filter_map(|it| it.ok().flatten());
    let config = records.max_by_key(|it| it.epoch).expect("a record");
    let key = TagKey::new(&config.secret);
    let superblocks = SUPERBLOCK_OFFSETS.map(|at| {
        let bytes = read(at, BLOCK_SIZE);
        let block = bytes.as_slice().try_into().expect("a block");
        Superblock::decode(block, &key, &config.uuid)
    });
    let superblocks = superblocks.into_iter().filter_map(|it| it.ok().flatten());
    let superblock = superblocks.max_by_key(|it| it.cp).expect("a superblock");
    (config, superblock)
}

#[test]
fn a_pool_of_version_1_that_was_grown_is_read_checked_and_worked_on() {
    let images = load();
    let report = verified(&images);
    assert_eq!((report.epoch, report.counts.devices), (4, 2));
    let (config, superblock) = front(&images);
    assert_eq!((config.epoch, superblock.epoch), (4, 4));
    let extents: Vec<u32> = config.extents.iter().map(|extent| extent.member).collect();
    assert_eq!(extents, [0, 1, 0, 1], "one of each growth");
    let has_blocks = superblock.frontiers[..3].iter().all(|area| *area > 0);
    assert!(has_blocks, "{:?}", superblock.frontiers);
    // Records of two epochs wait to be replayed.
    let journal = report.journal.expect("there is one");
    let key = TagKey::new(&config.secret);
    let blocks = images.image(0).blocks();
    let headers = blocks.filter_map(|(_, page)| {
        let block = page[..].try_into().expect("a block");
        let (header, _) = Header::decode(block, &key).ok().flatten()?;
        let first = superblock.journal_sequence;
        (first..journal.next_sequence)
            .contains(&header.first_sequence)
            .then_some(header.epoch)
    });
    assert_eq!(headers.collect::<BTreeSet<_>>(), BTreeSet::from([3, 4]));

    let world = SimWorld::restart(images, Seed(3), 1);
    let system = MAKER.mount(&world).expect("it was served then");
    let mut rig = clones::Rig::on(MAKER, world, system);
    let expect_all = |rig: &mut clones::Rig| {
        for lun in ["v/l@small", "v/l@larger", "v/l@large", "v/l"] {
            expect_same(rig, lun, 0..2_200, 31);
        }
        for lun in ["v/l@larger", "v/l@large", "v/l"] {
            expect_same(rig, lun, 2_200..3_000, 32);
        }
        for lun in ["v/l@large", "v/l"] {
            expect_same(rig, lun, 3_000..3_900, 33);
        }
        rig.expect("v/l", 5_900, FLUSHED, 9_000);
    };
    expect_all(&mut rig);
    let before = rig.total();
    write_same(&mut rig, "v/l", 3_900..4_400, 34);
    begin_growth(&mut rig, PoolGrowth::Larger(vec![(0, MORE_BYTES)]));
    end_growth(&mut rig);
    assert!(rig.total() > before + MORE_BYTES / BLOCK / 2);
    write_same(&mut rig, "v/l", 4_400..5_000, 35);
    rig.rest();
    let mut rig = rig.restart();
    expect_all(&mut rig);
    expect_same(&mut rig, "v/l", 3_900..4_400, 34);
    expect_same(&mut rig, "v/l", 4_400..5_000, 35);
    assert_eq!(verified(&rig.images()).epoch, 5);
}
