//! The built binary as a real process: usage, exit codes, and real clients against a real server.

mod clients;
mod refusals;
mod running;
mod tools;
mod usage;
mod verifying;
mod wire;
