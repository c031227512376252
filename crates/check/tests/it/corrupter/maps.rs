//! Maps at odds with the trees: bits and contexts.

use everglade_check::Kind;
use everglade_format::context::{CONTEXT_BYTES, block_and_slot};
use everglade_format::metafile::{ACTIVE_MAP, CONTEXT_MAP, OVERFLOW};
use everglade_format::{BITS_PER_BLOCK, Block, Context, Owner, Pvbn, Tag, bitmap};
use everglade_testing::Rng;

use super::atlas::{Atlas, FileSystem, Spot};
use super::{Damage, Way, pick};

pub(super) const WAYS: &[Way] = &[
    ("leaked-block", leaked),
    ("leaked-block-of-a-volume", leaked_in_volume),
    ("bit-clear-but-used", clear),
    ("bit-clear-but-used-in-a-volume", clear_in_volume),
    ("bit-of-no-block", outside),
    ("context-missing", context_missing),
    ("context-of-another-owner", context_owner),
    ("context-of-another-content", context_tag),
];

/// The leaf of the active map that has the bit of `number`, and the bit there, if that leaf exists.
fn bit_of(atlas: &Atlas, fs: &FileSystem, number: u64) -> Option<(Spot, u64, bool)> {
    let (leaf, bit) = (number / BITS_PER_BLOCK, number % BITS_PER_BLOCK);
    let node = fs.files.get(&ACTIVE_MAP.0)?.nodes.get(&(0, leaf))?;
    let is_set = bitmap::is_set(atlas.content(node.pvbn), bit);
    Some((fs.spot(ACTIVE_MAP.0, 0, leaf), bit, is_set))
}

/// Returns a free block of the aggregate.
pub(super) fn free_pvbn(atlas: &Atlas, rng: &mut Rng) -> Option<u64> {
    let extents = atlas.geometry.extents();
    (0..50).find_map(|_| {
        let extent = &extents[rng.index(extents.len())];
        let pvbn = extent.base + rng.below(extent.length);
        let (_, _, is_set) = bit_of(atlas, &atlas.aggregate, pvbn)?;
        (!is_set && atlas.geometry.locate(Pvbn(pvbn)).is_some()).then_some(pvbn)
    })
}

/// Returns a volume at random.
fn volume<'a>(atlas: &'a Atlas, rng: &mut Rng) -> Option<&'a FileSystem> {
    pick(
        rng,
        atlas.volumes.values().map(|volume| &volume.fs).collect(),
    )
}

/// A block of the aggregate in use that is not in the overflow file: its spot and number.
fn used(atlas: &Atlas, rng: &mut Rng) -> Option<(Spot, u64)> {
    let mut found = Vec::new();
    let fs = &atlas.aggregate;
    for (file, tree) in fs.files.iter().chain([(&1, &fs.inode_file)]) {
        for ((level, index), node) in &tree.nodes {
            if *file != OVERFLOW.0 || *level > 0 {
                found.push((fs.spot(*file, *level, *index), node.pvbn));
            }
        }
    }
    pick(rng, found)
}

fn leaked(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let pvbn = free_pvbn(atlas, rng)?;
    let (spot, bit, _) = bit_of(atlas, &atlas.aggregate, pvbn)?;
    let words = ["aggregate".into(), format!("pvbn {pvbn}")];
    let along = &[Kind::UsedCount, Kind::AreasUsed, Kind::Frontier];
    let damage = Damage::new(Kind::Leaked, words).along(along);
    Some(damage.spoil(spot, move |block| {
        bitmap::set(block, bit);
    }))
}

fn leaked_in_volume(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let fs = volume(atlas, rng)?;
    let vvbn = (0..50)
        .map(|_| rng.between(2, BITS_PER_BLOCK - 1))
        .find(|vvbn| bit_of(atlas, fs, *vvbn).is_some_and(|(_, _, is_set)| !is_set))?;
    let (spot, bit, _) = bit_of(atlas, fs, vvbn)?;
    let words = [fs.words(), format!("vvbn {vvbn}")];
    let along = &[Kind::UsedCount, Kind::ContainerHole, Kind::Frontier];
    let damage = Damage::new(Kind::Leaked, words).along(along);
    Some(damage.spoil(spot, move |block| {
        bitmap::set(block, bit);
    }))
}

