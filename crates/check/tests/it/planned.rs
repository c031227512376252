//! A file as planned: its leaves, then numbers for its blocks, then its bytes sealed from the
//! bottom up.

use std::collections::BTreeMap;

use everglade_format::indirect::BlockKind;
use everglade_format::{
    BLOCK_SIZE, Block, CpNumber, FileId, Header, IndirectMut, Inode, Kind as FileKind, Layer,
    Pointer, Pvbn, TagKey, Vvbn,
};

/// A place in a file: level and index.
pub(crate) type Node = (u8, u64);

/// The name of a block to spoil.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(crate) layer: Layer,
    pub(crate) file: u32,
    pub(crate) level: u8,
    pub(crate) index: u64,
}

/// Changes blocks before they are sealed.
pub(crate) type Spoil<'s> = &'s mut dyn FnMut(Spot, &mut Block);

pub(crate) struct Planned {
    pub(crate) inode: Inode,
    pub(crate) leaves: BTreeMap<u64, Block>,
    pub(crate) numbers: BTreeMap<Node, u64>,
}

impl Planned {
    pub(crate) fn new(id: u32, kind: FileKind, blocks: u64) -> Self {
        let mut inode = Inode::new(FileId(id), kind, CpNumber(1), 7);
        inode.size_bytes = blocks * BLOCK_SIZE as u64;
        inode.levels = Inode::levels_for(blocks);
        Planned {
            inode,
            leaves: BTreeMap::new(),
            numbers: BTreeMap::new(),
        }
    }

    /// Gives every block of the tree a number.
    pub(crate) fn allocate(&mut self, next: &mut dyn FnMut() -> u64) {
        let mut nodes: Vec<u64> = self.leaves.keys().copied().collect();
        for level in 0..=self.inode.levels {
            nodes.dedup();
            for index in &nodes {
                self.numbers.insert((level, *index), next());
            }
            nodes = nodes.iter().map(|index| index / 255).collect();
        }
        self.inode.blocks = self.numbers.len() as u64;
    }

    /// Makes all blocks, spoils and seals them; `put` stores a block under its number and says what
    /// to point at.
    pub(crate) fn seal(
        &mut self,
        layer: Layer,
        cp: CpNumber,
        spoil: Spoil<'_>,
        put: &mut dyn FnMut(Node, u64, &Block) -> Pointer,
    ) {
        let mut pointers: BTreeMap<Node, Pointer> = BTreeMap::new();
        for ((level, index), number) in &self.numbers {
            let (level, index) = (*level, *index);
            let mut block = [0; BLOCK_SIZE];
            if level == 0 {
                block = self.leaves[&index];
            } else {
                let kind = BlockKind::indirect(layer);
                header(kind, level, cp, self.inode.id, index).encode(&mut block);
                for slot in 0..255 {
                    if let Some(pointer) = pointers.get(&(level - 1, index * 255 + slot)) {
                        IndirectMut(&mut block).set(slot, layer, *pointer);
                    }
                }
            }
            let spot = Spot {
                layer,
                file: self.inode.id.0,
                level,
                index,
            };
            spoil(spot, &mut block);
            pointers.insert((level, index), put((level, index), *number, &block));
        }
        self.inode.root = pointers
            .get(&(self.inode.levels, 0))
            .copied()
            .unwrap_or(Pointer::HOLE);
    }
}

pub(crate) fn header(kind: BlockKind, level: u8, cp: CpNumber, file: FileId, index: u64) -> Header {
    Header {
        kind,
        level,
        cp,
        file,
        index: u32::try_from(index).unwrap(),
    }
}

/// A pointer to `block` stored at `pvbn`, and at `vvbn` in a volume.
pub(crate) fn pointer(key: &TagKey, vvbn: u64, pvbn: u64, block: &Block) -> Pointer {
    Pointer {
        vvbn: Vvbn(vvbn),
        pvbn: Pvbn(pvbn),
        tag: key.tag(block),
    }
}
