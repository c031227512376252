//! Metadata damaged by one bit: the pool opens, everything is read, what was flushed is there,
//! again and again.
//!
//! Whether it can be changed as well is another question: a block that can be derived from others
//! may have been mended. Then it is online; otherwise it is read-only, and never closed.

use std::time::{Duration, Instant};

use everglade_format::indirect::{BlockKind, Header, Indirect};
use everglade_format::metafile::{ACTIVE_MAP, FIRST_FILE, OVERFLOW};
use everglade_format::{Block, FileId, Layer, SPAN};

use super::blocks::headed;
use super::{BLOCK, BLOCK_U32, Medium, noise, with_blocks};
use crate::manage::ask_json;
use crate::running::{Server, TestDir, code, stderr, stdout};
use crate::wire::{Client, EIO, EPERM};

/// Blocks of the LUN that are written before anything is damaged: in three regions.
const BEFORE: [u64; 4] = [1, 2, 300, 600];
const PATIENCE: Duration = Duration::from_secs(30);

fn at(number: u64) -> u64 {
    number * BLOCK as u64
}

fn serve(dir: &TestDir) -> Server {
    dir.serve(&[&super::SERVE[..], &["--cp-interval", "1s"]].concat())
}

/// The newest level-1 block of a file.
pub(super) fn level1(medium: &Medium, kind: BlockKind, file: FileId) -> u64 {
    newest(medium, |it| {
        it.kind == kind && it.level == 1 && it.file == file
    })
}

/// The newest block with such a header.
fn newest(medium: &Medium, like: impl Fn(&Header) -> bool) -> u64 {
    let stamp = |at: &u64| header(medium, *at).cp;
    let found = headed(medium, like).into_iter().max_by_key(stamp);
    found.expect("there is one")
}

fn block(medium: &Medium, at: u64) -> Box<Block> {
    let bytes = medium.read(at, BLOCK);
    Box::new(bytes.try_into().expect("a block"))
}

fn header(medium: &Medium, at: u64) -> Header {
    Header::decode(&block(medium, at)).expect("it was found by it")
}

/// The first leaf of a metafile that is in use.
fn leaf(medium: &Medium, layer: Layer, file: FileId) -> u64 {
    let above = block(medium, level1(medium, BlockKind::indirect(layer), file));
    let pointers = (0..SPAN).map(|slot| Indirect(&above).pointer(slot, layer).expect("a pointer"));
    let first = pointers.into_iter().find(|pointer| pointer.has_block());
    medium.locate(first.expect("it has a leaf").pvbn)
}

