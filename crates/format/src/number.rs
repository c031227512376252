//! Block numbers and ids: newtypes that are never mixed.

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number!(
    /// Physical block number: a block of an aggregate. 40 bits on media; 0 is never a block.
    Pvbn(u64)
);
number!(
    /// Virtual block number: a block of a volume, which is the offset of a block in its container
    /// file. 40 bits on media; 0 is never a block.
    Vvbn(u64)
);
number!(
    /// Block number inside a file.
    Fbn(u64)
);
number!(
    /// Block number on a drive.
    Dbn(u64)
);
number!(
    /// A file of one file system; a volume's id is the id of its container file. Never reused.
    FileId(u32)
);
number!(
    /// A snapshot of one volume, from 1 on. Never reused.
    SnapshotId(u32)
);
number!(
    /// Number of a consistency point; 48 bits on media. The first one that commits is 1.
    CpNumber(u64)
);

impl CpNumber {
    /// The consistency point after this one.
    #[must_use]
    pub fn next(self) -> CpNumber {
        CpNumber(self.0 + 1)
    }
}

/// Bits of a block number on media.
pub const NUMBER_BITS: u32 = 40;
/// The largest allocatable block number plus 1: the top 16 are reserved.
pub const NUMBER_END: u64 = (1 << NUMBER_BITS) - 16;
