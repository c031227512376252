//! Snapshots at odds with the maps: records, roots, summary map, release file, counters, history,
//! scans.

use everglade_check::Kind;
use everglade_format::metafile::ACTIVE_MAP;
use everglade_format::snapshot::{Hold, State};
use everglade_format::volume::{Scan, SnapshotRoots, Split};
use everglade_format::{
    BITS_PER_BLOCK, Block, CpNumber, FileId, Indirect, Layer, SPAN, SnapshotId, SnapshotRecord,
    VolumeSuperblock, bitmap, release,
};
use everglade_testing::Rng;

use super::atlas::{Atlas, Spot, Volume};
use super::seal::change_pointer;
use super::{Damage, Way, pick};

pub(super) const WAYS: &[Way] = &[
    ("summary-bit-of-nobody", summary_set),
    ("summary-bit-missing", summary_clear),
    ("exclusive-count-off", exclusive),
    ("exclusive-count-of-the-active-image-off", exclusive_active),
    ("blocks-of-a-snapshot-off", blocks_used),
    ("pending-blocks-off", pending),
    ("lost-blocks-off", lost),
    ("snapshot-ahead", ahead),
    ("snapshot-too-early", early),
    ("next-file-of-a-snapshot-off", next_file),
    ("parent-that-is-not", parent_missing),
    ("parent-forgotten", parent_none),
    ("parent-of-the-active-image-forgotten", active_parent_none),
    ("snapshot-name-twice", name_twice),
    ("next-snapshot-taken", next_snapshot),
    ("snapshot-in-a-pass-that-is-not", in_pass),
    ("held-twice", held_twice),
    ("gone-for-nothing", gone),
    ("snapmap-of-another-image", snapmap),
    ("image-of-another-snapshot", image),
    ("snapshot-listed-twice", listed_twice),
    ("table-that-is-none", table_damaged),
    ("summary-map-of-another-kind", side_kind),
    ("side-files-forgotten", sides_forgotten),
    ("fold-scan-for-nobody", fold_for_nobody),
    ("delete-scan-for-nobody", delete_for_nobody),
    ("release-scan-without-a-file", release_without_file),
    ("tag-of-a-block-that-only-a-snapshot-holds", container_tag),
    (
        "hole-for-a-block-that-only-a-snapshot-holds",
        container_hole,
    ),
    ("delete-scan-farther-than-it-is", delete_ahead),
    ("delete-scan-not-as-far-as-it-is", delete_behind),
    ("victims-snapmap-not-protected", unprotected),
    ("release-scan-farther-than-it-is", release_ahead),
    ("release-scan-not-as-far-as-it-is", release_behind),
    ("release-of-a-block-in-use", release_in_use),
    ("unfolded-forgotten", folded),
    ("fold-scan-farther-than-it-is", fold_ahead),
    ("ancestor-that-is-not", also_missing),
    ("ancestor-of-a-restored-lun-forgotten", also_none),
    ("clone-of-a-volume-that-is-not", base_missing),
    ("clone-of-another-snapshot", base_other),
    ("split-of-a-volume-that-is-no-clone", split_of_none),
];

/// A record of some volume and where it is.
pub(crate) struct Record<'a> {
    atlas: &'a Atlas,
    pub(crate) volume: &'a Volume,
    spot: Spot,
    slot: u64,
    pub(crate) record: SnapshotRecord,
}

impl Record<'_> {
    /// Returns the verifier's name of the snapshot.
    fn words(&self) -> [String; 1] {
        [format!("{}@{}", self.volume.fs.name, self.record.name)]
    }

    pub(super) fn damage(
        &self,
        kind: Kind,
        change: impl Fn(&mut SnapshotRecord) + 'static,
    ) -> Damage {
        let (slot, record) = (self.slot, self.record.clone());
        Damage::new(kind, self.words()).spoil(self.spot, move |block| {
            let mut record = record.clone();
            change(&mut record);
            SnapshotRecord::encode_into(block, slot, Some(&record));
        })
    }

    /// Bit of its snapmap.
    pub(super) fn holds(&self, vvbn: u64) -> bool {
        bit(self.atlas, self.volume, &self.record.active_map, vvbn)
    }
}

