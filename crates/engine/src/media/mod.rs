//! Media: everything between a block number of an aggregate and its devices.
//!
//! [`devices`] finds the place of a block, [`writer`] collects and sorts the writes of a
//! consistency point, [`share`] limits how much of the devices a consistency point may use,
//! [`host`] tracks the space of the host, and [`heal`] repairs superblock copies that an
//! interrupted commit left behind.

pub(crate) mod devices;
pub(crate) mod heal;
pub(crate) mod host;
pub(crate) mod share;
pub(crate) mod writer;

pub(crate) use crate::media::devices::{Media, Place};
