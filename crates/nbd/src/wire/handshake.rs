//! The first exchange: greeting and client flags; and the export description that ends an
//! `NBD_OPT_EXPORT_NAME` (proto "Newstyle negotiation", "Handshake flags", "Transmission flags").

use super::fields::{take_u16, take_u64};

/// `NBDMAGIC`.
pub const INIT_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// `IHAVEOPT`: in the greeting and in front of every option.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;

/// The server speaks fixed newstyle.
pub const FLAG_FIXED_NEWSTYLE: u16 = 1 << 0;
/// The server can leave out the 124 zeroes after `NBD_OPT_EXPORT_NAME`.
pub const FLAG_NO_ZEROES: u16 = 1 << 1;

/// The client speaks fixed newstyle.
pub const FLAG_C_FIXED_NEWSTYLE: u32 = 1 << 0;
/// The client does not want the 124 zeroes.
pub const FLAG_C_NO_ZEROES: u32 = 1 << 1;

/// The features of an export (proto "Transmission flags").
pub mod transmission_flags {
    /// Always set.
    pub const HAS_FLAGS: u16 = 1 << 0;
    /// Writes are refused.
    pub const READ_ONLY: u16 = 1 << 1;
    /// `NBD_CMD_FLUSH` is understood.
    pub const SEND_FLUSH: u16 = 1 << 2;
    /// `NBD_CMD_FLAG_FUA` is understood.
    pub const SEND_FUA: u16 = 1 << 3;
    /// `NBD_CMD_TRIM` is understood.
    pub const SEND_TRIM: u16 = 1 << 5;
    /// `NBD_CMD_WRITE_ZEROES` and `NBD_CMD_FLAG_NO_HOLE` are understood.
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    /// `NBD_CMD_FLAG_DF` is understood.
    pub const SEND_DF: u16 = 1 << 7;
    /// A flush on one connection covers writes completed on the others.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    /// `NBD_CMD_CACHE` is understood.
    pub const SEND_CACHE: u16 = 1 << 10;
    /// `NBD_CMD_FLAG_FAST_ZERO` is understood.
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// Bytes of zeroes after the answer to `NBD_OPT_EXPORT_NAME`, unless negotiated away.
pub const EXPORT_NAME_ZEROES: usize = 124;

/// The server's first message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// `FLAG_…` of this module.
    pub flags: u16,
}

impl Greeting {
    /// Size on the wire.
    pub const BYTES: usize = 18;

    /// Encodes the message.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&INIT_MAGIC.to_be_bytes());
        bytes[8..16].copy_from_slice(&OPTION_MAGIC.to_be_bytes());
        bytes[16..].copy_from_slice(&self.flags.to_be_bytes());
        bytes
    }

    /// Returns the greeting in `bytes`; `None` if the magic numbers are wrong.
    #[must_use]
    pub fn parse(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let mut rest = &bytes[..];
        let magics = (take_u64(&mut rest)?, take_u64(&mut rest)?);
        let flags = take_u16(&mut rest)?;
        (magics == (INIT_MAGIC, OPTION_MAGIC)).then_some(Greeting { flags })
    }
}

/// The client's answer to the greeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientFlags {
    /// The client understands replies to options.
    pub fixed_newstyle: bool,
    /// The client wants no zeroes after `NBD_OPT_EXPORT_NAME`.
    pub no_zeroes: bool,
}

impl ClientFlags {
    /// Size on the wire.
    pub const BYTES: usize = 4;

    /// Encodes the message.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let fixed = if self.fixed_newstyle {
            FLAG_C_FIXED_NEWSTYLE
        } else {
            0
        };
        let no_zeroes = if self.no_zeroes { FLAG_C_NO_ZEROES } else { 0 };
        (fixed | no_zeroes).to_be_bytes()
    }

    /// Parses the bytes; returns `None` if a flag is set that the server has not advertised; the
    /// connection must then be dropped (proto "Client flags").
    #[must_use]
    pub fn parse(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let flags = u32::from_be_bytes(*bytes);
        if flags & !(FLAG_C_FIXED_NEWSTYLE | FLAG_C_NO_ZEROES) != 0 {
            return None;
        }
        Some(ClientFlags {
            fixed_newstyle: flags & FLAG_C_FIXED_NEWSTYLE != 0,
            no_zeroes: flags & FLAG_C_NO_ZEROES != 0,
        })
    }
}

/// Size and abilities of an export: the answer to `NBD_OPT_EXPORT_NAME`, and the body of
/// `NBD_INFO_EXPORT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportParameters {
    /// Size in bytes.
    pub size_bytes: u64,
    /// [`transmission_flags`].
    pub flags: u16,
}

impl ExportParameters {
    /// Size on the wire, without zeroes.
    pub const BYTES: usize = 10;

    /// Encodes the message.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.size_bytes.to_be_bytes());
        bytes[8..].copy_from_slice(&self.flags.to_be_bytes());
        bytes
    }

    /// Returns the parameters in `bytes`.
    #[must_use]
    pub fn parse(bytes: &[u8; Self::BYTES]) -> Self {
        let mut rest = &bytes[..];
        let size_bytes = take_u64(&mut rest).unwrap_or_default();
        let flags = take_u16(&mut rest).unwrap_or_default();
        ExportParameters { size_bytes, flags }
    }
}
