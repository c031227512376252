//! Damaged blocks: an error where the damage is, never other bytes, and nothing for the neighbours.

use everglade_format::Block;
use everglade_format::indirect::{BlockKind, Header};
use everglade_format::metafile::ACTIVE_MAP;

use super::{
    BLOCK, BLOCK_U32, Medium, assert_refused_untouched, assert_serves, noise, open, serve,
    with_blocks,
};
use crate::manage::ask;
use crate::running::{TestDir, code, stdout};
use crate::waiting::event;
use crate::wire::EIO;

fn at(number: u64) -> u64 {
    number * BLOCK as u64
}

/// Where blocks are whose header is like this: of the newest consistency point or of earlier ones.
pub(super) fn headed(medium: &Medium, like: impl Fn(&Header) -> bool) -> Vec<u64> {
    let found = medium.find(|bytes| {
        let block: &Block = bytes.try_into().expect("a block");
        // Client data is noise here, and no noise is a header of a small file.
        Header::decode(block).is_ok_and(|header| header.file.0 < 1000 && like(&header))
    });
    assert!(!found.is_empty(), "there is such a block");
    found
}

#[test]
fn a_damaged_block_is_an_error_and_its_neighbours_are_served() {
    let dir = with_blocks(&[1, 2, 3]);
    let medium = Medium::of(&dir);
    let victim = noise(2);
    let found = medium.find(|block| block == victim);
    assert_eq!(found.len(), 1, "written once");
    medium.flip(found[0]);

    let report = dir.run(&["check"]);
    assert_eq!(code(&report), 1);
    let report = stdout(&report);
    assert!(
        report.contains("tag-mismatch") && report.contains("fbn 2"),
        "{report}"
    );

    let server = serve(&dir);
    let mut client = open(&server);
    for _ in 0..2 {
        assert_eq!(client.read(at(2), BLOCK_U32), Err(EIO));
        assert_eq!(client.read(at(2) + 1, 1), Err(EIO), "nor a part of it");
        assert_eq!(client.read(at(1), 3 * BLOCK_U32), Err(EIO));
        assert_eq!(client.read(at(1), BLOCK_U32), Ok(noise(1)));
        assert_eq!(client.read(at(3), BLOCK_U32), Ok(noise(3)));
        assert_eq!(client.read(at(4), BLOCK_U32), Ok(vec![0; BLOCK]));
    }
    // Nobody needs the damaged bytes to replace them.
    client.write(at(2), &noise(22)).expect("written");
    client.flush().expect("flushed");
    assert_eq!(client.read(at(2), BLOCK_U32), Ok(noise(22)));
    drop(client);
    server.stop();
    crate::clients::assert_clean(&dir);
    assert_serves(&dir, &[1, 3]);
}

/// An operator who finds only numbers of blocks in the aggregate does not know which file to
/// restore, and one who finds no line in the log does not know that there is anything to restore.
#[test]
fn a_damaged_block_is_a_line_of_the_log_and_an_event_that_outlives_the_daemon() {
    let dir = with_blocks(&[1, 2, 3]);
    let medium = Medium::of(&dir);
    let victim = noise(2);
    medium.flip(medium.find(|block| block == victim)[0]);
    let server = serve(&dir);
    let mut client = open(&server);
    for _ in 0..3 {
        assert_eq!(client.read(at(1), 3 * BLOCK_U32), Err(EIO));
        assert_eq!(client.read(at(2), BLOCK_U32), Err(EIO));
    }
    // The condition follows from it, and is told after it.
    event(&dir, "EVG-4005  aggregate aggr0");
    let (part, alert) = (
        "ERROR vol0/lun0: bytes 8192 up to 12288 cannot be read: ",
        "ERROR aggregate aggr0: 1 block cannot be read",
    );
    let log = server.log();
    for part in [part, alert] {
        let lines: Vec<_> = log.lines().filter(|line| line.contains(part)).collect();
        assert_eq!(lines.len(), 1, "{part}: {log}");
        assert!(lines[0].ends_with("(EVG-4005)"), "{lines:?}");
    }
    let shown = ask(&dir, &["aggregate", "show", "aggr0"]);
    assert!(
        shown.contains("vol0/lun0: bytes 8192 up to 12288"),
        "{shown}"
    );
    drop(client);
    server.stop();

    let server = serve(&dir);
    let events = ask(&dir, &["event", "show", "--where", "object=vol0/lun0"]);
    assert!(events.contains("bytes 8192 up to 12288"), "{events}");
    let numbers = ask(
        &dir,
        &["event", "show", "--columns", "number", "--no-header"],
    );
    let numbers: Vec<u64> = numbers
        .lines()
        .map(|number| number.trim().parse().expect("a number"))
        .collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    server.stop();
}

