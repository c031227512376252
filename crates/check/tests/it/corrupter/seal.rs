//! Sealing: spoiled blocks take their tags into everything above them, and all of it to the media.
//!
//! Volumes come first, then the files of the aggregate (the containers among them), the context
//! map, which has the tags of leaves of containers, the aggregate's inode file, and the superblock
//! in all copies.

use std::collections::BTreeMap;

use everglade_format::context::block_and_slot;
use everglade_format::label::{SUPERBLOCK_OFFSETS, superblock_slot};
use everglade_format::metafile::{CONTEXT_MAP, FIRST_FILE, INODE_FILE};
use everglade_format::{
    Block, Context, FileId, Indirect, IndirectMut, Inode, Kind as FileKind, Layer, Pointer, Pvbn,
    SPAN, Tag, VolumeSuperblock,
};
use everglade_testing::SimWorld;

use super::Damage;
use super::atlas::{Atlas, FileSystem, Spot, Tree};

struct Sealing<'s> {
    atlas: &'s Atlas,
    damage: &'s Damage,
    /// Blocks that differ from the image, by pvbn.
    changed: BTreeMap<u64, Block>,
    /// Spoils that found their block.
    hits: usize,
}

/// Writes the image with `damage` in it.
pub(crate) fn seal(atlas: &Atlas, damage: &Damage, world: &SimWorld) {
    let mut sealing = Sealing {
        atlas,
        damage,
        changed: BTreeMap::new(),
        hits: 0,
    };
    for id in atlas.volumes.keys() {
        sealing.volume(*id);
    }
    let mut superblock = atlas.superblock.clone();
    superblock.inode_file.root = sealing.aggregate();
    if let Some(change) = &damage.superblock {
        change(&mut superblock);
    }
    assert_eq!(sealing.hits, damage.spoils.len(), "every spot exists");
    let storage = world.storage();
    for (pvbn, block) in &sealing.changed {
        let (device, offset) = atlas.locate(*pvbn);
        storage.write(device, offset, block).expect("no faults");
    }
    if superblock == atlas.superblock {
        return;
    }
    let block = superblock.encode(&atlas.key);
    for (device, label) in atlas.members().flat_map(|member| atlas.labels(member)) {
        let at = label + SUPERBLOCK_OFFSETS[superblock_slot(superblock.cp)];
        storage.write(device, at, &block).expect("no faults");
    }
}

