//! Fields of messages: little-endian numbers at fixed places.

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array_at(bytes, at))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, at))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, at))
}

/// Returns the `N` bytes at `at`. The places are constants within messages of fixed sizes.
pub(crate) fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    *bytes[at..].first_chunk().expect("a field of the message")
}

/// Writes a field.
pub(crate) fn put(bytes: &mut [u8], at: usize, field: &[u8]) {
    bytes[at..at + field.len()].copy_from_slice(field);
}

/// Writes a text that is padded with `fill`, cut to `length` bytes.
pub(crate) fn put_text(bytes: &mut [u8], at: usize, length: usize, text: &str, fill: u8) {
    let field = &mut bytes[at..at + length];
    field.fill(fill);
    let count = text.len().min(length);
    field[..count].copy_from_slice(&text.as_bytes()[..count]);
}