#[test]
fn part_of_a_damaged_block_cannot_be_written_and_a_discard_frees_it() {
    let dir = with_blocks(&[1, 2, 3]);
    let medium = Medium::of(&dir);
    let victim = noise(2);
    medium.flip(medium.find(|block| block == victim)[0]);
    let server = serve(&dir);
    let mut client = open(&server);
    // Its other bytes are unknown, so nothing right could be stored: now, or when it is read.
    let accepted = client.write(at(2) + 100, b"part").is_ok();
    assert_eq!(accepted, client.flush().is_ok() && accepted);
    assert_eq!(client.read(at(2), BLOCK_U32), Err(EIO));
    assert_eq!(client.read(at(3), BLOCK_U32), Ok(noise(3)));
    client.trim(at(2), BLOCK_U32).expect("trimmed");
    assert_eq!(client.read(at(2), BLOCK_U32), Ok(vec![0; BLOCK]));
    client.flush().expect("flushed");
    drop(client);
    server.stop();
    crate::clients::assert_clean(&dir);
    assert_serves(&dir, &[1, 3]);
}

/// Blocks 1, 300 and 600, which are in different spans, so that each has pointers of its own; those
/// of block 300 are damaged.
fn with_damaged_pointers() -> (TestDir, Medium, Vec<u64>) {
    let dir = with_blocks(&[1, 300, 600]);
    let medium = Medium::of(&dir);
    let second_span = |header: &Header| {
        header.kind == BlockKind::VolumeIndirect
            && header.level == 1
            && header.index == 1
            && header.file.0 >= 64
    };
    let damaged = headed(&medium, second_span);
    damaged.iter().for_each(|at| medium.flip(*at));
    (dir, medium, damaged)
}

#[test]
fn a_change_below_damaged_pointers_is_stored_and_what_they_named_is_lost() {
    let (dir, medium, _damaged) = with_damaged_pointers();
    let server = serve(&dir);
    let mut client = open(&server);
    client.write(at(301), &noise(7)).expect("accepted");
    client.write(at(2), &noise(2)).expect("written");
    client.flush().expect("flushed");
    assert_eq!(client.read(at(300), BLOCK_U32), Err(EIO));
    drop(client);
    server.stop();

    // Not a problem of the aggregate any more, and not forgotten either.
    let report = dir.run(&["check"]);
    assert_eq!(code(&report), 0, "{}", stdout(&report));
    assert!(stdout(&report).contains("lost"), "{}", stdout(&report));
    assert_serves(&dir, &[1, 2, 600]);
    let server = serve(&dir);
    let mut client = open(&server);
    assert_eq!(client.read(at(301), BLOCK_U32), Ok(noise(7)));
    assert_eq!(client.read(at(300), BLOCK_U32), Err(EIO));
    assert_eq!(client.read(at(302), BLOCK_U32), Err(EIO), "a hole, perhaps");
    // What is written or given up is as good as ever.
    client.write(at(300), &noise(300)).expect("written");
    client.trim(at(302), BLOCK_U32).expect("trimmed");
    client.flush().expect("flushed");
    drop(client);
    server.stop();
    assert_serves(&dir, &[1, 2, 300, 600]);
    let server = serve(&dir);
    let mut client = open(&server);
    assert_eq!(client.read(at(302), BLOCK_U32), Ok(vec![0; BLOCK]));
    drop(client);
    server.stop();
    assert_eq!(code(&dir.run(&["check"])), 0);
    drop(medium);
}

