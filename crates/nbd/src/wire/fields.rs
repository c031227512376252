//! Reading fixed-size big-endian fields off the front of a message.

/// Takes `N` bytes off the front of `rest`; `None` if there are fewer.
pub(crate) fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (field, after) = rest.split_first_chunk::<N>()?;
    *rest = after;
    Some(*field)
}

pub(crate) fn take_u16(rest: &mut &[u8]) -> Option<u16> {
    take(rest).map(u16::from_be_bytes)
}

pub(crate) fn take_u32(rest: &mut &[u8]) -> Option<u32> {
    take(rest).map(u32::from_be_bytes)
}

pub(crate) fn take_u64(rest: &mut &[u8]) -> Option<u64> {
    take(rest).map(u64::from_be_bytes)
}

/// Takes `count` bytes off the front of `rest`; `None` if there are fewer.
pub(crate) fn take_bytes<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (field, after) = rest.split_at_checked(count)?;
    *rest = after;
    Some(field)
}

/// Checks a string of the protocol: UTF-8, no NUL, not too long (proto "Conventions").
pub(crate) fn string(bytes: &[u8]) -> Option<&str> {
    if bytes.len() > super::STRING_BYTES_MAX || bytes.contains(&0) {
        return None;
    }
    std::str::from_utf8(bytes).ok()
}
