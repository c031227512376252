//! Background passes: work that follows a request after it was answered, a little in each
//! consistency point.
//!
//! [`shrink`] frees the blocks of deleted files and starts every other pass, [`scan`] folds and
//! deletes snapshots, [`split`] copies a clone's base, [`lun_clone`] shares a LUN's blocks with its
//! clone.

pub(crate) mod lun_clone;
pub(crate) mod scan;
pub(crate) mod shrink;
pub(crate) mod split;
