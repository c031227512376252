//! Allocation: which block numbers a consistency point takes and frees.
//!
//! [`active_map`] holds the truth (one bit per block, safe and current copies), [`cursor`] hands
//! out numbers chunk by chunk from one area at a time, and [`blocks`] joins the two layers: a block
//! of a volume takes a vvbn and a pvbn, and freeing it punches the container before the pvbn is
//! freed (G-01). [`supply`] holds the numbers that a cleaner has taken out of the stock. [`rows`]
//! fills the data columns of a parity group together, and [`lent`] keeps areas that are being
//! emptied from cursors. [`references`] counts the references to blocks that leaves share, and
//! [`tags`] says what a block must hold. [`crate::media::host`] says when a new area is better than
//! the rest of an old one.
//!
//! | question | decided by |
//! | --- | --- |
//! | may a number be given out? | `blocks`: `FileSystem::first_free` |
//! | does a block that the active image lets go become free? | [`blocks::free_virtual`] |
//! | do blocks of a deleted snapshot become free? | [`crate::background::scan`], by [`crate::holders::count`] |

pub(crate) mod active_map;
pub(crate) mod blocks;
pub(crate) mod cursor;
pub(crate) mod filesystem;
#[cfg(test)]
pub(crate) mod fixture;
pub(crate) mod lent;
pub(crate) mod named;
pub(crate) mod references;
pub(crate) mod rows;
pub(crate) mod supply;
pub(crate) mod tags;

pub(crate) use crate::alloc::cursor::Cursor;
