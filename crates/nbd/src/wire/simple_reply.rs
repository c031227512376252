//! Simple replies (proto "Simple reply message").

use super::fields::{take_u32, take_u64};

/// The magic of every simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;

/// The header of a reply. The data of a successful read follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimpleReply {
    /// 0, or [`super::Errno::code`].
    pub error: u32,
    /// Cookie of the request.
    pub cookie: u64,
}

impl SimpleReply {
    /// Size on the wire.
    pub const BYTES: usize = 16;

    /// Encodes the message.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.error.to_be_bytes());
        bytes[8..].copy_from_slice(&self.cookie.to_be_bytes());
        bytes
    }

    /// Parses the bytes; returns `None` if the magic number is wrong.
    #[must_use]
    pub fn parse(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let mut rest = &bytes[..];
        let magic = take_u32(&mut rest)?;
        let reply = SimpleReply {
            error: take_u32(&mut rest)?,
            cookie: take_u64(&mut rest)?,
        };
        (magic == SIMPLE_REPLY_MAGIC).then_some(reply)
    }
}
