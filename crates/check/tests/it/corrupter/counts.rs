//! Counts of the refcount file at odds with the references, and clones of LUNs that cannot be.

use everglade_check::Kind;
use everglade_format::metafile::{ACTIVE_MAP, REFCOUNTS};
use everglade_format::refcount::{self, COUNTS_PER_BLOCK};
use everglade_format::volume::LunCloning;
use everglade_format::{BITS_PER_BLOCK, FileId, SPAN, SnapshotId, VolumeSuperblock, bitmap};
use everglade_testing::Rng;

use super::atlas::{Atlas, Spot, Volume};
use super::{Damage, Way, pick};

pub(super) const WAYS: &[Way] = &[
    ("count-too-high", too_high),
    ("count-too-low", too_low),
    ("count-forgotten", forgotten),
    ("count-of-a-free-block", of_free),
    ("count-of-a-block-with-one-reference", of_one),
    ("count-that-is-none", reserved),
    ("clone-of-a-lun-from-nothing", cloned_from_nothing),
    ("clone-of-a-lun-made-nowhere", cloned_nowhere),
    ("clone-of-a-lun-farther-than-it-is", cloned_ahead),
    ("clone-of-a-lun-not-as-far-as-it-is", cloned_behind),
    ("clone-of-a-lun-from-another-file", cloned_other),
];

/// Snapshots may have the same block; what their records and trees say of it is not sealed again.
const SHARED: &[Kind] = &[Kind::ContainerTag, Kind::TagMismatch, Kind::RefCount];

/// A block of a refcount file.
struct CountBlock<'a> {
    volume: &'a Volume,
    spot: Spot,
    /// The vvbn of its first count.
    first: u64,
    /// Its counts above zero.
    counts: Vec<(usize, u16)>,
}

fn count_blocks(atlas: &Atlas) -> Vec<CountBlock<'_>> {
    let mut found = Vec::new();
    for volume in atlas.volumes.values() {
        let Some(file) = volume.fs.files.get(&REFCOUNTS.0) else {
            continue;
        };
        for (index, node) in file.leaves() {
            found.push(CountBlock {
                volume,
                spot: volume.fs.spot(REFCOUNTS.0, 0, index),
                first: index * COUNTS_PER_BLOCK,
                counts: refcount::counts(atlas.content(node.pvbn)).collect(),
            });
        }
    }
    found
}

/// Changes the count of a vvbn.
fn change(
    block: &CountBlock<'_>,
    kind: Kind,
    slot: usize,
    to: impl Fn(u16) -> u16 + 'static,
) -> Damage {
    let words = [
        format!("volume {}", block.volume.fs.name),
        format!("vvbn {}", block.first + slot as u64),
    ];
    let damage = Damage::new(kind, words).spoil(block.spot, move |block| {
        let count = to(refcount::get(block, slot));
        block[slot * 2..slot * 2 + 2].copy_from_slice(&count.to_le_bytes());
    });
    damage.along(SHARED)
}

/// A block of counts, and one of those that are above zero.
fn counted<'a>(
    atlas: &'a Atlas,
    rng: &mut Rng,
    wanted: impl Fn(&CountBlock<'_>, u16) -> bool,
) -> Option<(CountBlock<'a>, usize)> {
    let block = pick(rng, count_blocks(atlas))?;
    let counts = block
        .counts
        .iter()
        .filter(|(_, count)| wanted(&block, *count));
    let slots = counts.map(|(slot, _)| *slot).collect();
    let slot = pick(rng, slots)?;
    Some((block, slot))
}

fn too_high(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let more = u16::try_from(rng.between(1, 300)).expect("small");
    let (block, slot) = counted(atlas, rng, |_, _| true)?;
    Some(change(&block, Kind::RefCount, slot, move |count| {
        count + more
    }))
}

fn too_low(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let (block, slot) = counted(atlas, rng, |_, count| count > 1)?;
    Some(change(&block, Kind::RefCount, slot, |count| count - 1))
}

fn forgotten(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let (block, slot) = counted(atlas, rng, |block, _| block.counts.len() > 1)?;
    Some(change(&block, Kind::DoubleReference, slot, |_| 0))
}

fn reserved(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let (block, slot) = counted(atlas, rng, |_, _| true)?;
    Some(change(&block, Kind::RefCount, slot, |_| refcount::RESERVED))
}

