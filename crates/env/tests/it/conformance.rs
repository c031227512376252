//! The contract of every method of I/O (`everglade_env::disk`).

use std::time::Duration;

use everglade_env::{DiskError, Op, Outside, Real, Storage, WorldOptions};

use crate::rig::Storage::{Disk, Memory};
use crate::rig::{BLOCK, Rig, SEGMENT, dirty_pages, everywhere, one_reactor, pages_of, pattern};

const SIZE: u64 = 100 * SEGMENT;

#[test]
fn what_was_written_is_read_back() {
    everywhere(Disk, |mut rig| {
        let device = rig.directory(SIZE);
        for (seed, offset) in [(1, 0), (2, 7 * BLOCK), (3, SIZE - BLOCK)] {
            let bytes = pattern(seed, BLOCK as usize);
            rig.write(device, offset, &bytes).unwrap();
            assert_eq!(rig.read(device, offset, bytes.len()).unwrap(), bytes);
        }
    });
}

#[test]
fn operations_cross_segments() {
    everywhere(Memory, |mut rig| {
        let device = rig.directory(SIZE);
        // 1 MiB over 17 segments, most of which are absent.
        let bytes = pattern(4, 1 << 20);
        let offset = 5 * SEGMENT - 3 * BLOCK;
        rig.write(device, offset, &bytes).unwrap();
        assert_eq!(rig.read(device, offset, bytes.len()).unwrap(), bytes);
        rig.flush(device).unwrap();
        // Again with the segments open.
        let bytes = pattern(5, 1 << 20);
        rig.write(device, offset, &bytes).unwrap();
        assert_eq!(rig.read(device, offset, bytes.len()).unwrap(), bytes);
    });
}

#[test]
fn unwritten_ranges_read_as_zeroes() {
    everywhere(Memory, |mut rig| {
        let device = rig.directory(SIZE);
        assert!(
            rig.read(device, 3 * SEGMENT, 2 * SEGMENT as usize)
                .unwrap()
                .iter()
                .all(|&b| b == 0)
        );
        assert!(
            !rig.path("device/00000003.seg").exists(),
            "reading makes nothing"
        );
        rig.write(device, 3 * SEGMENT, &pattern(6, BLOCK as usize))
            .unwrap();
        let read = rig.read(device, 2 * SEGMENT, 3 * SEGMENT as usize).unwrap();
        assert_eq!(
            read[SEGMENT as usize..][..BLOCK as usize],
            pattern(6, BLOCK as usize)
        );
        assert!(read[..SEGMENT as usize].iter().all(|&byte| byte == 0));
        assert!(
            read[(SEGMENT + BLOCK) as usize..]
                .iter()
                .all(|&byte| byte == 0)
        );
    });
}

#[test]
fn a_range_that_was_zeroed_reads_as_zeroes_and_its_neighbours_stay() {
    everywhere(Memory, |mut rig| {
        for device in [rig.directory(SIZE), rig.file(SIZE)] {
            let bytes = pattern(7, 3 * SEGMENT as usize);
            rig.write(device, SEGMENT, &bytes).unwrap();
            let zeroed = SEGMENT + BLOCK;
            rig.world.zero(device, zeroed, 2 * SEGMENT).unwrap();
            rig.world.flush(device).unwrap();
            let read = rig.read(device, SEGMENT, bytes.len()).unwrap();
            let (first, rest) = read.split_at(BLOCK as usize);
            let (middle, last) = rest.split_at(2 * SEGMENT as usize);
            assert_eq!(first, &bytes[..first.len()]);
            assert!(middle.iter().all(|byte| *byte == 0));
            assert_eq!(last, &bytes[bytes.len() - last.len()..]);
            // Segments that are not there.
            rig.world.zero(device, SIZE - SEGMENT, SEGMENT).unwrap();
        }
    });
}

