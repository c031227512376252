//! Context map: the owner and the content tag of each block of the aggregate. Replaces B-09.
//!
//! Sixteen bytes per pvbn, 256 to a headerless block; valid iff the active map bit is set.
//!
//! | bits | field |
//! | --- | --- |
//! | 0–31 | file of the aggregate (for a volume's block: its container) |
//! | 32–71 | vvbn (leaf of a container) or index of the block at its level |
//! | 72–75 | level |
//! | 76–79 | kind: 1 = block of an aggregate file, 2 = leaf of a container |
//! | 80–127 | tag; zero for blocks of aggregate files |

use crate::bytes::{low_bits, put, u128_at};
use crate::number::NUMBER_BITS;
use crate::{BLOCK_SIZE, Block, Damage, FileId, Pvbn, Tag};

/// Bytes of a context.
pub const CONTEXT_BYTES: usize = 16;
/// Contexts in a block.
pub const CONTEXTS_PER_BLOCK: u64 = (BLOCK_SIZE / CONTEXT_BYTES) as u64;

/// The kind of a block's owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A block, at any level, of a file of the aggregate.
    File {
        /// 0 = leaf.
        level: u8,
        /// Place among the blocks of the level.
        index: u64,
    },
    /// A leaf of a container: a block of a volume.
    Container {
        /// The volume's number for it.
        vvbn: u64,
    },
}

/// Owner and content of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// File of the aggregate.
    pub file: FileId,
    /// Owner of the block within the file.
    pub owner: Owner,
    /// Content; zero for blocks of aggregate files, whose tags are in their parents.
    pub tag: Tag,
}

/// Block of the context map and slot in it for `pvbn`.
#[must_use]
pub fn block_and_slot(pvbn: Pvbn) -> (u64, usize) {
    (
        pvbn.0 / CONTEXTS_PER_BLOCK,
        (pvbn.0 % CONTEXTS_PER_BLOCK) as usize,
    )
}

impl Context {
    /// Writes the context into `slot` of a block of the map.
    pub fn encode_into(&self, block: &mut Block, slot: usize) {
        let (kind, level, index) = match self.owner {
            Owner::File { level, index } => (1u128, u128::from(level), index),
            Owner::Container { vvbn } => (2, 0, vvbn),
        };
        assert!(index >> NUMBER_BITS == 0 && level < 16, "{self:?}");
        let value = u128::from(self.file.0)
            | u128::from(index) << 32
            | level << 72
            | kind << 76
            | u128::from(self.tag.0) << 80;
        put(block, slot * CONTEXT_BYTES, value.to_le_bytes());
    }

    /// Reads `slot` of a block of the map.
    ///
    /// # Errors
    /// Bytes that name no owner.
    pub fn decode_from(block: &Block, slot: usize) -> Result<Context, Damage> {
        let value = u128_at(block, slot * CONTEXT_BYTES);
        let index = low_bits(value >> 32, NUMBER_BITS);
        let level = u8::try_from(low_bits(value >> 72, 4)).expect("four bits");
        let owner = match low_bits(value >> 76, 4) {
            1 => Owner::File { level, index },
            2 if level == 0 => Owner::Container { vvbn: index },
            kind => return Err(Damage::new("context kind", "1 or 2", kind)),
        };
        let file = FileId(u32::try_from(low_bits(value, 32)).expect("32 bits"));
        Ok(Context {
            file,
            owner,
            tag: Tag(low_bits(value >> 80, 48)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_survive_the_round_trip() {
        let mut block = [0; BLOCK_SIZE];
        let all = [
            Context {
                file: FileId(64),
                owner: Owner::Container { vvbn: 1 << 39 },
                tag: Tag(0xffff_ffff_ffff),
            },
            Context {
                file: FileId(7),
                owner: Owner::File {
                    level: 5,
                    index: 77,
                },
                tag: Tag(0),
            },
        ];
        for (slot, context) in all.iter().enumerate() {
            context.encode_into(&mut block, slot + 254);
        }
        for (slot, context) in all.iter().enumerate() {
            assert_eq!(Context::decode_from(&block, slot + 254), Ok(*context));
        }
        assert!(
            Context::decode_from(&block, 0).is_err(),
            "nobody owns this block"
        );
    }
}
