//! Inodes that lie, and small metafiles: sizes, levels, kinds, missing files, truncated logs.

use everglade_check::Kind;
use everglade_format::metafile::{FIRST_FILE, METAFILES, NOTES, OVERFLOW, TOP_AREAS};
use everglade_format::{BLOCK_SIZE, IndirectMut, Inode, Kind as FileKind, Layer, Pointer};
use everglade_testing::Rng;

use super::atlas::{Atlas, FileSystem, Tree};
use super::seal::change_inode;
use super::{Damage, Way, pick};

pub(super) const WAYS: &[Way] = &[
    ("file-too-short", beyond_end),
    ("levels-too-few", levels_too_few),
    ("inode-damaged", damaged),
    ("inode-of-another-kind", another_kind),
    ("inode-file-of-another-kind", inode_file_kind),
    ("metafile-missing", metafile_missing),
    ("inode-lost", lost),
    ("log-truncated", log_truncated),
    ("log-with-a-gap", log_gap),
    ("best-areas-damaged", top_areas),
    ("volume-superblock-damaged", volume_superblock),
];

/// Ways for images with notes.
pub(super) const OF_NOTES: &[Way] = &[
    ("notes-longer-than-a-block", notes_too_long),
    ("notes-after-their-end", notes_after_end),
];

const BLOCK: u64 = BLOCK_SIZE as u64;

fn inode(
    damage: Damage,
    fs: &FileSystem,
    file: u32,
    change: impl Fn(&mut Inode) + 'static,
) -> Damage {
    let layer = fs.layer();
    let (spot, slot) = fs.inode_spot(file);
    damage.spoil(spot, move |block| {
        change_inode(block, slot, file, layer, &change)
    })
}

/// A LUN that can be seen.
fn lun<'a>(atlas: &'a Atlas, rng: &mut Rng) -> Option<(&'a FileSystem, u32, &'a Tree)> {
    let of = |fs: &'a FileSystem| fs.names.keys().map(move |file| (fs, *file, fs.tree(*file)));
    let volumes = atlas.volumes.values().map(|volume| &volume.fs);
    pick(rng, volumes.flat_map(of).collect())
}

fn beyond_end(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let (fs, file, tree) = lun(atlas, rng)?;
    let (last, _) = tree.leaves().last()?;
    let words = [fs.title(file), format!("fbn {last}")];
    let damage = Damage::new(Kind::BeyondEnd, words);
    Some(inode(damage, fs, file, move |inode| {
        inode.size_bytes = last * BLOCK
    }))
}

fn levels_too_few(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let (fs, file, tree) = lun(atlas, rng)?;
    let size = (Inode::reach(tree.inode.levels) + 1) * BLOCK;
    let damage = Damage::new(Kind::LevelsTooFew, [fs.title(file)]);
    Some(inode(damage, fs, file, move |inode| {
        inode.size_bytes = size
    }))
}

fn damaged(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let (fs, file) = atlas.named_file(rng)?;
    let (spot, slot) = fs.inode_spot(file);
    let damage = Damage::new(Kind::InodeDamaged, [format!("(file {file})")]);
    Some(damage.spoil(spot, move |block| block[16 + 288 * slot + 4] = 99))
}

fn another_kind(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let (fs, file) = atlas.named_file(rng)?;
    let kind = match fs.layer() {
        Layer::Aggregate => FileKind::Lun,
        Layer::Volume => FileKind::Container,
    };
    let damage = Damage::new(Kind::InodeUnexpected, [format!("(file {file})")]);
    Some(inode(damage, fs, file, move |inode| inode.kind = kind))
}

fn inode_file_kind(_: &Atlas, _: &mut Rng) -> Option<Damage> {
    let damage = Damage::new(Kind::InodeUnexpected, ["inode file".into()]);
    Some(damage.superblock(|it| it.inode_file.kind = FileKind::Lun))
}

