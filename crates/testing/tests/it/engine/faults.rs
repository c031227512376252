//! Devices that fail: what cannot be read fails alone, what cannot be written fails the aggregate.

use everglade_engine::State;
use everglade_env::{BLOCK_SIZE, DeviceId};
use everglade_target::{Error, Op, Reply, WriteSpan};
use everglade_testing::SimWorld;
use everglade_testing::engine::EngineMaker;
use everglade_testing::workload::contents;
use everglade_testing::world::Faults;

use super::rig::{Rig, ask, consistency_point, create_lun, create_volume, write};

const BLOCK: u64 = BLOCK_SIZE as u64;

/// Where the device holds these bytes.
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
fn what_cannot_be_written_fails_the_aggregate_and_a_restart_recovers() {
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
    assert!(matches!(system.state(), State::Failed(_)));
    let answer = ask(&rig.world, &mut system, "v/l", read(0, 1));
    assert!(matches!(answer, Err(Error::Io(_))), "{answer:?}");
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
