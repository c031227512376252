//! RAID: groups of drives that survive the loss of one, two or three of them (L-01).
//!
//! A group has data columns and at most three parity columns, each on a drive of its own. Block *d*
//! of every drive belongs to stripe *d*: one block for each column. A stripe is coded by itself, so
//! a group grows by a zeroed drive without any other change.
//!
//! | module | what |
//! | --- | --- |
//! | [`code`] | computes parity, and reconstructs lost columns |
//! | [`plan`] | says what a write of a part of a stripe has to read |
//! | [`Stripe`] | computes the parity of such a write |
//! | [`tetris`] | the same for many stripes at once: blocks in, runs for each drive out |
//! | [`recovery`] | finds the right content of a block though other columns may be wrong, too |
//!
//! All of this knows blocks of memory only: no drives, no block numbers of an aggregate, no tags.

pub mod code;
mod columns;
pub mod plan;
pub mod recovery;
mod stripe;
pub mod tetris;

pub use code::{Block, Code, TooManyLost};
pub use columns::Columns;
pub use plan::Plan;
pub use recovery::Recovery;
pub use stripe::Stripe;
pub use tetris::Tetris;
