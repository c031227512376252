//! iSCSI without I/O: it takes and returns bytes, and submits operations to a
//! [`everglade_target::Target`].
//!
//! The texts: RFC 7143 for the transport; SPC-4 and SBC-3 for the commands; cited by section.
//!
//! | module | what |
//! | --- | --- |
//! | [`wire`] | messages as bytes, without state |
//! | [`names`] | names of targets, made from names of LUNs |
//! | [`login`] | who connects, to what, on which terms |
//! | [`scsi`] | commands of a disk: what they ask, and the answers that need no storage |
//!
//! Each LUN is a target of its own, and its logical unit is number 0 (decision 0042).

pub mod login;
pub mod names;
pub mod scsi;
pub mod wire;
