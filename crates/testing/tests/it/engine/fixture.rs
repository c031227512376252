//! Pools kept as files: written once and opened by all later versions.
//!
//! A file has every block of the device that is not all zeroes: its number (8 bytes), the number of
//! runs (2), and for each run offset (2), length (2) and bytes; numbers are little-endian. 65,535
//! runs mean that the block equals an earlier block, whose number (8) follows. Files are never
//! written again: an engine that cannot read one would lose users' data. With
//! `EVERGLADE_GOLDEN=write` the tests create missing files.

use std::collections::HashMap;
use std::path::PathBuf;

use everglade_env::BLOCK_SIZE;
use everglade_testing::engine::EngineMaker;
use everglade_testing::system::Maker;
use everglade_testing::world::{Cut, Images, Keep};
use everglade_testing::{Seed, SimWorld};

const SAME: u16 = u16::MAX;

fn path(name: &str) -> PathBuf {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    folder.join("fixtures/v1").join(format!("{name}.blocks"))
}

/// A pool of version 1 on one device; `make` made it.
pub(super) fn load(
    name: &str,
    maker: EngineMaker,
    pool_bytes: u64,
    make: fn() -> Images,
) -> Images {
    let path = path(name);
    if std::env::var("EVERGLADE_GOLDEN").is_ok_and(|wish| wish == "write") && !path.exists() {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(&path, encode(&make())).expect("written");
    }
    let bytes = std::fs::read(path).expect("it is in the repository");
    let empty = SimWorld::new(Seed(1), 1, &maker.devices(pool_bytes));
    let mut images = empty.after_cut(Cut::whole(Keep::Nothing));
    decode(&bytes, &mut images);
    images
}

fn encode(images: &Images) -> Vec<u8> {
    let mut bytes = Vec::new();
    let short = |number: usize| u16::try_from(number).expect("at most 4,096").to_le_bytes();
    let mut known: HashMap<Vec<u8>, u64> = HashMap::new();
    for (block, page) in images.image(0).blocks() {
        let mut runs: Vec<(usize, usize)> = Vec::new();
        for at in (0..BLOCK_SIZE).filter(|at| page[*at] != 0) {
            match runs.last_mut() {
                // A few zeroes are shorter than another run.
                Some((from, length)) if at - (*from + *length) < 4 => *length = at + 1 - *from,
                _ => runs.push((at, 1)),
            }
        }
        if runs.is_empty() {
            continue;
        }
        bytes.extend(block.to_le_bytes());
        if let Some(same) = known.get(&page[..]) {
            bytes.extend(SAME.to_le_bytes());
            bytes.extend(same.to_le_bytes());
            continue;
        }
        known.insert(page[..].to_vec(), block);
        bytes.extend(short(runs.len()));
        for (from, length) in runs {
            bytes.extend(short(from));
            bytes.extend(short(length));
            bytes.extend(&page[from..from + length]);
        }
    }
    bytes
}

fn decode(mut bytes: &[u8], images: &mut Images) {
    fn take<const N: usize>(bytes: &mut &[u8]) -> [u8; N] {
        let (taken, rest) = bytes.split_first_chunk().expect("a whole fixture");
        *bytes = rest;
        *taken
    }
    while !bytes.is_empty() {
        let block = u64::from_le_bytes(take(&mut bytes));
        let mut page = [0; BLOCK_SIZE];
        let runs = u16::from_le_bytes(take(&mut bytes));
        if runs == SAME {
            let same = u64::from_le_bytes(take(&mut bytes));
            page.copy_from_slice(&images.image(0).read(same)[..]);
            images.put(0, block, &page);
            continue;
        }
        for _ in 0..runs {
            let from = usize::from(u16::from_le_bytes(take(&mut bytes)));
            let length = usize::from(u16::from_le_bytes(take(&mut bytes)));
            let (run, rest) = bytes.split_at(length);
            page[from..from + length].copy_from_slice(run);
            bytes = rest;
        }
        images.put(0, block, &page);
    }
}
