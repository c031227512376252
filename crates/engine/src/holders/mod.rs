//! Holders: which images of a volume hold a block, and what a free must do because of them.
//!
//! | file | what |
//! | --- | --- |
//! | [`history`] | who descends from whom |
//! | [`table`] | the snapshots' records, in memory and on media |
//! | [`snapmap`] | a snapshot's own active map |
//! | [`held`] | what a block of the active map needs to know before it changes |
//! | [`plan`], [`count`] | who gains and loses blocks when a snapshot goes |

pub(crate) mod alone;
pub(crate) mod count;
pub(crate) mod fold;
pub(crate) mod held;
pub(crate) mod history;
pub(crate) mod images;
pub(crate) mod lun_clone;
pub(crate) mod lun_restore;
pub(crate) mod plan;
pub(crate) mod snapmap;
pub(crate) mod table;
