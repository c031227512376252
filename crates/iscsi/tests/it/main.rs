//! Behaviour of the crate, seen from the other end of the connection.

#![expect(clippy::unwrap_used, reason = "all of this is tests")]

mod codec;
mod commands;
mod data;
#[expect(dead_code, reason = "the tests of NBD need all of it")]
#[path = "../../../target/tests/support/held.rs"]
mod held;
mod host;
mod initiator;
mod logins;
mod memory;
mod real_clients;
