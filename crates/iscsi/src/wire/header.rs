//! What the headers of all messages have in common (RFC 7143 §11.2.1).
//!
//! ```text
//!  0  opcode (bit 6: immediate)      8  logical unit
//!  1  flags (bit 7: final)          16  initiator task tag
//!  4  additional headers, in words  20  of the message
//!  5  length of the data, 24 bits   48
//! ```

/// A basic header.
pub type Bhs = [u8; BHS_BYTES];

/// Bytes of a basic header.
pub const BHS_BYTES: usize = 48;
/// The most bytes of additional headers: 255 words.
pub const AHS_BYTES_MAX: usize = 255 * 4;
/// A tag that names nothing.
pub const NO_TAG: u32 = 0xffff_ffff;
/// Bit 7 of the flags.
pub const FINAL: u8 = 0x80;
const IMMEDIATE: u8 = 0x40;

/// The common part of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Opcode, without the bit for immediate delivery.
    pub opcode: u8,
    /// The message is delivered at once and does not advance the command number.
    pub is_immediate: bool,
    /// Bytes of additional headers that follow.
    pub ahs_bytes: usize,
    /// Bytes of data that follow, without padding; below 2²⁴.
    pub data_bytes: u32,
    /// Initiator task tag.
    pub itt: u32,
}

impl Header {
    /// Reads the common part.
    #[must_use]
    pub fn parse(bytes: &Bhs) -> Header {
        Header {
            opcode: bytes[0] & 0x3f,
            is_immediate: bytes[0] & IMMEDIATE != 0,
            ahs_bytes: usize::from(bytes[4]) * 4,
            data_bytes: get_u32(bytes, 4) & 0x00ff_ffff,
            itt: get_u32(bytes, 16),
        }
    }
}

/// Returns the padding behind data of this length: to a multiple of four bytes.
#[must_use]
pub fn padding(data_bytes: u32) -> u32 {
    data_bytes.wrapping_neg() % 4
}

/// Starts a header.
pub(super) fn begin(opcode: u8, is_immediate: bool, flags: u8, itt: u32) -> Bhs {
    let mut bytes = [0; BHS_BYTES];
    bytes[0] = opcode | if is_immediate { IMMEDIATE } else { 0 };
    bytes[1] = flags;
    put_u32(&mut bytes, 16, itt);
    bytes
}

/// Sets the length of the data behind a header.
///
/// # Panics
/// If the length has more than 24 bits.
pub fn set_data_bytes(bytes: &mut Bhs, length: u32) {
    assert!(length < 1 << 24, "a segment's length has 24 bits");
    bytes[5..8].copy_from_slice(&length.to_be_bytes()[1..]);
}

pub(super) fn get_u16(bytes: &Bhs, at: usize) -> u16 {
    u16::from_be_bytes(take(bytes, at))
}

pub(super) fn get_u32(bytes: &Bhs, at: usize) -> u32 {
    u32::from_be_bytes(take(bytes, at))
}

pub(super) fn get_u64(bytes: &Bhs, at: usize) -> u64 {
    u64::from_be_bytes(take(bytes, at))
}

pub(super) fn take<const N: usize>(bytes: &Bhs, at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("within the header")
}

pub(super) fn put_u16(bytes: &mut Bhs, at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

pub(super) fn put_u32(bytes: &mut Bhs, at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

pub(super) fn put_u64(bytes: &mut Bhs, at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_be_bytes());
}