impl Sealing<'_> {
    /// Changes a block; remembers it if it differs from the image.
    fn edit(&mut self, pvbn: u64, change: impl FnOnce(&mut Block)) {
        let original = self.atlas.content(pvbn);
        let mut block = self.changed.get(&pvbn).copied().unwrap_or(*original);
        change(&mut block);
        if block != *original {
            self.changed.insert(pvbn, block);
        }
    }

    fn spoil(&mut self, spot: Spot, pvbn: u64) {
        let damage = self.damage;
        for (_, change) in damage.spoils.iter().filter(|(at, _)| *at == spot) {
            self.hits += 1;
            self.edit(pvbn, change);
        }
    }

    /// The tag of a block, if it differs from the image.
    fn new_tag(&self, pvbn: u64) -> Option<Tag> {
        let block = self.changed.get(&pvbn)?;
        Some(self.atlas.key.tag(block))
    }

    /// Spoils and seals one tree from its leaves up; returns its root pointer.
    fn tree(&mut self, fs: &FileSystem, tree: &Tree, spoil_leaves: bool) -> Pointer {
        let layer = fs.layer();
        for ((level, index), node) in &tree.nodes {
            if *level > 0 {
                for slot in 0..SPAN {
                    let child = tree.nodes.get(&(level - 1, index * SPAN + slot));
                    if let Some(tag) = child.and_then(|child| self.new_tag(child.pvbn)) {
                        self.edit(node.pvbn, |block| set_tag(block, slot, layer, tag));
                    }
                }
            }
            if *level > 0 || spoil_leaves {
                let spot = fs.spot(tree.inode.id.0, *level, *index);
                self.spoil(spot, node.pvbn);
            }
        }
        let mut root = tree.inode.root;
        let node = tree.nodes.get(&(tree.inode.levels, 0));
        if let Some(tag) = node.and_then(|node| self.new_tag(node.pvbn)) {
            root.tag = tag;
        }
        root
    }

    /// Seals files and puts their roots into their inodes.
    fn files(
        &mut self,
        fs: &FileSystem,
        wanted: impl Fn(u32) -> bool,
        spoil_leaves: impl Fn(u32) -> bool,
    ) {
        for (id, tree) in fs.files.iter().filter(|(id, _)| wanted(**id)) {
            let root = self.tree(fs, tree, spoil_leaves(*id));
            if root == tree.inode.root {
                continue;
            }
            let (spot, slot) = fs.inode_spot(*id);
            let inode = Inode {
                root,
                ..tree.inode.clone()
            };
            let leaf = fs.inode_file.nodes[&(0, spot.index)];
            self.edit(leaf.pvbn, |block| {
                inode.encode_into(block, slot, fs.layer())
            });
        }
    }

    fn volume(&mut self, id: u32) {
        let volume = &self.atlas.volumes[&id];
        let fs = &volume.fs;
        self.files(fs, |_| true, |_| true);
        let root = self.tree(fs, &fs.inode_file, true);
        let place = self.atlas.aggregate.files[&id].nodes[&(0, 1)].pvbn;
        if root != volume.superblock.inode_file.root {
            let mut superblock: VolumeSuperblock = volume.superblock.clone();
            superblock.inode_file.root = root;
            self.edit(place, |block| *block = superblock.encode());
        }
        self.spoil(fs.spot(0, 0, 0), place);
    }

    /// Returns the root of the inode file.
    fn aggregate(&mut self) -> Pointer {
        let atlas = self.atlas;
        let fs = &atlas.aggregate;
        let is_live = |file: u32| atlas.volumes.contains_key(&file);
        self.files(fs, |file| file != CONTEXT_MAP.0, |file| !is_live(file));
        for (_, tree) in fs.files.range(FIRST_FILE.0..) {
            // Contexts of side files have no tags.
            if tree.inode.kind != FileKind::Container {
                continue;
            }
            for (_, node) in tree.leaves() {
                if let Some(tag) = self.new_tag(node.pvbn) {
                    self.context(node.pvbn, tag);
                }
            }
        }
        self.files(fs, |file| file == CONTEXT_MAP.0, |_| true);
        assert_eq!(fs.inode_file.inode.id, INODE_FILE);
        self.tree(fs, &fs.inode_file, true)
    }

    fn context(&mut self, pvbn: u64, tag: Tag) {
        let (leaf, slot) = block_and_slot(Pvbn(pvbn));
        let node = self.atlas.aggregate.files[&CONTEXT_MAP.0].nodes[&(0, leaf)];
        self.edit(node.pvbn, |block| {
            let mut context = Context::decode_from(block, slot).expect("clean");
            context.tag = tag;
            context.encode_into(block, slot);
        });
    }
}

fn set_tag(block: &mut Block, slot: u64, layer: Layer, tag: Tag) {
    let mut pointer = Indirect(block).pointer(slot, layer).expect("clean");
    pointer.tag = tag;
    IndirectMut(block).set(slot, layer, pointer);
}

/// The inode of a file in its block, changed.
pub(super) fn change_inode(
    block: &mut Block,
    slot: usize,
    file: u32,
    layer: Layer,
    change: impl Fn(&mut Inode),
) {
    let inode = Inode::decode_from(block, slot, FileId(file), layer).expect("clean");
    let mut inode = inode.expect("a file of the image");
    change(&mut inode);
    inode.encode_into(block, slot, layer);
}

/// A pointer of an indirect block, changed.
pub(super) fn change_pointer(
    block: &mut Block,
    slot: u64,
    layer: Layer,
    change: impl Fn(&mut Pointer),
) {
    let mut pointer = Indirect(block).pointer(slot, layer).expect("clean");
    change(&mut pointer);
    IndirectMut(block).set(slot, layer, pointer);
}
