//! Indirect blocks: a 16-byte header and 255 pointers (B-06, B-13).
//!
//! | offset | bytes | field |
//! | --- | --- | --- |
//! | 0 | 1 | kind: what the block belongs to ([`BlockKind`]) |
//! | 1 | 1 | level in bits 0–3 (0 = leaf with a header, 1 = points at leaves …), version in bits 4–7 |
//! | 2 | 6 | consistency point that wrote the block |
//! | 8 | 4 | file id |
//! | 12 | 4 | index of the block among those of its level |
//! | 16 | 4,080 | 255 pointers |
//!
//! Leaves of metafiles that carry a header (directories, TopAA) use the same first 16 bytes.

use crate::bytes::{array_at, put, u32_at, u64_at};
use crate::pointer::POINTER_BYTES;
use crate::{Block, CpNumber, Damage, FileId, Layer, Pointer, SPAN};

/// Bytes of the header.
pub const HEADER_BYTES: usize = 16;
/// Deepest level of a tree: 255^6 blocks exceed the 40 bits of a block number.
pub const LEVELS_MAX: u8 = 6;

/// The kind of a block with a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum BlockKind {
    /// Pointers of an aggregate file or container.
    AggregateIndirect = 1,
    /// Pointers of a volume file.
    VolumeIndirect = 2,
    /// Entries of a directory.
    Directory = 3,
    /// Fourteen inodes.
    Inodes = 4,
    /// The best areas.
    TopAreas = 5,
    /// Records of a snapshot table.
    Snapshots = 6,
    /// Entries of a release file.
    Releases = 7,
    /// A part of the notes.
    Notes = 8,
}

impl BlockKind {
    fn decode(byte: u8) -> Result<Self, Damage> {
        Ok(match byte {
            1 => BlockKind::AggregateIndirect,
            2 => BlockKind::VolumeIndirect,
            3 => BlockKind::Directory,
            4 => BlockKind::Inodes,
            5 => BlockKind::TopAreas,
            6 => BlockKind::Snapshots,
            7 => BlockKind::Releases,
            8 => BlockKind::Notes,
            _ => return Err(Damage::new("block kind", "1 to 8", byte)),
        })
    }

    /// The kind of indirect blocks at `layer`.
    #[must_use]
    pub fn indirect(layer: Layer) -> BlockKind {
        match layer {
            Layer::Aggregate => BlockKind::AggregateIndirect,
            Layer::Volume => BlockKind::VolumeIndirect,
        }
    }
}

/// Identity and age of a block with a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Kind of the block.
    pub kind: BlockKind,
    /// 0 for leaves.
    pub level: u8,
    /// The consistency point that wrote it.
    pub cp: CpNumber,
    /// Its file.
    pub file: FileId,
    /// Its place among the blocks of its level.
    pub index: u32,
}

impl Header {
    /// Writes the header into the first bytes of `block`.
    pub fn encode(&self, block: &mut Block) {
        assert!(self.level <= LEVELS_MAX, "level {} of {self:?}", self.level);
        let stamp = self.cp.0 << 16 | u64::from(self.level) << 8 | u64::from(self.kind as u8);
        put(block, 0, stamp.to_le_bytes());
        put(block, 8, self.file.0.to_le_bytes());
        put(block, 12, self.index.to_le_bytes());
    }

    /// Reads a header.
    ///
    /// # Errors
    /// Unknown kind or version, impossible level.
    pub fn decode(block: &Block) -> Result<Header, Damage> {
        let stamp = u64_at(block, 0);
        let kind = BlockKind::decode(block[0])?;
        let (level, version) = (block[1] & 0xf, block[1] >> 4);
        Damage::unless_equal("block version", 0, version)?;
        if level > LEVELS_MAX {
            return Err(Damage::new("block level", "at most 6", level));
        }
        Ok(Header {
            kind,
            level,
            cp: CpNumber(stamp >> 16),
            file: FileId(u32_at(block, 8)),
            index: u32_at(block, 12),
        })
    }

