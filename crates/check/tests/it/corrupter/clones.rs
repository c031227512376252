//! Clones at odds with their parents: the base, its hold, its map, and its blocks in the parents'
//! containers.

use everglade_check::Kind;
use everglade_format::snapshot::State;
use everglade_format::{FileId, Layer, SPAN, SnapshotId};
use everglade_testing::Rng;

use super::atlas::{Atlas, Spot, Volume};
use super::seal::change_pointer;
use super::snapshots::{Record, active, all_records, any, roots};
use super::{Damage, Way, pick};

/// Ways for images with clones.
pub(super) const OF_CLONES: &[Way] = &[
    ("base-forgotten", base_forgotten),
    ("base-another-snapshot-of-the-parent", base_of_parent),
    ("base-of-another-volume", base_elsewhere),
    ("base-of-a-younger-clone", base_younger),
    ("base-of-itself", base_itself),
    ("base-with-another-map", base_map),
    ("base-gone-in-the-parent", base_gone),
    ("block-of-the-base-gone-in-the-parent", base_hole),
    ("block-of-the-base-another-in-the-parent", base_tag),
];

/// Returns a clone and its parent.
fn clone_of<'a>(atlas: &'a Atlas, rng: &mut Rng) -> Option<(&'a Volume, FileId, SnapshotId)> {
    let clones = atlas.volumes.values().filter_map(|volume| {
        let (parent, snapshot) = volume.superblock.snapshots.base?;
        Some((volume, parent, snapshot))
    });
    pick(rng, clones.collect())
}

/// Problems that may follow if blocks of the base are missing or confused with others.
pub(super) const FOLLOWS_CLONE: &[Kind] = &[
    Kind::ContainerHole,
    Kind::ContainerExtra,
    Kind::ContainerTag,
    Kind::TagMismatch,
    Kind::HeaderMismatch,
    Kind::CloneBase,
    Kind::UsedCount,
    Kind::ExclusiveCount,
    Kind::SnapshotRecord,
    Kind::Uncovered,
    Kind::SummaryLeaked,
    Kind::HoldersApart,
];

/// Further problems that may follow if no container has the blocks of the base, so that images
/// cannot be distinguished by them.
const FOLLOWS_ITSELF: &[Kind] = &[
    Kind::DoubleReference,
    Kind::NotMarked,
    Kind::Leaked,
    Kind::RefCount,
    Kind::BlockCount,
];

fn base_forgotten(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let (volume, ..) = clone_of(atlas, rng)?;
    let damage = roots(volume, Kind::ContainerHole, |it| it.base = None);
    Some(damage.along(FOLLOWS_CLONE))
}

fn base_of_parent(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let (volume, parent, snapshot) = clone_of(atlas, rng)?;
    let all = all_records(atlas);
    let base = all
        .iter()
        .find(|it| it.volume.superblock.volume == parent && it.record.id == snapshot)?;
    let others = all.iter().filter(|it| {
        let is_live = it.volume.superblock.volume == parent && it.record.state == State::Live;
        is_live && it.record.active_map != base.record.active_map
    });
    let other = pick(rng, others.map(|it| it.record.id).collect())?;
    let damage = roots(volume, Kind::CloneBase, move |it| {
        it.base = Some((parent, other));
    });
    Some(damage.along(FOLLOWS_CLONE))
}

fn base_elsewhere(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let (volume, parent, snapshot) = clone_of(atlas, rng)?;
    let others = atlas.volumes.values().map(|it| it.superblock.volume);
    let others = others.filter(|it| *it != parent && *it != volume.superblock.volume);
    // Two clones of one snapshot have the same image as their first: either would do.
    let all = all_records(atlas);
    let image = |of: FileId| {
        let mut of_it = all.iter().filter(|it| it.volume.superblock.volume == of);
        let found = of_it.find(|it| it.record.id == snapshot);
        found.map(|it| it.record.active_map.clone())
    };
    let others = others.filter(|it| image(*it) != image(parent));
    let other = pick(rng, others.collect())?;
    let damage = roots(volume, Kind::CloneBase, move |it| {
        it.base = Some((other, snapshot));
    });
    Some(damage.along(FOLLOWS_CLONE))
}

/// Clones that begin as the same image as a clone, the clone among them.
fn siblings(atlas: &Atlas, volume: &Volume) -> Vec<FileId> {
    let all = all_records(atlas);
    let own = all
        .iter()
        .find(|it| it.volume.superblock.volume == volume.superblock.volume && it.record.id.0 == 1);
    let Some(own) = own else { return Vec::new() };
    let same = all.iter().filter(|it| {
        let is_clone = it.volume.superblock.snapshots.base.is_some();
        is_clone && it.record.id.0 == 1 && it.record.active_map == own.record.active_map
    });
    same.map(|it| it.volume.superblock.volume).collect()
}

