//! Behaviour of the real world. What concerns device I/O runs over every way of doing it that the
//! host allows.
#![expect(clippy::unwrap_used, reason = "tests")]

mod conformance;
mod devices;
mod rig;
mod waiting;
