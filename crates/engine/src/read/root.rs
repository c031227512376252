//! The root of a committed tree. Following its pointers is in [`crate::read::walk`].

use everglade_format::Pointer;

/// Where a committed tree begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Root {
    pub(crate) pointer: Pointer,
    pub(crate) levels: u8,
}
