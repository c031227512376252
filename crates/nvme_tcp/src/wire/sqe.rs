//! Commands. Each is a submission queue entry of 64 bytes (NVMe base 2.0, figure "Common Command
//! Format").
//!
//! | place | field |
//! | --- | --- |
//! | 0 | opcode |
//! | 1 | fused operation, bits 0–1; kind of data pointer, bits 6–7 |
//! | 2 | command id, 2 bytes |
//! | 4 | namespace id, 4 bytes; of a fabrics command its type, 1 byte |
//! | 24 | data pointer: address 8, length 4, reserved 3, type 1 |
//! | 40 | six words of 4 bytes, by opcode |

use super::fields::{put, u16_at, u32_at, u64_at};

/// Part of a fused operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fuse {
    /// A command of its own.
    Alone,
    /// The first of two.
    First,
    /// The second of two.
    Second,
    /// The reserved value.
    Reserved,
}

/// Kinds of descriptors of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SglKind {
    /// The data is in the message of the command, at an offset.
    InCapsule,
    /// The data is transferred by messages of its own.
    Transport,
    /// Anything else.
    Other(u8),
}

/// Where the data of a command is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sgl {
    /// The kind.
    pub kind: SglKind,
    /// Offset of data in the message; of no meaning otherwise.
    pub address: u64,
    /// Bytes.
    pub length: u32,
}

/// A command. Any values may stand in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// See [`super::opcode`].
    pub opcode: u8,
    /// Fused operation and kind of data pointer.
    pub flags: u8,
    /// Repeated in the completion.
    pub id: u16,
    /// Namespace, or the type of a fabrics command in the lowest byte.
    pub namespace: u32,
    /// The data.
    pub sgl: Sgl,
    /// Words 10 to 15.
    pub words: [u32; 6],
}

/// The data pointer is an [`Sgl`].
pub const FLAGS_SGL: u8 = 1 << 6;

impl Command {
    /// Size on the wire.
    pub const BYTES: usize = 64;

    /// Parses the bytes. Nothing is checked.
    #[must_use]
    #[inline]
    pub fn parse(bytes: &[u8; Self::BYTES]) -> Command {
        let kind = match bytes[39] {
            0x01 => SglKind::InCapsule,
            0x5a => SglKind::Transport,
            other => SglKind::Other(other),
        };
        Command {
            opcode: bytes[0],
            flags: bytes[1],
            id: u16_at(bytes, 2),
            namespace: u32_at(bytes, 4),
            sgl: Sgl {
                kind,
                address: u64_at(bytes, 24),
                length: u32_at(bytes, 32),
            },
            words: std::array::from_fn(|word| u32_at(bytes, 40 + 4 * word)),
        }
    }

    /// Encodes the command.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[0] = self.opcode;
        bytes[1] = self.flags;
        put(&mut bytes, 2, &self.id.to_le_bytes());
        put(&mut bytes, 4, &self.namespace.to_le_bytes());
        put(&mut bytes, 24, &self.sgl.address.to_le_bytes());
        put(&mut bytes, 32, &self.sgl.length.to_le_bytes());
        bytes[39] = match self.sgl.kind {
            SglKind::InCapsule => 0x01,
            SglKind::Transport => 0x5a,
            SglKind::Other(other) => other,
        };
        for (word, value) in self.words.iter().enumerate() {
            put(&mut bytes, 40 + 4 * word, &value.to_le_bytes());
        }
        bytes
    }

    /// Returns the part of a fused operation that the command is.
    #[must_use]
    #[inline]
    pub fn fuse(&self) -> Fuse {
        match self.flags & 3 {
            0 => Fuse::Alone,
            1 => Fuse::First,
            2 => Fuse::Second,
            _ => Fuse::Reserved,
        }
    }

    /// Returns the type of a fabrics command.
    #[must_use]
    pub fn fabrics_type(&self) -> u8 {
        self.namespace.to_le_bytes()[0]
    }

    /// Returns words 10 and 11 as one number: the first block of a range.
    #[must_use]
    #[inline]
    pub fn first_block(&self) -> u64 {
        u64::from(self.words[0]) | u64::from(self.words[1]) << 32
    }

    /// Returns the number of blocks in word 12, 1 to 65,536.
    #[must_use]
    #[inline]
    pub fn block_count(&self) -> u32 {
        (self.words[2] & 0xffff) + 1
    }
}
