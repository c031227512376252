//! Segment files that went away, or became empty or shorter, while no server ran: what is gone is
//! an error, and nothing takes its place.

use std::fs::{self, File};

use everglade_env::{DeviceId, DiskError, Op, Storage as _};

use crate::rig::Storage::Memory;
use crate::rig::{BLOCK, Rig, SEGMENT, everywhere, pages_of, pattern};

const PIECE: usize = 4 * BLOCK as usize;
const EIO: DiskError = DiskError::Io(libc::EIO);
/// The segments that are whole, absent, empty, and cut after half of their length.
const WHOLE: u64 = 0;
const ABSENT: u64 = 1;
const EMPTY: u64 = 2;
const SHORT: u64 = 3;

fn name(segment: u64) -> String {
    format!("device/{segment:08}.seg")
}

/// Writes four segments, damages three of them, and opens the device again.
fn damaged(rig: &mut Rig) -> DeviceId {
    let device = rig.directory(6 * SEGMENT);
    for segment in [WHOLE, ABSENT, EMPTY, SHORT] {
        let bytes = pattern(segment, SEGMENT as usize);
        rig.write(device, segment * SEGMENT, &bytes).unwrap();
    }
    rig.flush(device).unwrap();
    rig.world.close(device);
    fs::rename(rig.path(&name(ABSENT)), rig.path("away")).unwrap();
    for (segment, length) in [(EMPTY, 0), (SHORT, SEGMENT / 2)] {
        let file = File::options().write(true).open(rig.path(&name(segment)));
        file.unwrap().set_len(length).unwrap();
    }
    rig.world.open(&rig.path("device")).unwrap()
}

fn lose(rig: &Rig, device: DeviceId) -> Vec<(u64, Option<u64>)> {
    let faults = rig
        .world
        .find_lost(device, std::slice::from_ref(&(0..4 * SEGMENT)));
    let told = faults.iter().map(|fault| {
        assert_eq!(fault.expected_bytes, SEGMENT);
        assert_eq!(fault.range.end - fault.range.start, SEGMENT);
        assert_eq!(fault.device, device);
        (fault.range.start / SEGMENT, fault.found_bytes)
    });
    told.collect()
}

const ALL: [(u64, Option<u64>); 3] = [(ABSENT, None), (EMPTY, Some(0)), (SHORT, Some(SEGMENT / 2))];

fn assert_untouched(rig: &Rig) {
    assert!(!rig.path(&name(ABSENT)).exists(), "{}", rig.name);
    let length = |segment| rig.path(&name(segment)).metadata().unwrap().len();
    assert_eq!((length(EMPTY), length(SHORT)), (0, SEGMENT / 2));
}

#[test]
fn what_is_lost_is_an_error_and_nothing_is_made_in_its_place() {
    everywhere(Memory, |mut rig| {
        let device = damaged(&mut rig);
        assert_eq!(lose(&rig, device), ALL);
        for segment in [ABSENT, EMPTY, SHORT] {
            let (first, length) = (segment * SEGMENT, SEGMENT);
            let end = first + SEGMENT - PIECE as u64;
            assert_eq!(rig.read(device, end, PIECE), Err(EIO), "{segment}");
            // The short one has its first half open now.
            let front = rig.read(device, first, PIECE);
            match segment == SHORT {
                true => assert_eq!(front.unwrap(), pattern(SHORT, SEGMENT as usize)[..PIECE]),
                false => assert_eq!(front, Err(EIO)),
            }
            let mut buffer = vec![0; PIECE];
            assert_eq!(rig.world.read(device, end, &mut buffer), Err(EIO));
            let bytes = pattern(9, PIECE);
            assert_eq!(rig.write(device, first, &bytes), Err(EIO), "{segment}");
            assert_eq!(rig.world.write(device, first, &bytes), Err(EIO));
            let offset = first;
            for op in [
                Op::Write {
                    device,
                    offset,
                    pages: pages_of(&bytes),
                    durable: true,
                },
                Op::Allocate {
                    device,
                    offset,
                    length,
                },
                Op::Punch {
                    device,
                    offset,
                    length,
                },
            ] {
                assert_eq!(rig.run(op).result, Err(EIO), "{segment}");
            }
            assert_eq!(rig.world.allocate(device, first, SEGMENT), Err(EIO));
        }
        rig.flush(device).unwrap();
        rig.world.flush(device).unwrap();
        assert_untouched(&rig);
        // Everything else works.
        let bytes = pattern(8, PIECE);
        for first in [0, 4 * SEGMENT] {
            rig.write(device, first, &bytes).unwrap();
            assert_eq!(rig.read(device, first, PIECE).unwrap(), bytes);
        }
    });
}

#[test]
fn it_is_lost_again_at_the_next_opening_until_the_file_is_back() {
    everywhere(Memory, |mut rig| {
        for _ in 0..2 {
            let device = match rig.path("device").exists() {
                true => rig.world.open(&rig.path("device")).unwrap(),
                false => damaged(&mut rig),
            };
            assert_eq!(lose(&rig, device), ALL);
            rig.flush(device).unwrap();
            rig.world.close(device);
            assert_untouched(&rig);
        }
        fs::rename(rig.path("away"), rig.path(&name(ABSENT))).unwrap();
        let device = rig.world.open(&rig.path("device")).unwrap();
        assert_eq!(lose(&rig, device), ALL[1..]);
        let found = rig.read(device, ABSENT * SEGMENT, SEGMENT as usize);
        assert_eq!(found.unwrap(), pattern(ABSENT, SEGMENT as usize));
        rig.write(device, ABSENT * SEGMENT, &pattern(7, PIECE))
            .unwrap();
    });
}

#[test]
fn a_device_whose_last_segment_is_lost_does_not_grow() {
    everywhere(Memory, |mut rig| {
        let size = 2 * SEGMENT - 4 * BLOCK;
        let device = rig.directory(size);
        rig.write(device, size - PIECE as u64, &pattern(1, PIECE))
            .unwrap();
        rig.world.close(device);
        fs::rename(rig.path(&name(1)), rig.path("away")).unwrap();
        let device = rig.world.open(&rig.path("device")).unwrap();
        let written = SEGMENT..size;
        let lost = rig.world.find_lost(device, std::slice::from_ref(&written));
        assert_eq!(lost.len(), 1);
        let refused = rig.world.grow(device, Some(4 * SEGMENT)).unwrap_err();
        assert!(refused.to_string().contains("00000001.seg"), "{refused}");
        assert_eq!(rig.world.size_bytes(device), size);
        rig.world.close(device);
        fs::rename(rig.path("away"), rig.path(&name(1))).unwrap();
        let device = rig.world.open(&rig.path("device")).unwrap();
        assert_eq!(
            rig.world.find_lost(device, std::slice::from_ref(&written)),
            []
        );
        rig.world.grow(device, Some(4 * SEGMENT)).unwrap();
    });
}
