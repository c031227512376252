//! Reply chunks: structured (proto "Structured reply chunk message") and extended (proto, extension
//! `EXTENDED_HEADERS`, "Extended reply chunk message"), and their payloads.

use super::fields::{take_u16, take_u32, take_u64};

/// The magic of every structured chunk.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;
/// The magic of every extended chunk.
pub const EXTENDED_REPLY_MAGIC: u32 = 0x6e8a_278c;

/// Set in the last chunk of a reply.
const FLAG_DONE: u16 = 1 << 0;

/// The payload of a chunk.
pub mod kinds {
    /// A chunk without data that ends a reply.
    pub const NONE: u16 = 0;
    /// An offset and bytes.
    pub const OFFSET_DATA: u16 = 1;
    /// An offset and a number of zeroes.
    pub const OFFSET_HOLE: u16 = 2;
    /// Extents of a metadata context, 32 bits wide.
    pub const BLOCK_STATUS: u16 = 5;
    /// Block status with 64-bit lengths; with extended headers only.
    pub const BLOCK_STATUS_EXT: u16 = 6;
    /// An error and a text.
    pub const ERROR: u16 = 0x8001;
    /// An error with the offset that it concerns.
    pub const ERROR_OFFSET: u16 = 0x8002;
}

/// States of an extent, in `base:allocation` unless said otherwise.
pub mod states {
    /// The extent takes no space.
    pub const HOLE: u32 = 1 << 0;
    /// The extent reads as zeroes.
    pub const ZERO: u32 = 1 << 1;
    /// In `everglade:changed:…`: the extent may read differently than in that image. All other bits
    /// are always zero.
    pub const CHANGED: u32 = 1 << 0;
}

/// The header of a chunk.
///
/// | structured | extended | field |
/// | --- | --- | --- |
/// | 4 | 4 | magic |
/// | 2 | 2 | flags |
/// | 2 | 2 | kind |
/// | 8 | 8 | cookie |
/// | – | 8 | offset of the request |
/// | 4 | 8 | length of what follows |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Whether this is the last chunk for the request.
    pub done: bool,
    /// [`kinds`].
    pub kind: u16,
    /// Cookie of the request.
    pub cookie: u64,
    /// Offset of the request; 0 in a structured chunk that was parsed.
    pub offset: u64,
    /// Bytes that follow.
    pub length: u32,
}

impl Chunk {
    /// Size of a structured header on the wire.
    pub const STRUCTURED_BYTES: usize = 20;
    /// Size of an extended header on the wire.
    pub const EXTENDED_BYTES: usize = 32;

    fn flags(self) -> u16 {
        if self.done { FLAG_DONE } else { 0 }
    }

    /// Encodes the common beginning of both headers.
    fn encode_start(&self, magic: u32, bytes: &mut [u8]) {
        bytes[..4].copy_from_slice(&magic.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.flags().to_be_bytes());
        bytes[6..8].copy_from_slice(&self.kind.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cookie.to_be_bytes());
    }

    /// Encodes the message after structured replies were negotiated.
    #[must_use]
    pub fn encode_structured(&self) -> [u8; Self::STRUCTURED_BYTES] {
        let mut bytes = [0; Self::STRUCTURED_BYTES];
        self.encode_start(STRUCTURED_REPLY_MAGIC, &mut bytes);
        bytes[16..].copy_from_slice(&self.length.to_be_bytes());
        bytes
    }

    /// Encodes the message after extended headers were negotiated.
    #[must_use]
    pub fn encode_extended(&self) -> [u8; Self::EXTENDED_BYTES] {
        let mut bytes = [0; Self::EXTENDED_BYTES];
        self.encode_start(EXTENDED_REPLY_MAGIC, &mut bytes);
        bytes[16..24].copy_from_slice(&self.offset.to_be_bytes());
        bytes[24..].copy_from_slice(&u64::from(self.length).to_be_bytes());
        bytes
    }

    /// Parses the bytes; returns `None` if the magic number is wrong.
    #[must_use]
    pub fn parse_structured(bytes: &[u8; Self::STRUCTURED_BYTES]) -> Option<Self> {
        let mut rest = &bytes[..];
        let magic = take_u32(&mut rest)?;
        let chunk = Chunk {
            done: take_u16(&mut rest)? & FLAG_DONE != 0,
            kind: take_u16(&mut rest)?,
            cookie: take_u64(&mut rest)?,
            offset: 0,
            length: take_u32(&mut rest)?,
        };
        (magic == STRUCTURED_REPLY_MAGIC).then_some(chunk)
    }

    /// Parses the bytes; returns `None` if the magic number is wrong, or if more follows than a
    /// chunk of ours can have.
    #[must_use]
    pub fn parse_extended(bytes: &[u8; Self::EXTENDED_BYTES]) -> Option<Self> {
        let mut rest = &bytes[..];
        let magic = take_u32(&mut rest)?;
        let chunk = Chunk {
            done: take_u16(&mut rest)? & FLAG_DONE != 0,
            kind: take_u16(&mut rest)?,
            cookie: take_u64(&mut rest)?,
            offset: take_u64(&mut rest)?,
            length: u32::try_from(take_u64(&mut rest)?).ok()?,
        };
        (magic == EXTENDED_REPLY_MAGIC).then_some(chunk)
    }
}

/// Returns the payload of an `OFFSET_HOLE`.
#[must_use]
pub fn hole_data(offset: u64, length: u32) -> [u8; 12] {
    let mut bytes = [0; 12];
    bytes[..8].copy_from_slice(&offset.to_be_bytes());
    bytes[8..].copy_from_slice(&length.to_be_bytes());
    bytes
}

/// Returns the payload of an `ERROR`, or of an `ERROR_OFFSET` if there is an offset.
#[must_use]
pub fn error_data(code: u32, text: &str, offset: Option<u64>) -> Vec<u8> {
    let length = u16::try_from(text.len()).expect("texts are short");
    let mut bytes = code.to_be_bytes().to_vec();
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(text.as_bytes());
    if let Some(offset) = offset {
        bytes.extend_from_slice(&offset.to_be_bytes());
    }
    bytes
}
