//! Behaviour of the crate, seen from the other end of the connection.

#![expect(clippy::unwrap_used, reason = "all of this is tests")]

mod administration;
mod admitting;
mod codec;
mod connecting;
mod discovery;
mod durability;
mod errors;
mod events;
mod fused;
mod garbage;
mod host;
mod memory;
mod moving;
mod pdu;
mod random;
mod recorder;
mod refusals;
mod reservations;
mod transfers;
