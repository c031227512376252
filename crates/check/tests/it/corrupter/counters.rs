//! Counters that are off: blocks, areas, frontiers, next ids, ages.

use everglade_check::Kind;
use everglade_format::bytes::{put, u64_at};
use everglade_format::metafile::FIRST_FILE;
use everglade_format::{CpNumber, FileId, Pvbn};
use everglade_testing::Rng;

use super::atlas::{Atlas, FileSystem};
use super::seal::change_inode;
use super::{Damage, Way, pick};

pub(super) const WAYS: &[Way] = &[
    ("used-count-off", used_count),
    ("used-count-of-a-volume-off", volume_used_count),
    ("areas-off", areas_used),
    ("inode-counts-wrong", block_count),
    ("frontier-too-low", frontier_low),
    ("frontier-too-high", frontier_high),
    ("frontier-missing", frontier_missing),
    ("frontier-of-a-volume-too-low", volume_frontier_low),
    ("frontier-of-a-volume-too-high", volume_frontier_high),
    ("next-file-taken", next_file),
    ("next-file-of-a-volume-taken", volume_next_file),
    ("superblock-of-a-later-epoch", epoch_ahead),
    ("volume-superblock-ahead", volume_ahead),
    ("file-created-ahead", created_ahead),
];

fn aggregate(kind: Kind) -> Damage {
    Damage::new(kind, ["aggregate".into()])
}

fn used_count(_: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let more = rng.between(1, 1000);
    Some(aggregate(Kind::UsedCount).superblock(move |it| it.blocks_used += more))
}

fn areas_used(_: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let more = rng.between(1, 9);
    Some(aggregate(Kind::AreasUsed).superblock(move |it| it.areas_used += more))
}

/// Extents with blocks in use, and the area of the last of them.
fn last_areas(atlas: &Atlas) -> Vec<(usize, u32)> {
    let extents = atlas.geometry.extents();
    let mut last = vec![None; extents.len()];
    for pvbn in atlas.contents.keys() {
        let extent = atlas.geometry.extent_of(Pvbn(*pvbn)).expect("a block");
        let area = (pvbn - extents[extent].base) / atlas.geometry.area_blocks();
        last[extent] = Some(u32::try_from(area).expect("few areas"));
    }
    let areas = last.into_iter().enumerate();
    areas
        .filter_map(|(extent, area)| Some((extent, area?)))
        .collect()
}

fn frontier_low(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let (extent, area) = pick(rng, last_areas(atlas))?;
    Some(aggregate(Kind::Frontier).superblock(move |it| it.frontiers[extent] = area))
}

fn frontier_high(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let extent = rng.index(atlas.geometry.extents().len());
    let areas = atlas.geometry.extents()[extent].length / atlas.geometry.area_blocks();
    let beyond = u32::try_from(areas).expect("few") + 1;
    Some(aggregate(Kind::Frontier).superblock(move |it| it.frontiers[extent] = beyond))
}

fn frontier_missing(_: &Atlas, _: &mut Rng) -> Option<Damage> {
    Some(aggregate(Kind::Frontier).superblock(|it| {
        it.frontiers.pop();
    }))
}

fn next_file(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let taken = pick(rng, atlas.volumes.keys().copied().collect())?;
    let words = [format!("(file {taken})")];
    let damage = Damage::new(Kind::NextFile, words);
    Some(damage.superblock(move |it| it.next_file = FileId(taken)))
}

fn epoch_ahead(atlas: &Atlas, _: &mut Rng) -> Option<Damage> {
    // The record of a change that was cut would be the one.
    let damage = aggregate(Kind::EpochAhead).superblock(|it| it.epoch += 1);
    (!atlas.has_cut_change).then_some(damage)
}

/// Adds to eight bytes of the superblock of some volume.
fn volume(
    atlas: &Atlas,
    rng: &mut Rng,
    kind: Kind,
    at: usize,
    change: impl Fn(u64) -> u64 + 'static,
) -> Option<Damage> {
    let fs = pick(rng, atlas.volumes.values().map(|v| &v.fs).collect())?;
    let damage = Damage::new(kind, [format!("volume {}", fs.name)]);
    Some(damage.spoil(fs.spot(0, 0, 0), move |block| {
        let number = change(u64_at(block, at));
        put(block, at, number.to_le_bytes());
    }))
}

fn volume_used_count(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let more = rng.between(1, 99);
    volume(atlas, rng, Kind::UsedCount, 40, move |used| used + more)
}

fn volume_frontier_low(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    volume(atlas, rng, Kind::Frontier, 48, |_| 0)
}

fn volume_frontier_high(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    volume(atlas, rng, Kind::MapTooShort, 48, |areas| areas + 100)
}

fn volume_ahead(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let cp = atlas.superblock.cp.0;
    volume(atlas, rng, Kind::StampAhead, 16, move |_| cp + 1)
}

fn volume_next_file(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let luns = |fs: &FileSystem| {
        let ids = fs.names.keys().copied();
        let spot = fs.spot(0, 0, 0);
        ids.map(|id| (fs.name.clone(), spot, id))
            .collect::<Vec<_>>()
    };
    let all = atlas.volumes.values().flat_map(|v| luns(&v.fs)).collect();
    let (name, spot, taken) = pick(rng, all)?;
    let words = [format!("volume {name}"), format!("(file {taken})")];
    let damage = Damage::new(Kind::NextFile, words);
    Some(damage.spoil(spot, move |block| put(block, 56, taken.to_le_bytes())))
}

/// Any file with an inode of some file system.
fn any_file<'a>(atlas: &'a Atlas, rng: &mut Rng) -> Option<(&'a FileSystem, u32)> {
    let of = |fs| {
        let fs: &FileSystem = fs;
        fs.files.keys().map(move |file| (fs, *file))
    };
    pick(rng, atlas.file_systems().flat_map(of).collect())
}

fn block_count(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let (fs, file) = any_file(atlas, rng)?;
    let layer = fs.layer();
    let (spot, slot) = fs.inode_spot(file);
    let more = rng.between(1, 100);
    let damage = Damage::new(Kind::BlockCount, [fs.title(file)]);
    Some(damage.spoil(spot, move |block| {
        change_inode(block, slot, file, layer, |inode| inode.blocks += more);
    }))
}

fn created_ahead(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let (fs, file) = any_file(atlas, rng)?;
    let layer = fs.layer();
    let (spot, slot) = fs.inode_spot(file);
    let cp = atlas.superblock.cp.0 + 1;
    assert!(file < FIRST_FILE.0 || fs.files.contains_key(&file));
    let damage = Damage::new(Kind::StampAhead, [format!("(file {file})")]);
    Some(damage.spoil(spot, move |block| {
        change_inode(block, slot, file, layer, |inode| {
            inode.cp_created = CpNumber(cp);
        });
    }))
}