/// A vvbn without a count in a block of counts, in use or not.
fn uncounted<'a>(
    atlas: &'a Atlas,
    rng: &mut Rng,
    is_used: bool,
) -> Option<(CountBlock<'a>, usize)> {
    let block = pick(rng, count_blocks(atlas))?;
    let map = block.volume.fs.files.get(&ACTIVE_MAP.0)?;
    let node = map.nodes.get(&(0, block.first / BITS_PER_BLOCK))?;
    let bits = atlas.content(node.pvbn);
    let is_wanted = |slot: &usize| {
        let vvbn = block.first + *slot as u64;
        let is_counted = block.counts.iter().any(|(known, _)| known == slot);
        vvbn > 1 && !is_counted && bitmap::is_set(bits, vvbn % BITS_PER_BLOCK) == is_used
    };
    let all = 0..usize::try_from(COUNTS_PER_BLOCK).expect("2,048");
    let slot = pick(rng, all.filter(is_wanted).collect())?;
    Some((block, slot))
}

fn of_free(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let (block, slot) = uncounted(atlas, rng, false)?;
    Some(change(&block, Kind::RefCount, slot, |_| 1))
}

fn of_one(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let (block, slot) = uncounted(atlas, rng, true)?;
    Some(change(&block, Kind::RefCount, slot, |_| 1))
}

/// Changes what the superblock of a volume with snapshots says of a LUN that is being cloned.
fn cloning(volume: &Volume, to: impl Fn(Option<LunCloning>) -> LunCloning + 'static) -> Damage {
    let words = [format!("volume {}", volume.fs.name)];
    let superblock = volume.superblock.clone();
    Damage::new(Kind::SnapshotRoots, words).spoil(volume.fs.spot(0, 0, 0), move |block| {
        let (id, uuid) = (superblock.volume, superblock.uuid);
        let mut superblock = VolumeSuperblock::decode(block, id, &uuid).expect("clean");
        let clone = &mut superblock.snapshots.lun_clone;
        *clone = Some(to(*clone));
        *block = superblock.encode();
    })
}

fn with_snapshots<'a>(
    atlas: &'a Atlas,
    rng: &mut Rng,
    wanted: impl Fn(&Volume) -> bool,
) -> Option<&'a Volume> {
    let has = |it: &&Volume| it.superblock.snapshots.files.is_some() && wanted(it);
    pick(rng, atlas.volumes.values().filter(has).collect())
}

fn cloned_from_nothing(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let volume = with_snapshots(atlas, rng, |_| true)?;
    let nothing = LunCloning {
        source: volume.superblock.snapshots.next,
        from: FileId(64),
        to: FileId(65),
        next: 0,
    };
    let source = SnapshotId(nothing.source.0.max(1));
    Some(cloning(volume, move |known| LunCloning {
        source,
        ..known.unwrap_or(nothing)
    }))
}

fn cloned_nowhere(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let has_parent = |it: &Volume| it.superblock.snapshots.parent.is_some();
    let volume = with_snapshots(atlas, rng, has_parent)?;
    let nowhere = LunCloning {
        source: volume.superblock.snapshots.parent?,
        from: FileId(64),
        to: volume.superblock.next_file,
        next: 0,
    };
    Some(cloning(volume, move |_| nowhere))
}

/// A LUN that is being cloned, of a volume: where its leaves are.
fn under_way(atlas: &Atlas) -> Vec<(&Volume, LunCloning, Vec<u64>)> {
    let all = atlas.volumes.values().filter_map(|volume| {
        let cloning = volume.superblock.snapshots.lun_clone?;
        let made = volume.fs.files.get(&cloning.to.0)?;
        let leaves = made.leaves().map(|(fbn, _)| fbn / SPAN).collect();
        Some((volume, cloning, leaves))
    });
    all.collect()
}

fn cloned_ahead(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    // The LUN that it is of has leaves in all of its level-1 blocks that matter.
    let mut all = under_way(atlas);
    all.retain(|(volume, it, _)| {
        let lun = volume.fs.files.get(&it.from.0);
        lun.is_some_and(|lun| lun.nodes.range((1, it.next)..(2, 0)).next().is_some())
    });
    let (volume, ..) = pick(rng, all)?;
    Some(cloning(volume, |known| {
        let known = known.expect("it is being made");
        LunCloning {
            next: u64::from(u32::MAX),
            ..known
        }
    }))
}

fn cloned_behind(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let mut all = under_way(atlas);
    all.retain(|(_, _, leaves)| !leaves.is_empty());
    let (volume, _, leaves) = pick(rng, all)?;
    let next = pick(rng, leaves)?;
    Some(cloning(volume, move |known| LunCloning {
        next,
        ..known.expect("it is being made")
    }))
}

fn cloned_other(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let mut all = under_way(atlas);
    all.retain(|(_, _, leaves)| !leaves.is_empty());
    let (volume, it, _) = pick(rng, all)?;
    // Itself, which the source does not have; another LUN may have the same leaves.
    let other = it.to.0;
    Some(cloning(volume, move |known| LunCloning {
        from: FileId(other),
        ..known.expect("it is being made")
    }))
}
