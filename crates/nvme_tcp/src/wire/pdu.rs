//! The messages of the transport (NVMe/TCP "PDU Definitions"): a common header of 8 bytes, fields
//! of the kind, a header digest, padding, data, a data digest.
//!
//! ```text
//! | common | fields | header digest | padding | data | data digest |
//! 0        8        HLEN                      PDO                  PLEN
//! ```
//!
//! [`Layout::check`] is the only way from a header that came from outside to places in a message.
//! What it refuses ends the connection: where the next message begins is not known any more.

use super::digest::{DIGEST_BYTES, Digests, digest_of};
use super::fields::{array_at, put, u16_at, u32_at};

/// Kinds of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PduKind {
    /// The host begins a connection.
    InitializeRequest,
    /// The controller answers.
    InitializeResponse,
    /// The host ends the connection after an error.
    HostTerminates,
    /// The controller ends the connection after an error.
    ControllerTerminates,
    /// A command, perhaps with its data.
    Command,
    /// A completion.
    Response,
    /// Data of the host that the controller asked for.
    HostData,
    /// Data of the controller.
    ControllerData,
    /// The controller asks for data.
    ReadyToTransfer,
}

impl PduKind {
    const ALL: [PduKind; 9] = [
        PduKind::InitializeRequest,
        PduKind::InitializeResponse,
        PduKind::HostTerminates,
        PduKind::ControllerTerminates,
        PduKind::Command,
        PduKind::Response,
        PduKind::HostData,
        PduKind::ControllerData,
        PduKind::ReadyToTransfer,
    ];

    /// Returns the number on the wire.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            PduKind::InitializeRequest => 0,
            PduKind::InitializeResponse => 1,
            PduKind::HostTerminates => 2,
            PduKind::ControllerTerminates => 3,
            PduKind::Command => 4,
            PduKind::Response => 5,
            PduKind::HostData => 6,
            PduKind::ControllerData => 7,
            PduKind::ReadyToTransfer => 9,
        }
    }

    /// Returns the kind with this number; `None` for unknown ones.
    #[must_use]
    pub fn of_code(code: u8) -> Option<PduKind> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }

    /// Returns the length of the header without its digest.
    #[must_use]
    pub const fn header_bytes(self) -> usize {
        match self {
            PduKind::InitializeRequest | PduKind::InitializeResponse => 128,
            PduKind::Command => CommonHeader::BYTES + 64,
            _ => 24,
        }
    }

    /// Returns whether digests that were agreed on are part of the message.
    fn has_digests(self) -> bool {
        !matches!(
            self,
            PduKind::InitializeRequest
                | PduKind::InitializeResponse
                | PduKind::HostTerminates
                | PduKind::ControllerTerminates
        )
    }

    /// Returns whether data may follow the header.
    fn may_have_data(self) -> bool {
        matches!(
            self,
            PduKind::Command | PduKind::HostData | PduKind::ControllerData
        )
    }
}

/// Flags of the common header.
pub mod pdu_flags {
    /// A header digest follows the header.
    pub const HEADER_DIGEST: u8 = 1 << 0;
    /// A data digest follows the data.
    pub const DATA_DIGEST: u8 = 1 << 1;
    /// The last data of a transfer.
    pub const LAST: u8 = 1 << 2;
    /// The data is the whole answer: no response follows.
    pub const SUCCESS: u8 = 1 << 3;
}

/// Reasons to end a connection (NVMe/TCP "Fatal Error Status").
pub mod fatal_status {
    /// A field of a header is wrong; the information is its place.
    pub const INVALID_HEADER_FIELD: u16 = 1;
    /// A message came at the wrong time.
    pub const SEQUENCE: u16 = 2;
    /// A header digest is wrong; the information is the received digest.
    pub const HEADER_DIGEST: u16 = 3;
    /// Data lies beyond what was asked for.
    pub const DATA_OUT_OF_RANGE: u16 = 4;
    /// More data than was allowed.
    pub const LIMIT_EXCEEDED: u16 = 5;
    /// A parameter that we do not support; the information is its place.
    pub const UNSUPPORTED: u16 = 6;
}

/// The reason why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fatal {
    /// See [`fatal_status`].
    pub status: u16,
    /// More about it, by status.
    pub information: u32,
}

impl Fatal {
    /// A field at this place of the header is wrong.
    #[must_use]
    pub const fn field(at: u32) -> Fatal {
        Fatal {
            status: fatal_status::INVALID_HEADER_FIELD,
            information: at,
        }
    }

    /// Makes a reason without further information.
    #[must_use]
    pub const fn of(status: u16) -> Fatal {
        Fatal {
            status,
            information: 0,
        }
    }
}