/// A bit of a map of a volume, by its inode.
pub(crate) fn bit(
    atlas: &Atlas,
    volume: &Volume,
    map: &everglade_format::Inode,
    vvbn: u64,
) -> bool {
    let mut pointer = map.root;
    for level in (1..=map.levels).rev() {
        if pointer.is_hole() {
            return false;
        }
        let block = atlas.content(volume.places[&pointer.vvbn.0]);
        let leaf = vvbn / BITS_PER_BLOCK;
        let slot = leaf / SPAN.pow(u32::from(level) - 1) % SPAN;
        pointer = Indirect(block).pointer(slot, Layer::Volume).expect("clean");
    }
    if pointer.is_hole() || vvbn / BITS_PER_BLOCK >= map.block_count() {
        return false;
    }
    let block = atlas.content(volume.places[&pointer.vvbn.0]);
    bitmap::is_set(block, vvbn % BITS_PER_BLOCK)
}

pub(super) fn active(atlas: &Atlas, volume: &Volume, vvbn: u64) -> bool {
    let map = &volume.fs.files[&ACTIVE_MAP.0].inode;
    bit(atlas, volume, map, vvbn)
}

/// Returns the records of all volumes' snapshots that are not gone.
fn records(atlas: &Atlas) -> Vec<Record<'_>> {
    let mut found = all_records(atlas);
    found.retain(|it| it.record.state != State::Gone);
    found
}

/// Returns the records of all volumes' snapshots.
pub(crate) fn all_records(atlas: &Atlas) -> Vec<Record<'_>> {
    let mut found = Vec::new();
    for volume in atlas.volumes.values() {
        let Some((_, table)) = volume.superblock.snapshots.files else {
            continue;
        };
        for (index, node) in atlas.aggregate.files[&table.0].leaves() {
            let spot = atlas.aggregate.spot(table.0, 0, index);
            let records = SnapshotRecord::decode(atlas.content(node.pvbn)).expect("clean");
            found.extend(records.into_iter().map(|(slot, record)| Record {
                atlas,
                volume,
                spot,
                slot,
                record,
            }));
        }
    }
    found
}

fn live(atlas: &Atlas, rng: &mut Rng, wanted: impl Fn(&Record<'_>) -> bool) -> Option<usize> {
    let places = records(atlas)
        .iter()
        .enumerate()
        .filter(|(_, it)| it.record.state == State::Live && wanted(it))
        .map(|(at, _)| at)
        .collect();
    pick(rng, places)
}

/// A live snapshot.
pub(super) fn any<'a>(
    atlas: &'a Atlas,
    rng: &mut Rng,
    wanted: impl Fn(&Record<'_>) -> bool,
) -> Option<Record<'a>> {
    let at = live(atlas, rng, wanted)?;
    records(atlas).into_iter().nth(at)
}

/// A volume with snapshots.
fn volume<'a>(
    atlas: &'a Atlas,
    rng: &mut Rng,
    wanted: impl Fn(&SnapshotRoots) -> bool,
) -> Option<&'a Volume> {
    let has = |it: &&Volume| {
        let id = it.superblock.volume;
        let some = records(atlas)
            .iter()
            .any(|record| record.volume.superblock.volume == id);
        some && wanted(&it.superblock.snapshots)
    };
    pick(rng, atlas.volumes.values().filter(has).collect())
}

/// Changes what the superblock says of snapshots.
pub(super) fn roots(
    volume: &Volume,
    kind: Kind,
    change: impl Fn(&mut SnapshotRoots) + 'static,
) -> Damage {
    let words = [format!("volume {}", volume.fs.name)];
    let superblock = volume.superblock.clone();
    Damage::new(kind, words).spoil(volume.fs.spot(0, 0, 0), move |block| {
        let (id, uuid) = (superblock.volume, superblock.uuid);
        let mut superblock = VolumeSuperblock::decode(block, id, &uuid).expect("clean");
        change(&mut superblock.snapshots);
        *block = superblock.encode();
    })
}

