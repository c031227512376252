//! Clones that are split, or were: the place of the split, and slots.

use everglade_check::Kind;
use everglade_format::volume::Split;
use everglade_format::{Layer, Pointer, Pvbn};
use everglade_testing::Rng;

use super::atlas::{Atlas, Volume};
use super::clones::FOLLOWS_CLONE;
use super::seal::change_pointer;
use super::snapshots::{Record, all_records, roots};
use super::{Damage, Way, pick};

pub(super) const WAYS: &[Way] = &[
    ("split-farther-than-it-is", ahead),
    ("split-not-as-far-as-it-is", behind),
    ("split-forgotten", forgotten),
    ("split-done-too-early", done_early),
    ("split-beyond-its-end", beyond),
    ("hole-below-the-place-of-a-split", hole),
    ("slot-above-the-place-of-a-split", slot_above),
    ("tag-of-a-copied-block", tag),
];

/// A clone that is being split: its base, how far it is, and the vvbns of the base.
struct Splitting<'a> {
    volume: &'a Volume,
    /// Vvbns that have slots, and vvbns that have none yet.
    copied: Vec<u64>,
    left: Vec<u64>,
    end: u64,
}

fn splitting(atlas: &Atlas) -> Vec<Splitting<'_>> {
    let all = all_records(atlas);
    let base = |volume: &Volume| -> Option<&Record<'_>> {
        let id = volume.superblock.volume;
        let mut own = all.iter().filter(|it| it.volume.superblock.volume == id);
        own.find(|it| it.record.id.0 == 1)
    };
    let mut found = Vec::new();
    for volume in atlas.volumes.values() {
        let Some(next) = volume.superblock.snapshots.split.next() else {
            continue;
        };
        let Some(base) = base(volume) else { continue };
        let end = base.record.active_map.block_count() * everglade_format::BITS_PER_BLOCK;
        let held = volume.places.keys().copied();
        let held = held.filter(|vvbn| *vvbn > 1 && base.holds(*vvbn));
        let (copied, left) = held.partition(|vvbn| *vvbn < next);
        found.push(Splitting {
            volume,
            copied,
            left,
            end,
        });
    }
    found
}

fn some<'a>(
    atlas: &'a Atlas,
    rng: &mut Rng,
    wanted: impl Fn(&Splitting<'_>) -> bool,
) -> Option<Splitting<'a>> {
    let mut all = splitting(atlas);
    all.retain(wanted);
    pick(rng, all)
}

/// The verifier keeps the first hundred wrong slots, so the number is not among the words.
fn words(volume: &Volume) -> Vec<String> {
    vec![format!("volume {}", volume.fs.name)]
}

fn moved(split: Split, next: u64) -> Split {
    match split {
        Split::Stopped { .. } => Split::Stopped { next },
        _ => Split::Copying { next },
    }
}

fn ahead(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let it = some(atlas, rng, |it| !it.left.is_empty())?;
    let vvbn = pick(rng, it.left)?;
    let damage = roots(it.volume, Kind::ContainerHole, move |roots| {
        roots.split = moved(roots.split, vvbn + 1);
    });
    let words = words(it.volume);
    Some(Damage { words, ..damage })
}

fn behind(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let it = some(atlas, rng, |it| !it.copied.is_empty())?;
    let vvbn = pick(rng, it.copied)?;
    let damage = roots(it.volume, Kind::ContainerExtra, move |roots| {
        roots.split = moved(roots.split, vvbn);
    });
    let words = words(it.volume);
    Some(Damage { words, ..damage })
}

fn forgotten(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let it = some(atlas, rng, |it| !it.copied.is_empty())?;
    let damage = roots(it.volume, Kind::ContainerExtra, |roots| {
        roots.split = Split::None;
    });
    let words = words(it.volume);
    Some(Damage { words, ..damage })
}

