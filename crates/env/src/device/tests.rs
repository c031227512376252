//! Tests of devices.

use super::*;

const SEGMENT: u64 = 64 << 10;
const BLOCK: u64 = BLOCK_SIZE as u64;

fn device(scratch: &tempfile::TempDir, segments: u64) -> Arc<Device> {
    let geometry = Geometry {
        size_bytes: segments * SEGMENT,
        segment_bytes: SEGMENT,
    };
    Arc::new(create_directory(&scratch.path().join("device"), geometry).unwrap())
}

#[test]
fn pieces_are_cut_at_segments_and_cover_the_range() {
    let scratch = tempfile::tempdir().unwrap();
    let device = device(&scratch, 5);
    let pieces: Vec<Piece> = device.pieces(SEGMENT - BLOCK, 2 * SEGMENT).collect();
    let expected = [
        (0, SEGMENT - BLOCK, BLOCK),
        (1, 0, SEGMENT),
        (2, 0, SEGMENT - BLOCK),
    ];
    let expected = expected.map(|(segment, offset, bytes)| Piece {
        segment,
        offset,
        bytes,
    });
    assert_eq!(pieces, expected);
}

#[test]
fn a_flush_covers_what_another_flush_is_still_syncing() {
    let scratch = tempfile::tempdir().unwrap();
    let device = device(&scratch, 2);
    assert_eq!(device.soiled(), []);
    device.segment(1).soil();
    let first = device.soiled();
    assert_eq!(first, [(1, 1)]);
    assert_eq!(
        device.soiled(),
        first,
        "it is not clean before the sync succeeded"
    );
    device.segment(1).soil();
    device.synced(1, 1, Ok(())).unwrap();
    assert_eq!(
        device.soiled(),
        [(1, 2)],
        "a write during the sync is for the next flush"
    );
    device.synced(1, 2, Ok(())).unwrap();
    assert_eq!(device.soiled(), []);
}

#[test]
fn after_a_failed_flush_no_flush_succeeds() {
    let scratch = tempfile::tempdir().unwrap();
    let device = device(&scratch, 2);
    device.segment(0).soil();
    device.segment(1).soil();
    let failed = Err(Fault::of(-libc::ENOSPC));
    assert_eq!(
        device.synced(0, 1, failed),
        Err(DiskError::Io(libc::ENOSPC))
    );
    assert_eq!(
        device.synced(1, 1, Ok(())),
        Err(DiskError::Io(libc::ENOSPC))
    );
    assert_eq!(device.flushable(), Err(DiskError::Io(libc::ENOSPC)));
}

#[test]
fn what_a_predecessor_left_is_synced_by_the_first_flush() {
    let scratch = tempfile::tempdir().unwrap();
    let budget = Budget::new(8);
    let before = device(&scratch, 3);
    before.open_segment(2, true, &budget).unwrap();
    before.close();
    let after = Arc::new(open_directory(&scratch.path().join("device"), Access::Full).unwrap());
    assert_eq!(after.soiled(), [(2, 1)]);
    after.sync_segment(2, 1, &budget).unwrap();
    assert_eq!(after.soiled(), []);
}

#[test]
fn a_segment_that_was_cut_short_is_not_made_longer_by_looking_at_it() {
    let scratch = tempfile::tempdir().unwrap();
    let budget = Budget::new(8);
    let before = device(&scratch, 2);
    before.open_segment(0, true, &budget).unwrap();
    before.open_segment(1, true, &budget).unwrap();
    before.close();
    let path = |index: usize| scratch.path().join(format!("device/{index:08}.seg"));
    let length = std::fs::metadata(path(0)).unwrap().len();
    let cut = |index, length| {
        let file = std::fs::File::options().write(true).open(path(index));
        file.unwrap().set_len(length).unwrap();
    };
    cut(0, 4096);
    // A crash between making a file and giving it its length.
    cut(1, 0);
    let after = Arc::new(open_directory(&scratch.path().join("device"), Access::Full).unwrap());
    let lengths = || [0, 1].map(|index| std::fs::metadata(path(index)).unwrap().len());
    after.open_segment(0, false, &budget).unwrap();
    assert!(after.open_segment(1, false, &budget).unwrap().is_none());
    assert_eq!(
        after.soiled(),
        [(0, 1)],
        "an empty file has nothing to sync"
    );
    assert_eq!(lengths(), [4096, 0]);
    after.open_segment(1, true, &budget).unwrap();
    assert_eq!(lengths(), [4096, length]);
}