/// Returns the place of a vvbn's bit in the summary map, and the bit.
pub(crate) fn summary_bit(atlas: &Atlas, volume: &Volume, vvbn: u64) -> Option<(Spot, u64, bool)> {
    let (summary, _) = volume.superblock.snapshots.files?;
    let (leaf, bit) = (vvbn / BITS_PER_BLOCK, vvbn % BITS_PER_BLOCK);
    let node = atlas.aggregate.files[&summary.0].nodes.get(&(0, leaf))?;
    let is_set = bitmap::is_set(atlas.content(node.pvbn), bit);
    Some((atlas.aggregate.spot(summary.0, 0, leaf), bit, is_set))
}

/// Changes a bit of the summary map.
fn summary(
    volume: &Volume,
    kind: Kind,
    vvbn: u64,
    (spot, bit): (Spot, u64),
    value: bool,
) -> Damage {
    let words = [format!("volume {}", volume.fs.name), format!("vvbn {vvbn}")];
    Damage::new(kind, words).spoil(spot, move |block: &mut Block| {
        match value {
            true => bitmap::set(block, bit),
            false => bitmap::clear(block, bit),
        };
    })
}

fn summary_set(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let volume = volume(atlas, rng, |_| true)?;
    let vvbn = (0..50)
        .map(|_| rng.between(2, BITS_PER_BLOCK - 1))
        .find(|vvbn| !volume.places.contains_key(vvbn))?;
    let (spot, bit, is_set) = summary_bit(atlas, volume, vvbn)?;
    assert!(!is_set, "what the container does not have nobody holds");
    let damage = summary(volume, Kind::SummaryLeaked, vvbn, (spot, bit), true);
    Some(damage.along(&[Kind::ContainerHole]))
}

/// Blocks that only snapshots hold, of volumes without a scan.
fn held<'a>(atlas: &'a Atlas, rng: &mut Rng) -> Option<(&'a Volume, u64)> {
    let at_rest = |roots: &SnapshotRoots| roots.scan == Scan::None && roots.release.is_none();
    let volume = volume(atlas, rng, at_rest)?;
    let slots = atlas.aggregate.files[&volume.superblock.volume.0].leaves();
    let free = slots
        .map(|(vvbn, _)| vvbn)
        .filter(|vvbn| !active(atlas, volume, *vvbn));
    let found: Vec<u64> = free
        .filter(|vvbn| summary_bit(atlas, volume, *vvbn).is_some_and(|(_, _, is_set)| is_set))
        .collect();
    Some((volume, pick(rng, found)?))
}

fn summary_clear(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let (volume, vvbn) = held(atlas, rng)?;
    if records(atlas).iter().any(|it| it.record.is_unfolded) {
        return None;
    }
    let (spot, bit, _) = summary_bit(atlas, volume, vvbn)?;
    let damage = summary(volume, Kind::Uncovered, vvbn, (spot, bit), false);
    Some(damage.along(&[Kind::ContainerExtra]))
}

fn exclusive(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let more = rng.between(1, 99);
    // A victim's own count may be as high as before the pass.
    let record = any(atlas, rng, |it| !it.record.is_in_pass)?;
    Some(record.damage(Kind::ExclusiveCount, move |it| it.exclusive += more))
}

fn exclusive_active(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let volume = volume(atlas, rng, |_| true)?;
    Some(roots(volume, Kind::ExclusiveCount, |it| it.exclusive += 1))
}

fn blocks_used(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let more = rng.between(1, 99);
    let record = any(atlas, rng, |_| true)?;
    Some(record.damage(Kind::UsedCount, move |it| it.blocks_used += more))
}

fn pending(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let record = any(atlas, rng, |_| true)?;
    Some(record.damage(Kind::SnapshotRecord, |it| it.pending += 1))
}

fn lost(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let record = any(atlas, rng, |_| true)?;
    Some(record.damage(Kind::SnapshotRecord, |it| it.lost += 1))
}