/// The beginning of every message. Any values may stand in it.
///
/// | place | field |
/// | --- | --- |
/// | 0 | kind |
/// | 1 | flags |
/// | 2 | HLEN, length of the header |
/// | 3 | PDO, place of the data |
/// | 4 | PLEN, length of the message, 4 bytes |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommonHeader {
    /// See [`PduKind::of_code`].
    pub kind: u8,
    /// See [`pdu_flags`].
    pub flags: u8,
    /// Bytes of the header without its digest.
    pub header_bytes: u8,
    /// Place of the data from the beginning of the message.
    pub data_offset: u8,
    /// Bytes of the message.
    pub length: u32,
}

impl CommonHeader {
    /// Size on the wire.
    pub const BYTES: usize = 8;

    /// Parses the bytes. Nothing is checked.
    #[must_use]
    #[inline]
    pub fn parse(bytes: &[u8; Self::BYTES]) -> CommonHeader {
        CommonHeader {
            kind: bytes[0],
            flags: bytes[1],
            header_bytes: bytes[2],
            data_offset: bytes[3],
            length: u32_at(bytes, 4),
        }
    }

    /// Encodes the header.
    #[must_use]
    #[inline]
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let [a, b, c, d] = self.length.to_le_bytes();
        let (header_bytes, data_offset) = (self.header_bytes, self.data_offset);
        [self.kind, self.flags, header_bytes, data_offset, a, b, c, d]
    }
}

/// The parts of a message whose header was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The kind.
    pub kind: PduKind,
    /// Bytes of the header without its digest.
    pub header_bytes: usize,
    /// The header is followed by its digest.
    pub has_header_digest: bool,
    /// Bytes in front of the data: header, digest and padding. The length of the message if it has
    /// no data.
    pub data_at: usize,
    /// Bytes of data.
    pub data_bytes: u32,
    /// The data is followed by its digest.
    pub has_data_digest: bool,
}

impl Layout {
    /// Checks a header from the host. Data must begin at a multiple of `alignment` bytes, a power
    /// of two of at least 4.
    ///
    /// # Errors
    /// The header makes no sense.
    #[inline]
    pub fn check(
        header: &CommonHeader,
        digests: Digests,
        alignment: usize,
    ) -> Result<Layout, Fatal> {
        let kind = PduKind::of_code(header.kind).ok_or(Fatal::field(0))?;
        let header_bytes = kind.header_bytes();
        if usize::from(header.header_bytes) != header_bytes {
            return Err(Fatal::field(2));
        }
        let has_header_digest = digests.header && kind.has_digests();
        if (header.flags & pdu_flags::HEADER_DIGEST != 0) != has_header_digest {
            return Err(Fatal::field(1));
        }
        let digest_bytes = if has_header_digest { DIGEST_BYTES } else { 0 };
        let front = header_bytes + digest_bytes;
        let length = usize::try_from(header.length).unwrap_or(usize::MAX);
        if length < front {
            return Err(Fatal::field(4));
        }
        let has_data = length > front;
        // The rest of a termination is the header that it is about. It is not looked at. Without
        // data the flag of its digest means nothing.
        if matches!(kind, PduKind::HostTerminates) || !has_data {
            return Ok(Layout {
                kind,
                header_bytes,
                has_header_digest,
                data_at: front,
                data_bytes: 0,
                has_data_digest: false,
            });
        }
        if !kind.may_have_data() {
            return Err(Fatal::field(4));
        }
        let has_data_digest = digests.data;
        if (header.flags & pdu_flags::DATA_DIGEST != 0) != has_data_digest {
            return Err(Fatal::field(1));
        }
        let data_at = usize::from(header.data_offset);
        if data_at < front || !data_at.is_multiple_of(alignment) {
            return Err(Fatal::field(3));
        }
        let tail = if has_data_digest { DIGEST_BYTES } else { 0 };
        let data = length.checked_sub(data_at + tail).filter(|data| *data > 0);
        let data_bytes = data.and_then(|data| u32::try_from(data).ok());
        Ok(Layout {
            kind,
            header_bytes,
            has_header_digest,
            data_at,
            data_bytes: data_bytes.ok_or(Fatal::field(4))?,
            has_data_digest,
        })
    }

    /// Bytes of the data's digest.
    #[must_use]
    pub fn data_digest_bytes(&self) -> usize {
        if self.has_data_digest {
            DIGEST_BYTES
        } else {
            0
        }
    }

    /// Checks the digest of a header, of which `bytes` are the first bytes of the message.
    ///
    /// # Errors
    /// It is wrong.
    ///
    /// # Panics
    /// If `bytes` are fewer than [`Layout::data_at`].
    pub fn check_header_digest(&self, bytes: &[u8]) -> Result<(), Fatal> {
        if !self.has_header_digest {
            return Ok(());
        }
        let received: [u8; DIGEST_BYTES] = array_at(bytes, self.header_bytes);
        if received == digest_of(&bytes[..self.header_bytes]) {
            return Ok(());
        }
        Err(Fatal {
            status: fatal_status::HEADER_DIGEST,
            information: u32::from_le_bytes(received),
        })
    }
}

