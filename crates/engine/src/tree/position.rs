//! The position of a block in its file.

/// Level and index of a block in its file.
pub(crate) type Position = (u8, u64);
