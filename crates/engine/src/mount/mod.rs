//! Mounting: from devices to an aggregate and its home.
//!
//! [`create`] makes an aggregate, [`labels`] finds the devices that belong together and the newest
//! superblock, [`mounting`] reads an aggregate's metadata, and [`copies`] writes lost copies of
//! labels anew.

pub(crate) mod copies;
pub(crate) mod create;
pub(crate) mod labels;
pub(crate) mod mounting;
pub(crate) mod search;