fn ahead(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let record = any(atlas, rng, |_| true)?;
    let cp = atlas.superblock.cp.0 + 1;
    let damage = record.damage(Kind::StampAhead, move |it| it.cp = CpNumber(cp));
    Some(damage)
}

fn early(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let record = any(atlas, rng, |it| it.record.cp.0 > 1)?;
    Some(record.damage(Kind::StampAhead, |it| it.cp = CpNumber(it.cp.0 - 1)))
}

fn next_file(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let record = any(atlas, rng, |_| true)?;
    Some(record.damage(Kind::NextFile, |it| it.next_file = FileId(u32::MAX)))
}

const FOLLOWS_HISTORY: &[Kind] = &[Kind::SnapshotHistory, Kind::Uncovered];

fn parent_missing(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let record = any(atlas, rng, |_| true)?;
    let own = record.record.id;
    let damage = record.damage(Kind::SnapshotHistory, move |it| it.parent = Some(own));
    Some(damage.along(FOLLOWS_HISTORY))
}

fn parent_none(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let at_rest = |it: &Record<'_>| it.volume.superblock.snapshots.scan == Scan::None;
    let all = all_records(atlas);
    let record = any(atlas, rng, |it| {
        at_rest(it) && it.record.parent.is_some() && !has_also(&all, it.volume)
    })?;
    let damage = record.damage(Kind::HoldersApart, |it| it.parent = None);
    let damage = Damage {
        words: vec![format!("volume {}", record.volume.fs.name)],
        ..damage
    };
    Some(damage.along(FOLLOWS_HISTORY))
}

fn active_parent_none(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let at_rest = |roots: &SnapshotRoots| roots.scan == Scan::None && roots.parent.is_some();
    let volume = volume(atlas, rng, at_rest)?;
    if has_also(&all_records(atlas), volume) {
        return None;
    }
    let damage = roots(volume, Kind::HoldersApart, |it| it.parent = None);
    Some(damage.along(FOLLOWS_HISTORY))
}

