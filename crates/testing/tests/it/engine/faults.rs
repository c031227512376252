//! Devices that fail: what cannot be read fails alone, what cannot be written makes the aggregate
//! read-only.

use everglade_engine::State;
use everglade_engine::admin::Change;
use everglade_env::{BLOCK_SIZE, DeviceId};
use everglade_format::indirect::BlockKind;
use everglade_format::metafile::FIRST_FILE;
use everglade_format::{Block, Header};
use everglade_target::{Error, Op, Reply, WriteSpan};
use everglade_testing::SimWorld;
use everglade_testing::engine::EngineMaker;
use everglade_testing::system::System;
use everglade_testing::workload::contents;
use everglade_testing::world::{Faults, Images};

use super::clones;
use super::rig::{Rig, ask, consistency_point, create_lun, create_volume, write};

const BLOCK: u64 = BLOCK_SIZE as u64;

/// Returns the offset of these bytes on the device.
fn find(world: &SimWorld, bytes: &[u8]) -> u64 {
    let blocks = (16 << 20) / BLOCK;
    let holds = |block: &u64| world.peek(DeviceId(0), *block)[..] == *bytes;
    (0..blocks).find(holds).expect("it is on the device")
}

fn read(block: u64, count: u32) -> Op {
    Op::Read {
        offset: block * BLOCK,
        length: count * 4096,
    }
}

#[test]
fn a_block_that_cannot_be_read_fails_alone_until_it_is_written_again() {
    let mut rig = Rig::new(EngineMaker::SMALL, 16 << 20, 1);
    rig.live(
        [
            create_volume("v"),
            create_lun("v/l", 8 << 20),
            write("v/l", 0, 16 * BLOCK, 5),
            consistency_point(),
        ],
        |_| {},
    );
    let mut system = rig.maker_mount();
    let written = contents(5, 16 * BLOCK);
    let bad = find(&rig.world, &written[7 * BLOCK_SIZE..8 * BLOCK_SIZE]);
    rig.world.fail_block(DeviceId(0), bad);
    for block in 0..16 {
        let answer = ask(&rig.world, &mut system, "v/l", read(block, 1));
        match (block, answer) {
            (7, Err(Error::Io(_))) => {}
            (_, Ok(Reply::Data(span))) if block != 7 => {
                let from = usize::try_from(block).expect("below 16") * BLOCK_SIZE;
                assert_eq!(span.to_vec(), written[from..from + BLOCK_SIZE]);
            }
            (_, answer) => panic!("block {block}: {answer:?}"),
        }
    }
    assert!(ask(&rig.world, &mut system, "v/l", read(0, 16)).is_err());
    let data = WriteSpan::copy_of(7 * BLOCK, &contents(6, BLOCK));
    let op = Op::Write {
        data,
        durable: true,
    };
    ask(&rig.world, &mut system, "v/l", op).expect("a whole block needs nothing read");
    ask(&rig.world, &mut system, "v/l", read(0, 16)).expect("it was written again");
    assert_eq!(system.state(), State::Online);
}