    /// Checks that `block` is the one a parent expects, written no later than `cp`.
    ///
    /// # Errors
    /// The first difference.
    pub fn expect(
        block: &Block,
        kind: BlockKind,
        level: u8,
        file: FileId,
        index: u64,
    ) -> Result<Header, Damage> {
        let header = Header::decode(block)?;
        Damage::unless_equal("block kind", kind, header.kind)?;
        Damage::unless_equal("block level", level, header.level)?;
        Damage::unless_equal("block's file", file, header.file)?;
        Damage::unless_equal("block index", index, u64::from(header.index))?;
        Ok(header)
    }
}

fn slot_offset(slot: u64) -> usize {
    assert!(slot < SPAN, "slot {slot} of an indirect block");
    // Bounded by the assertion above.
    #[expect(clippy::cast_possible_truncation, reason = "below 255")]
    let slot = slot as usize;
    HEADER_BYTES + slot * POINTER_BYTES
}

/// Reads pointers of an indirect block.
#[derive(Clone, Copy)]
pub struct Indirect<'a>(pub &'a Block);

impl Indirect<'_> {
    /// The pointer in `slot` (0 ..= 254).
    ///
    /// # Errors
    /// Bytes that are no pointer.
    pub fn pointer(&self, slot: u64, layer: Layer) -> Result<Pointer, Damage> {
        Pointer::decode(array_at(self.0, slot_offset(slot)), layer)
    }

    /// Returns the address of `slot` (0 ..= 254) in memory.
    #[must_use]
    pub fn slot_address(&self, slot: u64) -> *const u8 {
        self.0[slot_offset(slot)..].as_ptr()
    }

    /// True if no slot holds anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0[HEADER_BYTES..].iter().all(|byte| *byte == 0)
    }

    /// Returns the first slot from `from` on that is not a hole.
    #[must_use]
    pub fn next_used(&self, from: u64) -> Option<u64> {
        (from..SPAN).find(|slot| array_at::<POINTER_BYTES>(self.0, slot_offset(*slot)) != [0; 16])
    }

    /// Last slot before `to` that is not a hole.
    #[must_use]
    pub fn last_used(&self, to: u64) -> Option<u64> {
        (0..to)
            .rev()
            .find(|slot| array_at::<POINTER_BYTES>(self.0, slot_offset(*slot)) != [0; 16])
    }
}

/// Writes pointers of an indirect block.
pub struct IndirectMut<'a>(pub &'a mut Block);

impl IndirectMut<'_> {
    /// Puts `pointer` into `slot`.
    pub fn set(&mut self, slot: u64, layer: Layer, pointer: Pointer) {
        put(self.0, slot_offset(slot), pointer.encode(layer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BLOCK_SIZE, Pvbn, Tag, Vvbn};

    #[test]
    fn header_and_pointers_do_not_overlap() {
        let mut block = [0; BLOCK_SIZE];
        let header = Header {
            kind: BlockKind::VolumeIndirect,
            level: 3,
            cp: CpNumber((1 << 48) - 1),
            file: FileId(u32::MAX),
            index: u32::MAX,
        };
        header.encode(&mut block);
        let pointer = Pointer {
            vvbn: Vvbn(7),
            pvbn: Pvbn(9),
            tag: Tag((1 << 48) - 1),
        };
        for slot in 0..SPAN {
            IndirectMut(&mut block).set(slot, Layer::Volume, pointer);
        }
        assert_eq!(Header::decode(&block), Ok(header));
        assert_eq!(Indirect(&block).pointer(254, Layer::Volume), Ok(pointer));
        IndirectMut(&mut block).set(0, Layer::Volume, Pointer::HOLE);
        assert_eq!(Indirect(&block).next_used(0), Some(1));
        assert_eq!(Indirect(&block).last_used(254), Some(253));
    }

    #[test]
    fn a_block_of_another_file_is_refused_with_both_names() {
        let mut block = [0; BLOCK_SIZE];
        let kind = BlockKind::AggregateIndirect;
        Header {
            kind,
            level: 1,
            cp: CpNumber(1),
            file: FileId(70),
            index: 0,
        }
        .encode(&mut block);
        let damage = Header::expect(&block, kind, 1, FileId(71), 0).expect_err("foreign block");
        assert_eq!(
            damage.to_string(),
            "block's file: expected FileId(71), found FileId(70)"
        );
    }
}