#[test]
fn durable_writes_and_flushes_complete() {
    everywhere(Disk, |mut rig| {
        let device = rig.directory(SIZE);
        rig.flush(device).unwrap();
        let bytes = pattern(7, 3 * SEGMENT as usize);
        let pages = pages_of(&bytes);
        rig.run(Op::Write {
            device,
            offset: BLOCK,
            pages,
            durable: true,
        })
        .result
        .unwrap();
        rig.write(device, 50 * SEGMENT, &bytes).unwrap();
        rig.flush(device).unwrap();
        rig.flush(device).unwrap();
        assert_eq!(rig.read(device, BLOCK, bytes.len()).unwrap(), bytes);
    });
}

#[test]
fn many_operations_in_flight_each_complete_once_with_their_own_data() {
    everywhere(Disk, |mut rig| {
        let device = rig.file(SIZE);
        let count = SIZE / BLOCK;
        for block in 0..count {
            let pages = pages_of(&pattern(1000 + block, BLOCK as usize));
            let durable = block % 97 == 0;
            rig.real.submit(
                Op::Write {
                    device,
                    offset: block * BLOCK,
                    pages,
                    durable,
                },
                block,
            );
            if block % 401 == 0 {
                rig.real.submit(Op::Flush { device }, count + block);
            }
        }
        let flushes = count.div_ceil(401);
        let done = rig.finish((count + flushes) as usize);
        assert!(done.iter().all(|done| done.result == Ok(())));
        assert_eq!(rig.real.in_flight(), 0);
        for block in 0..count {
            let op = Op::Read {
                device,
                offset: block * BLOCK,
                pages: dirty_pages(1),
            };
            rig.real.submit(op, block);
        }
        let mut done = rig.finish(count as usize);
        done.sort_by_key(|done| done.token);
        for (block, done) in done.iter().enumerate() {
            assert_eq!(done.token, block as u64);
            assert_eq!(
                done.pages[0][..],
                pattern(1000 + done.token, BLOCK as usize)
            );
        }
    });
}

#[test]
fn nothing_completes_inside_submit() {
    everywhere(Memory, |mut rig| {
        let device = rig.directory(SIZE);
        rig.real.submit(
            Op::Read {
                device,
                offset: 0,
                pages: dirty_pages(1),
            },
            1,
        );
        rig.real.submit(Op::Flush { device }, 2);
        assert_eq!(rig.real.in_flight(), 2);
        let mut done = rig.finish(2);
        done.sort_by_key(|done| done.token);
        assert_eq!(done[0].pages.len(), 1);
        assert_eq!(done[1].pages.len(), 0);
    });
}

#[test]
fn reserved_space_counts_at_the_host_and_punching_gives_it_back() {
    everywhere(Memory, |mut rig| {
        let device = rig.directory(SIZE);
        let bytes = pattern(8, BLOCK as usize);
        rig.write(device, 4 * SEGMENT, &bytes).unwrap();
        let (offset, length) = (3 * SEGMENT + BLOCK, 4 * SEGMENT);
        rig.run(Op::Allocate {
            device,
            offset,
            length,
        })
        .result
        .unwrap();
        assert_eq!(
            rig.read(device, 4 * SEGMENT, bytes.len()).unwrap(),
            bytes,
            "contents are kept"
        );
        let blocks = |rig: &Rig| {
            use std::os::unix::fs::MetadataExt;
            let name = |index| rig.path(&format!("device/{index:08}.seg"));
            (3..8)
                .filter_map(|index| name(index).metadata().ok())
                .map(|m| m.blocks())
                .sum::<u64>()
        };
        let before = blocks(&rig);
        if rig.world.info(device).unwrap().preallocates {
            assert!(before * 512 >= length, "{before} sectors");
        } else {
            println!("{}: the host does not preallocate", rig.name);
        }
        rig.run(Op::Punch {
            device,
            offset,
            length,
        })
        .result
        .unwrap();
        assert!(blocks(&rig) <= before);
        rig.run(Op::Punch {
            device,
            offset: 90 * SEGMENT,
            length: SEGMENT,
        })
        .result
        .unwrap();
        assert!(
            !rig.path("device/00000090.seg").exists(),
            "punching makes nothing"
        );
    });
}

