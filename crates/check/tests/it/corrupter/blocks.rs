//! Damage to whole blocks: flipped bits, lost sectors, headers of other blocks.

use everglade_check::Kind;
use everglade_env::BLOCK_SIZE;
use everglade_format::bytes::{put, u64_at};
use everglade_testing::{Rng, SimWorld};

use super::atlas::{Atlas, Node, Spot};
use super::{Damage, Way, pick};

pub(super) const WAYS: &[Way] = &[
    ("flipped-data", flipped_data),
    ("flipped-lun-indirect", flipped_lun_indirect),
    ("flipped-metadata", flipped_metadata),
    ("flipped-overflow-leaf", flipped_overflow_leaf),
    ("flipped-volume-superblock", flipped_volume_superblock),
    ("unreadable-data", unreadable_data),
    ("unreadable-metadata", unreadable_metadata),
    ("block-of-another-kind", another_kind),
    ("wrong-level", wrong_level),
    ("block-of-another-file", another_file),
    ("block-of-another-place", another_place),
    ("block-of-another-version", another_version),
    ("stamp-ahead", stamp_ahead),
];

/// Flips a bit of a block on the media.
pub(super) fn flip(atlas: &Atlas, pvbn: u64, rng: &mut Rng) -> impl Fn(&SimWorld) + 'static {
    let (device, offset) = atlas.locate(pvbn);
    let bit = rng.index(BLOCK_SIZE * 8);
    move |world| {
        let storage = world.storage();
        let mut block = [0; BLOCK_SIZE];
        storage.read(device, offset, &mut block).expect("no faults");
        block[bit / 8] ^= 1 << (bit % 8);
        storage.write(device, offset, &block).expect("no faults");
    }
}

pub(super) fn fail(atlas: &Atlas, pvbn: u64) -> impl Fn(&SimWorld) + 'static {
    let (device, offset) = atlas.locate(pvbn);
    move |world| world.fail_block(device, offset / BLOCK_SIZE as u64)
}

fn flipped_data(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let leaf = atlas.leaf(rng)?;
    Some(Damage::new(Kind::TagMismatch, leaf.words()).after(flip(atlas, leaf.pvbn, rng)))
}

fn flipped_lun_indirect(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let (spot, node, lun) = atlas.lun_indirect(rng, 1)?;
    let words = [lun, place_words(spot)];
    Some(Damage::new(Kind::TagMismatch, words).after(flip(atlas, node.pvbn, rng)))
}

/// A block of metadata of any file system, and words that name it.
fn metadata(atlas: &Atlas, rng: &mut Rng) -> Option<(Spot, Node, [String; 2])> {
    let fs = pick(rng, atlas.file_systems().collect())?;
    let (spot, node) = pick(rng, fs.metadata())?;
    let mut title = fs.title(spot.file);
    if fs.volume.is_some() {
        title = format!("volume {}: {title}", fs.name);
        if fs.title(spot.file).starts_with('(') {
            title = fs.title(spot.file);
        }
    }
    Some((spot, node, [title, place_words(spot)]))
}

fn place_words(spot: Spot) -> String {
    match spot.level {
        0 => format!("fbn {}", spot.index),
        level => format!("level {level} block {}", spot.index),
    }
}

fn flipped_metadata(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let (_, node, words) = metadata(atlas, rng)?;
    Some(Damage::new(Kind::TagMismatch, words).after(flip(atlas, node.pvbn, rng)))
}

fn flipped_overflow_leaf(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let of = |fs: &super::atlas::FileSystem| {
        let leaves: Vec<_> = fs.files.get(&3)?.leaves().collect();
        Some((fs.title(3), leaves))
    };
    let logs: Vec<_> = atlas.file_systems().filter_map(of).collect();
    let (title, leaves) = pick(rng, logs)?;
    let (fbn, node) = pick(rng, leaves)?;
    let words = [title, format!("fbn {fbn}")];
    Some(Damage::new(Kind::TagMismatch, words).after(flip(atlas, node.pvbn, rng)))
}

fn flipped_volume_superblock(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let id = pick(rng, atlas.volumes.keys().copied().collect())?;
    let place = atlas.aggregate.files[&id].nodes[&(0, 1)];
    let words = [atlas.volumes[&id].fs.words(), "vvbn 1".into()];
    Some(Damage::new(Kind::TagMismatch, words).after(flip(atlas, place.pvbn, rng)))
}

fn unreadable_data(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let leaf = atlas.leaf(rng)?;
    Some(Damage::new(Kind::ReadError, leaf.words()).after(fail(atlas, leaf.pvbn)))
}

fn unreadable_metadata(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let (_, node, words) = metadata(atlas, rng)?;
    Some(Damage::new(Kind::ReadError, words).after(fail(atlas, node.pvbn)))
}

/// A block that has a header, and words that name it.
fn headed(atlas: &Atlas, rng: &mut Rng) -> Option<(Spot, [String; 2])> {
    for _ in 0..20 {
        let (spot, _, words) = metadata(atlas, rng)?;
        // Maps have none; leaves of the rest do.
        if spot.level > 0 || [1, 4, 5, 6].contains(&spot.file) {
            return Some((spot, words));
        }
    }
    None
}

fn header(atlas: &Atlas, rng: &mut Rng, at: usize, flip: u8) -> Option<Damage> {
    let (spot, words) = headed(atlas, rng)?;
    Some(Damage::new(Kind::HeaderMismatch, words).spoil(spot, move |block| block[at] ^= flip))
}

fn another_kind(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    header(atlas, rng, 0, 1)
}

fn wrong_level(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    header(atlas, rng, 1, 1)
}

fn another_version(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    header(atlas, rng, 1, 0x10)
}

fn another_file(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    header(atlas, rng, 8, 1)
}

fn another_place(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    header(atlas, rng, 12, 1)
}

fn stamp_ahead(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let (spot, words) = headed(atlas, rng)?;
    let cp = atlas.superblock.cp.0 + rng.between(1, 1000);
    Some(
        Damage::new(Kind::StampAhead, words).spoil(spot, move |block| {
            let stamp = u64_at(block, 0) & 0xffff | cp << 16;
            put(block, 0, stamp.to_le_bytes());
        }),
    )
}
