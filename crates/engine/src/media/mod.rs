//! Media: everything between a block number of an aggregate and its devices.
//!
//! [`layout`] knows the devices and finds the places of a block, [`devices`] replaces the layout
//! while reactors use it, [`copies`] notes what one drive of a mirror had wrong, [`next`] is a
//! layout that is about to take effect, [`writer`] collects and sorts the writes of a consistency
//! point, [`share`] limits how much of the devices a consistency point may use, [`host`] tracks the
//! space of the host, [`reserve`] says how much is kept back, and [`heal`] repairs superblock
//! copies that an interrupted commit left behind.

pub(crate) mod copies;
pub(crate) mod devices;
pub(crate) mod heal;
pub(crate) mod host;
pub(crate) mod layout;
pub(crate) mod next;
pub(crate) mod pace;
pub(crate) mod reserve;
pub(crate) mod share;
pub(crate) mod writer;

pub(crate) use crate::media::devices::Media;
pub(crate) use crate::media::layout::{Layout, Place};
