//! Pools kept as files: written once and opened by all later versions.
//!
//! Each device has a file; those after the first have their number in the name. A file has every
//! block of the device that is not all zeroes: its number (8 bytes), the number of runs (2), and
//! for each run offset (2), length (2) and bytes; numbers are little-endian. 65,535 runs mean that
//! the block equals an earlier block, whose number (8) follows. Files are never written again: an
//! engine that cannot read one would lose users' data. With `EVERGLADE_GOLDEN=write` the tests
//! create missing files.

use std::collections::HashMap;
use std::path::PathBuf;

use everglade_env::BLOCK_SIZE;
use everglade_testing::engine::EngineMaker;
use everglade_testing::system::Maker;
use everglade_testing::world::{Cut, DeviceSpec, Images, Keep};
use everglade_testing::{Seed, SimWorld};

const SAME: u16 = u16::MAX;

fn path(name: &str, device: usize) -> PathBuf {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let file = match device {
        0 => format!("{name}.blocks"),
        other => format!("{name}-{other}.blocks"),
    };
    folder.join("fixtures/v1").join(file)
}

/// A pool of version 1 on one device; `make` made it.
pub(super) fn load(
    name: &str,
    maker: EngineMaker,
    pool_bytes: u64,
    make: fn() -> Images,
) -> Images {
    load_on(name, &maker.devices(pool_bytes), make)
}

/// A pool of version 1 on these devices.
pub(super) fn load_on(name: &str, devices: &[DeviceSpec], make: fn() -> Images) -> Images {
    let wish = std::env::var("EVERGLADE_GOLDEN").is_ok_and(|wish| wish == "write");
    if wish && !path(name, 0).exists() {
        let images = make();
        std::fs::create_dir_all(path(name, 0).parent().expect("a folder")).expect("a folder");
        for device in 0..devices.len() {
            std::fs::write(path(name, device), encode(&images, device)).expect("written");
        }
    }
    let empty = SimWorld::new(Seed(1), 1, devices);
    let mut images = empty.after_cut(Cut::whole(Keep::Nothing));
    for device in 0..devices.len() {
        let bytes = std::fs::read(path(name, device)).expect("it is in the repository");
        decode(&bytes, &mut images, device);
    }
    images
}

fn encode(images: &Images, device: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let short = |number: usize| u16::try_from(number).expect("at most 4,096").to_le_bytes();
    let mut known: HashMap<Vec<u8>, u64> = HashMap::new();
    for (block, page) in images.image(device).blocks() {
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

fn decode(mut bytes: &[u8], images: &mut Images, device: usize) {
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
            page.copy_from_slice(&images.image(device).read(same)[..]);
            images.put(device, block, &page);
            continue;
        }
        for _ in 0..runs {
            let from = usize::from(u16::from_le_bytes(take(&mut bytes)));
            let length = usize::from(u16::from_le_bytes(take(&mut bytes)));
            let (run, rest) = bytes.split_at(length);
            page[from..from + length].copy_from_slice(run);
            bytes = rest;
        }
        images.put(device, block, &page);
    }
}