/// A volume that was made later cannot have been cloned, whatever it has.
fn base_younger(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let is_before = |a: &Volume, b: FileId| a.superblock.volume < b;
    let pairs = atlas.volumes.values().flat_map(|volume| {
        let younger = siblings(atlas, volume).into_iter();
        younger
            .filter(|it| is_before(volume, *it))
            .map(move |it| (volume, it))
    });
    let (volume, younger) = pick(rng, pairs.collect())?;
    volume.superblock.snapshots.base?;
    let damage = roots(volume, Kind::CloneBase, move |it| {
        it.base = Some((younger, SnapshotId(1)));
    });
    Some(damage.along(FOLLOWS_CLONE))
}

fn base_itself(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let (volume, ..) = clone_of(atlas, rng)?;
    let own = volume.superblock.volume;
    let damage = roots(volume, Kind::CloneBase, move |it| {
        it.base = Some((own, SnapshotId(1)));
    });
    Some(damage.along(FOLLOWS_CLONE).along(FOLLOWS_ITSELF))
}

/// Gives a clone the base record of a clone made earlier from the same snapshot.
pub(crate) fn base_of_an_older_clone(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let made = |id: FileId| atlas.aggregate.files[&id.0].inode.cp_created;
    let pairs = atlas.volumes.values().flat_map(|volume| {
        let own = made(volume.superblock.volume);
        let older = siblings(atlas, volume).into_iter();
        older
            .filter(move |it| made(*it) < own)
            .map(move |it| (volume, it))
    });
    let (volume, older) = pick(rng, pairs.collect())?;
    Some(roots(volume, Kind::CloneBase, move |it| {
        it.base = Some((older, SnapshotId(1)));
    }))
}

/// The clone's own record of its base.
fn base_map(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let (volume, ..) = clone_of(atlas, rng)?;
    let of_it = |it: &Record<'_>| it.volume.superblock.volume == volume.superblock.volume;
    let base = any(atlas, rng, |it| of_it(it) && it.record.id.0 == 1)?;
    let other = any(atlas, rng, |it| {
        of_it(it) && it.record.active_map != base.record.active_map
    })?;
    let map = other.record.active_map.clone();
    let damage = base.damage(Kind::CloneBase, move |it| it.active_map = map.clone());
    let damage = Damage {
        words: vec![format!("volume {}", volume.fs.name)],
        ..damage
    };
    Some(damage.along(FOLLOWS_CLONE))
}

/// Returns the base's record at its parent, of a volume without scans.
fn base_record<'a>(atlas: &'a Atlas, rng: &mut Rng) -> Option<(&'a Volume, Record<'a>)> {
    let (volume, parent, snapshot) = clone_of(atlas, rng)?;
    let records = all_records(atlas).into_iter();
    let mut of_parent = records.filter(|it| it.volume.superblock.volume == parent);
    let base = of_parent.find(|it| it.record.id == snapshot)?;
    Some((volume, base))
}

fn base_gone(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let (volume, base) = base_record(atlas, rng)?;
    let damage = base.damage(Kind::CloneBase, |it| {
        it.state = State::Deleting;
        it.holds.clear();
    });
    let damage = Damage {
        words: vec![format!("volume {}", volume.fs.name)],
        ..damage
    };
    Some(damage.along(&[Kind::SnapshotRoots, Kind::SnapshotRecord]))
}

/// Returns the slot of the parent's container for a block that only clone and base hold. The parent
/// is no clone, or a block of this number might be found above it.
fn base_slot(atlas: &Atlas, rng: &mut Rng) -> Option<(Spot, u64, [String; 2])> {
    let (volume, base) = base_record(atlas, rng)?;
    let parent = base.volume;
    if parent.superblock.snapshots.base.is_some() {
        return None;
    }
    let container = parent.superblock.volume.0;
    let own = atlas.aggregate.files[&container].leaves();
    let is_needed = |vvbn: &u64| {
        *vvbn > 1
            && active(atlas, volume, *vvbn)
            && base.holds(*vvbn)
            && !active(atlas, parent, *vvbn)
    };
    let vvbn = pick(rng, own.map(|(vvbn, _)| vvbn).filter(is_needed).collect())?;
    let spot = atlas.aggregate.spot(container, 1, vvbn / SPAN);
    let words = [format!("volume {}", volume.fs.name), format!("vvbn {vvbn}")];
    Some((spot, vvbn % SPAN, words))
}

fn base_hole(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let (spot, slot, words) = base_slot(atlas, rng)?;
    let along = &[Kind::Leaked, Kind::BlockCount, Kind::UsedCount];
    let damage = Damage::new(Kind::ContainerHole, words).along(along);
    Some(damage.spoil(spot, move |block| {
        change_pointer(block, slot, Layer::Aggregate, |it| {
            *it = everglade_format::Pointer::HOLE;
        });
    }))
}

fn base_tag(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let (spot, slot, words) = base_slot(atlas, rng)?;
    let along = &[Kind::TagMismatch, Kind::ContextTag, Kind::UsedCount];
    let damage = Damage::new(Kind::ContainerTag, words).along(along);
    Some(damage.spoil(spot, move |block| {
        change_pointer(block, slot, Layer::Aggregate, |it| it.tag.0 ^= 1);
    }))
}
