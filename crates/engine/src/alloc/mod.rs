//! Allocation: which block numbers a consistency point takes and frees.
//!
//! [`active_map`] holds the truth (one bit per block, safe and current copies), [`cursor`] hands
//! out numbers chunk by chunk from one area at a time, and [`blocks`] joins the two layers: a block
//! of a volume takes a vvbn and a pvbn, and freeing it punches the container before the pvbn is
//! freed (G-01). [`references`] counts the leaves that share a block. [`crate::media::host`] says
//! when a new area is better than the rest of an old one.

pub(crate) mod active_map;
pub(crate) mod blocks;
pub(crate) mod cursor;
pub(crate) mod filesystem;
pub(crate) mod named;
pub(crate) mod references;

pub(crate) use crate::alloc::cursor::Cursor;
