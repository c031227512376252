//! The few messages that the rigs exchange (proto: "Simple reply message", "Request message",
//! "Newstyle negotiation"). Written apart from the server's codec, so that a mistake in one is not
//! also in the other.

use super::Command;

/// `NBDMAGIC`, `IHAVEOPT`.
const GREETING: [u8; 16] = *b"NBDMAGICIHAVEOPT";
const REQUEST_MAGIC: u32 = 0x2560_9513;
const REPLY_MAGIC: u32 = 0x6744_6698;
/// Fixed newstyle, no zeroes: as the client says it.
const CLIENT_FLAGS: u32 = 3;
const OPT_EXPORT_NAME: u32 = 1;
const FLAG_FUA: u16 = 1;

pub(super) const GREETING_BYTES: usize = 18;
/// Size and transmission flags.
pub(super) const EXPORT_BYTES: usize = 10;
pub(super) const REPLY_BYTES: usize = 16;
const REQUEST_BYTES: usize = 28;

impl Command {
    fn code(self) -> u16 {
        match self {
            Command::Read => 0,
            Command::Write => 1,
            Command::Flush => 3,
            Command::Trim => 4,
            Command::WriteZeroes => 6,
        }
    }
}

/// Whether this is a server that need not send zeroes after its answer.
pub(super) fn is_greeting(bytes: &[u8; GREETING_BYTES]) -> bool {
    bytes[..16] == GREETING && bytes[17] & 2 != 0
}

/// Flags and `NBD_OPT_EXPORT_NAME`.
pub(super) fn hello(export: &str) -> Vec<u8> {
    let length = u32::try_from(export.len()).expect("names are short");
    let mut bytes = CLIENT_FLAGS.to_be_bytes().to_vec();
    bytes.extend(&GREETING[8..]);
    bytes.extend(OPT_EXPORT_NAME.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes.extend(export.as_bytes());
    bytes
}

/// The header of a request.
pub(super) fn request(ask: &super::Ask) -> [u8; REQUEST_BYTES] {
    let mut bytes = [0; REQUEST_BYTES];
    let flags = if ask.fua { FLAG_FUA } else { 0 };
    bytes[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
    bytes[4..6].copy_from_slice(&flags.to_be_bytes());
    bytes[6..8].copy_from_slice(&ask.command.code().to_be_bytes());
    bytes[8..16].copy_from_slice(&ask.cookie.to_be_bytes());
    bytes[16..24].copy_from_slice(&ask.offset.to_be_bytes());
    bytes[24..].copy_from_slice(&ask.length.to_be_bytes());
    bytes
}

/// Error number and cookie of a simple reply; `None` if it is none.
pub(super) fn reply(bytes: &[u8; REPLY_BYTES]) -> Option<(u32, u64)> {
    let (magic, rest) = bytes.split_first_chunk()?;
    let (error, rest) = rest.split_first_chunk()?;
    let cookie = rest.first_chunk()?;
    (u32::from_be_bytes(*magic) == REPLY_MAGIC)
        .then(|| (u32::from_be_bytes(*error), u64::from_be_bytes(*cookie)))
}
