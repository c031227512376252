//! Inodes: 288 bytes, 14 to a block (B-03, B-04, B-05).
//!
//! | offset | bytes | field |
//! | --- | --- | --- |
//! | 0 | 4 | file id (0 in a free slot, which is all zero) |
//! | 4 | 1 | kind ([`Kind`]) |
//! | 5 | 1 | flags: bit 0 = data in the inode; bit 1 = cut short (LUNs only): the tree may have blocks beyond the end, which are being freed |
//! | 6 | 1 | levels: 0 = the root pointer is the only leaf, n = it points at an indirect block of level n |
//! | 7 | 1 | zero |
//! | 8 | 8 | size in bytes |
//! | 16 | 8 | blocks referenced by the tree, leaves and indirect blocks |
//! | 24 | 8 | consistency point of creation |
//! | 32 | 8 | time of creation, seconds since 1970 UTC |
//! | 40 | 16 | root pointer |
//! | 56 | 2 | bytes of data in the inode |
//! | 58 | 38 | zero |
//! | 96 | 192 | data in the inode |
//!
//! A block of inodes starts with a [`crate::indirect::Header`]; inode `i` of the block is at
//! 16 + 288 × i. File `f` is inode `f % 14` of block `f / 14` of the inode file.

use crate::bytes::{array_at, put, u16_at, u32_at, u64_at};
use crate::indirect::{HEADER_BYTES, LEVELS_MAX};
use crate::{BLOCK_SIZE, Block, CpNumber, Damage, FileId, Layer, Pointer, SPAN};

/// Bytes of an inode.
pub const INODE_BYTES: usize = 288;
/// Inodes in a block.
pub const INODES_PER_BLOCK: u64 = 14;
/// Most bytes of file data held in an inode.
pub const INLINE_BYTES_MAX: usize = 192;
const INLINE_OFFSET: usize = 96;
const FLAG_INLINE: u8 = 1;
const FLAG_CUT: u8 = 2;

/// The purpose of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Holds metadata of its file system (fixed ids, see [`crate::metafile`]).
    Metafile = 1,
    /// A LUN of a volume.
    Lun = 2,
    /// The container of a volume, in an aggregate.
    Container = 3,
    /// The summary map of a volume, in an aggregate (F-04): leaves like those of an active map.
    Summary = 4,
    /// The snapshot table of a volume, in an aggregate.
    Snapshots = 5,
    /// The release file of a volume, in an aggregate.
    Release = 6,
}

/// A file: its size and the root of its block tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inode {
    /// Id of the file.
    pub id: FileId,
    /// Purpose of the file.
    pub kind: Kind,
    /// Levels of indirect blocks above the leaves.
    pub levels: u8,
    /// Bytes.
    pub size_bytes: u64,
    /// Blocks referenced by the tree, leaves and indirect blocks.
    pub blocks: u64,
    /// When it was created.
    pub cp_created: CpNumber,
    /// When it was created, for people.
    pub created_seconds: u64,
    /// The leaf (levels 0) or the topmost indirect block.
    pub root: Pointer,
    /// The file's data, if it is held here instead of in a tree (B-05).
    pub inline: Option<Vec<u8>>,
    /// True after the file was made shorter: the tree may have blocks beyond the end, which are
    /// being freed. LUNs only.
    pub is_cut: bool,
}

impl Inode {
    /// An empty file.
    #[must_use]
    pub fn new(id: FileId, kind: Kind, cp_created: CpNumber, created_seconds: u64) -> Self {
        Inode {
            id,
            kind,
            levels: 0,
            size_bytes: 0,
            blocks: 0,
            cp_created,
            created_seconds,
            root: Pointer::HOLE,
            inline: None,
            is_cut: false,
        }
    }

    /// The file's length in blocks.
    #[must_use]
    pub fn block_count(&self) -> u64 {
        self.size_bytes.div_ceil(BLOCK_SIZE as u64)
    }