fn metafile_missing(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let fs = pick(rng, atlas.file_systems().collect())?;
    let here = |known: &&everglade_format::metafile::Metafile| {
        !known.is_optional && fs.files.contains_key(&known.id.0)
    };
    let known = pick(rng, METAFILES.iter().filter(here).collect())?;
    let (spot, slot) = fs.inode_spot(known.id.0);
    let damage = Damage::new(Kind::MetafileMissing, [fs.title(known.id.0)]);
    let damage = damage.along(&[Kind::Leaked]);
    Some(damage.spoil(spot, move |block| Inode::erase(block, slot)))
}

fn lost(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let (fs, file) = atlas.named_file(rng)?;
    let (spot, slot) = fs.inode_spot(file);
    assert!(file >= FIRST_FILE.0);
    let words = [fs.names[&file].clone(), format!("file {file}")];
    let damage = Damage::new(Kind::EntryWithoutFile, words).along(&[Kind::Leaked]);
    Some(damage.spoil(spot, move |block| Inode::erase(block, slot)))
}

/// Returns an overflow file with at least `least` leaves.
fn log<'a>(atlas: &'a Atlas, rng: &mut Rng, least: usize) -> Option<(&'a FileSystem, u64)> {
    let of = |fs: &'a FileSystem| {
        let leaves = fs.files.get(&OVERFLOW.0)?.leaves().count();
        (leaves >= least).then_some((fs, leaves as u64))
    };
    pick(rng, atlas.file_systems().filter_map(of).collect())
}

fn log_truncated(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let (fs, leaves) = log(atlas, rng, 1)?;
    let words = [fs.title(OVERFLOW.0), format!("fbn {}", leaves - 1)];
    let damage = Damage::new(Kind::BeyondEnd, words);
    let size = (leaves - 1) * BLOCK;
    Some(inode(damage, fs, OVERFLOW.0, move |inode| {
        inode.size_bytes = size
    }))
}

fn log_gap(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let (fs, leaves) = log(atlas, rng, 2)?;
    let fbn = rng.below((leaves - 1).min(255));
    let words = [fs.title(OVERFLOW.0), format!("fbn {fbn}")];
    let along = &[Kind::BlockCount, Kind::Leaked];
    let damage = Damage::new(Kind::OverflowGap, words).along(along);
    let layer = fs.layer();
    Some(damage.spoil(fs.spot(OVERFLOW.0, 1, 0), move |block| {
        IndirectMut(block).set(fbn, layer, Pointer::HOLE);
    }))
}

fn top_areas(atlas: &Atlas, _: &mut Rng) -> Option<Damage> {
    let fs = &atlas.aggregate;
    fs.files.get(&TOP_AREAS.0)?.nodes.get(&(0, 0))?;
    let damage = Damage::new(Kind::TopAreasDamaged, [fs.title(TOP_AREAS.0)]);
    Some(damage.spoil(fs.spot(TOP_AREAS.0, 0, 0), |block| block[17] = 0xff))
}

fn notes_too_long(atlas: &Atlas, _: &mut Rng) -> Option<Damage> {
    let fs = &atlas.aggregate;
    fs.files.get(&NOTES.0)?.nodes.get(&(0, 0))?;
    let damage = Damage::new(Kind::NotesDamaged, [fs.title(NOTES.0)]);
    Some(damage.spoil(fs.spot(NOTES.0, 0, 0), |block| block[18] = 1))
}

fn notes_after_end(atlas: &Atlas, _: &mut Rng) -> Option<Damage> {
    let fs = &atlas.aggregate;
    // Only notes with a second block have the second node.
    fs.files.get(&NOTES.0)?.nodes.get(&(0, 1))?;
    let damage = Damage::new(Kind::NotesDamaged, [fs.title(NOTES.0)]);
    Some(damage.spoil(fs.spot(NOTES.0, 0, 0), |block| block[16..20].fill(0)))
}

fn volume_superblock(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let fs = pick(
        rng,
        atlas.volumes.values().map(|volume| &volume.fs).collect(),
    )?;
    // Magic, version, id, UUID, sync, kind of the inode.
    let at = [0, 8, 12, 24, 60, 84][rng.index(6)];
    let damage = Damage::new(Kind::VolumeSuperblockDamaged, [fs.words(), "vvbn 1".into()]);
    Some(damage.spoil(fs.spot(0, 0, 0), move |block| block[at] ^= 0x40))
}
