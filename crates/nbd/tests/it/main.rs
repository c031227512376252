//! Behaviour of the crate, seen from the other end of the connection.

#![expect(clippy::unwrap_used, reason = "all of this is tests")]

mod bounds;
mod callers;
mod chunks;
mod codec;
mod contexts;
mod extended;
mod fragments;
mod garbage;
mod handshake;
#[path = "../../../target/tests/support/held.rs"]
mod held;
mod host;
mod memory;
mod moving;
mod ordering;
mod peer;
mod real_clients;
mod refusals;
mod reservations;
mod starttls;
mod table;
mod transmission;