    /// Levels of indirect blocks a file of `blocks` leaves needs (B-04).
    #[must_use]
    pub fn levels_for(blocks: u64) -> u8 {
        let mut levels = 0;
        let mut reach = 1u64;
        while reach < blocks {
            reach = reach.saturating_mul(SPAN);
            levels += 1;
        }
        levels
    }

    /// Leaves under one block of `level`.
    #[must_use]
    pub fn reach(level: u8) -> u64 {
        SPAN.saturating_pow(u32::from(level))
    }

    /// Block of the inode file and slot in it.
    #[must_use]
    pub fn block_and_slot(id: FileId) -> (u64, usize) {
        let id = u64::from(id.0);
        (id / INODES_PER_BLOCK, (id % INODES_PER_BLOCK) as usize)
    }

    /// Writes the inode into `slot` of a block of inodes.
    pub fn encode_into(&self, block: &mut Block, slot: usize, layer: Layer) {
        let at = HEADER_BYTES + slot * INODE_BYTES;
        block[at..at + INODE_BYTES].copy_from_slice(&self.encode(layer));
    }

    /// Empties `slot` of a block of inodes.
    pub fn erase(block: &mut Block, slot: usize) {
        let at = HEADER_BYTES + slot * INODE_BYTES;
        block[at..at + INODE_BYTES].fill(0);
    }

    /// Reads `slot` of a block of inodes; `None` if it is free.
    ///
    /// # Errors
    /// Bytes that are no inode, or one that belongs elsewhere.
    pub fn decode_from(
        block: &Block,
        slot: usize,
        id: FileId,
        layer: Layer,
    ) -> Result<Option<Inode>, Damage> {
        let at = HEADER_BYTES + slot * INODE_BYTES;
        let bytes: [u8; INODE_BYTES] = array_at(block, at);
        if bytes == [0; INODE_BYTES] {
            return Ok(None);
        }
        let inode = Inode::decode(&bytes, layer)?;
        Damage::unless_equal("inode id", id, inode.id)?;
        Ok(Some(inode))
    }

    /// The bytes on media.
    #[must_use]
    pub fn encode(&self, layer: Layer) -> [u8; INODE_BYTES] {
        assert!(self.levels <= LEVELS_MAX, "{self:?}");
        let mut out = [0; INODE_BYTES];
        put(&mut out, 0, self.id.0.to_le_bytes());
        out[4] = self.kind as u8;
        out[6] = self.levels;
        put(&mut out, 8, self.size_bytes.to_le_bytes());
        put(&mut out, 16, self.blocks.to_le_bytes());
        put(&mut out, 24, self.cp_created.0.to_le_bytes());
        put(&mut out, 32, self.created_seconds.to_le_bytes());
        put(&mut out, 40, self.root.encode(layer));
        assert!(!self.is_cut || self.kind == Kind::Lun, "{self:?}");
        out[5] = if self.is_cut { FLAG_CUT } else { 0 };
        if let Some(data) = &self.inline {
            assert!(
                data.len() <= INLINE_BYTES_MAX,
                "{} bytes in an inode",
                data.len()
            );
            assert!(self.root.is_hole(), "data in the inode and in a tree");
            out[5] |= FLAG_INLINE;
            let length = u16::try_from(data.len()).expect("at most 192");
            put(&mut out, 56, length.to_le_bytes());
            out[INLINE_OFFSET..INLINE_OFFSET + data.len()].copy_from_slice(data);
        }
        out
    }

