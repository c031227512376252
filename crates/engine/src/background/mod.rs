//! Background passes: work that follows a request after it was answered, a little in each
//! consistency point.
//!
//! [`pass`] is the shape that they have, and [`turns`] gives each its turn. [`shrink`] frees the
//! blocks of deleted files, [`scan`] folds and deletes snapshots, [`split`] copies a clone's base,
//! [`lun_clone`] shares a LUN's blocks with its clone. The [`mover`] moves blocks:
//! [`evacuation`] out of areas, [`removal`] out of members that leave, [`layout`] into the order of
//! a LUN.

pub(crate) mod after_read;
pub(crate) mod evacuation;
pub(crate) mod layout;
pub(crate) mod lun_clone;
mod mover;
pub(crate) mod order;
pub(crate) mod pass;
pub(crate) mod removal;
pub(crate) mod scan;
pub(crate) mod shrink;
pub(crate) mod space_map;
pub(crate) mod split;
pub(crate) mod turns;
