//! LUN clones under way that do not fit the superblock's record of them. The verifier may or may
//! not report them: they are for the engine, which resumes the clone when it starts.

use everglade_check::Kind;
use everglade_format::volume::LunCloning;
use everglade_format::{BLOCK_SIZE, Pointer, SPAN, VolumeSuperblock};
use everglade_testing::Rng;

use super::atlas::{Atlas, Volume};
use super::seal::change_inode;
use super::{Damage, Way, pick};

pub(super) const WAYS: &[Way] = &[
    ("cursor-behind", cursor_behind),
    ("clone-too-short", too_short),
    ("clone-without-levels", without_levels),
];

/// A volume of which a LUN is being cloned, and how far that is.
fn cloning<'a>(
    atlas: &'a Atlas,
    rng: &mut Rng,
    wanted: impl Fn(&Volume, LunCloning) -> bool,
) -> Option<(&'a Volume, LunCloning)> {
    let volumes = atlas.volumes.values();
    let cloning = volumes.filter_map(|it| Some((it, it.superblock.snapshots.lun_clone?)));
    pick(
        rng,
        cloning.filter(|(it, clone)| wanted(it, *clone)).collect(),
    )
}

/// Moves the cursor back, so that shared blocks would be shared again.
fn cursor_behind(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    let is_begun = |it: &Volume, clone: LunCloning| {
        clone.next > 0 && it.fs.tree(clone.to.0).leaves().next().is_some()
    };
    let (volume, _) = cloning(atlas, rng, is_begun)?;
    let (id, uuid) = (volume.superblock.volume, volume.superblock.uuid);
    let damage = Damage::new(Kind::SnapshotRoots, []);
    Some(damage.spoil(volume.fs.spot(0, 0, 0), move |block| {
        let mut superblock = VolumeSuperblock::decode(block, id, &uuid).expect("clean");
        let clone = superblock.snapshots.lun_clone.as_mut();
        clone.expect("it is being made").next = 0;
        *block = superblock.encode();
    }))
}

/// The clone's inode has this many blocks and levels, and nothing below it.
fn cut(atlas: &Atlas, rng: &mut Rng, blocks: u64, levels: u8) -> Option<Damage> {
    let is_empty = |it: &Volume, clone: LunCloning| {
        clone.next == 0 && it.fs.tree(clone.to.0).leaves().next().is_none()
    };
    let (volume, clone) = cloning(atlas, rng, is_empty)?;
    let (spot, slot) = volume.fs.inode_spot(clone.to.0);
    let layer = volume.fs.layer();
    let damage = Damage::new(Kind::BlockCount, []);
    Some(damage.spoil(spot, move |block| {
        change_inode(block, slot, clone.to.0, layer, |inode| {
            (inode.size_bytes, inode.levels) = (blocks * BLOCK_SIZE as u64, levels);
            (inode.root, inode.blocks) = (Pointer::HOLE, 0);
        });
    }))
}

fn too_short(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    cut(atlas, rng, SPAN, 1)
}

fn without_levels(atlas: &Atlas, rng: &mut Rng) -> Option<Damage> {
    cut(atlas, rng, 1, 0)
}