/// True if an image of the volume descends from more than its parent.
fn has_also(all: &[Record<'_>], volume: &Volume) -> bool {
    let of = |it: &Record<'_>| it.volume.superblock.volume == volume.superblock.volume;
    let mut records = all.iter().filter(|it| of(it));
    !volume.superblock.snapshots.also.is_empty() || records.any(|it| !it.record.also.is_empty())
}

fn also_missing(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let record = any(atlas, rng, |_| true)?;
    let own = record.record.id;
    let damage = record.damage(Kind::SnapshotHistory, move |it| it.also = vec![own]);
    Some(damage.along(FOLLOWS_HISTORY))
}

fn also_none(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let volume = volume(atlas, rng, |roots| roots.scan == Scan::None)?;
    let mut all = all_records(atlas);
    all.retain(|it| it.volume.superblock.volume == volume.superblock.volume);
    let find = |id: SnapshotId| {
        let mut live = all.iter().filter(|it| it.record.state == State::Live);
        live.find(|it| it.record.id == id)
    };
    // With just one such edge, and a block that the parent does not have, no other edge connects
    // its holders.
    let edges_of_active = &volume.superblock.snapshots.also;
    let edges = all.iter().map(|it| it.record.also.len());
    if edges.sum::<usize>() + edges_of_active.len() != 1 {
        return None;
    }
    let owner = all.iter().find(|it| !it.record.also.is_empty());
    let (parent, also) = match owner {
        None => (volume.superblock.snapshots.parent?, edges_of_active[0]),
        Some(owner) => (owner.record.parent?, owner.record.also[0]),
    };
    let (parent, also) = (find(parent)?, find(also)?);
    let holds = |vvbn: u64| match owner {
        None => active(atlas, volume, vvbn),
        Some(owner) => owner.record.state == State::Live && owner.holds(vvbn),
    };
    let is_apart = |vvbn: &u64| holds(*vvbn) && also.holds(*vvbn) && !parent.holds(*vvbn);
    (0..BITS_PER_BLOCK).find(is_apart)?;
    let damage = match owner {
        None => roots(volume, Kind::HoldersApart, |it| it.also.clear()),
        Some(owner) => owner.damage(Kind::HoldersApart, |it| it.also.clear()),
    };
    let damage = Damage {
        words: vec![format!("volume {}", volume.fs.name)],
        ..damage
    };
    Some(damage.along(FOLLOWS_HISTORY))
}

/// A volume that says that it is a clone, with nothing to show for it.
fn base_missing(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let volume = volume(atlas, rng, |roots| roots.base.is_none())?;
    let nobody = FileId(u32::MAX - 1);
    let damage = roots(volume, Kind::CloneBase, move |it| {
        it.base = Some((nobody, SnapshotId(1)));
    });
    Some(damage.along(FOLLOWS_BASE))
}

fn base_other(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let is_clone = |it: &Record<'_>| it.volume.superblock.snapshots.base.is_some();
    let record = any(atlas, rng, |it| it.record.id.0 > 1 && !is_clone(it))?;
    let base = (record.volume.superblock.volume, record.record.id);
    let damage = roots(record.volume, Kind::CloneBase, move |it| {
        it.base = Some(base)
    });
    Some(damage.along(FOLLOWS_BASE))
}

/// Gives a volume that is no clone a split under way.
fn split_of_none(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let volume = volume(atlas, rng, |_| true)?;
    Some(roots(volume, Kind::VolumeSuperblockDamaged, move |it| {
        it.split = Split::Copying { next: 0 };
    }))
}

/// Blocks of its first snapshot would be in the parent's container.
const FOLLOWS_BASE: &[Kind] = &[Kind::ContainerExtra];

fn name_twice(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let one = any(atlas, rng, |_| true)?;
    let other = any(atlas, rng, |it| it.record.id != one.record.id)?;
    let name = one.record.name.clone();
    let damage = other.damage(Kind::NameTwice, move |it| it.name.clone_from(&name));
    Some(Damage {
        words: one.words().into(),
        ..damage
    })
}

fn next_snapshot(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let record = any(atlas, rng, |_| true)?;
    let taken = record.record.id;
    let damage = roots(record.volume, Kind::NextFile, move |it| it.next = taken);
    Some(Damage {
        words: record.words().into(),
        ..damage
    })
}

fn in_pass(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let at_rest = |it: &Record<'_>| it.volume.superblock.snapshots.scan == Scan::None;
    let record = any(atlas, rng, at_rest)?;
    let damage = record.damage(Kind::SnapshotRecord, |it| it.is_in_pass = true);
    Some(damage.along(&[Kind::SnapshotRoots]))
}

fn held_twice(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let record = any(atlas, rng, |_| true)?;
    Some(record.damage(Kind::NameTwice, |it| {
        let hold = Hold {
            tag: "again".into(),
            seconds: 1,
        };
        it.holds = vec![hold.clone(), hold];
    }))
}

fn gone(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    // A snapshot with one descendant joins nothing.
    let all = all_records(atlas);
    let children = |it: &Record<'_>| {
        let of = all
            .iter()
            .filter(|child| child.record.parent == Some(it.record.id))
            .count();
        of + usize::from(it.volume.superblock.snapshots.parent == Some(it.record.id))
    };
    let record = any(atlas, rng, |it| {
        children(it) <= 1 && !has_also(&all, it.volume)
    })?;
    let damage = record.damage(Kind::SnapshotHistory, |it| {
        it.state = State::Gone;
        it.is_unfolded = false;
        it.holds.clear();
    });
    Some(damage.along(&[
        Kind::SummaryLeaked,
        Kind::ExclusiveCount,
        Kind::ContainerExtra,
        Kind::Uncovered,
        Kind::SnapshotRoots,
    ]))
}

/// Problems that may follow if a snapshot has another's maps.
const FOLLOWS_MAPS: &[Kind] = &[
    Kind::UsedCount,
    Kind::ExclusiveCount,
    Kind::HoldersApart,
    Kind::Uncovered,
    Kind::SummaryLeaked,
    Kind::SnapshotRecord,
    Kind::StampAhead,
    Kind::NextFile,
    Kind::ContainerExtra,
    Kind::ContainerHole,
];

