//! Messages as a host makes and reads them, written apart from the crate's own codecs where that
//! matters: places and lengths are numbers here.

use everglade_nvme_tcp::wire::digest::digest_of;
use everglade_nvme_tcp::wire::{Command, Completion, Digests};

/// A message of the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pdu {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    /// All of the header.
    pub(crate) header: Vec<u8>,
    pub(crate) data: Vec<u8>,
    /// Where the data began.
    pub(crate) data_at: usize,
}

pub(crate) const RESPONSE: u8 = 5;
pub(crate) const DATA: u8 = 7;
pub(crate) const READY_TO_TRANSFER: u8 = 9;
pub(crate) const TERMINATION: u8 = 3;

impl Pdu {
    pub(crate) fn u16_at(&self, at: usize) -> u16 {
        u16::from_le_bytes(*self.header[at..].first_chunk().unwrap())
    }

    pub(crate) fn u32_at(&self, at: usize) -> u32 {
        u32::from_le_bytes(*self.header[at..].first_chunk().unwrap())
    }

    pub(crate) fn completion(&self) -> Completion {
        assert_eq!(self.kind, RESPONSE, "{self:?}");
        Completion::parse(self.header[8..].first_chunk().unwrap())
    }
}

/// Reads all messages, which must be whole, and checks their digests.
pub(crate) fn read_all(bytes: &[u8], digests: Digests) -> Vec<Pdu> {
    let mut rest = bytes;
    let mut all = Vec::new();
    while !rest.is_empty() {
        let length = u32::from_le_bytes(*rest[4..].first_chunk().unwrap()) as usize;
        let (kind, flags, header_bytes) = (rest[0], rest[1], usize::from(rest[2]));
        let mut data_at = usize::from(rest[3]);
        let message = &rest[..length];
        rest = &rest[length..];
        let header = message[..header_bytes].to_vec();
        let mut data_end = length;
        if flags & 1 != 0 {
            assert!(digests.header);
            assert_eq!(message[header_bytes..][..4], digest_of(&header));
        } else {
            assert!(!digests.header || kind < 4, "a header without its digest");
        }
        if kind == TERMINATION {
            data_at = header_bytes;
        } else if kind != DATA {
            data_at = length;
        }
        if flags & 2 != 0 {
            assert!(digests.data);
            data_end -= 4;
            let data = &message[data_at..data_end];
            assert_eq!(message[data_end..], digest_of(data));
        } else {
            assert!(!digests.data || kind != DATA, "data without its digest");
        }
        all.push(Pdu {
            kind,
            flags,
            header,
            data: message[data_at..data_end].to_vec(),
            data_at,
        });
    }
    all
}

/// The first message of a connection.
pub(crate) fn initialize(digests: Digests, alignment: u8) -> Vec<u8> {
    let mut bytes = vec![0; 128];
    bytes[2] = 128;
    bytes[4] = 128;
    bytes[10] = alignment;
    bytes[11] = u8::from(digests.header) | u8::from(digests.data) << 1;
    bytes
}

/// Puts header, digests and data together.
fn message(kind: u8, flags: u8, fields: &[u8], data: &[u8], digests: Digests) -> Vec<u8> {
    let header_bytes = 8 + fields.len();
    let front = header_bytes + if digests.header { 4 } else { 0 };
    let tail = if digests.data && !data.is_empty() {
        4
    } else {
        0
    };
    let length = u32::try_from(front + data.len() + tail).unwrap();
    let flags = flags | u8::from(digests.header) | u8::from(tail > 0) << 1;
    let data_at = if data.is_empty() { 0 } else { front };
    let mut bytes = vec![
        kind,
        flags,
        u8::try_from(header_bytes).unwrap(),
        u8::try_from(data_at).unwrap(),
    ];
    bytes.extend(length.to_le_bytes());
    bytes.extend(fields);
    if digests.header {
        bytes.extend(digest_of(&bytes));
    }
    bytes.extend(data);
    if tail > 0 {
        bytes.extend(digest_of(data));
    }
    bytes
}

/// A command, with the data that is in its message.
pub(crate) fn capsule(command: &Command, data: &[u8], digests: Digests) -> Vec<u8> {
    message(4, 0, &command.encode(), data, digests)
}

/// Data that the controller asked for.
pub(crate) fn host_data(
    id: u16,
    tag: u16,
    offset: u32,
    data: &[u8],
    is_last: bool,
    digests: Digests,
) -> Vec<u8> {
    let mut fields = Vec::new();
    fields.extend(id.to_le_bytes());
    fields.extend(tag.to_le_bytes());
    fields.extend(offset.to_le_bytes());
    fields.extend(u32::try_from(data.len()).unwrap().to_le_bytes());
    fields.extend([0; 4]);
    message(6, u8::from(is_last) << 2, &fields, data, digests)
}
