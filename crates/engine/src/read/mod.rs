//! Reading: from a pointer to the page it names.
//!
//! [`load`] is the load phase of every handler, [`walk`] follows pointers from a committed root,
//! [`shortcuts`] remembers the level-1 blocks that walks found, and [`redirects`] finds a block
//! that moved since its pointer was written. Nothing here knows aggregates or volumes: a
//! [`load::LoadCx`] resolves its pointers.

#[cfg(test)]
pub(crate) mod fixture;
pub(crate) mod load;
pub(crate) mod redirects;
pub(crate) mod root;
pub(crate) mod shortcuts;
pub(crate) mod walk;