fn snapmap(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let one = any(atlas, rng, |_| true)?;
    let other = any(atlas, rng, |it| {
        it.record.active_map != one.record.active_map
    })?;
    let map = other.record.active_map.clone();
    let damage = one.damage(Kind::SnapshotRecord, move |it| it.active_map = map.clone());
    Some(damage.along(FOLLOWS_MAPS))
}

fn image(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let one = any(atlas, rng, |_| true)?;
    let other = any(atlas, rng, |it| {
        it.record.active_map != one.record.active_map
    })?;
    let root = other.record.inode_file.clone();
    let damage = one.damage(Kind::SnapshotRecord, move |it| it.inode_file = root.clone());
    Some(damage.along(FOLLOWS_MAPS))
}

fn listed_twice(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let one = any(atlas, rng, |_| true)?;
    let other = any(atlas, rng, |it| it.record.id != one.record.id)?;
    let copy = one.record.clone();
    let damage = other.damage(Kind::SnapshotTableDamaged, move |it| *it = copy.clone());
    Some(Damage {
        words: vec!["snapshot table".into()],
        ..damage
    })
}

fn table_damaged(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let record = any(atlas, rng, |_| true)?;
    let at = 16 + 2_040 * usize::from(record.slot == 1);
    let words = ["snapshot table".into()];
    let damage = Damage::new(Kind::SnapshotTableDamaged, words);
    Some(damage.spoil(record.spot, move |block| block[at + 4] = 9))
}

fn side_kind(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let volume = volume(atlas, rng, |_| true)?;
    let damage = roots(volume, Kind::SideFile, |it| {
        it.files = it.files.map(|(summary, table)| (table, summary));
    });
    Some(damage.along(&[Kind::Unnamed]))
}

fn sides_forgotten(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let volume = volume(atlas, rng, |_| true)?;
    let damage = roots(volume, Kind::Unnamed, |it| *it = SnapshotRoots::default());
    let damage = Damage {
        words: vec!["summary map".into()],
        ..damage
    };
    Some(damage.along(&[Kind::ContainerExtra, Kind::MapTooShort]))
}

fn scan(atlas: &Atlas, rng: &mut Rng, scan: Scan) -> Option<Damage> {
    let none = |it: &SnapshotRoots| it.scan == Scan::None && it.release.is_none();
    let volume = volume(atlas, rng, none)?;
    if records(atlas).iter().any(|it| it.record.is_unfolded) {
        return None;
    }
    Some(roots(volume, Kind::SnapshotRoots, move |it| it.scan = scan))
}

fn fold_for_nobody(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    scan(atlas, rng, Scan::Fold { next: 0 })
}

fn delete_for_nobody(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    scan(atlas, rng, Scan::Delete { next: 0 })
}

fn release_without_file(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    scan(atlas, rng, Scan::Release { next: 0 })
}

/// A slot of the container for a block that only snapshots hold.
fn slot(atlas: &Atlas, rng: &mut Rng) -> Option<(Spot, u64, u64, String)> {
    let (volume, vvbn) = held(atlas, rng)?;
    let spot = atlas
        .aggregate
        .spot(volume.superblock.volume.0, 1, vvbn / SPAN);
    Some((spot, vvbn % SPAN, vvbn, volume.fs.name.clone()))
}

fn container_tag(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let (spot, slot, vvbn, name) = slot(atlas, rng)?;
    let words = [format!("volume {name}@"), format!("vvbn {vvbn}")];
    let along = &[Kind::TagMismatch, Kind::ContextTag, Kind::UsedCount];
    let damage = Damage::new(Kind::ContainerTag, words).along(along);
    Some(damage.spoil(spot, move |block| {
        change_pointer(block, slot, Layer::Aggregate, |it| it.tag.0 ^= 1);
    }))
}

