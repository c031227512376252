//! Journal: what clients did since the last consistency point, on stable media before it is
//! promised. Implements C-01, C-02 and the reading half of C-08 (docs/design/design.md §5).
//!
//! Sans I/O: [`Journal`] decides the place of each write, [`Group`] makes the bytes, [`Scan`] reads
//! them back; the owner of the devices does the I/O. The crate has no clock, lock or thread.
//!
//! # The region
//!
//! One run of blocks of a member, written with zeroes when the aggregate is created, in two
//! *halves*. The operations that join one consistency point are a *generation*; generation g is
//! logged in half g mod 2. A freeze ends a generation and begins the next, in the other half; the
//! commit frees the half of the one before. So the log never wraps around inside a half, and
//! nothing is ever erased.
//!
//! ```text
//! superblock: generation 6, sequence 100
//! half 0  | 6: 100–198 | 6: 199–240 | leftovers of generation 4 …
//! half 1  | 7: 241–300 | leftovers of generation 5 …
//! ```
//!
//! # What a reader accepts
//!
//! The longest gapless prefix (`scan`): records that follow each other without a hole, from the
//! superblock's generation and sequence on, first in its half, then in the other.
//!
//! 1. Sequences are consecutive across records and generations; a sequence is taken in the modify
//!    phase, so the order of the log is the order in which clients saw things happen.
//! 2. Each record names the code of the one before, and all are of one *life* (a random number of
//!    each mount). So leftovers never continue a chain, even where a life before logged the same
//!    sequences.
//! 3. A mount that found anything of the superblock's two generations, whole or not
//!    ([`ScanSummary::has_traces`]), commits a consistency point that begins two generations later
//!    before it logs anything. Otherwise a header whose payload never arrived could come to life
//!    when a later mount happens to write equal pages in the right place, after clients saw that it
//!    was gone.
//! 4. A header's code and the code of each payload page are checked before anything is believed.
//!
//! # Crash argument
//!
//! An operation is *durable* when a consistency point has it or when the group it is in, and hence
//! all groups before, is on stable media. Only one group is in flight; whatever part of it a power
//! cut leaves, the groups before are whole and adjacent, so the prefix has every durable operation.
//! If the cut falls between the superblock of a consistency point and [`Journal::commit`], the
//! superblock's own position skips what it contains. Until that superblock is on media no record
//! goes into the half of the generation before the one being committed (asserted in
//! [`Journal::begin`]), so both halves hold what the old superblock needs.

mod entry;
mod group;
mod log;
mod scan;
mod settings;

pub use crate::entry::{Action, Entry};
pub use crate::group::{Finished, Group, GroupWrite, page_code};
pub use crate::log::{Journal, Position};
pub use crate::scan::{End, Scan, ScanSummary};
pub use crate::settings::Settings;

/// Most pages of one read or write: what `env` carries in one piece.
pub const RUN_BLOCKS: u64 = 256;
