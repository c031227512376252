//! Torture: the real server, killed and robbed of its power under load, and the load that knows
//! what it may find afterwards (docs/design/design.md §11).
//!
//! * [`client`]: NBD, pipelined. · [`load`]: random requests on many connections.
//! * [`stamp`]: contents that say which version they are. · [`history`]: what a crash may leave.
//! * [`rig`]: the server as a process, and a device whose power can be cut.
//! * [`run`]: rounds of all that. · [`mod@bench`]: the same client as a load generator. ·
//!   [`versus`]: the server against its peers. · [`oltp`]: the load of a database.
//!
//! Nothing of ours is in here but this, not even the codec of the protocol, so that it can be wrong
//! only in its own ways.

pub mod bench;
pub mod client;
mod failure;
pub mod history;
pub mod load;
pub mod oltp;
mod random;
pub mod rig;
pub mod run;
pub mod stamp;
pub mod verify;
pub mod versus;

pub use failure::Failure;
pub use random::Random;
pub use run::Tally;
