//! The lemmas and theorems of S003 §5, as this engine has them, over histories that the engine
//! made: snapshots come, go and are restored, LUNs and volumes are cloned and split, and the power
//! fails anywhere. What each image refers to is found by walking all of its tree, with nothing of
//! the verifier. `docs/design/snapshots.md` lists them, with those that are tested elsewhere.
//!
//! Deviations from the paper: bits of the summary map are set when the active map first changes,
//! and those of an image that a restore left behind by a fold scan. So where the paper says
//! *activemap and summary*, here it is those two and the snapmaps of unfolded snapshots; and a
//! delete pass protects the blocks of its victims' snapmaps, not all they held.

use std::collections::{BTreeMap, BTreeSet};

use everglade_format::metafile::{ACTIVE_MAP, INODE_FILE};
use everglade_format::snapshot::State;
use everglade_format::volume::Scan;
use everglade_format::{Indirect, Inode, Layer, SPAN};
use everglade_testing::world::{Cut, Keep};
use everglade_testing::{Seed, SimWorld};

use crate::corrupter::Atlas;
use crate::corrupter::atlas::Volume;
use crate::corrupter::snapshots::{Record, all_records, bit, summary_bit};
use crate::lived::Lived;
use crate::snapped;

/// Images of each kind.
const IMAGES: u64 = 25;

