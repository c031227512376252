//! Block trees (B-04): reading the committed ones, and changing them in a consistency point.
//!
//! A file is a root pointer and a number of levels. Block `i` of level `l` covers leaves
//! `i × 255^l …`; its child in slot `s` is block `i × 255 + s` of level `l − 1`.
//! [`crate::read::walk`] follows pointers from a committed root, for clients;
//! [`crate::read::shortcuts`] remembers the level-1 blocks that it found. [`mod@file`] holds a
//! file's blocks that were changed in the running consistency point; only the consistency point
//! touches it ("only cleaners write indirect blocks", docs/design/design.md §6), so clients never
//! see half a change: they see a committed root plus overlays.

mod changed;
pub(crate) mod file;
pub(crate) mod names;
pub(crate) mod notes;
pub(crate) mod position;

pub(crate) use crate::tree::file::{Content, File, Lost};
