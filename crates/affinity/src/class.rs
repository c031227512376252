//! Classes of affinity: the levels of the tree of A-07, once as values and once as types.
//!
//! ```text
//! Serial ── Aggregate ─┬─ AggregateVbn ── Range
//!                      └─ Volume ─┬─ VolumeLogical ── Stripe
//!                                 └─ VolumeVbn ── Range
//! ```
//!
//! The value ([`Class`]) goes into counters and messages to people. The types let a function say
//! which class it needs, and let the compiler refuse a tree, a loan or an access that cannot be
//! right.

use std::fmt;

/// Level of a node in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// The root: excludes everything.
    Serial,
    /// One aggregate with all its volumes.
    Aggregate,
    /// Allocation metafiles of one aggregate.
    AggregateVbn,
    /// One volume.
    Volume,
    /// Client data of one volume.
    VolumeLogical,
    /// Allocation metafiles of one volume.
    VolumeVbn,
    /// File stripes of one volume that rotate onto the same place.
    Stripe,
    /// A range of blocks of each allocation metafile (A-09).
    Range,
}

impl Class {
    /// Number of classes.
    pub const COUNT: usize = 8;

    /// All classes, each at the index `class as usize`.
    pub const ALL: [Class; Class::COUNT] = [
        Class::Serial,
        Class::Aggregate,
        Class::AggregateVbn,
        Class::Volume,
        Class::VolumeLogical,
        Class::VolumeVbn,
        Class::Stripe,
        Class::Range,
    ];

    /// Name in metrics and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Class::Serial => "serial",
            Class::Aggregate => "aggregate",
            Class::AggregateVbn => "aggregate_vbn",
            Class::Volume => "volume",
            Class::VolumeLogical => "volume_logical",
            Class::VolumeVbn => "volume_vbn",
            Class::Stripe => "stripe",
            Class::Range => "range",
        }
    }

    /// Leaves have no children and can be entered without a lock.
    #[must_use]
    pub fn is_leaf(self) -> bool {
        matches!(self, Class::Stripe | Class::Range)
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A class as a type.
pub trait Kind: sealed::Sealed + 'static {
    /// The same class as a value.
    const CLASS: Class;
}

/// `Self` is the class of the direct parents of affinities of class `C`.
pub trait ParentOf<C: Kind>: Kind {}

/// An affinity of class `Self` may be, or be an ancestor of, one of class `C`.
pub trait Contains<C: Kind>: Kind {}

mod sealed {
    pub trait Sealed {}
}

macro_rules! kinds {
    ($($kind:ident: $parent_of:tt, $contains:tt;)*) => {
        $(
            #[doc = concat!("[`Class::", stringify!($kind), "`] as a type.")]
            #[derive(Debug)]
            pub enum $kind {}
            impl sealed::Sealed for $kind {}
            impl Kind for $kind {
                const CLASS: Class = Class::$kind;
            }
            impl Contains<$kind> for $kind {}
            kinds!(@each ParentOf $kind $parent_of);
            kinds!(@each Contains $kind $contains);
        )*
    };
    (@each $relation:ident $outer:ident [$($inner:ident)*]) => {
        $(impl $relation<$inner> for $outer {})*
    };
}

kinds! {
    Serial: [Aggregate], [Aggregate AggregateVbn Volume VolumeLogical VolumeVbn Stripe Range];
    Aggregate: [AggregateVbn Volume], [AggregateVbn Volume VolumeLogical VolumeVbn Stripe Range];
    AggregateVbn: [Range], [Range];
    Volume: [VolumeLogical VolumeVbn], [VolumeLogical VolumeVbn Stripe Range];
    VolumeLogical: [Stripe], [Stripe];
    VolumeVbn: [Range], [Range];
    Stripe: [], [];
    Range: [], [];
}
