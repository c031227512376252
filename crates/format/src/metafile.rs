//! The files with fixed ids that hold a file system's own metadata (B-14).
//!
//! Both kinds of file system, aggregate and volume, have the same set; only the aggregate has a
//! context map, and only a volume in which files share blocks a refcount file. The table says how
//! each file's leaves are interpreted.

use crate::{FileId, Layer};

/// The file of all inodes; its own inode is in the superblock.
pub const INODE_FILE: FileId = FileId(1);
/// One bit per block: in use by the active tree (Definition 1).
pub const ACTIVE_MAP: FileId = FileId(2);
/// Owns the old places of allocation metafile blocks until the next consistency point (E-08).
pub const OVERFLOW: FileId = FileId(3);
/// The best allocation areas (a cache, never trusted).
pub const TOP_AREAS: FileId = FileId(4);
/// Names of volumes (aggregate) or LUNs (volume).
pub const DIRECTORY: FileId = FileId(5);
/// Deleted files that still own blocks (B-16, E-11).
pub const HIDDEN: FileId = FileId(6);
/// Owner and tag of each block in use (aggregate only; replaces B-09).
pub const CONTEXT_MAP: FileId = FileId(7);
/// References to each block beyond the first (B-15). Only in volumes, and only while some block has
/// any: without it every block in use has one reference.
pub const REFCOUNTS: FileId = FileId(8);
/// Notes of administrators' programs ([`crate::notes`]); the file has no inode before the first
/// notes.
pub const NOTES: FileId = FileId(9);
/// First id of LUNs and containers.
pub const FIRST_FILE: FileId = FileId(64);

/// The layout of a metafile's leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaf {
    /// Starts with a header.
    Headed,
    /// 32,768 bits.
    Bitmap,
    /// 256 contexts of 16 bytes.
    Contexts,
    /// 2,048 counts of two bytes ([`crate::refcount`]).
    Counts,
    /// Blocks of any content that the file merely owns.
    Opaque,
}

/// One metafile.
#[derive(Clone, Copy, Debug)]
pub struct Metafile {
    /// Fixed id.
    pub id: FileId,
    /// Name for people.
    pub name: &'static str,
    /// Layout of its leaves.
    pub leaf: Leaf,
    /// Exists only in aggregates.
    pub aggregate_only: bool,
    /// Exists only where it has anything to say.
    pub is_optional: bool,
}

impl Metafile {
    /// True if a file system of this kind may have it.
    #[must_use]
    pub fn is_of(&self, layer: Layer) -> bool {
        match layer {
            Layer::Aggregate => self.id != REFCOUNTS,
            Layer::Volume => !self.aggregate_only,
        }
    }
}

/// Every metafile that may have an inode in the inode file, in the order of their ids.
pub const METAFILES: [Metafile; 8] = [
    Metafile {
        id: ACTIVE_MAP,
        name: "active map",
        leaf: Leaf::Bitmap,
        aggregate_only: false,
        is_optional: false,
    },
    Metafile {
        id: OVERFLOW,
        name: "overflow file",
        leaf: Leaf::Opaque,
        aggregate_only: false,
        is_optional: false,
    },
    Metafile {
        id: TOP_AREAS,
        name: "top areas",
        leaf: Leaf::Headed,
        aggregate_only: false,
        is_optional: false,
    },
    Metafile {
        id: DIRECTORY,
        name: "directory",
        leaf: Leaf::Headed,
        aggregate_only: false,
        is_optional: false,
    },
    Metafile {
        id: HIDDEN,
        name: "hidden namespace",
        leaf: Leaf::Headed,
        aggregate_only: false,
        is_optional: false,
    },
    Metafile {
        id: CONTEXT_MAP,
        name: "context map",
        leaf: Leaf::Contexts,
        aggregate_only: true,
        is_optional: false,
    },
    Metafile {
        id: REFCOUNTS,
        name: "refcount file",
        leaf: Leaf::Counts,
        aggregate_only: false,
        is_optional: true,
    },
    Metafile {
        id: NOTES,
        name: "notes",
        leaf: Leaf::Headed,
        aggregate_only: true,
        is_optional: true,
    },
];