#[test]
fn what_the_journal_has_for_damaged_blocks_does_not_keep_the_rest_from_being_served() {
    let (dir, medium, _damaged) = with_damaged_pointers();
    let victim = noise(600);
    medium.flip(medium.find(|block| block == victim)[0]);
    let server = serve(&dir);
    let mut client = open(&server);
    for (offset, what) in [
        (at(300) + 100, "below lost pointers"),
        (at(600) + 7, "damaged"),
    ] {
        for round in 0..3 {
            let accepted = client.write(offset + round * 512, b"part");
            assert!(accepted.is_ok(), "{what}: {accepted:?}");
        }
    }
    client.trim(at(301), BLOCK_U32).expect("trimmed");
    client.write(at(2), &noise(2)).expect("written");
    client.flush().expect("the journal has it");
    drop(client);
    server.kill();
    for round in 0..2 {
        let server = serve(&dir);
        let mut client = open(&server);
        assert_eq!(client.read(at(300), BLOCK_U32), Err(EIO), "round {round}");
        assert_eq!(client.read(at(600), BLOCK_U32), Err(EIO), "round {round}");
        assert_eq!(client.read(at(301), BLOCK_U32), Ok(vec![0; BLOCK]));
        assert_eq!(client.read(at(1), BLOCK_U32), Ok(noise(1)));
        assert_eq!(client.read(at(2), BLOCK_U32), Ok(noise(2)));
        drop(client);
        server.kill();
    }
}

#[test]
fn damaged_allocation_maps_are_derived_and_nothing_flushed_is_lost() {
    let dir = with_blocks(&[1, 300, 600]);
    let medium = Medium::of(&dir);
    // Which blocks are in use: nothing can be stored without it.
    let damaged = headed(&medium, |header| {
        header.kind == BlockKind::AggregateIndirect && header.file == ACTIVE_MAP
    });
    assert!(!damaged.is_empty());
    damaged.iter().for_each(|at| medium.flip(*at));
    let server = serve(&dir);
    let mut client = open(&server);
    client.write(at(300), &noise(7)).expect("accepted");
    client.flush().expect("the journal has it");
    drop(client);
    // The stop's own consistency point is the first that needs the map.
    server.stop();
    crate::clients::assert_clean(&dir);
    let server = serve(&dir);
    let mut client = open(&server);
    assert_eq!(client.read(at(300), BLOCK_U32), Ok(noise(7)));
    assert_eq!(client.read(at(1), BLOCK_U32), Ok(noise(1)));
    client.write(at(2), &noise(2)).expect("it can be written");
    client.flush().expect("and made durable");
    drop(client);
    server.stop();
    crate::clients::assert_clean(&dir);
    assert_serves(&dir, &[1, 2, 600]);
}

#[test]
fn damaged_pointers_of_a_lun_are_errors_and_the_server_goes_on() {
    let (dir, medium, damaged) = with_damaged_pointers();
    let mut server = serve(&dir);
    let mut client = open(&server);
    assert_eq!(client.read(at(300), BLOCK_U32), Err(EIO));
    assert_eq!(client.read(at(301), BLOCK_U32), Err(EIO), "a hole, perhaps");
    assert_eq!(client.read(at(1), BLOCK_U32), Ok(noise(1)));
    assert_eq!(client.read(at(600), BLOCK_U32), Ok(noise(600)));
    client.write(at(2), &noise(2)).expect("written");
    client.flush().expect("flushed: nothing there is dirty");
    assert!(server.is_running());
    drop(client);
    server.stop();

    damaged.iter().for_each(|at| medium.flip(*at));
    assert_serves(&dir, &[1, 2, 300, 600]);
    crate::clients::assert_clean(&dir);
}

#[test]
fn damaged_inodes_or_roots_are_refused() {
    let dir = with_blocks(&[1]);
    let medium = Medium::of(&dir);
    let of_kind = |kind| move |header: &Header| header.kind == kind;
    for damaged in [
        headed(&medium, of_kind(BlockKind::Inodes)),
        headed(&medium, of_kind(BlockKind::AggregateIndirect)),
    ] {
        damaged.iter().for_each(|at| medium.flip(*at));
        assert_refused_untouched(&dir, &["aggregate aggr0", "expected", "everglade check"]);
        assert_eq!(code(&dir.run(&["check"])), 1, "and it names the block");
        damaged.iter().for_each(|at| medium.flip(*at));
    }
    assert_serves(&dir, &[1]);
}