/// Waits until a consistency point with the changes is committed, or the aggregate is read-only.
/// True if it is.
fn wait_for_cp(dir: &TestDir, before: u64) -> bool {
    let since = Instant::now();
    loop {
        let aggregate = ask_json(dir, &["aggregate", "show", "aggr0"]);
        if aggregate["state"] == "read-only" {
            return true;
        }
        let cp = aggregate["committed_cp"].as_u64().expect("a number");
        if cp > before {
            return false;
        }
        assert!(since.elapsed() < PATIENCE, "{aggregate}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn committed(dir: &TestDir) -> u64 {
    let aggregate = ask_json(dir, &["aggregate", "show", "aggr0"]);
    aggregate["committed_cp"].as_u64().expect("a number")
}

fn connect(server: &Server, export: &str) -> Client {
    let opened = Client::open(&server.tcp, export);
    opened.unwrap_or_else(|error| panic!("{export}: {error}")).0
}

/// All blocks that were flushed, from the LUN and from its snapshot.
#[track_caller]
fn assert_readable(server: &Server, what: &str, changed: &[u64]) {
    let mut client = connect(server, "vol0/lun0");
    for number in BEFORE {
        let wanted = match changed.contains(&number) {
            true => noise(number + 1000),
            false => noise(number),
        };
        assert!(
            client.read(at(number), BLOCK_U32) == Ok(wanted),
            "{what}: block {number}"
        );
    }
    for number in (700..750).filter(|number| changed.contains(number)) {
        let found = client.read(at(number), BLOCK_U32);
        assert!(
            found == Ok(noise(number + 1000)),
            "{what}: block {number}: {:?}",
            found.err()
        );
    }
    let mut client = connect(server, "vol0/lun0@s");
    for number in BEFORE {
        let found = client.read(at(number), BLOCK_U32);
        assert!(
            found == Ok(noise(number)),
            "{what}: block {number} of the snapshot"
        );
    }
}

/// One bit of one block is wrong: 50 writes and a flush are acknowledged, and whatever comes of
/// them, everything that was flushed can be read, before and after restarts.
fn live_with(what: &str, victim: impl Fn(&Medium) -> u64) {
    let dir = with_blocks(&BEFORE);
    let server = serve(&dir);
    let snapshot = dir.run(&["snapshot", "create", "vol0@s"]);
    assert_eq!(code(&snapshot), 0, "{}", stderr(&snapshot));
    // The same bytes at another place: what the snapshot holds goes into the summary map.
    let mut client = connect(&server, "vol0/lun0");
    client.write(at(2), &noise(2)).expect("written");
    client.flush().expect("flushed");
    drop(client);
    server.stop();
    let medium = Medium::of(&dir);
    medium.flip(victim(&medium));

    let server = serve(&dir);
    assert_readable(&server, what, &[]);
    let mut client = connect(&server, "vol0/lun0");
    let changed: Vec<u64> = [1, 300].into_iter().chain(700..748).collect();
    let before = committed(&dir);
    for number in &changed {
        let written = client.write(at(*number), &noise(number + 1000));
        assert_eq!(written, Ok(()), "{what}: block {number}");
    }
    assert_eq!(client.flush(), Ok(()), "{what}: the journal has it");
    let is_read_only = wait_for_cp(&dir, before);
    assert_readable(&server, what, &changed);
    if is_read_only {
        let mut client = connect(&server, "vol0/lun0");
        assert_eq!(client.write(0, &noise(9)), Err(EPERM), "{what}");
        assert_eq!(client.flush(), Ok(()), "{what}: all of it is durable");
        let status = dir.run(&["status"]);
        assert_eq!(code(&status), 8, "{what}");
        assert!(
            stdout(&status).contains("EVG-4008"),
            "{what}: {}",
            stdout(&status)
        );
    }
    server.kill();
    for round in 0..2 {
        let server = serve(&dir);
        assert_readable(&server, &format!("{what}, restart {round}"), &changed);
        server.stop();
    }
}

#[test]
fn a_bit_of_a_volumes_active_map_closes_nothing() {
    live_with("active map of the volume", |medium| {
        leaf(medium, Layer::Volume, ACTIVE_MAP)
    });
}

#[test]
fn a_bit_of_the_aggregates_active_map_closes_nothing() {
    live_with("active map of the aggregate", |medium| {
        leaf(medium, Layer::Aggregate, ACTIVE_MAP)
    });
}

#[test]
fn a_bit_of_an_overflow_file_closes_nothing() {
    live_with("overflow of the aggregate", |medium| {
        leaf(medium, Layer::Aggregate, OVERFLOW)
    });
}

#[test]
fn a_bit_of_a_summary_map_closes_nothing() {
    // The first file of the aggregate is the container; the side files of its first snapshot are
    // next.
    live_with("summary map", |medium| {
        leaf(medium, Layer::Aggregate, FileId(FIRST_FILE.0 + 1))
    });
}

#[test]
fn a_bit_of_a_later_level_1_block_of_a_container_closes_nothing() {
    live_with("container", |medium| {
        newest(medium, |it| {
            let of_container = it.kind == BlockKind::AggregateIndirect && it.file == FIRST_FILE;
            of_container && it.level == 1 && it.index > 0
        })
    });
}

/// The block that shows the volume's own superblock: it is derived from the context map.
#[test]
fn a_container_block_that_hides_a_superblock_is_derived() {
    let dir = with_blocks(&BEFORE);
    let server = serve(&dir);
    let snapshot = dir.run(&["snapshot", "create", "vol0@s"]);
    assert_eq!(code(&snapshot), 0, "{}", stderr(&snapshot));
    server.stop();
    let medium = Medium::of(&dir);
    medium.flip(newest(&medium, |it| {
        let of_container = it.kind == BlockKind::AggregateIndirect && it.file == FIRST_FILE;
        of_container && it.level == 1 && it.index == 0
    }));
    let server = serve(&dir);
    assert_readable(&server, "derived while the aggregate was opened", &[]);
    let status = dir.run(&["status"]);
    assert_eq!(code(&status), 0, "{}", stdout(&status));
    assert!(stdout(&status).contains("EVG-4010"), "{}", stdout(&status));
    let mut client = connect(&server, "vol0/lun0");
    client.write(at(700), &noise(700)).expect("written");
    client.flush().expect("durable");
    drop(client);
    server.stop();
    // The first consistency point has put it where it was.
    crate::clients::assert_clean(&dir);
    super::assert_serves(&dir, &BEFORE);
}

#[test]
fn what_is_only_in_memory_is_read_and_not_called_durable() {
    let dir = with_blocks(&BEFORE);
    let medium = Medium::of(&dir);
    // Of all consistency points, and of all levels: nobody can mend what nothing is known of.
    let of_map = |it: &Header| it.kind == BlockKind::AggregateIndirect && it.file == ACTIVE_MAP;
    let victims = headed(&medium, of_map);
    victims.iter().for_each(|at| medium.flip(*at));
    let server = serve(&dir);
    let mut client = connect(&server, "vol0/lun0");
    let before = committed(&dir);
    client.write(at(700), &noise(7)).expect("accepted");
    if !wait_for_cp(&dir, before) {
        // It was mended: nothing is to be seen here.
        server.stop();
        return;
    }
    let mut client = connect(&server, "vol0/lun0");
    assert_eq!(client.read(at(700), BLOCK_U32), Ok(noise(7)));
    assert_eq!(client.flush(), Err(EIO), "it is in memory only");
    let status = stdout(&dir.run(&["status"]));
    assert!(status.contains("in memory only"), "{status}");
    drop(client);
    server.stop();
}

#[test]
fn luns_whose_names_are_damaged_are_read_by_number() {
    let dir = with_blocks(&BEFORE);
    let medium = Medium::of(&dir);
    let names = headed(&medium, |it: &Header| it.kind == BlockKind::Directory);
    names.iter().for_each(|at| medium.flip(*at));
    let server = serve(&dir);
    let mut client = connect(&server, &format!("volume-{FIRST_FILE}/lun-{FIRST_FILE}"));
    for number in BEFORE {
        assert_eq!(client.read(at(number), BLOCK_U32), Ok(noise(number)));
    }
    assert_eq!(client.write(0, &noise(9)), Err(EPERM));
    let status = dir.run(&["status"]);
    assert_eq!(code(&status), 8);
    for part in ["EVG-4008", "names", "EVG-4005"] {
        assert!(
            stdout(&status).contains(part),
            "{part}: {}",
            stdout(&status)
        );
    }
    drop(client);
    server.stop();
    // Nothing was written: whoever has the old blocks has the old pool.
    names.iter().for_each(|at| medium.flip(*at));
    crate::clients::assert_clean(&dir);
    super::assert_serves(&dir, &BEFORE);
}
