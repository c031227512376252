//! Options and their replies (proto "Newstyle negotiation", "Fixed newstyle negotiation",
//! "Option types", "Option reply types").

use super::fields::{take_u32, take_u64};
use super::handshake::OPTION_MAGIC;

/// The magic of every option reply.
pub const REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;

/// Options a client may send. Numbers not listed are unknown to us.
pub mod options {
    /// Enter transmission, old way: no error can be reported.
    pub const EXPORT_NAME: u32 = 1;
    /// End the session.
    pub const ABORT: u32 = 2;
    /// Name all exports.
    pub const LIST: u32 = 3;
    /// Switch to TLS.
    pub const STARTTLS: u32 = 5;
    /// Describe an export.
    pub const INFO: u32 = 6;
    /// Describe an export and enter transmission.
    pub const GO: u32 = 7;
    /// Use structured replies.
    pub const STRUCTURED_REPLY: u32 = 8;
    /// Name the metadata contexts of an export.
    pub const LIST_META_CONTEXT: u32 = 9;
    /// Choose metadata contexts of an export.
    pub const SET_META_CONTEXT: u32 = 10;
    /// Use extended headers.
    pub const EXTENDED_HEADERS: u32 = 11;
}

/// Kinds of option replies.
pub mod replies {
    /// Success; the last reply.
    pub const ACK: u32 = 1;
    /// Reply: one export of a list.
    pub const SERVER: u32 = 2;
    /// Reply: one fact about an export.
    pub const INFO: u32 = 3;
    /// Reply: one metadata context.
    pub const META_CONTEXT: u32 = 4;
    /// Set in all error replies.
    pub const ERROR: u32 = 1 << 31;
    /// We do not know the option.
    pub const ERR_UNSUP: u32 = ERROR + 1;
    /// Error: the server knows the option and does not allow it.
    pub const ERR_POLICY: u32 = ERROR + 2;
    /// The option's data makes no sense.
    pub const ERR_INVALID: u32 = ERROR + 3;
    /// Error: the option requires TLS.
    pub const ERR_TLS_REQD: u32 = ERROR + 5;
    /// Error: the export does not exist.
    pub const ERR_UNKNOWN: u32 = ERROR + 6;
    /// The server is stopping.
    pub const ERR_SHUTDOWN: u32 = ERROR + 7;
    /// The option is longer than we accept.
    pub const ERR_TOO_BIG: u32 = ERROR + 9;
    /// Extended headers were chosen already, or must be.
    pub const ERR_EXT_HEADER_REQD: u32 = ERROR + 10;
}

/// The header of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionHeader {
    /// [`options`], or anything else.
    pub option: u32,
    /// Bytes of data that follow.
    pub length: u32,
}

impl OptionHeader {
    /// Size on the wire.
    pub const BYTES: usize = 16;

    /// Encodes the message.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&OPTION_MAGIC.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.option.to_be_bytes());
        bytes[12..].copy_from_slice(&self.length.to_be_bytes());
        bytes
    }

    /// Parses the bytes; returns `None` if the magic number is wrong: the stream cannot be followed
    /// any more.
    #[must_use]
    pub fn parse(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let mut rest = &bytes[..];
        let magic = take_u64(&mut rest)?;
        let header = OptionHeader {
            option: take_u32(&mut rest)?,
            length: take_u32(&mut rest)?,
        };
        (magic == OPTION_MAGIC).then_some(header)
    }
}

/// The header of an option reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionReply {
    /// Option that is answered, as the client sent it.
    pub option: u32,
    /// [`replies`].
    pub kind: u32,
    /// Bytes of data that follow.
    pub length: u32,
}

impl OptionReply {
    /// Size on the wire.
    pub const BYTES: usize = 20;

    /// Encodes the message before the data.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&REPLY_MAGIC.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.option.to_be_bytes());
        bytes[12..16].copy_from_slice(&self.kind.to_be_bytes());
        bytes[16..].copy_from_slice(&self.length.to_be_bytes());
        bytes
    }

    /// Parses the bytes; returns `None` if the magic number is wrong.
    #[must_use]
    pub fn parse(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let mut rest = &bytes[..];
        let magic = take_u64(&mut rest)?;
        let reply = OptionReply {
            option: take_u32(&mut rest)?,
            kind: take_u32(&mut rest)?,
            length: take_u32(&mut rest)?,
        };
        (magic == REPLY_MAGIC).then_some(reply)
    }

    /// Appends a whole reply: header and `data`.
    pub fn append(into: &mut Vec<u8>, option: u32, kind: u32, data: &[u8]) {
        let length = u32::try_from(data.len()).expect("our own replies are short");
        into.extend_from_slice(
            &OptionReply {
                option,
                kind,
                length,
            }
            .encode(),
        );
        into.extend_from_slice(data);
    }

    /// Returns the data of a `SERVER` reply: one export's name, no details.
    #[must_use]
    pub fn server_data(name: &str) -> Vec<u8> {
        let length = u32::try_from(name.len()).expect("export names are short");
        [&length.to_be_bytes()[..], name.as_bytes()].concat()
    }
}
