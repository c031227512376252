//! Who may use which LUN, as sessions ask (decision 0047).
//!
//! Administrators describe *hosts* by what their connections look like ([`Identifier`]), put them
//! into *groups*, and *map* LUNs to hosts and groups. The book of the pools keeps all that
//! (`schedule::access`). It is published here as one table that is replaced whole, so a question is
//! answered from one state of the book, and never waits for a change of it.
//!
//! 1. A LUN that is mapped is for the hosts that it is mapped to, and does not exist for others. So
//!    do its images in snapshots.
//! 2. A LUN that is not mapped is for clients of this machine: those at the Unix socket, and those
//!    whose address is a loopback one.
//! 3. A line of an allow-list in the configuration adds to this: the clients that it names may use
//!    the LUN, whether it is mapped or not. A LUN that a line names, and that is not mapped, is for
//!    the clients of the line alone.
//! 4. Rules hold for sessions that are open, too: a session that they no longer admit ends within
//!    seconds.
//! 5. A pool whose book cannot be read has no mappings here, so other machines do not see its LUNs.

mod gate;
mod identifier;

pub use gate::{Gate, Table, Terms};
pub use identifier::{Identifier, NotAnIdentifier};