fn done_early(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let it = some(atlas, rng, |it| !it.left.is_empty())?;
    let damage = roots(it.volume, Kind::ContainerHole, |roots| {
        roots.split = Split::Done;
        roots.base = None;
    });
    Some(damage.along(FOLLOWS_CLONE))
}

fn beyond(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let it = some(atlas, rng, |_| true)?;
    let end = it.end;
    let damage = roots(it.volume, Kind::SnapshotRoots, move |roots| {
        roots.split = moved(roots.split, end + 1);
    });
    Some(damage.along(&[Kind::ContainerHole]))
}

/// Returns the slot of a vvbn in the clone's own container.
fn own_slot(atlas: &Atlas, volume: &Volume, vvbn: u64) -> Option<(super::Spot, u64)> {
    let container = volume.superblock.volume.0;
    let spot = atlas
        .aggregate
        .spot(container, 1, vvbn / everglade_format::SPAN);
    let tree = &atlas.aggregate.files[&container];
    let exists = tree.nodes.contains_key(&(1, spot.index));
    exists.then_some((spot, vvbn % everglade_format::SPAN))
}

fn hole(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let it = some(atlas, rng, |it| !it.copied.is_empty())?;
    let vvbn = pick(rng, it.copied)?;
    let (spot, slot) = own_slot(atlas, it.volume, vvbn)?;
    let damage = Damage::new(Kind::ContainerHole, words(it.volume));
    let damage = damage.along(&[Kind::Leaked, Kind::BlockCount, Kind::UsedCount]);
    Some(damage.spoil(spot, move |block| {
        change_pointer(block, slot, Layer::Aggregate, |it| *it = Pointer::HOLE);
    }))
}

/// Gives a block that is still the parent's a slot with a block of another owner.
fn slot_above(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let it = some(atlas, rng, |it| !it.left.is_empty())?;
    let vvbn = pick(rng, it.left)?;
    let (spot, slot) = own_slot(atlas, it.volume, vvbn)?;
    let pvbn = it.volume.places[&vvbn];
    let tag = atlas.key.tag(atlas.content(pvbn));
    let damage = Damage::new(Kind::ContainerExtra, words(it.volume));
    let damage = damage.along(&[
        Kind::DoubleReference,
        Kind::ContextOwner,
        Kind::BlockCount,
        Kind::UsedCount,
    ]);
    Some(damage.spoil(spot, move |block| {
        change_pointer(block, slot, Layer::Aggregate, |it| {
            (it.pvbn, it.tag) = (Pvbn(pvbn), tag);
        });
    }))
}

fn tag(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let it = some(atlas, rng, |it| !it.copied.is_empty())?;
    let vvbn = pick(rng, it.copied)?;
    let (spot, slot) = own_slot(atlas, it.volume, vvbn)?;
    let damage = Damage::new(Kind::ContainerTag, words(it.volume));
    let damage = damage.along(&[Kind::TagMismatch, Kind::ContextTag, Kind::UsedCount]);
    Some(damage.spoil(spot, move |block| {
        change_pointer(block, slot, Layer::Aggregate, |it| it.tag.0 ^= 1);
    }))
}

/// A volume that was split, and does not know: its pointers are hints like others.
pub(crate) fn done_forgotten(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let done = atlas
        .volumes
        .values()
        .filter(|it| it.superblock.snapshots.split == Split::Done);
    let volume = pick(rng, done.collect())?;
    Some(roots(volume, Kind::SnapshotRoots, |roots| {
        roots.split = Split::None;
    }))
}

/// A volume that was no clone, and says that it was split.
pub(crate) fn done_for_nothing(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let plain = atlas.volumes.values().filter(|it| {
        let roots = &it.superblock.snapshots;
        roots.split == Split::None && roots.base.is_none() && roots.files.is_some()
    });
    let volume = pick(rng, plain.collect())?;
    Some(roots(volume, Kind::SnapshotRoots, |roots| {
        roots.split = Split::Done;
    }))
}