#[test]
fn blocking_access_sees_the_same_bytes() {
    everywhere(Memory, |mut rig| {
        let device = rig.directory(SIZE);
        assert_eq!(rig.world.size_bytes(device), SIZE);
        let bytes = pattern(9, 3 << 20);
        rig.world.write(device, 7 * BLOCK, &bytes).unwrap();
        rig.world.flush(device).unwrap();
        let mut read = vec![1; 3 << 20];
        rig.world.read(device, 7 * BLOCK, &mut read).unwrap();
        assert!(read == bytes);
        assert_eq!(
            rig.read(device, 7 * BLOCK, 1 << 20).unwrap(),
            bytes[..1 << 20]
        );
        rig.write(device, 8 * BLOCK, &pattern(10, 1 << 20)).unwrap();
        rig.world.read(device, 7 * BLOCK, &mut read).unwrap();
        assert!(read[..BLOCK as usize] == bytes[..BLOCK as usize]);
        assert!(read[BLOCK as usize..][..1 << 20] == pattern(10, 1 << 20));
        let mut unwritten = [1; 8192];
        rig.world.read(device, SIZE - 8192, &mut unwritten).unwrap();
        assert_eq!(unwritten, [0; 8192]);
        rig.world.allocate(device, SEGMENT, SEGMENT).unwrap();
    });
}

#[test]
fn a_closing_waits_for_what_is_in_flight() {
    everywhere(Disk, |mut rig| {
        let device = rig.directory(SIZE);
        rig.write(device, 0, &pattern(11, BLOCK as usize)).unwrap();
        let read = Op::Read {
            device,
            offset: 0,
            pages: dirty_pages(4),
        };
        rig.real.submit(read, 5);
        // The file belongs to the operation until the reactor has seen its end.
        assert!(!rig.world.close_and_wait(device, Duration::ZERO));
        assert_eq!(rig.finish(1)[0].result, Ok(()));
    });
    everywhere(Disk, |mut rig| {
        let device = rig.directory(SIZE);
        rig.write(device, 0, &pattern(11, BLOCK as usize)).unwrap();
        assert!(rig.world.close_and_wait(device, Duration::ZERO));
    });
}

#[test]
fn a_closed_device_is_gone() {
    everywhere(Disk, |mut rig| {
        let device = rig.directory(SIZE);
        rig.write(device, 0, &pattern(11, BLOCK as usize)).unwrap();
        rig.real.submit(
            Op::Read {
                device,
                offset: 0,
                pages: dirty_pages(4),
            },
            5,
        );
        let mut done = Vec::new();
        rig.real.poll(&mut done);
        rig.world.close(device);
        rig.world.close(device);
        if done.is_empty() {
            done = rig.finish(1);
        }
        assert_eq!(done[0].result, Ok(()), "what is in flight ends as usual");
        assert_eq!(rig.read(device, 0, BLOCK as usize), Err(DiskError::Gone));
        assert_eq!(
            rig.read(device, 9 * SEGMENT, BLOCK as usize),
            Err(DiskError::Gone)
        );
        assert_eq!(
            rig.write(device, 0, &pattern(12, BLOCK as usize)),
            Err(DiskError::Gone)
        );
        assert_eq!(rig.flush(device), Err(DiskError::Gone));
        assert_eq!(rig.world.flush(device), Err(DiskError::Gone));
        assert!(rig.world.info(device).is_none());
        let again = rig.world.open(&rig.path("device")).unwrap();
        assert_ne!(again, device);
        assert_eq!(
            rig.read(again, 0, BLOCK as usize).unwrap(),
            pattern(11, BLOCK as usize)
        );
    });
}