#[test]
fn a_budget_of_busy_segments_is_not_exceeded_and_the_wait_ends_with_their_io() {
    let scratch = tempfile::tempdir().unwrap();
    let budget = Arc::new(Budget::new(2));
    let device = device(&scratch, 4);
    let open = |segment| {
        let opened = device.open_segment(segment, true, &budget).unwrap();
        opened.expect("it is made")
    };
    // Somebody has I/O in flight on both, and would have for ever.
    let busy = [open(0), open(1)];
    std::thread::scope(|scope| {
        let third = scope.spawn(|| open(2));
        while budget.waits() == 0 {
            std::thread::yield_now();
        }
        assert_eq!(budget.open_count(), 2);
        assert!(!third.is_finished());
        // One segment accepts no new operations, so its operations in flight end at some time.
        let is_open = |segment: usize| device.segment(segment).handle(&budget).is_some();
        while (0..2).all(is_open) {
            std::thread::yield_now();
        }
        drop(busy);
        third.join().unwrap();
    });
    assert!(budget.open_count() <= 2);
    for segment in [0, 1, 3, 0] {
        drop(open(segment));
        assert!(budget.open_count() <= 2);
    }
}

#[test]
fn segments_of_a_closed_device_do_not_count() {
    let scratch = tempfile::tempdir().unwrap();
    let budget = Budget::new(2);
    let device = device(&scratch, 4);
    (0..2).for_each(|segment| drop(device.open_segment(segment, true, &budget).unwrap()));
    assert_eq!(budget.open_count(), 2);
    // The test keeps `device` after closing it, as a reactor may do.
    device.close();
    assert_eq!(budget.open_count(), 0);
}

/// A reactor keeps a device that it has used. The host could not unmount the file system of a
/// deleted aggregate, because the directory stayed open with it.
#[test]
fn nothing_of_a_closed_device_stays_open() {
    let scratch = tempfile::tempdir().unwrap();
    let budget = Budget::new(8);
    let device = device(&scratch, 2);
    device.open_segment(0, true, &budget).unwrap();
    let path = scratch.path().canonicalize().unwrap();
    let open = || {
        let files = std::fs::read_dir("/proc/self/fd").unwrap();
        let targets = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
        targets.filter(|target| target.starts_with(&path)).count()
    };
    assert_eq!(open(), 3, "directory, card and segment");
    device.close();
    assert_eq!(open(), 0);
    let gone = device.open_segment(1, true, &budget).err();
    assert_eq!(gone, Some(DiskError::Gone));
}

#[test]
fn devices_that_leave_no_room_for_a_segment_are_refused() {
    let budget = Budget::new(5);
    assert!(budget.pin(2) && budget.pin(2));
    assert!(!budget.pin(1), "a segment must be possible");
    assert_eq!(budget.usage(), (4, 5));
    budget.unpin(2);
    assert!(budget.pin(1));
}

#[test]
fn a_card_that_was_replaced_while_it_was_opened_is_no_claim() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("DEVICE");
    let new = scratch.path().join("DEVICE.new");
    let opened = std::fs::File::create(&path).unwrap();
    assert!(directory::is_at(&opened, &path).unwrap());
    std::fs::File::create(&new).unwrap();
    std::fs::rename(&new, &path).unwrap();
    assert!(!directory::is_at(&opened, &path).unwrap());
    std::fs::remove_file(&path).unwrap();
    assert!(!directory::is_at(&opened, &path).unwrap());
}

#[test]
fn a_segment_of_a_device_that_grew_is_synced_by_a_flush_and_closed_with_the_device() {
    let scratch = tempfile::tempdir().unwrap();
    let budget = Budget::new(8);
    let device = device(&scratch, 2);
    device.grow(Some(300 * SEGMENT), &budget).unwrap();
    device.open_segment(299, true, &budget).unwrap();
    assert_eq!(device.soiled(), []);
    device.segment(299).soil();
    assert_eq!(device.soiled(), [(299, 1)]);
    device.sync_segment(299, 1, &budget).unwrap();
    assert_eq!(device.soiled(), []);
    assert_eq!(budget.open_count(), 1);
    device.close();
    assert_eq!(budget.open_count(), 0);
    assert!(device.segment(299).handle(&budget).is_none());
}
