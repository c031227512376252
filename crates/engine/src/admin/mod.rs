//! Administration: the changes of operators, executed in the freeze of a consistency point.

pub(crate) mod clone;
pub(crate) mod devices;
pub(crate) mod execute;
pub(crate) mod garden;
pub(crate) mod lun;
pub(crate) mod notes;
pub(crate) mod removal;
pub(crate) mod rename;
pub(crate) mod snapshot;
pub(crate) mod trash;
pub(crate) mod volume;

pub use crate::change::{Change, EarlierScrub, Error};