#[test]
fn what_cannot_be_written_leaves_the_aggregate_readable_and_a_restart_recovers() {
    let mut rig = Rig::new(EngineMaker::SMALL, 16 << 20, 1);
    let system = rig.mount();
    let (mut system, ()) = rig.run(
        system,
        [
            create_volume("v"),
            create_lun("v/l", 8 << 20),
            write("v/l", 0, 16 * BLOCK, 5),
            consistency_point(),
        ],
        |_| {},
    );
    let faults = Faults {
        write_error: 1,
        ..Faults::default()
    };
    rig.world.set_faults(DeviceId(0), faults);
    let data = WriteSpan::copy_of(0, &contents(6, BLOCK));
    let op = Op::Write {
        data,
        durable: true,
    };
    let answer = ask(&rig.world, &mut system, "v/l", op);
    assert!(matches!(answer, Err(Error::Io(_))), "{answer:?}");
    assert!(matches!(system.state(), State::ReadOnly(_)));
    // Opened again, and told that nothing can be changed.
    let target = system.target(0);
    let exports = target.exports();
    assert!(exports[0].read_only && exports.len() == 1, "{exports:?}");
    let found = ask(&rig.world, &mut system, "v/l", read(1, 15)).expect("the rest can be read");
    let Reply::Data(span) = found else {
        panic!("a read is answered with data")
    };
    assert_eq!(span.to_vec(), contents(5, 16 * BLOCK)[BLOCK_SIZE..]);
    // The written data is in memory and never counts as durable; nothing more reaches the device.
    let writes = rig.world.writes();
    ask(&rig.world, &mut system, "v/l", read(0, 1)).expect("also what was not acknowledged");
    let flushed = ask(&rig.world, &mut system, "v/l", Op::Flush);
    assert!(matches!(flushed, Err(Error::Io(_))), "{flushed:?}");
    let data = WriteSpan::copy_of(BLOCK, &contents(7, BLOCK));
    let durable = false;
    let op = Op::Write { data, durable };
    let written = ask(&rig.world, &mut system, "v/l", op);
    assert!(matches!(written, Err(Error::Io(_))), "{written:?}");
    assert_eq!(rig.world.writes(), writes);
    // The write may or may not be there; it was not acknowledged, and nothing else may differ.
    rig.restart();
    let mut system = rig.maker_mount();
    let found = ask(&rig.world, &mut system, "v/l", read(0, 16)).expect("it is readable again");
    let Reply::Data(span) = found else {
        panic!("a read is answered with data")
    };
    let (found, written) = (span.to_vec(), contents(5, 16 * BLOCK));
    assert_eq!(found[BLOCK_SIZE..], written[BLOCK_SIZE..]);
    assert_eq!(
        found[..BLOCK_SIZE],
        written[..BLOCK_SIZE],
        "no superblock could be written"
    );
}

/// When space is short, and right after a start, when free space is unknown, a write needs the
/// blocks that it replaces. A damaged block must not fail such a write, which needs none of its
/// content.
#[test]
fn a_whole_block_below_a_damaged_block_is_written_or_there_is_no_space_for_it() {
    for is_full in [false, true] {
        let mut rig = clones::Rig::new();
        rig.write("v/l", 0, 200, 1_000);
        if is_full {
            fill(&mut rig);
        }
        let rig = rig.restart();
        let mut bad = rig.images();
        let damaged = level_1(&bad);
        bad.flip_bit(0, damaged, 32_000);
        let mut rig = rig.fork(bad).expect("it can be started");
        assert!(rig.read("v/l", 100).is_err(), "it cannot be found");
        let data = WriteSpan::copy_of(50 * BLOCK, &contents(3_050, BLOCK));
        let durable = true;
        let written = ask(
            &rig.world,
            &mut rig.system,
            "v/l",
            Op::Write { data, durable },
        );
        match (is_full, written) {
            (false, Ok(_)) => rig.expect("v/l", 50, 1, 3_000),
            (true, Ok(_) | Err(Error::NoSpace)) => {}
            (_, other) => panic!("full: {is_full}, {other:?}"),
        }
        assert!(rig.is_online() && rig.read("v/l", 100).is_err());
    }
}

/// Another LUN takes all space that is left for clients.
fn fill(rig: &mut clones::Rig) {
    let mut end = 32_768;
    rig.change(Change::CreateLun {
        volume: "v".to_owned(),
        name: "m".to_owned(),
        size_bytes: end * BLOCK,
    })
    .expect("a new name");
    for count in [256, 16, 1] {
        loop {
            let data = WriteSpan::copy_of((end - count) * BLOCK, &contents(end, count * BLOCK));
            let durable = false;
            let op = Op::Write { data, durable };
            match ask(&rig.world, &mut rig.system, "v/m", op) {
                Ok(_) => end -= count,
                Err(Error::NoSpace) => break,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// The newest level-1 block of the first LUN.
fn level_1(images: &Images) -> u64 {
    let stamp = |page: &Block| {
        let header = Header::decode(page).ok()?;
        let is_it = (header.kind, header.level) == (BlockKind::VolumeIndirect, 1)
            && header.file == FIRST_FILE;
        is_it.then_some(header.cp)
    };
    let all = images.image(0).blocks();
    let all = all.filter_map(|(block, page)| Some((stamp(page)?, block)));
    all.max().expect("it has one").1
}