/// Each volume of many images.
fn for_each(mut judge: impl FnMut(&Atlas, &Volume, &[Record<'_>])) {
    let kinds: [fn(u64) -> Lived; 4] = [
        snapped::image,
        snapped::image_with_clones,
        snapped::cloned,
        snapped::split,
    ];
    for make in kinds {
        for seed in 0..IMAGES {
            let atlas = Atlas::of(&make(seed).world());
            for volume in atlas.volumes.values() {
                let id = volume.superblock.volume;
                let mut own = all_records(&atlas);
                own.retain(|it| it.volume.superblock.volume == id);
                judge(&atlas, volume, &own);
            }
        }
    }
}

/// Calls `found` for every block of a tree: level and vvbn.
fn walk(atlas: &Atlas, volume: &Volume, inode: &Inode, found: &mut dyn FnMut(u8, u64)) {
    let mut rest = vec![(inode.levels, inode.root)];
    while let Some((level, pointer)) = rest.pop() {
        if !pointer.has_block() {
            continue;
        }
        found(level, pointer.vvbn.0);
        if level > 0 {
            let block = atlas.content(volume.places[&pointer.vvbn.0]);
            for slot in 0..SPAN {
                let child = Indirect(block).pointer(slot, Layer::Volume).expect("clean");
                rest.push((level - 1, child));
            }
        }
    }
}

/// Returns all references of an image, by the inode of its inode file.
fn pointed(atlas: &Atlas, volume: &Volume, inode_file: &Inode) -> BTreeSet<u64> {
    assert_eq!(inode_file.id, INODE_FILE);
    // The superblock is referenced by its place.
    let mut all = BTreeSet::from([1]);
    let mut leaves = Vec::new();
    let mut files = Vec::new();
    walk(atlas, volume, inode_file, &mut |level, vvbn| {
        all.insert(vvbn);
        if level == 0 {
            leaves.push(vvbn);
        }
    });
    for vvbn in leaves {
        let block = atlas.content(volume.places[&vvbn]);
        for slot in 0..14 {
            let bytes = everglade_format::bytes::array_at(block, 16 + slot * 288);
            if bytes != [0; 288] {
                files.push(Inode::decode(&bytes, Layer::Volume).expect("clean"));
            }
        }
    }
    for file in files {
        walk(atlas, volume, &file, &mut |_, vvbn| {
            all.insert(vvbn);
        });
    }
    all
}

/// The vvbns that a volume may have.
fn numbers(volume: &Volume) -> std::ops::Range<u64> {
    let last = volume.places.keys().next_back().copied().unwrap_or(1);
    1..last + 2
}

fn map_of(atlas: &Atlas, volume: &Volume, map: &Inode) -> BTreeSet<u64> {
    let all = numbers(volume);
    all.filter(|vvbn| bit(atlas, volume, map, *vvbn)).collect()
}

fn active_map(atlas: &Atlas, volume: &Volume) -> BTreeSet<u64> {
    map_of(atlas, volume, &volume.fs.files[&ACTIVE_MAP.0].inode)
}

fn summary_map(atlas: &Atlas, volume: &Volume) -> BTreeSet<u64> {
    let is_set =
        |vvbn: &u64| summary_bit(atlas, volume, *vvbn).is_some_and(|(_, _, is_set)| is_set);
    numbers(volume).filter(is_set).collect()
}

/// Snapmaps that the summary map may lack.
fn unfolded(atlas: &Atlas, volume: &Volume, records: &[Record<'_>]) -> BTreeSet<u64> {
    let maps = records.iter().filter(|it| it.record.is_unfolded);
    maps.flat_map(|it| map_of(atlas, volume, &it.record.active_map))
        .collect()
}

/// Snapshots whose images are whole: not gone, and no victims of the pass under way.
fn whole<'r, 'a>(records: &'r [Record<'a>]) -> impl Iterator<Item = &'r Record<'a>> {
    let is_whole = |it: &&Record<'_>| it.record.state != State::Gone && !it.record.is_in_pass;
    records.iter().filter(is_whole)
}

/// Versions of blocks, by device and block.
type Versions = BTreeMap<(usize, u64), u64>;

/// S003, Lemma 1: a block freed in a consistency point is not used again in it. What it means on
/// media: nothing that the last committed consistency point refers to is written before the next
/// one is committed.
#[test]
fn lemma_1_a_freed_block_is_not_used_again_in_the_same_consistency_point() {
    let (mut points, mut commits) = (0, 0);
    for seed in 0..6 {
        let cuts = snapped::watched(seed);
        // Places of committed blocks, and the version of each.
        let mut committed: Option<(u64, Versions)> = None;
        for cut in cuts {
            let images = cut.images(Cut::whole(Keep::Everything));
            let world = SimWorld::restart(images.clone(), Seed(1), 1);
            let cp = crate::corrupter::atlas::committed(&world);
            points += 1;
            if let Some((known, versions)) = &committed
                && *known == cp
            {
                for ((device, block), version) in versions {
                    let now = images.image(*device).version(*block);
                    assert_eq!(
                        now, *version,
                        "seed {seed}: block {block} of device {device} belongs to consistency \
                        point {cp}"
                    );
                }
                continue;
            }
            let atlas = Atlas::of(&world);
            let places = atlas.contents.keys().map(|pvbn| {
                let (device, offset) = atlas.locate(*pvbn);
                let device = usize::try_from(device.0).expect("few");
                let block = offset / 4096;
                ((device, block), images.image(device).version(block))
            });
            committed = Some((cp, places.collect()));
            commits += 1;
        }
    }
    assert!(points > 300 && commits > 50, "{points} {commits}");
}

/// S003, Lemma 2: the references of a volume are the union of its active map with the snapmaps of
/// all its snapshots. More precisely, the references of each image are exactly the bits of its map.
#[test]
fn lemma_2_an_image_refers_to_just_what_its_map_has() {
    let mut images = 0;
    for_each(|atlas, volume, records| {
        let name = &volume.fs.name;
        let active = pointed(atlas, volume, &volume.superblock.inode_file);
        assert_eq!(active, active_map(atlas, volume), "{name}");
        for it in whole(records) {
            let there = pointed(atlas, volume, &it.record.inode_file);
            let map = map_of(atlas, volume, &it.record.active_map);
            assert_eq!(there, map, "{name}@{}", it.record.name);
            assert_eq!(map.len() as u64, it.record.blocks_used);
            images += 1;
        }
    });
    assert!(images > 200, "{images}");
}

/// S003, Theorem 1: without deleted snapshots, what a volume refers to is the union of active map
/// and summary map, also while bits of snapshots are yet to get there.
#[test]
fn theorem_1_active_map_and_summary_map_are_all_that_is_referred_to() {
    let (mut volumes, mut folding) = (0, 0);
    for_each(|atlas, volume, records| {
        let is_deleting = records.iter().any(|it| it.record.state != State::Live);
        if is_deleting || records.is_empty() || volume.superblock.snapshots.release.is_some() {
            return;
        }
        let mut there = pointed(atlas, volume, &volume.superblock.inode_file);
        for it in records {
            there.extend(pointed(atlas, volume, &it.record.inode_file));
        }
        let unfolded = unfolded(atlas, volume, records);
        let mut known = active_map(atlas, volume);
        known.extend(summary_map(atlas, volume));
        known.extend(&unfolded);
        assert_eq!(there, known, "{}", volume.fs.name);
        volumes += 1;
        folding += u64::from(!unfolded.is_empty());
    });
    assert!(volumes > 40 && folding > 0, "{volumes} {folding}");
}

/// S003, Theorem 2: whatever scans are under way, what a volume refers to is within the union of
/// active map and summary map.
#[test]
fn theorem_2_whatever_scans_do_nothing_that_is_referred_to_is_outside_the_maps() {
    let mut scans = 0;
    for_each(|atlas, volume, records| {
        if records.is_empty() {
            return;
        }
        let mut known = active_map(atlas, volume);
        known.extend(summary_map(atlas, volume));
        known.extend(unfolded(atlas, volume, records));
        let mut there = pointed(atlas, volume, &volume.superblock.inode_file);
        for it in whole(records) {
            there.extend(pointed(atlas, volume, &it.record.inode_file));
        }
        let bare: Vec<_> = there.difference(&known).collect();
        assert!(bare.is_empty(), "{}: {bare:?}", volume.fs.name);
        scans += u64::from(volume.superblock.snapshots.scan != Scan::None);
    });
    assert!(scans > 10, "{scans}");
}

/// S003, Theorem 3: while a delete scan by subtraction is under way, a block that active map and
/// summary map call free is free only if it is no block of the victims' snapmaps. Here these blocks
/// stay in the summary map to the end of the pass, so what both call free is free: the container
/// has a hole there.
#[test]
fn theorem_3_what_a_delete_scan_reads_stays_until_it_ends() {
    let mut passes = 0;
    for_each(|atlas, volume, records| {
        let Scan::Delete { .. } = volume.superblock.snapshots.scan else {
            return;
        };
        let (active, summary) = (active_map(atlas, volume), summary_map(atlas, volume));
        for victim in records.iter().filter(|it| it.record.is_in_pass) {
            walk(atlas, volume, &victim.record.active_map, &mut |_, vvbn| {
                let is_kept = summary.contains(&vvbn) || active.contains(&vvbn);
                let name = &victim.record.name;
                assert!(is_kept, "{}@{name}: vvbn {vvbn}", volume.fs.name);
            });
            passes += 1;
        }
        let unfolded = unfolded(atlas, volume, records);
        let container = volume.superblock.volume;
        let own = atlas.aggregate.files[&container.0].leaves();
        let own: BTreeSet<u64> = own.map(|(vvbn, _)| vvbn).collect();
        for vvbn in own {
            let is_known = active.contains(&vvbn) || summary.contains(&vvbn);
            let name = &volume.fs.name;
            assert!(
                is_known || unfolded.contains(&vvbn),
                "{name}: vvbn {vvbn} is free"
            );
        }
    });
    assert!(passes > 3, "{passes}");
}

/// docs/design/design.md §8: the exclusive blocks that each snapshot and the active image count are
/// the blocks that no other image refers to, whatever the history. While a delete pass is under way
/// its victims' counts are not used.
#[test]
fn what_an_image_counts_as_its_alone_no_other_refers_to() {
    let (mut images, mut shared) = (0, 0);
    for_each(|atlas, volume, records| {
        if records.is_empty() || records.iter().any(|it| it.record.is_in_pass) {
            return;
        }
        let active = pointed(atlas, volume, &volume.superblock.inode_file);
        let mut all = vec![(
            "active image",
            volume.superblock.snapshots.exclusive,
            active,
        )];
        all.extend(whole(records).map(|it| {
            let there = pointed(atlas, volume, &it.record.inode_file);
            (it.record.name.as_str(), it.record.exclusive, there)
        }));
        let mut holders: BTreeMap<u64, u64> = BTreeMap::new();
        let blocks = all.iter().flat_map(|(_, _, there)| there);
        blocks.for_each(|vvbn| *holders.entry(*vvbn).or_default() += 1);
        for (name, counted, there) in &all {
            let alone = there.iter().filter(|vvbn| holders[*vvbn] == 1).count();
            assert_eq!(*counted, alone as u64, "{}: {name}", volume.fs.name);
            images += u64::from(alone > 0);
            shared += u64::from(alone < there.len());
        }
    });
    assert!(images > 200 && shared > 200, "{images} {shared}");
}