/// The parameters of a connection, of either side.
///
/// | place | request | response |
/// | --- | --- | --- |
/// | 8 | version, 2 bytes, 0 | the same |
/// | 10 | alignment of our data | alignment of the host's data |
/// | 11 | digests | the same |
/// | 12 | transfers at once for a command, less one | longest data of a message |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Initialize {
    /// Version of the format.
    pub version: u16,
    /// Alignment of data, in units of 4 bytes, less one.
    pub alignment: u8,
    /// Digests.
    pub digests: Digests,
    /// Reserved bits of the digests' field, which must be zero.
    pub digests_reserved: u8,
    /// MAXR2T of a request, MAXH2CDATA of a response.
    pub limit: u32,
}

impl Initialize {
    /// Size on the wire.
    pub const BYTES: usize = 128;

    /// Parses the fields.
    #[must_use]
    pub fn parse(bytes: &[u8; Self::BYTES]) -> Initialize {
        Initialize {
            version: u16_at(bytes, 8),
            alignment: bytes[10],
            digests: Digests {
                header: bytes[11] & 1 != 0,
                data: bytes[11] & 2 != 0,
            },
            digests_reserved: bytes[11] & !3,
            limit: u32_at(bytes, 12),
        }
    }

    /// Encodes the message.
    #[must_use]
    pub fn encode(&self, kind: PduKind) -> [u8; Self::BYTES] {
        let header = CommonHeader {
            kind: kind.code(),
            flags: 0,
            header_bytes: 128,
            data_offset: 0,
            length: 128,
        };
        let mut bytes = [0; Self::BYTES];
        put(&mut bytes, 0, &header.encode());
        put(&mut bytes, 8, &self.version.to_le_bytes());
        bytes[10] = self.alignment;
        let Digests { header, data } = self.digests;
        bytes[11] = u8::from(header) | u8::from(data) << 1 | self.digests_reserved;
        put(&mut bytes, 12, &self.limit.to_le_bytes());
        bytes
    }
}

/// Header of data in either direction, and of a request for data.
///
/// | place | field |
/// | --- | --- |
/// | 8 | id of the command, 2 bytes |
/// | 10 | transfer tag, 2 bytes; reserved in the controller's data |
/// | 12 | first byte, 4 bytes |
/// | 16 | number of bytes, 4 bytes |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataHeader {
    /// The command whose data it is.
    pub command_id: u16,
    /// Repeated by the host from the request for data.
    pub tag: u16,
    /// First byte, from the beginning of the command's data.
    pub offset: u32,
    /// Bytes.
    pub length: u32,
}

impl DataHeader {
    /// Size of the header on the wire, with the common header.
    pub const BYTES: usize = 24;

    /// Parses the fields.
    #[must_use]
    pub fn parse(bytes: &[u8; Self::BYTES]) -> DataHeader {
        DataHeader {
            command_id: u16_at(bytes, 8),
            tag: u16_at(bytes, 10),
            offset: u32_at(bytes, 12),
            length: u32_at(bytes, 16),
        }
    }

    /// Encodes the header with this common header.
    #[must_use]
    #[inline]
    pub fn encode(&self, header: &CommonHeader) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        put(&mut bytes, 0, &header.encode());
        put(&mut bytes, 8, &self.command_id.to_le_bytes());
        put(&mut bytes, 10, &self.tag.to_le_bytes());
        put(&mut bytes, 12, &self.offset.to_le_bytes());
        put(&mut bytes, 16, &self.length.to_le_bytes());
        bytes
    }
}

/// Encodes the message that ends a connection; `about` is the header that it is about, of which at
/// most 128 bytes are sent.
#[must_use]
pub fn encode_termination(kind: PduKind, fatal: Fatal, about: &[u8]) -> Vec<u8> {
    let about = &about[..about.len().min(128)];
    let length = 24 + u32::try_from(about.len()).expect("at most 128 bytes");
    let header = CommonHeader {
        kind: kind.code(),
        flags: 0,
        header_bytes: 24,
        data_offset: 0,
        length,
    };
    let mut bytes = vec![0; 24];
    put(&mut bytes, 0, &header.encode());
    put(&mut bytes, 8, &fatal.status.to_le_bytes());
    put(&mut bytes, 10, &fatal.information.to_le_bytes());
    bytes.extend_from_slice(about);
    bytes
}

/// Parses the reason of a termination.
#[must_use]
pub fn parse_termination(bytes: &[u8; 24]) -> Fatal {
    Fatal {
        status: u16_at(bytes, 8),
        information: u32_at(bytes, 10),
    }
}
