//! Mounting: from devices to an aggregate at home.
//!
//! [`create`] makes an aggregate, [`labels`] finds the devices that belong together and the newest superblock, and
//! [`mounting`] reads an aggregate's metadata.

pub(crate) mod create;
pub(crate) mod labels;
pub(crate) mod mounting;
pub(crate) mod search;