#[test]
fn a_reactor_dropped_with_operations_in_flight_waits_for_them() {
    for round in 0..20 {
        everywhere(Disk, |mut rig| {
            let device = rig.file(SIZE);
            for block in 0..600 {
                let pages = pages_of(&pattern(block, BLOCK as usize));
                let op = Op::Write {
                    device,
                    offset: block * BLOCK,
                    pages,
                    durable: false,
                };
                rig.real.submit(op, block);
            }
            for turn in 0..round {
                let mut done = Vec::new();
                rig.real.poll(&mut done);
                if turn % 2 == 1 {
                    rig.real.submit(
                        Op::Read {
                            device,
                            offset: 0,
                            pages: dirty_pages(256),
                        },
                        1,
                    );
                }
            }
        });
    }
}

#[test]
fn a_reactor_may_move_to_another_thread_before_its_first_use() {
    everywhere(Memory, |rig| {
        let device = rig.directory(SIZE);
        std::thread::scope(|scope| {
            let mut rig = rig;
            scope.spawn(move || {
                rig.write(device, 0, &pattern(13, BLOCK as usize)).unwrap();
                rig.read(device, 0, BLOCK as usize).unwrap();
            });
        });
    });
}

#[test]
fn a_reactor_dropped_on_a_foreign_thread_gives_up_memory_rather_than_safety() {
    everywhere(Disk, |mut rig| {
        let device = rig.file(SIZE);
        for block in 0..SIZE / BLOCK {
            rig.real.submit(
                Op::Read {
                    device,
                    offset: block * BLOCK,
                    pages: dirty_pages(1),
                },
                1,
            );
        }
        rig.real.poll(&mut Vec::new());
        std::thread::spawn(move || drop(rig)).join().unwrap();
    });
}

#[test]
fn own_mistakes_stop_the_process() {
    let refused = |what: &str, op: fn(everglade_env::DeviceId) -> Op| {
        let outcome = std::panic::catch_unwind(|| {
            let rig = Rig::of(what, one_reactor(), Memory);
            let device = rig.directory(SIZE);
            let mut real: Real = rig.real;
            real.submit(op(device), 1);
        });
        assert!(outcome.is_err(), "{what}");
    };
    refused("misaligned", |device| Op::Read {
        device,
        offset: 512,
        pages: dirty_pages(1),
    });
    refused("beyond the end", |device| Op::Read {
        device,
        offset: SIZE,
        pages: dirty_pages(1),
    });
    refused("over the end", |device| Op::Read {
        device,
        offset: SIZE - BLOCK,
        pages: dirty_pages(2),
    });
    refused("overflow", |device| Op::Punch {
        device,
        offset: BLOCK,
        length: u64::MAX - 4095,
    });
    refused("empty", |device| Op::Write {
        device,
        offset: 0,
        pages: Vec::new(),
        durable: false,
    });
    refused("too long", |device| Op::Read {
        device,
        offset: 0,
        pages: dirty_pages(257),
    });
    refused("uneven", |device| Op::Allocate {
        device,
        offset: 0,
        length: 100,
    });
}

#[test]
fn more_segments_than_may_be_open_work_and_stay_within_the_budget() {
    everywhere(Memory, |rig| {
        let options = WorldOptions {
            // Two of them are pinned: the directory and its card.
            open_files_max: Some(7),
            ..rig.options.clone()
        };
        let mut rig = Rig::of(&rig.name, options, Memory);
        let device = rig.directory(SIZE);
        for segment in 0..40 {
            rig.write(device, segment * SEGMENT, &pattern(segment, BLOCK as usize))
                .unwrap();
            assert!(
                rig.world.open_segments() <= 5,
                "{}",
                rig.world.open_segments()
            );
        }
        rig.flush(device).unwrap();
        for segment in (0..40).rev() {
            let read = rig.read(device, segment * SEGMENT, BLOCK as usize).unwrap();
            assert_eq!(read, pattern(segment, BLOCK as usize));
        }
        assert!(rig.world.open_segments() <= 5);
    });
}
