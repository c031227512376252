//! Little-endian fields at named offsets.

/// Reads the `N` bytes at `offset`.
#[must_use]
pub fn array_at<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[offset..offset + N]);
    out
}

/// Reads a 16-bit integer.
#[must_use]
pub fn u16_at(bytes: &[u8], offset: usize) -> u16 {
    u16::from_le_bytes(array_at(bytes, offset))
}

/// Reads a 32-bit integer.
#[must_use]
pub fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, offset))
}

/// Reads a 64-bit integer.
#[must_use]
pub fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, offset))
}

/// Reads a 128-bit integer.
#[must_use]
pub fn u128_at(bytes: &[u8], offset: usize) -> u128 {
    u128::from_le_bytes(array_at(bytes, offset))
}

/// Writes `value` at `offset`.
pub fn put<const N: usize>(bytes: &mut [u8], offset: usize, value: [u8; N]) {
    bytes[offset..offset + N].copy_from_slice(&value);
}

/// The low `bits` of `value`.
#[must_use]
pub fn low_bits(value: u128, bits: u32) -> u64 {
    // The mask leaves at most 64 bits.
    #[expect(clippy::cast_possible_truncation, reason = "masked to at most 64 bits")]
    let low = (value & ((1u128 << bits) - 1)) as u64;
    low
}
