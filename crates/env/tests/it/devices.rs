//! The kinds of device: opening, refusals, and contents after a reopening.

use std::fs::File;

use everglade_env::{
    DeviceKind, DiskError, Geometry, OpenError, Storage as _, World, WorldOptions,
};

use crate::rig::Storage::{Disk, Memory};
use crate::rig::{BLOCK, SEGMENT, any_way, everywhere, one_reactor, pattern};

#[test]
fn a_directory_is_found_again_with_its_size_and_data() {
    let mut rig = any_way(Memory);
    let size = 10 * SEGMENT + 3 * BLOCK;
    let device = rig.directory(size);
    let end = size - 5 * BLOCK;
    rig.write(device, end, &pattern(1, 5 * BLOCK as usize))
        .unwrap();
    rig.world.close(device);
    let device = rig
        .world
        .open_directory(&rig.path("device"), size, false)
        .unwrap();
    let info = rig.world.info(device).unwrap();
    assert_eq!((info.kind, info.size_bytes), (DeviceKind::Directory, size));
    assert_eq!(info.segment_bytes, SEGMENT);
    assert!(info.host_free_bytes.unwrap() > 0);
    assert_eq!(
        rig.read(device, end, 5 * BLOCK as usize).unwrap(),
        pattern(1, 5 * BLOCK as usize)
    );
    let last = rig.path("device/00000010.seg").metadata().unwrap().len();
    assert_eq!(
        last,
        3 * BLOCK,
        "the last segment is as long as it needs to be"
    );
}

#[test]
fn default_segments_grow_with_the_device() {
    let gib = 1 << 30;
    assert_eq!(Geometry::of(64 * gib).segment_bytes, gib);
    assert_eq!(Geometry::of(8192 * gib).segment_bytes, gib);
    assert_eq!(Geometry::of(8193 * gib).segment_bytes, 16 * gib);
}

#[test]
fn a_directory_that_is_not_ours_is_refused() {
    let rig = any_way(Memory);
    let path = rig.path("device");
    assert!(matches!(
        rig.world.open(&path),
        Err(OpenError::Missing { .. })
    ));
    std::fs::create_dir(&path).unwrap();
    assert!(matches!(
        rig.world.open(&path),
        Err(OpenError::Unexpected { .. })
    ));
    for card in [
        "",
        "other\n",
        "everglade directory device 2\nsize_bytes 4096\n",
        "\u{0}\u{1}",
    ] {
        std::fs::write(path.join("DEVICE"), card).unwrap();
        assert!(
            matches!(rig.world.open(&path), Err(OpenError::Unexpected { .. })),
            "{card:?}"
        );
    }
    let card = |size: &str, segment: &str| {
        format!("everglade directory device 1\nsize_bytes {size}\nsegment_bytes {segment}\n")
    };
    for (size, segment) in [
        ("0", "4096"),
        ("4096", "0"),
        ("4097", "4096"),
        ("8192", "5000"),
        ("99999999999999999999", "4096"),
        ("9999999999999995904", "4096"),
        ("4398046511104", "4096"),
        ("-4096", "4096"),
    ] {
        std::fs::write(path.join("DEVICE"), card(size, segment)).unwrap();
        let result = rig.world.open(&path);
        assert!(
            matches!(result, Err(OpenError::Unexpected { .. })),
            "{size} {segment}"
        );
    }
    std::fs::write(path.join("DEVICE"), card("8192", "4096")).unwrap();
    let device = rig.world.open(&path).unwrap();
    rig.world.close(device);
    let result = rig.world.open_directory(&path, 16384, false);
    let said = result.unwrap_err().to_string();
    assert!(
        said.contains("16384") && said.contains("8192"),
        "both sizes are named: {said}"
    );
    File::create(path.join("00000002.seg")).unwrap();
    assert!(
        matches!(rig.world.open(&path), Err(OpenError::Unexpected { .. })),
        "foreign segment"
    );
}

#[test]
fn creating_over_something_is_refused() {
    let rig = any_way(Memory);
    let device = rig.directory(SEGMENT);
    rig.world.close(device);
    let again = rig.world.open_directory(&rig.path("device"), SEGMENT, true);
    assert!(matches!(again, Err(OpenError::Occupied { .. })));
    std::fs::create_dir(rig.path("other")).unwrap();
    File::create(rig.path("other/00000000.seg")).unwrap();
    let over = rig.world.open_directory(&rig.path("other"), SEGMENT, true);
    assert!(matches!(over, Err(OpenError::Occupied { .. })));
    let uneven = rig.world.open_directory(&rig.path("third"), 1000, true);
    assert!(matches!(uneven, Err(OpenError::Unexpected { .. })));
    assert!(!rig.path("third").exists());
    File::create(rig.path("file")).unwrap();
    let file = rig.world.open_directory(&rig.path("file"), SEGMENT, false);
    assert!(matches!(file, Err(OpenError::Unexpected { .. })));
}

