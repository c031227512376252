//! Requests of the transmission phase (proto "Request message", "Command flags", "Request types").

use super::fields::{take_u16, take_u32, take_u64};

/// The magic of every request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// The magic of every request after extended headers were negotiated.
pub const EXTENDED_REQUEST_MAGIC: u32 = 0x21e4_1c71;

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
    /// Refuse the request if it is not faster than a write (`WRITE_ZEROES`).
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
    /// Return which parts of the range take space.
    BlockStatus,
}

impl Command {
    /// All commands.
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

    /// Returns the number on the wire.
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

    /// Returns the command with this number; `None` for unknown commands.
    #[must_use]
    pub fn of_code(code: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|command| command.code() == code)
    }
}

/// The header of a request, compact or extended. Any values may stand in it.
///
/// | compact | extended | field |
/// | --- | --- | --- |
/// | 4 | 4 | magic |
/// | 2 | 2 | flags |
/// | 2 | 2 | command |
/// | 8 | 8 | cookie |
/// | 8 | 8 | offset |
/// | 4 | 8 | length |
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
    /// Bytes of the range, or of the payload that follows: see [`Request::payload_bytes`].
    pub length: u64,
}

impl Request {
    /// Size of a compact header on the wire.
    pub const BYTES: usize = 28;
    /// Size of an extended header on the wire.
    pub const EXTENDED_BYTES: usize = 32;

    /// Encodes the message without extended headers. Lengths above 32 bits cannot be sent.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let length = u32::try_from(self.length).expect("a length of 32 bits");
        let mut bytes = [0; Self::BYTES];
        bytes[..24].copy_from_slice(&self.fields(REQUEST_MAGIC));
        bytes[24..].copy_from_slice(&length.to_be_bytes());
        bytes
    }

    /// Encodes the message with extended headers.
    #[must_use]
    pub fn encode_extended(&self) -> [u8; Self::EXTENDED_BYTES] {
        let mut bytes = [0; Self::EXTENDED_BYTES];
        bytes[..24].copy_from_slice(&self.fields(EXTENDED_REQUEST_MAGIC));
        bytes[24..].copy_from_slice(&self.length.to_be_bytes());
        bytes
    }

    /// Parses the bytes; returns `None` if the magic number is wrong: the stream cannot be followed
    /// any more.
    #[must_use]
    pub fn parse(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let mut rest = &bytes[..];
        let request = Self::parse_fields(&mut rest, REQUEST_MAGIC)?;
        let length = u64::from(take_u32(&mut rest)?);
        Some(Request { length, ..request })
    }

    /// Parses a request with extended headers.
    #[must_use]
    pub fn parse_extended(bytes: &[u8; Self::EXTENDED_BYTES]) -> Option<Self> {
        let mut rest = &bytes[..];
        let request = Self::parse_fields(&mut rest, EXTENDED_REQUEST_MAGIC)?;
        let length = take_u64(&mut rest)?;
        Some(Request { length, ..request })
    }

    /// Bytes that follow the header: of a write, or with extended headers whatever says so.
    #[must_use]
    pub fn payload_bytes(&self, extended: bool) -> u64 {
        let has_payload = if extended {
            self.flags & command_flags::PAYLOAD_LEN != 0
        } else {
            self.command == Command::Write.code()
        };
        if has_payload { self.length } else { 0 }
    }

    fn fields(&self, magic: u32) -> [u8; 24] {
        let mut bytes = [0; 24];
        bytes[..4].copy_from_slice(&magic.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.flags.to_be_bytes());
        bytes[6..8].copy_from_slice(&self.command.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        bytes[16..].copy_from_slice(&self.offset.to_be_bytes());
        bytes
    }

    fn parse_fields(rest: &mut &[u8], expected: u32) -> Option<Self> {
        let magic = take_u32(rest)?;
        let request = Request {
            flags: take_u16(rest)?,
            command: take_u16(rest)?,
            cookie: take_u64(rest)?,
            offset: take_u64(rest)?,
            length: 0,
        };
        (magic == expected).then_some(request)
    }
}
