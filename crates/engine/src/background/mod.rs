//! Background passes: work that follows a request after it was answered, a little in each
//! consistency point.
//!
//! [`pass`] is the shape that they have, and [`turns`] gives each its turn. [`shrink`] frees the
//! blocks of deleted files, [`scan`] folds and deletes snapshots, [`split`] copies a clone's base,
//! [`lun_clone`] shares a LUN's blocks with its clone.

pub(crate) mod lun_clone;
pub(crate) mod pass;
pub(crate) mod scan;
pub(crate) mod shrink;
pub(crate) mod split;
pub(crate) mod turns;
