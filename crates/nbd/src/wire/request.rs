//! Requests of the transmission phase (proto "Request message", "Command flags", "Request types").

use super::fields::{take_u16, take_u32, take_u64};

/// In front of every request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;

/// Command flags.
pub mod command_flags {
    /// Reply only when durable. Must be accepted with every command.
    pub const FUA: u16 = 1 << 0;
    /// Keep space allocated (`WRITE_ZEROES`).
    pub const NO_HOLE: u16 = 1 << 1;
    /// Reply with one chunk of content (`READ`).
    pub const DF: u16 = 1 << 2;
    /// Tell of one extent only (`BLOCK_STATUS`).
    pub const REQ_ONE: u16 = 1 << 3;
    /// Refuse what is not faster than a write (`WRITE_ZEROES`).
    pub const FAST_ZERO: u16 = 1 << 4;
    /// With extended headers: the length is that of a payload, which follows.
    pub const PAYLOAD_LEN: u16 = 1 << 5;
}

/// Commands we carry out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Return bytes.
    Read,
    /// Store bytes, which follow the request.
    Write,
    /// End the session; no reply.
    Disconnect,
    /// Make completed writes durable.
    Flush,
    /// The range is no longer needed.
    Trim,
    /// The range will be read soon.
    Cache,
    /// The range must read as zeroes.
    WriteZeroes,
    /// Tell what of the range takes space.
    BlockStatus,
}

impl Command {
    /// All of them.
    pub const ALL: [Command; 8] = [
        Command::Read,
        Command::Write,
        Command::Disconnect,
        Command::Flush,
        Command::Trim,
        Command::Cache,
        Command::WriteZeroes,
        Command::BlockStatus,
    ];

    /// The number on the wire.
    #[must_use]
    pub fn code(self) -> u16 {
        match self {
            Command::Read => 0,
            Command::Write => 1,
            Command::Disconnect => 2,
            Command::Flush => 3,
            Command::Trim => 4,
            Command::Cache => 5,
            Command::WriteZeroes => 6,
            Command::BlockStatus => 7,
        }
    }

    /// `None` for commands we do not know.
    #[must_use]
    pub fn of_code(code: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|command| command.code() == code)
    }
}

/// The header of a request. Any values may stand in it.
///
/// | offset | bytes | field |
/// | --- | --- | --- |
/// | 0 | 4 | magic |
/// | 4 | 2 | flags |
/// | 6 | 2 | command |
/// | 8 | 8 | cookie |
/// | 16 | 8 | offset |
/// | 24 | 4 | length |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// [`command_flags`], or anything else.
    pub flags: u16,
    /// See [`Command::of_code`].
    pub command: u16,
    /// Returned with the reply, never interpreted.
    pub cookie: u64,
    /// First byte.
    pub offset: u64,
    /// Bytes of the range, and of the payload if this is a write.
    pub length: u32,
}

impl Request {
    /// Size on the wire.
    pub const BYTES: usize = 28;

    /// The bytes to send.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.flags.to_be_bytes());
        bytes[6..8].copy_from_slice(&self.command.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.offset.to_be_bytes());
        bytes[24..].copy_from_slice(&self.length.to_be_bytes());
        bytes
    }

    /// `None` if the magic number is wrong: the stream cannot be followed any more.
    #[must_use]
    pub fn parse(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let mut rest = &bytes[..];
        let magic = take_u32(&mut rest)?;
        let request = Request {
            flags: take_u16(&mut rest)?,
            command: take_u16(&mut rest)?,
            cookie: take_u64(&mut rest)?,
            offset: take_u64(&mut rest)?,
            length: take_u32(&mut rest)?,
        };
        (magic == REQUEST_MAGIC).then_some(request)
    }
}