fn clear(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let (owner, pvbn) = used(atlas, rng)?;
    let (spot, bit, _) = bit_of(atlas, &atlas.aggregate, pvbn)?;
    let words = [atlas.aggregate.title(owner.file), format!("pvbn {pvbn}")];
    let along = &[Kind::UsedCount, Kind::AreasUsed];
    let damage = Damage::new(Kind::NotMarked, words).along(along);
    Some(damage.spoil(spot, move |block| {
        bitmap::clear(block, bit);
    }))
}

fn clear_in_volume(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let leaf = atlas.leaf(rng)?;
    let fs = atlas.fs(Some(leaf.volume));
    let (spot, bit, _) = bit_of(atlas, fs, leaf.vvbn)?;
    let [lun, fbn] = leaf.words();
    let words = [lun, fbn, format!("vvbn {}", leaf.vvbn)];
    let damage = Damage::new(Kind::NotMarked, words).along(&[Kind::UsedCount]);
    Some(damage.spoil(spot, move |block| {
        bitmap::clear(block, bit);
    }))
}

fn outside(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    // Pvbn 0, or one behind the last extent that the map still reaches.
    let behind = atlas.geometry.end() + rng.below(1000);
    let pvbn = [0, behind][rng.index(2)];
    let (spot, bit, _) = bit_of(atlas, &atlas.aggregate, pvbn)?;
    let words = ["aggregate".into(), format!("pvbn {pvbn}")];
    let along = &[Kind::UsedCount, Kind::AreasUsed, Kind::Frontier];
    let damage = Damage::new(Kind::MarkedOutside, words).along(along);
    Some(damage.spoil(spot, move |block| {
        bitmap::set(block, bit);
    }))
}

/// Changes the 16 bytes of a context.
fn context(
    atlas: &Atlas,
    damage: Damage,
    pvbn: u64,
    change: impl Fn(&mut Block, usize) + 'static,
) -> Damage {
    let (leaf, slot) = block_and_slot(Pvbn(pvbn));
    let spot = atlas.aggregate.spot(CONTEXT_MAP.0, 0, leaf);
    damage.spoil(spot, move |block| change(block, slot))
}

fn context_missing(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let (owner, pvbn) = used(atlas, rng)?;
    let words = [atlas.aggregate.title(owner.file), format!("pvbn {pvbn}")];
    let damage = Damage::new(Kind::ContextMissing, words);
    Some(context(atlas, damage, pvbn, |block, slot| {
        block[slot * CONTEXT_BYTES..][..CONTEXT_BYTES].fill(0);
    }))
}

fn context_owner(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let (owner, pvbn) = used(atlas, rng)?;
    let words = [atlas.aggregate.title(owner.file), format!("pvbn {pvbn}")];
    let damage = Damage::new(Kind::ContextOwner, words);
    let other_file = rng.one_in(2);
    Some(context(atlas, damage, pvbn, move |block, slot| {
        let mut context = Context::decode_from(block, slot).expect("clean");
        if other_file {
            context.file.0 += 1;
        } else {
            context.owner = match context.owner {
                Owner::File { level, index } => Owner::File {
                    level,
                    index: index + 1,
                },
                Owner::Container { vvbn } => Owner::Container { vvbn: vvbn + 1 },
            };
        }
        context.encode_into(block, slot);
    }))
}

fn context_tag(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let leaf = atlas.leaf(rng)?;
    let title = atlas.aggregate.title(leaf.volume);
    let words = [title, format!("pvbn {}", leaf.pvbn)];
    let damage = Damage::new(Kind::ContextTag, words);
    Some(context(atlas, damage, leaf.pvbn, |block, slot| {
        let mut context = Context::decode_from(block, slot).expect("clean");
        context.tag = Tag(context.tag.0 ^ 4);
        context.encode_into(block, slot);
    }))
}
