//! Behaviour of the crate, seen from the other end of the connection.

#![expect(clippy::unwrap_used, reason = "all of this is tests")]

mod codec;
mod commands;
mod data;
mod held;
mod host;
mod initiator;
mod logins;
mod memory;
mod real_clients;
