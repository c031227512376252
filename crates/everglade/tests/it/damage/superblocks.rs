//! Damaged superblocks: the one before the newest takes over; without any, the start is refused.

use everglade_format::CpNumber;
use everglade_format::label::{SUPERBLOCK_OFFSETS, label_offsets, superblock_slot};

use super::{BLOCK, Medium, assert_refused_untouched, assert_serves, noise, open, serve};
use crate::clients::assert_clean;
use crate::running::{TestDir, code};

const CP_AT: usize = 16;

/// Offsets of the two copies of a slot.
fn copies(medium: &Medium, slot: usize) -> [u64; 2] {
    label_offsets(medium.size_bytes).map(|label| label + SUPERBLOCK_OFFSETS[slot])
}

fn cp_at(medium: &Medium, offset: u64) -> CpNumber {
    let block = medium.read(offset, BLOCK);
    let bytes = block[CP_AT..CP_AT + 8].try_into().expect("eight bytes");
    CpNumber(u64::from_le_bytes(bytes))
}

/// The newest consistency point on the medium.
fn newest(medium: &Medium) -> CpNumber {
    let slots = [0, 1].map(|slot| cp_at(medium, copies(medium, slot)[0]));
    slots.into_iter().max().expect("two")
}

/// One consistency point for each block, by a flush; the last may share one with the stop.
fn with_a_consistency_point_each(numbers: &[u64]) -> TestDir {
    let dir = TestDir::new();
    let server = serve(&dir);
    let mut client = open(&server);
    for number in numbers {
        let at = number * BLOCK as u64;
        client.write(at, &noise(*number)).expect("written");
        client.flush().expect("flushed");
    }
    drop(client);
    server.stop();
    dir
}

#[test]
fn a_torn_newest_superblock_falls_back_to_the_one_before() {
    let dir = with_a_consistency_point_each(&[1, 2, 3]);
    let medium = Medium::of(&dir);
    let last = newest(&medium);
    for at in copies(&medium, superblock_slot(last)) {
        // Half of the block is of the write before the last, as after a power cut.
        medium.wipe(at + BLOCK as u64 / 2, BLOCK / 2);
    }
    assert_clean(&dir);
    // What was stopped in good order is missing, so somebody has to accept that.
    assert_refused_untouched(&dir, &["which was seen before", "--accept-rollback aggr0@"]);
    let accepted = format!("aggr0@{}", last.0 - 1);
    dir.serve(&["--accept-rollback", &accepted]).stop();
    assert_serves(&dir, &[1, 2]);
    assert!(newest(&medium) >= last, "what was lost is written again");
    assert_clean(&dir);
    assert_serves(&dir, &[1, 2]);
}

#[test]
fn one_copy_of_the_newest_superblock_is_enough() {
    for copy in [0, 1] {
        let dir = with_a_consistency_point_each(&[1, 2, 3]);
        let medium = Medium::of(&dir);
        let slot = superblock_slot(newest(&medium));
        medium.flip(copies(&medium, slot)[copy]);
        assert_serves(&dir, &[1, 2, 3]);
        assert_clean(&dir);
    }
}

#[test]
fn without_any_superblock_the_start_is_refused() {
    let dir = with_a_consistency_point_each(&[1, 2]);
    let medium = Medium::of(&dir);
    let all = [copies(&medium, 0), copies(&medium, 1)].concat();
    all.iter().for_each(|at| medium.flip(*at));
    let parts = [
        "aggregate aggr0 cannot be opened",
        "superblock code",
        "expected a valid superblock in one of four places",
        "Nothing was changed",
    ];
    assert_refused_untouched(&dir, &parts);
    assert_eq!(code(&dir.run(&["check"])), 2);
    all.iter().for_each(|at| medium.flip(*at));
    assert_serves(&dir, &[1, 2]);

    let before: Vec<_> = all.iter().map(|at| medium.wipe(*at, BLOCK)).collect();
    assert_refused_untouched(&dir, &["no superblock was ever written"]);
    for (at, bytes) in all.iter().zip(before) {
        medium.write(*at, &bytes);
    }
    assert_serves(&dir, &[1, 2]);
}
