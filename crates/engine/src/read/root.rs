//! The root of a committed tree. Following its pointers is in [`crate::read::walk`].

use everglade_format::Pointer;

/// The root of a committed tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Root {
    pub(crate) pointer: Pointer,
    pub(crate) levels: u8,
}

impl Root {
    /// The root of a tree without blocks.
    pub(crate) const EMPTY: Root = Root {
        pointer: Pointer::HOLE,
        levels: 0,
    };
}
