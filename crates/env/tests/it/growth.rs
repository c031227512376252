//! Devices that become larger while they are used.

use std::fs::File;

use everglade_env::{DeviceId, Geometry, OpenError, Storage as _, World};

use crate::rig::Storage::{Disk, Memory};
use crate::rig::{BLOCK, Rig, SEGMENT, any_way, everywhere, one_reactor, pattern};

/// Bytes of one operation.
const PIECE: usize = 4 * BLOCK as usize;

fn length(rig: &Rig, segment: u64) -> Option<u64> {
    let path = rig.path(&format!("device/{segment:08}.seg"));
    path.metadata().ok().map(|metadata| metadata.len())
}

/// Writes near the end of the old size and of the new one, and across the old end.
fn use_all(rig: &mut Rig, device: DeviceId, old: u64, new: u64) {
    let places = [old - PIECE as u64 / 2, new - PIECE as u64];
    let fresh = rig.read(device, places[1], PIECE).unwrap();
    assert!(fresh.iter().all(|byte| *byte == 0), "{}", rig.name);
    for (seed, place) in (7..).zip(places) {
        rig.write(device, place, &pattern(seed, PIECE)).unwrap();
    }
    rig.flush(device).unwrap();
    for (seed, place) in (7..).zip(places) {
        assert!(rig.read(device, place, PIECE).unwrap() == pattern(seed, PIECE));
    }
}

#[test]
fn a_directory_grows_inside_its_last_segment_and_over_many() {
    everywhere(Memory, |mut rig| {
        let sizes = [
            // In the middle of a segment, to its end, by a segment, by many, by a part of one.
            2 * SEGMENT + 4 * BLOCK,
            2 * SEGMENT + 10 * BLOCK,
            3 * SEGMENT,
            4 * SEGMENT,
            200 * SEGMENT,
            200 * SEGMENT + 8 * BLOCK,
        ];
        let device = rig.directory(sizes[0]);
        rig.write(device, 0, &pattern(1, PIECE)).unwrap();
        rig.write(device, sizes[0] - PIECE as u64, &pattern(2, PIECE))
            .unwrap();
        for pair in sizes.windows(2) {
            let (old, new) = (pair[0], pair[1]);
            assert_eq!(rig.world.grow(device, Some(new)).unwrap(), new);
            assert_eq!(rig.world.size_bytes(device), new);
            let last = (old - 1) / SEGMENT;
            let expected = (new - last * SEGMENT).min(SEGMENT);
            assert_eq!(length(&rig, last), Some(expected), "{old} to {new}");
            use_all(&mut rig, device, old, new);
        }
        assert_eq!(rig.read(device, 0, PIECE).unwrap(), pattern(1, PIECE));
        assert_eq!(
            length(&rig, 100),
            None,
            "segments are made when they are written"
        );
        rig.world.close(device);
        let end = sizes[5];
        let device = rig.world.open_directory(&rig.path("device"), end, false);
        let device = device.unwrap();
        assert_eq!(rig.world.size_bytes(device), end);
        let read = rig.read(device, end - PIECE as u64, PIECE).unwrap();
        assert!(read == pattern(8, PIECE));
        assert_eq!(rig.read(device, 0, PIECE).unwrap(), pattern(1, PIECE));
    });
}

#[test]
fn a_segment_that_is_made_after_the_growth_has_its_new_length() {
    let mut rig = any_way(Memory);
    let device = rig.directory(8 * BLOCK);
    rig.world.grow(device, Some(SEGMENT)).unwrap();
    assert_eq!(length(&rig, 0), None);
    use_all(&mut rig, device, 8 * BLOCK, SEGMENT);
    assert_eq!(length(&rig, 0), Some(SEGMENT));
}

#[test]
fn files_follow_the_host_when_they_are_asked_to() {
    everywhere(Disk, |mut rig| {
        let (old, new) = (100 * BLOCK, 300 * BLOCK);
        let device = rig.file(old);
        let file = File::options().write(true).open(rig.path("file")).unwrap();
        assert_eq!(rig.world.grow(device, None).unwrap(), old);
        file.set_len(new + 5).unwrap();
        assert_eq!(rig.world.size_bytes(device), old, "nobody has asked yet");
        assert_eq!(rig.world.grow(device, None).unwrap(), new);
        use_all(&mut rig, device, old, new);
        // Somebody makes it smaller: it is as large as it was, and its end cannot be read.
        file.set_len(old).unwrap();
        assert_eq!(rig.world.grow(device, None).unwrap(), new);
        assert!(rig.read(device, old, PIECE).is_err());
        let given = rig.world.grow(device, Some(2 * new)).unwrap_err();
        assert!(matches!(given, OpenError::Unexpected { .. }), "{given}");
        let info = rig.world.info(device).unwrap();
        assert_eq!((info.size_bytes, info.segment_bytes), (new, new));
    });
}