#[test]
fn a_segment_left_short_by_a_crash_is_repaired() {
    let mut rig = any_way(Memory);
    let device = rig.directory(4 * SEGMENT);
    rig.world.close(device);
    File::create(rig.path("device/00000001.seg")).unwrap();
    let device = rig.world.open(&rig.path("device")).unwrap();
    let read = rig.read(device, SEGMENT, SEGMENT as usize).unwrap();
    assert!(read.iter().all(|&byte| byte == 0));
    rig.flush(device).unwrap();
    let length = || rig.path("device/00000001.seg").metadata().unwrap().len();
    assert_eq!(length(), 0, "reading and flushing change nothing");
    let written = pattern(1, BLOCK as usize);
    rig.world.write(device, SEGMENT, &written).unwrap();
    assert_eq!(length(), SEGMENT);
}

#[test]
fn an_existing_file_is_a_device() {
    everywhere(Disk, |mut rig| {
        let path = rig.path("disk.img");
        let file = File::create(&path).unwrap();
        file.set_len(1_000_000).unwrap();
        let device = rig.world.open(&path).unwrap();
        let info = rig.world.info(device).unwrap();
        assert_eq!(
            (info.kind, info.size_bytes),
            (DeviceKind::File, 244 * BLOCK)
        );
        rig.write(device, 100 * BLOCK, &pattern(2, 1 << 18))
            .unwrap();
        rig.flush(device).unwrap();
        assert_eq!(
            rig.read(device, 100 * BLOCK, 1 << 18).unwrap(),
            pattern(2, 1 << 18)
        );
        // Somebody cuts the file under us: an error, not zeroes.
        file.set_len(50 * BLOCK).unwrap();
        let read = rig.read(device, 100 * BLOCK, BLOCK as usize);
        assert!(matches!(read, Err(DiskError::Io(_))), "{read:?}");
    });
}

#[test]
fn files_that_cannot_be_devices_are_refused() {
    let rig = any_way(Memory);
    std::fs::write(rig.path("small"), [0; 4095]).unwrap();
    assert!(matches!(
        rig.world.open(&rig.path("small")),
        Err(OpenError::Unexpected { .. })
    ));
    let null = rig.world.open(std::path::Path::new("/dev/null"));
    assert!(matches!(null, Err(OpenError::Unexpected { .. })));
    let block = rig.world.open_block(&rig.path("small"));
    assert!(
        matches!(block, Err(OpenError::Unexpected { .. })),
        "{block:?}"
    );
    let missing = rig.world.open(&rig.path("missing"));
    assert!(matches!(missing, Err(OpenError::Missing { .. })));
}

#[test]
fn a_device_has_one_server() {
    let rig = any_way(Memory);
    let directory = rig.directory(SEGMENT);
    let second = World::new(&one_reactor()).unwrap();
    assert!(matches!(
        second.open(&rig.path("device")),
        Err(OpenError::Busy { .. })
    ));
    rig.world.close(directory);
    second.open(&rig.path("device")).unwrap();
    std::fs::write(rig.path("file"), [0; 8192]).unwrap();
    let file = rig.world.open(&rig.path("file")).unwrap();
    assert!(matches!(
        second.open(&rig.path("file")),
        Err(OpenError::Busy { .. })
    ));
    rig.world.close(file);
    second.open(&rig.path("file")).unwrap();
}

/// The verifier needed a device that it could write to, and gave an empty segment its length.
#[test]
fn readers_share_a_device_that_they_cannot_change() {
    let mut rig = any_way(Memory);
    let device = rig.directory(3 * SEGMENT);
    let written = pattern(1, BLOCK as usize);
    rig.write(device, 0, &written).unwrap();
    rig.world.close(device);
    // As a power cut leaves it.
    let empty = rig.path("device/00000001.seg");
    File::create(&empty).unwrap();
    let reader = || {
        let options = WorldOptions {
            read_only: true,
            ..one_reactor()
        };
        World::new(&options).unwrap()
    };
    let (one, other) = (reader(), reader());
    let path = rig.path("device");
    let device = one.open_directory(&path, 3 * SEGMENT, false).unwrap();
    let mut found = vec![0; BLOCK as usize];
    one.read(device, 0, &mut found).unwrap();
    assert_eq!(found, written);
    other.open(&path).unwrap();
    assert!(
        matches!(rig.world.open(&path), Err(OpenError::Busy { .. })),
        "no writer while it is read"
    );
    for offset in [0, SEGMENT, 2 * SEGMENT] {
        assert!(one.write(device, offset, &found).is_err(), "{offset}");
    }
    assert_eq!(empty.metadata().unwrap().len(), 0);
    assert!(!rig.path("device/00000002.seg").exists());
    // A writer keeps readers out.
    drop((one, other));
    let device = rig.world.open(&path).unwrap();
    assert!(matches!(reader().open(&path), Err(OpenError::Busy { .. })));
    assert_eq!(rig.read(device, 0, BLOCK as usize).unwrap(), written);
}
