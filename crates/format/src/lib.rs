//! Bytes on media: encode, decode, validate. No I/O.
//!
//! The byte tables are in `docs/design/on-disk-format.md`; each file here holds the codec of one
//! structure. Decoders accept any bytes and return [`Damage`] when they make no sense; nothing read
//! here may reach an index or an assertion unchecked. All integers are little-endian.

pub mod bitmap;
pub mod bytes;
pub mod config;
pub mod context;
pub mod damage;
pub mod directory;
pub mod geometry;
pub mod identity;
pub mod indirect;
pub mod inode;
pub mod journal;
pub mod label;
pub mod metafile;
pub mod notes;
pub mod number;
pub mod pointer;
pub mod raid_log;
pub mod refcount;
pub mod release;
pub mod seat;
pub mod snapshot;
pub mod superblock;
pub mod tag;
pub mod topaa;
pub mod volume;

pub use config::{Config, Extent, Member};
pub use context::{Context, Owner};
pub use damage::Damage;
pub use directory::{Directory, Entry, EntryKind};
pub use geometry::Geometry;
pub use indirect::{Header, Indirect, IndirectMut};
pub use inode::{Inode, Kind};
pub use number::{CpNumber, Dbn, Fbn, FileId, Pvbn, SnapshotId, Vvbn};
pub use pointer::{Layer, Pointer};
pub use seat::{Removal, Role, Seat, SeatState};
pub use snapshot::SnapshotRecord;
pub use superblock::Superblock;
pub use tag::{Tag, TagKey};
pub use topaa::TopAreas;
pub use volume::VolumeSuperblock;

/// Bytes in a block (B-03).
pub const BLOCK_SIZE: usize = 4096;
/// A block's bytes.
pub type Block = [u8; BLOCK_SIZE];
/// Children of an indirect block (B-06).
pub const SPAN: u64 = 255;
/// Bits in one block of a bitmap metafile.
pub const BITS_PER_BLOCK: u64 = 32_768;
/// Version of the format that this code reads and writes. It is frozen (decision 0018); 0 was what
/// builds from before wrote.
pub const FORMAT_VERSION: u32 = 1;