#[test]
fn a_size_that_cannot_be_changes_nothing() {
    let rig = any_way(Memory);
    let device = rig.directory(4 * SEGMENT);
    let card = || std::fs::read_to_string(rig.path("device/DEVICE")).unwrap();
    let before = card();
    for size in [
        0,
        BLOCK,
        4 * SEGMENT - BLOCK,
        4 * SEGMENT + 1,
        u64::MAX,
        1 << 60,
        1 << 40,
    ] {
        let refused = rig.world.grow(device, Some(size)).unwrap_err();
        assert!(
            matches!(refused, OpenError::Unexpected { .. }),
            "{size}: {refused}"
        );
    }
    // The present size is no error: it repeats a growth that was cut.
    for size in [None, Some(4 * SEGMENT)] {
        assert_eq!(rig.world.grow(device, size).unwrap(), 4 * SEGMENT);
    }
    assert_eq!(
        (card(), rig.world.size_bytes(device)),
        (before, 4 * SEGMENT)
    );
    rig.world.close(device);
    assert!(rig.world.grow(device, Some(5 * SEGMENT)).is_err());
}

#[test]
fn another_server_is_locked_out_during_and_after_the_growth() {
    let rig = any_way(Memory);
    let device = rig.directory(SEGMENT);
    let path = rig.path("device");
    let is_busy = |world: &World| matches!(world.open(&path), Err(OpenError::Busy { .. }));
    std::thread::scope(|scope| {
        let others = scope.spawn(|| {
            let second = World::new(&one_reactor()).unwrap();
            (0..2000).all(|_| is_busy(&second))
        });
        for segments in 2..100 {
            let size = segments * SEGMENT;
            assert_eq!(rig.world.grow(device, Some(size)).unwrap(), size);
        }
        assert!(others.join().unwrap(), "somebody else got the device");
    });
    let second = World::new(&one_reactor()).unwrap();
    assert!(is_busy(&second));
    assert!(!rig.path("device/DEVICE.new").exists());
    rig.world.close(device);
    let found = second.open(&path).unwrap();
    assert_eq!(second.size_bytes(found), 99 * SEGMENT);
}

#[test]
fn a_growth_that_was_cut_after_the_file_became_longer_loses_nothing() {
    let mut rig = any_way(Memory);
    let size = SEGMENT + 8 * BLOCK;
    let device = rig.directory(size);
    rig.write(device, SEGMENT, &pattern(1, PIECE)).unwrap();
    rig.flush(device).unwrap();
    rig.world.close(device);
    let path = rig.path("device/00000001.seg");
    let file = File::options().write(true).open(path).unwrap();
    file.set_len(SEGMENT).unwrap();
    let device = rig.world.open(&rig.path("device")).unwrap();
    assert_eq!(rig.world.size_bytes(device), size);
    assert_eq!(rig.read(device, SEGMENT, PIECE).unwrap(), pattern(1, PIECE));
    rig.world.grow(device, Some(4 * SEGMENT)).unwrap();
    use_all(&mut rig, device, size, 4 * SEGMENT);
}

#[test]
fn a_segment_that_is_too_short_is_damage_which_growth_does_not_hide() {
    let mut rig = any_way(Memory);
    let size = 8 * BLOCK;
    let device = rig.directory(size);
    let end = size - PIECE as u64;
    rig.write(device, end, &pattern(1, PIECE)).unwrap();
    let path = rig.path("device/00000000.seg");
    let file = File::options().write(true).open(path).unwrap();
    file.set_len(end).unwrap();
    let refused = rig.world.grow(device, Some(SEGMENT)).unwrap_err();
    assert!(refused.to_string().contains("00000000.seg"), "{refused}");
    assert_eq!(rig.world.size_bytes(device), size);
    assert!(rig.read(device, end, PIECE).is_err(), "it stays an error");
    // A file that a crash left empty gets its length when something is written there.
    file.set_len(0).unwrap();
    rig.world.close(device);
    let device = rig.world.open(&rig.path("device")).unwrap();
    rig.world.grow(device, Some(SEGMENT)).unwrap();
    assert_eq!(length(&rig, 0), Some(0));
}

#[test]
fn a_device_of_a_larger_size_than_recorded_is_opened() {
    let rig = any_way(Memory);
    let geometry = Geometry {
        size_bytes: 4 * SEGMENT,
        segment_bytes: SEGMENT,
    };
    let path = rig.path("device");
    let device = rig.world.create_directory(&path, geometry).unwrap();
    rig.world.close(device);
    let open = |size| rig.world.open_directory(&path, size, false);
    assert!(matches!(
        open(5 * SEGMENT),
        Err(OpenError::Unexpected { .. })
    ));
    let device = open(2 * SEGMENT).unwrap();
    assert_eq!(rig.world.size_bytes(device), 4 * SEGMENT);
}
