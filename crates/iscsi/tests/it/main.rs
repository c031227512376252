//! Behaviour of the crate, seen from the other end of the connection.

#![expect(clippy::unwrap_used, reason = "all of this is tests")]

mod host;
mod real_clients;
