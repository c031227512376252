//! Mounting: from devices to an aggregate and its home.
//!
//! [`create`] makes an aggregate, [`records`] reads the labels of a device, [`labels`] finds the
//! devices that belong together and the newest superblock, [`members`] says whether enough of them
//! are there, [`lost`] deals with segment files that went away, [`mounting`] reads an aggregate's
//! metadata, [`opening`] says what is particular about it, [`raid_log`] makes parity right after a
//! crash, [`copies`] writes lost copies of labels anew, [`growth`] writes the labels of the next
//! epoch, [`expansion`] makes drives ready for aggregates of groups, and [`replacement`] makes one
//! ready that gets the seat of another drive; [`wanted`] says what they are asked for,
//! [`grow_error`] why they cannot.

pub(crate) mod copies;
pub(crate) mod create;
pub(crate) mod expansion;
pub(crate) mod grow_error;
pub(crate) mod growth;
pub(crate) mod labels;
pub(crate) mod lost;
pub(crate) mod members;
pub(crate) mod mounting;
pub(crate) mod opening;
pub(crate) mod raid_log;
pub(crate) mod records;
pub(crate) mod refusal;
pub(crate) mod replacement;
pub(crate) mod search;
pub(crate) mod wanted;