fn container_hole(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let (spot, slot, vvbn, name) = slot(atlas, rng)?;
    let words = [format!("volume {name}@"), format!("vvbn {vvbn}")];
    let along = &[Kind::Leaked, Kind::BlockCount];
    let damage = Damage::new(Kind::ContainerHole, words).along(along);
    Some(damage.spoil(spot, move |block| {
        change_pointer(block, slot, Layer::Aggregate, |it| {
            *it = everglade_format::Pointer::HOLE;
        });
    }))
}

/// Victims of a pass under way, and how far it is.
fn victims(atlas: &Atlas) -> Vec<(Record<'_>, u64)> {
    let all = records(atlas).into_iter().filter(|it| it.record.is_in_pass);
    let with_place = all.filter_map(|it| match it.volume.superblock.snapshots.scan {
        Scan::Delete { next } => Some((it, next)),
        _ => None,
    });
    with_place.collect()
}

const FOLLOWS_SCAN: &[Kind] = &[
    Kind::SummaryLeaked,
    Kind::Uncovered,
    Kind::ExclusiveCount,
    Kind::ContainerExtra,
    Kind::HoldersApart,
    Kind::SnapshotRoots,
];

/// Vvbns searched for a place to damage.
const LOOKED_AT: u64 = 8192;

fn delete_ahead(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    // More blocks than its snapmap has, which stay in the summary map anyway.
    let is_harmful = |(victim, next): &(Record<'_>, u64)| {
        let stays = |vvbn: u64| {
            let others = records(atlas)
                .into_iter()
                .filter(|it| !it.record.is_in_pass);
            others.into_iter().any(|it| it.holds(vvbn))
        };
        let is_left = |vvbn: u64| {
            victim.holds(vvbn)
                && !stays(vvbn)
                && summary_bit(atlas, victim.volume, vvbn).is_some_and(|(_, _, is_set)| is_set)
        };
        (*next..LOOKED_AT).filter(|vvbn| is_left(*vvbn)).count() > 4 * victims(atlas).len()
    };
    let (record, _) = pick(rng, victims(atlas).into_iter().filter(is_harmful).collect())?;
    let end = record.record.active_map.block_count() * BITS_PER_BLOCK;
    let damage = roots(record.volume, Kind::SummaryLeaked, move |it| {
        it.scan = Scan::Delete { next: end }
    });
    Some(damage.along(FOLLOWS_SCAN))
}

/// Adds a block without holders to a victim, before the position of the delete pass.
fn delete_behind(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let is_harmful = |(it, next): &(Record<'_>, u64)| {
        let has_released = |vvbn: u64| {
            it.holds(vvbn)
                && !active(atlas, it.volume, vvbn)
                && summary_bit(atlas, it.volume, vvbn).is_none_or(|(_, _, is_set)| !is_set)
        };
        !records(atlas).iter().any(|it| it.record.is_unfolded) && (2..*next).any(has_released)
    };
    let (record, _) = pick(rng, victims(atlas).into_iter().filter(is_harmful).collect())?;
    let damage = roots(record.volume, Kind::Uncovered, |it| {
        it.scan = Scan::Delete { next: 0 }
    });
    Some(damage.along(FOLLOWS_SCAN))
}

fn unprotected(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let (record, next) = pick(rng, victims(atlas))?;
    let vvbn = record.record.active_map.root.vvbn.0;
    let (spot, bit, is_set) = summary_bit(atlas, record.volume, vvbn)?;
    if vvbn >= next || !is_set {
        return None;
    }
    let damage = summary(record.volume, Kind::Uncovered, vvbn, (spot, bit), false);
    Some(damage.along(&[Kind::ContainerExtra]))
}