    /// Reads an inode.
    ///
    /// # Errors
    /// Fields that contradict each other or this version.
    pub fn decode(bytes: &[u8; INODE_BYTES], layer: Layer) -> Result<Inode, Damage> {
        let kind = match bytes[4] {
            1 => Kind::Metafile,
            2 => Kind::Lun,
            3 => Kind::Container,
            4 => Kind::Summary,
            5 => Kind::Snapshots,
            6 => Kind::Release,
            other => return Err(Damage::new("inode kind", "1 to 3", other)),
        };
        let is_cut = bytes[5] & FLAG_CUT != 0;
        let possible = match kind {
            Kind::Lun => FLAG_INLINE | FLAG_CUT,
            _ => FLAG_INLINE,
        };
        if bytes[5] & !possible != 0 {
            let expected = format!("those of {possible} for this kind");
            return Err(Damage::new("inode flags", expected, bytes[5]));
        }
        let levels = bytes[6];
        if levels > LEVELS_MAX {
            return Err(Damage::new("inode levels", "at most 6", levels));
        }
        let root = Pointer::decode(array_at(bytes, 40), layer)?;
        let inline_bytes = usize::from(u16_at(bytes, 56));
        let inline = if bytes[5] & FLAG_INLINE != 0 {
            if inline_bytes > INLINE_BYTES_MAX || !root.is_hole() {
                return Err(Damage::new(
                    "data in the inode",
                    "at most 192 bytes, no tree",
                    inline_bytes,
                ));
            }
            Some(bytes[INLINE_OFFSET..INLINE_OFFSET + inline_bytes].to_vec())
        } else {
            Damage::unless_equal("bytes of data in the inode", 0, inline_bytes)?;
            None
        };
        let inode = Inode {
            id: FileId(u32_at(bytes, 0)),
            kind,
            levels,
            size_bytes: u64_at(bytes, 8),
            blocks: u64_at(bytes, 16),
            cp_created: CpNumber(u64_at(bytes, 24)),
            created_seconds: u64_at(bytes, 32),
            root,
            inline,
            is_cut,
        };
        let limit = crate::number::NUMBER_END * BLOCK_SIZE as u64;
        if inode.size_bytes > limit {
            return Err(Damage::new(
                "file size",
                format!("at most {limit}"),
                inode.size_bytes,
            ));
        }
        if inode.id.0 == 0 {
            return Err(Damage::new("inode id", "not zero", 0));
        }
        Ok(inode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Pvbn, Tag, Vvbn};
    use proptest::prelude::*;

    #[test]
    fn levels_follow_the_span() {
        for (blocks, levels) in [
            (0, 0),
            (1, 0),
            (2, 1),
            (255, 1),
            (256, 2),
            (65_025, 2),
            (65_026, 3),
        ] {
            assert_eq!(Inode::levels_for(blocks), levels, "{blocks} blocks");
        }
    }

    #[test]
    fn an_inode_survives_the_round_trip_and_its_neighbours_are_untouched() {
        let mut inode = Inode::new(FileId(70), Kind::Lun, CpNumber(12), 1_700_000_000);
        inode.root = Pointer {
            vvbn: Vvbn(5),
            pvbn: Pvbn(6),
            tag: Tag(7),
        };
        (inode.size_bytes, inode.levels, inode.blocks) = (1 << 40, 4, 99);
        let mut block = [0; BLOCK_SIZE];
        inode.encode_into(&mut block, 13, Layer::Volume);
        assert_eq!(
            Inode::decode_from(&block, 13, FileId(70), Layer::Volume),
            Ok(Some(inode))
        );
        assert_eq!(
            Inode::decode_from(&block, 12, FileId(69), Layer::Volume),
            Ok(None)
        );
        assert!(Inode::decode_from(&block, 13, FileId(71), Layer::Volume).is_err());
    }

    #[test]
    fn tiny_files_live_in_their_inode() {
        let mut inode = Inode::new(FileId(70), Kind::Metafile, CpNumber(1), 0);
        inode.inline = Some((0..192).collect());
        assert_eq!(
            Inode::decode(&inode.encode(Layer::Aggregate), Layer::Aggregate),
            Ok(inode)
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_decoded_or_refused(head: [u8; 64], tail: [u8; 32]) {
            let mut bytes = [0; INODE_BYTES];
            bytes[..64].copy_from_slice(&head);
            bytes[64..96].copy_from_slice(&tail);
            let _ = Inode::decode(&bytes, Layer::Volume);
        }
    }
}
