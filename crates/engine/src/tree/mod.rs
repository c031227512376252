//! Block trees (B-04): reading the committed ones, and changing them in a consistency point.
//!
//! A file is a root pointer and a number of levels. Block `i` of level `l` covers leaves
//! `i × 255^l …`; its child in slot `s` is block `i × 255 + s` of level `l − 1`. [`walk`] follows pointers
//! from a committed root and is what clients use; [`shortcuts`] remembers where it led. [`file`] holds a file's blocks that were changed in
//! the running consistency point; only the consistency point touches it ("only cleaners write indirect
//! blocks", docs/design/design.md §6), so clients never see half a change: they see a committed
//! root plus overlays.

mod blocks;
pub(crate) mod file;
mod shortcuts;
pub(crate) mod walk;

pub(crate) use file::{Content, File, Lost};
pub(crate) use shortcuts::Shortcuts;
pub(crate) use walk::Root;