/// A volume with a release file, its entries and how many had their turn.
fn releases<'a>(atlas: &'a Atlas, rng: &mut Rng) -> Option<(&'a Volume, Spot, Vec<u64>, usize)> {
    let has = |it: &&Volume| it.superblock.snapshots.release.is_some();
    let volume = pick(rng, atlas.volumes.values().filter(has).collect())?;
    let roots = &volume.superblock.snapshots;
    let file = roots.release?.0;
    let node = atlas.aggregate.files[&file].nodes.get(&(0, 0))?;
    let entries = release::decode(atlas.content(node.pvbn)).expect("clean");
    let done = match roots.scan {
        Scan::Release { next } => usize::try_from(next).expect("few"),
        _ => 0,
    };
    Some((volume, atlas.aggregate.spot(file, 0, 0), entries, done))
}

fn release_ahead(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let (volume, _, entries, done) = releases(atlas, rng)?;
    let next = entries.len() as u64;
    let vvbn = *entries.get(done)?;
    let damage = roots(volume, Kind::SummaryLeaked, move |it| {
        it.scan = Scan::Release { next }
    });
    let words = [format!("volume {}", volume.fs.name), format!("vvbn {vvbn}")];
    Some(Damage {
        words: words.into(),
        ..damage
    })
}

fn release_behind(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let (volume, _, _, done) = releases(atlas, rng)?;
    if done == 0 {
        return None;
    }
    Some(roots(volume, Kind::ReleaseEntry, |it| {
        it.scan = Scan::Release { next: 0 }
    }))
}

fn release_in_use(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let (volume, spot, entries, done) = releases(atlas, rng)?;
    if done > 0 || entries.first() == Some(&1) {
        return None;
    }
    let words = [format!("volume {}", volume.fs.name), "vvbn 1:".to_owned()];
    let damage = Damage::new(Kind::ReleaseEntry, words).along(&[Kind::SummaryLeaked]);
    Some(damage.spoil(spot, move |block| {
        let mut entries = entries.clone();
        entries[0] = 1;
        release::encode_into(block, &entries);
    }))
}

/// An unfolded snapshot with a block that only its mark protects.
fn unfolded<'a>(atlas: &'a Atlas, rng: &mut Rng) -> Option<(Record<'a>, u64)> {
    let all = records(atlas);
    if all.iter().filter(|it| it.record.is_unfolded).count() != 1 {
        return None;
    }
    let record = all.into_iter().find(|it| it.record.is_unfolded)?;
    let (volume, end) = (
        record.volume,
        record.record.active_map.block_count() * BITS_PER_BLOCK,
    );
    let is_bare = |vvbn: &u64| {
        record.holds(*vvbn)
            && !active(atlas, volume, *vvbn)
            && summary_bit(atlas, volume, *vvbn).is_none_or(|(_, _, is_set)| !is_set)
    };
    let bare = pick(rng, (2..end.min(9_000)).filter(is_bare).take(9).collect())?;
    Some((record, bare))
}

fn folded(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let (record, vvbn) = unfolded(atlas, rng)?;
    let damage = record.damage(Kind::Uncovered, |it| it.is_unfolded = false);
    let words = vec![
        format!("volume {}", record.volume.fs.name),
        format!("vvbn {vvbn}"),
    ];
    let along = &[Kind::ContainerExtra, Kind::SnapshotRoots];
    Some(Damage { words, ..damage }.along(along))
}

fn fold_ahead(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let (record, vvbn) = unfolded(atlas, rng)?;
    if matches!(
        record.volume.superblock.snapshots.scan,
        Scan::Delete { .. } | Scan::Release { .. }
    ) {
        return None;
    }
    let next = record.record.active_map.block_count() * BITS_PER_BLOCK;
    let damage = roots(record.volume, Kind::Uncovered, move |it| {
        it.scan = Scan::Fold { next }
    });
    let words = vec![
        format!("volume {}", record.volume.fs.name),
        format!("vvbn {vvbn}"),
    ];
    Some(Damage { words, ..damage }.along(&[Kind::SnapshotRoots]))
}

/// Flags that protect more than they must.
pub(crate) fn unfold(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let at_rest = |it: &Record<'_>| it.volume.superblock.snapshots.scan == Scan::None;
    let record = any(atlas, rng, at_rest)?;
    Some(record.damage(Kind::SnapshotRecord, |it| it.is_unfolded = true))
}
